"""Coefficients of the Magic Formula from rows: pure slip first, then combined slip, then the moments.

Every stage is a least-squares fit of one force or moment, in bounds that keep the formula sound: peaks and stiffness
positive, E below 1, over the loads, camber angles and pressures that the tyre will meet (from an eighth of the nominal
load to 1.3 times the heaviest row). While a fit is looked for, unsound coefficients are penalised; afterwards they are
checked on a dense grid (`soundness`), looked for again with a heavier penalty, and refused where that does not help.
What no row tells about stays at its default, with a remark.

Rows of a rig follow each other in time, so their errors are correlated: what is held back for judging are whole blocks,
and intervals are those of blocks (the sandwich with blocks as clusters), not of rows.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from sync.errors import ConfigError
from tandem.ensembles.extras import needs
from tandem.machines.car.studies.tyre.rows import Rows
from tandem.machines.car.studies.tyre.written import property_file
from tandem.machines.car.tyres.keys import T
from tandem.machines.car.tyres.many import FX, FY, MX, MZ, steady_rows
from tandem.machines.car.tyres.tir import parse_tir, tyre_vector

FEW, MOST_FITTED = 2_500, 20_000  # rows that a stage looks for its fit with, and those that it ends with
MOST_JUDGED = 500_000  # rows that a fit is judged with, of those that it used and of those that it did not
BLOCK = 100  # rows; at 100 Hz a second
UNUSED_EVERY = 10  # blocks
_HEAVIEST = 1.3  # of the heaviest row
_GAP = 0.02
_LARGE_SLIP = 0.25  # beyond every peak, and beyond what camber and shifts amount to
_MOST_TRIES, _LAST_TRIES = 80, 5
_PENALTIES = (1.0, 30.0, 1000.0)  # beside residuals whose sum of squares is 1 where nothing is explained
COARSE, DENSE = (5, 3, 2), (33, 13, 5)  # loads, camber angles, pressures of a grid


class Stage(NamedTuple):
    title: str
    column: str
    place: int
    names: str
    six: str  # more of them
    pure: str  # the slip that must be small


_LATERAL = "PCY1 PDY1 PDY2 PDY3 PEY1 PEY2 PEY3 PEY4 PKY1 PKY2 PKY3 PHY1 PHY2 PVY1 PVY2 PVY3 PVY4"
_LATERAL_6 = "PEY5 PKY4 PKY5 PKY6 PKY7 PPY1 PPY2 PPY3 PPY4 PPY5"
_ALONG = "PCX1 PDX1 PDX2 PDX3 PEX1 PEX2 PEX3 PEX4 PKX1 PKX2 PKX3 PHX1 PHX2 PVX1 PVX2"
_ACROSS_COMBINED = "RBY1 RBY2 RBY3 RCY1 REY1 REY2 RHY1 RHY2 RVY1 RVY2 RVY3 RVY4 RVY5 RVY6"
_ALIGNING = (
    "QBZ1 QBZ2 QBZ3 QBZ4 QBZ5 QBZ9 QBZ10 QCZ1 QDZ1 QDZ2 QDZ3 QDZ4 QDZ6 QDZ7 QDZ8 QDZ9 QEZ1 QEZ2 QEZ3 QEZ4 QEZ5 QHZ1"
    " QHZ2 QHZ3 QHZ4"
)
# what only rows of several camber angles tell about
_OF_CAMBER = (
    "PDY3 PEY4 PEY5 PKY3 PKY5 PKY6 PKY7 PHY3 PVY3 PVY4 PPY5 PDX3 RBX3 RBY4 RVY3 QBZ4 QBZ5 QDZ3 QDZ4 QDZ8 QDZ9 QDZ10"
    " QDZ11 QEZ5 QHZ3 QHZ4 PPZ2 QSX2"
)

STAGES = (
    Stage("lateral force", "fy", FY, _LATERAL, _LATERAL_6, "kappa"),
    Stage("longitudinal force", "fx", FX, _ALONG, "PPX1 PPX2 PPX3 PPX4", "alpha"),
    Stage("longitudinal force in combined slip", "fx", FX, "RBX1 RBX2 RCX1 REX1 REX2 RHX1", "RBX3", ""),
    Stage("lateral force in combined slip", "fy", FY, _ACROSS_COMBINED, "RBY4", ""),
    Stage("aligning moment", "mz", MZ, _ALIGNING, "QDZ10 QDZ11 PPZ1 PPZ2", "kappa"),
    Stage("overturning moment", "mx", MX, "QSX1 QSX2 QSX3", "", "kappa"),
)
_BOUNDS = {
    "PCY1": (0.9, 1.9), "PCX1": (0.9, 1.95), "PDY1": (0.1, 6.0), "PDX1": (0.1, 6.0), "PKY1": (-300.0, -1.0),
    "PKX1": (1.0, 500.0), "PKY2": (0.2, 10.0), "PKY4": (1.0, 2.5), "PKX3": (-2.0, 2.0), "PKX2": (-200.0, 200.0),
    "RCX1": (0.5, 1.5), "RCY1": (0.5, 1.5), "RBX1": (1.0, 80.0), "RBY1": (1.0, 80.0), "QCZ1": (0.5, 3.0),
    "QBZ1": (0.5, 60.0), "PHY1": (-0.1, 0.1), "PHX1": (-0.1, 0.1), "RVY5": (0.0, 3.0), "PDY3": (-20.0, 40.0),
    "PDX3": (-20.0, 40.0), "PKY5": (0.0, 400.0),
}  # fmt: skip
_START = {
    "PCY1": 1.4, "PEY1": -0.5, "PKY2": 1.5, "PCX1": 1.6, "PEX1": 0.1, "RBX1": 12.0, "RBX2": 10.0, "RCX1": 1.0,
    "RBY1": 12.0, "RBY2": 8.0, "RCY1": 1.0, "RVY5": 1.9, "RVY6": -10.0, "QBZ1": 10.0, "QBZ9": 10.0, "QCZ1": 1.2,
    "QDZ1": 0.1, "QEZ1": -1.0, "PHY3": 0.0,
}  # fmt: skip
_NOT_OF_ROWS = {
    "PTX1": "relaxation length along", "PTY1": "relaxation length across", "QSY1": "rolling resistance",
    "VERTICAL_DAMPING": "of the tyre, N s/m",
}  # fmt: skip


@dataclass(frozen=True)
class Fitted:
    version: str
    values: Mapping[str, float]
    intervals: Mapping[str, float]  # half of 95 %
    stages: Sequence[Mapping[str, Any]]  # title, rows, share of the rms left in used and in unused rows
    text: str
    remarks: list[str] = field(default_factory=list)


def vector(text: str, rows: Rows | None = None) -> np.ndarray:
    """Of a file that is sound; open to the loads of rows."""
    p = tyre_vector(parse_tir(text, "the fit"))
    return p if rows is None else opened(p, rows)


def opened(p: np.ndarray, rows: Rows) -> np.ndarray:
    """A tyre that is asked for all loads, angles and pressures of these rows, whatever its file's ranges are."""
    p = np.array(p)
    p[T.LOW_LOAD] = min(p[T.LOW_LOAD], rows.columns["fz"].min())
    p[T.HIGH_LOAD] = max(p[T.HIGH_LOAD], rows.columns["fz"].max())
    lean = float(np.abs(rows.get("camber", 0.0)).max())
    p[T.CAMMIN], p[T.CAMMAX] = min(p[T.CAMMIN], -lean), max(p[T.CAMMAX], lean)
    if p[T.VERSION] > 0.0 and "pressure" in rows.columns:
        p[T.LOW_PRESSURE] = min(p[T.LOW_PRESSURE], rows.columns["pressure"].min())
        p[T.HIGH_PRESSURE] = max(p[T.HIGH_PRESSURE], rows.columns["pressure"].max())
    return p


