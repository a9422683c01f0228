"""Wheels: a locked one stands, and what the driveline gives arrives somewhere."""

import pytest

from sim_service.contract.machine import index
from tandem.machines.car.vehicle import VEHICLE_INPUTS
from tandem.multibody.natural.tables import P as Part
from verify.physics.kerbs import Coasting
from verify.physics.tyres import FLAT, PRESSURES, WHEELS, energy, locked, parking


@pytest.mark.parametrize("bar", PRESSURES)
def test_a_locked_wheel_stands(bar: float) -> None:
    """Against its carrier, which nods as the car brakes: by the rates of the axle and of a vector of the knuckle."""
    worst, all_locked = locked(bar)
    assert all_locked and worst < 1e-3


def test_a_locked_wheel_turns_no_more_than_the_car_nods() -> None:
    car = Coasting(FLAT, 15.0, changed={"gear_mode": 0.0})
    qd = car.state[car.system.span(Part.QD)]
    qd[[car.system.column(f"{w}.spin") for w in WHEELS]] = 15.0 / 0.285
    car.inputs[index(VEHICLE_INPUTS, "brake_pressure_bar")] = 300.0
    for n in range(200):
        car.step(5e-3)
        if n > 4:
            assert abs(car["wheel_speed_fl"]) < 1.3 * abs(car["pitch_rate"]) + 0.05


def test_power_of_the_driveline_arrives_in_full() -> None:
    """A tyre that resists no rolling (QSY1 to QSY4 are 0): input = kinetic and potential energy + slip, to 0.1 %."""
    put_in, arrived = energy()
    assert put_in > 20e3
    assert arrived == pytest.approx(put_in, rel=1e-3)


def test_turned_on_the_spot_tyres_resist_as_literature_has_it() -> None:
    """mu Fz^1.5 / (3 sqrt(p)); the hand wheel feels what virtual work makes of it. Without turn slip it is light."""
    off, on = parking(0.0), parking(1.0)
    assert on["moment"] == pytest.approx(on["formula"], rel=0.1)
    assert on["torque"] - off["torque"] == pytest.approx((on["moment"] - off["moment"]) * on["ratio"], rel=0.1)
    assert abs(off["moment"]) < 0.05 * on["moment"]
