"""What a filter gets of the car: transition and sensors beside differences, corrections that keep the loops closed."""

import functools

import numpy as np
import pytest

from sim_service.contract.machine import index
from sim_service.registry import make_machine
from sync.errors import ConfigError
from tandem.estimation.contract import CONSTANT, ROUGH, TANGENT
from tandem.estimation.description import read_sensors
from tandem.estimation.experiment import record, replay
from tandem.estimation.make import Filter, Tuning
from tandem.estimation.rows import WIDTH, R
from tandem.machines.car.buggy import observed as of
from tandem.machines.car.buggy import relative_dynamics as relative
from tandem.machines.car.buggy import slots
from tandem.multibody.relative.system import P as Own
from tests.tandem.machines.car.buggy.test_relative import H, car, files, inputs

N = len(of.COORDINATES)
AT = 700  # steps: it swerves
WHICH = np.array([0, 1], np.int32)
WHICH.flags.writeable = False


@functools.cache
def observed():
    return of.observed(*car("relative"))


@functools.cache
def moving():
    machine, params = car("relative")
    state, work = np.zeros(len(machine.states)), np.zeros(machine.work_size)
    machine.initial(state, params, machine.tables, work)
    for k in range(AT):
        machine.step(state, inputs(k), params, machine.tables, work, H)
    return state


def drive_inputs(steps):
    """Full throttle, straight on; what is not measured is NaN."""
    out = np.array([inputs(0) for _ in range(steps)])
    names = [q.name for q in observed().machine.inputs]
    out[:, [names.index(name) for name in ("steering_angle", "steering_speed", "steering_acceleration")]] = 0.0
    out[:, names.index("throttle")] = 1.0
    return out


def linearise(state, h=H, grip=1.0, payload=0.0, one=None, **changed):
    one = one or observed()
    state, F, at, params = state.copy(), np.zeros(N * (N + 3)), np.zeros(one.at_size), car("relative")[1].copy()
    for name, value in {"grip": grip, **changed}.items():
        params[index(one.machine.parameters, name)] = value
    work = np.zeros(one.machine.work_size)
    status = one.linearise(
        state, inputs(AT), params, one.machine.tables, work, h, WHICH, np.array([grip, payload]), F, at
    )
    return state, F.reshape(N + 3, N).T, at, status


def corrected(state, dx):
    one, state, work = observed(), state.copy(), np.zeros(observed().machine.work_size)
    one.correct(state, car("relative")[1], one.machine.tables, work, dx)
    return state, work


def moved(j, d):
    dx = np.zeros(N)
    dx[j] = d
    return corrected(moving(), dx)[0]


def sensor(place=(0.3, 0.2, 0.4), direction=(0.3, 0.6, 0.74)):
    row = np.zeros(WIDTH)
    row[R.PLACE : R.PLACE + 3], row[R.DIRECTION : R.DIRECTION + 3] = place, direction
    row.flags.writeable = False
    return row


def measure(signal, at, row, one=None):
    slopes, one = np.zeros(N + 2), one or observed()
    value = one.measure(signal, row, 0.01, at, one.machine.tables, np.zeros(0), WHICH, slopes)
    return value, slopes


@pytest.mark.parametrize("h, near", [(5e-3, 0.08), (1e-3, 0.01), (2.5e-4, 7e-4)])
def test_the_transition_approaches_that_of_the_step(h, near):
    """Beside differences of the step, each entry over the sizes of its row and column: of second order in h."""
    _, F, _, status = linearise(moving(), h)
    assert status == TANGENT
    d, machine, G = 1e-6, observed().machine, np.zeros((N, N))
    for j in range(N):
        both = [linearise(moved(j, s * d), h)[0] for s in (1, -1)]
        G[:, j] = observed().difference(*both, machine) / (2 * d)
    sizes = np.array([q.unit.startswith("rad/s") * 1.0 or 0.02 for q in of.COORDINATES])
    sizes[:14], sizes[14:17], sizes[28:36], sizes[36] = 0.01, 0.3, 1e-3, 3.0
    assert (np.abs(F[:, :N] - G) * sizes / sizes[:, None]).max() < near
    both = [linearise(moving(), h, grip=1.0 + s * 1e-4)[0] for s in (1, -1)]
    assert (np.abs(F[:, N] - observed().difference(*both, machine) / 2e-4) / sizes).max() < 0.3 * near


