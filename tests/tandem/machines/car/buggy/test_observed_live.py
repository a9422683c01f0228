"""The car's observer as a machine: the filter of a twin experiment, to the bit, from its state alone."""

import numpy as np

from sim_service.contract.machine import index
from sim_service.registry import load_machine
from sync.config.toml import check, read_toml
from tandem.estimation.description import read_sensors
from tandem.estimation.experiment import record
from tandem.estimation.rows import Count
from tandem.machines.observer.build import ObserverSection, make_filter
from tests.sim_service.conftest import CONFIGS
from tests.tandem.machines.car.buggy.test_observed import H, car, drive_inputs, observed

LIVE = CONFIGS / "observers" / "buggy_live.toml"
STEPS = 160


def test_the_car_with_its_observer_is_the_filter_to_the_bit_and_goes_on_from_its_state():
    """From rest, full throttle; GNSS comes 150 ms late. Half-way the state alone is taken over."""
    one, (_, params) = observed(), car("relative")
    settings = check(ObserverSection, read_toml(LIVE), "test")
    sensors = read_sensors(settings.sensors, one, H, "test")
    base = one.machine
    state, work = np.zeros(len(base.states)), np.zeros(base.work_size)
    base.initial(state, params, base.tables, work)
    drive = drive_inputs(STEPS)
    truth = record(one, params, state, drive, sensors, H, 3)
    filter = make_filter(one, params, sensors, settings.filter, H, "test")
    late = sensors.counts[:, Count.LATENCY].tolist()

    machine, own = load_machine(LIVE)
    assert len(machine.states) * 8 < 1_100_000
    states, room = np.zeros(len(machine.states)), np.zeros(machine.work_size)
    machine.initial(states, own, machine.tables, room)
    names = list(dict.fromkeys(sensors.sensor))
    for k in range(STEPS):
        given = np.full(len(machine.inputs), np.nan)
        given[: len(base.inputs)] = drive[k]
        for i, name in enumerate(sensors.names):
            there = np.flatnonzero(~np.isnan(truth.seen.readings[: max(k + 1 - late[i], 0), i]))
            if len(there):
                given[index(machine.inputs, "measured_" + name.replace(".", "_"))] = truth.seen.readings[there[-1], i]
                given[index(machine.inputs, f"age_{sensors.sensor[i]}")] = (k - there[-1]) * H
            m = k - late[i]
            if m >= 0 and not np.isnan(truth.seen.readings[m, i]):
                filter.take(i, m, truth.seen.readings[m, i])
        assert len(names) == 3
        if k == STEPS // 2:  # in the middle of catching up
            states, room = states.copy(), np.zeros(machine.work_size)
        machine.step(states, given, own, machine.tables, room, H)
        filter.observe(drive[k])
    assert states[: len(filter.memory.estimate)].tobytes() == filter.memory.estimate.tobytes()
    value = {q.name: room[i] for i, q in enumerate(machine.outputs)}
    assert value["readings_late"] > 20 and value["readings_used"] > 8 * STEPS
    assert abs(value["vx"] - truth.seen.outputs[-1, index(base.outputs, "vx")]) < 0.3
