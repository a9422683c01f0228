"""Straight ahead: stopping from 100 km/h, in town, and rolling free."""

from dataclasses import dataclass
from itertools import pairwise
from math import sqrt

import numpy as np

from tandem.console.terminal import Update
from tandem.machines.car.buggy.analysis.car import GRAVITY
from tandem.machines.car.buggy.analysis.straight import braking_distance, longitudinal_transfer, rolling_mass
from tandem.machines.car.studies.iso.result import Panel, Result, Row
from tandem.machines.car.studies.iso.runner import Drive, H, Log, instants, plan
from tandem.machines.car.studies.iso.theory import axle_loads, rolling_moment
from tandem.machines.car.studies.iso.vehicle import Vehicle
from tandem.reports.html.chart import Series

STOP_FROM = 100.0  # km/h
GENTLE = 4.0  # m/s2
FULL_BAR = 120.0
TOWN, TOWN_THROTTLE, TOWN_BAR = 60.0, 0.5, 20.0  # km/h, pedal, bar
_RISE, _SLOW_RISE = 0.1, 0.6  # s, until the pressure is there; so that the loads can follow
_STANDS = 0.02  # m/s
_FIRST = {
    "": "no wheel locks", "both": "front and rear wheels lock together",
    "front": "the front wheels lock first", "rear": "the rear wheels lock first",
}  # fmt: skip
_TOGETHER = 5e-4  # apart by less, both axles lock at one pressure: it is printed in tenths of a percent

COAST = (100.0, 20.0, 10.0)  # km/h: from, to, readings every


def resistance(vehicle: Vehicle, speed: float) -> float:
    """Air, rolling and released brakes, N."""
    car = vehicle.linear
    total = car.drag * speed**2
    for i, load in enumerate(axle_loads(vehicle, speed)):
        rolling = rolling_moment(vehicle, i, 0.5 * load, speed) + vehicle.values["brake_drag"]
        total += 2.0 * rolling / vehicle.arm(i, 0.5 * load)
    return total


def brake_force_per_bar(vehicle: Vehicle) -> tuple[float, float]:
    """Of front and rear axle, N/bar, while no wheel locks."""
    loads, v = vehicle.linear.loads, vehicle.values
    front, rear = (vehicle.arm(i, 0.5 * load) for i, load in enumerate(loads))
    return 2.0 * v["brake_front"] / front, 2.0 * v["brake_rear"] / rear


def lock_limits(vehicle: Vehicle) -> tuple[float, float]:
    """Deceleration at which front and rear axle lock with the split of the brakes: share m a = Σ D_x(F_z)."""
    car = vehicle.linear
    force = brake_force_per_bar(vehicle)
    out = []
    for i in range(2):
        share, a = force[i] / sum(force), 5.0
        for _ in range(100):
            load = car.loads[i] + (1.0 if i == 0 else -1.0) * longitudinal_transfer(car, a)
            limit = 2.0 * vehicle.peak(i, 0.5 * max(load, 1.0)) / (share * car.mass)
            a += 0.3 * (limit - a)
        out.append(a)
    return out[0], out[1]


def _locked(vehicle: Vehicle) -> float:
    """Deceleration with all wheels locked, m/s²: sliding friction at the loads that go with it."""
    car, a = vehicle.linear, 7.0
    for _ in range(50):
        moved = longitudinal_transfer(car, a)
        loads = car.loads[0] + moved, car.loads[1] - moved
        force = sum(-2.0 * vehicle.steady_forces(i, 0.5 * load, -1.0, 0.0)[0] for i, load in enumerate(loads))
        a += 0.5 * (force / car.mass - a)
    return a


class _Stops:
    """Stops from one speed, and what they have cost."""

    def __init__(self, vehicle: Vehicle, speed: float) -> None:
        self.vehicle, self.speed = vehicle, speed
        self.seconds, self.capped = 0.0, 0

    def __call__(self, pressure: float, after: float = 0.0, takes: float = _RISE) -> tuple[Log, Log | None]:
        """Until it stands; and the log of `after` seconds from there, if there are any."""
        drive = Drive(self.vehicle)
        drive.reach(self.speed)
        rise = np.minimum(instants(15.0) / takes, 1.0)
        log = drive.go(plan(15.0, brake=pressure * rise), stop_below=_STANDS)
        rest = drive.go(plan(after, brake=pressure)) if after else None
        self.seconds, self.capped = self.seconds + drive.steps * H, self.capped + drive.whole().capped
        return log, rest


