"""Property files as they are published: read, with all that is not used listed once."""

import os
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

from sync.errors import ConfigError
from tandem.machines.car.tyres.keys import T
from tandem.machines.car.tyres.tir import (
    AsPublished,
    SignOfPTX3,
    parse_tir,
    read_tir,
    tyre_vector,
    vector_from,
    vectors_from,
)
from tests.tandem.machines.car.tyres.samples import FULL, written

OURS = Path(__file__).resolve().parents[4] / "data" / "real" / "tyres"
VERSIONS = {
    "MagicFormula52_Parameters": "MF 5.2", "MagicFormula61_Parameters": "MF 6.1", "MagicFormula62_Parameters": "MF 6.2",
    "chrono_Generic_Pac02Tire": "PAC2002", "chrono_HMMWV_Pac02Tire": "PAC2002", "chrono_Sedan_Pac02Tire": "PAC2002",
    "chrono_mf_185_80R14": "PAC2002", "obfuscated": "MF 6.1", "obfuscated_v52": "MF 5.2",
}  # fmt: skip

_SIX = [
    "[VERTICAL]: BOTTOM_OFFST = 0.01, BOTTOM_STIFF = 2e+06",
    "[INERTIA]: MASS = 17.451, IXX = 0.4, IYY = 0.7, BELT_MASS = 7, BELT_IXX = 0.34, BELT_IYY = 0.6, GRAVITY = -9.81",
    "[STRUCTURAL]: YAW_STIFFNESS = 5000, FREQ_LONG = 80, FREQ_LAT = 40, FREQ_YAW = 50, FREQ_WINDUP = 70, "
    "DAMP_LONG = 0.04, DAMP_LAT = 0.04, DAMP_YAW = 0.04, DAMP_WINDUP = 0.04, DAMP_RESIDUAL = 0.002, "
    "DAMP_VLOW = 0.001",
    "[CONTACT_PATCH]: Q_RA1 = 0.60147, Q_RA2 = 0.81974, Q_RB1 = 1.2648, Q_RB2 = -1.4057, ELLIPS_SHIFT = "
    "0.8, ELLIPS_LENGTH = 1, ELLIPS_HEIGHT = 1, ELLIPS_ORDER = 1.8",
]
_TRUCK = [
    "FZMAX = 78750 N: taken as 50163.1 N; PKX2 leaves no grip above it",
    "[MODEL]: BELT_DYNAMICS = NO, CONTACT_MODEL = DEFAULT",
    "[TIRE_CONDITIONS]: IP = 800000, IP_NOM = 800000",
    "[DIMENSION]: BOTTOMING_RADIUS",
    "[VERTICAL]: DYNAMIC_STIFFNESS, DYNAMIC_DAMPING",
    "[SCALING_COEFFICIENTS]: LKG = 1, LIP = 1",
    "[LONGITUDINAL_COEFFICIENTS]: PPX1, PPX2, PPX3, PPX4, PTX4 = 0.1",
    "[OVERTURNING_COEFFICIENTS]: QSX4, QSX5, QSX6, QSX7, QSX8, QSX9, QSX10, QSX11, QPX1",
    "[LATERAL_COEFFICIENTS]: PPY1, PPY2, PPY3, PPY4, PTY3",
    "[ROLLING_COEFFICIENTS]: QSY5, QSY6, QSY7, QSY8",
    "[ALIGNING_COEFFICIENTS]: QPZ1, QPZ2",
]
REMARKS = {  # values only of files that are here
    "MagicFormula52_Parameters": [
        "[MODEL]: USER_SUB_ID = 815, N_TIRE_STATES = 4",
    ],
    "MagicFormula61_Parameters": _SIX,
    "MagicFormula62_Parameters": _SIX,
    "chrono_Generic_Pac02Tire": _TRUCK,
    "chrono_HMMWV_Pac02Tire": _TRUCK,
    "chrono_Sedan_Pac02Tire": [
        "[ALIGNING_COEFFICIENTS]: QTZ1 = 0.2, MBELT = 5.4",
    ],
    "chrono_mf_185_80R14": [
        "[ALIGNING_COEFFICIENTS]: QTZ1 = 0.2, MBELT = 3.5",
    ],
    "obfuscated": [
        "MF 6.1: no car can stand on it: no value of VERTICAL_STIFFNESS",
        "Q_RE0; a tyre has a radius",
        "taken as 0: PEX1",
        "without a value, taken as absent: ROAD_INCREMENT, ROAD_DIRECTION, WIDTH, ASPECT_RATIO, RIM_RADIUS, "
        "RIM_WIDTH, INFLPRES, MASS, IXX, IYY, BELT_MASS, BELT_IXX, BELT_IYY, GRAVITY, VERTICAL_STIFFNESS, "
        "VERTICAL_DAMPING, MC_CONTOUR_A, MC_CONTOUR_B, BREFF, DREFF, FREFF, BOTTOM_OFFST, BOTTOM_STIFF, "
        "LONGITUDINAL_STIFFNESS, LATERAL_STIFFNESS, YAW_STIFFNESS, FREQ_LONG, FREQ_LAT, FREQ_YAW, "
        "FREQ_WINDUP, DAMP_LONG, DAMP_LAT, DAMP_YAW, DAMP_WINDUP, DAMP_RESIDUAL, DAMP_VLOW, ELLIPS_SHIFT, "
        "ELLIPS_LENGTH, ELLIPS_HEIGHT, ELLIPS_ORDER, ELLIPS_MAX_STEP, ELLIPS_NWIDTH, ELLIPS_NLENGTH, PRESMIN, "
        "PRESMAX, FZMIN, FZMAX, KPUMIN, KPUMAX, ALPMIN, ALPMAX, CAMMIN, CAMMAX",
    ],
    "obfuscated_v52": [
        "taken as 0: PEX1",
        "[OPERATING_CONDITIONS]: INFLPRES, NOMPRES",
        "[INERTIA]: MASS",
        "[VERTICAL]: Q_RE0, Q_V1, Q_V2, Q_FZ2, Q_FCX, Q_FCY, Q_CAM, PFZ1, Q_FCY2, Q_CAM1, Q_CAM2, Q_CAM3, "
        "Q_FYS1, Q_FYS2, Q_FYS3, BOTTOM_OFFST",
        "[STRUCTURAL]: LONGITUDINAL_STIFFNESS, LATERAL_STIFFNESS",
        "[CONTACT_PATCH]: Q_RA1, Q_RA2, Q_RB1, Q_RB2",
        "[INFLATION_PRESSURE_RANGE]: PRESMAX",
        "[SCALING_COEFFICIENTS]: LKYC, LKZC",
        "[LONGITUDINAL_COEFFICIENTS]: PPX1, PPX2, PPX3, PPX4, RBX3",
        "[OVERTURNING_COEFFICIENTS]: QSX4, QSX5, QSX6, QSX7, QSX8, QSX9, QSX10, QSX11, QSX12, QSX13, QSX14, PPMX1",
        "[LATERAL_COEFFICIENTS]: PEY5, PKY4, PKY5, PKY6, PKY7, PPY1, PPY2, PPY3, PPY4, PPY5, RBY4",
        "[ROLLING_COEFFICIENTS]: QSY5, QSY6, QSY7, QSY8",
        "[ALIGNING_COEFFICIENTS]: QDZ10, QDZ11, PPZ1, PPZ2",
    ],
}


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
    plain = [
        remark.replace(f"{tir.name}: ", "").replace(f"{tir.version} does not use, in ", "") for remark in tir.remarks
    ]
    if not (OURS / f"{name}.tir").exists():
        plain = [re.sub(r" = [^,;]*", "", remark) for remark in plain]
    assert plain == REMARKS[name]
    if tir.lacks:
        with pytest.raises(ConfigError, match="no value of VERTICAL_STIFFNESS"):
            tyre_vector(tir)
    vector = tyre_vector(tir, lacking=True)
    assert np.isfinite(vector).all()
    for key in ("FNOMIN", "UNLOADED_RADIUS", "PDX1", "PKY1"):
        assert vector[T[key]] == _number(file(name), key), key