@pytest.mark.parametrize("signal", range(len(of.SIGNALS) - len(of.COMPARED)))
def test_slopes_of_every_sensor_are_those_of_differences(signal):
    row, d = sensor(), 1e-6
    _, slopes = measure(signal, linearise(moving())[2], row)
    G = np.zeros(N)
    for j in range(N):
        G[j] = np.diff([measure(signal, linearise(moved(j, s * d))[2], row)[0] for s in (-1, 1)])[0] / (2 * d)
    assert np.allclose(slopes[:N], G, rtol=1e-5, atol=1e-5)
    if signal == 0:
        both = [measure(signal, linearise(moving(), grip=g)[2], row)[0] for g in (0.999, 1.001)]
        assert np.isclose(slopes[N], np.diff(both)[0] / 2e-3, rtol=1e-3)
        both = [measure(signal, linearise(moving(), payload=m)[2], row)[0] for m in (-1.0, 1.0)]
        assert np.isclose(slopes[N + 1], np.diff(both)[0] / 2.0, rtol=1e-5)


def test_an_accelerometer_in_the_centre_of_gravity_reads_what_the_car_reports():
    one, state, work = observed(), moving().copy(), np.zeros(observed().machine.work_size)
    machine, params = one.machine, car("relative")[1]
    machine.step(state, inputs(AT - 1), params, machine.tables, work, H)
    numbers = machine.tables.floats[of._spans(machine)(relative.C.NUMBERS)]
    centre = numbers[of.slots.CENTRE : of.slots.CENTRE + 3]
    at = linearise(state)[2]
    for axis, name in enumerate(("ax", "ay", "az")):
        found = measure(0, at, sensor(centre, np.eye(3)[axis]))[0]
        assert abs(found - work[index(machine.outputs, name)]) < 1e-3, name
    for axis, name in enumerate("xyz"):
        out, slopes = np.zeros(N + 2), sensor(centre, np.eye(3)[axis])
        found = one.measure(2, slopes, 0.0, at, machine.tables, np.zeros(0), WHICH, out)
        assert abs(found - work[index(machine.outputs, name)]) < 1e-12


def test_torques_and_pressures_are_those_of_the_step_and_correct_nothing():
    one, (machine, params) = observed(), car("relative")
    state, work, given = moving().copy(), np.zeros(machine.work_size), inputs(AT)
    given[index(machine.inputs, "brake_pressure_bar")] = 12.0
    F, at = np.zeros(N * (N + 3)), np.zeros(one.at_size)
    for _ in range(3):
        one.linearise(state, given, params, one.machine.tables, work, H, WHICH, np.array([1.0, 0.0]), F, at)
    names = [q.name for q in of.SIGNALS]
    for name in ("steering_torque", "axle_torque"):
        value, slopes = measure(names.index(name), at, sensor())
        assert value == work[index(machine.outputs, name)] != 0.0 and not slopes.any()
    pressures = [measure(names.index(f"brake_pressure_{w}"), at, sensor())[0] for w in ("fl", "fr", "rl", "rr")]
    assert np.allclose(pressures, 12.0)


def test_loops_are_closed_after_a_correction_and_the_error_is_what_was_asked_for():
    rng = np.random.default_rng(1)
    dx = 1e-2 * rng.normal(size=N)
    state, work = corrected(moving(), dx)
    machine = observed().machine
    assert np.allclose(observed().difference(state, moving(), machine), dx, rtol=0, atol=1e-12)
    head, span = machine.tables.ints, of._spans(machine)
    gaps = work[head[relative.WORK_AT] : head[relative.SCRATCH_AT]][span(Own.H)]
    assert np.abs(gaps).max() < 1e-11
    # the natural coordinates say the same: a step of I3AL from there finds its constraints fulfilled
    params = car("relative")[1].copy()
    params[index(machine.parameters, "caster_trail")] = 1e-9
    out = np.zeros(machine.work_size)
    machine.step(state, inputs(AT), params, machine.tables, out, H)
    assert out[index(machine.outputs, "parts")] >= 1 and out[index(machine.outputs, "phi_error")] < 1e-9
    still, before = corrected(moving(), np.zeros(N))[0], moving()
    changed = np.flatnonzero(np.abs(still - before) >= 1e-12)
    assert still[changed].tolist() == [slots.UNKNOWN]  # the energy of contact, which the next step finds


