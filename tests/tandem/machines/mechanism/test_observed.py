"""Mechanisms as a filter sees them: every slope against differences, readings against what they are by definition."""

from pathlib import Path

import numpy as np
import pytest

from sim_service.registry import load_machine
from sync.errors import ConfigError
from tandem.estimation.contract import TANGENT
from tandem.estimation.description import read_sensors
from tandem.estimation.make import read_tuning
from tandem.estimation.rows import WIDTH, R
from tandem.machines.mechanism.observed import observed
from verify.multibody.shipped import FOLDER

H = 1e-3
NONE = np.zeros(0, np.int32)
# a body of six freedoms less three: a pendulum in space on two hinges, with a spring
SPATIAL = """
name = "spatial"
dimension = 3
[points]
O = { at = [0.0, 0.0, 0.0], fixed = true }
P = { at = [0.4, 0.0, 0.0] }
[vectors]
z = { along = [0.0, 0.0, 1.0], fixed = true }
y = { along = [0.0, 1.0, 0.0] }
a = { along = [1.0, 0.0, 0.0] }
b = { along = [1.0, 0.0, 0.0] }
c = { along = [0.0, 0.0, 1.0] }
[bodies]
yoke = { nodes = ["O", "z", "y", "a"], mass = 2.0, centre = [0.1, 0.05, 0.0], inertia = [0.01, 0.02, 0.03] }
arm = { nodes = ["P", "y", "b", "c"], mass = 1.0, centre = [0.6, 0.0, 0.05], inertia = [0.01, 0.02, 0.015] }
[joints]
hinge = { kind = "revolute", bodies = ["yoke", "arm"], at = [0.3, 0.0, 0.0], axis = [0.0, 1.0, 0.0] }
[places]
tip = { on = "arm", at = [0.9, 0.1, 0.0] }
[inputs]
push = { value = 0.7 }
[forces]
hand = { kind = "force", point = "tip", vector = [0.5, 1.0, 0.0], scale = "push" }
"""


class Seen:
    def __init__(self, text: str, folder: Path) -> None:
        (folder / "m.toml").write_text(text)
        (folder / "machine.toml").write_text('machine = "mechanism"\nmechanism = "m.toml"\n')
        self.own = observed(*load_machine(folder / "machine.toml"))
        m = self.machine = self.own.machine
        self.N = len(self.own.coordinates)
        self.state, self.work = np.zeros(len(m.states)), np.zeros(m.work_size)
        m.initial(self.state, np.zeros(0), m.tables, self.work)
        self.signals = [q.name for q in self.own.signals]

    def inputs(self) -> np.ndarray:
        return np.full(len(self.machine.inputs), np.nan)

    def step(self, state: np.ndarray, h: float = H) -> np.ndarray:
        state = state.copy()
        self.machine.step(state, self.inputs(), np.zeros(0), self.machine.tables, self.work, h)
        return state

    def linearised(self, state: np.ndarray, h: float = H) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        state, at, F = state.copy(), np.zeros(self.own.at_size), np.zeros(self.N * (self.N + 1))
        status = self.own.linearise(
            state, self.inputs(), np.zeros(0), self.machine.tables, self.work, h, NONE, np.zeros(0), F, at
        )
        assert status == TANGENT
        return state, F.reshape(self.N + 1, self.N).T, at

    def read(self, at: np.ndarray, signal: str, place: object = (0, 0, 0), along: object = (0, 0, 0)) -> tuple:
        row, slopes = np.zeros(WIDTH), np.zeros(self.N)
        row[R.PLACE : R.PLACE + 3], row[R.DIRECTION : R.DIRECTION + 3] = place, along
        value = self.own.measure(self.signals.index(signal), row, 0.0, at, self.machine.tables, self.work, NONE, slopes)
        return value, slopes

    def moved(self, state: np.ndarray, k: int, by: float) -> np.ndarray:
        state, dx = state.copy(), np.zeros(self.N)
        dx[k] = by
        self.own.correct(state, np.zeros(0), self.machine.tables, self.work, dx)
        return state


@pytest.fixture(params=["four_bar", "five_bar", "spatial"])
def seen(request: pytest.FixtureRequest, tmp_path: Path) -> Seen:
    text = SPATIAL if request.param == "spatial" else (FOLDER / f"{request.param}.toml").read_text()
    one = Seen(text, tmp_path)
    for _ in range(120):
        one.state = one.step(one.state)
    return one