@pytest.mark.parametrize("name", ["MagicFormula52_Parameters", "chrono_Generic_Pac02Tire"])
def test_what_is_tolerated_is_refused_where_reading_is_strict(name: str) -> None:
    with pytest.raises(ConfigError, match="unknown key"):
        read_tir(file(name))


def test_every_key_that_is_not_used_is_named_with_its_value() -> None:
    (remark,) = read_tir(file("MagicFormula52_Parameters"), tolerant=True).remarks
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
        self.files = dict.fromkeys(("tyre_front", "tyre_rear"), file(name).read_bytes())

    def name(self, key: str) -> str:
        return key


class Both(Sources):
    """One file for both axles."""

    def name(self, key: str) -> str:
        return "one.tir"


def test_a_car_that_asks_for_it_gets_one_warning_and_mf_6_with_pressure() -> None:
    published = Sources("MagicFormula52_Parameters")
    with pytest.raises(ConfigError, match="USER_SUB_ID: unknown key"):
        vector_from(published, "tyre_front")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        vector_from(published, "tyre_front", tolerant=True)
    assert [warning.category for warning in seen] == [AsPublished, SignOfPTX3]
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        front, rear = vectors_from(Both("MagicFormula52_Parameters"), ("tyre_front", "tyre_rear"), tolerant=True)
    assert len(seen) == 2 and (front == rear).all()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        six = vector_from(Sources("MagicFormula61_Parameters"), "tyre_front", tolerant=True)
    assert six[T.VERSION] == 61.0 and six[T.INFLPRES] == 260e3
