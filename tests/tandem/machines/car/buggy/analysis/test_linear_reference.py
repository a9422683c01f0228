"""Linear theory of the buggy: hand formulas, special cases, and second methods for the same numbers."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from tandem.machines.car.buggy.analysis import linear, steady, straight
from tandem.machines.car.buggy.analysis.car import GRAVITY, Axle, Car, Tyre, build, standing
from tandem.machines.car.buggy.analysis.handling import (
    OUTPUTS,
    System,
    exponential,
    rolling_track,
    single_track,
    step_answer,
    step_response,
)
from tandem.machines.car.buggy.analysis.ride import Ride, ride, ride_modes
from tests.tandem.machines.car.buggy.analysis.figures import BUGGY
from verify.multibody.references.extrapolation import integrate


def falling(load: float) -> float:
    """Cornering stiffness per load that falls as a real tyre's does, N/rad."""
    return 13.0 * load * (1.0 - 0.2 * (load / 1940.0 - 1.0))


SOFT = Tyre(
    cornering=falling,
    camber=lambda load: 0.9 * load,
    aligning=lambda load: 0.35 * load,
    stiffness=165e3,
    damping=500.0,
    relaxation=0.35,
)
SIMPLE = Tyre(cornering=lambda load: 13.0 * load)
CAR = build(BUGGY, SOFT, SOFT)


def rigid_axles(car: Car, front_tyre: Tyre, rear_tyre: Tyre) -> Car:
    """Upright wheels on rigid tyres, no roll steer: the car of the textbook formulas."""

    def axle(a: Axle, tyre: Tyre) -> Axle:
        return replace(a, tyre=tyre, toe_in_gain=0.0, camber_gain=-2.0 / a.track)

    return replace(car, front=axle(car.front, front_tyre), rear=axle(car.rear, rear_tyre))


PLAIN = rigid_axles(CAR, Tyre(cornering=lambda load: 11.0 * load), Tyre(cornering=lambda load: 14.0 * load))


def test_masses_add_up_and_loads_carry_them() -> None:
    assert CAR.mass == pytest.approx(790.0)
    assert CAR.cg_x == pytest.approx(-1.28791, abs=1e-5)
    assert sum(CAR.loads) == pytest.approx(790.0 * GRAVITY)
    assert CAR.loads[0] * -CAR.cg_x == pytest.approx(CAR.loads[1] * (2.25 + CAR.cg_x))
    for stand, load in zip(standing(BUGGY), CAR.loads, strict=True):
        assert 2.0 * stand.load == pytest.approx(load)


def test_the_needed_free_length_makes_the_car_stand_as_drawn() -> None:
    springs = BUGGY["spring_damper"]
    front, rear = standing(BUGGY)
    right = {
        "front": {**springs["front"], "free_length": front.free_length_needed},
        "rear": {**springs["rear"], "free_length": rear.free_length_needed},
    }
    for stand in standing({**BUGGY, "spring_damper": right}):
        assert stand.travel == pytest.approx(0.0, abs=1e-12)
        assert stand.spring_force == pytest.approx(stand.spring_force_needed)
    # the proposal's springs were made for the sprung mass alone: the car stands a little lower
    assert 0.001 < front.travel < 0.002 and 0.001 < rear.travel < 0.002


def test_load_transfer_and_roll_are_those_of_the_textbook_for_rigid_axles() -> None:
    car, a_y = PLAIN, 3.0
    d, m_s = car.roll_arm, car.sprung_mass
    stiffness = [a.roll_stiffness for a in car.axles]
    roll = m_s * d * a_y / (sum(stiffness) - m_s * GRAVITY * d)
    found = steady.lean(car, a_y)
    assert found.roll == pytest.approx(roll, rel=1e-12)
    for share, axle, k, transfer in zip(car.sprung_shares, car.axles, stiffness, found.transfer, strict=True):
        low = share * m_s * axle.roll_centre + axle.mass * axle.radius
        assert transfer * axle.track == pytest.approx(k * roll + low * a_y, rel=1e-12)
    total = sum(t * a.track for t, a in zip(found.transfer, car.axles, strict=True))
    assert total == pytest.approx(car.mass * a_y * car.cg_height + m_s * GRAVITY * d * roll, rel=1e-12)


