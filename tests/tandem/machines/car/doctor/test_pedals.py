"""Pedals with a force: what the car gives, and how stiff they may be before a run."""

from math import pi
from pathlib import Path

import numpy as np
import pytest

from sim_service.contract.machine import index
from sim_service.registry import load_machine
from sync.config.config import load
from sync.errors import ConfigError
from tandem.doctor.findings import Case
from tandem.machines.car.doctor import pedals

ROOT = Path(__file__).resolve().parents[5]
WHEEL = ROOT / "configs" / "haptic_wheel.toml"
PEDALS = 'include=["fragments/haptic_pedals.toml"]'


def pressed(changed: dict[str, float], ways: list[tuple[float, float]]) -> np.ndarray:
    """(felt_throttle, felt_brake) after each of these steps of (throttle, pressure)."""
    machine, params = load_machine(ROOT / "configs" / "vehicles" / "swerve.toml", changed)
    state, work = np.zeros(len(machine.states)), np.zeros(machine.work_size)
    machine.initial(state, params, machine.tables, work)
    at, found = [index(machine.outputs, name) for name in ("felt_throttle", "felt_brake")], []
    for throttle, bar in ways:
        inputs = np.full(len(machine.inputs), np.nan)
        inputs[:5] = 0.0, 0.0, 0.0, throttle, bar
        machine.step(state, inputs, params, machine.tables, work, 5e-3)
        found.append(work[at].copy())
    return np.array(found)


def test_pedals_are_heavier_on_the_way_there_than_back_and_no_stiffer_than_their_limit() -> None:
    there = [(0.02, 1.0), (0.5, 10.0), (1.0, 30.0)]
    found = pressed({}, [*there, *there[::-1], (0.0, 0.0)])
    # spring 20 N and 4 N/bar, friction 3 N within 0.05 and 6 N within 2 bar
    assert found[:3] == pytest.approx(np.array([[0.4 + 1.2, 4.0 + 3.0], [13.0, 46.0], [23.0, 126.0]]))
    assert found[4] == pytest.approx([7.0, 34.0]) and found[6] == pytest.approx([-3.0, -6.0])
    # 80 N to full and 4 + 1 + 3 N/bar would be felt
    held = pressed({"throttle_pedal_limit": 8.0, "brake_pedal_limit": 4.0, "pedal_feel": 1.0}, there)
    assert held == pytest.approx(found[:3] * [0.1, 0.5])
    assert pressed({"pedal_feel": 0.01, "throttle_pedal_limit": 8.0}, there) == pytest.approx(found[:3] * 0.01)
    assert (pressed({"throttle_pedal_limit": 0.0, "brake_pedal_limit": 0.0}, there) == 0.0).all()


def test_the_stiffest_pedals_are_colgates_and_are_known_of_the_virtual_device_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trip = {"round_trip_us": {"round_trip": {"p99": 1500.0, "n": 9}}}
    report = {"axis_efforts": {"effort_1": trip, "effort_2": trip}}
    monkeypatch.setattr(pedals, "trial_run", lambda *_: report)
    config = load(WHEEL, [PEDALS])
    settings, said = pedals.held_down(config, WHEEL, [])
    # b / (T/2 + delay), delay with the dead time; then per bar, and per full throttle
    spring, per_count = 1.0 / (0.5e-3 + 2e-3), 2.0 * pi / 6000.0 * 0.2
    expected = {"brake_pedal_limit": 15.0 * spring * 286 * per_count / 40.0,
                "throttle_pedal_limit": 8.0 * spring * 239 * per_count}  # fmt: skip
    found = {each.removeprefix("sim.parameters.").split("=")[0]: float(each.split("=")[1]) for each in settings}
    assert found == pytest.approx(expected) and "felt_brake up to 8.98 N/bar" in said
    assert pedals.pedals(Case(config, WHEEL, 1.0)).verdict == "pass"
    own = [f"sim.parameters.{name}=1.0" for name in expected]
    assert pedals.held_down(load(WHEEL, [PEDALS, *own]), WHEEL, []) == ([], "")
    assert pedals.held_down(load(WHEEL), WHEEL, []) == ([], "")
    unknown = load(WHEEL, [PEDALS, "source.axes.brake.damping=0.0", "source.axes.throttle.effort.gain=-1.0"])
    assert pedals.held_down(unknown, WHEEL, [])[0] == [f"sim.parameters.{name}=0.0" for name in expected]
    assert pedals.pedals(Case(unknown, WHEEL, 1.0)).verdict == "warn"
    for other in ("felt_torque", "felt_throttle"):
        with pytest.raises(ConfigError, match=rf"axes\..*\.effort\.channel = '{other}': a foot is in this loop"):
            pedals.held_down(load(WHEEL, [PEDALS, f"source.axes.brake.effort.channel={other!r}"]), WHEEL, [])
