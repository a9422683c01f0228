"""A car from figures that people have: hardpoints, masses and springs moved until the car has them.

`resolve` changes the parameters of a vehicle file by its section [figures]. Whatever a figure does not decide stays as
the file has it, but what hangs together follows: a car of another mass keeps its ride frequencies and dampings, the
springs hold it where it is drawn, and its inertias grow with mass and size.

    wheelbase, tracks     an axle's points are moved as one: its kinematics stay
    tyre_size             radius of the tyres; the axles are raised to where the loaded tyres hold them
    roll centres          pivots of the lower arm, and the tie rod's inner end, so that toe changes as before (Newton)
    mass, front_share, cg_height    of the whole car: the sprung mass and its centre make up what the wheels do not
    wheel and bar rates   springs by the motion ratio there, bars by the lever of the lower ball joint
"""

import math
import re
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from sync.config.toml import Section
from sync.errors import ConfigError
from tandem.machines.car.buggy.analysis.corner import Corner, corner, spring_length, spring_rate
from tandem.machines.car.buggy.analysis.geometry import HardpointError
from tandem.machines.car.buggy.analysis.suspension import Suspension, at_travel, rates
from tandem.machines.car.buggy.bodies import FRONT, REAR, Points, unsprung
from tandem.machines.car.buggy.checks import GRAVITY, carried, suspension

AXLES = {"front": FRONT, "rear": REAR}
_SIZE = re.compile(r"(\d{3})\s*/\s*(\d{2,3})\s*[A-Z]*\s*(\d{2})", re.ASCII)
_STEP, _TRIES, _NEAR = 1e-4, 20, 1e-9  # m
Positive = Annotated[float, Field(gt=0.0)]


class Figures(Section):
    """SI. A figure that is absent is that of the hardpoints, masses and springs of the file."""

    wheelbase: Annotated[float | None, Field(ge=0.5, le=6.0)] = None  # m
    track_front: Annotated[float | None, Field(ge=0.5, le=3.0)] = None  # m, between the wheel centres
    track_rear: Annotated[float | None, Field(ge=0.5, le=3.0)] = None
    mass: Annotated[float | None, Field(ge=200.0, le=5000.0)] = None  # kg, as it drives: with driver and fuel
    front_share: Annotated[float | None, Field(ge=0.2, le=0.8)] = None  # of the weight, on the front axle
    cg_height: Annotated[float | None, Field(ge=0.1, le=2.0)] = None  # m
    front_roll_centre: Annotated[float | None, Field(ge=-0.2, le=0.4)] = None  # m, height
    rear_roll_centre: Annotated[float | None, Field(ge=-0.2, le=0.5)] = None
    front_wheel_rate: Positive | None = None  # N/m, of the spring at one wheel, without its tyre
    rear_wheel_rate: Positive | None = None
    front_bar_rate: Annotated[float | None, Field(ge=0.0)] = None  # N m per rad of roll, of the anti-roll bar
    rear_bar_rate: Annotated[float | None, Field(ge=0.0)] = None
    steering_ratio: Annotated[float | None, Field(ge=3.0, le=40.0)] = None  # hand wheel per front wheel, straight ahead
    tyre_size: str | None = None  # such as "195/50 R16": its radius replaces that of both tyre files


@dataclass(frozen=True)
class Tyre:
    radius: float  # m, unloaded
    stiffness: float  # N/m


def tyre_dimensions(size: str) -> tuple[float, float, float, float]:
    """Unloaded radius and width in m, aspect ratio in %, radius of the rim in m: of 195/50 R16."""
    found = _SIZE.fullmatch(size.strip().upper())
    if not found or not 20.0 <= float(found[2]) <= 100.0:
        raise ConfigError(
            f"tyre_size = {size[:40]!r}: must be width in mm, aspect ratio in %, rim in inch: '195/50 R16'"
        )
    width, aspect, rim = (float(word) for word in found.groups())
    return round(0.5 * rim * 25.4e-3 + 1e-5 * width * aspect, 4), 1e-3 * width, aspect, 0.5 * rim * 25.4e-3