@pytest.mark.parametrize("car", [CAR, PLAIN], ids=["soft", "rigid"])
def test_the_load_moved_balances_the_overturning_moment(car: Car) -> None:
    found = steady.lean(car, 4.0)
    moment = car.mass * 4.0 * car.cg_height + car.sprung_mass * GRAVITY * car.roll_arm * found.roll
    for i, axle in enumerate(car.axles):
        tilt, over = found.axle_roll[i], found.suspension_roll[i]
        moment += car.sprung_mass * car.sprung_shares[i] * GRAVITY * axle.roll_centre * tilt
        moment += axle.mass * GRAVITY * axle.radius * (found.roll + axle.roll_camber * over)
    if car is PLAIN:
        assert found.axle_roll == (0.0, 0.0)
    assert sum(t * a.track for t, a in zip(found.transfer, car.axles, strict=True)) == pytest.approx(moment, rel=1e-12)


def test_stiff_tyres_approach_rigid_ones() -> None:
    stiff = replace(SOFT, stiffness=1e12)
    rigid = replace(SOFT, stiffness=math.inf)
    found, limit = (steady.lean(build(BUGGY, tyre, tyre), 4.0) for tyre in (stiff, rigid))
    assert found.roll == pytest.approx(limit.roll, rel=1e-6)
    assert found.transfer == pytest.approx(limit.transfer, rel=1e-6)
    assert steady.lean(CAR, 4.0).roll > limit.roll


def test_understeer_of_the_plain_car_is_loads_over_stiffnesses() -> None:
    K = steady.understeer(PLAIN)
    front, rear = PLAIN.loads
    C_f, C_r = 11.0 * front, 14.0 * rear
    assert K.total == pytest.approx((front / C_f - rear / C_r) / GRAVITY, rel=1e-12)
    assert K.tyre == pytest.approx(K.total)
    assert K.cornering == pytest.approx((C_f, C_r))
    # the same from the critical point of the single-track equations
    V = 22.0
    gain = single_track(PLAIN, V).steady()["yaw_rate"]
    assert gain == pytest.approx(V / (2.25 + K.total * V**2), rel=1e-12)
    assert gain == pytest.approx(steady.yaw_gain(2.25, K.total, V), rel=1e-12)


def test_parts_of_the_understeer_add_up_and_have_their_signs() -> None:
    K = steady.understeer(CAR, 4.0)
    assert K.total == pytest.approx(K.tyre + K.load_transfer + K.roll_steer + K.roll_camber + K.aligning, rel=1e-12)
    assert K.aligning > 0.0  # aligning moments turn the car out of the bend
    steered = replace(CAR, front=replace(CAR.front, toe_in_gain=0.3))
    assert steady.understeer(steered).roll_steer < steady.understeer(CAR).roll_steer  # toe-in in bump in front
    steered = replace(CAR, rear=replace(CAR.rear, toe_in_gain=0.3))
    assert steady.understeer(steered).roll_steer > steady.understeer(CAR).roll_steer
    barred = replace(CAR, front=replace(CAR.front, anti_roll=8e3))
    assert steady.understeer(barred, 4.0).load_transfer > K.load_transfer
    # lateral load transfer enters with its square
    small, twice = (steady.understeer(CAR, a).load_transfer for a in (0.01, 0.02))
    assert twice / small == pytest.approx(4.0, rel=1e-3)
    assert steady.understeer(CAR).load_transfer == pytest.approx(0.0, abs=1e-18)


def test_a_lifted_wheel_ends_linear_theory() -> None:
    with pytest.raises(ValueError, match="a wheel lifts"):
        steady.understeer(CAR, 15.0)


def natural_frequency(car: Car, speed: float) -> tuple[float, float]:
    """Undamped yaw frequency, rad/s, and damping of the single-track car in closed form (no aligning moments)."""
    cf, cr = (axle.tyre.cornering(load) for axle, load in zip((car.front, car.rear), car.loads, strict=True))
    a, b = car.front.x - car.cg_x, car.cg_x - car.rear.x
    m, Iz, V, L = car.mass, car.yaw_inertia, speed, car.wheelbase
    square = cf * cr * L**2 / (m * Iz * V**2) + (b * cr - a * cf) / Iz
    decay = (m * (a**2 * cf + b**2 * cr) + Iz * (cf + cr)) / (2.0 * m * Iz * V)
    return math.sqrt(square), decay / math.sqrt(square)


def test_characteristic_and_critical_speed() -> None:
    assert steady.characteristic_speed(2.25, 0.003) == pytest.approx(math.sqrt(2.25 / 0.003))
    assert math.isinf(steady.critical_speed(2.25, 0.003))
    loose = rigid_axles(CAR, Tyre(cornering=lambda load: 14.0 * load), Tyre(cornering=lambda load: 12.0 * load))
    V = steady.critical_speed(2.25, steady.understeer(loose).total)
    assert max(m.real for m in single_track(loose, 0.99 * V).modes()) < 0.0
    assert max(m.real for m in single_track(loose, 1.01 * V).modes()) > 0.0


