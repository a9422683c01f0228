"""The buggy in both formulations: error, cost and live drives side by side: `python -m verify car-formulations`.

Error. Manoeuvres begin from one state, in both formulations at the same step (5 ms) and in a fine reference: relative
coordinates at a 16th of the step where they are smooth, I3AL at a 32nd where not (lock-up, standstill), so that the
order of the method under test decides nothing. Printed are root mean squares over the manoeuvre of the error of the
body (m of its centre of gravity) and of the wheels (rad/s of all spins), their ratio, and how many steps were the
Rosenbrock method's. `references` is how far I3AL at a 32nd is from the reference of the smooth ones: with 1/10 as a
limit it must be well below I3AL's own error. On roads with edges relative coordinates are refused by name, which is
printed.

Cost. Steps of the lane change take turns, a second of one formulation and a second of the other, so that whatever else
the computer does meets both: p50, p99.9 of each by the clock and of the processor, and the speed that the steps alone
have, times real time. Judged is the processor's time: the clock has what other programs take, too. The first step of a
turn finds the other's code and numbers in the caches (200 us instead of 80), which is this check's doing: left out.
The processor's time still has what the host does: interrupts, what a hypervisor takes, caches that others have filled.
The tail as measured is judged. A round makes the same steps as the one before, so the least of all rounds is what each
step costs by itself; that tail is printed beside it, and that of constant work of the same length which takes turns
with the steps: what it has, the host has.

Live (`--live-seconds S`): the town and the lane change driven in both formulations by processes as `tandem drive` does,
steps missed beside those of a bare loop at the same time (verify/real_runs.py), and the replay's speed; needs a quiet
machine.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import numpy as np
from numba import float64, int64

from sim_service.contract.machine import Machine, index
from sim_service.registry import FILE, MachineFiles, gather, make_machine
from sync.compile.jit import kernel
from sync.errors import ConfigError
from tandem.machines.car.buggy.description import P
from verify import ROOT
from verify.measure import Row, at_least, at_most, figure, holds
from verify.real_runs import costs_us, run_beside_bare, tandem

VEHICLE = ROOT / "configs" / "vehicles" / "buggy.toml"
H, FINE, FINER = 5e-3, 16, 32
BODY, SPINS = ("x", "y", "z"), tuple(f"wheel_speed_{w}" for w in ("fl", "fr", "rl", "rr"))
SMOOTH_BODY, SMOOTH_SPIN, NOT_WORSE = 0.1, 0.25, 1.05
P50_US, TAIL, REPLAY = 50.0, 2.0, 60.0
I3AL_FIRST = 20  # steps by I3AL before a manoeuvre: both formulations begin from the same state

Driver = Callable[[float], dict[str, float]]  # inputs at an instant of the manoeuvre, seconds


@dataclass(frozen=True)
class Manoeuvre:
    name: str
    seconds: float
    driver: Driver
    smooth: bool
    speed: float  # m/s from which it begins
    road: str = ""
    parameters: dict[str, float] = field(default_factory=dict)

    def inputs_at(self, k: int, finer: int) -> dict[str, float]:
        """At the end of step k of so many in 5 ms: pedals are what a step of 5 ms has of them, whatever the step."""
        found, whole = self.driver(k * H / finer), -(-k // finer)
        before, after = self.driver((whole - 1) * H), self.driver(whole * H)
        found["throttle"] = after["throttle"]  # held through a step
        if "brake_pressure_bar" in found:  # linear through a step
            share, name = k / finer - (whole - 1), "brake_pressure_bar"
            found[name] = before[name] + share * (after[name] - before[name])
        return found


def steering(t: float, size: float, frequency: float) -> dict[str, float]:
    w = 2.0 * np.pi * frequency
    return {
        "steering_angle": size * np.sin(w * t) ** 3,
        "steering_speed": 3.0 * size * w * np.sin(w * t) ** 2 * np.cos(w * t),
        "steering_acceleration": 3.0 * size * w * w * np.sin(w * t) * (2.0 - 3.0 * np.sin(w * t) ** 2),
    }


def lane_change(t: float) -> dict[str, float]:
    return {"throttle": 0.3, **steering(min(t, 2.0), 0.9, 0.5)}


def town(t: float) -> dict[str, float]:
    return {"throttle": 0.25 + 0.15 * np.sin(0.9 * t), **steering(t, 1.5, 0.15)}


def lock_up(t: float) -> dict[str, float]:
    return {"throttle": 0.0, "brake_pressure_bar": 90.0 * min(t / 0.2, 1.0)}


def standstill(t: float) -> dict[str, float]:
    return {"throttle": 0.0, "brake_pressure_bar": 25.0 * min(t / 0.5, 1.0)}


def straight(t: float) -> dict[str, float]:
    return {"throttle": 0.2}


_HELD = {"gear_mode": 2.0, "gear_held": 2.0}  # shifts are decided once a step: no order is to be seen through them
MANOEUVRES = (
    Manoeuvre("lane change", 4.0, lane_change, True, 18.0, parameters=_HELD),
    Manoeuvre("town", 8.0, town, True, 8.0, parameters=_HELD),
    Manoeuvre("bumps", 4.0, straight, False, 10.0, road="bump.toml", parameters=_HELD),
    Manoeuvre("lock-up", 1.5, lock_up, False, 15.0, parameters={**_HELD, "grip": 0.5}),
    Manoeuvre("standstill", 4.0, standstill, False, 6.0, parameters=_HELD),
)


def machine(formulation: str, road: str = "") -> tuple[Machine, np.ndarray]:
    found = gather(VEHICLE, {"road": ROOT / "configs" / "roads" / road} if road else {})
    text = f'formulation = "{formulation}"\n'.encode()
    return make_machine(MachineFiles({**found.files, FILE: text + found.files[FILE]}, found.names))


class Car:
    """A machine with its state and inputs."""

    def __init__(self, model: Machine, params: np.ndarray) -> None:
        self.model, self.params = model, params.copy()
        self.state, self.work = np.zeros(len(model.states)), np.zeros(model.work_size)
        self.inputs = np.array([np.nan if q.optional else 0.0 for q in model.inputs])
        model.initial(self.state, self.params, model.tables, self.work)

    def step(self, inputs: dict[str, float], h: float) -> None:
        for name, value in inputs.items():
            self.inputs[index(self.model.inputs, name)] = value
        self.model.step(self.state, self.inputs.copy(), self.params, self.model.tables, self.work, h)

    def output(self, name: str) -> float:
        return float(self.work[index(self.model.outputs, name)])

    def drive(self, manoeuvre: Manoeuvre, finer: int) -> tuple[np.ndarray, np.ndarray, float]:
        """Body and spins at every 5 ms, and the share of Rosenbrock steps."""
        body, spins, own = [], [], 0
        count = round(manoeuvre.seconds / H) * finer
        for k in range(count):
            self.step(manoeuvre.inputs_at(k + 1, finer), H / finer)
            own += self.output("parts") == 0.0
            if (k + 1) % finer == 0:
                body.append([self.output(name) for name in BODY])
                spins.append([self.output(name) for name in SPINS])
        return np.array(body), np.array(spins), own / count


def begun(manoeuvre: Manoeuvre) -> tuple[Car, Car]:
    """Both formulations at the beginning of a manoeuvre, from one state."""
    relative = Car(*machine("relative", manoeuvre.road))
    natural = Car(*machine("natural", manoeuvre.road))
    for name, value in manoeuvre.parameters.items():
        for car in (relative, natural):
            car.params[P[name]] = value
    first = manoeuvre.driver(0.0) | {"brake_pressure_bar": 0.0}
    while relative.output("vx") < manoeuvre.speed:
        relative.step({**first, "throttle": 0.6}, H)
    for k in range(200 + I3AL_FIRST):
        relative.params[P.estimate_every] = float(k >= 200)  # such steps are I3AL's
        relative.step(first, H)
    relative.params[P.estimate_every] = 0.0
    natural.state[:] = relative.state[: len(natural.state)]
    return relative, natural


def rms(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.sum((a - b) ** 2, axis=1))))


def errors(manoeuvre: Manoeuvre) -> Iterator[Row]:
    try:
        relative, natural = begun(manoeuvre)
    except ConfigError as refused:
        text = str(refused).split(": ", 1)[1]
        yield holds(f"{manoeuvre.name}: refused by name, as on roads with edges alone", bool(manoeuvre.road), text)
        return
    states = relative.state.copy(), natural.state.copy()

    def run(car: Car, finer: int) -> tuple[np.ndarray, np.ndarray, float]:
        car.state[:] = states[car is natural]
        return car.drive(manoeuvre, finer)

    fine = run(natural, FINER)
    reference = run(relative, FINE) if manoeuvre.smooth else fine
    one, other = run(relative, 1), run(natural, 1)
    yield figure(f"{manoeuvre.name}: steps by RODAS3", 100.0 * one[2], "%")
    limits = (SMOOTH_BODY, SMOOTH_SPIN) if manoeuvre.smooth else (NOT_WORSE, NOT_WORSE)
    for k, what in enumerate(("body, m", "wheel spin, rad/s")):
        ours, theirs = rms(one[:2][k], reference[:2][k]), rms(other[:2][k], reference[:2][k])
        if manoeuvre.smooth:
            yield figure(f"{manoeuvre.name}, {what}: both references apart", rms(fine[:2][k], reference[:2][k]))
        title = f"{manoeuvre.name}, {what}: error {ours:.2e}, of I3AL's {theirs:.2e}"
        yield at_most(title, ours / theirs, limits[k])


@kernel(float64(int64))
def _constant_work(loops):
    x = 1.0
    for k in range(loops):
        x = 0.999999 * x + 1e-9 * k
    return x


def _constant_work_us(loops: int) -> float:
    used = time.thread_time_ns()
    _constant_work(loops)
    return (time.thread_time_ns() - used) / 1e3


def _as_long_as(us: float) -> int:
    """Loops of constant work."""
    return round(100_000 * us / min(_constant_work_us(100_000) for _ in range(20)))


def cost(rounds: int) -> Iterator[Row]:
    manoeuvre = MANOEUVRES[0]
    cars = begun(manoeuvre)
    states = [car.state.copy() for car in cars]
    rows: list[list[tuple[float, float]]] = [[], []]  # us by the clock, of the processor
    loops, host = _as_long_as(P50_US), []  # constant work, and us of the processor that it took
    per_second, count = round(1.0 / H), round(manoeuvre.seconds / H)
    inputs = []
    for k in range(count):
        for name, value in manoeuvre.driver((k + 1) * H).items():
            cars[0].inputs[index(cars[0].model.inputs, name)] = value
        inputs.append(cars[0].inputs.copy())
    for _ in range(rounds):
        for car, state in zip(cars, states, strict=True):
            car.state[:] = state
        for first in range(0, count, per_second):
            for which, car in enumerate(cars):
                model, state, params, work = car.model, car.state, car.params, car.work
                for k, source in enumerate(inputs[first : first + per_second]):
                    row = source.copy()
                    started, used = time.perf_counter_ns(), time.thread_time_ns()
                    model.step(state, row, params, model.tables, work, H)
                    used = time.thread_time_ns() - used
                    if k > 0:
                        rows[which].append(((time.perf_counter_ns() - started) / 1e3, used / 1e3))
            for _ in range(per_second):
                host.append(_constant_work_us(loops))
    for name, times in zip(("relative", "natural"), rows, strict=True):
        clock, processor = (np.percentile(column, (50, 99.9)) for column in np.transpose(times))
        for by, values in (("by the clock", clock), ("of the processor", processor)):
            yield figure(f"{name}, {by}: p50; p99.9", f"{values[0]:.1f}; {values[1]:.1f}", "us")
    own = np.array(rows[0])[:, 1]
    p50, measured = np.percentile(own, (50, 99.9))
    tail = np.percentile(own.reshape(rounds, -1).min(axis=0), 99.9)
    usual, disturbed = np.percentile(host, (50, 99.9))
    yield at_most("a step of 5 ms, p50", p50, P50_US, "us")
    yield at_most("its p99.9", measured / p50, TAIL, "of p50")
    yield figure(f"least of {rounds} rounds, its p99.9", tail / p50, "of p50")
    yield figure("constant work beside it, p99.9", disturbed / usual, "of p50")
    yield at_least("steps alone", 1e6 * H / float(np.mean(own)), REPLAY, "x real time")


def live(seconds: float) -> Iterator[Row]:
    for manoeuvre in ("town", "lane_change_80"):
        for formulation in ("natural", "relative"):
            with tempfile.TemporaryDirectory() as folder:
                yield from _live(Path(folder), manoeuvre, formulation, seconds)


def _live(folder: Path, manoeuvre: str, formulation: str, seconds: float) -> Iterator[Row]:
    shutil.copytree(ROOT / "configs", folder / "configs")
    vehicle = folder / "configs" / "vehicles" / VEHICLE.name
    vehicle.write_text(f'formulation = "{formulation}"\n' + vehicle.read_text())
    runs, drive = str(folder / "runs"), folder / "configs" / "drive.toml"
    settings = [f"name=formulations_{os.getpid()}", "view.enabled=false"]
    settings.append(f"source.manoeuvre='manoeuvres/{manoeuvre}.toml'")
    _, misses, steps = run_beside_bare(drive, settings, seconds, runs)
    again = tandem("replay", runs)
    speed, what = float(again["real_time_factor"]), f"{manoeuvre}, {formulation}"
    for name, us in zip(("p50", "p99.9"), np.percentile(costs_us(steps), (50, 99.9)), strict=True):
        yield figure(f"{what}: from block to result, {name}", us, "us")
    yield replace(misses.row, quantity=f"{what}: {misses.row.quantity}")
    yield holds(f"{what}: replayed to the bit", again["code"] == 0 and again["identical"])
    yield at_least(f"{what}: replayed at", speed, REPLAY if formulation == "relative" else 0.0, "x real time")


def car_formulations(
    *,
    only: Annotated[str | None, "one manoeuvre, no costs"] = None,
    rounds: Annotated[int, "of the lane change, for the cost"] = 5,
    live_seconds: Annotated[float, "of each live drive"] = 0.0,
) -> Iterator[Row]:
    for manoeuvre in MANOEUVRES:
        if only in (None, manoeuvre.name):
            yield from errors(manoeuvre)
    if only is None:
        yield from cost(rounds)
        if live_seconds > 0.0:
            yield from live(live_seconds)
