"""Rows of a tyre test rig: from CSV or MAT to the units, axes and signs of the formula, saying how each was taken.

Columns are found by their usual names or by `--map NAME=[-]COLUMN[:UNIT]`. Units come from the map, from the file (the
MAT file's `channel.units`, `SA [deg]` in a heading, a line of units below it), or from the size of the numbers. Signs
are those of the physics: loads are positive, slip to the left is resisted to the right, leaning to the right pushes to
the right, small slip is aligned, and slip that drives pushes forwards; a column that has it the other way is turned
round. What was taken and turned is told.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sync.errors import ConfigError
from tandem.ensembles.extras import needs
from tandem.records.exchange.errors import ExchangeError

MOST_BYTES = 4 << 30
MOST_ROWS = 20_000_000
LEAST_ROWS = 200
LEAST_SPREAD = 1.25  # of loads: the 95th of a hundred over the 5th

QUANTITIES: dict[str, tuple[str, ...]] = {  # usual names of their columns
    "alpha": ("ALPHA", "SA", "SLIP_ANGLE", "SLIPANGLE", "SLIPANGL"),
    "kappa": ("KAPPA", "SL", "SLIP_RATIO", "LONGSLIP", "SR"),
    "fz": ("FZ", "LOAD", "FZW"),
    "fx": ("FX", "FXW"),
    "fy": ("FY", "FYW"),
    "mx": ("MX", "MXW"),
    "mz": ("MZ", "MZW"),
    "camber": ("IA", "GAMMA", "CAMBER", "INCLANGL"),
    "pressure": ("P", "PRESSURE", "INFLPRES"),
    "speed": ("V", "SPEED", "VX"),
    "radius": ("RL", "LOADED_RADIUS"),
}
NEEDED = "alpha", "fz", "fy"
_KINDS = {
    "angle": ("alpha", "camber"), "slip": ("kappa",), "force": ("fz", "fx", "fy"), "moment": ("mx", "mz"),
    "pressure": ("pressure",), "speed": ("speed",), "length": ("radius",),
}  # fmt: skip
_KIND = {name: kind for kind, names in _KINDS.items() for name in names}
_UNITS: dict[str, dict[str, float]] = {
    "angle": {"rad": 1.0, "deg": math.pi / 180.0},
    "slip": {"1": 1.0, "-": 1.0, "none": 1.0, "%": 0.01},
    "force": {"n": 1.0, "kn": 1e3, "lbf": 4.4482216152605, "lb": 4.4482216152605},
    "moment": {"n m": 1.0, "nm": 1.0, "n-m": 1.0, "ft-lb": 1.3558179483314},
    "pressure": {"pa": 1.0, "kpa": 1e3, "bar": 1e5, "psi": 6894.757293168},
    "speed": {"m/s": 1.0, "kph": 1 / 3.6, "km/h": 1 / 3.6, "mph": 0.44704},
    "length": {"m": 1.0, "cm": 0.01, "mm": 1e-3, "in": 0.0254},
}
# what is larger than this is in the other unit: the first whose limit is not passed, last the one without a limit
_SIZES = {
    "angle": ((1.6, "rad"), (math.inf, "deg")),
    "slip": ((2.5, "1"), (math.inf, "%")),
    "force": ((60.0, "kn"), (math.inf, "n")),
    "moment": ((math.inf, "n m"),),
    "pressure": ((15.0, "bar"), (1500.0, "kpa"), (math.inf, "pa")),
    "speed": ((math.inf, "m/s"),),
    "length": ((1.2, "m"), (120.0, "cm"), (math.inf, "mm")),
}
_MOST = {"angle": 1.6, "slip": 2.5, "force": 1e6, "moment": 1e6, "pressure": 2e7, "speed": 150.0, "length": 2.0}
_HEADING = re.compile(r"\s*(.*?)\s*(?:[\[(]([^\])]*)[\])])?\s*")


@dataclass(frozen=True)
class Rows:
    name: str
    columns: Mapping[str, np.ndarray]  # SI, by the names of QUANTITIES; what the file has not is left out
    remarks: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.columns["fz"])

    def part(self, which: np.ndarray) -> "Rows":
        return Rows(self.name, {name: column[which] for name, column in self.columns.items()}, self.remarks)

    def get(self, name: str, default: float) -> np.ndarray:
        return self.columns[name] if name in self.columns else np.full(len(self), default)


def read_rows(path: Path, mapping: Sequence[str] = ()) -> Rows:
    chosen = _mapped(mapping)
    if not path.is_file():
        raise ConfigError(f"{path}: is no file; rows are expected, as CSV or MAT")
    if path.stat().st_size > MOST_BYTES:
        raise ConfigError(f"{path}: has {path.stat().st_size / 2**30:.1f} GiB; at most {MOST_BYTES >> 30} are read")
    mat = path.suffix.lower() == ".mat"
    names, units, load, beside = _mat(path) if mat else _csv(path)
    places = _places(path, names, chosen, beside)
    found, remarks = {}, list(beside)
    for quantity, column in zip(places, load([places[q] for q in places]), strict=True):
        name = names[places[quantity]]
        negative, unit = chosen[quantity][0::2] if quantity in chosen else (False, "")
        value, how = _in_si(path, name, quantity, column, unit or units[places[quantity]])
        found[quantity] = -value if negative else value
        remarks.append(f"{quantity} is {'-' * negative}{name} in {how}")
    size = len(found["fz"])
    if size > MOST_ROWS:
        raise ConfigError(f"{path}: has {size} rows; at most {MOST_ROWS} are read")
    whole = np.ones(size, bool)
    for column in found.values():
        whole &= np.isfinite(column)
    if not whole.all():
        remarks.append(f"{int((~whole).sum())} of {size} rows have a number missing and are left out")
        found = {name: column[whole] for name, column in found.items()}
    _signs(found, chosen, remarks)
    _usable(path, found)
    return Rows(str(path), found, remarks)


def _mapped(mapping: Sequence[str]) -> dict[str, tuple[bool, str, str]]:
    chosen = {}
    for text in mapping:
        name, _, column = text.partition("=")
        column, _, unit = column.strip().partition(":")
        name = name.strip().lower()
        if name not in QUANTITIES or not column.strip("- "):
            raise ConfigError(f"--map {text}: must be NAME=[-]COLUMN[:UNIT]; names are {', '.join(QUANTITIES)}")
        unit = unit.strip().lower()
        if unit and unit not in _UNITS[_KIND[name]]:
            raise ConfigError(f"--map {text}: unit {unit!r}: must be one of {', '.join(_UNITS[_KIND[name]])}")
        chosen[name] = column.startswith("-"), column.lstrip("-").strip(), unit
    return chosen


def _places(
    path: Path, names: Sequence[str], chosen: Mapping[str, tuple[bool, str, str]], beside: Sequence[str]
) -> dict[str, int]:
    """`beside`: what is to be known of columns that are not among the names."""
    upper = [name.upper() for name in names]
    there = f"there are {_listed(names)}" + "".join(f"; {remark.removeprefix(f'{path}: ')}" for remark in beside)
    places = {}
    for quantity, usual in QUANTITIES.items():
        wanted = (chosen[quantity][1].upper(),) if quantity in chosen else usual
        place = next((upper.index(name) for name in wanted if name in upper), None)
        if place is not None:
            places[quantity] = place
        elif quantity in chosen:
            raise ConfigError(f"{path}: --map {quantity}: no column {wanted[0]!r}; {there}")
        elif quantity in NEEDED:
            usually = f"no column of {quantity}, usually {' or '.join(usual)}"
            raise ConfigError(f"{path}: {usually}; {there}; --map {quantity}=COLUMN")
    return places


def _listed(names: Sequence[str]) -> str:
    return ", ".join(name[:20] for name in names[:40])


# names, units, a function from places to columns, and remarks
Loaded = tuple[list[str], list[str], Callable[[list[int]], list[np.ndarray]], list[str]]


def _mat(path: Path) -> Loaded:
    needs("scipy.io", "fit", f"{path}: a MAT file")
    from tandem.records.exchange import matlab

    try:
        found = matlab.read(path)
    except ExchangeError as error:
        raise ConfigError(str(error)) from None
    sheet = found.sheets[0]  # the longest
    names = list(sheet.columns)

    def load(places: list[int]) -> list[np.ndarray]:
        columns = sheet.load([names[k] for k in places])
        return [columns[names[k]].astype(float) for k in places]

    return names, list(sheet.columns.values()), load, found.remarks


def _csv(path: Path) -> Loaded:
    with open(path, errors="replace") as file:
        head = [file.readline(1 << 16) for _ in range(40)]
    first = next((k for k, line in enumerate(head) if line.strip() and not line.startswith("#")), None)
    if first is None:
        raise ConfigError(f"{path}: has no line of column names")
    between = max(",;\t", key=head[first].count)
    split = None if not head[first].count(between) else between
    matches = [_HEADING.fullmatch(name.strip("\"' ")) for name in head[first].strip().split(split)]
    names, units = [m[1] if m else "" for m in matches], [(m[2] or "") if m else "" for m in matches]
    skip = first + 1
    below = head[skip].strip().split(split) if skip < len(head) else []
    if below and not any(_is_number(cell) for cell in below):
        units = [unit or cell.strip() for unit, cell in zip(units, [*below, *[""] * len(units)], strict=False)]
        skip += 1

    def load(places: list[int]) -> list[np.ndarray]:
        try:
            table = np.loadtxt(
                path, delimiter=split, skiprows=skip, usecols=places, ndmin=2, encoding="utf-8", max_rows=MOST_ROWS + 1
            )
        except ValueError as error:
            text = str(error).replace("could not convert string", "no number").split("; use")[0]
            raise ConfigError(f"{path}: columns {_listed([names[k] for k in places])}: {text}") from None
        return list(table.T)

    return names, units, load, []


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _in_si(path: Path, name: str, quantity: str, column: np.ndarray, unit: str) -> tuple[np.ndarray, str]:
    kind = _KIND[quantity]
    finite = np.abs(column[np.isfinite(column)])
    size = float(finite.max()) if len(finite) else 0.0
    known, guessed = unit.strip().lower(), False
    if known not in _UNITS[kind]:
        if known:
            right = ", ".join(_UNITS[kind])
            raise ConfigError(f"{path}: {name}: unit {unit!r}: must be one of {right}; or --map {quantity}={name}:UNIT")
        known, guessed = next(unit for most, unit in _SIZES[kind] if size <= most), True
    found = column * _UNITS[kind][known]
    if size * _UNITS[kind][known] > _MOST[kind]:
        text = f"{path}: {name}: up to {size:.4g} {known} is no {kind} of a tyre; it may be in another unit"
        raise ConfigError(f"{text}: --map {quantity}={name}:UNIT, one of {', '.join(_UNITS[kind])}")
    return found, known + " (by the size of its numbers)" * guessed


def _slope(x: np.ndarray, y: np.ndarray) -> float:
    """Of y over x, and 0 where there is none to speak of."""
    if len(x) < 20 or float(np.std(x)) < 1e-4 or float(np.std(y)) == 0.0:
        return 0.0
    correlation = float(np.corrcoef(x, y)[0, 1])
    return correlation * float(np.std(y) / np.std(x)) if abs(correlation) > 0.05 else 0.0


def _of_camber(alpha: np.ndarray, camber: np.ndarray, y: np.ndarray) -> float:
    """Slope of y over camber beside slip, and 0 where there is none to speak of."""
    if len(y) < 50 or float(np.ptp(camber)) < 0.01:
        return 0.0
    A = np.stack([np.ones_like(y), alpha, camber], axis=1)
    x, *_ = np.linalg.lstsq(A, y, rcond=None)
    spread = float(np.std(y - A @ x)) / (float(np.std(camber)) * len(y) ** 0.5)
    return float(x[2]) if abs(x[2]) > 5.0 * spread else 0.0


def _signs(c: dict[str, np.ndarray], chosen: Mapping[str, Any], remarks: list[str]) -> None:
    def turn(name: str, why: str) -> None:
        if name in chosen:
            remarks.append(f"{name} is taken as mapped, although {why}")
        else:
            c[name] = -c[name]
            remarks.append(f"{name} is turned round: {why}")

    if float(np.median(c["fz"])) < 0.0:
        turn("fz", "loads are negative in the file")
    load = np.maximum(c["fz"], 1.0)
    small = np.abs(c["alpha"]) < 0.05
    if _slope(c["alpha"][small], (c["fy"] / load)[small]) > 0.0:
        turn("alpha", "positive slip angles push to the left there")
    if "camber" in c and _of_camber(c["alpha"][small], c["camber"][small], (c["fy"] / load)[small]) > 0.0:
        turn("camber", "a wheel that leans to the right pushes to the left there")
    if "mz" in c and _slope(c["alpha"][small], (c["mz"] / load)[small]) < 0.0:
        turn("mz", "small slip is not aligned there")
    if "kappa" in c and "fx" in c:
        small = np.abs(c["kappa"]) < 0.05
        if _slope(c["kappa"][small], (c["fx"] / load)[small]) < 0.0:
            turn("kappa", "slip that drives pushes backwards there")


def _usable(path: Path, c: dict[str, np.ndarray]) -> None:
    keep = c["fz"] > 1.0
    if "kappa" in c and float(np.median(np.abs(c["kappa"]))) > 0.9:
        del c["kappa"]
    for name in list(c):
        c[name] = c[name][keep]
    if len(c["fz"]) < LEAST_ROWS:
        raise ConfigError(f"{path}: {len(c['fz'])} rows with a load; at least {LEAST_ROWS} are needed")
    low, high = np.percentile(c["fz"], [5, 95])
    if high < LEAST_SPREAD * low:
        text = (
            f"{path}: loads from {low:.0f} to {high:.0f} N only: how a tyre changes with load cannot be found from them"
        )
        raise ConfigError(f"{text}; rows of at least two loads, a quarter apart, are needed")
    if float(np.ptp(c["alpha"])) < 0.02 and float(np.ptp(c.get("kappa", np.zeros(1)))) < 0.02:
        raise ConfigError(f"{path}: slip hardly changes (alpha by {float(np.ptp(c['alpha'])):.3g} rad): nothing to fit")
