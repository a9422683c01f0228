"""The figures of the source's chapters 5 and 6, drawn from its equations with the numbers of its digest: what a held
force gives out, a ball under the laws, the damping that holds a wall, the return map, the worst crossing."""

import itertools
import math
from collections.abc import Iterator

import numpy as np

from sim_service.contract.machine import Machine
from sim_service.registry import load_machine
from tandem.doctor import passivity as theory
from tandem.doctor.passivity import FINGER, Port, WorstCrossing
from tandem.machines.wall import laws
from tandem.machines.wall.machine import I, W
from tandem.reports.html.chart import Series, curves
from tandem.reports.html.markup import Markup
from tandem.reports.report import Section, Table

_BALL = {"stiffness": 100.0, "gravity": 9.81, "h": 0.02}  # of a unit mass, from 1 m (case W4)
_LAWS = ((laws.STANDARD, 0), (laws.HALF_SAMPLE, 0), (laws.POLE_PLACEMENT, 0), (laws.DEAD_BEAT, 0))


class _Shown:
    """The machine `wall`, stepped with positions and speeds as they are."""

    def __init__(self, **parameters: float):
        self.machine: Machine
        self.machine, self.params = load_machine("wall", parameters)
        self.state, self.work = np.zeros(len(self.machine.states)), np.zeros(self.machine.work_size)
        self.inputs = np.zeros(len(self.machine.inputs))

    def force(self, position: float, speed: float, h: float) -> float:
        self.inputs[:] = math.nan
        self.inputs[I.position], self.inputs[I.velocity] = position, speed
        self.machine.step(self.state, self.inputs, self.params, self.machine.tables, self.work, h)
        return float(self.work[W.force])


def ball(
    law: int, crossing: int, expected_gravity: float, seconds: float
) -> tuple[np.ndarray, np.ndarray, list[float]]:
    """(s, height, heights after bounces) of a ball on a wall that is sampled and held; the law takes gravity for what
    is given."""
    gravity, h = _BALL["gravity"], _BALL["h"]
    shown = _Shown(
        law=float(law), crossing=float(crossing), stiffness=_BALL["stiffness"], port_mass=1.0, port_damping=0.0,
        port_stiffness=0.0, port_bias=-expected_gravity,
    )  # fmt: skip
    y, v, was_in, heights = 1.0, 0.0, False, []
    way = []
    for _ in range(round(seconds / h)):
        way.append(y)
        force = shown.force(y, v, h)
        if was_in and y > 0.0 and force == 0.0:
            heights.append(y + 0.5 * v**2 / gravity)
            was_in = False
        was_in |= y < 0.0
        a = -gravity - force
        y, v = y + v * h + 0.5 * a * h * h, v + a * h
    return np.arange(len(way)) * h, np.array(way), heights


def _staircase() -> tuple[list[Markup], Table]:
    """A push to 5 mm and back at constant speed: force over place, and the energy that comes out of it."""
    stiffness, speed, h, depth = 5000.0, 0.1, 1e-3, 5e-3
    shown = _Shown(stiffness=stiffness)
    down = np.linspace(0.0, -depth, round(depth / (speed * h)) + 1)
    way = np.concatenate([down, down[-2::-1]])
    place, force, energy = [], [], [0.0]
    for here, there in itertools.pairwise(way):
        held = shown.force(float(here), 0.0, h)
        place += [here, there]
        force += [-held, -held]
        energy.append(energy[-1] - held * (there - here))
    x = 1e3 * np.array(place)
    exact = np.array([0.0, -1e3 * depth])
    pictures = [
        curves(
            "force of the wall on the hand, N, over place: held, and not sampled",
            [Series("held", x, np.array(force)), Series("not sampled", exact, -1e-3 * stiffness * exact)], "mm",
        ),
        curves("energy given out, mJ", [Series("", np.arange(len(energy)) * h, 1e3 * np.array(energy))]),
    ]  # fmt: skip
    formula = theory.hold_leak(stiffness, speed, h, depth)
    near = math.isclose(energy[-1], formula, rel_tol=1e-9)
    table = Table(
        ("", "mJ", ""), [["given out", f"{1e3 * energy[-1]:.4f}", ""], ["K v T d", f"{1e3 * formula:.4f}", near]]
    )
    return pictures, table


