"""An observer as a machine: it is the filter, to the bit, goes on from its state alone, and its file is checked."""

import numpy as np
import pytest

from sim_service.contract.machine import index
from sim_service.registry import FILE, MachineFiles, load_machine, make_machine
from sync.config.toml import read_toml
from sync.errors import ConfigError
from tandem.estimation.description import read_sensors
from tandem.estimation.experiment import record
from tandem.machines.tilting.observed import OBSERVED
from tests.sim_service.conftest import CONFIGS

LIVE = CONFIGS / "observers" / "tilting_live.toml"
H, STEPS, LATE = 0.005, 300, 7  # the speed's readings come so many steps late


def truth():
    sensors = read_sensors(read_toml(LIVE)["sensors"], OBSERVED, H, "test")
    inputs = np.zeros((STEPS, 2))
    inputs[:, 0] = 0.08 * np.sin(0.02 * np.arange(STEPS))
    params = np.array([p.value for p in OBSERVED.machine.parameters])
    state, work = np.zeros(6), np.zeros(OBSERVED.machine.work_size)
    OBSERVED.machine.initial(state, params, OBSERVED.machine.tables, work)
    found = record(OBSERVED, params, state + np.array([0.03, 0.0, 0.0, 0.0, 0.2, 0.0]), inputs, sensors, H, 5)
    return sensors, params, found


def run(machine, params, seen, sensors, state, work, first, last):
    """Steps with readings as a loop gives them: the newest of each, again and again, with its age."""
    out = []
    for k in range(first, last):
        inputs = np.full(len(machine.inputs), np.nan)
        inputs[:2] = seen.inputs[k]
        for i, name in enumerate(sensors.names):
            late = LATE if name == "speed" else 0
            there = np.flatnonzero(~np.isnan(seen.seen.readings[: max(k + 1 - late, 0), i]))
            if len(there):
                inputs[index(machine.inputs, f"measured_{name.replace('.', '_')}")] = seen.seen.readings[there[-1], i]
                inputs[index(machine.inputs, f"age_{name.partition('.')[0]}")] = (k - there[-1]) * H + 1e-4
        machine.step(state, inputs, params, machine.tables, work, H)
        assert np.all(np.isfinite(inputs))
        out.append(work[: len(machine.outputs)].copy())
    return np.array(out)


def test_in_a_loop_it_is_the_filter_to_the_bit():
    from sync.config.toml import check
    from tandem.machines.observer.build import ObserverSection, make_filter

    (machine, params), (sensors, _, seen) = load_machine(LIVE), truth()
    state, work = np.zeros(len(machine.states)), np.zeros(machine.work_size)
    machine.initial(state, params, machine.tables, work)
    out = run(machine, params, seen, sensors, state, work, 0, STEPS)
    settings = check(ObserverSection, read_toml(LIVE), "test")
    filter = make_filter(OBSERVED, params, sensors, settings.filter, H, "test")
    for k in range(STEPS):
        for i, name in enumerate(sensors.names):
            m = k - (LATE if name == "speed" else 0)
            if m >= 0 and not np.isnan(seen.seen.readings[m, i]):
                filter.take(i, m, seen.seen.readings[m, i])
        filter.observe(seen.inputs[k])
    assert state[: len(filter.memory.estimate)].tobytes() == filter.memory.estimate.tobytes()
    value = {q.name: out[-1, i] for i, q in enumerate(machine.outputs)}
    assert np.isclose(value["sigma_roll"], np.sqrt(filter.covariance()[0, 0]), rtol=1e-12)
    assert value["readings_late"] == 30 and value["readings_used"] > 2 * STEPS and value["readings_gated"] == 0
    assert abs(value["roll"] - seen.seen.outputs[-1, 0]) < 4.0 * value["sigma_roll"]


def test_it_goes_on_to_the_bit_from_its_state_alone():
    """In the middle of catching up with a late reading."""
    (machine, params), (sensors, _, seen) = load_machine(LIVE), truth()
    state, work = np.zeros(len(machine.states)), np.zeros(machine.work_size)
    machine.initial(state, params, machine.tables, work)
    run(machine, params, seen, sensors, state, work, 0, 148)
    assert np.all(np.isfinite(state)) and np.abs(state).max() <= 1e9
    other = state.copy()
    a = run(machine, params, seen, sensors, state, work, 148, STEPS)
    b = run(machine, params, seen, sensors, other, np.zeros(machine.work_size), 148, STEPS)
    assert a.tobytes() == b.tobytes() and state.tobytes() == other.tobytes()


@pytest.mark.parametrize(
    "old, new, message",
    [
        ('observed = "tilting"', 'observed = "kart"', "observed = 'kart': must be one of buggy, single_track, tilting"),
        ('signal = "joint"', 'signal = "elbow"', "sensors.potentiometer: signal 'elbow': must be one of"),
        ("step_ms = 5.0", "step_ms = 7.0", "rate_hz = 200: must divide the rate of the steps"),
        ("roll_rate = {", "rate = {", "filter.states.rate: fits none of"),
    ],
)
def test_what_is_wrong_in_its_file_is_said(old, new, message):
    text = LIVE.read_text()
    assert old in text
    with pytest.raises(ConfigError) as error:
        make_machine(MachineFiles({FILE: text.replace(old, new).encode()}, {FILE: "here.toml"}))
    assert message in str(error.value) and "here.toml" in str(error.value)
