"""What is felt at the wheel: caster trails beside trail x force, the port two ways, delays beside closed forms."""

from dataclasses import replace
from functools import cache
from math import pi, sqrt
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from sim_service.registry import load_machine
from sync.config.config import load
from sync.config.input_rows import Encoder
from sync.errors import ConfigError
from sync.signals.differentiator import coefficients
from tandem.commands.cli import app
from tandem.doctor.findings import Case
from tandem.machines.car.commands.steering import refuse_without_torque
from tandem.machines.car.doctor import feel as doctor
from tandem.machines.car.studies.iso.vehicle import Vehicle, load_vehicle
from tandem.machines.car.studies.steering import hands_off, protocol
from tandem.machines.car.studies.steering.caster import caster, complaints, lean_for, trail_of
from tandem.machines.car.studies.steering.hands_off import Device, Response
from tandem.machines.car.studies.steering.port import PortCar, PortModel
from tandem.machines.car.studies.steering.sweep import FAST, measure

ROOT = Path(__file__).resolve().parents[6]


@cache
def car() -> Vehicle:
    return load_vehicle(ROOT / "configs" / "vehicles" / "buggy.toml", {})


# ---- caster ----------------------------------------------------------------------------------------------------------


@pytest.mark.drill
def test_a_larger_trail_gives_as_much_more_torque_as_trail_times_force_says() -> None:
    result = caster(car(), (0.015, 0.035), 1, 75.0, lambda what, share: None)
    assert complaints(result) == []
    few, more = (result.row(f"trail {trail} mm: torque per angle").simulated for trail in (15, 35))
    assert 0.0 < few < more
    assert abs(result.row("15 to 35 mm: more torque at 1325 N").difference or 1.0) < 0.1
    assert "not hit" in result.conditions and result.capped == 0
    # arms that give way: a heavier wheel is turned less, and the car goes elsewhere
    few, more = (result.row(f"arms, trail {trail} mm: first angle").simulated for trail in (15, 35))
    perfect = result.row("trail 15 mm: largest angle").simulated
    assert more < few < perfect and result.row("arms, 15 to 35 mm: paths apart by up to").simulated > 0.1


def test_a_trail_is_made_by_leaning_the_axis_and_nothing_else() -> None:
    changed = lean_for(car(), 0.03)
    assert set(changed) == {"front_UBJ_x", "front_LBJ_x", "front_TRO_x"}
    other = car().altered(changed)
    assert trail_of(other) == pytest.approx(0.03, abs=1e-5)
    assert other.linear.steering_ratio == pytest.approx(car().linear.steering_ratio, rel=0.01)
    with pytest.raises(ConfigError, match="does not lean as far"):
        lean_for(car(), 0.3)


@pytest.mark.parametrize("trails", ["35,15", "15", "a,b", "15,15", "10,500"])
def test_trails_that_make_no_study_are_refused(trails: str) -> None:
    run = CliRunner().invoke(app, ["study", "caster", "--trails-mm", trails])
    assert run.exit_code == 2


# ---- the port --------------------------------------------------------------------------------------------------------


def test_the_car_at_5_ms_with_its_port_model_feels_as_the_car_at_1_ms() -> None:
    rolling = PortCar(car(), 75.0 / 3.6, FAST)
    for frequency, most in ((5.0, 0.02), (20.0, 0.05)):
        point = measure(rolling, frequency)
        assert point.difference < most < point.difference_held


def test_a_port_model_is_exact_for_what_is_linear() -> None:
    model = PortModel((0.1, 1.0, 10.0), 2.0, 3.0, 2.6, (5.0, 0.5, 0.02), 5e-3)
    assert model.at(0.0, (0.1, 1.0, 10.0)) == 2.0
    ahead = (0.1 + 5e-3 * 1.0 + 0.5 * 25e-6 * 10.0, 1.05, 10.0)
    assert model.at(5e-3, ahead) == pytest.approx(3.0)
    half = (0.1 + 2.5e-3 * 1.0 + 0.5 * 6.25e-6 * 10.0, 1.025, 10.0)
    assert model.at(2.5e-3, half) == pytest.approx(2.6)
    beside = (ahead[0] + 0.01, ahead[1] + 0.1, ahead[2] + 1.0)
    assert model.at(5e-3, beside) == pytest.approx(3.0 + 0.05 + 0.05 + 0.02)