def test_the_step_is_the_machines_and_its_tangent_that_of_differences(seen: Seen) -> None:
    after, F, _ = seen.linearised(seen.state)
    assert np.array_equal(after, seen.step(seen.state))
    d = 1e-5
    known = np.array([
        (seen.step(seen.moved(seen.state, k, d)) - seen.step(seen.moved(seen.state, k, -d)))[: seen.N] / (2 * d)
        for k in range(seen.N)
    ]).T  # fmt: skip
    np.testing.assert_allclose(F[:, : seen.N], known, atol=1e-7 * np.abs(known).max())
    assert not F[:, seen.N].any()


def test_slopes_of_every_signal_are_those_of_differences(seen: Seen) -> None:
    d = 1e-5
    _, _, at = seen.linearised(seen.state)
    ends = [[seen.linearised(seen.moved(seen.state, k, by))[2] for by in (d, -d)] for k in range(seen.N)]
    place, along = (0.3, -0.2, 0.1), (0.6, 0.64, 0.48)
    for signal in seen.signals:
        value, slopes = seen.read(at, signal, place, along)
        pairs = [[seen.read(one, signal, place, along)[0] for one in pair] for pair in ends]
        known = [(a - b) / (2 * d) for a, b in pairs]
        np.testing.assert_allclose(slopes, known, atol=1e-6 * max(1.0, abs(value), np.abs(known).max()), err_msg=signal)


def test_a_sensor_on_a_body_reads_what_its_definition_says(seen: Seen) -> None:
    """Specific force: second differences of where a named place is, less gravity, along the body's axis."""
    plane = "C_x" in seen.signals
    body, node = ("right_bar", "D") if "right_bar" in seen.signals[-3] or "phi" in seen.signals else ("coupler", "C")
    if not plane:
        body, node = "arm", "tip"
    axes = "xy" if plane else "xyz"
    _, _, at = seen.linearised(seen.state)
    drawn = seen.own.machine.of(__import__("tandem.machines.mechanism.described", fromlist=["x"]).OfMechanism).mechanism
    place = drawn.where({**drawn.nodes, **drawn.places}[node])
    place = np.append(place, np.zeros(3 - len(place)))
    h = 1e-3
    before, after = seen.step(seen.state, -h), seen.step(seen.state, h)
    where = [
        np.array([seen.read(seen.linearised(s)[2], f"{node}_{axis}")[0] for axis in axes])
        for s in (before, seen.state, after)
    ]
    a = (where[0] - 2 * where[1] + where[2]) / h**2
    g = np.zeros(len(axes))
    g[-1] = -9.81
    found = np.array([
        seen.read(at, f"{body}_specific_force", place, np.eye(3)[k])[0] for k in range(len(axes))
    ])  # fmt: skip
    # their size does not depend on axes
    assert np.linalg.norm(found) == pytest.approx(np.linalg.norm(a - g), rel=1e-4)


def test_what_has_no_tangent_is_refused(tmp_path: Path) -> None:
    text = (FOLDER / "crane.toml").read_text()
    with pytest.raises(ConfigError, match=r"m\.toml: has drives"):
        Seen(text, tmp_path)
    with pytest.raises(ConfigError, match="control"):
        observed(*load_machine(FOLDER.parent / "robot" / "arm.toml"))


def test_an_imu_on_no_body_and_a_quantity_that_is_none_are_refused(seen: Seen) -> None:
    imu = {"kind": "imu", "rate_hz": 100.0, "place": [0.0] * 3, "force_noise": 1.0, "rate_noise": 1.0}
    bodies = [q.name.removesuffix("_specific_force") for q in seen.own.signals if q.unit == "m/s2"]
    for on in ({"on": "arrm"}, {}):
        with pytest.raises(ConfigError, match=rf"f: sensors\.a\.on = '.*': must be one of .*{bodies[-1]}$"):
            read_sensors({"a": imu | on}, seen.own, H, "f")
    with pytest.raises(ConfigError, match=r"f: sensors\.a: place = \[0.0\]: must have at least 3 items, not 1"):
        read_sensors({"a": imu | {"place": [0.0]}}, seen.own, H, "f")
    sensors = read_sensors({"a": imu | {"on": bodies[-1]}}, seen.own, H, "f")
    with pytest.raises(ConfigError, match=r"filter\.estimated: 'mass': nothing of this machine is; leave it out"):
        read_tuning(seen.own, sensors, ["mass"], {}, {}, "f")
