"""Tyre property files (`.tir`): the text that describes a tyre to a Magic Formula model, read and checked.

Promises
- `read_tir` and `parse_tir` return a `Tir`, or raise a `ConfigError` that names file, line, key, value and what would
  be right for everything wrong in the file. Nothing else escapes, whatever the bytes.
- Strictly, a key that is not known in its section is refused: a misspelt coefficient must not pass as its default.
  Sections of other programs are skipped, unless their name looks like a misspelt one of ours.
- `tolerant`, a file is read as it was published: what is not used, has no value or is a residue of a fit is listed,
  all of it once, in `Tir.remarks`; what the tyre then cannot do comes first (`Tir.lacks`).
- `tyre_vector` is the flat vector that the kernels read by the places `keys.T`.

Accepted are files that call themselves PAC2002 (`PROPERTY_FILE_FORMAT`) or MF-Tyre 5.2 (`MF-TYRE`, `MF_05` with
FITTYP 6 or 52, or FITTYP alone), and MF-Tyre 6.1 and 6.2 (FITTYP 61, 62), in SI units, in the axes of those models
(W-axes, which are ISO 8855's): PKY1 < 0.

The first two differ in one sign, and no key says which: PAC2002's manual has sigma_kappa ~ exp(PTX3 dfz), MF-Tyre 5.2's
exp(-PTX3 dfz). FITTYP decides where a file has one, else PROPERTY_FILE_FORMAT. `Tir` has PTX3 as the file has it,
`tyre_vector` as an exponent.
"""

import math
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sync.errors import ConfigError, near_names
from tandem.machines.car.tyres.keys import IGNORED, NEEDED, SECTIONS, SECTIONS_6, TEXT, UNUSED, T
from tandem.machines.car.tyres.soundness import TINY, loads, sense
from tandem.multibody.portable import arctan, cos_sin_turns

MOST_BYTES = 1 << 20  # a property file has some ten thousand
MOST_COLUMNS = 1000  # of a line; longer ones would take the patterns below long
MOST_FINDINGS = 20
MOST_NOT_USED = 200  # keys of a section in a list of them
LACKING = 1.0  # in place of a needed number without a value: a tyre of which such a one is used is refused
MOST_OTHER_SECTIONS = 100  # of other programs; each is compared with the names of ours
_ANY_PRESSURE = 0.2, 3.0  # of the nominal one, where a file has no range

