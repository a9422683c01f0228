"""What the tyres of the buggy promise, in figures.

Published: the formula against its second implementation, all coefficient sets over 4725 states, without and with turn
slip. Energy: work of the driveline beside energy gained and slipped away. Locked: wheels that brakes hold stand still.
Parking: the moment of turning at standstill beside its formula.
"""

from collections.abc import Iterator
from math import sqrt

import numpy as np

from sim_service.contract.machine import index
from tandem.machines.car.buggy import brake_parameters, slots
from tandem.machines.car.vehicle import VEHICLE_INPUTS
from tandem.multibody.natural.tables import P as Part
from tests.tandem.machines.car.tyres import comparison_6
from tests.tandem.machines.car.tyres.comparison import SETS, TURNING, over_the_grid
from verify.measure import Row, at_most, figure, holds
from verify.physics.kerbs import VEHICLE, Coasting

FLAT = VEHICLE.parents[1] / "roads" / "flat.toml"
WHEELS = ("fl", "fr", "rl", "rr")
PRESSURES = (70.0, 100.0, 150.0, 200.0, 300.0)  # bar
STATES = 100_000
MOST_DIFFERENCE, MOST_IMBALANCE, MOST_TURNING = 1e-9, 1e-3, 1e-3
INFLATION, FRICTION = 1.8e5, 0.95  # Pa, of the shipped tyre's estimate; 1
MOST_APART = 0.15  # of the parking moment from the formula


def _input(car: Coasting, name: str, value: float) -> None:
    car.inputs[index(VEHICLE_INPUTS, name)] = value


def rolling(speed: float, **more: object) -> Coasting:
    """A car that rolls at a speed, driveline open."""
    changed = {"gear_mode": 0.0, **(more.pop("changed", None) or {})}  # type: ignore[dict-item]
    car = Coasting(FLAT, speed, changed=changed, **more)  # type: ignore[arg-type]
    qd = car.state[car.system.span(Part.QD)]
    qd[[car.system.column(f"{w}.spin") for w in WHEELS]] = speed / 0.285
    return car


def energy(h: float = 1e-3) -> tuple[float, float]:
    """Work of the driveline, and energy gained with what slip took, J."""
    none = dict.fromkeys(("QSY1", "QSY2", "QSY3", "QSY4"), 0.0)
    car = rolling(5.0, changed={"drag_area": 0.0, "brake_drag": 0.0}, tyre=none)
    _input(car, "drive_torque", 700.0)

    def powers() -> np.ndarray:
        lost = 0.0
        for w in WHEELS:
            slip = car[f"wheel_speed_{w}"] * car[f"rolling_radius_{w}"] - car[f"speed_{w}"]
            lost += car[f"force_x_{w}"] * slip
        return np.array([car["axle_torque"] * car["wheel_speed_rear"], lost])

    for _ in range(2000):  # until it squats no more
        car.step(h)
    before, last, work = car.energy(), powers(), np.zeros(2)
    for _ in range(2000):
        car.step(h)
        now = powers()
        work, last = work + 0.5 * h * (last + now), now
    return float(work[0]), car.energy() - before + float(work[1])


def locked(bar: float) -> tuple[float, bool]:
    """Most speed of a wheel against its carrier after it locked, or backwards before, rad/s; whether all locked."""
    car = rolling(15.0)
    qd, spins = car.state[car.system.span(Part.QD)], [car.system.column(f"{w}.spin") for w in WHEELS]
    for _ in range(20):
        car.step(5e-3)
    _input(car, "brake_pressure_bar", bar)
    elements = car.state[car.system.span(Part.ELEMENT)]
    rates = slots.BRAKES + int(brake_parameters.S.wheel_speed) + len(brake_parameters.STATES) * np.arange(4)
    stands, worst = np.zeros(4, bool), 0.0
    for _ in range(250):
        car.step(5e-3)
        carrier = [car[f"wheel_speed_{w}"] for w in WHEELS] - elements[rates]
        speed = qd[spins] - carrier
        stands |= np.abs(speed) < MOST_TURNING
        worst = max(worst, float(np.abs(speed[stands]).max(initial=0.0)), float(-speed.min()))
    return worst, bool(stands.all())


def parking(turn_slip: float) -> dict[str, float]:
    """The hand wheel at 1 rad/s to 3 rad at standstill: moments, torques, loads at the end."""
    car = rolling(0.0, changed={"turn_slip": turn_slip})
    h, rate = 5e-3, 1.0
    _input(car, "steering_speed", rate)
    angle, torques = 0.0, []
    for _ in range(round(3.0 / h)):
        angle += rate * h
        _input(car, "steering_angle", angle)
        before = car["road_wheel_angle"]
        car.step(h)
        torques.append(car["steering_torque"])
    ratio = (car["road_wheel_angle"] - before) / (rate * h)  # of the road wheels per hand wheel
    loads = [car[f"load_{w}"] for w in WHEELS[:2]]
    moments = [-car[f"aligning_{w}"] for w in WHEELS[:2]]
    return {
        "moment": sum(moments),
        "torque": torques[-1],
        "ratio": ratio,
        "formula": sum(FRICTION * load**1.5 / (3.0 * sqrt(INFLATION)) for load in loads),
        "load": sum(loads),
        "greatest": max(torques),
    }


def six() -> Iterator[Row]:
    for version in (61, 62):
        for every in (False, True):
            tir = comparison_6.tyre(version, every)
            plain, turning = (comparison_6.worst(tir, STATES, also) for also in (False, True))
            load, height, rolling = comparison_6.worst_height(tir, STATES)
            what = f"published: {tir.version}, {'every coefficient' if every else 'as published'}, {STATES} states"
            worst = max(plain, turning, load, height, rolling)
            yield at_most(f"{what}: off by", worst, MOST_DIFFERENCE, "of the load")


def tyres() -> Iterator[Row]:
    yield from six()
    for name in SETS:
        most, outside = over_the_grid(name)
        turning = over_the_grid(name, turning=True)[0] if name in TURNING else 0.0
        yield at_most(f"published: {name}: off by", max(most, turning), MOST_DIFFERENCE, "of the load")
        yield figure(f"published: {name}: of 4725 states outside the ellipse", outside)
    put_in, arrived = energy()
    yield at_most(f"energy of {put_in:.1f} J put in that is off", abs(arrived / put_in - 1.0), MOST_IMBALANCE)
    for bar in PRESSURES:
        speed, all_locked = locked(bar)
        yield at_most(f"locked at {bar:.0f} bar: a wheel turns at", speed, MOST_TURNING, "rad/s")
        yield holds(f"locked at {bar:.0f} bar: all four", all_locked)
    off, on = parking(0.0), parking(1.0)
    title = f"parking: moment {on['moment']:.1f} N m, mu Fz^1.5 / (3 sqrt(p)) {on['formula']:.1f} N m, apart"
    yield at_most(title, abs(on["moment"] / on["formula"] - 1.0), MOST_APART)
    yield figure("parking: moment of both tyres without turn slip", off["moment"], "N m")
    yield figure("parking: hand wheel, without turn slip", off["torque"], "N m")
    yield figure("parking: hand wheel, with it", on["torque"], "N m")
    yield figure("parking: more, by virtual work", on["moment"] * on["ratio"], "N m")
