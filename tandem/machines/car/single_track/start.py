"""The single-track car in motion: from what was measured, and for the rest in equilibrium at that speed.

Given may be pose, speed, yaw rate, and lateral speed or side-slip. Without yaw rate the car turns as its steer angle
has it in steady cornering; without side-slip the rear axle carries its part of that. Wheels roll, tyres have their
steady deflection, loads are those of the accelerations. Beyond the friction limit, where there is no equilibrium, the
axle slides at it.
"""

from collections.abc import Callable, Mapping
from math import cos, isnan, pi, sin, sqrt, tan

import numpy as np

from sim_service.contract.machine import Tables
from tandem.machines.car.single_track.description import I, P, S
from tandem.machines.car.single_track.dynamics import GRAVITY, LEAST_WEIGHT, LEFT_ACROSS, per_load, step

START_QUANTITIES = ("x", "y", "yaw", "vx", "vy", "yaw_rate", "sideslip", "ax")
STANDS = 0.1  # m/s; slower there is no cornering to be in equilibrium with
_MOST_YAW_RATE = 3.0  # rad/s
_HALVINGS = 40
_ROUNDS = 3  # of what keeps the speed, and what that does to the axles

_friction: Callable[[float, float, float, float], float] = per_load.py_func


def begin(
    state: np.ndarray, params: np.ndarray, tables: Tables, work: np.ndarray, inputs: np.ndarray,
    start_values: Mapping[str, float],
) -> None:  # fmt: skip
    """`inputs` of the first step, for the steer angle and, if it is prescribed, the speed."""
    values = params.tolist()
    prescribed = float(inputs[I.prescribed_speed])
    speed = start_values.get("vx", 0.0 if isnan(prescribed) else prescribed)
    delta = float(inputs[I.prescribed_road_wheel_angle])
    if isnan(delta):
        rack = inputs[I.steering_angle] * params[P.rack_travel_per_turn] / (2.0 * pi)
        delta = float(np.clip(rack, -params[P.rack_limit], params[P.rack_limit]) / params[P.steering_arm])
    vy = start_values.get("vy", speed * tan(start_values["sideslip"]) if "sideslip" in start_values else None)
    rate = start_values.get("yaw_rate")
    if abs(speed) < STANDS:
        rate, vy = rate or 0.0, vy or 0.0
    drag = 0.5 * values[P.air_density] * values[P.drag_area] * abs(speed) * speed / values[P.mass]
    found_rate, found_vy = rate or 0.0, vy or 0.0
    ax = start_values.get("ax", -found_rate * found_vy)  # at a constant speed
    for _ in range(1 if "ax" in start_values or None not in (rate, vy) else _ROUNDS):
        car = _Car(values, speed, ax + drag, delta)
        if rate is None:
            found_rate = _root(lambda q: car.yaw_moment(q, car.lateral_speed(q) if vy is None else vy))  # noqa: B023
        if vy is None:
            found_vy = car.lateral_speed(found_rate)
        ax = start_values.get("ax", -found_rate * found_vy)
    rate, vy = found_rate, found_vy
    state[:] = 0.0
    state[S.x], state[S.y], state[S.yaw] = (start_values.get(name, 0.0) for name in ("x", "y", "yaw"))
    state[S.vx], state[S.vy], state[S.yaw_rate] = speed, vy, rate
    ahead = speed * cos(delta) + (vy + car.a * rate) * sin(delta)
    state[S.wheel_speed_front], state[S.wheel_speed_rear] = ahead / car.r, speed / car.r
    state[S.transfer_x], state[S.transfer_y] = car.ax, speed * rate
    front, rear = car.forces(rate, vy)
    state[S.deflection_y_front] = front * params[P.relaxation_y] / (car.cornering_front * 2.0 * params[P.tyre_load])
    state[S.deflection_y_rear] = rear * params[P.relaxation_y] / (car.cornering_rear * 2.0 * params[P.tyre_load])
    row = inputs.copy()
    row[I.prescribed_speed] = np.nan  # for no length of time
    work[:] = 0.0
    step(state, row, params, tables, work, 0.0)