@pytest.mark.parametrize("tyre", [SOFT, replace(SOFT, stiffness=math.inf), replace(SOFT, relaxation=0.0)])
def test_the_rolling_car_settles_where_steady_cornering_is(tyre: Tyre) -> None:
    car, V = build(BUGGY, tyre, tyre), 20.0
    K, gradient = steady.understeer(car), steady.lean(car, 1.0).roll
    gain = rolling_track(car, V).steady()
    assert gain["yaw_rate"] == pytest.approx(steady.yaw_gain(car.wheelbase, K.total, V), rel=1e-10)
    assert gain["lateral_acceleration"] == pytest.approx(V * gain["yaw_rate"], rel=1e-10)
    assert gain["roll"] == pytest.approx(gradient * gain["lateral_acceleration"], rel=1e-10)
    b = car.cg_x - car.rear.x
    assert gain["sideslip"] == pytest.approx(
        b * gain["yaw_rate"] / V - K.sideslip_gradient * gain["lateral_acceleration"], rel=1e-10
    )


def test_yaw_frequency_in_closed_form_is_that_of_the_eigenvalues() -> None:
    for V in (15.0, 30.0, 45.0):
        omega, damping = natural_frequency(PLAIN, V)
        values = np.linalg.eigvals(single_track(PLAIN, V).A)
        assert np.prod(values).real == pytest.approx(omega**2, rel=1e-12)
        assert -0.5 * np.sum(values).real == pytest.approx(damping * omega, rel=1e-12)
    mode = single_track(PLAIN, 45.0).modes()[0]
    assert (2 * math.pi * mode.frequency_hz, mode.damping) == pytest.approx(natural_frequency(PLAIN, 45.0), rel=1e-10)


def test_with_stiff_springs_the_rolling_car_is_the_single_track_car() -> None:
    def stiff(a: Axle) -> Axle:
        return replace(a, anti_roll=1e10, tyre=replace(a.tyre, relaxation=0.0, stiffness=math.inf), roll_centre=0.0)

    car = replace(CAR, front=stiff(CAR.front), rear=stiff(CAR.rear), Ixz=0.0)
    slow = sorted(np.linalg.eigvals(rolling_track(car, 25.0).A), key=abs)[:2]
    assert sorted(slow, key=lambda e: e.imag) == pytest.approx(
        sorted(np.linalg.eigvals(single_track(car, 25.0).A), key=lambda e: e.imag), rel=1e-4
    )


@pytest.mark.parametrize("system", [single_track(PLAIN, 40.0), rolling_track(CAR, 25.0)], ids=["plain", "rolling"])
def test_step_response_is_the_sum_of_its_modes_and_solves_its_equation(system: System) -> None:
    times = np.array([0.0, 0.05, 0.2, 0.7, 2.0])
    found = np.array([step_response(system, t) for t in times])
    values, vectors = np.linalg.eig(system.A)
    rest = -np.linalg.solve(system.A, system.B)
    part = np.linalg.solve(vectors, -rest.astype(complex))
    for t, row in zip(times, found, strict=True):
        state = rest + (vectors @ (np.exp(values * t) * part)).real
        assert row == pytest.approx(system.C @ state + system.D, rel=1e-8, abs=1e-9)
    walked = integrate(lambda _, x: system.A @ x + system.B, np.zeros(len(system.A)), times, 1e-12)
    assert found == pytest.approx(walked @ system.C.T + system.D, rel=1e-8, abs=1e-8)


def test_exponential_of_a_turn_is_a_turn() -> None:
    assert exponential(np.array([[0.0, -7.0], [7.0, 0.0]])) == pytest.approx(
        np.array([[math.cos(7.0), -math.sin(7.0)], [math.sin(7.0), math.cos(7.0)]]), abs=1e-13
    )
    assert exponential(np.zeros((3, 3))) == pytest.approx(np.eye(3))