@dataclass(frozen=True)
class _Limit:
    """As hard as without locking: between which pressures that is, the hardest stop so, which wheels locked first."""

    bounds: tuple[float, float]
    best: float
    log: Log
    first: str


def brake(vehicle: Vehicle, speed: float | None, update: Update) -> Result:
    v = (speed or STOP_FROM) / 3.6
    car, force, limits = vehicle.linear, sum(brake_force_per_bar(vehicle)), lock_limits(vehicle)
    low = resistance(vehicle, 0.3 * v) - car.drag * (0.3 * v) ** 2
    wanted = min(GENTLE, 0.5 * min(limits))
    anti_lock = vehicle.values["abs"] > 0.5
    stop = _Stops(vehicle, v)

    # gentle: all by the torque of the brakes
    bar = (wanted * rolling_mass(car) - low) / force
    gentle, rest = stop(bar, 3.0)
    assert rest is not None
    update("brake", 0.2)
    rows = _gentle(vehicle, gentle, v, wanted, bar)
    notes, hard = [], []
    if not anti_lock:
        bounds = 0.5 * min(limits) * car.mass / force, 1.6 * min(limits) * car.mass / force
        found = _halve_in(stop, bounds, gentle, update)
        rows += _without_locking(vehicle, found, v, limits, force)
        hard.append((f"{found.best:.1f} bar, rising in {_SLOW_RISE:g} s", found.log))
        notes.append(f"in the simulation {_FIRST[found.first]}; without anti-lock control (abs = 0)")
    full, _ = stop(FULL_BAR)
    stops = [(f"{bar:.0f} bar", gentle), (f"{FULL_BAR:.0f} bar", full), *hard]
    update("brake", 1.0)
    rows += _to_the_floor(vehicle, full, v, anti_lock)
    # coming to rest: after the gentle stop, and with the engine in gear
    town, stood = _stop_and_go(vehicle)
    rows += _at_rest(rest, town, stood)
    return Result(
        "brake",
        f"Braking straight from {3.6 * v:.0f} km/h",
        f"driveline open, pressure there within {1e3 * _RISE:.0f} ms",
        rows,
        [
            Panel("speed, km/h", [Series(name, log.t, 3.6 * log["vx"]) for name, log in stops]),
            Panel(
                "slip of the wheels, pedal to the floor",
                [Series(wheel, full.t, full[f"slip_{wheel}"]) for wheel in ("fl", "fr", "rl", "rr")],
            ),
            Panel(
                "speed after the stop, mm/s",
                [Series("driveline open", rest.t, 1e3 * rest["vx"]), Series("in gear", stood.t, 1e3 * stood["vx"])],
            ),
        ],
        notes,
        stop.seconds + float(town.t[-1]),
        stop.capped + town.capped,
    )