class _Car:
    """Steady cornering at one speed, with the characteristics of `dynamics`."""

    def __init__(self, p: list[float], speed: float, ax: float, delta: float):
        self.speed, self.ax, self.delta = speed, ax, delta
        self.m, self.r, self.base, self.a = (p[k] for k in (P.mass, P.wheel_radius, P.wheelbase, P.cg_to_front))
        self.b = self.base - self.a
        height, share = p[P.cg_height], p[P.transfer_share_front]
        self.roll_front = self.m * height * share / p[P.track_front]
        self.roll_rear = self.m * height * (1.0 - share) / p[P.track_rear]
        lift = 0.5 * p[P.air_density] * p[P.lift_area] * speed * speed / self.m
        g = max(GRAVITY - lift, LEAST_WEIGHT * GRAVITY)
        weight = self.m * g
        brakes = p[P.brake_front] + p[P.brake_rear]
        force = self.m * ax
        self.along_front = min(force * (p[P.brake_front] / brakes if brakes > 0.0 else 0.5), 0.0)
        self.along_rear = force - self.along_front
        self.load_front = min(max(self.m * (g * self.b - ax * height) / self.base, 1.0), weight - 1.0)
        self.load_rear = weight - self.load_front
        self.mu, self.mu_fall, self.c_fall, self.load0, self.cornering_front, self.cornering_rear = (
            p[k]
            for k in (P.friction, P.friction_fall, P.stiffness_fall, P.tyre_load, P.cornering_front, P.cornering_rear)
        )

    def axle(self, load: float, roll: float, cornering: float, along: float, rate: float) -> tuple[float, float]:
        """Friction that is left across the wheels, and slip stiffness."""
        moved = min(abs(roll * self.speed * rate), 0.5 * load)
        limit = self.mu * load * _friction(load, moved, self.mu_fall, self.load0)
        limit = sqrt(max(limit * limit - along * along, (LEFT_ACROSS * limit) ** 2))
        return limit, cornering * load * _friction(load, moved, self.c_fall, self.load0)

    def front(self, rate: float) -> tuple[float, float]:
        return self.axle(self.load_front, self.roll_front, self.cornering_front, self.along_front, rate)

    def rear(self, rate: float) -> tuple[float, float]:
        return self.axle(self.load_rear, self.roll_rear, self.cornering_rear, self.along_rear, rate)

    def forces(self, rate: float, vy: float) -> tuple[float, float]:
        """Across the wheels of both axles."""
        across = vy + self.a * rate
        ahead = self.speed * cos(self.delta) + across * sin(self.delta)
        slip = across * cos(self.delta) - self.speed * sin(self.delta)
        return _force(slip, ahead, *self.front(rate)), _force(vy - self.b * rate, self.speed, *self.rear(rate))

    def lateral_speed(self, rate: float) -> float:
        """With which the rear axle makes its part of the centripetal force."""
        limit, stiffness = self.rear(rate)
        wanted = self.m * self.speed * rate * self.a / self.base
        t = min(abs(wanted) / limit, 1.0)
        s = 2.0 * t / (1.0 + sqrt(1.0 - t))  # of |F| / N = s - s^2 / 4
        slip = s * limit * abs(self.speed) / stiffness
        return float(self.b * rate - (slip if wanted > 0.0 else -slip))

    def yaw_moment(self, rate: float, vy: float) -> float:
        front, rear = self.forces(rate, vy)
        return float(self.a * front * cos(self.delta) - self.b * rear)


def _force(slip_speed: float, rolling: float, limit: float, stiffness: float) -> float:
    if rolling == 0.0:
        return 0.0
    s = min(stiffness * abs(slip_speed / rolling) / limit, 2.0)
    size = limit * (s - 0.25 * s * s)
    return -size if slip_speed > 0.0 else size


def _root(moment: Callable[[float], float]) -> float:
    """The yaw rate at which the moment, which turns the car towards its steer angle, is gone."""
    low, high = -_MOST_YAW_RATE, _MOST_YAW_RATE
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if moment(middle) > 0.0 else (low, middle)
    return 0.5 * (low + high)
