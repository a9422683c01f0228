"""A study of a piano key: rows beside what is expected, pictures; a machine played along a path by a rigid finger, at
4 kHz. What the models have in common, by the names of tandem/machines/piano/port.py."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sim_service.contract.machine import Machine, Tables, index
from sim_service.registry import load_machine
from tandem.reports.html.chart import Series, curves
from tandem.reports.report import Report, Section, checked, promised

H = 2.5e-4
Path = list[tuple[float, float]]  # s, m


@dataclass
class Study:
    name: str
    title: str
    rows: list[tuple[str, str, str, bool | None]] = field(default_factory=list)
    pictures: list[tuple[str, list[Series], str]] = field(default_factory=list)

    def row(self, what: str, measured: str, expected: str = "", holds: bool | None = None) -> None:
        self.rows.append((what, measured, expected, None if holds is None else bool(holds)))

    @property
    def holds(self) -> bool:
        return all(row[3] is not False for row in self.rows)

    def figures(self) -> dict[str, Any]:
        rows = [dict(zip(("what", "measured", "expected", "holds"), row, strict=True)) for row in self.rows]
        return {"study": self.name, "rows": rows}


@dataclass
class Played:
    machine: Machine
    t: np.ndarray
    out: np.ndarray
    states: np.ndarray

    def of(self, name: str) -> np.ndarray:
        found: np.ndarray = self.out[:, index(self.machine.outputs, name)]
        return found

    def state(self, name: str) -> np.ndarray:
        found: np.ndarray = self.states[:, index(self.machine.states, name)]
        return found

    def first(self, phase: int) -> int:
        """The first step in this phase; the last step if there is none."""
        found = np.flatnonzero(self.of("phase") == phase)
        return int(found[0]) if len(found) else len(self.t) - 1

    def after(self, steps: int) -> "Played":
        """Without the first steps, and time from there."""
        return Played(self.machine, self.t[: len(self.t) - steps], self.out[steps:], self.states[steps:])

    @property
    def strikes(self) -> list[tuple[float, float]]:
        """(s, m/s)."""
        rises = np.flatnonzero(np.diff(self.of("strike_count"), prepend=0.0) > 0.0)
        return [(float(self.t[k] - self.of("strike_age")[k]), float(self.of("strike_speed")[k])) for k in rises]

    def curve(self, name: str, label: str, every: int = 8) -> Series:
        return Series(label, self.t[::every], self.of(name)[::every])

    def over_travel(self, name: str, label: str, every: int = 8) -> Series:
        down = slice(0, int(np.argmax(self.of("port"))) + 1, every)
        return Series(label, 1e3 * self.of("port")[down], self.of(name)[down])


def move(
    name: str, x: np.ndarray, v: np.ndarray, tables: Tables | None = None, a: np.ndarray | None = None,
    **parameters: float,
) -> Played:  # fmt: skip
    """A machine's outputs while the front of its key moves so: position and velocity of every step, and acceleration,
    where its machine takes one."""
    machine, params = load_machine(name, parameters)
    constants = machine.tables if tables is None else tables
    # the acceleration of a path of straight lines is zero, its corners left out
    state, work, inputs = np.zeros(len(machine.states)), np.zeros(machine.work_size), np.zeros(len(machine.inputs))
    machine.initial(state, params, constants, work)
    out, states = np.zeros((len(x), len(machine.outputs))), np.zeros((len(x), len(machine.states)))
    for k in range(len(x)):
        inputs[0], inputs[1] = x[k], v[k]
        if a is not None:
            inputs[2] = a[k]
        machine.step(state, inputs, params, constants, work, H)
        out[k], states[k] = work[: len(machine.outputs)], state
    return Played(machine, (np.arange(len(x)) + 1) * H, out, states)


def play(name: str, path: Path, seconds: float, **parameters: float) -> Played:
    """The same along straight lines between points."""
    x = np.interp(np.arange(round(seconds / H) + 1) * H, [t for t, _ in path], [place for _, place in path])
    return move(name, x[:-1], np.diff(x) / H, None, None, **parameters)


Studies = Mapping[str, tuple[str, Callable[[Study], None]]]


def press(speed: float, depth: float, start: float) -> Path:
    """At rest until `start`, then down."""
    return [(0.0, 0.0), (start, 0.0), (start + depth / speed, depth)]


def report(results: list[Study]) -> Report:
    sections = []
    for each in results:
        pictures = [curves(title, series, x_label=unit) for title, series, unit in each.pictures]
        sections.append(Section(each.title, [checked(each.rows), *pictures], key=each.name))
    data = {"studies": [each.figures() for each in results], "holds": all(each.holds for each in results)}
    headline = promised([row for each in results for row in each.rows])
    return Report("tandem study piano", headline, data, sections)
