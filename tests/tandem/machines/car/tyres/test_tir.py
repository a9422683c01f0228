"""Tyre property files: what is read, what is refused and how that is said; nothing but `ConfigError` comes out."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sync.errors import ConfigError
from tandem.machines.car.tyres.keys import NUMBERS, SECTIONS, T
from tandem.machines.car.tyres.steady import relaxation, steady_turning
from tandem.machines.car.tyres.tir import MOST_BYTES, SignOfPTX3, parse_tir, read_tir, tyre_vector, vector_from
from tests.examples import few
from tests.tandem.machines.car.tyres.samples import FULL, LEAST, SHIPPED, written


def refused(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_tir(text, "some.tir")
    return str(caught.value)


def without(key: str, values: dict[str, float] = FULL) -> dict[str, float]:
    return {name: value for name, value in values.items() if name != key}


def test_every_number_is_read_and_has_its_place():
    assert set(FULL) == set(NUMBERS)
    tir = parse_tir(written(FULL), "some.tir")
    assert dict(tir.values) == FULL
    vector = tyre_vector(tir)
    assert vector.dtype == np.float64
    assert len(vector) == len(T)
    for key, value in FULL.items():
        assert vector[T[key]] == value
    assert vector[T.NOMINAL_LOAD] == FULL["FNOMIN"] * FULL["LFZO"]
    assert (vector[T.LOW_LOAD], vector[T.HIGH_LOAD]) == (300.0, 9000.0)


def test_what_is_absent_has_its_neutral_value():
    tir = parse_tir(written(LEAST), "some.tir")
    for key, default in NUMBERS.items():
        assert tir[key] == LEAST.get(key, default)
    vector = tyre_vector(tir)
    assert np.isfinite(vector).all()
    assert vector[T.HIGH_LOAD] == 2.0 * LEAST["FNOMIN"]


def test_the_shipped_tyre_is_what_its_header_says():
    tir = read_tir(SHIPPED)
    assert tir.text == SHIPPED.read_text()
    assert parse_tir(tir.text, tir.name) == tir
    assert tir["UNLOADED_RADIUS"] == pytest.approx((13 * 25.4 + 2 * 0.8 * 155) / 2e3, abs=1e-4)
    assert tir.side == 1.0


PAC2002 = "PROPERTY_FILE_FORMAT = 'PAC2002'"


class Sources:
    """Of a car with one tyre file."""

    def __init__(self, tyre: bytes):
        self.files = {"tyre": tyre}

    def name(self, key: str) -> str:
        return f"{key}.tir"


@pytest.mark.parametrize(
    ("model", "sign", "named"),
    [
        (PAC2002, 1.0, "exp(+PTX3 dfz), of PAC2002 without FITTYP"),
        (f"{PAC2002}\nFITTYP = 6", -1.0, "exp(-PTX3 dfz), FITTYP is given"),
        ("PROPERTY_FILE_FORMAT = 'MF-TYRE'\nFITTYP = 6", -1.0, "exp(-PTX3 dfz), FITTYP is given"),
        ("FITTYP = 52", -1.0, "exp(-PTX3 dfz), FITTYP is given"),
    ],
)
def test_the_sign_of_ptx3_is_that_of_the_format_and_a_warning_names_it(model, sign, named):
    with pytest.warns(SignOfPTX3, match=re.escape(f"tyre.tir: PTX3 = {FULL['PTX3']:g}: its sign is taken as {named};")):
        vector = vector_from(Sources(written(FULL).replace(PAC2002, model).encode()), "tyre")
    c, load = FULL, 2.0 * FULL["FNOMIN"] * FULL["LFZO"]
    expected = load * (c["PTX1"] + c["PTX2"]) * math.exp(sign * c["PTX3"]) * c["UNLOADED_RADIUS"] * c["LSGKP"]
    assert relaxation(vector, load, 0.0)[0] == pytest.approx(expected / (c["FNOMIN"] * c["LFZO"]), rel=1e-12)


def test_a_tyre_without_ptx3_has_no_sign_to_warn_of():
    vector = vector_from(Sources(SHIPPED.read_bytes()), "tyre")  # a warning would be an error
    assert (vector == tyre_vector(read_tir(SHIPPED))).all()


def in_mode(mode: str, side: str = "LEFT") -> str:
    return written(FULL, side).replace("[MODEL]", f"[MODEL]\nUSE_MODE = {mode}")


def test_a_negative_mode_mirrors_the_tyre():
    assert parse_tir(in_mode("14"), "some.tir").side == parse_tir(in_mode("-14", "RIGHT"), "some.tir").side == 1.0
    assert parse_tir(in_mode("-4"), "some.tir").side == parse_tir(in_mode("24", "RIGHT"), "some.tir").side == -1.0
    mirrored = tyre_vector(parse_tir(in_mode("-14"), "some.tir"))
    assert (mirrored == tyre_vector(parse_tir(written(FULL, "RIGHT"), "some.tir"))).all()


@pytest.mark.parametrize(
    ("mode", "what"), [("0", "vertical"), ("-12", "lateral"), ("3", "pure slip"), ("7", "unk"), ("35", "unk")]
)
def test_what_a_mode_asks_for_is_given_or_refused(mode, what):
    message = refused(in_mode(mode))
    assert f"some.tir:4: USE_MODE = '{mode}'" in message and what in message and "must be 4, 14 or 24" in message


@pytest.mark.parametrize("mode", ["5", "15", "25", "-15"])
def test_a_mode_of_turn_slip_is_honoured(mode):
    tir = parse_tir(in_mode(mode), "some.tir")
    assert tir.turn_slip and tir.side == (-1.0 if mode[0] == "-" else 1.0)
    assert tyre_vector(tir)[T.TURN_SLIP] == 1.0
    assert not parse_tir(in_mode("14"), "some.tir").turn_slip


def test_turn_slip_that_cannot_be_is_refused():
    text = written(FULL).replace("[ALIGNING_COEFFICIENTS]", "[ALIGNING_COEFFICIENTS]\nQDTP1 = 10.0")
    assert "QDTP1: unknown key of [ALIGNING_COEFFICIENTS]; it belongs into [TURNSLIP_COEFFICIENTS]" in refused(text)
    message = refused(written(FULL | {"QDZ8": 0.1}, mode="25"))
    assert "QDZ8 = 0.1: with turn slip QDZ8 + QDZ9 dfz must be below 0" in message
    assert "QCRP1 = 0: must be above 0" in refused(written(FULL | {"QCRP1": 0.0}, mode="25"))
    assert "QDRP1 = 2: must be between 0 and 2" in refused(written(FULL | {"QDRP1": 2.0}, mode="15"))


def test_turn_slip_that_nothing_asks_for_may_be_anything_and_the_car_may_still_ask():
    zeros = dict.fromkeys(SECTIONS["TURNSLIP_COEFFICIENTS"], 0.0)
    tir = parse_tir(written(FULL | zeros, mode="14"), "some.tir")
    assert (tir["QCRP1"], tir["QDRP1"], tir["PHYP1"], tir["PDXP1"]) == (0.2, 1.0, 1.0, 0.0)
    assert (tir["PHYP2"], tir["PHYP3"]) == (0.15, 0.0)
    found = steady_turning(tyre_vector(tir), 3000.0, 0.02, 0.03, 0.0, 1.0, 1.0, 5.0, 0.4)
    assert np.isfinite(found).all()
    assert parse_tir(written(FULL | {"PHYP3": -9.0}), "some.tir")["PHYP3"] == 0.0


def test_dialects_are_understood():
    base = written(LEAST)
    kind = "PROPERTY_FILE_FORMAT = 'PAC2002'"
    values = parse_tir(base, "a").values
    for text in (
        base.replace("\n", "\r\n"),
        base.replace(kind, 'property_file_format="pac2002"   ! this too is a comment'),
        base.replace(kind, "FITTYP = 52"),
        base.replace(kind, "PROPERTY_FILE_FORMAT = 'MF-TYRE'\nFITTYP = 6   $ and so on"),
        base.replace("3800.0", "3.8D+03"),
        base.replace("3800.0", "+3800."),
        base.replace("[SHAPE]", "[SHAPE]\n{radial width}\n 1.0 0.0\n 0.9 1.0"),
        base + "\n[GOODYEAR]\nanything at all\nPCX1 = 7\n",
        "$ first\n! second\n\n" + base,
        base.replace("[UNITS]", "[UNITS]\nLENGTH ='meter'\nFORCE='N'\nANGLE = 'rad'"),
    ):
        assert parse_tir(text, "a").values == values


def test_the_side_a_tyre_was_measured_on_is_kept():
    for side, sign in (("LEFT", 1.0), ("RIGHT", -1.0), ("unknown", 1.0)):
        assert tyre_vector(parse_tir(written(FULL, side=side), "a"))[T.MIRROR] == sign
    assert "TYRESIDE = 'BOTH': must be one of LEFT" in refused(written(FULL, side="BOTH"))


@pytest.mark.parametrize("key", sorted(LEAST))
def test_what_is_needed_is_missed(key):
    section = next(section for section, keys in SECTIONS.items() if key in keys)
    assert refused(written(without(key))) == f"some.tir: {section}.{key}: is missing"


@pytest.mark.parametrize(
    "old, new, pattern",
    [
        ("PKX1 = 21.9", "PKX9 = 21.9", r"some.tir:\d+: PKX9: unknown key of \[LONG\w+\]; did you mean PKX\d\?"),
        ("PKX1 = 21.9", "PKY1 = 21.9", r"PKY1: unknown key of \[LONG\w+\]; it belongs into \[LATERAL_COEFFICIENTS\]"),
        ("PKX1 = 21.9", "PKX1 = 21,9", r"some.tir:\d+: PKX1 = '21,9': must be a number"),
        ("PKX1 = 21.9", "PKX1 = '21.9'", r"PKX1 = '21.9': must be a number"),
        ("PKX1 = 21.9", "PKX1 = nan", r"PKX1 = 'nan': must be a number"),
        ("PKX1 = 21.9", "PKX1 = 1e999", r"PKX1 = '1e999': must be finite"),
        ("PKX1 = 21.9", "PKX1 = 1_0", r"PKX1 = '1_0': must be a number"),
        ("PKX1 = 21.9", "PKX1 = ١", r"PKX1 = '١': must be a number"),
        ("PKX1 = 21.9", "PKX1 =", r"PKX1: has no value"),
        ("PKX1 = 21.9", "PKX1 21.9", r"'PKX1 21.9.*': must be KEY = value"),
        ("PKX1 = 21.9", "PKX1 = 21.9 22", r"must be KEY = value"),
        ("PKX1 = 21.9", "PKX1 = 21.9\nPKX1 = 21.9", r"PKX1 = '21.9': is there twice, first in line \d+"),
        ("[VERTICAL]", "[VERTICALS]", r"\[VERTICALS\]: unknown section; did you mean \[VERTICAL\]\?"),
        ("[SHAPE]", "[VERTICAL]", r"\[VERTICAL\]: is there twice"),
        ("[MDI_HEADER]", "PCX1 = 1\n[MDI_HEADER]", r"some.tir:1: 'PCX1 = 1': stands before the first"),
        ("'PAC2002'", "'MF61'", r"PROPERTY_FILE_FORMAT = 'MF61': must be one of PAC2002"),
        ("'PAC2002'", "'PAC2002'\nFITTYP = 70", r"FITTYP = '70': must be 6 or 52"),
        ("'PAC2002'", "'PAC2002'\nFITTYP = x", r"FITTYP = 'x': must be a number"),
        ("'PAC2002'", "'MF-TYRE'", r"MODEL.FITTYP: is missing"),
        ("PROPERTY_FILE_FORMAT = 'PAC2002'", "", r"MODEL.PROPERTY_FILE_FORMAT: is missing"),
        ("[UNITS]", "[UNITS]\nLENGTH = 'mm'", r"LENGTH = 'mm': must be 'meter', SI only"),
        ("[UNITS]", "[UNITS]\nANGLE = 'deg'", r"ANGLE = 'deg': must be 'radians', SI only"),
        ("FNOMIN = 3800.0", "FNOMIN = -1", r"some.tir:\d+: FNOMIN = -1: must be above 0"),
        ("UNLOADED_RADIUS = 0.31", "UNLOADED_RADIUS = 0", r"UNLOADED_RADIUS = 0: must be above 0"),
        ("VERTICAL_STIFFNESS = 190000.0", "VERTICAL_STIFFNESS = -5", r"VERTICAL_STIFFNESS = -5: must be above 0"),
        ("PDX1 = 1.12", "PDX1 = 0", r"PDX1 = 0: must be above 0"),
        ("PDY1 = 1.01", "PDY1 = -1", r"PDY1 = -1: must be above 0"),
        ("LMUY = 1.03", "LMUY = 0", r"LMUY = 0: must be above 0"),
        ("PDY2 = -0.14", "PDY2 = -0.9", r"PDY2 = -0.9: makes friction .* at 9000 N; it must stay above 0"),
        ("PKY1 = -18.4", "PKY1 = 18.4", r"PKY1 = 18.4: must be below 0"),
        ("PCX1 = 1.61", "PCX1 = 2.3", r"PCX1 = 2.3: times LCX must be below 2"),
        ("PCX1 = 1.61", "PCX1 = 0", r"PCX1 = 0: must be above 0"),
        ("FZMAX = 9000.0", "FZMAX = 200", r"FZMAX = 200: must be above 300 N"),
        ("CAMMAX = 0.25", "CAMMAX = 15", r"CAMMAX = 15: must be between 0 and 1 rad"),
        ("PKX3 = 0.19", "PKX3 = 99", r"PKX3 = 99: is out of bounds"),
        ("LGAZ = 1.07", "LGAZ = 1e-300", r"LGAZ = 1e-300: must be 0 or above"),
        ("PTX1 = 0.9", "PTX1 = -0.9", r"PTX1 = -0.9: must not be below 0"),
    ],
)
def test_what_is_wrong_is_said(old, new, pattern):
    text = written(FULL)
    assert old in text
    assert re.search(pattern, refused(text.replace(old, new, 1)))


@pytest.mark.parametrize("section", ["STRUCTURAL", "CONTACT_PATCH", "INFLATION_PRESSURE_RANGE"])
def test_a_misspelt_section_of_mf_6_is_refused_as_one_of_mf_5_is(section: str):
    six = written(LEAST).replace(PAC2002, "FITTYP = 61")
    assert parse_tir(f"{six}\n[{section}]\n", "a").version == "MF 6.1"
    message = refused(f"{six}\n[{section[:-1]}]\n")
    assert message.endswith(f"[{section[:-1]}]: unknown section; did you mean [{section}]?")


def test_only_fittyp_of_the_model_says_the_version():
    for text in (
        written(FULL) + "\n[GOODYEAR]\nFITTYP = 61\n",
        written(FULL).replace("[SHAPE]", "[SHAPE]\nFITTYP = 61"),
        "$ FITTYP = 61\n" + written(FULL),
    ):
        assert parse_tir(text, "a").version == "PAC2002"


def test_what_would_change_forces_and_is_not_used_is_listed_strictly_too():
    more = "[ALIGNING_COEFFICIENTS]\nQTZ1 = 0.2\nMBELT = 0"
    (remark,) = parse_tir(written(FULL).replace("[ALIGNING_COEFFICIENTS]", more), "a").remarks
    assert remark == "a: PAC2002 does not use, in [ALIGNING_COEFFICIENTS]: QTZ1 = 0.2"


def test_a_long_list_of_what_is_not_used_says_how_long_it_is():
    text = written(FULL) + "\n[GOODYEAR]\n" + "".join(f"K{k} = 1\n" for k in range(207))
    (remark,) = parse_tir(text, "a", tolerant=True).remarks
    assert remark.endswith("K198 = 1, K199 = 1 and 7 more")


def test_all_that_is_wrong_is_said_at_once():
    text = written(FULL).replace("FNOMIN = 3800.0", "FNOMIN = 0").replace("PDX1 = 1.12", "PDX1 = 0")
    assert len(refused(text).splitlines()) == 2
    assert refused("[VERTICAL]\n" + "X = 1\n" * 1000).endswith("\n... and more")
    assert "is longer than 1000 characters" in refused("[VERTICAL]\nX =" + " " * 500_000 + "1 2")
    assert "no section of a tyre property file" in refused("")


def test_files_that_cannot_be_read_are_refused(tmp_path: Path):
    (tmp_path / "some.tir").write_text("")
    with pytest.raises(ConfigError, match=r"other.tir: no such file; beside it: some.tir"):
        read_tir(tmp_path / "other.tir")
    with pytest.raises(ConfigError, match="is a folder"):
        read_tir(tmp_path)
    with pytest.raises(ConfigError):
        read_tir(tmp_path / "a\0b")
    with pytest.raises(ConfigError, match="no regular file"):
        read_tir("/dev/zero")
    (tmp_path / "long.tir").write_bytes(b"$" * (MOST_BYTES + 1))
    with pytest.raises(ConfigError, match="longer than"):
        read_tir(tmp_path / "long.tir")


def test_comments_may_be_in_any_encoding(tmp_path: Path):
    path = tmp_path / "some.tir"
    path.write_bytes(b"$ 10 \xb0 of slip\n" + written(FULL).encode())
    assert dict(read_tir(path).values) == FULL
    path.write_bytes(written(FULL).encode().replace(b"PKX1 = 21.9", b"PKX1 = 21\xb9"))
    with pytest.raises(ConfigError, match="PKX1"):
        read_tir(path)


PIECES = st.sampled_from(
    [
        "[",
        "]",
        "=",
        "'",
        '"',
        "$",
        "!",
        "\n",
        "\r",
        "\0",
        " ",
        "[MODEL]\n",
        "PKX1",
        "PKX1 = ",
        "1e5",
        "-",
        "nan",
        "{",
        "é",
    ]
)


@settings(max_examples=few(300), deadline=None)
@given(
    st.one_of(
        st.text(max_size=400),
        st.lists(PIECES, max_size=60).map("".join),
        st.tuples(st.integers(0, 3000), st.integers(0, 60), st.lists(PIECES, max_size=4).map("".join)).map(
            lambda cut: written(FULL)[: cut[0]] + cut[2] + written(FULL)[cut[0] + cut[1] :]
        ),
    )
)
@example("\ud800")
def test_nothing_but_a_config_error_comes_out(text):
    try:
        tir = parse_tir(text, "some.tir")
    except ConfigError:
        return
    assert all(math.isfinite(value) for value in tyre_vector(tir))


@settings(max_examples=few(60), deadline=None)
@given(st.binary(max_size=200))
def test_no_bytes_do_harm(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "some.tir"
    path.write_bytes(data)
    with pytest.raises(ConfigError):
        read_tir(path)
