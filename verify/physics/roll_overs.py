"""Cars that roll over, and cars that run into walls.

Random pushes, wedges under the wheels of one side and kerbs struck at an angle, at 5 to 40 m/s, 5 ms; before them the
three cases of `NAMED`. Nothing may become non-finite, no step may be thrown away (`capped` 2), a car that lies must
come to rest, and its energy, be it with that of springs and tyres or without (they are known at the end of a step
only), may never exceed what the car began with and the pushes gave by more than 1 %; all that until it lies at rest.

Impacts: cars run into steps of 0.1 to 1 m at 5 to 40 m/s, straight and at an angle, with ramps of 2 to 50 cm;
before them the two cases of `WALLS`. Their tyres have no friction, for what a patch stores is not counted. No step may
end with more energy, of whatever kind, than it began with and 50 J.

Case n of a seed is the same whatever first and count are, so that the whole may be run in parts.
"""

import math
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import numpy as np

from tandem.machines.car.buggy.description import P, W
from verify.measure import Row, at_most, equal, figure, holds, note
from verify.physics.kerbs import Coasting

H, SECONDS = 5e-3, 4.0
WEDGES, KERBS = (0.5, 0.6, 0.7, 0.85, 1.0), (0.05, 0.1, 0.15, 0.2, 0.25)  # m
MOST_CREATED = 0.01  # of the energy at the start and that of the pushes
IMPACT_SECONDS = 1.5
MOST_A_STEP = 50.0  # J
RAMPS, ACROSS = (0.02, 0.05, 0.1, 0.25, 0.5), 0.5  # m; at most of the speed
SLIPPERY = b"\n[SCALING_COEFFICIENTS]\nLMUX = 1e-6\nLMUY = 1e-6\n"
AT_REST, REST_SECONDS = 0.05, 16.0  # m/s and rad/s, below which friction of the body is viscous; s until it lies so
PROGRESS = 25  # cases


@dataclass
class Case:
    name: str
    speed: float = 10.0
    across: float = 0.0  # part of the speed to the left
    road: str = ""
    push: np.ndarray = field(default_factory=lambda: np.zeros(3))  # N m: roll, pitch, yaw
    until: float = 0.0  # s
    hand_wheel: float = 0.0  # rad


@dataclass
class Result:
    finite: bool = True
    created: float = 0.0  # J, at most
    share: float = 0.0
    capped: int = 0
    thrown_away: int = 0
    lies: bool = False  # on side or roof at the end
    at_rest: bool = False
    steps: int = 0
    in_parts: int = 0  # steps that were made in 4 or 16 parts
    slowest_step: float = 0.0  # s of the processor


def bump(height: float, more: str) -> str:
    return f'[[bumps]]\nshape = "trapezoid"\nheight = {height}\n{more}\n'


def wedge(height: float) -> str:
    """Under the left wheels."""
    return bump(height, "x = 5.0\nlength = 12.0\nramp = 5.0\nrounding = 0.5\nright = 0.0")


def kerb(height: float) -> str:
    return bump(height, f"x = 6.0\nlength = 60.0\nramp = {max(0.02, height / 3)}\nrounding = 0.005")


NAMED = (
    Case("8 kN m for 0.8 s", 0.0, push=np.array([8e3, 0.0, 0.0]), until=0.8),
    Case("5 kN m for 1.5 s", 0.0, push=np.array([5e3, 0.0, 0.0]), until=1.5),
    Case("1 m wedge at 20 m/s", 20.0, road=wedge(1.0)),
)


def wall(height: float, ramp: float) -> str:
    return bump(height, f"x = 3.0\nlength = 60.0\nramp = {ramp}\nrounding = {0.25 * ramp}")


WALLS = (Case("1 m at once", 30.0, road=wall(1.0, 0.02)), Case("0.5 m within 0.25 m", 30.0, road=wall(0.5, 0.25)))


def random_impact(seed: int, n: int) -> Case:
    rng = np.random.default_rng([seed, n])
    height, ramp = round(float(rng.uniform(0.1, 1.0)), 3), float(rng.choice(RAMPS))
    case = Case(f"{height} m within {ramp} m", float(rng.uniform(5.0, 40.0)), road=wall(height, ramp))
    case.across = float(rng.uniform(-ACROSS, ACROSS)) if rng.random() < 0.5 else 0.0
    return case


