"""Tyre property files (`.tir`): the text that describes a tyre to a Magic Formula model, read and checked.

Promises
- `read_tir` and `parse_tir` return a `Tir`, or raise a `ConfigError` that names file, line, key, value and what would
  be right for everything wrong in the file. Nothing else escapes, whatever the bytes.
- A key that is not known in its section is refused: a misspelt coefficient must not pass as its default. Sections of
  other programs are skipped, unless their name looks like a misspelt one of ours.
- `tyre_vector` is the flat vector that the kernels read by the places `keys.T`.

Accepted are files that call themselves PAC2002 (`PROPERTY_FILE_FORMAT`) or MF-Tyre 5.2 (`MF-TYRE`, `MF_05` with
FITTYP 6 or 52, or FITTYP alone), in SI units, in the axes of those models (W-axes, which are ISO 8855's): PKY1 < 0.

The two differ in one sign, and no key says which: PAC2002's manual has sigma_kappa ~ exp(PTX3 dfz), MF-Tyre 5.2's
exp(-PTX3 dfz). FITTYP decides where a file has one, else PROPERTY_FILE_FORMAT. `Tir` has PTX3 as the file has it,
`tyre_vector` as an exponent.
"""

import difflib
import math
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sync.errors import ConfigError
from tandem.machines.car.tyres.keys import NEEDED, NUMBERS, SECTIONS, TEXT, T
from tandem.multibody.portable import arctan, cos_sin_turns

MOST_BYTES = 1 << 20  # a property file has some ten thousand
MOST_COLUMNS = 1000  # of a line; longer ones would take the patterns below long
MOST_FINDINGS = 20
MOST_OTHER_SECTIONS = 100  # of other programs; each is compared with the names of ours
_TINY = 1e-12  # a number that small, and not 0, is a slip of the pen or an attempt at overflow
LEAST_LOAD = 0.02  # of the nominal one; coefficients are not asked for less, forces fall to zero with the load

_FORMATS = ("PAC2002", "MF-TYRE", "MF_05")
_FITTYPS = (6.0, 52.0)
_UNITS = {
    "LENGTH": ("meter", "metre", "m"),
    "FORCE": ("newton", "n"),
    "ANGLE": ("radians", "radian", "rad"),
    "MASS": ("kg", "kilogram"),
    "TIME": ("second", "sec", "s"),
}
# |USE_MODE|: all forces in combined slip, with 5 in place of 4 also turn slip; the tens ask for no, linear or nonlinear
# relaxation, of which a car's tyre always has its own (transient.py). A sign mirrors the tyre.
_MODES = (4.0, 14.0, 24.0)
_TURN_SLIP = (5.0, 15.0, 25.0)
_OTHER_MODES = {0.0: "vertical force alone", 1.0: "longitudinal force alone", 2.0: "lateral force alone"}
_OTHER_MODES |= {3.0: "forces of pure slip"}
_SIDES = {"LEFT": 1.0, "UNKNOWN": 1.0, "RIGHT": -1.0}

_SECTION = re.compile(r"\[([^\]]*)\]\s*(?:[$!].*)?")
_PAIR = re.compile(r"""([^\s=]++)\s*+=\s*+(?:'([^']*+)'|"([^"]*+)"|([^\s$!'"]++))?\s*+(?:[$!].*)?""")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eEdD][+-]?[0-9]+)?", re.ASCII)


class SignOfPTX3(UserWarning):
    """A file uses PTX3, whose sign depends on the program that the file is for."""


@dataclass(frozen=True)
class Tir:
    """A tyre: its file's text, which a record embeds, and every number that kernels read, defaults filled in."""

    name: str
    text: str = field(repr=False)
    side: float  # +1 measured as a tyre of the left side, -1 of the right
    turn_slip: bool  # whether USE_MODE asks for it
    fitted: bool  # by FITTYP an MF-Tyre file: the longitudinal relaxation length goes with exp(-PTX3 dfz)
    values: Mapping[str, float] = field(repr=False)

    def __getitem__(self, key: str) -> float:
        return self.values[key]