def resolve(p: dict[str, float], figures: Figures, tyres: tuple[Tyre, Tyre]) -> tuple[dict[str, float], list[str]]:
    """All parameters, and what follows, in sentences. `tyres`: of both axles, with the radius that they shall have."""
    found = dict(p)
    changes: list[str] = []
    try:
        before = {axle: _Axle(p, axle) for axle in AXLES}
        _moved_in_plan(found, figures, changes)
        masses = _Masses(found, figures)
        for axle, tyre in zip(AXLES, tyres, strict=True):
            height = tyre.radius - masses.load(axle) / tyre.stiffness
            _move(found, axle, 2, height - found[f"{axle}_WC_z"])
            changes.append(f"{axle} wheel centre {height:.4f} m above the road, {masses.load(axle):.0f} N on a wheel")
        for axle in AXLES:
            wanted = getattr(figures, f"{axle}_roll_centre")
            if wanted is not None:
                changes.append(_roll_centre(found, axle, wanted))
        masses.place(found, changes)
        _inertias(p, found, changes)
        now = {axle: _Axle(found, axle) for axle in AXLES}
        for axle in AXLES:
            _spring(found, axle, before[axle], now[axle], getattr(figures, f"{axle}_wheel_rate"), changes)
            bar = getattr(figures, f"{axle}_bar_rate")
            if bar is not None:
                found[f"{axle}_anti_roll"] = bar / now[axle].bar_lever ** 2
                changes.append(f"{axle}_anti_roll = {found[f'{axle}_anti_roll']:.0f} N/m at the lower ball joints")
        found["stop_rate"] = p["stop_rate"] * masses.total / masses.before
        if figures.steering_ratio is not None:
            turn = 2.0 * math.pi / (abs(now["front"].at.steer_per_rack) * figures.steering_ratio)
            found["rack_travel_per_turn"] = turn
            changes.append(f"rack_travel_per_turn = {turn:.5f} m")
    except HardpointError as error:
        raise ConfigError(f"figures: no suspension has them: {error}") from None
    # last digits are those of a library of linear algebra
    return {name: value if value == p[name] else float(f"{value:.10g}") for name, value in found.items()}, changes


def _points(p: dict[str, float], axle: str) -> Points:
    return {name: np.array([p[f"{axle}_{name}_{i}"] for i in "xyz"]) for name in AXLES[axle]}


def _move(p: dict[str, float], axle: str, direction: int, by: float, names: tuple[str, ...] = ()) -> None:
    for name in names or AXLES[axle]:
        p[f"{axle}_{name}_{'xyz'[direction]}"] += by


class _Axle:
    """Its suspension as it is drawn."""

    def __init__(self, p: dict[str, float], axle: str):
        self.of: Suspension = suspension(p, axle, _points(p, axle))
        self.at: Corner = corner(self.of, radius=p[f"{axle}_WC_z"])
        pose = at_travel(self.of, 0.0)
        self.length = spring_length(pose)
        self.ratio = spring_rate(self.of, pose, rates(self.of, pose))
        share = (p["sprung_cg_x"] - p["rear_WC_x"]) / (p["front_WC_x"] - p["rear_WC_x"])
        self.needed = carried(p, axle, share)  # N at the wheel
        self.rate = p[f"{axle}_spring_rate"]

    @property
    def bar_lever(self) -> float:
        """Difference of the heights of the lower ball joints, per rad of roll."""
        up, down = (at_travel(self.of, z).points["LBJ"][2] for z in (1e-3, -1e-3))
        return float(up - down) / 2e-3 * 2.0 * self.at.half_track


def _moved_in_plan(p: dict[str, float], figures: Figures, changes: list[str]) -> None:
    if figures.wheelbase is not None:
        by = p["front_WC_x"] - figures.wheelbase - p["rear_WC_x"]
        _move(p, "rear", 0, by)
        changes.append(f"the points of the rear axle are moved by {by:+.4f} m along x")
    for axle in AXLES:
        track = getattr(figures, f"track_{axle}")
        if track is not None:
            by = 0.5 * track - p[f"{axle}_WC_y"]
            _move(p, axle, 1, by)
            changes.append(f"the points of the {axle} axle are moved by {by:+.4f} m outwards")


class _Masses:
    """Of the whole car: given, or those of the file."""

    def __init__(self, p: dict[str, float], figures: Figures):
        parts = _unsprung(p)
        self.before = p["sprung_mass"] + sum(m for m, _ in parts)
        self.total = figures.mass or self.before
        centre = _centre(p)
        front, rear = p["front_WC_x"], p["rear_WC_x"]
        self.share = figures.front_share or float((centre[0] - rear) / (front - rear))
        self.height = figures.cg_height or float(centre[2])
        self.x = rear + self.share * (front - rear)

    def load(self, axle: str) -> float:
        """N, of one wheel."""
        return 0.5 * GRAVITY * self.total * (self.share if axle == "front" else 1.0 - self.share)

    def place(self, p: dict[str, float], changes: list[str]) -> None:
        parts = _unsprung(p)
        sprung = self.total - sum(m for m, _ in parts)
        if sprung < 0.6 * self.total:
            text = f"figures: mass = {self.total:g} kg: of it wheels and arms have {self.total - sprung:.0f} kg"
            raise ConfigError(f"{text}; at most 40 % may be theirs (parameters wheel_mass, front_knuckle_mass, ...)")
        rest = np.array([self.x, 0.0, self.height]) * self.total - sum(m * c for m, c in parts)
        p["sprung_mass"], p["sprung_cg_x"], p["sprung_cg_z"] = sprung, rest[0] / sprung, rest[2] / sprung
        where = f"{p['sprung_cg_x']:.4f} m along x and {p['sprung_cg_z']:.4f} m high"
        changes.append(f"sprung_mass = {sprung:.1f} kg of {self.total:.1f} kg, its centre at {where}")