@dataclass
class Impact:
    finite: bool = True
    created: float = 0.0  # J, at most in a step
    touched: bool = False  # by the body
    in_parts: int = 0
    capped: int = 0
    steps: int = 0
    slowest_step: float = 0.0  # s of the processor

    @property
    def good(self) -> bool:
        return self.finite and self.created <= MOST_A_STEP and not self.capped


def run_impact(case: Case, folder: Path) -> Impact:
    road = folder / "road.toml"
    road.write_text(case.road)
    car = Coasting(road, case.speed, case.across, {"gear_mode": 0.0, "drag_area": 0.0}, SLIPPERY)
    out = Impact()
    car.step(H)
    last = car.energy()
    for _ in range(round(IMPACT_SECONDS / H)):
        begun = time.thread_time()
        car.step(H)
        out.slowest_step = max(out.slowest_step, time.thread_time() - begun)
        energy = car.energy()
        out.finite = out.finite and bool(np.isfinite(car.state).all()) and math.isfinite(energy)
        out.created, last = max(out.created, energy - last), energy
        out.touched = out.touched or car["body_load"] > 0.0
        out.in_parts += car["parts"] > 1.0
        out.capped += car["capped"] > 0.0
        out.steps += 1
    return out


def impacts(*, count: int = 500, first: int = 0, seed: int = 17) -> Iterator[Row]:
    cases = [*(WALLS if first == 0 else ()), *(random_impact(seed, n) for n in range(first, first + count))]
    results: list[Impact] = []
    with tempfile.TemporaryDirectory() as name:
        for case in cases:
            r = run_impact(case, Path(name))
            results.append(r)
            if not r.good or case in WALLS:
                what = f"{case.name}, {case.speed:.1f} m/s, {case.across:.2f} of it across"
                yield holds(f"{what}: finite, energy created in a step", r.good, f"{r.finite}, {r.created:.1f} J")
    yield equal(f"wrong of {len(results)} impacts of seed {seed}", sum(not r.good for r in results), 0)
    yield at_most("energy created in a step", max(r.created for r in results), MOST_A_STEP, "J")
    yield figure("impacts that touched the body", sum(r.touched for r in results))
    yield from _steps(results)


def _steps(results: Sequence["Impact | Result"]) -> Iterator[Row]:
    yield figure(f"steps in parts, of {sum(r.steps for r in results)}", sum(r.in_parts for r in results))
    yield figure("steps capped", sum(r.capped for r in results))
    yield figure("slowest step", 1e3 * max(r.slowest_step for r in results), "ms")


def random_case(seed: int, n: int) -> Case:
    rng = np.random.default_rng([seed, n])
    kind = ("push", "wedge", "kerb")[rng.integers(3)]
    case = Case(kind, float(rng.uniform(5.0, 40.0)))
    # few heights, for a car is built for each road
    if kind == "wedge":
        case.road = wedge(float(rng.choice(WEDGES)))
    elif kind == "kerb":
        case.road, case.across = kerb(float(rng.choice(KERBS))), float(rng.uniform(-1.0, 1.0))
    if kind == "push" or rng.random() < 0.3:
        case.until = float(rng.uniform(0.3, 1.5))
        case.push = np.array([rng.uniform(-9e3, 9e3), rng.uniform(-2e3, 2e3), rng.uniform(-4e3, 4e3)])
    case.hand_wheel = float(rng.uniform(-6.0, 6.0)) if rng.random() < 0.5 else 0.0
    return case


