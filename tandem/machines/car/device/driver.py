"""The virtual driver: what a person would do with hands and feet, as a function of time or of the car's pose.

A manoeuvre is a TOML file. Open loop, it gives hand-wheel angle, throttle and brake over time: points, between which
the value moves smoothly (zero slope at both ends), plus sines. Closed loop, it gives a path; the driver looks ahead
along it from the pose the simulator publishes, steers at the point he sees (pure pursuit, with the extra angle an
understeering car needs), and keeps a speed that respects the curves ahead. Without a fresh pose he lifts his foot and
brakes.

Kernels write three values: hand-wheel angle (deg, left positive), throttle (0…1), brake pressure (bar).
"""

import itertools
import math
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field, field_validator, model_validator

from sync.compile.jit import kernel
from sync.config.toml import Section, read

STEERING, THROTTLE, BRAKE = range(3)
_SPACING = 0.5  # m between the points of a prepared path
_LONGEST = 100_000.0  # m; longer ones would take long to prepare, and are slips of the pen

Point = Annotated[list[float], Field(min_length=2, max_length=2)]


class Sine(Section):
    start: float = Field(ge=0)
    cycles: float = Field(1.0, gt=0)
    amplitude: float
    frequency_hz: float = Field(gt=0)
    dwell: float = Field(0.0, ge=0)  # seconds held at the second peak, as in sine with dwell


class Profile(Section):
    points: Annotated[list[Point], Field(min_length=1)] = [[0.0, 0.0]]
    sines: list[Sine] = []

    @field_validator("points")
    @classmethod
    def _in_order(cls, points: list[list[float]]) -> list[list[float]]:
        for (a, _), (b, _) in itertools.pairwise(points):
            if b <= a:
                raise ValueError(f"times must rise: {b:g} s comes after {a:g} s")
        return points


class Follow(Section):
    path: Annotated[list[Point], Field(min_length=3)]  # x, y in m; the car starts at the origin along x
    closed: bool = False
    speed: float = Field(gt=0, le=60)  # m/s, where the path allows it
    lateral_acceleration: float = Field(3.0, gt=0)  # m/s2 that the driver accepts
    deceleration: float = Field(2.0, gt=0)  # m/s2 that the driver uses
    preview: float = Field(0.7, gt=0)  # s looked ahead
    preview_min: float = Field(5.0, gt=0)  # m looked ahead at least
    wheelbase: float = Field(2.25, gt=0)
    steering_ratio: float = Field(16.0, gt=0)
    understeer: float = Field(0.002, ge=0)  # rad per m/s2
    hand_speed_deg: float = Field(600.0, gt=0)  # deg/s at most
    reaction: float = Field(0.1, gt=0)  # s, time constant of hands and feet

    @field_validator("path")
    @classmethod
    def _leads_somewhere(cls, path: list[list[float]]) -> list[list[float]]:
        length = sum(math.dist(a, b) for a, b in itertools.pairwise(path))
        if not 10 * _SPACING <= length <= _LONGEST:
            raise ValueError(f"is {length:g} m long; must be from {10 * _SPACING:g} to {_LONGEST:g} m")
        return path


class Manoeuvre(Section):
    title: str
    seconds: float = Field(gt=0)
    steering_deg: Profile = Profile()
    throttle: Profile = Profile()
    brake_bar: Profile = Profile()
    follow: Follow | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> "Manoeuvre":
        if self.follow and (self.model_fields_set & {"steering_deg", "throttle", "brake_bar"}):
            raise ValueError(
                "a manoeuvre with [follow] drives by the path; take out steering_deg, throttle and brake_bar"
            )
        return self


def read_manoeuvre(path: Path) -> Manoeuvre:
    return read(path, Manoeuvre)


# ---- open loop -------------------------------------------------------------------------------------------------------


def profile_tables(profile: Profile) -> tuple[np.ndarray, np.ndarray]:
    sines = [[s.start, s.cycles, s.amplitude, s.frequency_hz, s.dwell] for s in profile.sines]
    return np.array(profile.points, np.float64), np.array(sines, np.float64).reshape(-1, 5)


@kernel()
def evaluate(points, sines, t):
    """The value of a profile at time t (s); the first and last points hold outside."""
    i = np.searchsorted(points[:, 0], t)
    if i == 0:
        value = points[0, 1]
    elif i == points.shape[0]:
        value = points[-1, 1]
    else:
        f = (t - points[i - 1, 0]) / (points[i, 0] - points[i - 1, 0])
        value = points[i - 1, 1] + (points[i, 1] - points[i - 1, 1]) * f * f * (3.0 - 2.0 * f)
    for k in range(sines.shape[0]):
        start, cycles, amplitude, frequency, dwell = sines[k]
        tau = t - start
        peak = 0.75 / frequency
        if tau > peak:
            tau = max(peak, tau - dwell)
        if 0.0 < tau < cycles / frequency:
            value += amplitude * math.sin(2.0 * math.pi * frequency * tau)
    return value


# ---- closed loop -----------------------------------------------------------------------------------------------------


