"""On a slope of 10 %: parked for a minute with the brake, then driven off uphill."""

from math import atan, cos, degrees, sin

import numpy as np

from tandem.console.terminal import Update
from tandem.machines.car.buggy.analysis.car import GRAVITY
from tandem.machines.car.studies.iso.result import Panel, Result, Row
from tandem.machines.car.studies.iso.runner import Drive, H, instants, plan
from tandem.machines.car.studies.iso.vehicle import Vehicle
from tandem.reports.html.chart import Series

GRADE = 0.1
PARKED_BAR, PARKED = 40.0, 60.0
_SETTLE = 3.0  # s, until brakes, tyres and the engine's creep have found their balance
_RELEASE, _THROTTLE = 0.3, 0.5  # s the brake takes to be released; pedal
ROAD = f'title = "slope"\n[surface]\nkind = "slope"\ngrade_percent = {100 * GRADE}\n'


def slope(vehicle: Vehicle, speed: float | None, update: Update) -> Result:
    on_slope = vehicle.on_road(ROAD)
    car, angle = vehicle.linear, atan(GRADE)
    drive = Drive(on_slope)
    drive.go(plan(_SETTLE, brake=PARKED_BAR))
    update("slope", 0.05)
    parked = drive.go(plan(PARKED, brake=PARKED_BAR))
    update("slope", 0.8)
    drive.set("gear_mode", vehicle.values["gear_mode"] or 1.0)
    drive.go(plan(_SETTLE, brake=PARKED_BAR))
    t = instants(6.0)
    start = drive.go(
        plan(
            6.0,
            brake=PARKED_BAR * np.clip(1.0 - t / _RELEASE, 0.0, 1.0),
            throttle=_THROTTLE * np.clip(t / _RELEASE, 0.0, 1.0),
        )
    )
    update("slope", 1.0)
    along = (parked["x"] - parked["x"][0]) / cos(angle)
    off = (start["x"] - start["x"][0]) / cos(angle)
    weight = car.mass * GRAVITY
    b, h, L = car.cg_x - car.rear.x, car.cg_height, car.wheelbase
    front = weight * (b * cos(angle) - h * sin(angle)) / L
    arms = [vehicle.arm(i, 0.5 * load) for i, load in enumerate(car.loads)]
    limit = sum(
        2.0 * (vehicle.values[f"brake_{side}"] * PARKED_BAR + vehicle.values["brake_drag"]) / arm
        for side, arm in zip(("front", "rear"), arms, strict=True)
    )
    held = sum(parked.mean(f"brake_torque_{w}") / arms[w[0] == "r"] for w in ("fl", "fr", "rl", "rr"))
    rows = [
        Row("drift parked for 60 s", "mm", 0.0, 1e3 * float(along[-1] - along[0]), "the brakes hold"),
        Row("largest motion while parked", "mm", None, 1e3 * float(np.ptp(along))),
        Row("speed after 60 s", "mm/s", 0.0, 1e3 * float(np.abs(parked["vx"][-20:]).max()), "it stands"),
        Row(
            "front axle load",
            "N",
            front,
            parked.mean("load_fl") + parked.mean("load_fr"),
            "m g (b cos θ − h sin θ) / L",
        ),
        Row(
            "rear axle load",
            "N",
            weight * cos(angle) - front,
            parked.mean("load_rl") + parked.mean("load_rr"),
            "m g cos θ less the front",
        ),
        Row("force of the brakes", "N", weight * sin(angle), held, "m g sin θ"),
        Row(
            "share of what the brakes can hold",
            "%",
            100 * weight * sin(angle) / limit,
            100 * held / limit,
            f"the same over {limit:.0f} N at {PARKED_BAR:g} bar",
        ),
        Row("rolls back when starting", "mm", None, 1e3 * abs(float(min(off.min(), 0.0)))),
        Row("speed 6 s after", "km/h", None, 3.6 * float(start["vx"][-1])),
    ]
    return Result(
        "slope",
        "Parking and starting on a slope",
        f"{100 * GRADE:g} % ({degrees(angle):.1f} deg), {PARKED_BAR:g} bar, driveline open; then in gear,"
        f" {_THROTTLE:g} of the throttle while the brake opens",
        rows,
        [
            Panel("way along the slope while parked, mm", [Series("simulated", parked.t, 1e3 * along)]),
            Panel("way along the slope when starting, m", [Series("simulated", start.t, off)]),
        ],
        [],
        drive.steps * H,
        drive.whole().capped,
    )
