"""The narrow vehicle on tyres: it stands, leans as its circle asks for, and its sensors read what it does."""

from collections.abc import Callable
from math import atan, sin
from pathlib import Path

import numpy as np
import pytest

from sim_service.contract.machine import index
from sim_service.contract.scene import poses
from sim_service.registry import gather, load_machine
from sync.config.toml import read_toml
from sync.errors import ConfigError
from tandem.estimation.rows import WIDTH, R
from tandem.machines.tilting.vehicle.observed import measure, observed
from tests.sim_service.conftest import CONFIGS

FILE = CONFIGS / "vehicles" / "tilting.toml"
G = 9.81


class Vehicle:
    def __init__(self, road: Path | None = None, **changed: float) -> None:
        self.machine, self.params = load_machine(FILE, changed, {"road": road} if road else None)
        self.state, self.work = np.zeros(len(self.machine.states)), np.zeros(self.machine.work_size)
        self.machine.initial(self.state, self.params, self.machine.tables, self.work)

    def run(
        self, seconds: float, steer: Callable[[float], float], speed: float, h: float = 5e-3
    ) -> dict[str, np.ndarray]:
        m, rows = self.machine, []
        for k in range(round(seconds / h)):
            m.step(self.state, np.array([steer(k * h), speed]), self.params, m.tables, self.work, h)
            rows.append(self.work[: len(m.outputs)].copy())
        return {q.name: np.array(rows)[:, i] for i, q in enumerate(m.outputs)}


def test_it_stands_on_its_wheels_where_statics_has_it() -> None:
    v = Vehicle(start_speed=0.0).run(2.0, lambda t: 0.0, 0.0)
    weight = G * (250.0 + 130.0 + 3 * 12.0)
    front = G * (250.0 * 0.75 + 130.0 * 0.6 + 12.0 * 1.8) / 1.8
    assert v["load_front"][-1] == pytest.approx(front, rel=1e-6)
    assert v["load_rl"][-1] == v["load_rr"][-1] == pytest.approx(0.5 * (weight - front), rel=1e-6)
    for name in ("x", "y", "roll", "pitch", "travel_front", "travel_rl"):
        assert np.abs(v[name]).max() < 1e-9, name


@pytest.mark.parametrize("speed, steer", [(8.0, 0.06), (12.0, -0.03)])
def test_it_leans_as_its_circle_asks_for(speed: float, steer: float) -> None:
    v = Vehicle(start_speed=speed).run(10.0, lambda t: steer * min(t, 1.0), speed)
    x, y, late = v["x"], v["y"], slice(-400, None)
    rows = np.column_stack([x[late], y[late], np.ones(400)])
    a, b, c = np.linalg.lstsq(rows, x[late] ** 2 + y[late] ** 2, rcond=None)[0]
    circle = np.sqrt(c + 0.25 * (a * a + b * b))
    lean = -np.sign(steer) * atan(float(np.mean(v["speed"][late])) ** 2 / (G * circle))
    assert v["roll"][-1] == pytest.approx(lean, abs=2e-3) and abs(lean) > 0.15
    outer, inner = ("rr", "rl") if steer > 0.0 else ("rl", "rr")
    assert v[f"load_{outer}"][-1] > 1.2 * v[f"load_{inner}"][-1]
    assert v["base_roll"][-1] * lean < 0.0  # the frame rolls outwards, the body leans inwards


def test_a_weak_actuator_lets_the_body_fall_outwards() -> None:
    v = Vehicle(start_speed=12.0, torque_limit=50.0).run(2.0, lambda t: 0.08, 12.0)
    assert v["roll"][-1] > 0.5 and np.abs(v["torque"]).max() <= 50.0


def test_on_a_bank_the_body_stays_upright_and_a_bump_moves_a_wheel(tmp_path: Path) -> None:
    road = tmp_path / "road.toml"
    road.write_text('[surface]\nkind = "slope"\nbank_percent = 6.0\n')
    v = Vehicle(road).run(4.0, lambda t: 0.0, 8.0)
    assert abs(v["roll"][-1]) < 5e-3 and abs(v["base_roll"][-1]) > 0.05 and abs(v["joint"][-1]) > 0.05
    road.write_text("[[bumps]]\nx = 5.0\nlength = 0.6\nheight = 0.03\nleft = 1.0\nright = 0.2\n")
    v = Vehicle(road).run(1.5, lambda t: 0.0, 8.0)
    assert v["travel_rl"].max() > 1e-2 > 2.0 * np.abs(v["travel_front"]).max()


