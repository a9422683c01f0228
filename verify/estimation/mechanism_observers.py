"""Observers of mechanisms: `python -m verify mechanism-observers`.

A four-bar with an IMU on its coupler, a five-bar with IMUs on both long bars. Readings of a truth that begins elsewhere
and is moved at random go to our filter and to an extended Kalman filter in plain numpy
(verify/multibody/references/planar.py), which has the linkage by formulas of its cranks' angles. Compared are their
errors against the truth, of where the last joint is, and the normalised errors of ours.

    --runs N   of each, by different noise
"""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sim_service.registry import load_machine
from tandem.estimation.description import read_sensors
from tandem.estimation.make import Filter, Tuning
from tandem.estimation.rows import Count
from tandem.machines.mechanism.observed import observed
from verify import ROOT
from verify.measure import Row, at_least, at_most
from verify.multibody.references.planar import Kalman, Places, Planar, meeting
from verify.multibody.shipped import FOLDER

H, SECONDS, SETTLED_S = 2e-3, 1.5, 0.3
FORCE, RATE = 0.5, 0.05  # noise of the sensors, m/s2 and rad/s
START, START_RATE, WALK = 0.02, 0.2, 0.1  # what filters believe, of the coordinates of the product's filter
APART = 5.0  # %


@dataclass(frozen=True)
class Case:
    file: str
    imus: dict[str, tuple[float, float]]  # on which bar, where as drawn
    watched: str
    planar: Planar
    s: np.ndarray  # as drawn
    # the product's coordinates: a bar's angle, less that of another one
    coordinates: tuple[tuple[str, str], ...]


def _reference(data: dict) -> Places:
    return {name: np.array(point["at"]) for name, point in data["points"].items()}


def _angle(way: np.ndarray) -> float:
    return float(np.arctan2(way[1], way[0]))


def _length(way: np.ndarray) -> float:
    return float(np.linalg.norm(way))


def four_bar() -> Case:
    data = tomllib.loads((FOLDER / "four_bar.toml").read_text())
    p, mass = _reference(data), {name: body["mass"] for name, body in data["bodies"].items()}
    crank = _length(p["B"] - p["A"])
    coupler, rocker = _length(p["C"] - p["B"]), _length(p["C"] - p["D"])

    def joints(s: np.ndarray) -> Places:
        B = p["A"] + crank * np.array([np.cos(s[0]), np.sin(s[0])])
        return {"A": p["A"], "B": B, "C": meeting(B, p["D"], coupler, rocker, 1.0), "D": p["D"]}

    bars = {
        "crank": ("A", "B", mass["crank"]),
        "coupler": ("B", "C", mass["coupler"]),
        "rocker": ("D", "C", mass["rocker"]),
    }
    planar = Planar(joints, bars, {})
    return Case(
        "four_bar", {"coupler": (0.5, 0.45)}, "C", planar, np.array([_angle(p["B"] - p["A"])]), (("coupler", "crank"),)
    )


def five_bar() -> Case:
    data = tomllib.loads((FOLDER / "five_bar.toml").read_text())
    p, mass = _reference(data), {name: body["mass"] for name, body in data["bodies"].items()}
    far = {name: _length(p[b] - p[a]) for name, (a, b) in {n: b["nodes"] for n, b in data["bodies"].items()}.items()}

    def joints(s: np.ndarray) -> Places:
        B = p["A"] + far["left"] * np.array([np.cos(s[0]), np.sin(s[0])])
        D = p["E"] - far["right"] * np.array([np.cos(s[1]), np.sin(s[1])])  # the body lies from D to E
        return {"A": p["A"], "B": B, "C": meeting(B, D, far["left_bar"], far["right_bar"], 1.0), "D": D, "E": p["E"]}

    bars = {name: (*body["nodes"], mass[name]) for name, body in data["bodies"].items()}
    s = np.array([_angle(p["B"] - p["A"]), _angle(p["E"] - p["D"])])
    stiffness = {
        "left": data["forces"]["left_spring"]["stiffness"],
        "right": data["forces"]["right_spring"]["stiffness"],
    }
    springs = {name: (stiffness[name], angle) for name, angle in zip(("left", "right"), s.tolist(), strict=True)}
    imus = {"left_bar": (0.05, 0.55), "right_bar": (0.45, 0.55)}
    return Case("five_bar", imus, "C", Planar(joints, bars, springs), s, (("left", ""), ("right_bar", "right")))


