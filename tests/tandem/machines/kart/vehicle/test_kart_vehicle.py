"""The kart on its wheels: it stands as statics has it, a steered wheel lifts the inner rear one, the hand feels it.

Figures beside statics written apart: `verify kart`.
"""

from collections.abc import Callable
from math import pi
from pathlib import Path

import numpy as np
import pytest

from sim_service.contract.scene import poses
from sim_service.registry import load_machine
from sync.errors import ConfigError
from tests.sim_service.conftest import CONFIGS

FILE = CONFIGS / "vehicles" / "kart_on_track.toml"
G, H = 9.81, 1e-3


class Kart:
    def __init__(self, road: Path | None = None, **changed: float) -> None:
        self.machine, self.params = load_machine(FILE, changed, {"road": road} if road else None)
        self.state, self.work = np.zeros(len(self.machine.states)), np.zeros(self.machine.work_size)
        self.machine.initial(self.state, self.params, self.machine.tables, self.work)

    def run(
        self, seconds: float, hand: Callable[[float], float], throttle: float = 0.0, brake: float = 0.0, h: float = H
    ) -> dict[str, np.ndarray]:
        m, rows = self.machine, []
        for k in range(round(seconds / h)):
            m.step(self.state, np.array([hand(k * h), throttle, brake]), self.params, m.tables, self.work, h)
            rows.append(self.work[: len(m.outputs)].copy())
        return {q.name: np.array(rows)[:, i] for i, q in enumerate(m.outputs)}


def to(angle: float) -> Callable[[float], float]:
    return lambda t: angle * min(t, 1.0)


def test_it_stands_on_its_wheels_where_statics_has_it() -> None:
    v = Kart(start_speed=0.0).run(1.0, to(0.0))
    mass = 118.0 + 34.0 + 10.0
    front = G * (118.0 * (0.52 - 0.13) + 34.0 * (0.52 + 0.35) + 5.0 * 1.04) / 1.04
    assert v["load_fl"][-1] == v["load_fr"][-1] == pytest.approx(0.5 * front, rel=1e-9)
    assert v["load_rl"][-1] == v["load_rr"][-1] == pytest.approx(0.5 * (G * mass - front), rel=1e-9)
    for name in ("x", "y", "z", "roll", "pitch", "twist", "steering_torque"):
        assert np.abs(v[name]).max() < 1e-9, name


def test_kingpins_lift_the_inner_rear_wheel_and_straight_ones_do_not() -> None:
    rest = Kart(start_speed=0.0).run(0.1, to(0.0))["load_rl"][-1]
    lifted = Kart(start_speed=0.0).run(3.0, to(0.8))
    assert lifted["load_rl"][-1] < 0.6 * rest and lifted["load_rr"][-1] > 1.2 * rest
    assert lifted["load_fl"][-1] > lifted["load_fr"][-1]  # the inner front wheel is pressed down
    upright = Kart(start_speed=0.0, caster=0.0, kingpin_inclination=0.0, spindle_length=0.0).run(3.0, to(0.8))
    assert upright["load_rl"][-1] == pytest.approx(upright["load_rr"][-1], abs=1.0)


def test_in_a_tight_bend_the_inner_rear_wheel_leaves_the_ground() -> None:
    v = Kart(start_speed=5.0).run(1.8, to(0.5), throttle=0.2)
    at = int(np.argmax(v["lift_rl"]))
    assert v["lift_rl"][at] > 1e-3 and v["load_rl"][at] == 0.0 and v["lateral_acceleration"][at] > 6.0
    assert v["load_rr"][at] > 1.5 * v["load_rr"][0]


def test_the_hand_holds_against_the_bend_and_a_stiffer_caster_is_heavier() -> None:
    light, heavy = (Kart(start_speed=7.0, caster=c).run(2.0, to(0.1))["steering_torque"][-1] for c in (0.2, 0.4))
    assert 0.0 < light < 0.8 * heavy
    right = Kart(start_speed=7.0).run(2.0, to(-0.1))["steering_torque"][-1]
    assert right == pytest.approx(-Kart(start_speed=7.0).run(2.0, to(0.1))["steering_torque"][-1], rel=1e-9)


def test_the_rear_axle_is_one_and_resists_turning() -> None:
    v = Kart(start_speed=4.0).run(2.0, to(0.2))
    assert (v["wheel_speed_rl"] == v["wheel_speed_rr"]).all() and v["wheel_speed_fl"][-1] < v["wheel_speed_fr"][-1]
    assert v["force_x_rl"][-1] < 0.0 < v["force_x_rr"][-1] or v["force_x_rr"][-1] < 0.0 < v["force_x_rl"][-1]


def test_engine_and_brake_do_what_they_can() -> None:
    v = Kart(start_speed=0.0).run(20.0, to(0.0), throttle=1.0)
    grown = v["drive_torque"] * v["wheel_speed_rl"]
    assert grown.max() == pytest.approx(20000.0, rel=1e-3) and v["drive_torque"].max() == 110.0
    assert 25.0 < v["speed"][-1] < 45.0
    locked = Kart(start_speed=15.0).run(4.0, to(0.0), brake=1.0)
    assert abs(locked["wheel_speed_rl"][500]) < 0.1 and locked["speed"][500] > 8.0 and abs(locked["speed"][-1]) < 0.05
    assert locked["load_rl"][500] < 0.9 * v["load_rl"][0]


def test_a_step_is_as_fine_as_its_parts_and_a_kerb_lifts_a_wheel(tmp_path: Path) -> None:
    fine, coarse = (Kart(start_speed=8.0).run(1.0, to(0.05), h=h)["yaw_rate"][-1] for h in (1e-3, 5e-3))
    assert fine == pytest.approx(coarse, rel=2e-2)
    road = tmp_path / "road.toml"
    road.write_text("[[bumps]]\nx = 5.0\nlength = 0.6\nheight = 0.03\nleft = 1.0\nright = 0.2\n")
    v = Kart(road, start_speed=8.0).run(1.5, to(0.0))
    assert v["load_fl"].max() > 2.0 * v["load_fl"][0] and v["lift_fl"].max() > 5e-3
    assert np.abs(v["twist"]).max() > 5e-3


def test_on_its_side_it_has_diverged() -> None:
    kart = Kart(start_speed=20.0, grip=2.0, rear_height=0.9, track_front=0.6, track_rear=0.6)
    v = kart.run(3.0, to(0.6))
    assert np.isnan(v["x"][-1]) and np.isfinite(v["x"][10])


def test_wheels_are_drawn_where_they_touch_and_turn() -> None:
    kart = Kart(start_speed=5.0)
    kart.run(1.0, to(0.1))
    shown = kart.machine.shown
    assert shown.scene is not None and shown.frames is not None
    out = poses(shown.scene.frames)
    shown.frames(kart.state, kart.params, out)
    for wheel, frame in zip(shown.scene.wheels, out[2:], strict=True):
        assert frame[0, 2] == pytest.approx(wheel.radius, abs=8e-3)
    assert np.arctan2(out[2, 2, 0], out[2, 2, 1]) * -180.0 / pi > 2.0  # the left one's axle, turned to the left
    assert out[4, 0, 1] - out[5, 0, 1] == pytest.approx(1.15 * np.cos(0.0), abs=0.2)


def test_what_cannot_stand_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"a front wheel would carry -\d+ N; the centres of gravity"):
        load_machine(FILE, {"rear_ahead": -1.0, "front_ahead": -1.0})
    with pytest.raises(ConfigError, match=r"spindle_length = 0\.3: must be less than half of track_front"):
        load_machine(FILE, {"spindle_length": 0.3, "track_front": 0.55})