def _gentle(vehicle: Vehicle, log: Log, v: float, wanted: float, bar: float) -> list[Row]:
    car = vehicle.linear
    part = Log(log.names, log.rows[len(log) // 3 : 2 * len(log) // 3])
    slowing = -float(np.gradient(part["vx"], H).mean())
    moved = part.mean("load_fl") + part.mean("load_fr") - car.loads[0]
    share = car.drag / rolling_mass(car)
    spinning = sum(2.0 * axle.wheel_inertia / axle.radius for axle in car.axles) / car.wheelbase
    gained = (
        longitudinal_transfer(car, slowing)
        + spinning * slowing
        + axle_loads(vehicle, part.mean("vx"))[0]
        - car.loads[0]
    )
    by_torque = "½ ln(1 + c v²/a)/c, a = (p Σ 2 k_p / r + rolling) / m*, c = ½ρ c_d A / m*"
    by_force = "brake torque, rolling resistance and air over m*"
    by_load = "(m h + Σ J/r) a / L, less what air and rolling resistance move"
    distance, mean = braking_distance(v, wanted, 0.5 * _RISE, share), wanted + share * float((part["vx"] ** 2).mean())
    return [
        Row(f"distance at {bar:.0f} bar", "m", distance, _way(log), by_torque),
        Row("deceleration, middle third", "m/s²", mean, slowing, by_force),
        Row("load the front axle gains", "N", gained, moved, by_load),
    ]


def _halve_in(stop: _Stops, bounds: tuple[float, float], gentle: Log, update: Update) -> _Limit:
    best, best_log, first = 0.0, gentle, ""
    for k in range(8):
        pressure = 0.5 * (bounds[0] + bounds[1])
        log, _ = stop(pressure, takes=_SLOW_RISE)
        if locks := _locks(log):
            bounds, first = (bounds[0], pressure), locks
        else:
            bounds, best, best_log = (pressure, bounds[1]), pressure, log
        update("brake", 0.2 + 0.08 * (k + 1))
    return _Limit(bounds, best, best_log, first)


def _without_locking(vehicle: Vehicle, found: _Limit, v: float, limits: tuple[float, float], force: float) -> list[Row]:
    car, limit = vehicle.linear, min(limits)
    axle, apart = "front" if limits[0] < limits[1] else "rear", max(limits) / min(limits) - 1.0
    order = f"{axle} first, by {100 * apart:.1f} %" if apart >= _TOGETHER else "both axles together"
    way = _way(found.log)
    shortest = braking_distance(v, limit, 0.5 * _SLOW_RISE, car.drag / car.mass)
    expected, mean = (v**2 / (2.0 * (each - 0.5 * _SLOW_RISE * v)) for each in (shortest, way))
    locks, by = limit * car.mass / force, f"share m a = Σ D_x(F_z), loads moved by m a h / L; {order}"
    return [
        Row("pressure at which a wheel locks", "bar", locks, 0.5 * (found.bounds[0] + found.bounds[1]), by),
        Row("shortest distance without locking", "m", shortest, way, "v²/(2 a) at that deceleration, with air"),
        Row("mean deceleration of it", "m/s²", expected, mean, "the same, without the rise of the pressure"),
    ]


def _to_the_floor(vehicle: Vehicle, full: Log, v: float, anti_lock: bool) -> list[Row]:
    car = vehicle.linear
    peak = sum(2.0 * vehicle.peak(i, 0.5 * load) for i, load in enumerate(car.loads)) / (car.mass * GRAVITY)
    name = "with anti-lock control" if anti_lock else "all wheels locked"
    slide = peak * GRAVITY if anti_lock else _locked(vehicle)
    by = "v²/(2 μ g) with air, μ " + ("the peak friction" if anti_lock else "that of tyres at slip −1")
    distance = braking_distance(v, slide, 0.5 * _RISE, car.drag / car.mass)
    return [
        Row(f"distance {name}", "m", distance, _way(full), by),
        Row("deviation to the side", "m", 0.0, float(np.abs(full["y"]).max()), "a symmetric car"),
    ]


def _at_rest(rest: Log, town: Log, stood: Log) -> list[Row]:
    swing, turns = rest["vx"], np.sign(stood["vx"][np.abs(stood["vx"]) > 1e-3])
    return [
        Row("after the stop: rocks by", "mm", None, 1e3 * float(np.ptp(rest["x"]))),
        Row("after the stop: below 1 mm/s within", "s", None, _quiet(swing)),
        Row("after the stop: speed at 3 s", "mm/s", 0.0, 1e3 * float(np.abs(swing[-20:]).max()), "it stands"),
        Row(f"0 to {TOWN:.0f} km/h in gear, throttle {TOWN_THROTTLE:g}", "s", None, H * float(np.argmax(town["vx"]))),
        Row("and to a stop in gear: speed changes sign", "times", None, int(np.sum(turns[1:] != turns[:-1]))),
        Row("and to a stop in gear: below 1 mm/s within", "s", None, _quiet(stood["vx"])),
        Row("and to a stop in gear: speed at 3 s", "mm/s", 0.0, 1e3 * abs(float(stood["vx"][-1])), "it stands"),
    ]


def _quiet(speed: np.ndarray) -> float:
    """s after which it stays below 1 mm/s."""
    moving = np.flatnonzero(np.abs(speed) > 1e-3)
    return H * float(moving[-1] + 1 if len(moving) else 0)


def _stop_and_go(vehicle: Vehicle) -> tuple[Log, Log]:
    """From standing to TOWN and back, all in gear; the whole drive, and what came after the stop."""
    drive = Drive(vehicle)
    drive.set("gear_mode", vehicle.values["gear_mode"] or 1.0)
    for _ in range(600):
        log = drive.go(plan(0.1, throttle=TOWN_THROTTLE))
        if log["vx"][-1] >= TOWN / 3.6:
            break
    drive.go(plan(30.0, brake=TOWN_BAR * np.minimum(instants(30.0) / _RISE, 1.0)), stop_below=_STANDS)
    stood = drive.go(plan(3.0, brake=TOWN_BAR))
    return drive.whole(), stood


def _way(log: Log) -> float:
    return float(log["x"][-1] - log["x"][0] + log["vx"][0] * H)


def _locks(log: Log) -> str:
    """The first axle with a wheel at a slip beyond −0.5 while the car drives faster than 3 m/s; empty if none."""
    moving = log["vx"] > 3.0
    deepest = {a: min(float(log[f"slip_{a}{s}"][moving].min()) for s in "lr") for a in "fr"}
    if min(deepest.values()) > -0.5:
        return ""
    when = {a: min(int(np.argmax((log[f"slip_{a}{s}"] < -0.5) & moving)) or len(log) for s in "lr") for a in "fr"}
    return "both" if when["f"] == when["r"] else "front" if when["f"] < when["r"] else "rear"


def coast_down(vehicle: Vehicle, speed: float | None, update: Update) -> Result:
    high, low, every = (speed or COAST[0]), COAST[1], COAST[2]
    drive = Drive(vehicle)
    drive.reach(high / 3.6 + 0.3)
    update("coast-down", 0.3)
    log = drive.go(plan(400.0), stop_below=low / 3.6)
    readings = np.arange(high, low - 0.1, -every) / 3.6
    vx = log["vx"]
    t = np.interp(-readings, -vx, log.t)
    way = np.interp(-readings, -vx, log["x"])
    car = vehicle.linear
    mass = car.mass + sum(
        2.0 * axle.wheel_inertia / vehicle.rolling_radius(i, 0.5 * car.loads[i]) ** 2
        for i, axle in enumerate(car.axles)
    )
    grid = np.linspace(readings[0], readings[-1], 801)
    decelerations = np.array([resistance(vehicle, float(v)) for v in grid]) / mass
    pace = np.diff(-grid) / (0.5 * (decelerations[1:] + decelerations[:-1]))
    time = np.concatenate([[0.0], np.cumsum(pace)])
    distance = np.concatenate([[0.0], np.cumsum(pace * 0.5 * (grid[1:] + grid[:-1]))])
    by = "∫ m* dv / (½ρ c_d A v² + Σ M_y(v)/r + brake drag), m* with the turning wheels"
    rows = [
        Row(
            f"time {3.6 * a:.0f} to {3.6 * b:.0f} km/h",
            "s",
            float(np.interp(-b, -grid, time) - np.interp(-a, -grid, time)),
            float(t[k + 1] - t[k]),
            by,
        )
        for k, (a, b) in enumerate(pairwise(readings))
    ]
    rows.append(Row("distance", "m", float(distance[-1]), float(way[-1] - way[0]), by))
    middle = 0.5 * (readings[0] + readings[-1])
    at = int(np.argmin(np.abs(vx - middle)))
    slowing = -float(np.polyfit(log.t[at - 100 : at + 101], vx[at - 100 : at + 101], 1)[0])
    rows.append(
        Row(
            f"resistance at {3.6 * middle:.0f} km/h",
            "N",
            resistance(vehicle, float(middle)),
            slowing * mass,
            "the sum above",
        )
    )
    # the textbook's law, with the rolling resistance of the middle speed
    a, b = resistance(vehicle, float(middle)) - car.drag * float(middle) ** 2, car.drag
    closed = mass / sqrt(a * b) * float(np.diff(np.arctan(np.array([readings[-1], readings[0]]) * sqrt(b / a)))[0])
    rows.append(
        Row("time in all", "s", closed, float(t[-1] - t[0]), "m*/√(ab) [atan(v √(b/a))], a rolling at mid speed, b air")
    )
    update("coast-down", 1.0)
    start = float(t[0])
    return Result(
        "coast-down",
        "Coast-down",
        f"{high:.0f} to {low:.0f} km/h, driveline open, no wind",
        rows,
        [
            Panel(
                "speed, km/h",
                [Series("theory", time, 3.6 * grid), Series("simulated", log.t - start, 3.6 * vx)],
            )
        ],
        [],
        drive.steps * H,
        drive.whole().capped,
    )