def test_peak_and_rise_of_the_yaw_rate_are_those_of_a_second_order_system() -> None:
    V = 45.0
    system = single_track(PLAIN, V)
    omega, zeta = natural_frequency(PLAIN, V)
    # r/δ = steady (1 + T s)/(1 + 2ζs/ω + s²/ω²) with T = m a V / (C_r L)
    a = -PLAIN.cg_x
    T = PLAIN.mass * a * V / (14.0 * PLAIN.loads[1] * 2.25)
    wd = omega * math.sqrt(1 - zeta**2)
    k = (T * omega**2 - zeta * omega) / wd
    answer = step_answer(system)

    def value(t: float) -> float:
        return 1.0 + math.exp(-zeta * omega * t) * (k * math.sin(wd * t) - math.cos(wd * t))

    assert value(answer.rise_time) == pytest.approx(0.9, abs=1e-10)
    assert value(answer.peak_time) == pytest.approx(max(value(t) for t in np.linspace(0, 3, 30001)), rel=1e-8)
    assert answer.overshoot == pytest.approx(value(answer.peak_time) - 1.0, abs=1e-10)
    assert answer.overshoot > 0.0


def quarter_car(
    sprung: float, unsprung: float, stiffness: float, damping: float, tyre_stiffness: float, tyre_damping: float = 0.0
) -> np.ndarray:
    """Eigenvalues of one wheel and the body over it, from its characteristic polynomial."""
    m, u, k, c, t, b = sprung, unsprung, stiffness, damping, tyre_stiffness, tyre_damping
    # (m s² + c s + k)(u s² + (c + b) s + k + t) − (c s + k)²
    product = np.polymul([m, c, k], [u, c + b, k + t])
    return np.roots(np.polysub(product, np.polymul([c, k], [c, k])))


def test_a_car_split_into_quarters_hops_like_them() -> None:
    # inertias and lever arms such that the four corners do not feel each other
    tyre = Tyre(cornering=falling, stiffness=165e3, damping=400.0)
    axle = Axle(0.0, 1.4, 0.28, ((25.0, 1.0),), 18e3, 1.2e3, 0.0, 0.0, 0.0, tyre)
    car = Car(640.0, -1.2, 0.5, 640.0 * 0.7**2, 640.0 * 1.2**2, 700.0, 0.0, axle, replace(axle, x=-2.4))
    values = np.linalg.eigvals(_first_order(ride(car, held=False)))
    quarter = quarter_car(160.0, 25.0, 18e3, 1.2e3, 165e3, 400.0)
    for value in quarter:
        assert np.sum(np.abs(values - value) < 1e-6 * abs(value)) == 3
    # a rigid body cannot warp: in the fourth combination the wheels hop against a body that stands still
    for value in np.roots([25.0, 1.2e3 + 400.0, 18e3 + 165e3]):
        assert np.sum(np.abs(values - value) < 1e-6 * abs(value)) == 1


def _first_order(system: Ride) -> np.ndarray:
    n = len(system.M)
    out = np.zeros((2 * n, 2 * n))
    out[:n, n:] = np.eye(n)
    out[n:, :n] = -np.linalg.solve(system.M, system.K)
    out[n:, n:] = -np.linalg.solve(system.M, system.C)
    return out


@pytest.mark.parametrize("held", [True, False])
def test_ride_modes_are_the_eigenvalues_of_the_whole(held: bool) -> None:
    modes = {m.name: m for m in ride_modes(CAR, held)}
    assert list(modes) == ["heave", "pitch", "roll", "front_hop", "rear_hop", "front_tramp", "rear_tramp"]
    system = ride(CAR, held)
    for matrix in (system.M, system.C, system.K):
        assert matrix == pytest.approx(matrix.T)
    values = np.linalg.eigvals(_first_order(system))
    sizes = sorted(abs(v) for v in values if v.imag > 0)
    assert sorted(2 * math.pi * m.frequency_hz for m in modes.values()) == pytest.approx(sizes, rel=1e-9)
    for name, mode in modes.items():
        low, high = (1.0, 2.5) if name in ("heave", "pitch", "roll") else (12.0, 17.0)
        assert low < mode.undamped_hz < high
        assert 0.1 < mode.damping < 0.6
        shape = np.array(mode.shape)
        residual = system.K @ shape - (2 * math.pi * mode.undamped_hz) ** 2 * system.M @ shape
        assert np.abs(residual).max() < 1e-6 * np.abs(system.K).max()