def test_sensors_on_the_body_read_what_its_points_do() -> None:
    """Second differences of a point's path in the body's own axes, and first ones of its attitude."""
    vehicle, h, steps, place = Vehicle(), 5e-4, 1600, np.array([0.1, 0.05, 0.9])
    m = vehicle.machine
    own = observed(m, vehicle.params)
    row, none, at = np.zeros(WIDTH), np.zeros(0), np.zeros(own.at_size)
    nothing = np.zeros(0, np.int32)
    nothing.flags.writeable = False
    row[R.PLACE : R.PLACE + 3] = place
    out, points, axes, read = poses(m.shown.scene.frames), [], [], []  # type: ignore[union-attr]
    for k in range(steps):
        m.shown.frames(vehicle.state, vehicle.params, out)
        points.append(out[1, 0] + place @ out[1, 1:])
        axes.append(out[1, 1:].copy())
        inputs = np.array([0.08 * sin(6.0 * k * h), 8.0])
        own.linearise(vehicle.state, inputs, vehicle.params, m.tables, vehicle.work, h, nothing, none, none, at)
        found = []
        for signal in (0, 1):
            for direction in np.eye(3):
                row[R.DIRECTION : R.DIRECTION + 3] = direction
                given = row.copy()
                given.flags.writeable = False
                found.append(measure(signal, given, 0.0, at, m.tables, none, nothing, none))
        read.append(found)
    path, attitude, seen = np.array(points), np.array(axes), np.array(read)
    force = np.array([0.0, 0.0, G]) + (path[2:] - 2 * path[1:-1] + path[:-2]) / h**2
    own_axes = np.einsum("kij,kj->ki", attitude[1:-1], force)
    turn = (attitude[2:] - attitude[:-2]) / (2 * h)  # of the axes: w x e
    rate = np.column_stack([np.einsum("kj,kj->k", attitude[1:-1, (i + 2) % 3], turn[:, (i + 1) % 3]) for i in range(3)])
    late = slice(200, None)
    assert np.abs(own_axes[late, 1]).max() > 1.0 and np.abs(rate[late, 0]).max() > 0.3
    # accelerations are those of the half millisecond before the instant
    assert np.abs(seen[2:, :3] - own_axes)[late].max() < 0.02
    assert np.abs(seen[1:-1, 3:] - rate)[late].max() < 5e-3


def test_what_cannot_stand_or_is_no_file_of_it_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"a front wheel would carry -\d+ N; the centres of gravity"):
        load_machine(FILE, {"body_ahead": -1.0, "base_ahead": -1.0})
    with pytest.raises(ConfigError, match=r"sim\.files\.course = .*: a car reads no such file"):
        gather(FILE, {"course": CONFIGS / "roads" / "flat.toml"})


def test_truth_and_observer_have_the_same_sensors() -> None:
    sensors = [read_toml(CONFIGS / "observers" / f"tilting_{name}.toml")["sensors"] for name in ("truth", "live")]
    assert list(sensors[0]) == list(sensors[1])
    for truth, live in zip(sensors[0].values(), sensors[1].values(), strict=True):
        assert all(truth.get(key) == live.get(key) for key in ("kind", "signal", "place", "rate_hz"))


def test_wheels_are_drawn_where_they_touch() -> None:
    vehicle = Vehicle()
    vehicle.run(1.0, lambda t: 0.05, 8.0)
    out = poses(vehicle.machine.shown.scene.frames)  # type: ignore[union-attr]
    vehicle.machine.shown.frames(vehicle.state, vehicle.params, out)
    for wheel, frame in zip(vehicle.machine.shown.scene.wheels, out[2:], strict=True):  # type: ignore[union-attr]
        assert frame[0, 2] == pytest.approx(wheel.radius, abs=8e-3)
    assert out[1, 2] @ out[0, 3] != 0.0 and index(vehicle.machine.outputs, "roll") == 0
