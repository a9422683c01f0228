"""The kart on its wheels: `python -m verify kart`.

Its wheel loads, at rest and in bends, beside a computation of statics written here: where inclined kingpins put the
wheels, four springs for tyres, one for the frame's twist, and masses that are pushed aside. The hand's work on the
wheel beside what it lifts and bends. Live, a hand that feels it: what is lost, and its replay.

    --seconds N   of the live run
"""

import tempfile
from collections.abc import Callable, Iterator
from math import pi, sin
from pathlib import Path

import numpy as np
from scipy.optimize import fsolve

from sim_service.registry import load_machine
from sync.clock import now_ns
from sync.record import open_run
from tandem.machines.car.tyres.keys import T
from tandem.machines.kart.vehicle.dynamics import HEAD, N, energies
from tandem.multibody.contact.kinds import LINK_REALS, LINK_WORK
from verify import ROOT
from verify.measure import Row, at_least, at_most, equal, holds
from verify.real_runs import replayed, tandem

FILE = ROOT / "configs" / "vehicles" / "kart_on_track.toml"
WHEELS = ("fl", "fr", "rl", "rr")
G, H = 9.81, 1e-3
Values = dict[str, np.ndarray]


class Kart:
    """Stepped here, a step of 1 ms at a time."""

    def __init__(self, **changed: float) -> None:
        self.machine, self.params = load_machine(FILE, changed)
        self.names = [q.name for q in self.machine.outputs]
        self.state, self.work = np.zeros(len(self.machine.states)), np.zeros(self.machine.work_size)
        self.machine.initial(self.state, self.params, self.machine.tables, self.work)

    def now(self, name: str) -> float:
        return float(self.work[self.names.index(name)])

    def run(self, hand: Callable[[float], float], seconds: float, speed: float | None = None) -> Values:
        """At a speed that a driver holds, or without pedals."""
        rows, throttle, brake, sum_of = [], 0.0, 0.0, 0.0
        for k in range(round(seconds / H)):
            if speed is not None:
                off = speed - self.now("speed")
                sum_of = min(max(sum_of + 0.3 * off * H, 0.0), 1.0)
                throttle, brake = min(max(0.5 * off + sum_of, 0.0), 1.0), min(max(-0.2 * off - 0.1, 0.0), 1.0)
            self.machine.step(
                self.state, np.array([hand(k * H), throttle, brake]), self.params, self.machine.tables, self.work, H
            )
            rows.append(self.work[: len(self.names)].copy())
        found = np.array(rows)
        return {name: found[:, i] for i, name in enumerate(self.names)}

    def figure(self, name: str) -> float:
        return float(self.params[[p.name for p in self.machine.parameters].index(name)])

    def energy(self) -> float:
        """Of what moves, stands high, is pressed or twisted, J; tyres are springs in proportion."""
        t, links, out = self.machine.tables, np.zeros(LINK_WORK * N), np.zeros(8)
        reals = t.floats[HEAD : HEAD + LINK_REALS * N].copy()
        gravity = np.array([0.0, 0.0, -G])
        reals.flags.writeable = gravity.flags.writeable = False
        energies(t.ints, reals, gravity, self.state[:N].copy(), self.state[N : 2 * N].copy(), links, np.zeros(3), out)
        pressed = sum(
            0.5 * stiffness(self)[k // 2] * min(self.now(f"lift_{w}"), 0.0) ** 2 for k, w in enumerate(WHEELS)
        )
        return float(out[0] + out[1] + pressed + 0.5 * self.figure("twist_stiffness") * self.now("twist") ** 2)


def tyre(kart: Kart, key: int) -> tuple[float, float]:
    """A figure of the tyre in front and of that behind."""
    start = HEAD + LINK_REALS * N
    return float(kart.machine.tables.floats[start + key]), float(kart.machine.tables.floats[start + len(T) + key])


def stiffness(kart: Kart) -> tuple[float, float]:
    return tyre(kart, T.VERTICAL_STIFFNESS)


def about(axis: np.ndarray, angle: float, x: np.ndarray) -> np.ndarray:
    """Rodrigues."""
    return np.asarray(x * np.cos(angle) + np.cross(axis, x) * sin(angle) + axis * (axis @ x) * (1.0 - np.cos(angle)))


def roll_by(angle: float, x: np.ndarray) -> np.ndarray:
    return about(np.array([1.0, 0.0, 0.0]), angle, x)


def statics(kart: Kart, hand: float, aside: float = 0.0, front: float = 0.0, drag: float = 0.0) -> np.ndarray:
    """Loads of the four wheels with the hand wheel there, the masses accelerated so to the left.

    `front`: side force of both front wheels, `drag`: of the air, in the height of the rear mass.
    """
    f = kart.figure
    K, R = stiffness(kart), tyre(kart, T.UNLOADED_RADIUS)
    half, line = 0.5 * f("wheelbase"), f("frame_height")
    mean = hand / f("steering_ratio")
    spread = 0.5 * f("ackermann") * f("track_front") / f("wheelbase") * mean * mean
    masses = [
        (f("rear_mass"), np.array([f("rear_ahead"), 0.0, f("rear_height")]), False),
        (f("front_mass"), np.array([f("front_ahead"), 0.0, f("front_height")]), True),
    ]
    total = f("rear_mass") + f("front_mass") + 4.0 * f("wheel_mass")
    first = sum(m * x[0] for m, x, _ in masses)
    loads = 0.5 * G * np.array([total / 2 + first / f("wheelbase"), total / 2 - first / f("wheelbase")])
    middles, axles = [], []
    for k in range(4):
        ahead, side = k < 2, 1.0 if k % 2 == 0 else -1.0
        height = R[k // 2] - loads[k // 2] / K[k // 2]
        out = 0.5 * f("track_front" if ahead else "track_rear")
        middle, axle = np.array([half if ahead else -half, side * out, height]), np.array([0.0, 1.0, 0.0])
        if ahead:
            axis = np.array([-np.tan(f("caster")), -side * np.tan(f("kingpin_inclination")), 1.0])
            axis /= np.linalg.norm(axis)
            pin = np.array([half, side * (out - f("spindle_length")), height])
            middle = pin + about(axis, mean + side * spread, middle - pin)
            axle = about(axis, mean + side * spread, axle)
        middles.append(middle)
        axles.append(axle)
        masses.append((f("wheel_mass"), middle, ahead))

    def placed(at: np.ndarray, ahead: bool, x: np.ndarray, point: bool = True) -> np.ndarray:
        z, pitch, roll, twist = at
        if ahead:
            up = np.array([0.0, 0.0, line]) if point else np.zeros(3)
            x = up + roll_by(twist, x - up)
        x = about(np.array([0.0, 1.0, 0.0]), pitch, roll_by(roll, x))
        return x + np.array([0.0, 0.0, z]) if point else x

    def wheels(at: np.ndarray) -> list[tuple[np.ndarray, float]]:
        found = []
        for k in range(4):
            middle, axle = placed(at, k < 2, middles[k]), placed(at, k < 2, axles[k], False)
            down = axle[2] * axle - np.array([0.0, 0.0, 1.0])
            down /= np.linalg.norm(down)
            deep = (middle[2] + R[k // 2] * down[2]) / down[2]  # along the wheel
            found.append((middle + (R[k // 2] - deep) * down, K[k // 2] * max(deep, 0.0)))
        return found

    def balance(at: np.ndarray) -> np.ndarray:
        """Of all: up, across its way, along it; of the front frame: about the line that it twists about."""
        touched = wheels(at)
        pushed = [(m, placed(at, ahead, x), ahead) for m, x, ahead in masses]
        up = sum(load for _, load in touched) - G * total
        over = sum(load * p[1] for p, load in touched) - sum(m * (G * x[1] - aside * x[2]) for m, x, _ in pushed)
        along = (
            -sum(load * p[0] for p, load in touched) + sum(m * G * x[0] for m, x, _ in pushed) - drag * f("rear_height")
        )
        top = placed(at, False, np.array([0.0, 0.0, line]))
        twisting = sum(load * (p[1] - top[1]) for p, load in touched[:2]) + front * top[2]
        twisting -= sum(m * (G * (x[1] - top[1]) - aside * (x[2] - top[2])) for m, x, ahead in pushed if ahead)
        return np.array([up / 1e3, over / 1e2, along / 1e2, (twisting - f("twist_stiffness") * at[3]) / 1e2])

    solved = fsolve(balance, np.zeros(4), xtol=1e-10)
    return np.array([load for _, load in wheels(solved)])


def loads_of(v: Values, late: int) -> np.ndarray:
    return np.array([float(np.mean(v[f"load_{w}"][-late:])) for w in WHEELS])


def kart(*, seconds: float = 15.0) -> Iterator[Row]:
    one = Kart(start_speed=0.0)
    v = one.run(lambda t: 0.0, 2.0)
    weight = G * sum(one.figure(n) * k for n, k in (("rear_mass", 1), ("front_mass", 1), ("wheel_mass", 4)))
    yield at_most("at rest, loads off statics", float(np.abs(loads_of(v, 1) - statics(one, 0.0)).max()) / weight,
                  1e-6, "of the weight")  # fmt: skip
    worst = lifted = 0.0
    for hand in (0.3, -0.6, 1.0):
        one = Kart(start_speed=0.0, grip=0.05)
        v = one.run(lambda t, to=hand: to * min(t, 1.0), 4.0)  # type: ignore[misc]
        expected = statics(one, hand)
        worst = max(worst, float(np.abs(loads_of(v, 200) - expected).max()))
        inner = 2 if hand > 0.0 else 3
        lifted = max(lifted, float(expected[inner] / statics(one, 0.0)[inner]))
    # what friction is left moves a load by its arm, the wheel's radius: at most 0.05 x 1.3 x 600 N x 0.13 / 1.1
    yield at_most("at rest on ice, steered by the hand wheel to 1 rad: loads off statics", worst, 4.0, "N")
    yield holds("… the inner rear wheel is unloaded by steering alone", lifted < 0.9)
    yield from _hand()
    yield from _bends()
    left, right = (Kart(start_speed=8.0).run(lambda t, by=by: by * min(t, 1.0), 3.0) for by in (0.1, -0.1))  # type: ignore[misc]
    apart = float(np.abs(left["y"] + right["y"]).max())
    yield at_most("left and right bend, y of one less that of the other", apart, 1e-9, "m")
    one = Kart(start_speed=8.0)
    spent = []
    for k in range(4000):
        inputs = np.array([0.1 * sin(2 * pi * k * H), 0.2, 0.0])
        begun = now_ns()
        one.machine.step(one.state, inputs, one.params, one.machine.tables, one.work, H)
        spent.append(now_ns() - begun)
    yield at_most("a step of 1 ms", 1e-3 * float(np.median(spent)), 100.0, "us")
    with tempfile.TemporaryDirectory() as folder:
        found = tandem("run", "configs/kart_wheel.toml", "--seconds", f"{seconds:g}", "--runs", folder)
        yield equal(f"live: blocks lost, of {found['steps']} steps", found["balance"]["lost"], 0)
        run = open_run(Path(folder))
        steps = run.topics["/step"].blocks
        correlation = np.corrcoef(steps["steering_angle"][-2000:], steps["steering_torque"][-2000:])[0, 1]
        yield holds("live: the hand is asked for torque into the bend", bool(correlation > 0.5))
        yield replayed(run.path.parent)


def _hand() -> Iterator[Row]:
    """There and back without a change of speed, so that friction in the patches is half of the difference."""
    one = Kart(start_speed=0.0, grip=0.05)
    one.run(lambda t: 0.0, 1.0)
    before = one.energy()
    there = one.run(lambda t: t / 10.0, 10.0)
    lifted = one.energy() - before
    back = one.run(lambda t: 1.0 - t / 10.0, 10.0)
    work = float(np.sum(there["steering_torque"])) * 1e-4
    returned = float(np.sum(back["steering_torque"])) * 1e-4
    work = 0.5 * (work + returned)
    yield at_most(f"work of the hand over 1 rad, {work:.3f} J, off what it lifts, presses and twists",
                  abs(work / lifted - 1.0), 0.03, "of it")  # fmt: skip


def _bends() -> Iterator[Row]:
    worst = 0.0
    for speed, hand in ((5.0, 0.1), (7.0, -0.1), (9.0, 0.05), (5.0, 0.2), (4.0, 0.35)):
        one = Kart(start_speed=speed)
        v = one.run(lambda t, to=hand: to * min(t, 1.0), 8.0, speed)  # type: ignore[misc]
        late = slice(-1000, None)
        side = sum(v[f"force_y_{w}"] * np.cos(v[f"steer_{w}"]) + v[f"force_x_{w}"] * np.sin(v[f"steer_{w}"])
                   for w in ("fl", "fr"))  # fmt: skip
        aside, u = float(np.mean(v["lateral_acceleration"][late])), float(np.mean(v["speed"][late]))
        drag = 0.6 * one.figure("drag_area") * u * u
        worst = max(
            worst, float(np.abs(loads_of(v, 1000) - statics(one, hand, aside, float(np.mean(side[late])), drag)).max())
        )
    yield at_most("in five bends: loads off statics", worst, 15.0, "N")
    one = Kart(start_speed=5.0)
    v = one.run(lambda t: 0.5 * min(t, 1.0), 1.8, 5.0)
    at = int(np.argmax(v["lift_rl"]))
    yield at_least(f"a tight bend, {v['lateral_acceleration'][at]:.1f} m/s2: the inner rear wheel lifts by",
                   1e3 * float(v["lift_rl"][at]), 2.0, "mm")  # fmt: skip
    yield at_most("… its load then", float(v["load_rl"][at]), 0.0, "N")