@dataclass(frozen=True)
class _Entry:
    line: int
    value: str
    quoted: bool


def read_tir(path: str | Path) -> Tir:
    path = Path(path)
    try:
        if path.is_dir():
            raise ConfigError(f"{path}: is a folder, a tyre property file is expected")
        if path.exists() and not path.is_file():
            raise ConfigError(f"{path}: is no regular file, a tyre property file is expected")
        with open(path, "rb") as file:
            data = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        near = sorted(p.name for p in path.parent.glob("*.tir"))
        raise ConfigError(f"{path}: no such file" + f"; beside it: {', '.join(near)}" * bool(near)) from None
    except ValueError as error:  # a zero in the name
        raise ConfigError(f"{path!s}: is no name of a file: {error}") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    # comments may be in any encoding; what is not UTF-8 elsewhere is refused as the wrong key or value it is
    return _parse(data, str(path))


def parse_tir(text: str, name: str) -> Tir:
    """From the text of a file; `name` is for the messages."""
    return _parse(text.encode("utf-8", "replace"), name)


def vector_from(sources: Any, key: str) -> np.ndarray:
    """That of a tyre file of a car; warns of what the file alone does not say."""
    name = sources.name(key)
    if key not in sources.files:
        raise ConfigError(f"{name}: is missing")
    tir = _parse(sources.files[key], name)
    if tir["PTX3"]:
        why = ("FITTYP is given", "exp(-PTX3 dfz)") if tir.fitted else ("of PAC2002 without FITTYP", "exp(+PTX3 dfz)")
        text = f"{name}: PTX3 = {tir['PTX3']:g}: its sign is taken as {why[1]}, {why[0]}"
        warnings.warn(f"{text}; programs differ in it (docs/tyres.md)", SignOfPTX3, stacklevel=3)
    return tyre_vector(tir)


def tyre_vector(tir: Tir) -> np.ndarray:
    """What the kernels read, at the places `keys.T`."""
    p = np.zeros(len(T))
    for key, value in tir.values.items():
        p[T[key]] = value
    nominal = tir["FNOMIN"] * tir["LFZO"]
    p[T.NOMINAL_LOAD] = nominal
    p[T.LOW_LOAD], p[T.HIGH_LOAD] = _loads(tir.values)
    p[T.PEAK_SLIP] = max(
        _peak(tir["PCX1"] * tir["LCX"], tir["PEX1"] * tir["LEX"]),
        _peak(tir["PCY1"] * tir["LCY"], tir["PEY1"] * tir["LEY"]),
    )
    p[T.MIRROR] = tir.side
    p[T.TURN_SLIP] = float(tir.turn_slip)
    if tir.fitted:
        p[T.PTX3] = -tir["PTX3"]
    return p


def _loads(v: Mapping[str, float]) -> tuple[float, float]:
    nominal = v["FNOMIN"] * v["LFZO"]
    return max(v["FZMIN"], LEAST_LOAD * nominal), v["FZMAX"] or 2.0 * nominal


def _peak(C: float, E: float) -> float:
    """Slip of the peak of D sin(C atan(y)), y = x - E (x - atan x), as a multiple of D / slope: C x; within reason."""
    low, high = 0.5 / C, 5.0 / C
    if C > 1.0:
        c, s = cos_sin_turns(0.25 / C)
        peak = s / c
        for _ in range(60):
            x = 0.5 * (low + high)
            low, high = (x, high) if x - min(E, 1.0) * (x - arctan(x)) < peak else (low, x)
    return min(max(C * high, 1.5), 4.0)


# ---- reading ---------------------------------------------------------------------------------------------------------