def _balls() -> tuple[list[Markup], Table]:
    series, cells = [], []
    for law, crossing in _LAWS:
        t, y, heights = ball(law, crossing, _BALL["gravity"], 9.0)
        series.append(Series(laws.NAMES[law], t, y))
        cells.append([laws.NAMES[law], *(f"{height:.5f}" for height in heights[:6])])
    wrong = ball(laws.DEAD_BEAT, 0, 1.2 * _BALL["gravity"], 60.0)[2]
    cells.append(["dead-beat, gravity taken 20 % too high", *(f"{height:.5f}" for height in wrong[:6])])
    cells.append(["… after 20 bounces", f"{wrong[19]:.3f}", *[""] * 5])
    return [curves("height of a ball, m", series)], Table(("law", *(f"bounce {k}" for k in range(1, 7))), cells)


def _damping() -> tuple[list[Markup], Table]:
    ms = (0.5, 1, 2, 3, 4, 5, 8, 10, 15, 20, 30)
    device = Port(0.3, 0.0)
    found = {
        name: np.array([theory.marginal_damping(theory.together(device, hand), 5000.0, 1e-3 * each) for each in ms])
        for name, hand in (("alone", None), ("with a finger", FINGER))
    }
    t = 1e-3 * np.array(ms)
    pictures = [
        curves("damping of the device at which 5000 N/m neither grow nor decay, N s/m",
               [Series(name, t, each) for name, each in found.items()], "s from sample to sample"),
    ]  # fmt: skip
    cells = [[f"{each:g}", *(f"{found[name][k]:.4f}" for name in found)] for k, each in enumerate(ms)]
    return pictures, Table(("sample time ms", *(f"{name} N s/m" for name in found)), cells)


def _alpha() -> list[Markup]:
    tau = np.linspace(0.05, 8.0, 160)
    meet = theory.alpha_limits_meet()
    whole = [theory.alpha_complex(each) if each < meet else theory.alpha_real(each) for each in tau]
    complex_only = [theory.alpha_complex(each) if each < meet else math.nan for each in tau]
    return [
        curves(f"K T / b at which the device alone chatters, over b T / m; at {meet:.3f} a real pole takes over",
               [Series("either pole", tau, np.array(whole)), Series("complex poles", tau, np.array(complex_only))], ""),
    ]  # fmt: skip


def _strikes(period: float) -> float:
    speeds: Iterator[float] = theory.return_map(0.0, 1.0, 100.0, 1.0, 9.81, period)
    return max(itertools.islice(speeds, 40), default=math.nan)


def _maps() -> list[Markup]:
    periods = np.arange(0.01, 0.3, 0.001)
    most = np.array([_strikes(float(each)) for each in periods])
    t = np.linspace(1e-4, 10e-3, 60)
    worst = [WorstCrossing(0.3, 257.0, 5000.0, float(each)) for each in t]
    return [
        curves("fastest of 40 strikes on a wall that is on and off at samples alone, over the first",
               [Series("", periods, most)], "s from sample to sample"),
        curves("worst crossing: speed from strike to strike", [Series("gain", t, np.array([w.gain() for w in worst]))],
               "s from sample to sample"),
        curves("worst crossing: damping with which a strike repeats, N s/m",
               [Series("", t, np.array([w.balance() for w in worst]))], "s from sample to sample"),
    ]  # fmt: skip


def sections() -> list[Section]:
    stairs, of_stairs = _staircase()
    balls, of_balls = _balls()
    damping, of_damping = _damping()
    return [
        Section("What a held force gives out", [of_stairs, *stairs], key="staircase"),
        Section("A ball under the laws", [of_balls, *balls], "A unit mass from 1 m, 100 N/m, 20 ms.", key="ball"),
        Section("Damping that holds a wall", [of_damping, *damping, *_alpha()], key="damping"),
        Section("Crossings between samples", _maps(), key="crossings", on="page"),
    ]
