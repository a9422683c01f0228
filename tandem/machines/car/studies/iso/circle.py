"""Steady-state circle after ISO 4138: constant radius, speed raised step by step, both ways round."""

from collections.abc import Callable
from math import degrees, sqrt

import numpy as np

from tandem.console.terminal import Update
from tandem.machines.car.buggy.analysis.car import GRAVITY
from tandem.machines.car.studies.iso.result import Panel, Result, Row
from tandem.machines.car.studies.iso.runner import CannotDrive, Drive, instants, plan
from tandem.machines.car.studies.iso.theory import turn
from tandem.machines.car.studies.iso.vehicle import Vehicle
from tandem.reports.html.chart import Series

RADIUS = 100.0  # m
LINEAR = 1.5  # m/s2; up to here gradients are taken
LEVELS = (*np.arange(0.25, LINEAR + 0.01, 0.25), *np.arange(2.0, 10.01, 0.5))
_RAMP, _HOLD, _READ = 2.0, 4.0, 0.5  # s; to the next level, at it, of which read
_TRIES = 3  # a car that understeers takes the hands longer near its limit
_BY_THEORY = 4.0  # m/s2; up to here the hands take theory's word for the angle
_LOST = 0.02  # of the curvature: more, and the car does not follow the circle yet
_FAR = 0.1  # ... and never will


# long: one manoeuvre, from its first run to its last row
def circle(vehicle: Vehicle, speed: float | None, update: Update) -> Result:
    drives, tables = [], []
    for k, way in enumerate((1.0, -1.0)):
        drive = Drive(vehicle)

        def report_progress(share: float, k: int = k) -> None:
            update("circle", 0.5 * (k + share))

        tables.append(_round(vehicle, drive, way, report_progress))
        drives.append(drive)
    count = min(len(table) for table in tables)
    linear = LINEAR * _scale(vehicle)
    if count < 4:
        raise CannotDrive(f"the car follows the circle at {count} of {len(LEVELS)} speeds only; no gradient in that")
    # what both directions have in common: signs are those of a left turn
    table = 0.5 * (tables[0][:count] + tables[1][:count])
    a_y = table[:, 0]
    theory = np.array([_theory(vehicle, float(a), sqrt(float(a) * RADIUS)) for a in a_y])
    car = vehicle.linear
    small = a_y < 1.05 * linear

    def slope(of: np.ndarray, column: int) -> float:
        return float(np.polyfit(a_y[small], of[small, column], 1)[0])

    def gradient(column: int) -> tuple[float, float]:
        return slope(theory, column), slope(table, column)

    balance = "balance of forces and moments, tyre slopes at zero slip"
    per_g = degrees(GRAVITY)
    rows = []
    for name, column, unit, factor, by in (
        ("understeer gradient", 1, "deg/g", per_g, f"δ − L/R over a_y up to {linear:.2g} m/s²; {balance}"),
        ("understeer gradient at the hand wheel", 6, "deg/g", per_g, "the same times the steering ratio"),
        ("roll gradient", 2, "deg/g", per_g, "Σ Ks (φ − ψ) = m_s d (a_y + g φ) + wheels, tyres in series"),
        ("sideslip gradient", 3, "deg/g", per_g, f"rear axle slip and roll steer; {balance}"),
        ("load transfer front", 4, "N per m/s²", 1.0, "Kt ψ / track, gyroscopic and overturning moments included"),
        ("load transfer rear", 5, "N per m/s²", 1.0, "the same"),
    ):
        predicted, simulated = gradient(column)
        rows.append(Row(name, unit, factor * predicted, factor * simulated, by))
    last = int(np.flatnonzero(small)[-1])
    v = sqrt(RADIUS * float(a_y[last]))
    rows.insert(
        2,
        Row(
            f"yaw gain at {3.6 * v:.0f} km/h",
            "1/s",
            v / RADIUS / (car.wheelbase / RADIUS + float(theory[last, 1])),
            v / RADIUS / (car.wheelbase / RADIUS + float(table[last, 1])),
            "V / (L + K V²)",
        ),
    )
    rows.append(
        Row(
            "largest steady lateral acceleration",
            "m/s²",
            _most(vehicle),
            float(max(a_y)),
            "a bound: Σ D_y(F_z) of the weaker axle over its mass; drive force and camber take from it",
        )
    )
    asymmetry = float(np.abs(tables[0][:count, 1] - tables[1][:count, 1]).max())
    return Result(
        "circle",
        "Steady-state circle, after ISO 4138",
        f"radius {RADIUS:g} m, left and right, speed held by the torque on the rear wheels",
        rows,
        [
            Panel("road wheel angle beyond L/R, deg", _pair(a_y, theory, table, 1), "m/s²"),
            Panel("roll, deg", _pair(a_y, theory, table, 2), "m/s²"),
            Panel("sideslip, deg", _pair(a_y, theory, table, 3), "m/s²"),
            Panel(
                "load moved from the inner to the outer wheel, N",
                [
                    *(Series(f"{n}: theory", a_y, theory[:, c]) for n, c in (("front", 4), ("rear", 5))),
                    *(Series(f"{n}: simulated", a_y, table[:, c]) for n, c in (("front", 4), ("rear", 5))),
                ],
                "m/s²",
            ),
        ],
        [f"left and right circles differ by {degrees(asymmetry):.1e} deg of road wheel angle at most"],
        sum(drive.whole().t[-1] for drive in drives),
        sum(drive.whole().capped for drive in drives),
    )