def _parse(data: bytes, name: str) -> Tir:
    if len(data) > MOST_BYTES:
        raise ConfigError(f"{name}: longer than {MOST_BYTES} bytes; no tyre property file is")
    text = data.decode("utf-8", "replace")
    findings: list[str] = []
    sections = _sections(text, name, findings)
    if not sections and not findings:
        findings.append(f"{name}: no section of a tyre property file, such as [MODEL] or [VERTICAL]")
    _raise(findings)
    side, turn_slip, fitted = _header(sections, name, findings)
    values = _numbers(sections, name, findings)
    _raise(findings)
    _sense(values, sections, name, findings, turn_slip)
    _raise(findings)
    return Tir(name, text, side, turn_slip, fitted, values)


def _raise(findings: list[str]) -> None:
    if findings:
        raise ConfigError("\n".join(findings[:MOST_FINDINGS]) + "\n... and more" * (len(findings) > MOST_FINDINGS))


def _shown(value: str) -> str:
    return repr(value if len(value) <= 40 else value[:40] + "...")


def _sections(text: str, name: str, findings: list[str]) -> dict[str, dict[str, _Entry]]:
    """Sections that we know, and what they hold as it stands there."""
    sections: dict[str, dict[str, _Entry]] = {}
    section: str | None = None
    known = False
    others: set[str] = set()
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.strip()
        if not line or line[0] in "$!":
            continue
        if len(findings) > MOST_FINDINGS:
            break
        where = f"{name}:{number}"
        if len(line) > MOST_COLUMNS:
            findings.append(f"{where}: {_shown(line)}: is longer than {MOST_COLUMNS} characters")
        elif match := _SECTION.fullmatch(line):
            section = match[1].strip().upper()
            known = section in SECTIONS
            if section in sections:
                findings.append(f"{where}: [{section}]: is there twice")
            elif known:
                sections[section] = {}
            elif len(others := others | {section}) > MOST_OTHER_SECTIONS:
                findings.append(f"{where}: [{section[:40]}]: more than {MOST_OTHER_SECTIONS} unknown sections")
            elif near := difflib.get_close_matches(section[:80], SECTIONS, 1, 0.85):
                findings.append(f"{where}: [{section[:40]}]: unknown section; did you mean [{near[0]}]?")
        elif section is None:
            findings.append(f"{where}: {_shown(line)}: stands before the first [SECTION]")
        elif section == "SHAPE" or not known:
            continue  # a table, or the business of another program
        elif match := _PAIR.fullmatch(line):
            _entry(match, section, sections[section], where, number, findings)
        else:
            findings.append(f"{where}: {_shown(line)}: must be KEY = value, with a comment after $ at most")
    return sections


def _entry(
    match: re.Match[str], section: str, entries: dict[str, _Entry], where: str, number: int, findings: list[str]
) -> None:
    key = match[1].upper()
    quoted = match[2] if match[2] is not None else match[3]
    value = quoted if quoted is not None else match[4]
    if key not in SECTIONS[section]:
        near = difflib.get_close_matches(key[:40], SECTIONS[section], 1, 0.5)
        elsewhere = [s for s, keys in SECTIONS.items() if key in keys]
        hint = f"; it belongs into [{elsewhere[0]}]" if elsewhere else f"; did you mean {near[0]}?" if near else ""
        findings.append(f"{where}: {_shown(match[1])[1:-1]}: unknown key of [{section}]{hint}")
    elif key in entries:
        findings.append(f"{where}: {key} = {_shown(value or '')}: is there twice, first in line {entries[key].line}")
    elif value is None:
        findings.append(f"{where}: {key}: has no value")
    else:
        entries[key] = _Entry(number, value.strip(), quoted is not None)