# ---- let go ----------------------------------------------------------------------------------------------------------

W = 2.0 * pi * np.linspace(0.2, 30.0, 3000)


def test_a_spring_has_colgates_bound_and_its_own_onset() -> None:
    K, device, delay = 8.0, Device(inertia=0.03, damping=0.3, sample=1e-3), 4e-3
    spring = Response(W, np.full(len(W), K + 0j))
    bound = device.damping / (K * (delay + 0.5e-3))
    assert hands_off.passive_gain(spring, device, delay) == pytest.approx(bound, rel=1e-3)
    # J w^2 = K cos(w t), b w = K sin(w t)
    J, b = device.inertia, device.damping
    w = sqrt((-b * b + sqrt(b**4 + 4.0 * J * J * K * K)) / (2.0 * J * J))
    begins = np.arctan2(b * w, J * w * w) / w - 0.5e-3
    found, frequency = hands_off.predicted_onset(spring, device)
    assert found == pytest.approx(begins, rel=1e-3) and frequency == pytest.approx(w / (2.0 * pi), rel=1e-3)
    gain = hands_off.resting_gain(spring, replace(device, gain=0.5), found)
    assert gain == pytest.approx(1.0, rel=1e-2)


def test_a_damper_by_differences_costs_its_own_damping_at_nyquist() -> None:
    """Colgate: b > K T/2 + |B|; below 30 Hz the damper would cost nothing."""
    K, B, T, b = 8.0, 0.05, 1e-3, 0.3
    w = 2.0 * pi * np.linspace(0.2, 0.4999 / T, 4000)
    s = 1j * w
    own = Response(w, K + B * s, np.array([np.full(len(w), K), np.full(len(w), B), np.zeros(len(w))]))
    behind = np.array([np.ones(len(w)), (1.0 - np.exp(-s * T)) / (s * T), np.ones(len(w))])
    loop, device = own.estimated(behind), Device(0.03, b, sample=T)
    assert hands_off.passive_gain(loop, device, 0.0) == pytest.approx(b / (0.5 * K * T + B), rel=1e-3)
    seen = w < 2.0 * pi * 30.0
    below = Response(w[seen], loop.Z[seen], own=own.Z[seen])
    assert hands_off.passive_gain(below, device, 0.0) > 2.0 * b / (0.5 * K * T + B)


def test_what_an_estimator_makes_of_a_sine_is_what_its_coefficients_say() -> None:
    row = Encoder(kind="encoder", channel="wheel", estimator="source", per_count=2.0 * pi / 40000.0)
    T, w = 1e-3, 2.0 * pi * np.array([20.0, 50.0, 120.0, 200.0])
    speed = sum(c * np.exp(-1j * w * T * k) for k, c in enumerate(coefficients(4))) / (1j * w * T)
    angle, first, second = hands_off.shares(row, T, T, w)
    assert np.abs(angle - 1.0).max() < 0.05
    assert np.abs(first - speed).max() < 0.05 and np.abs(second - speed * speed).max() < 0.05