@functools.cache
def heavier():
    """A car with 69 kg more, and its state at the place and in the motion of `moving`."""
    machine, params = make_machine(files(), {"sprung_mass": 759.0})
    heavy = of.observed(machine, params)
    state, work = moving().copy(), np.zeros(heavy.machine.work_size)
    off = observed().difference(moving(), state, heavy.machine)  # the heavy car's coordinates of the same place
    heavy.correct(state, params, heavy.machine.tables, work, -off)
    assert np.abs(observed().difference(state, moving(), heavy.machine)).max() < 1e-12
    return heavy, params, state


def test_a_payload_goes_over_a_step_as_a_heavier_car_does():
    """What it does to the state, and the transition beside differences of the heavier car's step."""
    heavy, params, state = heavier()
    end, F, _, _ = linearise(moving(), payload=69.0)
    true = linearise(state, one=heavy)[0]
    without = observed().difference(true, end, heavy.machine)
    left = observed().difference(true, corrected(end, F[:, N + 2].copy())[0], heavy.machine)
    for part, near in ((slice(14, 17), 2e-3), (slice(17, 20), 0.05), (slice(20, 24), 0.03)):
        assert np.linalg.norm(left[part]) < near * np.linalg.norm(without[part]), part
    h, d, G, work = 2.5e-4, 1e-6, np.zeros((N, N)), np.zeros(heavy.machine.work_size)
    for j in range(14, 24):  # velocities of chassis and arms; so short a step that the form of F is no matter
        both = []
        for sign in (1.0, -1.0):
            dx, off = np.zeros(N), state.copy()
            dx[j] = sign * d
            heavy.correct(off, params, heavy.machine.tables, work, dx)
            both.append(linearise(off, h, one=heavy)[0])
        G[:, j] = heavy.difference(*both, heavy.machine) / (2 * d)
    chassis, by = slice(14, 17), slice(14, 24)
    loaded, light = (linearise(moving(), h, payload=m)[1] for m in (69.0, 0.0))
    off = [np.linalg.norm(found[chassis, by] - G[chassis, by]) for found in (loaded, light)]
    assert off[0] < 0.1 * off[1], off


def test_a_payload_accelerates_as_a_heavier_car_does():
    """The filter's car with 69 kg more beside a car that was made with them, at the same place and motion."""
    heavy, _, state = heavier()
    light, loaded, true = (
        linearise(moving())[2], linearise(moving(), payload=69.0)[2], linearise(state, one=heavy)[2],
    )  # fmt: skip
    for direction in np.eye(3):
        row = sensor((0.0, 0.0, 0.2), direction)
        without, with_it = measure(0, light, row)[0], measure(0, loaded, row)[0]
        should = measure(0, true, row, heavy)[0]
        assert abs(with_it - should) < 0.02 * abs(without - should) + 1e-3


def test_a_step_without_a_tangent_says_so():
    """Near standstill steps are I3AL's; a place is measured all the same, an acceleration is not."""
    machine, params = car("relative")
    state, work = np.zeros(len(machine.states)), np.zeros(machine.work_size)
    machine.initial(state, params, machine.tables, work)
    _, _, at, status = linearise(state)
    assert status == CONSTANT
    assert np.isnan(measure(0, at, sensor())[0]) and np.isfinite(measure(2, at, sensor())[0])