def _header(sections: dict[str, dict[str, _Entry]], name: str, findings: list[str]) -> tuple[float, bool, bool]:
    """Model, units; side, whether turn slip is asked for, and whether FITTYP is given."""
    model = sections.get("MODEL", {})
    kind, fit, side = (model.get(key) for key in ("PROPERTY_FILE_FORMAT", "FITTYP", "TYRESIDE"))
    fitted = _number(fit.value) if fit else None
    if kind is None and fit is None:
        findings.append(f"{name}: MODEL.PROPERTY_FILE_FORMAT: is missing; must be 'PAC2002', or FITTYP be 6 or 52")
    elif kind is not None and kind.value.upper() not in _FORMATS:
        findings.append(
            f"{name}:{kind.line}: PROPERTY_FILE_FORMAT = {_shown(kind.value)}: must be one of {', '.join(_FORMATS)}"
        )
    elif fit is not None and fitted is not None and fitted not in _FITTYPS:
        findings.append(f"{name}:{fit.line}: FITTYP = {_shown(fit.value)}: must be 6 or 52, which is MF-Tyre 5.2")
    elif kind is not None and kind.value.upper() != "PAC2002" and fit is None:
        findings.append(f"{name}: MODEL.FITTYP: is missing; must be 6 or 52, which is MF-Tyre 5.2")
    for key, entry in sections.get("UNITS", {}).items():
        if entry.value.lower() not in _UNITS[key]:
            findings.append(f"{name}:{entry.line}: {key} = {_shown(entry.value)}: must be '{_UNITS[key][0]}', SI only")
    mirrored, turn_slip = 1.0, False
    if mode := model.get("USE_MODE"):
        use = _number(mode.value)
        if use is not None and abs(use) not in (*_MODES, *_TURN_SLIP):  # what is no number is found with the numbers
            what = _OTHER_MODES.get(abs(use) % 10.0, "something unknown")
            findings.append(
                f"{name}:{mode.line}: USE_MODE = {_shown(mode.value)}: asks for {what}; must be 4, 14 or 24 (all"
                " forces, combined slip), 5, 15 or 25 (and turn slip), negative for a mirrored tyre"
            )
        mirrored = -1.0 if use is not None and use < 0.0 else 1.0
        turn_slip = use is not None and abs(use) in _TURN_SLIP
    if side is None:
        return mirrored, turn_slip, fit is not None
    if side.value.upper() not in _SIDES:
        findings.append(f"{name}:{side.line}: TYRESIDE = {_shown(side.value)}: must be one of {', '.join(_SIDES)}")
    return mirrored * _SIDES.get(side.value.upper(), 1.0), turn_slip, fit is not None


def _number(text: str) -> float | None:
    if len(text) > 100 or not _NUMBER.fullmatch(text):
        return None
    return float(text.replace("d", "e").replace("D", "e"))


def _numbers(sections: dict[str, dict[str, _Entry]], name: str, findings: list[str]) -> dict[str, float]:
    values: dict[str, float] = {}
    for section, keys in SECTIONS.items():
        entries = sections.get(section, {})
        for key, default in keys.items():
            if default is TEXT:
                continue
            if entry := entries.get(key):
                value = _number(entry.value)
                if value is None or entry.quoted:
                    findings.append(f"{name}:{entry.line}: {key} = {_shown(entry.value)}: must be a number")
                elif not math.isfinite(value) or abs(value) > 1e12:
                    findings.append(f"{name}:{entry.line}: {key} = {_shown(entry.value)}: must be finite, below 1e12")
                elif key in NUMBERS:
                    values[key] = value
            elif default is NEEDED:
                findings.append(f"{name}: {section}.{key}: is missing")
            elif isinstance(default, float):
                values[key] = default
    return values