def run(case: Case, folder: Path, cars: dict[str, Coasting], trace: bool = False) -> Result:
    if case.road not in cars:
        road = folder / "road.toml"
        road.write_text(case.road)
        cars[case.road] = Coasting(road, case.speed, changed={"gear_mode": 0.0})
    car, out = cars[case.road], Result()
    car.again(case.speed, case.across)
    car.inputs[0] = case.hand_wheel
    start, work, before = car.energy_at_start(), 0.0, np.zeros(3)
    for n in range(round((SECONDS + REST_SECONDS) / H)):  # it may slide on for a while, or roll on to its wheels
        out.lies = bool(n) and car["overturned"] > 0.0
        out.at_rest = out.lies and _speed(car) < AT_REST
        if n * H >= SECONDS and (out.at_rest or not out.lies):
            break
        on = n * H < case.until
        car.params[[P.push_roll, P.push_pitch, P.push_yaw]] = case.push if on else 0.0
        last = max(car.energy(), car.energy(springs=False)) if trace and n else start
        begun = time.thread_time()
        car.step(H)
        out.slowest_step = max(out.slowest_step, time.thread_time() - begun)
        rates = np.array([car["roll_rate"], car["pitch_rate"], car["yaw_rate"]])
        work, before = work + float(case.push @ (before + rates)) * 0.5 * H * on, rates
        if not (np.isfinite(car.state).all() and np.isfinite(car.work[: len(W)]).all()):
            return Result(False, np.nan, np.nan, out.capped, out.thrown_away)
        out.in_parts += car["parts"] > 1.0
        out.capped += car["capped"] > 0.0
        out.thrown_away += car["capped"] == 2.0
        out.steps += 1
        energy = max(car.energy(), car.energy(springs=False))
        out.created = max(out.created, energy - start - work)
        if trace and (car["capped"] > 0.0 or energy - last > 500.0):
            note(_trace(n, car, energy, last))
    out.share = out.created / (start + work)
    out.lies = car["overturned"] > 0.0
    out.at_rest = out.lies and _speed(car) < AT_REST
    return out


def _speed(car: Coasting) -> float:
    """The greatest of any point, m/s, and of any rotation, rad/s; wheels may turn on."""
    names = ("vx", "vy", "vz", "roll_rate", "pitch_rate", "yaw_rate")
    return max(abs(car[name]) for name in names)


def _trace(n: int, car: Coasting, energy: float, last: float) -> str:
    loads, springs = car.loads(), [car[f"spring_length_{w}"] for w in ("fl", "fr", "rl", "rr")]
    return (
        f"  {n}: capped {car['capped']:.0f} iterations {car['iterations']:.0f} energy {last:.0f} -> {energy:.0f}"
        f" residual {car['energy_residual']:.0f} body {car['body_load']:.0f} N"
        f" loads {np.round(loads).tolist()} springs {np.round(springs, 3).tolist()}"
        f" roll {car['roll']:.2f} pitch {car['pitch']:.2f} z {car['z']:.2f} y {car['y']:.2f}"
        f" camber {[round(car['camber_' + w], 2) for w in ('fl', 'fr', 'rl', 'rr')]}"
    )


def roll_overs(
    *,
    count: int = 500,
    first: int = 0,
    seed: int = 17,
    trace: Annotated[bool, "print every step that is capped or gains 500 J"] = False,
) -> Iterator[Row]:
    cases = [(case.name, case) for case in NAMED] if first == 0 else []
    cases += [(str(n), random_case(seed, n)) for n in range(first, first + count)]
    results: list[Result] = []
    cars: dict[str, Coasting] = {}
    wrong, begun = 0, time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        for title, case in cases:
            r = run(case, Path(name), cars, trace)
            results.append(r)
            good = r.finite and r.share <= MOST_CREATED and not r.thrown_away and r.at_rest == r.lies
            wrong += not good
            if not good or case in NAMED:
                lies = f"{'lies' if r.lies else 'on its wheels'}{' at rest' * r.at_rest}"
                found = f"finite {r.finite}, {100 * r.share:.2f} % created, {r.thrown_away} thrown away, {lies}"
                yield holds(f"{title} ({case.name}, {case.speed:.1f} m/s)", good, found)
            if len(results) % PROGRESS == 0:
                note(f"{len(results)} of {len(cases)}, {time.monotonic() - begun:.0f} s, {wrong} wrong")
    lying = [r for r in results if r.lies]
    yield equal(f"wrong of {len(results)} runs of seed {seed}", wrong, 0)
    yield figure("energy created, at most", 100 * max((r.share for r in results if r.finite), default=0.0), "%")
    yield from _steps(results)
    yield figure(f"at rest of {len(lying)} on side or roof at the end", sum(r.at_rest for r in lying))
