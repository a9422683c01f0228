"""Normalised errors of outputs: their bands, outputs that depend on each other, slopes beside the transition's."""

import numpy as np

from tandem.estimation.description import read_sensors
from tandem.estimation.make import Filter, Tuning
from tandem.machines.observer.studies.normalised import chi_squared_band, consistency, normalised, output_derivatives
from tandem.machines.tilting.observed import OBSERVED


def test_errors_as_large_as_was_said_lie_in_the_band_for_95_percent():
    rng = np.random.default_rng(3)
    A = rng.normal(size=(3, 3))
    P = A @ A.T
    errors = rng.multivariate_normal(np.zeros(3), P, 800)
    found = consistency(("a", "b", "c"), errors, np.array([P] * 800))
    assert {*found} == {"all", "a", "b", "c"} and found["all"]["outputs"] == 3
    for one in found.values():
        assert abs(one["inside"] - 0.95) < 0.025 and one["instants"] == 800
    wide = consistency(("a", "b", "c"), 2.0 * errors, np.array([P] * 800))["all"]
    assert wide["above"] > 0.4 and abs(wide["mean"] / 12.0 - 1.0) < 0.1


def test_an_output_that_follows_from_others_counts_once_and_one_that_is_unknown_not_at_all():
    H = np.array([[1.0, 0.0], [0.0, 2.0], [1.0, 2.0]])
    e = np.array([0.5, -1.0])
    assert np.allclose(normalised(H @ e, H @ H.T), (e @ e, 2))
    assert np.allclose(normalised(np.array([0.5, np.nan, np.nan]), H @ H.T), (0.25, 1))
    assert normalised(np.full(3, np.nan), H @ H.T)[1] == 0


def test_bands_are_those_of_the_tables():
    for degrees, low, high in ((1, 0.000982, 5.024), (2, 0.0506, 7.378), (10, 3.247, 20.483)):
        assert np.allclose(chi_squared_band(degrees), (low, high), rtol=0.01)


def test_slopes_of_outputs_are_the_rows_of_the_transition():
    """Outputs of the vehicle that leans that are its states after the step."""
    machine = OBSERVED.machine
    params = np.array([p.value for p in machine.parameters])
    state, work = np.zeros(6), np.zeros(machine.work_size)
    machine.initial(state, params, machine.tables, work)
    tables = {
        name: {"kind": "value", "signal": OBSERVED.signals[0].name, "rate_hz": 200.0, "noise": 0.1} for name in "abcd"
    }
    sensors = read_sensors(tables, OBSERVED, 0.005, "test")
    filter = Filter(OBSERVED, params, state, sensors, (), Tuning(np.full(6, 0.1), np.zeros(6)), 0.005)
    names = [c.name for c in OBSERVED.coordinates if c.name in {q.name for q in machine.outputs}]
    assert names
    inputs = np.zeros(len(machine.inputs))
    H = output_derivatives(filter, names, inputs, np.full(6, 0.1))
    F, at = np.zeros(6 * 7), np.zeros(OBSERVED.at_size)
    which = np.zeros(0, np.int32)
    which.flags.writeable = False
    OBSERVED.linearise(state.copy(), inputs, params, machine.tables, work, 0.005, which, np.zeros(0), F, at)
    rows = [[c.name for c in OBSERVED.coordinates].index(name) for name in names]
    assert np.allclose(H, F.reshape(7, 6)[:6].T[rows], rtol=1e-6, atol=1e-8)
