"""Masses, camber and hardpoints of the buggy change while it turns: into the car that is built so, without a jump."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from sim_service.contract.machine import Reshape
from sim_service.reshape import Shaping, change_shape, changeable
from sync.errors import ConfigError
from tandem.machines.car.buggy.description import P
from tests.tandem.machines.car.buggy.conftest import Car

SHAPE = {
    "sprung_mass": 760.0, "sprung_cg_z": 0.53, "sprung_izz": 720.0, "wheel_spin_inertia": 0.65, "front_camber": -0.03,
    "rear_camber": -0.02, "front_UBJ_x": -0.002, "rear_TOP_y": 0.555, "front_spring_length": 0.425,
}  # fmt: skip


def turn(car: Car, steps: int) -> None:
    car.inputs[5:] = np.nan
    for _ in range(steps):
        car.inputs[:5] = 0.25, 0.0, 0.0, 0.3, 0.0
        car.step()


def test_a_car_that_turns_takes_another_shape_as_if_it_had_been_built_so() -> None:
    car, built = Car(), Car(SHAPE)
    for each in (car, built):
        each.drive(2.0, throttle=1.0)
    turn(car, 100)
    before = car.work.copy()
    constants, floats, _ = changeable(car.model)
    reshape = car.model.of(Reshape)
    assert reshape is not None
    shaping, first = Shaping(car.model, reshape), car.state.copy()
    with pytest.raises(ConfigError, match="principal moments"):
        shaping.row(np.where(np.arange(len(car.params)) == P.sprung_izz, 1500.0, car.params))
    for name, value in SHAPE.items():
        car.params[P[name]] = value
    machine = SimpleNamespace(
        state=car.state, first_state=first, floats=floats, params=car.params, tables=constants, work=car.work
    )
    change_shape.py_func(shaping.row(car.params), reshape.fit, machine)
    assert (floats == built.model.tables.floats).all() and (first == car.state).all()
    car.model = replace(car.model, tables=constants)
    turn(car, 1)
    # the body goes on as it was: the centre of gravity is another, the speed of the car and its wheels' loads are not
    after = car.work.copy()
    names = car.names
    for name, most in (("vx", 0.02), ("yaw_rate", 2e-3), ("roll", 1e-4), ("load_fl", 60.0), ("load_rr", 60.0)):
        assert abs(after[names.index(name)] - before[names.index(name)]) < most, name
    assert car["phi_error"] < 1e-9 and car["capped"] == 0.0 and car["parts"] == 1.0
    assert car["camber_fl"] - before[names.index("camber_fl")] == pytest.approx(0.03, abs=2e-3)
    turn(car, 400)
    turn(built, 501)
    assert car["z"] == pytest.approx(built["z"], rel=1e-3)
    for name in ("roll", "steering_torque"):  # the heavier car sets off more slowly
        assert car[name] / car["ay"] == pytest.approx(built[name] / built["ay"], rel=0.05), name