def test_a_gain_that_is_held_down_does_not_weave(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is passive may lie in the middle of a range that weaves; then less than that range is allowed."""
    s = 1j * W
    found = Response(W, np.poly1d([1.0, -1.0, 300.0])(s) / np.poly1d([1.0, 1.0, 150.0])(s))
    device = Device(inertia=0.03, damping=0.3, sample=0.0)
    low, high = hands_off.restless_gains(found, device, 0.0)[0]
    monkeypatch.setattr(hands_off, "passive_gain", lambda *_: 0.5 * (low + min(high, 3.0 * low)))
    assert doctor.largest_gain([found], replace(device, gain=2.0 * min(high, 1e3)), 0.0) == low


def test_gains_that_weave_are_those_whose_roots_grow() -> None:
    """Of a loop that is restless in the middle and at the top, by the roots of its polynomial."""
    device = Device(inertia=0.03, damping=0.3, sample=0.0)
    s, own, bottom = 1j * W, np.poly1d([0.03, 0.3, 0.0]), np.poly1d([1.0, 1.0, 150.0])
    seen = set()
    for top in (np.poly1d([1.0, -1.0, 300.0]), np.poly1d([2.0, 4.0, 100.0]), np.poly1d([-1.0, 2.0, 900.0])):
        ranges = hands_off.restless_gains(Response(W, top(s) / bottom(s)), device, 0.0)
        for gain in np.geomspace(0.02, 40.0, 60):
            growing = (own * bottom + gain * top).roots.real.max() > 0.0
            assert any(low < gain < high for low, high in ranges) == growing, (top, gain, ranges)
            seen.add(growing)
        for low, high in ranges:
            inside, at_low = min(1.5 * low, 0.5 * (low + high)), hands_off.resting_gain
            found = Response(W, top(s) / bottom(s))
            assert at_low(found, replace(device, gain=inside), 0.0) == low
    assert seen == {True, False}


def test_a_spring_that_is_let_go_swings_from_its_onset_on() -> None:
    class Spring:
        def copy(self, h: float) -> "Spring":
            return self

        def step(self, motion: tuple[float, float, float]) -> float:
            return 8.0 * motion[0]

    device = Device()
    begins, _ = hands_off.predicted_onset(Response(W, np.full(len(W), 8.0 + 0j)), device)
    for share, swings in ((0.9, False), (1.1, True)):
        angles = hands_off.let_go(Spring(), device, share * begins, 3.0)  # type: ignore[arg-type]
        assert hands_off.grows(angles, device, 3.0) == swings


# ---- persons ---------------------------------------------------------------------------------------------------------


def test_every_person_gets_every_trail_as_often_in_an_order_of_its_seed() -> None:
    trails = (0.015, 0.025, 0.035)
    found = [protocol.order(trails, 4, seed) for seed in range(20)]
    assert all(sorted(each[k : k + 3]) == list(trails) for each in found for k in (0, 3, 6, 9))
    assert found[3] == protocol.order(trails, 4, 3) and len({tuple(each) for each in found}) > 15


def test_a_summary_tells_trails_apart_and_a_session_is_read_again(tmp_path: Path) -> None:
    session = protocol.Session("A. B.", 3, [0.035, 0.015, 0.035], ["trial_01", "trial_02", "trial_03"], [6, 2, None])
    protocol.save(tmp_path, session)
    assert protocol.load(tmp_path) == session
    angle = np.sin(np.linspace(0.0, 6.0, 200))
    trials = []
    for trail in session.trails:
        steps = dict.fromkeys(protocol.CHANNELS, np.zeros(200)) | {"steering_angle": angle}
        steps |= {
            "steering_torque": 200.0 * trail * angle,
            "obstacle_there": np.ones(200),
            "obstacle_room": 1.0 + angle,
        }
        trials.append(protocol.figures(steps))
    few, more = protocol.summary(session, trials)
    assert (few["trail"], few["trials"], few["mark"]) == (0.015, 1, 2.0)
    assert (more["trail"], more["trials"], more["mark"]) == (0.035, 2, 6.0)
    assert few["torque per angle"] == pytest.approx(3.0) and more["torque per angle"] == pytest.approx(7.0)
    (tmp_path / protocol.FILE).write_text("{}")
    with pytest.raises(ConfigError, match="is no session of the caster trials"):
        protocol.load(tmp_path)


@pytest.mark.parametrize(
    ("overrides", "named"),
    [
        ([], r"gamepad\.toml: \[source\.effort\] is missing"),
        (["HAPTIC", "source.kind='waves'"], r"source\.kind = 'waves': no torque"),
        (["HAPTIC", "source.effort.channel='rack_force'"], r"source\.effort\.channel = 'rack_force': must be"),
        (["HAPTIC", "sim.parameters.feel_limit=0.0"], r"sim\.parameters\.feel_limit = 0: no torque"),
        (["HAPTIC"], r"no limit can be measured"),
    ],
)
def test_trials_without_torque_are_refused_by_name(overrides: list[str], named: str) -> None:
    asked = [HAPTIC if each == "HAPTIC" else each for each in overrides]
    with pytest.raises(ConfigError, match=named):
        refuse_without_torque(GAMEPAD, asked)
    refuse_without_torque(GAMEPAD, [HAPTIC, "sim.parameters.feel_limit=0.3"])


def test_the_machine_gives_the_same_port_model_in_its_step_and_goes_on_as_without_it() -> None:
    found = []
    for port in (0.0, 1.0):
        machine, params = load_machine(
            ROOT / "configs" / "vehicles" / "swerve.toml",
            {"port": port, "gear_mode": 0.0, "feel": 2.0, "feel_limit": 0.5},
        )
        state, work = np.zeros(len(machine.states)), np.zeros(machine.work_size)
        machine.initial(state, params, machine.tables, work)
        rolling = PortCar(car(), 10.0, 5e-3)
        n = len(rolling.state)
        state[:n] = rolling.state
        inputs = rolling.inputs.copy()
        for k in range(5):
            motion = (0.002 * k, 0.4, 3.0)
            inputs[:3] = motion
            machine.step(state, inputs, params, machine.tables, work, 5e-3)
            model = rolling.step_with_port(motion)
        found.append(state[:n].tobytes())
        of = {q.name: float(work[i]) for i, q in enumerate(machine.outputs)}
        assert of["steering_torque"] == model.torque
        assert of["felt_torque"] == 0.5 * model.torque  # held down to the limit
        # of what is felt; without a port model it stays as it is
        expected = [0.5 * each for each in (model.torque_ahead, model.torque_middle, *model.derivatives)]
        if not port:
            expected = [0.5 * model.torque, 0.5 * model.torque, 0.0, 0.0, 0.0]
        names = ("port_ahead", "port_middle", "port_stiffness", "port_damping", "port_inertia")
        assert tuple(of[name] for name in names) == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert found[0] == found[1] == rolling.state.tobytes()


# ---- before a run ----------------------------------------------------------------------------------------------------

GAMEPAD = ROOT / "configs" / "gamepad.toml"
HAPTIC = 'include=["fragments/haptic_wheel.toml"]'


def test_a_wheel_that_is_haptic_is_known_and_its_limit_may_be_overridden() -> None:
    wheel = load(GAMEPAD, [HAPTIC])
    assert doctor.is_haptic(wheel, GAMEPAD) and not doctor.is_haptic(load(GAMEPAD), GAMEPAD)
    assert not doctor.is_haptic(load(GAMEPAD, [HAPTIC, "source.kind='waves'"]), GAMEPAD)
    past = load(GAMEPAD, [HAPTIC, "source.effort.channel='steering_torque'"])  # known by the machine, not by a name
    with pytest.raises(ConfigError, match=r"source\.effort\.channel = 'steering_torque': a hand is in this loop"):
        doctor.held_down(past, GAMEPAD, [])
    assert doctor.held_down(load(GAMEPAD), GAMEPAD, []) == ([], "")
    assert doctor.held_down(load(GAMEPAD, [HAPTIC, "sim.parameters.feel_limit=0.7"]), GAMEPAD, []) == ([], "")
    assert doctor.gain(Case(load(GAMEPAD), GAMEPAD, 1.0)).verdict == "pass"


def test_the_largest_gain_falls_with_the_delay_and_grows_with_the_damping() -> None:
    config = load(GAMEPAD, [HAPTIC, "sim.parameters.front_camber=0.001", "sim.parameters.obstacle_seed=3.0"])
    vehicle = doctor.vehicle_of(config, GAMEPAD)
    assert vehicle.values["front_camber"] == 0.001
    (response,) = doctor.as_the_loop_feels([hands_off.response(hands_off.at_speed(vehicle, 50.0))], config)
    assert response.w[-1] > 2.0 * pi * 490.0  # to Nyquist
    quick, slow, damped = (
        doctor.largest_gain([response], Device(0.03, damping, 0.5), delay)
        for damping, delay in ((0.3, 1e-3), (0.3, 10e-3), (0.6, 10e-3))
    )
    assert 0.0 < slow < quick and slow < damped < float("inf")
