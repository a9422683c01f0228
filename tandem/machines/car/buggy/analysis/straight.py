"""Straight ahead in closed form: load transfer, brakes, coasting down."""

import math
from dataclasses import dataclass

from tandem.machines.car.buggy.analysis.car import GRAVITY, Car


@dataclass(frozen=True)
class Braking:
    """With a fixed split of brake force and a friction coefficient: the best deceleration before a wheel locks."""

    deceleration: float
    locks_first: str
    front_limit: float  # deceleration at which the front axle locks, m/s²
    rear_limit: float


def longitudinal_transfer(car: Car, acceleration: float) -> float:
    """Load the rear axle gains (the front loses) under forward acceleration, N."""
    return car.mass * acceleration * car.cg_height / car.wheelbase


def braking(car: Car, friction: float, front_share: float) -> Braking:
    """Axle i locks when its part of m a reaches friction times its load, the load moved by the braking included."""
    height = car.cg_height / car.wheelbase
    front, rear = (load / car.mass for load in car.loads)
    rear_share = 1.0 - front_share
    margin = front_share - friction * height
    at_front = friction * front / margin if margin > 0.0 else math.inf
    at_rear = friction * rear / (rear_share + friction * height)
    first = "front" if at_front < at_rear else "rear"
    return Braking(min(at_front, at_rear), first, at_front, at_rear)


def braking_distance(speed: float, deceleration: float, delay: float = 0.0, drag: float = 0.0) -> float:
    """Way to a stop, m; `delay` before the brakes act, s, `drag` per mass, 1/m (dv/dt = −(deceleration + drag v²))."""
    rolled = speed * delay
    if drag == 0.0:
        return rolled + 0.5 * speed**2 / deceleration
    return rolled + 0.5 * math.log1p(drag * speed**2 / deceleration) / drag


def coast_down(car: Car, speed: float, time: float) -> float:
    """Speed after rolling free for `time`, s: m* dv/dt = −(f m g + ½ρ cd A v²), m* with the turning wheels."""
    heavy = rolling_mass(car)
    a, b = car.rolling * car.mass * GRAVITY, car.drag
    if b == 0.0:
        return max(0.0, speed - a / heavy * time)
    if a == 0.0:
        return speed / (1.0 + b * speed / heavy * time)
    angle = math.atan(speed * math.sqrt(b / a)) - math.sqrt(a * b) / heavy * time
    return math.sqrt(a / b) * math.tan(angle) if angle > 0.0 else 0.0


def rolling_mass(car: Car) -> float:
    """Mass that resists a forward force when the wheels roll, kg."""
    return car.mass + sum(2.0 * axle.wheel_inertia / axle.radius**2 for axle in car.axles)