def forces(p: np.ndarray, rows: Rows, out: np.ndarray | None = None) -> np.ndarray:
    """Fx, Fy, Mx, Mz of the formula at every row, as columns."""
    out = np.empty((len(rows), 4)) if out is None else out
    steady_rows(
        p, p[T.VERSION] > 0.0, rows.columns["fz"], rows.get("kappa", 0.0), np.tan(rows.columns["alpha"]),
        rows.get("camber", 0.0), rows.get("pressure", 0.0), rows.get("speed", float(p[T.LONGVL])), out,
    )  # fmt: skip
    return out


def unused_blocks(count: int) -> np.ndarray:
    """Whether a row belongs to the tenth that is only judged with."""
    return np.asarray((np.arange(count) // BLOCK) % UNUSED_EVERY == UNUSED_EVERY // 2)


def left(found: np.ndarray, measured: np.ndarray) -> float:
    """Rms of what is not explained, as a share of the rms."""
    size = float(np.sqrt(np.mean(measured**2))) if len(measured) else 0.0
    return float(np.sqrt(np.mean((found - measured) ** 2))) / size if size > 0.0 else 0.0


def fit(
    rows: Rows, version: str, fixed: Mapping[str, float], by_load: float = 0.0,
    say: Callable[[str, float], None] = lambda what, share: None,
) -> Fitted:  # fmt: skip
    """`by_load`: residuals count by the load to this power: 0 every newton alike, 1 every share of the load alike."""
    optimize = needs("scipy.optimize", "fit", "tandem tyre fit")
    remarks: list[str] = []
    if version == "6.1" and "pressure" not in rows.columns:
        remarks.append("no column of pressure: its terms stay 0")
    values = _header(rows, version, fixed, remarks)
    unused = unused_blocks(len(rows))
    stages: list[dict[str, Any]] = []
    intervals: dict[str, float] = {}
    for number, stage in enumerate(STAGES):
        if stage.column not in rows.columns or not (which := _rows_of(stage, rows)).any():
            remarks.append(f"{stage.title}: no rows that tell about it: its coefficients are estimates or left out")
            continue
        say(stage.title, number / len(STAGES))
        names = _names(stage, rows, version, fixed)
        values, spread = _fit_stage(optimize, stage, names, rows, which & ~unused, version, values, by_load, remarks)
        intervals |= spread
        values |= _estimates(values, stage)
        p = vector(property_file(version, values, ()), rows)
        shares = [_judged(p, stage, rows, part) for part in (which & ~unused, which & unused)]
        stages.append(
            {"title": stage.title, "rows": int((which & ~unused).sum()), "used": shares[0], "unused": shares[1]}
        )
    if not stages:
        raise ConfigError(f"{rows.name}: no row is of pure slip: nothing to fit")
    if absent := [f"{key} ({what})" for key, what in _NOT_OF_ROWS.items() if not values.get(key)]:
        remarks.append(f"left at 0, because rows of slip tell nothing about it: {', '.join(absent)}; --set KEY=VALUE")
    comments = [f"MF {version}, fitted to {rows.name.rpartition('/')[2]}"]
    comments += [f"{s['title']}: {100 * s['unused']:.2f} % of the rms of unused rows is left" for s in stages]
    text = property_file(version, values, [*comments, *remarks])
    parse_tir(text, "the fit")
    return Fitted(version, values, intervals, stages, text, remarks)


def _judged(p: np.ndarray, stage: Stage, rows: Rows, which: np.ndarray) -> float:
    """`left` of at most so many rows, evenly: of millions the rest costs memory and says the same."""
    at = np.flatnonzero(which)
    some = rows.part(at[:: 1 + len(at) // MOST_JUDGED])
    return left(forces(p, some)[:, stage.place], some.columns[stage.column])


def _header(rows: Rows, version: str, fixed: Mapping[str, float], remarks: list[str]) -> dict[str, float]:
    """What the tyre is like beside its slip, and where its fit begins."""
    load, lean = rows.columns["fz"], float(np.abs(rows.get("camber", 0.0)).max())
    values = {
        "FNOMIN": float(f"{np.median(load):.3g}"), "FZMIN": 0.0,
        "FZMAX": float(f"{_HEAVIEST * load.max():.3g}"),
        "LONGVL": float(f"{np.median(rows.get('speed', 16.6)):.3g}"),
    }  # fmt: skip
    values["CAMMAX"] = min(max(0.0873, 1.2 * lean), 1.0)
    values["CAMMIN"] = -values["CAMMAX"]
    values |= _height(rows, fixed, remarks)
    if version == "6.1" and "pressure" in rows.columns:
        pressure = rows.columns["pressure"]
        values |= {"NOMPRES": float(f"{np.median(pressure):.3g}"), "PRESMIN": float(f"{0.95 * pressure.min():.3g}")}
        values |= {"INFLPRES": values["NOMPRES"], "PRESMAX": float(f"{1.05 * pressure.max():.3g}")}
    values |= _START | ({"PKY4": 2.0} if version == "6.1" else {})
    friction = float(np.percentile(np.abs(rows.columns["fy"]) / load, 99))
    small = np.abs(rows.columns["alpha"]) < 0.04
    slope = (
        float(np.polyfit(rows.columns["alpha"][small], (rows.columns["fy"] / load)[small], 1)[0])
        if small.any()
        else 0.0
    )
    stiff = min(max(-slope, 3.0), 60.0) * 1.3
    values |= {"PDY1": max(friction, 0.2), "PDX1": max(friction, 0.2), "PKY1": -stiff, "PKX1": stiff}
    values |= {key: value for key, value in fixed.items() if key in T.__members__}
    return values


def _height(rows: Rows, fixed: Mapping[str, float], remarks: list[str]) -> dict[str, float]:
    """Radius and stiffness: from the loaded radius over the load, or given."""
    found: dict[str, float] = {}
    if "radius" in rows.columns:
        slope, radius = np.polyfit(rows.columns["fz"], rows.columns["radius"], 1)
        if slope < 0.0 and 0.05 < radius < 1.0:
            found = {"UNLOADED_RADIUS": float(f"{radius:.4g}"), "VERTICAL_STIFFNESS": float(f"{-1.0 / slope:.3g}")}
            remarks.append("radius and vertical stiffness are those of the loaded radius over the load")
    for key, most in (("UNLOADED_RADIUS", 0.3), ("VERTICAL_STIFFNESS", 2e5)):
        if key not in found and key not in fixed:
            found[key] = most
            remarks.append(f"{key} = {most:g} is an estimate: no column of the loaded radius, and not given by --set")
    return found


def _rows_of(stage: Stage, rows: Rows) -> np.ndarray:
    """Rows that tell about it."""
    kappa, alpha = np.abs(rows.get("kappa", 0.0)), np.abs(rows.columns["alpha"])
    if stage.pure == "kappa":
        which = kappa < 0.02
        varied = which.any() and float(np.ptp(rows.columns["alpha"][which])) > 0.02
    elif stage.pure == "alpha":
        which = alpha < 0.01
        varied = which.any() and float(kappa[which].max()) > 0.03
    else:
        which = (kappa > 0.02) & (alpha > 0.01)
        varied = int(which.sum()) >= 500
    return np.asarray(which if varied and which.sum() >= 100 else np.zeros(len(rows), bool))


def _names(stage: Stage, rows: Rows, version: str, fixed: Mapping[str, float]) -> list[str]:
    """Coefficients that these rows tell about."""
    names = stage.names.split() + (stage.six.split() if version == "6.1" else [])
    if version != "6.1" and stage.title == STAGES[0].title:
        names.append("PHY3")
    pressure = rows.get("pressure", 0.0)
    if float(np.ptp(rows.get("camber", 0.0))) < 0.005:
        names = [name for name in names if name not in _OF_CAMBER.split()]
    if float(np.ptp(pressure)) < 0.02 * float(np.median(pressure)) or not pressure.any():
        names = [name for name in names if not name.startswith("PP")]
    return [name for name in names if name not in fixed]


def _estimates(values: Mapping[str, float], stage: Stage) -> dict[str, float]:
    """What the longitudinal force is before a row tells of it: as the lateral one."""
    if stage.place != FY or not stage.pure:
        return {}
    return {"PDX1": values["PDY1"], "PDX2": values["PDY2"], "PKX1": -1.2 * values["PKY1"]}


def _fit_stage(
    optimize: Any, stage: Stage, names: list[str], rows: Rows, which: np.ndarray, version: str,
    values: dict[str, float], by_load: float, remarks: list[str],
) -> tuple[dict[str, float], dict[str, float]]:  # fmt: skip
    """Values and 95 % intervals: looked for with few rows, then made exact with many."""
    every = np.flatnonzero(which)
    start = _in_bounds({**dict.fromkeys(names, 0.0), **{n: v for n, v in values.items() if n in names}})
    p = vector(property_file(version, {**values, **start}, ()), rows)
    coarse = grid(rows, values, version)
    low, high = np.array([_BOUNDS.get(name, (-1e3, 1e3)) for name in names]).T
    x, places = np.array([start[name] for name in names]), [int(T[name]) for name in names]
    dense = grid(rows, values, version, DENSE)
    usual, *heavier = _PENALTIES
    rounds = [(FEW, _MOST_TRIES, usual), (MOST_FITTED, _LAST_TRIES, usual)]
    for most, tries, penalty in rounds + [(MOST_FITTED, 3 * _LAST_TRIES, more) for more in heavier]:
        # by lot: every n-th row would be the same few of a sweep that repeats
        thin = np.sort(np.random.default_rng(0).permutation(every)[:most])
        some = rows.part(thin)
        measured, out = some.columns[stage.column], np.empty((len(some), 4))
        weight = (some.columns["fz"] / values["FNOMIN"]) ** -by_load
        scale = float(np.sqrt(np.sum((measured * weight) ** 2)))

        def residuals(
            x: np.ndarray, some: Rows = some, out: np.ndarray = out, measured: np.ndarray = measured,
            weight: np.ndarray = weight, scale: float = scale, penalty: float = penalty,
        ) -> np.ndarray:  # fmt: skip
            p[places] = x
            found = forces(p, some, out)[:, stage.place]
            outside = np.maximum(np.maximum(low - x, x - high), 0.0)
            return np.concatenate([(found - measured) * weight / scale, outside, penalty * _unsound(stage, p, coarse)])

        # bounds as residuals of their own: inside hard ones the search ends early
        solved = optimize.least_squares(residuals, x, x_scale="jac", ftol=1e-6, xtol=1e-6, max_nfev=tries)
        x = np.clip(solved.x, low, high)
        p[places] = x
        wrong = soundness(stage, p, dense)
        if not wrong and most == MOST_FITTED:
            break
    if wrong:
        text = f"{rows.name}: {stage.title}: the fit is unsound: {wrong}"
        raise ConfigError(f"{text}; rows of more loads, slip or camber, or --set of a coefficient, are needed")
    if penalty != usual:
        remarks.append(f"{stage.title}: held in what is sound by a penalty {penalty:g} times the usual one")
    blocks = thin // BLOCK
    x = np.where(np.abs(x) < 1e-9, 0.0, x)
    at_bound = [n for n, v, a, b in zip(names, x, low, high, strict=True) if n in _BOUNDS and min(v - a, b - v) < 1e-6]
    if at_bound:
        remarks.append(f"{stage.title}: at the bound of what is sound: {', '.join(at_bound)}")
    half = _intervals(solved.jac[: len(measured)], solved.fun[: len(measured)], blocks)
    found = {name: float(f"{value:.8g}") for name, value in zip(names, x, strict=True)}
    return {**values, **found}, dict(zip(names, half.tolist(), strict=True))


def _in_bounds(values: Mapping[str, float]) -> dict[str, float]:
    out = {}
    for name, value in values.items():
        low, high = _BOUNDS.get(name, (-1e3, 1e3))
        margin = 1e-3 * (high - low)
        out[name] = min(max(value, low + margin), high - margin) if name in _BOUNDS else value
    return out


def _intervals(J: np.ndarray, r: np.ndarray, blocks: np.ndarray) -> np.ndarray:
    """Half of 95 %: (J'J)^-1 (sum over blocks of their gradients' squares) (J'J)^-1."""
    inverse = np.linalg.pinv(J.T @ J)
    _, at = np.unique(blocks, return_inverse=True)
    gradients = np.zeros((int(at.max()) + 1, J.shape[1]))
    np.add.at(gradients, at, J * r[:, None])
    return np.asarray(1.96 * np.sqrt(np.maximum(np.diag(inverse @ (gradients.T @ gradients) @ inverse), 0.0)))


class Grid(NamedTuple):
    df: np.ndarray
    s: np.ndarray
    dpi: np.ndarray
    n: np.ndarray


def grid(rows: Rows, values: Mapping[str, float], version: str, counts: tuple[int, int, int] = COARSE) -> Grid:
    """Loads, camber angles and pressures that the tyre will meet."""
    nominal, lean = values["FNOMIN"], values["CAMMAX"] if float(np.abs(rows.get("camber", 0.0)).max()) else 0.0
    pressure = rows.get("pressure", 0.0) if version == "6.1" and "NOMPRES" in values else np.zeros(1)
    ends = pressure.min(), pressure.max()
    dpi = np.linspace(*ends, counts[2]) / values["NOMPRES"] - 1.0 if pressure.any() else np.zeros(1)
    half = counts[0] // 2 + 1
    loads = [np.linspace(0.125 * nominal, nominal, half), np.linspace(nominal, values["FZMAX"], half)[1:]]
    load, s, d = np.meshgrid(np.concatenate(loads), np.sin(np.linspace(-lean, lean, counts[1])), dpi)
    return Grid(load.ravel() / nominal - 1.0, s.ravel(), d.ravel(), load.ravel() / nominal)


def soundness(stage: Stage, p: np.ndarray, g: Grid) -> str:
    """What is wrong with the formula somewhere on the grid, without the margin that a fit keeps; "" if nothing is."""
    over = _unsound(stage, p, g).reshape(-1, len(g.df))
    names = ["E is above 1 on the one side or the other"] * len(over)
    if stage.place in (FX, FY) and stage.pure:
        names[2:] = ["the peak nearly vanishes", "the slip stiffness nearly vanishes"]
    if stage.place == MZ:
        names[2:] = ["the trail's slope nearly vanishes"]
    for name, beyond in zip(names, over, strict=True):
        k = int(np.argmax(beyond))
        if beyond[k] > _GAP:  # E of 1; a peak of 0.08
            load, lean = g.n[k] * p[T.NOMINAL_LOAD], np.degrees(np.arcsin(g.s[k]))
            return f"{name} at {load:.0f} N and {lean:.1f} deg of camber"
    return _pushing(stage, p, g) if stage.pure and stage.place in (FX, FY) else ""


def _pushing(stage: Stage, p: np.ndarray, g: Grid) -> str:
    """Where large slip is not resisted, by the forces themselves."""
    of, side = np.meshgrid(np.arange(len(g.df)), np.array([-1.0, 1.0]) * _LARGE_SLIP)
    k, slip = of.ravel(), side.ravel()
    columns = {
        "fz": g.n[k] * p[T.NOMINAL_LOAD], "camber": np.arcsin(g.s[k]), "pressure": (1.0 + g.dpi[k]) * p[T.NOMPRES],
        "alpha": slip if stage.place == FY else np.zeros(len(k)), "kappa": slip if stage.place == FX else 0.0 * slip,
    }  # fmt: skip
    rows = Rows("the grid", columns)
    force = forces(opened(p, rows), rows)[:, stage.place] * np.sign(slip) * (-1.0 if stage.place == FY else 1.0)
    worst = int(np.argmin(force))
    if force[worst] > 0.0 and np.isfinite(force).all():
        return ""
    where = (
        f"{columns['fz'][worst]:.0f} N, slip {slip[worst]:+g}, camber {np.degrees(columns['camber'][worst]):.1f} deg"
    )
    return f"slip is not resisted at {where}"


def _unsound(stage: Stage, p: np.ndarray, g: Grid) -> np.ndarray:
    """How far beyond what is sound: E above 1, friction and stiffness below a twentieth of the nominal ones."""

    def beyond(value: np.ndarray) -> np.ndarray:
        return np.asarray(np.maximum(value, 0.0))

    def of(name: str) -> float:
        return float(p[T[name]])

    df, s, dpi, n = g
    if stage.place == FY and stage.pure:
        E = of("PEY1") + of("PEY2") * df
        sides = [E * (1.0 + of("PEY5") * s * s - sign * (of("PEY3") + of("PEY4") * s)) for sign in (-1.0, 1.0)]
        friction = (of("PDY1") + of("PDY2") * df) * (1.0 - of("PDY3") * s * s)
        friction = friction * (1.0 + of("PPY3") * dpi + of("PPY4") * dpi * dpi) / of("PDY1")
        four = of("PKY4") if of("VERSION") else 2.0
        two = (of("PKY2") + of("PKY5") * s * s) * (1.0 + of("PPY2") * dpi)
        stiff = np.sin(four * np.arctan(n / np.maximum(two, 0.05))) / n
        stiff = stiff * (1.0 - of("PKY3") * np.abs(s)) * (1.0 + of("PPY1") * dpi)
        return np.concatenate([*(beyond(e - 1.0 + _GAP) for e in sides), beyond(0.1 - friction), beyond(0.05 - stiff)])
    if stage.place == FX and stage.pure:
        E = of("PEX1") + of("PEX2") * df + of("PEX3") * df * df
        sides = [E * (1.0 - sign * of("PEX4")) for sign in (-1.0, 1.0)]
        friction = (of("PDX1") + of("PDX2") * df) * (1.0 - of("PDX3") * s * s)
        friction = friction * (1.0 + of("PPX3") * dpi + of("PPX4") * dpi * dpi) / of("PDX1")
        stiff = (of("PKX1") + of("PKX2") * df) / of("PKX1") * (1.0 + of("PPX1") * dpi + of("PPX2") * dpi * dpi)
        return np.concatenate([*(beyond(e - 1.0 + _GAP) for e in sides), beyond(0.1 - friction), beyond(0.1 - stiff)])
    if stage.place == MZ:
        E = of("QEZ1") + of("QEZ2") * df + of("QEZ3") * df * df
        sides = [E * (1.0 + sign * (of("QEZ4") + of("QEZ5") * s)) for sign in (-1.0, 1.0)]
        slope = (of("QBZ1") + of("QBZ2") * df + of("QBZ3") * df * df) / of("QBZ1")
        return np.concatenate([*(beyond(e - 1.0 + _GAP) for e in sides), beyond(0.05 - slope)])
    ends = ("REX1", "REX2") if stage.place == FX else ("REY1", "REY2")
    return beyond(of(ends[0]) + of(ends[1]) * df - 1.0 + _GAP) if not stage.pure else np.zeros(0)