def _pair(a_y: np.ndarray, theory: np.ndarray, table: np.ndarray, column: int) -> list[Series]:
    return [
        Series("linear theory", a_y, np.degrees(theory[:, column])),
        Series("simulated", a_y, np.degrees(table[:, column])),
    ]


def _round(vehicle: Vehicle, drive: Drive, way: float, update: Callable[[float], None]) -> np.ndarray:
    """(a_y, steer beyond L/R, roll, sideslip, transfer front, rear, hand wheel) at each level, as of a left turn."""
    car = vehicle.linear
    levels = [_scale(vehicle) * float(level) for level in LEVELS]
    most = _scale(vehicle) * _BY_THEORY
    speed, angle = sqrt(levels[0] * RADIUS), 0.0
    drive.reach(speed)
    found = []
    for k, level in enumerate(levels):
        wanted = sqrt(level * RADIUS)
        hands = way * turn(vehicle, wanted, min(level, most)).steer * car.steering_ratio
        share = instants(_RAMP) / _RAMP
        drive.go(
            plan(
                _RAMP,
                angle=angle + (hands - angle) * share,
                curvature=way / RADIUS,
                speed=speed + (wanted - speed) * share,
            )
        )
        angle, speed = hands, wanted
        for _ in range(_TRIES):
            log = drive.go(plan(_HOLD, angle=hands, curvature=way / RADIUS, speed=wanted)).last(_READ)
            curvature = way * log.mean("yaw_rate") / float(log.speed.mean())
            off, steady = abs(curvature * RADIUS - 1.0), float(np.ptp(log["yaw_rate"])) <= _LOST
            fast = log.mean("vx") >= 0.98 * speed
            follows = off <= _LOST and steady and fast
            if follows or off > _FAR or not (steady and fast):
                break
        if not follows:
            break
        steer = way * log.mean("road_wheel_angle") - car.wheelbase * curvature
        hand = way * log.mean("steering_angle") - car.wheelbase * curvature * car.steering_ratio
        front, rear = (0.5 * way * (log.mean(f"load_{a}r") - log.mean(f"load_{a}l")) for a in "fr")
        a_y = float((log.speed**2).mean()) * curvature
        found.append([a_y, steer, way * log.mean("roll"), way * log.mean("sideslip"), front, rear, hand])
        update((k + 1) / len(LEVELS))
    return np.array(found)


def _scale(vehicle: Vehicle) -> float:
    """On a slippery road all happens at smaller accelerations."""
    return min(1.0, vehicle.values["grip"])


def _theory(vehicle: Vehicle, a_y: float, speed: float) -> list[float]:
    at = turn(vehicle, speed, a_y)
    car = vehicle.linear
    beyond = at.steer - car.wheelbase * a_y / speed**2
    return [a_y, beyond, at.roll, at.sideslip, *at.transfer, beyond * car.steering_ratio]


def _most(vehicle: Vehicle) -> float:
    """Where the first axle has no more side force: its wheels loaded as theory has it at that acceleration."""
    a_y = 1.0
    for _ in range(20):
        transfer = turn(vehicle, sqrt(a_y * RADIUS), a_y).transfer
        limits = []
        for i, load in enumerate(vehicle.linear.loads):
            pair = [max(0.5 * load + sign * transfer[i], 0.0) for sign in (-1.0, 1.0)]
            limits.append(sum(vehicle.peak(i, wheel, lateral=True) for wheel in pair) / (load / GRAVITY))
        a_y = min(limits)
    return a_y