def test_the_standing_car_rolls_as_the_handling_model_does_without_its_tyre_forces() -> None:
    tyre = replace(SOFT, relaxation=0.0, camber=lambda load: 0.0, aligning=lambda load: 0.0)
    car = build(BUGGY, replace(tyre, cornering=lambda load: 1e9), replace(tyre, cornering=lambda load: 1e9))
    straight_on = replace(
        car, front=replace(car.front, toe_in_gain=0.0), rear=replace(car.rear, toe_in_gain=0.0), Ixz=0.0
    )
    rolling = [m for m in rolling_track(straight_on, 1.0).modes() if m.damping < 0.9]
    standing_car = {m.name: m for m in ride_modes(straight_on, held=True)}
    # held contact points neither sway nor yaw; the handling model also turns the body when its axles tilt differently
    assert rolling[0].frequency_hz == pytest.approx(standing_car["roll"].frequency_hz, rel=1e-3)
    assert rolling[0].damping == pytest.approx(standing_car["roll"].damping, rel=1e-3)


def test_rigid_tyres_are_refused_by_the_ride_model() -> None:
    with pytest.raises(ValueError, match=r"Tyre\.stiffness"):
        ride(PLAIN)


def test_coasting_down_solves_its_equation() -> None:
    times = np.array([0.0, 3.0, 20.0, 60.0])
    heavy = straight.rolling_mass(CAR)
    assert heavy == pytest.approx(790.0 + 4 * 0.6 / 0.275**2)

    def change(_: float, v: np.ndarray) -> np.ndarray:
        return -(0.013 * 790.0 * GRAVITY + 0.57 * v**2) / heavy

    walked = integrate(change, np.array([30.0]), times)
    assert [straight.coast_down(CAR, 30.0, t) for t in times] == pytest.approx(walked[:, 0], rel=1e-12)
    assert straight.coast_down(CAR, 30.0, 1e4) == 0.0
    # limits without one of the two resistances
    for one in (replace(CAR, drag=0.0), replace(CAR, rolling=0.0)):
        near = replace(one, drag=one.drag or 1e-9, rolling=one.rolling or 1e-12)
        assert straight.coast_down(one, 30.0, 20.0) == pytest.approx(straight.coast_down(near, 30.0, 20.0), rel=1e-6)


def test_braking_distances_and_the_axle_that_locks() -> None:
    assert straight.braking_distance(100 / 3.6, 0.9 * GRAVITY) == pytest.approx(43.7, abs=0.05)
    assert straight.braking_distance(30.0, 6.0, delay=0.2) == pytest.approx(6.0 + 75.0)
    dragged = straight.braking_distance(30.0, 6.0, drag=7e-4)
    v = np.linspace(0.0, 30.0, 200001)
    assert dragged == pytest.approx(float(np.trapezoid(v / (6.0 + 7e-4 * v**2), v)), rel=1e-9)
    # at the limit an axle's brake force is friction times its load
    for share in (0.5, 0.6286, 0.8):
        found = straight.braking(CAR, 0.9, share)
        moved = straight.longitudinal_transfer(CAR, -found.deceleration)
        loads = {"front": CAR.loads[0] - moved, "rear": CAR.loads[1] + moved}
        used = {"front": share * CAR.mass * found.deceleration, "rear": (1 - share) * CAR.mass * found.deceleration}
        other = "rear" if found.locks_first == "front" else "front"
        assert used[found.locks_first] == pytest.approx(0.9 * loads[found.locks_first])
        assert used[other] < 0.9 * loads[other]


def test_a_prediction_is_plain_data() -> None:
    found = linear.predict(CAR, 22.0)
    text = json.loads(json.dumps(linear.to_json(found), allow_nan=False))
    assert text["axle_loads"] == pytest.approx(list(CAR.loads))
    assert text["lean"]["roll"] == pytest.approx(steady.lean(CAR, 4.0).roll)
    assert dict(found.coast_down)[0.0] == pytest.approx(22.0)
    assert math.degrees(found.roll_gradient * GRAVITY) == pytest.approx(7.3, abs=0.4)
    assert set(OUTPUTS) == set(rolling_track(CAR, 22.0).steady())


def test_settled_and_drawn_car_differ_by_what_springs_and_tyres_give() -> None:
    drawn, settled = build(BUGGY, SIMPLE, SIMPLE), build(BUGGY, SIMPLE, SIMPLE, settled=True)
    front, rear = standing(BUGGY)
    ends = [s.radius_from_load - s.reference_radius - s.travel for s in (front, rear)]
    assert settled.sprung_height - drawn.sprung_height == pytest.approx(0.42 * ends[0] + 0.58 * ends[1])
    assert settled.front.radius == pytest.approx(front.radius_from_load)
    assert settled.front.stiffness == pytest.approx(drawn.front.stiffness, rel=0.01)
