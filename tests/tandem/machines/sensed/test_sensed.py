"""The car with its sensors as a machine: the truth of a twin experiment, to the bit, late and with outages."""

import numpy as np
import pytest

from sim_service.contract.machine import index
from sim_service.registry import load_machine
from sync.config.toml import check, read_toml
from sync.errors import ConfigError
from tandem.estimation.description import read_sensors
from tandem.estimation.experiment import record
from tandem.estimation.rows import Count
from tandem.machines.sensed.build import SensedSection
from tandem.machines.sensed.layout import NEVER
from tests.sim_service.conftest import CONFIGS
from tests.tandem.machines.car.buggy.test_observed import H, car, drive_inputs, observed

TRUTH = CONFIGS / "observers" / "buggy_truth.toml"
STEPS = 120


def test_its_readings_are_those_of_a_twin_experiment_as_late_as_their_sensor():
    one, (_, params) = observed(), car("relative")
    base, settings = one.machine, check(SensedSection, read_toml(TRUTH), "test")
    sensors = read_sensors(settings.sensors, one, H, "test")
    begin, work = np.zeros(len(base.states)), np.zeros(base.work_size)
    base.initial(begin, params, base.tables, work)
    drive = drive_inputs(STEPS)
    truth = record(one, params, begin, drive, sensors, H, settings.seed)

    machine, own = load_machine(TRUTH)
    state, room = np.zeros(len(machine.states)), np.zeros(machine.work_size)
    machine.initial(state, own, machine.tables, room)
    out = np.zeros((STEPS, len(machine.outputs)))
    for k in range(STEPS):
        if k == STEPS // 2:  # its state alone is what it goes on from
            state, room = state.copy(), np.zeros(machine.work_size)
        machine.step(state, drive[k].copy(), own, machine.tables, room, H)
        out[k] = room[: len(machine.outputs)]

    assert out[:, : len(base.outputs)].tobytes() == truth.seen.outputs.tobytes()
    for i, name in enumerate(sensors.names):
        read = out[:, index(machine.outputs, "reading_" + name.replace(".", "_"))]
        age = out[:, index(machine.outputs, f"age_{sensors.sensor[i]}")]
        of = np.arange(STEPS) - np.rint(age / H).astype(int)
        there = age < NEVER
        first = sensors.sensor.index(sensors.sensor[i])  # whose age it is; of the first steps there is no acceleration
        late = int(sensors.counts[i, Count.LATENCY])
        began = int(np.argmin(np.isnan(truth.seen.readings[:, first]))) + late
        assert np.argmax(there) == began and there[began:].all()
        assert (read[there] == truth.seen.readings[of[there], i]).all()
        assert age[there].min() == pytest.approx(late * H)


def test_an_outage_only_lets_readings_grow_old(tmp_path):
    text = TRUTH.read_text().replace("../vehicles", str(CONFIGS / "vehicles"))
    file = tmp_path / "out.toml"
    file.write_text(text.replace("[[20.0, 30.0]]", "[[0.1, 0.3]]").replace("latency_ms = 150.0", "latency_ms = 5.0"))
    machine, params = load_machine(file)
    state, room = np.zeros(len(machine.states)), np.zeros(machine.work_size)
    machine.initial(state, params, machine.tables, room)
    ages = []
    for inputs in drive_inputs(70):
        machine.step(state, inputs, params, machine.tables, room, H)
        ages.append(room[index(machine.outputs, "age_gnss")])
    assert ages[0] == NEVER and ages[1] == pytest.approx(H)
    assert ages[60] == pytest.approx(60 * H) and ages[61] == pytest.approx(H)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('"../vehicles/buggy.toml"', '"nowhere.toml"', "nowhere.toml"),
        ("rate_hz = 10.0", "rate_hz = 30.0", "must divide the rate of the steps"),
        ("rate_hz = 10.0", "rate_hz = 10.0\nsky = { latitude_deg = 48.0, longitude_deg = 9.0 }", "outages_s"),
        ("seed = 1", "sead = 1", "sead"),
        ('"wheel_fl"', '"wheel_xx"', "wheel_xx"),
    ],
)
def test_what_is_wrong_in_its_file_is_named(tmp_path, old, new, why):
    file = tmp_path / "wrong.toml"
    text = TRUTH.read_text()
    assert old in text
    text = text.replace(old, new).replace("../vehicles", str(CONFIGS / "vehicles"))
    file.write_text(text)
    with pytest.raises(ConfigError, match=why):
        load_machine(file)