def _unsprung(p: dict[str, float]) -> list[tuple[float, np.ndarray]]:
    """Masses of both sides, at the middle of the car."""
    middle = np.array([1.0, 0.0, 1.0])
    return [(2.0 * m, c * middle) for m, c in unsprung(p, _points(p, "front"), _points(p, "rear"))]


def _centre(p: dict[str, float]) -> np.ndarray:
    sprung = np.array([p["sprung_cg_x"], p["sprung_cg_y"], p["sprung_cg_z"]])
    parts = [(p["sprung_mass"], sprung), *_unsprung(p)]
    return np.asarray(sum(m * c for m, c in parts) / sum(m for m, _ in parts))


def _inertias(before: dict[str, float], p: dict[str, float], changes: list[str]) -> None:
    """Of a body of the same shape and of another mass, length and width."""

    def size(q: dict[str, float]) -> tuple[float, float]:
        return q["front_WC_x"] - q["rear_WC_x"], q["front_WC_y"] + q["rear_WC_y"]

    (length, width), mass = size(p), p["sprung_mass"] / before["sprung_mass"]
    along, across = length / size(before)[0], width / size(before)[1]
    factors = {"ixx": across**2, "iyy": along**2, "izz": along**2, "ixz": along * across}
    for name, factor in factors.items():
        p[f"sprung_{name}"] = before[f"sprung_{name}"] * mass * factor
    found = ", ".join(f"{p[f'sprung_{name}']:.0f}" for name in factors)
    changes.append(f"sprung_ixx, iyy, izz, ixz = {found} kg m2, by mass and size")


def _roll_centre(p: dict[str, float], axle: str, wanted: float) -> str:
    """Heights of the arm's pivots and of the tie rod's inner end, so that toe changes over travel as it did."""
    toe = _Axle(p, axle).at.toe_in_gain
    begun = {name: p[f"{axle}_{name}_z"] for name in ("LAF", "TRI")}

    def off(by: np.ndarray) -> np.ndarray:
        there = dict(p)
        _move(there, axle, 2, float(by[0]), ("LAF", "LAR"))
        _move(there, axle, 2, float(by[1]), ("TRI",))
        at = _Axle(there, axle).at
        return np.array([at.roll_centre - wanted, at.toe_in_gain - toe])

    by = np.zeros(2)
    for _ in range(_TRIES):
        now = off(by)
        if np.abs(now).max() < _NEAR:
            break
        jacobian = np.stack([(off(by + d) - off(by - d)) / (2.0 * _STEP) for d in _STEP * np.eye(2)], axis=1)
        by = by - np.clip(np.linalg.solve(jacobian, now), -0.05, 0.05)
    else:
        text = f"figures: {axle}_roll_centre = {wanted:g} m: not reached by the heights of {axle}.LAF and LAR"
        raise ConfigError(f"{text}; {now[0] + wanted:.3f} m is")
    _move(p, axle, 2, float(by[0]), ("LAF", "LAR"))
    _move(p, axle, 2, float(by[1]), ("TRI",))
    raised = ", ".join(f"{axle}.{name} by {p[f'{axle}_{name}_z'] - z:+.4f} m" for name, z in begun.items())
    return f"raised: {raised} (LAR as LAF)"


def _spring(
    p: dict[str, float], axle: str, before: _Axle, now: _Axle, wanted: float | None, changes: list[str]
) -> None:  # fmt: skip
    force = now.needed / -now.ratio  # along the spring
    if wanted is None:
        rate = before.rate * now.needed / before.needed * (before.ratio / now.ratio) ** 2
    else:  # d2U/dz2 = k l'^2 + k (l - l0) l'', as `wheel_rate`
        rate = (wanted + force * now.at.motion_ratio_gain) / now.ratio**2
        if rate <= 0.0:
            raise ConfigError(f"figures: {axle}_wheel_rate = {wanted:g} N/m: no spring gives it at this motion ratio")
    p[f"{axle}_spring_rate"], p[f"{axle}_spring_length"] = rate, now.length + force / rate
    damper = math.sqrt(rate * now.needed / (before.rate * before.needed)) * abs(before.ratio / now.ratio)
    for way in ("bump", "rebound"):
        p[f"{axle}_damper_{way}"] *= damper
    stiff = rate * now.ratio**2 - force * now.at.motion_ratio_gain
    hertz = math.sqrt(stiff * GRAVITY / now.needed) / (2.0 * math.pi)
    changes.append(
        f"{axle}_spring_rate = {rate:.0f} N/m, {axle}_spring_length = {p[f'{axle}_spring_length']:.4f} m:"
        f" {stiff:.0f} N/m at the wheel, {hertz:.2f} Hz; dampers times {damper:.2f}"
    )
