"""Everything linear theory predicts of a car at a speed, in one call.

`predict` collects what `steady`, `handling`, `ride` and `straight` compute; the numbers are plain, and `to_json` turns
them (and any other dataclass of this package) into what JSON can hold.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tandem.machines.car.buggy.analysis.car import Car
from tandem.machines.car.buggy.analysis.handling import Mode, StepAnswer, rolling_track, single_track, step_answer
from tandem.machines.car.buggy.analysis.ride import RideMode, ride_modes
from tandem.machines.car.buggy.analysis.steady import (
    Lean,
    Understeer,
    characteristic_speed,
    critical_speed,
    lean,
    understeer,
    yaw_gain,
)
from tandem.machines.car.buggy.analysis.straight import (
    Braking,
    braking,
    braking_distance,
    coast_down,
    longitudinal_transfer,
)


@dataclass(frozen=True)
class Prediction:
    """SI; angles rad, frequencies where named in Hz. Pairs are front, rear."""

    speed: float
    mass: float
    cg: tuple[float, float]  # x from the front axle, height
    yaw_inertia: float
    axle_loads: tuple[float, float]
    wheel_rates: tuple[float, float]
    roll_centres: tuple[float, float]
    roll_stiffness: tuple[float, float]
    roll_gradient: float  # rad s²/m
    lean: Lean  # at the lateral acceleration asked for
    understeer: Understeer  # at small lateral acceleration
    understeer_loaded: Understeer  # secant at the lateral acceleration asked for
    characteristic_speed: float
    critical_speed: float
    yaw_gains: tuple[tuple[float, float], ...]  # (speed, yaw rate per road wheel angle)
    yaw_modes: tuple[Mode, ...]  # two freedoms
    roll_modes: tuple[Mode, ...]  # with roll (and tyre delay, where given)
    yaw_step: StepAnswer  # two freedoms
    yaw_step_with_roll: StepAnswer
    acceleration_step_with_roll: StepAnswer
    ride_held: tuple[RideMode, ...]
    ride_free: tuple[RideMode, ...]
    longitudinal_transfer_per_acceleration: float  # N s²/m
    braking: Braking
    braking_distance: float  # from `speed`
    coast_down: tuple[tuple[float, float], ...]  # (time, speed) from `speed`


def predict(
    car: Car,
    speed: float,
    lateral_acceleration: float = 4.0,
    friction: float = 0.9,
    brake_front_share: float = 0.63,
    gain_speeds: Sequence[float] = (5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 35.0, 40.0),
    coast_times: Sequence[float] = (0.0, 5.0, 10.0, 20.0, 30.0, 60.0),
) -> Prediction:
    """All of it for straight running at `speed`, and a turn at `lateral_acceleration`."""
    small, loaded = understeer(car), understeer(car, lateral_acceleration)
    plain, rolling = single_track(car, speed), rolling_track(car, speed)
    brakes = braking(car, friction, brake_front_share)
    return Prediction(
        speed=speed,
        mass=car.mass,
        cg=(car.cg_x, car.cg_height),
        yaw_inertia=car.yaw_inertia,
        axle_loads=car.loads,
        wheel_rates=(car.front.stiffness, car.rear.stiffness),
        roll_centres=(car.front.roll_centre, car.rear.roll_centre),
        roll_stiffness=(car.front.roll_stiffness, car.rear.roll_stiffness),
        roll_gradient=lean(car, 1.0).roll,
        lean=lean(car, lateral_acceleration),
        understeer=small,
        understeer_loaded=loaded,
        characteristic_speed=characteristic_speed(car.wheelbase, small.total),
        critical_speed=critical_speed(car.wheelbase, small.total),
        yaw_gains=tuple((v, yaw_gain(car.wheelbase, small.total, v)) for v in gain_speeds),
        yaw_modes=plain.modes(),
        roll_modes=rolling.modes(),
        yaw_step=step_answer(plain),
        yaw_step_with_roll=step_answer(rolling),
        acceleration_step_with_roll=step_answer(rolling, "lateral_acceleration"),
        ride_held=ride_modes(car, held=True),
        ride_free=ride_modes(car, held=False),
        longitudinal_transfer_per_acceleration=longitudinal_transfer(car, 1.0),
        braking=brakes,
        braking_distance=braking_distance(speed, brakes.deceleration),
        coast_down=tuple((t, coast_down(car, speed, t)) for t in coast_times),
    )


def to_json(value: Any) -> Any:
    """Dataclasses as objects, tuples as lists; infinite numbers as null, which is what JSON has for them."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_json(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