def _sense(
    v: dict[str, float], sections: dict[str, dict[str, _Entry]], name: str, findings: list[str], turn_slip: bool
) -> None:
    """Values that no tyre has. Coefficients of a turn slip that nothing asks for are put right without a word."""

    def must(right: bool, key: str, what: str) -> None:
        entry = next((keys[key] for keys in sections.values() if key in keys), None)
        where = f"{name}:{entry.line}" if entry else name
        if not right:
            findings.append(f"{where}: {key} = {v[key]:g}: {what}")

    def of_spin(right: bool, key: str, what: str) -> None:
        """Judged where the file asks for turn slip; else the default, for a car may ask for it, too."""
        if turn_slip:
            must(right, key, what)
        elif not right:
            v[key] = float(NUMBERS[key])

    for key in ("FNOMIN", "LFZO", "UNLOADED_RADIUS", "VERTICAL_STIFFNESS", "LONGVL", "PKY2", "PTY2"):
        must(v[key] > 0.0, key, "must be above 0")
    for key in ("PCX1", "PCY1", "PDX1", "PDY1", "LMUX", "LMUY", "PKX1", "LKX", "LKY", "LCX", "LCY"):
        must(v[key] > 0.0, key, "must be above 0, or the tyre pushes instead of resisting")
    for key in ("VERTICAL_DAMPING", "FZMIN", "LSGKP", "LSGAL", "PTX1", "PTY1", "RCX1", "RCY1", "LXAL", "LYKA"):
        must(v[key] >= 0.0, key, "must not be below 0")
    for key in ("PDXP1", "PDYP1", "PKYP1", "PDYP4", "QDTP1", "QBRP1", "QCRP2"):
        of_spin(v[key] >= 0.0, key, "must not be below 0: spin weakens a tyre")
    for key in ("PHYP1", "PHYP2", "QCRP1", "LMP"):
        of_spin(v[key] > 0.0, key, "must be above 0")
    of_spin(0.0 < v["QDRP1"] < 2.0, "QDRP1", "must be between 0 and 2")
    of_spin(v["PECP1"] < 1.0, "PECP1", "must be below 1")
    of_spin(v["PHYP4"] <= 1.0, "PHYP4", "must be at most 1")
    must(v["FRICTION_ELLIPSE"] in (0.0, 1.0), "FRICTION_ELLIPSE", "must be 0 or 1")
    must(v["PKY1"] < 0.0, "PKY1", "must be below 0: slip to the left is resisted to the right in ISO axes")
    must(v["PCX1"] * v["LCX"] < 2.0, "PCX1", "times LCX must be below 2, or sliding pushes")
    must(v["PCY1"] * v["LCY"] < 2.0, "PCY1", "times LCY must be below 2, or sliding pushes")
    must(-1.0 <= v["CAMMIN"] <= 0.0, "CAMMIN", "must be between -1 and 0 rad")
    must(0.0 <= v["CAMMAX"] <= 1.0, "CAMMAX", "must be between 0 and 1 rad")
    for key, value in v.items():
        must(value == 0.0 or abs(value) > _TINY, key, f"must be 0 or above {_TINY:g}")
    if findings:
        return
    low, high = _loads(v)
    nominal = v["FNOMIN"] * v["LFZO"]
    must(high > low, "FZMAX", f"must be above {low:g} N")
    for load in (low, high):
        df = load / nominal - 1.0
        text = f"with turn slip QDZ8 + QDZ9 dfz must be below 0 at {load:g} N, or the moment of spin pushes"
        must(not turn_slip or v["QDZ8"] + v["QDZ9"] * df < 0.0, "QDZ8", text)
        shift = v["PHYP2"] + v["PHYP3"] * df
        of_spin(shift > 0.0, "PHYP3", f"makes PHYP2 + PHYP3 dfz {shift:.3g} at {load:g} N; it must stay above 0")
        for base, slope, what in (("PDX1", "PDX2", "friction"), ("PDY1", "PDY2", "friction"), ("PKX1", "PKX2", "grip")):
            least = v[base] + v[slope] * df
            text = f"makes {what} {least:.3g} at {load:g} N; it must stay above 0 from FZMIN to FZMAX"
            must(least > 0.02 * v[base], slope, text)
        for key in ("PKX3", "PTX3"):
            must(abs(v[key] * df) < 20.0, key, f"is out of bounds at {load:g} N")
