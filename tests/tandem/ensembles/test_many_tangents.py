"""Runs with derivatives by parameters: values to the bit those of a plain run, derivatives those of differences."""

import numpy as np
import pytest

from sim_service.contract.machine import Machine
from sim_service.many_steps import run_steps
from tandem.ensembles.many_tangents import tangents
from tandem.machines import mass_spring
from tandem.machines.car import single_track

STEP_S, STEPS = 0.005, 400


def rows_of(machine: Machine) -> np.ndarray:
    """Something moves everything that acts; what the machine computes itself stays NaN."""
    t = STEP_S * np.arange(STEPS)
    by_name = {
        "handle": 0.03 * np.sin(20.0 * t), "throttle": np.where(t < 1.2, 0.9, 0.0),
        "brake_pressure_bar": np.where(t > 1.4, 12.0, 0.0), "steering_angle": np.sin(4.0 * t), "drive_torque": np.nan,
    }  # fmt: skip
    return np.column_stack([np.broadcast_to(by_name.get(q.name, 0.0), STEPS) for q in machine.inputs])


def log_of(machine: Machine, params: np.ndarray, logged: np.ndarray) -> np.ndarray:
    state, work = np.zeros(len(machine.states)), np.zeros(machine.work_size)
    machine.initial(state, params, machine.tables, work)
    log = np.zeros((STEPS, len(logged)))
    done = run_steps(
        machine.step, state, np.zeros(len(machine.inputs)), params, machine.tables, work, STEP_S, rows_of(machine),
        logged, log, len(machine.outputs), machine.stepping.bound,
    )  # fmt: skip
    assert done == STEPS
    return log


@pytest.mark.parametrize("machine", [mass_spring.MACHINE, single_track.MACHINE], ids=lambda m: m.name)
def test_derivatives_of_a_run_are_those_of_differences_and_its_values_the_same_bits(machine: Machine) -> None:
    params = np.array([p.value for p in machine.parameters])
    logged = np.arange(len(machine.outputs) + len(machine.inputs))
    plain = log_of(machine, params, logged)
    for first in range(0, len(params), 8):
        which = [k for k in range(first, min(first + 8, len(params))) if params[k] != 0.0]
        log, slopes, made = tangents(machine, params, which, rows_of(machine), logged, STEP_S)
        assert made == STEPS and np.array_equal(log, plain, equal_nan=True)
        for lane, k in enumerate(which):
            ends = []
            for sign in (1.0, -1.0):
                other = params.copy()
                other[k] *= 1.0 + 1e-6 * sign
                ends.append(log_of(machine, other, logged))
            expected = (ends[0] - ends[1]) / (2e-6 * params[k])
            scale = np.abs(plain).max(axis=0) / params[k]  # of each channel: what its rounding does to a difference
            apart, largest = (np.abs(x).max(axis=0) for x in (slopes[:, :, lane] - expected, expected))
            assert (apart <= 1e-5 * largest + 1e-7 * scale).all(), machine.parameters[k].name
