"""What the multibody core must show, on the problems of the benchmark and against their references; no times."""

import functools
import math
from dataclasses import replace

import numpy as np
import pytest

from tandem.mechanism.columns import energies
from tandem.multibody.natural.api import Settings, run
from verify.multibody import problems
from verify.multibody.benchmark import chain_costs
from verify.multibody.stabilisation import stabilisation
from verify.multibody.trial import FORMULATIONS, begin, error, instants, observed_order, simulate

PROBLEMS = {p.key: p for p in problems.everything()}
SMOOTH = [key for key, p in PROBLEMS.items() if p.smooth]
SHARE = 0.2  # of a problem's time, where all of it would take too long


@functools.cache
def reference(key: str) -> np.ndarray:
    return PROBLEMS[key].reference(instants(PROBLEMS[key], SHARE))


@pytest.mark.parametrize("key", SMOOTH)
def test_the_trapezoidal_rule_is_of_second_order(key):
    formulation = FORMULATIONS[0]
    order = observed_order(PROBLEMS[key], formulation.settings, formulation.order_at, reference(key), SHARE)
    assert order == pytest.approx(2.0, abs=0.1)


@pytest.mark.parametrize("formulation", FORMULATIONS[1:], ids=lambda f: f.key)
def test_the_other_formulations_have_the_order_of_their_textbooks(formulation):
    key = "double pendulum"
    order = observed_order(PROBLEMS[key], formulation.settings, formulation.order_at, reference(key), SHARE)
    assert order == pytest.approx(formulation.order, abs=0.3)


@pytest.mark.parametrize("key", PROBLEMS)
def test_constraints_hold_after_every_step(key):
    record = simulate(PROBLEMS[key], Settings(), PROBLEMS[key].h, SHARE)
    assert np.all(np.isfinite(record.states))
    assert record["phi_error"].max() <= 1e-9
    assert record["phid_error"].max() <= 1e-8


def test_the_pendulum_keeps_its_energy_for_ten_seconds():
    problem = replace(PROBLEMS["pendulum"], h=1e-3)
    record = simulate(problem, Settings(), problem.h)
    energy = energies(record)
    assert len(energy) == 51
    assert np.abs(energy - energy[0]).max() <= 5e-5


def test_a_rotor_with_a_scalar_spin_answers_torque_exactly():
    problem = PROBLEMS["rotor"]  # 100 rad/s, 5 ms
    assert error(problem, simulate(problem, Settings(), 5e-3), problem.reference(instants(problem))) <= 1e-9


@pytest.mark.parametrize("windows", [2, 40])
def test_the_n_four_bar_passes_its_singular_positions(windows):
    problem = PROBLEMS[f"{windows}-four-bar"]
    record = simulate(problem, Settings(), problem.h)
    assert record.steps == round(problem.seconds / problem.h)
    # it turns over and over, and stays the parallelogram it began as: all cranks alike
    corners = np.stack([record[f"B{k}"] - [k, 0] for k in range(windows + 1)])
    assert np.ptp(corners, axis=0).max() < 1e-6
    turned = np.unwrap(np.arctan2(corners[0, :, 1], corners[0, :, 0]))
    assert abs(turned[-1] - turned[0]) > 4 * math.pi
    assert np.abs(energies(record) - energies(record)[0]).max() < 0.01 * (2 * windows + 1)


def test_the_loop_stays_closed_with_stabilisation_and_opens_without():
    found = {c["label"]: np.nanmax(c["open_by"]) for c in stabilisation(2.0)["curves"]}
    assert found["i3al"] < 1e-9 and found["projection"] < 1e-8
    assert found["none"] > 10 * found["baumgarte"] > 1e3 * found["i3al"]


def test_the_same_run_twice_is_the_same_bits():
    problem = PROBLEMS["slider-crank"]
    one, other = (run(begin(problem, Settings(), problem.h), 0.2, problem.h) for _ in range(2))
    assert one.states.tobytes() == other.states.tobytes()


def test_the_cost_of_a_chain_grows_about_like_its_length():
    # a time, so only against what would be a mistake: a dense solution grows with the cube
    assert chain_costs((20, 80))["exponent"] < 2.0
