"""Property files as they are published: read, with all that is not used listed once."""

import os
import warnings
from pathlib import Path

import pytest

from sync.errors import ConfigError
from tandem.machines.car.tyres.tir import AsPublished, SignOfPTX3, parse_tir, read_tir, tyre_vector, vector_from
from tests.tandem.machines.car.tyres.samples import FULL, written

OURS = Path(__file__).resolve().parents[4] / "data" / "real" / "tyres"
VERSIONS = {
    "MagicFormula52_Parameters": "MF 5.2", "MagicFormula61_Parameters": "MF 6.1", "MagicFormula62_Parameters": "MF 6.2",
    "chrono_Generic_Pac02Tire": "PAC2002", "chrono_HMMWV_Pac02Tire": "PAC2002", "chrono_Sedan_Pac02Tire": "PAC2002",
    "chrono_mf_185_80R14": "PAC2002", "obfuscated": "MF 6.1", "obfuscated_v52": "MF 5.2",
}  # fmt: skip


def file(name: str) -> Path:
    """Of those that may not lie in the repository only where the environment says."""
    path = OURS / f"{name}.tir"
    if not path.exists():
        elsewhere = os.environ.get("TANDEM_REAL_DATA")
        if not elsewhere:
            pytest.skip("TANDEM_REAL_DATA is not set: the file is not here")
        path = Path(elsewhere) / "tyres" / f"{name}.tir"
    return path


@pytest.mark.parametrize("name", VERSIONS)
def test_a_published_file_is_read_and_what_is_not_used_is_listed_once(name: str) -> None:
    tir = read_tir(file(name), tolerant=True)
    assert tir.version == VERSIONS[name]
    assert len(set(tir.remarks)) == len(tir.remarks)
    if tir.lacks:
        assert tir.remarks[0] == f"{tir.name}: {tir.version}: no car can stand on it: no value of VERTICAL_STIFFNESS"
        with pytest.raises(ConfigError, match="no value of VERTICAL_STIFFNESS"):
            tyre_vector(tir)
    else:
        assert (tyre_vector(tir)[:20] < 1e12).all()


@pytest.mark.parametrize("name", ["MagicFormula52_Parameters", "chrono_Generic_Pac02Tire"])
def test_what_is_tolerated_is_refused_where_reading_is_strict(name: str) -> None:
    with pytest.raises(ConfigError, match="unknown key"):
        read_tir(file(name))


def test_every_key_that_is_not_used_is_named_with_its_value() -> None:
    (remark,) = (line for line in read_tir(file("MagicFormula52_Parameters"), tolerant=True).remarks)
    assert remark.endswith("MF 5.2 does not use, in [MODEL]: USER_SUB_ID = 815, N_TIRE_STATES = 4")


def test_a_factor_on_the_stiffness_counts() -> None:
    assert read_tir(file("chrono_HMMWV_Pac02Tire"), tolerant=True)["VERTICAL_STIFFNESS"] == pytest.approx(
        0.4419 * _number(file("chrono_HMMWV_Pac02Tire"), "VERTICAL_STIFFNESS")
    )


def _number(path: Path, key: str) -> float:
    (line,) = (line for line in path.read_text().splitlines() if line.startswith(f"{key} "))
    return float(line.split("=")[1].split("$")[0])


def test_a_range_of_loads_that_a_tyre_does_not_bear_is_narrowed_with_a_remark() -> None:
    tir = read_tir(file("chrono_HMMWV_Pac02Tire"), tolerant=True)
    assert tir["FZMAX"] < 78750.0
    assert any("FZMAX = 78750 N: taken as" in line and "PKX2 leaves no grip" in line for line in tir.remarks)


@pytest.mark.parametrize(
    ("old", "new", "remark"),
    [
        ("PEX3 = 0.06", "PEX3 = -1.1e-14", "taken as 0: PEX3 = -1.1e-14"),
        ("PEX3 = 0.06", "PEX3 =", "without a value, taken as absent: PEX3"),
        ("PEX3 = 0.06", "PEX33 = 0.06", "does not use, in [LONGITUDINAL_COEFFICIENTS]: PEX33 = 0.06"),
        ("[MODEL]", "[INERTIA]\nMASS = kg\n[MODEL]", "does not use, in [INERTIA]: MASS = kg"),
        ("PEX3 = 0.06", "PEX3 = 0.06\nPEX3 = 0.06", ""),
        ("'PAC2002'", "'USER'\nFITTYP = 6", ""),
    ],
)
def test_what_is_unambiguous_is_accepted_with_a_remark(old: str, new: str, remark: str) -> None:
    text = written(FULL)
    assert old in text
    changed = text.replace(old, new, 1)
    tir = parse_tir(changed, "some.tir", tolerant=True)
    assert any(line.endswith(remark) for line in tir.remarks) or not remark
    if remark != "does not use, in [INERTIA]: MASS = kg":  # a section of others is skipped without a word
        with pytest.raises(ConfigError):
            parse_tir(changed, "some.tir")


@pytest.mark.parametrize(
    ("old", "new", "pattern"),
    [
        ("PEX3 = 0.06", "PEX3 = zero", r"PEX3 = 'zero': must be a number"),
        ("PEX3 = 0.06", "PEX3 = 0.06\nPEX3 = 0.07", r"PEX3 = '0.07': is there twice"),
        ("'PAC2002'", "'USER'", r"PROPERTY_FILE_FORMAT = 'USER': must be one of"),
        ("'PAC2002'", "'MF_05'\nFITTYP = 70", r"FITTYP = '70': must be 6 or 52, .* or 61 or 62"),
        ("PKY1 = -18.4", "PKY1 = 18.4", r"PKY1 = 18.4: must be below 0"),
        ("PEX3 = 0.06", "PEX3 = 1e999", r"PEX3 = '1e999': must be finite"),
    ],
)
def test_what_is_ambiguous_is_refused_tolerantly_too(old: str, new: str, pattern: str) -> None:
    with pytest.raises(ConfigError, match=pattern):
        parse_tir(written(FULL).replace(old, new, 1), "some.tir", tolerant=True)


class Sources:
    def __init__(self, name: str) -> None:
        self.files = {"tyre_front": file(name).read_bytes()}

    def name(self, key: str) -> str:
        return key


def test_a_car_that_asks_for_it_gets_one_warning_and_mf_6_is_refused_by_name() -> None:
    published = Sources("MagicFormula52_Parameters")
    with pytest.raises(ConfigError, match="USER_SUB_ID: unknown key"):
        vector_from(published, "tyre_front")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        vector_from(published, "tyre_front", tolerant=True)
    assert [warning.category for warning in seen] == [AsPublished, SignOfPTX3]
    with pytest.raises(ConfigError, match=r"tyre_front: is of MF 6.1; here it must be of PAC2002 or MF 5.2"):
        vector_from(Sources("MagicFormula61_Parameters"), "tyre_front", tolerant=True)
