"""Braking in a turn after ISO 7975: from a steady circle, hand wheel held, at several pressures."""

from math import degrees, pi, sqrt

import numpy as np

from tandem.console.terminal import Update
from tandem.machines.car.buggy.analysis.car import GRAVITY
from tandem.machines.car.buggy.analysis.straight import rolling_mass
from tandem.machines.car.studies.iso.result import Panel, Result, Row
from tandem.machines.car.studies.iso.runner import CannotDrive, Drive, H, Log, instants, plan
from tandem.machines.car.studies.iso.straight import brake_force_per_bar, resistance
from tandem.machines.car.studies.iso.theory import turn
from tandem.machines.car.studies.iso.vehicle import Vehicle
from tandem.reports.html.chart import Series

TURN_RADIUS = 100.0  # m
TURN_LEVEL = 5.0  # m/s2
TURN_BRAKING = (2.0, 3.0, 4.0, 5.0)  # m/s2
_RISE = 0.1  # s, until the pressure is there


def brake_in_turn(vehicle: Vehicle, speed: float | None, update: Update) -> Result:
    v = sqrt(TURN_LEVEL * TURN_RADIUS) if speed is None else speed / 3.6
    car = vehicle.linear
    level = v**2 / TURN_RADIUS
    hands = turn(vehicle, v, min(level, 4.0)).steer * car.steering_ratio
    force, mass = sum(brake_force_per_bar(vehicle)), rolling_mass(car)
    approach = Drive(vehicle)
    approach.reach(v)
    share = np.minimum(instants(3.0) / 3.0, 1.0)
    approach.go(plan(3.0, angle=hands * share, curvature=share / TURN_RADIUS, speed=v))
    steady = approach.go(plan(6.0, angle=hands, curvature=1.0 / TURN_RADIUS, speed=v)).last(0.5)
    reached = float((steady.speed * steady["yaw_rate"]).mean())
    if abs(reached / level - 1.0) > 0.1:
        raise CannotDrive(f"the car does not hold {level:.1f} m/s² on {TURN_RADIUS:g} m before it is braked")
    slips = turn(vehicle, v, level).slips
    scrub = sum(load / GRAVITY * level * slip for load, slip in zip(car.loads, slips, strict=True)) / mass
    rows = [
        Row(
            "lateral acceleration before braking",
            "m/s²",
            level,
            float((steady.speed * steady["yaw_rate"]).mean()),
            "V²/R",
        )
    ]
    panels: dict[str, list[Series]] = {"yaw": [], "way": [], "slip": []}
    seconds, capped = approach.steps * H, approach.whole().capped
    for k, wanted in enumerate(TURN_BRAKING):
        slowed = v - 0.5 * wanted  # in the middle of the first second
        bar = (wanted * mass - resistance(vehicle, slowed)) / force
        drive = approach.onward()
        angle = float(approach.inputs[0])
        log = drive.go(plan(3.0, angle=angle, brake=bar * np.minimum(instants(3.0) / _RISE, 1.0)), stop_below=1.0)
        seconds, capped = seconds + len(log) * H, capped + log.capped
        at = min(round(1.0 / H), len(log)) - 1
        V, r = float(log.speed[at]), float(log["yaw_rate"][at])
        mean = (float(log.speed[0]) - V) / (H * at)
        off = _off_circle(log)
        name = f"braking at {wanted:g} m/s²"
        rows += [
            Row(
                f"{name}: mean deceleration of the first second",
                "m/s²",
                wanted * (1.0 - 0.5 * _RISE) + scrub,
                mean,
                "brake torque, resistances and Σ m_i a_y s_i of the turn over m*",
            ),
            Row(f"{name}: yaw rate at 1 s over V/R", "1", None, r * TURN_RADIUS / V),
            Row(
                f"{name}: largest yaw rate over that before",
                "1",
                None,
                float(log["yaw_rate"][: at + 1].max()) / steady.mean("yaw_rate"),
            ),
            Row(f"{name}: path off the circle at 1 s, inwards", "m", None, float(off[at])),
            Row(f"{name}: sideslip at 1 s", "deg", None, degrees(float(log["sideslip"][at]))),
        ]
        panels["yaw"].append(Series(f"{wanted:g} m/s²", log.t, np.degrees(log["yaw_rate"])))
        panels["slip"].append(Series(f"{wanted:g} m/s²", log.t, np.degrees(log["sideslip"])))
        panels["way"].append(Series(f"{wanted:g} m/s²", log.t, off))
        update("brake-in-turn", (k + 1) / len(TURN_BRAKING))
    return Result(
        "brake-in-turn",
        "Braking in a turn, after ISO 7975",
        f"radius {TURN_RADIUS:g} m at {3.6 * v:.0f} km/h, hand wheel held, driveline open",
        rows,
        [
            Panel("yaw rate, deg/s", panels["yaw"]),
            Panel("distance inside the circle, m", panels["way"]),
            Panel("sideslip, deg", panels["slip"]),
        ],
        ["what braking does to the turn has no closed form: those figures stand alone"],
        seconds,
        capped,
    )


def _off_circle(log: Log) -> np.ndarray:
    """How far inside the circle the centre of gravity is that it was on at the first row."""
    course = float(log["yaw"][0] + log["sideslip"][0])
    centre = np.array([log["x"][0], log["y"][0]]) + TURN_RADIUS * np.array(
        [np.cos(course + pi / 2), np.sin(course + pi / 2)]
    )
    inside: np.ndarray = TURN_RADIUS - np.hypot(log["x"] - centre[0], log["y"] - centre[1])
    return inside