class Both:
    """Our filter, its truth and the other filter, of one seed."""

    def __init__(self, case: Case, seed: int) -> None:
        self.case, self.random, self.steps = case, np.random.default_rng(seed), 0
        machine, params = load_machine(ROOT / "configs" / "observers" / f"{case.file}_machine.toml")
        self.own = observed(machine, params)
        self.machine, self.n = self.own.machine, len(self.own.coordinates) // 2
        self.outputs = [q.name for q in self.machine.outputs]
        imu = {"kind": "imu", "rate_hz": 1.0 / H, "force_noise": FORCE, "rate_noise": RATE}
        tables = {bar: {**imu, "on": bar, "place": [*place, 0.0]} for bar, place in case.imus.items()}
        self.sensors = read_sensors(tables, self.own, H, "verify")
        believed = np.repeat([START, START_RATE], self.n)
        walk = np.repeat([0.0, WALK], self.n)
        state, work = np.zeros(len(self.machine.states)), np.zeros(self.machine.work_size)
        self.machine.initial(state, params, self.machine.tables, work)
        self.truth, self.work = state.copy(), work
        self.filter = Filter(self.own, params, state, self.sensors, (), Tuning(believed, walk), H)
        self.truth[: 2 * self.n] += believed * self.random.standard_normal(2 * self.n)
        self.other = self._kalman(state, believed, walk)

    def _kalman(self, state: np.ndarray, believed: np.ndarray, walk: np.ndarray) -> Kalman:
        case, n = self.case, self.n
        nodes = case.planar.joints(case.s)

        def read(x: np.ndarray) -> np.ndarray:
            return np.concatenate([case.planar.imu(bar, np.array(place), nodes, x) for bar, place in case.imus.items()])

        self.T = np.linalg.inv(self._derivatives(case.s))  # s by the product's coordinates
        x = np.concatenate([case.s, self.T @ state[n : 2 * n]])
        both = np.kron(np.eye(2), self.T)
        P = both @ np.diag(believed**2) @ both.T
        self.walk = walk[n:]
        return Kalman(case.planar, read, np.tile([FORCE, FORCE, RATE], len(case.imus)), x, P)

    def _derivatives(self, s: np.ndarray) -> np.ndarray:
        turn = self.case.planar.turn
        return np.array([turn(a, s) - (turn(b, s) if b else 0.0) for a, b in self.case.coordinates])

    def _walked(self) -> np.ndarray:
        """White noise on the rates of the product's coordinates, over a step."""
        T = np.linalg.inv(self._derivatives(self.other.x[: self.n]))
        W = T @ np.diag(self.walk**2) @ T.T
        return np.block([[W * H**3 / 3.0, W * H**2 / 2.0], [W * H**2 / 2.0, W * H]])

    def _walk(self, after: np.ndarray) -> np.ndarray:
        """The truth, moved at random over a step as both filters expect it."""
        n, (a, b) = self.n, self.random.standard_normal((2, self.n))
        after[:n] += self.walk * H**1.5 * (a / 2.0 + b / np.sqrt(12.0))
        after[n : 2 * n] += self.walk * np.sqrt(H) * a
        return after

    def go(self) -> None:
        m, none = self.machine, np.zeros(0, np.int32)
        at, F, gradient = np.zeros(self.own.at_size), np.zeros(4 * self.n**2 + 2 * self.n), np.zeros(2 * self.n)
        after, inputs = self.truth.copy(), np.full(len(m.inputs), np.nan)
        self.own.linearise(after, inputs, np.zeros(0), m.tables, self.work, H, none, np.zeros(0), F, at)
        readings = []
        for i, row in enumerate(self.sensors.rows):
            signal = int(self.sensors.counts[i, Count.SIGNAL])
            value = self.own.measure(signal, row, 0.0, at, m.tables, self.work, none, gradient)
            value += self.sensors.noise[i] * self.random.standard_normal()
            if i % 6 in (0, 1, 5):  # x, y and the turn, which a plane has
                self.filter.take(i, self.steps, value)
                readings.append(value)
        self.filter.observe(inputs.copy())
        self.other.go(np.array(readings), self._walked(), H)
        self.truth = self._walk(after)
        self.steps += 1

    def place(self, state: np.ndarray) -> np.ndarray:
        work = np.zeros(self.machine.work_size)
        self.machine.step(
            state.copy(), np.full(len(self.machine.inputs), np.nan), np.zeros(0), self.machine.tables, work, 1e-9
        )
        return np.array([work[self.outputs.index(f"{self.case.watched}_{axis}")] for axis in "xy"])

    def errors(self) -> tuple[float, float, float]:
        """Squared, of ours and of the other; and ours normalised."""
        truth = self.place(self.truth)
        ours = self.place(self.filter.state) - truth
        other = self.case.planar.joints(self.other.x[: self.n])[self.case.watched] - truth
        e = self.filter.state[: 2 * self.n] - self.truth[: 2 * self.n]
        return float(ours @ ours), float(other @ other), float(e @ np.linalg.solve(self.filter.covariance(), e))


def mechanism_observers(*, runs: int = 6, seconds: float = SECONDS) -> Iterator[Row]:
    for case in (four_bar(), five_bar()):
        found = []
        for seed in range(runs):
            both = Both(case, seed)
            for k in range(round(seconds / H)):
                both.go()
                if k * H >= min(SETTLED_S, 0.5 * seconds):
                    found.append(both.errors())
        ours, other, normalised = np.mean(found, axis=0)
        rms, known = np.sqrt(ours), np.sqrt(other)
        what = f"{case.file}: error of {case.watched}, {1e3 * rms:.3g} mm, beside {1e3 * known:.3g} mm of the other"
        yield at_most(what, 100.0 * abs(rms / known - 1.0), APART, "%")
        size = 2.0 * both.n
        yield at_most(f"{case.file}: normalised error squared, {size:g} expected", normalised, 2.0 * size)
        yield at_least(f"{case.file}: the same", normalised, 0.5 * size)