def test_a_step_of_i3al_has_the_same_tangent():
    """A trail of a nanometre makes the step I3AL's; transition and sensors are those of a Rosenbrock step there."""
    _, F, at, _ = linearise(moving())
    _, G, seen, status = linearise(moving(), caster_trail=1e-9)
    assert status == ROUGH
    assert np.allclose(F, G, rtol=1e-5, atol=1e-6)
    assert np.isclose(measure(0, at, sensor())[0], measure(0, seen, sensor())[0], rtol=0, atol=1e-5)


def test_a_car_that_slides_has_a_tangent_too():
    """On a tenth of the friction all patches slide; errors of velocities go over ten steps as differences say."""
    machine, state = observed().machine, moving()
    span = slice(14, 20)  # of the chassis
    total = np.eye(N)
    ends = [moved(j, s * 1e-4) for j in range(14, 20) for s in (1, -1)]
    for _ in range(10):
        state, F, _, status = linearise(state, grip=0.1)
        assert status == ROUGH
        total = F[:, :N] @ total
        ends = [linearise(end, grip=0.1)[0] for end in ends]
    G = np.array([observed().difference(a, b, machine) / 2e-4 for a, b in zip(ends[::2], ends[1::2], strict=True)]).T
    assert np.abs(total[span, span] - G[span]).max() < 0.05


def test_natural_coordinates_are_refused_by_name():
    with pytest.raises(ConfigError, match='formulation = "relative"'):
        of.observed(*car("natural"))


def test_the_car_is_found_through_its_sensors_and_late_readings_change_nothing():
    """Two seconds with wrong speed and friction at the start; GNSS is 50 ms late, and ends before the run does."""
    one, (machine, params) = observed(), car("relative")
    sensors = read_sensors(
        {
            "imu": {"kind": "imu", "place": [0.0, 0.0, 0.0], "rate_hz": 200.0, "force_noise": 0.05,
                    "rate_noise": 0.002, "force_bias": 0.05},
            "gnss": {"kind": "gnss", "place": [0.0, 0.0, 0.5], "rate_hz": 10.0, "latency_ms": 50.0,
                     "position_noise": 1.0, "velocity_noise": 0.05, "outages_s": [[1.8, 9.0]]},
            "encoders": {"kind": "pulses", "signals": [f"wheel_{w}" for w in ("fl", "fr", "rl", "rr")],
                         "per_turn": 48, "rate_hz": 200.0},
        },
        one, H, "test",
    )  # fmt: skip
    steps = 400
    drive = np.array([inputs(AT - 300 + k % 300) for k in range(steps)])
    drive[:, index(machine.inputs, "throttle")] = 0.3
    truth = record(one, params, moving(), drive, sensors, H, 1)
    groups = ((14, 0.02, 0.0), (3, 0.5, 0.05), (11, 0.1, 0.2), (8, 2e-4, 1e-3), (1, 5.0, 5.0))
    start, walk = (np.concatenate([np.full(g[0], g[k]) for g in groups]) for k in (1, 2))
    start[:2], start[2] = 1.0, 0.002
    tuning = Tuning(np.array([*start, 0.2, 0.05, 0.05, 0.05]), np.array([*walk, 0.01, 0.0, 0.0, 0.0]))
    off = np.zeros(N)
    off[0], off[1], off[14], off[15] = 1.0, -1.0, 0.5, 0.3
    begin, found = corrected(moving(), off)[0], []
    slippery = params.copy()
    slippery[index(machine.parameters, "grip")] = 0.85
    for in_order in (True, False):
        filter = Filter(one, slippery, begin, sensors, ("grip",), tuning, H)
        estimates = replay(filter, truth, in_order)
        found.append(filter.memory.estimate.tobytes())
        error = one.difference(truth.seen.states[-1], state_of(filter, estimates.sampled[-1]), one.machine)
        sigma = np.sqrt(np.diag(filter.covariance()))[:N]
        assert np.abs(error / sigma)[[0, 1, 14, 15]].max() < 5.0 and sigma[:2].max() < 0.6 and sigma[14:16].max() < 0.1
    assert found[0] == found[1]


def state_of(filter, sampled):
    filter.memory.estimate[:] = sampled
    return filter.state
