"""A car on tyres of MF 6: the same car as on MF 5.2 where both formulas are one, and what pressure does to it."""

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from sim_service.contract.machine import Reshape
from sim_service.registry import load_machine
from sim_service.reshape import Shaping, change_shape, changeable
from sync.errors import ConfigError
from tests.tandem.machines.car.buggy.conftest import VEHICLE, Car
from tests.tandem.machines.car.tyres.samples import SHIPPED

# camber acts otherwise in MF 6; and the radius of rolling goes with the load there, which damping has a part in
_LEFT_OUT = r"PDX3|PDY3|PKY3|PHY3|PVY3|PVY4|QSX2|QDZ8|SSZ3|BREFF|DREFF|FREFF"
_PRESSED = {"PFZ1": 0.7, "PPX1": -0.4, "PPX2": 0.0, "PPX3": 0.1, "PPY1": 0.4, "PPY2": 0.8, "PPY3": -0.1, "PPZ1": -0.3}


def cars_file(folder: Path, version: int, more: str = "", **coefficients: float) -> Path:
    """The shipped car on the shipped tyre without camber, in the format of a version."""
    text = re.sub(rf"(?m)^({_LEFT_OUT})\b.*\n", "", SHIPPED.read_text())
    if version > 52:
        text = text.replace("PROPERTY_FILE_FORMAT = 'PAC2002'", f"PROPERTY_FILE_FORMAT = 'MF-TYRE'\nFITTYP = {version}")
        text += "[OPERATING_CONDITIONS]\nINFLPRES = 200000\nNOMPRES = 200000\n"
        text += "[INFLATION_PRESSURE_RANGE]\nPRESMIN = 150000\nPRESMAX = 300000\n"
        for key, value in {"QSY7": 1.0, **coefficients}.items():
            section = {"PF": "VERTICAL", "PP": "LONGITUDINAL", "QS": "ROLLING"}[key[:2]]
            section = {"PPY": "LATERAL", "PPZ": "ALIGNING"}.get(key[:3], section)
            head = "[VERTICAL]" if section == "VERTICAL" else f"[{section}_COEFFICIENTS]"
            text = text.replace(head, f"{head}\n{key} = {value}")
    (folder / f"tyre_{version}.tir").write_text(text)
    car = VEHICLE.read_text().replace("../tyres/155_80_r13.tir", f"tyre_{version}.tir")
    file = folder / f"car_{version}.toml"
    file.write_text(more + car)
    return file


def swerve(file: Path, changed: dict[str, float] | None = None) -> tuple[Car, np.ndarray]:
    car = Car(changed, vehicle=file)
    kept = ("vx", "vy", "yaw_rate", "ay", "roll", "load_fl", "slip_angle_rr", "aligning_fr", "rolling_rl", "slip_rl")
    parts = [
        car.drive(4.0, kept, throttle=1.0),
        car.drive(0.5, kept, steering_angle=1.2),
        car.drive(0.5, kept, steering_angle=-1.0, throttle=0.0),
        car.drive(0.7, kept, steering_angle=0.3, brake_pressure_bar=20.0),
    ]
    return car, np.concatenate(parts)


@pytest.mark.parametrize("version", [61, 62])
def test_where_both_formulas_are_one_the_cars_are(tmp_path: Path, version: int) -> None:
    _, five = swerve(cars_file(tmp_path, 52))
    _, six = swerve(cars_file(tmp_path, version))
    assert np.abs(five[:, 3]).max() > 4.0  # m/s2: it was turned, and braked
    assert np.abs(six - five).max(axis=0) == pytest.approx(0.0, abs=1e-5)
    assert np.abs(six - five).max() > 0.0  # by another way


def test_a_softer_tyre_sinks_further(tmp_path: Path) -> None:
    file = cars_file(tmp_path, 61, **_PRESSED)
    cars = {
        p: Car({f"{axle}_tyre_pressure": p for axle in ("front", "rear")}, vehicle=file) for p in (0.0, 1.5e5, 2.5e5)
    }
    for car in cars.values():
        car.drive(1.0)
    loads = cars[0.0].each("load")
    # the centre of gravity sinks by what each axle does, weighted as the loads are
    carried = np.sum(loads**2) / np.sum(loads)
    sinks = {p: 0.2891 - car["z"] for p, car in cars.items()}
    for pressure in (150e3, 250e3):
        dpi = pressure / 200e3 - 1.0
        by_formula = carried / 165e3 * (1.0 / (1.0 + 0.7 * dpi) - 1.0)
        assert sinks[pressure] - sinks[0.0] == pytest.approx(by_formula, rel=0.01)


@pytest.mark.drill
def test_pressure_changes_while_it_drives(tmp_path: Path) -> None:
    file = cars_file(tmp_path, 61, **_PRESSED)
    car, built = Car(vehicle=file), Car({"rear_tyre_pressure": 2.5e5}, vehicle=file)
    _, floats, _ = changeable(car.model)
    reshape = car.model.of(Reshape)
    assert reshape is not None
    machine = SimpleNamespace(
        state=car.state, first_state=car.state.copy(), floats=floats, params=car.params, tables=car.model.tables,
        work=car.work,
    )  # fmt: skip
    change_shape.py_func(Shaping(car.model, reshape).row(built.params), reshape.fit, machine)
    assert (floats == built.model.tables.floats).all()


def test_a_pressure_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"front_tyre_pressure = 200000: its tyre is of MF 5.2, which knows no pressure"
    ):
        Car({"front_tyre_pressure": 2e5})
    with pytest.raises(
        ConfigError, match=r"rear_tyre_pressure = 400000: must be within 150000 and 300000 Pa, those of its tyre's file"
    ):
        Car({"rear_tyre_pressure": 4e5}, vehicle=cars_file(tmp_path, 61))
    relative = cars_file(tmp_path, 62, 'formulation = "relative"\n')
    with pytest.raises(ConfigError, match=r"tyre_front: MF 6 is not served in relative .*formulation = \"natural\""):
        load_machine(relative)
