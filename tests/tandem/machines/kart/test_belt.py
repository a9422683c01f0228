"""The kart on its belt: the load cell beside the four tyres, and the tyres beside the formula they are made of."""

import re
from math import tan

import numpy as np
import pytest

from sim_service.contract.machine import index
from sim_service.registry import load_machine
from sync.errors import ConfigError
from tandem.machines.car.tyres.keys import T
from tandem.machines.car.tyres.steady import steady
from tandem.machines.car.tyres.tir import AsPublished
from tests.sim_service.conftest import CONFIGS

KART = CONFIGS / "vehicles" / "kart.toml"
WHEELS = ("fl", "fr", "rl", "rr")
H = 1e-3


class Bench:
    def __init__(self, **changed: float) -> None:
        self.machine, self.params = load_machine(KART, changed)
        self.state, self.work = np.zeros(len(self.machine.states)), np.zeros(self.machine.work_size)
        self.machine.initial(self.state, self.params, self.machine.tables, self.work)

    def run(self, steering: float, belt: float, seconds: float = 2.0) -> "Bench":
        inputs = np.array([steering, belt])
        for _ in range(round(seconds / H)):
            self.machine.step(self.state, inputs, self.params, self.machine.tables, self.work, H)
        return self

    def __getitem__(self, name: str) -> float:
        return float(self.work[index(self.machine.outputs, name)])

    def set(self, name: str, value: float) -> None:
        self.params[[p.name for p in self.machine.parameters].index(name)] = value


@pytest.mark.parametrize("one_wheel", [0.0, 1.0, 4.0])
def test_the_four_lateral_forces_add_up_to_the_load_cell(one_wheel: float) -> None:
    bench = Bench(front_toe=0.01, rear_toe=-0.005, front_camber=0.03, yaw=0.02, one_wheel=one_wheel).run(0.15, 8.0)
    forces = [bench[f"lateral_{w}"] for w in WHEELS]
    assert bench["cell_y"] == pytest.approx(sum(forces), rel=1e-7)
    assert bench["cell_x"] == pytest.approx(bench["longitudinal_sum"], rel=1e-7)
    assert abs(bench["cell_y"]) > 50.0
    lifted = [f for k, f in enumerate(forces) if one_wheel not in (0.0, k + 1.0)]
    assert lifted == [0.0] * len(lifted)


def test_while_it_moves_the_cell_reads_what_the_tyres_do_less_what_accelerates() -> None:
    bench = Bench().run(0.0, 8.0, 0.5)
    inputs, mass = np.array([0.3, 8.0]), 160.0
    for _ in range(50):
        before = bench.state[3]
        bench.machine.step(bench.state, inputs, bench.params, bench.machine.tables, bench.work, 5e-4)
        held = bench["lateral_sum"] - mass * (bench.state[3] - before) / 5e-4
        assert bench["cell_y"] == pytest.approx(held, abs=1e-6)


def test_toe_and_camber_change_while_it_runs_and_a_straight_kart_is_not_pushed_aside() -> None:
    bench = Bench().run(0.0, 10.0)
    free = bench["cell_x"]
    assert abs(bench["cell_y"]) < 1e-9
    bench.set("front_toe", 0.03)
    bench.run(0.0, 10.0)
    assert bench["lateral_fl"] == pytest.approx(-bench["lateral_fr"]) and bench["lateral_fl"] < -50.0
    assert bench["cell_x"] < free - 1.0  # toe drags
    bench.set("front_toe", 0.0)
    bench.set("front_camber", 0.1)
    bench.run(0.0, 10.0)
    assert (
        bench["lateral_fl"] == pytest.approx(-bench["lateral_fr"]) and bench["lateral_fl"] > 5.0
    )  # where its top leans


def test_one_wheel_alone_has_the_force_of_the_formula() -> None:
    bench = Bench(one_wheel=3.0, yaw=0.05).run(0.0, 9.0)
    floats = bench.machine.tables.floats
    p = floats[len(T) :]  # of a rear tyre: the front one's come first
    load = bench["load_rl"]
    u = 9.0
    # a wheel that rolls freely has the little slip that its rolling resistance asks for
    found = steady(p, load, 0.0, -tan(0.05), 0.0, 1.0, 1.0, u)
    assert bench["force_y_rl"] == pytest.approx(found[1], rel=2e-3)
    assert bench["slip_angle_rl"] == pytest.approx(-0.05, rel=1e-6)


def test_more_load_and_more_angle_give_more_force_and_a_standing_belt_none() -> None:
    assert abs(Bench().run(0.3, 0.0)["cell_y"]) < 1e-6
    light, heavy = (Bench(wheel_load_fl=load, one_wheel=1.0).run(0.05, 8.0)["cell_y"] for load in (200.0, 400.0))
    assert 0.0 < light < heavy


def test_a_road_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"sim\.files\.road = .*: a kart on its belt reads no further files"):
        load_machine(KART, {}, {"road": CONFIGS / "roads" / "demo_track.toml"})


def test_tyres_of_a_kart_may_be_read_tolerantly(tmp_path) -> None:
    tyre = (CONFIGS / "tyres" / "155_80_r13.tir").read_text()
    (tmp_path / "own.tir").write_text(tyre.replace("[VERTICAL]", "[VERTICAL]\nDYNAMIC_STIFFNESS = 2e5"))
    text = re.sub(r'"[^"]*\.tir"', '"own.tir"', KART.read_text())
    (tmp_path / "strict.toml").write_text(text)
    with pytest.raises(ConfigError, match="DYNAMIC_STIFFNESS: unknown key"):
        load_machine(tmp_path / "strict.toml", {})
    (tmp_path / "tolerant.toml").write_text(text.replace("[parameters]", 'tyre_reading = "tolerant"\n[parameters]'))
    with pytest.warns(AsPublished, match="DYNAMIC_STIFFNESS = 2e5"):
        load_machine(tmp_path / "tolerant.toml", {})