_FORMATS = ("PAC2002", "MF-TYRE", "MF_05")
_ALSO = ("USER", "MF_61", "MF_62", "MF61", "MF62")  # where FITTYP says which
_FITTYPS = (6.0, 52.0)
_SIX = {61.0: "MF 6.1", 62.0: "MF 6.2"}
_UNITS = {
    "LENGTH": ("meter", "metre", "m"),
    "FORCE": ("newton", "n"),
    "ANGLE": ("radians", "radian", "rad"),
    "MASS": ("kg", "kilogram"),
    "TIME": ("second", "sec", "s"),
    "PRESSURE": ("pascal", "pa", "n/m2"),
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


class AsPublished(UserWarning):
    """What of a file that was read as it was published is not used."""


@dataclass(frozen=True)
class Tir:
    """A tyre: its file's text, which a record embeds, and every number that kernels read, defaults filled in."""

    name: str
    text: str = field(repr=False)
    side: float  # +1 measured as a tyre of the left side, -1 of the right
    turn_slip: bool  # whether USE_MODE asks for it
    fitted: bool  # by FITTYP an MF-Tyre file: the longitudinal relaxation length goes with exp(-PTX3 dfz)
    values: Mapping[str, float] = field(repr=False)
    version: str = "MF 5.2"  # or PAC2002, MF 6.1, MF 6.2
    lacks: tuple[str, ...] = ()  # needed numbers without a value; only where a file is read as it was published
    remarks: tuple[str, ...] = field(default=(), repr=False)

    def __getitem__(self, key: str) -> float:
        return self.values[key]


@dataclass(frozen=True)
class _Entry:
    line: int
    value: str
    quoted: bool


@dataclass
class _Reading:
    """Of one file: what it may hold, and what was found wrong or, tolerantly, not used."""

    name: str
    tolerant: bool
    known: Mapping[str, Mapping[str, float | str]]
    findings: list[str] = field(default_factory=list)
    unknown: dict[str, list[str]] = field(default_factory=dict)  # section: keys that nothing here reads
    empty: list[str] = field(default_factory=list)
    residues: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    lacks: list[str] = field(default_factory=list)

    def odd(self, text: str) -> None:
        (self.remarks if self.tolerant else self.findings).append(text)

    def all_remarks(self, version: str) -> tuple[str, ...]:
        """What cannot work first."""
        lines = []
        if self.lacks:
            what = ", ".join(self.lacks)
            lines.append(f"{self.name}: {version}: no car can stand on it: no value of {what}")
        lines += self.remarks
        if self.residues:
            lines.append(f"{self.name}: taken as 0: {', '.join(self.residues)}")
        if self.empty:
            lines.append(f"{self.name}: without a value, taken as absent: {', '.join(self.empty)}")
        lines += [
            f"{self.name}: {version} does not use, in [{section}]: {', '.join(keys[:MOST_NOT_USED])}"
            + f" and {len(keys) - MOST_NOT_USED} more" * (len(keys) > MOST_NOT_USED)
            for section, keys in self.unknown.items()
        ]
        return tuple(lines)


def read_tir(path: str | Path, tolerant: bool = False) -> Tir:
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
    return _parse(data, str(path), tolerant)


def parse_tir(text: str, name: str, tolerant: bool = False) -> Tir:
    """From the text of a file; `name` is for the messages."""
    return _parse(text.encode("utf-8", "replace"), name, tolerant)


def vectors_from(sources: Any, keys: Sequence[str], tolerant: bool = False) -> list[np.ndarray]:
    """`vector_from` of all tyres of a car; a file that several of them are made from is read, and warned of, once."""
    found: dict[Any, np.ndarray] = {}
    same = [(sources.name(key), sources.files.get(key)) for key in keys]
    for key, one in zip(keys, same, strict=True):
        if one not in found:
            found[one] = vector_from(sources, key, tolerant)
    return [found[one] for one in same]


def vector_from(sources: Any, key: str, tolerant: bool = False) -> np.ndarray:
    """That of a tyre file of a car; warns of what the file alone does not say."""
    name = sources.name(key)
    if key not in sources.files:
        raise ConfigError(f"{name}: is missing")
    tir = _parse(sources.files[key], name, tolerant)
    if tir.lacks:
        raise ConfigError("\n".join(tir.remarks))
    if tir.remarks:
        warnings.warn("\n".join(tir.remarks), AsPublished, stacklevel=3)
    if tir["PTX3"] and tir.version not in _SIX.values():
        why = ("FITTYP is given", "exp(-PTX3 dfz)") if tir.fitted else ("of PAC2002 without FITTYP", "exp(+PTX3 dfz)")
        text = f"{name}: PTX3 = {tir['PTX3']:g}: its sign is taken as {why[1]}, {why[0]}"
        warnings.warn(f"{text}; programs differ in it (docs/tyres.md)", SignOfPTX3, stacklevel=3)
    return tyre_vector(tir)


def inflated(p: np.ndarray, pressure: float, key: str) -> np.ndarray:
    """The vector of a tyre at another inflation pressure than its file's; `key` says who asks for it."""
    if not p[T.VERSION] > 0.0:
        raise ConfigError(f"{key} = {pressure:g}: its tyre is of MF 5.2, which knows no pressure; it must be 0")
    low, high = p[T.LOW_PRESSURE], p[T.HIGH_PRESSURE]
    if not low <= pressure <= high:
        raise ConfigError(
            f"{key} = {pressure:g}: must be within {low:g} and {high:g} Pa, those of its tyre's file, or 0"
        )
    other = p.copy()
    other[T.INFLPRES] = pressure
    return other


def tyre_vector(tir: Tir, lacking: bool = False) -> np.ndarray:
    """What the kernels read, at the places `keys.T`. `lacking`: also of a tyre no car can stand on, for its slip."""
    if tir.lacks and not lacking:
        raise ConfigError(tir.remarks[0])
    p = np.zeros(len(T))
    for key, value in tir.values.items():
        p[T[key]] = value
    nominal = tir["FNOMIN"] * tir["LFZO"]
    p[T.NOMINAL_LOAD] = nominal
    p[T.LOW_LOAD], p[T.HIGH_LOAD] = loads(tir.values)
    p[T.PEAK_SLIP] = max(
        _peak(tir["PCX1"] * tir["LCX"], tir["PEX1"] * tir["LEX"]),
        _peak(tir["PCY1"] * tir["LCY"], tir["PEY1"] * tir["LEY"]),
    )
    p[T.MIRROR] = tir.side
    p[T.TURN_SLIP] = float(tir.turn_slip)
    if tir.fitted:
        p[T.PTX3] = -tir["PTX3"]
    if tir.version in _SIX.values():
        _six(tir, p)
    return p


def _six(tir: Tir, p: np.ndarray) -> None:
    """What only MF 6 has."""
    p[T.VERSION] = 61.0 if tir.version == "MF 6.1" else 62.0
    p[T.LGAY], p[T.LGAZ] = tir["LKYC"], tir["LKZC"]
    nominal = tir["NOMPRES"] or tir["INFLPRES"] or 1.0  # Pa; without a pressure all of them are one
    p[T.NOMPRES] = nominal
    p[T.INFLPRES] = tir["INFLPRES"] or nominal
    p[T.LOW_PRESSURE] = tir["PRESMIN"] or _ANY_PRESSURE[0] * nominal
    p[T.HIGH_PRESSURE] = tir["PRESMAX"] or _ANY_PRESSURE[1] * nominal
    stiff = tir["VERTICAL_STIFFNESS"] * tir["UNLOADED_RADIUS"] / tir["FNOMIN"]
    p[T.Q_FZ1] = math.sqrt(max(stiff * stiff - 4.0 * tir["Q_FZ2"], 0.0))


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


def _parse(data: bytes, name: str, tolerant: bool) -> Tir:
    if len(data) > MOST_BYTES:
        raise ConfigError(f"{name}: longer than {MOST_BYTES} bytes; no tyre property file is")
    text = data.decode("utf-8", "replace")
    reading = _Reading(name, tolerant, SECTIONS_6 if _is_six(text) else SECTIONS)
    findings = reading.findings
    sections = _sections(text, reading)
    if not sections and not findings:
        findings.append(f"{name}: no section of a tyre property file, such as [MODEL] or [VERTICAL]")
    _raise(findings)
    side, turn_slip, fitted, version = _header(sections, reading)
    values = _numbers(sections, reading)
    _raise(findings)
    lines = {key: entry.line for entries in sections.values() for key, entry in entries.items()}
    findings += sense(values, lines, name, turn_slip, reading.remarks if tolerant else None)
    _raise(findings)
    lacks = tuple(reading.lacks)
    return Tir(name, text, side, turn_slip, fitted, values, version, lacks, reading.all_remarks(version))


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Those that say something, with their numbers."""
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.strip()
        if line and line[0] not in "$!":
            yield number, line


def _is_six(text: str) -> bool:
    """By FITTYP in [MODEL], which says what else there may be."""
    model = False
    for _, line in _lines(text):
        if len(line) > MOST_COLUMNS:
            continue
        if section := _SECTION.fullmatch(line):
            model = section[1].strip().upper() == "MODEL"
        elif model and (pair := _PAIR.fullmatch(line)) and pair[1].upper() == "FITTYP":
            return _number(_value(pair) or "") in _SIX
    return False


def _raise(findings: list[str]) -> None:
    if findings:
        raise ConfigError("\n".join(findings[:MOST_FINDINGS]) + "\n... and more" * (len(findings) > MOST_FINDINGS))


def _shown(value: str) -> str:
    return repr(value if len(value) <= 40 else value[:40] + "...")


def _sections(text: str, reading: _Reading) -> dict[str, dict[str, _Entry]]:
    """Sections that we know, and what they hold as it stands there."""
    sections: dict[str, dict[str, _Entry]] = {}
    name, findings, section, known = reading.name, reading.findings, None, False
    others: set[str] = set()
    for number, line in _lines(text):
        if len(findings) > MOST_FINDINGS:
            break
        where = f"{name}:{number}"
        if len(line) > MOST_COLUMNS:
            findings.append(f"{where}: {_shown(line)}: is longer than {MOST_COLUMNS} characters")
        elif match := _SECTION.fullmatch(line):
            section = match[1].strip().upper()
            known = section in reading.known
            if section in sections:
                reading.odd(f"{where}: [{section}]: is there twice")
            elif known:
                sections[section] = {}
            elif len(others := others | {section}) > MOST_OTHER_SECTIONS:
                findings.append(f"{where}: [{section[:40]}]: more than {MOST_OTHER_SECTIONS} unknown sections")
            elif near := near_names(section, reading.known, 1, 0.85):
                reading.odd(f"{where}: [{section[:40]}]: unknown section; did you mean [{near[0]}]?")
        elif section is None:
            reading.odd(f"{where}: {_shown(line)}: stands before the first [SECTION]")
        elif section == "SHAPE":
            continue  # a table
        elif not known:  # the business of another program
            if reading.tolerant and (match := _PAIR.fullmatch(line)) and not _holds_nothing(match):
                _not_used(match, section, reading)
        elif match := _PAIR.fullmatch(line):
            _entry(match, section, sections[section], where, number, reading)
        else:
            reading.odd(f"{where}: {_shown(line)}: must be KEY = value, with a comment after $ at most")
    return sections


def _value(match: re.Match[str]) -> str | None:
    quoted = match[2] if match[2] is not None else match[3]
    return quoted if quoted is not None else match[4]


def _holds_nothing(match: re.Match[str]) -> bool:
    value = _value(match)
    return value is None or _number(value) == 0.0


def _not_used(match: re.Match[str], section: str, reading: _Reading) -> None:
    value = f" = {_value(match) or ''}"[:40] if not _holds_nothing(match) else ""
    reading.unknown.setdefault(section[:40], []).append(match[1][:40].upper() + value)


def _entry(
    match: re.Match[str], section: str, entries: dict[str, _Entry], where: str, number: int, reading: _Reading
) -> None:
    key, value = match[1].upper(), _value(match)
    known = reading.known[section]
    if key not in known and reading.tolerant:
        _not_used(match, section, reading)
    elif key not in known:
        near = near_names(key, known, 1, 0.5)
        elsewhere = [s for s, keys in reading.known.items() if key in keys]
        hint = f"; it belongs into [{elsewhere[0]}]" if elsewhere else f"; did you mean {near[0]}?" if near else ""
        reading.findings.append(f"{where}: {_shown(match[1])[1:-1]}: unknown key of [{section}]{hint}")
    elif key in entries and not (reading.tolerant and (value or "").strip() == entries[key].value):
        text = f"{where}: {key} = {_shown(value or '')}: is there twice, first in line {entries[key].line}"
        reading.findings.append(text)
    elif value is None and reading.tolerant:
        reading.empty.append(key)
    elif value is None:
        reading.findings.append(f"{where}: {key}: has no value")
    else:
        entries[key] = _Entry(number, value.strip(), match[2] is not None or match[3] is not None)


def _header(sections: dict[str, dict[str, _Entry]], reading: _Reading) -> tuple[float, bool, bool, str]:
    """Model, units; side, whether turn slip is asked for, whether FITTYP is given, and the version."""
    name, findings = reading.name, reading.findings
    model = sections.get("MODEL", {})
    kind, fit, side = (model.get(key) for key in ("PROPERTY_FILE_FORMAT", "FITTYP", "TYRESIDE"))
    fitted = _number(fit.value) if fit else None
    six = _SIX.get(fitted) if fitted is not None else None
    named = ("MF-TYRE", *_ALSO) if six else (*_FORMATS, *_ALSO) if reading.tolerant and fit else _FORMATS
    if kind is None and fit is None:
        findings.append(f"{name}: MODEL.PROPERTY_FILE_FORMAT: is missing; must be 'PAC2002', or FITTYP be 6 or 52")
    elif kind is not None and kind.value.upper() not in named:
        findings.append(
            f"{name}:{kind.line}: PROPERTY_FILE_FORMAT = {_shown(kind.value)}: must be one of {', '.join(named)}"
        )
    elif fit is not None and fitted is not None and fitted not in _FITTYPS and not six:
        right = "must be 6 or 52, which is MF-Tyre 5.2, or 61 or 62"
        findings.append(f"{name}:{fit.line}: FITTYP = {_shown(fit.value)}: {right}")
    elif kind is not None and kind.value.upper() != "PAC2002" and fit is None:
        findings.append(f"{name}: MODEL.FITTYP: is missing; must be 6 or 52, which is MF-Tyre 5.2, or 61 or 62")
    for key, entry in sections.get("UNITS", {}).items():
        if entry.value.lower() not in _UNITS[key]:
            findings.append(f"{name}:{entry.line}: {key} = {_shown(entry.value)}: must be '{_UNITS[key][0]}', SI only")
    mirrored, turn_slip = 1.0, False
    if mode := model.get("USE_MODE"):
        use = _number(mode.value)
        if use is not None and six:  # its hundreds and thousands ask for roads and belts
            use = math.copysign(abs(use) % 100.0, use)
        if use is not None and abs(use) not in (*_MODES, *_TURN_SLIP):  # what is no number is found with the numbers
            what = _OTHER_MODES.get(abs(use) % 10.0, "something unknown")
            reading.odd(
                f"{name}:{mode.line}: USE_MODE = {_shown(mode.value)}: asks for {what}; must be 4, 14 or 24 (all"
                " forces, combined slip), 5, 15 or 25 (and turn slip), negative for a mirrored tyre"
            )
        mirrored = -1.0 if use is not None and use < 0.0 else 1.0
        turn_slip = use is not None and abs(use) in _TURN_SLIP
    version = six or ("PAC2002" if fit is None else "MF 5.2")
    if side is None:
        return mirrored, turn_slip, fit is not None, version
    if side.value.upper() not in _SIDES:
        findings.append(f"{name}:{side.line}: TYRESIDE = {_shown(side.value)}: must be one of {', '.join(_SIDES)}")
    return mirrored * _SIDES.get(side.value.upper(), 1.0), turn_slip, fit is not None, version


def _number(text: str) -> float | None:
    if len(text) > 100 or not _NUMBER.fullmatch(text):
        return None
    return float(text.replace("d", "e").replace("D", "e"))


def _numbers(sections: dict[str, dict[str, _Entry]], reading: _Reading) -> dict[str, float]:
    values: dict[str, float] = {}
    name, findings = reading.name, reading.findings
    stiffer = 1.0
    for section, keys in reading.known.items():
        entries = sections.get(section, {})
        for key, default in keys.items():
            if default is TEXT:
                continue
            if entry := entries.get(key):
                value = _number(entry.value)
                if (
                    (value is None or entry.quoted)
                    and reading.tolerant
                    and default in (UNUSED, IGNORED)
                    and key != "FITTYP"
                ):
                    reading.unknown.setdefault(section, []).append(f"{key} = {_shown(entry.value)[1:-1]}")
                elif value is None or entry.quoted:
                    findings.append(f"{name}:{entry.line}: {key} = {_shown(entry.value)}: must be a number")
                elif not math.isfinite(value) or abs(value) > 1e12:
                    findings.append(f"{name}:{entry.line}: {key} = {_shown(entry.value)}: must be finite, below 1e12")
                elif key == "LCZ":
                    stiffer = value
                elif default is IGNORED and value != 0.0:
                    reading.unknown.setdefault(section, []).append(f"{key} = {value:g}")
                elif default not in (UNUSED, IGNORED):
                    values[key] = value
                    if reading.tolerant and 0.0 < abs(value) <= TINY:
                        values[key] = 0.0
                        reading.residues.append(f"{key} = {value:g}")
            elif default is NEEDED and key in reading.empty:
                reading.lacks.append(key)
                values[key] = LACKING
            elif default is NEEDED:
                findings.append(f"{name}: {section}.{key}: is missing")
            elif isinstance(default, float):
                values[key] = default
    if not stiffer > 0.0:
        findings.append(f"{name}: LCZ = {stiffer:g}: must be above 0")
    if "VERTICAL_STIFFNESS" in values:
        values["VERTICAL_STIFFNESS"] *= stiffer
    return values