def prepare_path(follow: Follow) -> np.ndarray:
    """The path as rows (x, y, speed) every half metre: a spline through the waypoints, the speed its curves allow."""
    way = np.array(follow.path, np.float64)
    if follow.closed:
        way = np.vstack([way[-1], way, way[0], way[1]])
    else:
        way = np.vstack([2 * way[0] - way[1], way, 2 * way[-1] - way[-2]])
    fine = np.vstack([*(_catmull_rom(*way[i : i + 4]) for i in range(len(way) - 3)), way[-2]])
    steps = np.hypot(*np.diff(fine, axis=0).T)
    fine = fine[np.concatenate([[True], steps > 1e-9])]
    along = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(fine, axis=0).T))])
    even, spacing = np.linspace(0.0, along[-1], round(along[-1] / _SPACING), endpoint=False, retstep=True)
    x, y = (np.interp(even, along, fine[:, i]) for i in range(2))
    # a closed path goes on beyond its ends
    beyond = 8 if follow.closed else 0
    dx, dy = (np.gradient(np.pad(values, beyond, mode="wrap")) for values in (x, y))
    curvature = np.abs(np.gradient(np.unwrap(np.arctan2(dy, dx)), spacing))
    curvature = np.convolve(np.pad(curvature, 4, mode="edge"), np.ones(9) / 9, mode="valid")
    curvature = curvature[beyond : beyond + len(x)]
    speed = np.minimum(follow.speed, np.sqrt(follow.lateral_acceleration / np.maximum(curvature, 1e-6)))
    if not follow.closed:
        speed[-1] = 0.0
    # brake in time for what comes: backwards, twice round where the path closes
    for i in range(2 * len(speed) - 1, -1, -1):
        k, ahead = i % len(speed), (i + 1) % len(speed)
        if follow.closed or ahead:
            speed[k] = min(speed[k], math.sqrt(speed[ahead] ** 2 + 2 * follow.deceleration * spacing))
    return np.column_stack([x, y, speed])


def _catmull_rom(a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray) -> np.ndarray:
    """From b to c, centripetal: no loops or overshoot between unevenly spaced waypoints."""
    gaps = [max(math.sqrt(math.hypot(*(q - p))), 1e-6) for p, q in ((a, b), (b, c), (c, d))]
    tangent_b = (b - a) / gaps[0] - (c - a) / (gaps[0] + gaps[1]) + (c - b) / gaps[1]
    tangent_c = (c - b) / gaps[1] - (d - b) / (gaps[1] + gaps[2]) + (d - c) / gaps[2]
    m0, m1 = tangent_b * gaps[1], tangent_c * gaps[1]
    f = np.linspace(0, 1, max(int(math.hypot(*(c - b)) / 0.1), 8), endpoint=False)[:, None]
    spline = (2 * f**3 - 3 * f**2 + 1) * b + (f**3 - 2 * f**2 + f) * m0
    curve: np.ndarray = spline + (3 * f**2 - 2 * f**3) * c + (f**3 - f**2) * m1
    return curve


def follow_parameters(follow: Follow) -> np.ndarray:
    return np.array(
        [
            follow.preview,
            follow.preview_min,
            follow.wheelbase,
            follow.steering_ratio,
            follow.understeer,
            follow.hand_speed_deg,
            follow.reaction,
            float(follow.closed),
        ]
    )


# hand-wheel angle, throttle, brake; nearest path point, integral of the speed error; the first three a look ago
MEMORY = 3 + 2 + 3
_NEAREST, _INTEGRAL, BEFORE = 3, 4, 5


@kernel()
def _nearest(path, guess, x, y, closed):
    """Index of the path point nearest to the car, searched forwards from the last one (paths may cross themselves)."""
    n = path.shape[0]
    best, least = guess, 1e30
    for step in range(-4, 60):
        i = (guess + step) % n if closed else min(max(guess + step, 0), n - 1)
        d = (path[i, 0] - x) ** 2 + (path[i, 1] - y) ** 2
        if d < least:
            best, least = i, d
    return best


@kernel()
def drive_along(path, par, memory, x, y, yaw, vx, fresh, dt):
    """One look at the road: moves hands and feet (the first three of `memory`) by dt seconds."""
    preview, preview_min, wheelbase, ratio, understeer, hand_speed, reaction, closed = par
    for k in range(3):
        memory[BEFORE + k] = memory[k]
    steering, throttle, brake = memory[STEERING], 0.0, 15.0
    if fresh:
        n = path.shape[0]
        i = _nearest(path, int(memory[_NEAREST]), x, y, closed > 0.0)
        memory[_NEAREST] = i
        ahead = i + int(max(preview_min, preview * abs(vx)) / _SPACING)
        j = ahead % n if closed > 0.0 else min(ahead, n - 1)
        dx, dy = path[j, 0] - x, path[j, 1] - y
        distance = max(math.sqrt(dx * dx + dy * dy), 1.0)
        curvature = 2.0 * (math.cos(yaw) * dy - math.sin(yaw) * dx) / (distance * distance)
        road_wheel = math.atan(wheelbase * curvature) + understeer * curvature * vx * vx
        steering = math.degrees(road_wheel) * ratio
        error = path[i, 2] - vx
        if path[i, 2] > 0.0 and abs(error) < 2.0:
            memory[_INTEGRAL] = min(max(memory[_INTEGRAL] + 0.05 * error * dt, 0.0), 0.6)
        throttle = min(max(0.25 * error + memory[_INTEGRAL], 0.0), 1.0)
        brake = min(max(-15.0 * (error + 0.2), 0.0), 30.0)
        if path[i, 2] <= 0.5:
            throttle, brake = 0.0, 15.0
    gain = dt / (reaction + dt)
    move = (steering - memory[STEERING]) * gain
    memory[STEERING] += min(max(move, -hand_speed * dt), hand_speed * dt)
    memory[THROTTLE] += (throttle - memory[THROTTLE]) * gain
    memory[BRAKE] += (brake - memory[BRAKE]) * gain
