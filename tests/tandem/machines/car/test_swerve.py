"""An obstacle on the road of a car: when it appears, whether it is hit, and that the car is the same car."""

from pathlib import Path
from shutil import copy

import numpy as np
import pytest

from sim_service.contract.machine import Machine, index
from sim_service.contract.scene import poses
from sim_service.registry import load_machine
from sync.errors import ConfigError
from tandem.machines.car.swerve import obstacle
from tandem.machines.car.swerve.description import STATES, S
from tests.sim_service.conftest import CONFIGS

H = 5e-3


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The plane car with the obstacle: it takes a tenth of the time of the other."""
    vehicles = CONFIGS / "vehicles"
    copy(vehicles / "buggy_single_track.toml", tmp_path)
    text = (vehicles / "swerve.toml").read_text().replace("buggy.toml", "buggy_single_track.toml")
    (tmp_path / "swerve.toml").write_text(text)
    return tmp_path / "swerve.toml"


def drive(
    machine: Machine, params: np.ndarray, seconds: float, steering: float = 0.0, after: float = 0.0
) -> np.ndarray:
    """Outputs of every step, full throttle, with a turn of the hand wheel from an instant on."""
    state, work = np.zeros(len(machine.states)), np.zeros(machine.work_size)
    machine.initial(state, params, machine.tables, work)
    rows = []
    for k in range(round(seconds / H)):
        angle = steering if k * H >= after else 0.0
        inputs = np.full(len(machine.inputs), np.nan)
        inputs[:5] = angle, 0.0, 0.0, 1.0, 0.0
        machine.step(state, inputs, params, machine.tables, work, H)
        rows.append(work[: len(machine.outputs)].copy())
    return np.array(rows)


def test_the_car_with_it_is_the_same_car_to_the_bit(file: Path) -> None:
    machine, params = load_machine(file)
    plain, values = load_machine(file.with_name("buggy_single_track.toml"))
    with_it, without = drive(machine, params, 6.0, 0.2, 3.0), drive(plain, values, 6.0, 0.2, 3.0)
    assert with_it[:, : len(plain.outputs)].tobytes() == without.tobytes()


def test_it_appears_at_an_instant_of_its_seed_and_is_hit_by_a_car_that_goes_on(file: Path) -> None:
    appeared = []
    for seed in (1.0, 1.0, 2.0, 3.0):
        machine, params = load_machine(file, {"obstacle_seed": seed, "obstacle_from": 5.0})
        rows = drive(machine, params, 14.0)
        of = {q.name: rows[:, k] for k, q in enumerate(machine.outputs)}
        first = int(np.argmax(of["obstacle_number"] > 0.0))
        fast = int(np.argmax(of["vx"] >= 5.0))
        assert 2.0 <= H * (first - fast) <= 6.0 + 2 * H
        ahead = of["obstacle_x"][first] - 0.5 - (of["x"][first] + 1.58)
        assert ahead == pytest.approx(45.0) and of["obstacle_room"][first] == pytest.approx(45.0)
        # hit as soon as the front of the car is at its edge, once
        hit = int(np.argmax(of["obstacle_hits"] > 0.0))
        assert hit > first and of["obstacle_hits"].max() == 1.0
        edge = of["obstacle_x"][first] - 0.5
        assert of["x"][hit - 1] + 1.58 <= edge < of["x"][hit] + 1.58
        appeared.append(first)
    assert appeared[0] == appeared[1] and len(set(appeared)) == 3


def test_a_car_that_turns_away_does_not_hit_it_and_it_is_gone_then(file: Path) -> None:
    machine, params = load_machine(file, {"obstacle_from": 5.0, "obstacle_latest": 2.0})
    straight = drive(machine, params, 8.0)
    number, there, hits = (index(machine.outputs, f"obstacle_{name}") for name in ("number", "there", "hits"))
    first = int(np.argmax(straight[:, number] > 0.0)) * H
    away = drive(machine, params, 14.0, 1.5, first)
    assert away[:, there].max() == 1.0 and away[-1, hits] == 0.0
    assert (np.diff(away[:, there]) < 0.0).any()


def test_it_is_drawn_where_it_is_and_below_the_road_while_there_is_none(file: Path) -> None:
    machine, params = load_machine(file)
    assert machine.shown.scene is not None and machine.shown.scene.solids[-1].name == "obstacle"
    state, work = np.zeros(len(machine.states)), np.zeros(machine.work_size)
    machine.initial(state, params, machine.tables, work)
    out = poses(machine.shown.scene.frames)
    machine.shown.frames(state, params, out)
    assert out[-1, 0, 2] < -10.0
    at = len(machine.states) - len(STATES)
    state[at + S.obstacle_there], state[at + S.obstacle_x] = 1.0, 50.0
    machine.shown.frames(state, params, out)
    assert out[-1, 0].tolist() == [50.0, 0.0, 0.0]


def test_room_is_the_gap_between_two_rectangles() -> None:
    assert obstacle.clearance(5.0, 0.0, 0.0, 2.0, 1.0, 0.0, 1.0, 1.0) == pytest.approx(2.0)
    assert obstacle.clearance(0.0, 3.0, 0.0, 2.0, 1.0, 0.0, 1.0, 0.5) == pytest.approx(1.5)
    assert obstacle.clearance(0.5, 0.5, 0.7, 2.0, 1.0, 0.2, 1.0, 0.5) < 0.0
    # a square on its corner in front of another: the diagonal counts
    assert obstacle.clearance(3.0, 0.0, 0.0, 1.0, 1.0, np.pi / 4, 1.0, 1.0) == pytest.approx(2.0 - np.sqrt(2.0))
    # corner beside corner: neither overlaps along the turned one's sides
    assert obstacle.clearance(1.9, 1.9, 0.0, 1.0, 1.0, np.pi / 4, 1.0, 1.0) > 0.0


def test_only_a_car_has_an_obstacle(file: Path) -> None:
    file.write_text(file.read_text().replace("buggy_single_track.toml", "spring.toml"))
    file.with_name("spring.toml").write_text('machine = "mass_spring"\n')
    with pytest.raises(ConfigError, match=r"car = 'spring.toml': must be the file of a car"):
        load_machine(file)
