"""Every constraint and every force against finite differences, in random positions far from any assembled one."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem.multibody.natural.api import State, System
from tandem.multibody.natural.tables import P
from tests.examples import few
from tests.tandem.multibody.natural.mechanisms import everything

STEP = 1e-5


@pytest.fixture(scope="module")
def system() -> System:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # equations of all kinds on two bodies contradict each other
        return everything()


def random_state(system: System, seed: int) -> State:
    rng = np.random.default_rng(seed)
    state = system.state()
    state.q[:] = rng.normal(size=system.n)
    state.qd[:] = rng.normal(size=system.n)
    state.qdd[:] = rng.normal(size=system.n)
    state.elements[:] = rng.normal(size=len(state.elements))
    state.time = rng.uniform(0.0, 1.0)
    state.inputs[system.mechanism.inputs["load"].index] = rng.normal(size=3)
    return state


SEEDS = st.integers(0, 2**32 - 1)


@given(SEEDS)
@settings(max_examples=few(20), deadline=None)
def test_the_jacobian_is_the_derivative_of_every_constraint(system: System, seed: int) -> None:
    state = random_state(system, seed)
    J = state.jacobian()
    for i in range(system.n):
        before = state.q[i]
        state.q[i] = before + STEP
        high = state.phi()
        state.q[i] = before - STEP
        difference = (high - state.phi()) / (2.0 * STEP)
        state.q[i] = before
        np.testing.assert_allclose(J[:, i], difference, atol=1e-8 * (1.0 + np.abs(J).max()))


@given(SEEDS)
@settings(max_examples=few(20), deadline=None)
def test_tables_say_what_the_expressions_say(system: System, seed: int) -> None:
    state = random_state(system, seed)
    state.evaluate()  # inputs of this time
    expected = [c.value(state.q, state.inputs[:, 0]) for c in system.constraints]
    np.testing.assert_allclose(state.phi(), expected, atol=1e-12 * (1.0 + np.abs(expected).max()))


@given(SEEDS)
@settings(max_examples=few(20), deadline=None)
def test_rates_of_the_constraints_are_their_derivatives_in_time(system: System, seed: int) -> None:
    """Along q(t) = q + qd t + qdd t^2 / 2, with inputs that follow their laws of time."""
    state = random_state(system, seed)
    second = system.part(P.SECOND, state.evaluate()).copy()

    def moved(t: float) -> State:
        other = state.copy()
        other.time = state.time + t
        other.q += t * state.qd + 0.5 * t * t * state.qdd
        other.qd += t * state.qdd
        return other

    phid = state.phid()
    difference = (moved(STEP).phi() - moved(-STEP).phi()) / (2.0 * STEP)
    np.testing.assert_allclose(phid, difference, atol=1e-7 * (1.0 + np.abs(phid).max()))
    difference = (moved(STEP).phid() - moved(-STEP).phid()) / (2.0 * STEP)
    exact = second + state.jacobian() @ state.qdd
    np.testing.assert_allclose(exact, difference, atol=1e-6 * (1.0 + np.abs(exact).max()))


@given(SEEDS)
@settings(max_examples=few(20), deadline=None)
def test_stiffness_and_damping_are_derivatives_of_the_port_forces(system: System, seed: int) -> None:
    state = random_state(system, seed)
    work = state.evaluate()
    D = np.vstack([p.jacobian(system.n) for e in system.elements for p in e.ports])
    K, C = _blocks(system, work, P.PORT_K), _blocks(system, work, P.PORT_C)
    # friction has a secant in place of its derivative, on purpose
    smooth = np.array([e.name not in ("rub", "rough floor") for e in system.elements for _ in e.ports])
    for vector, exact in ((state.q, K), (state.qd, C)):
        for i in range(system.n):
            before = vector[i]
            vector[i] = before + STEP
            high = system.part(P.PORT_FORCE, state.evaluate()).copy()
            vector[i] = before - STEP
            low = system.part(P.PORT_FORCE, state.evaluate()).copy()
            vector[i] = before
            difference = -(high - low) / (2.0 * STEP)
            np.testing.assert_allclose(
                (exact @ D[:, i])[smooth], difference[smooth], atol=2e-6 * (1.0 + np.abs(exact).max())
            )


def _blocks(system: System, work: np.ndarray, which: P) -> np.ndarray:
    """The block-diagonal matrix of all elements."""
    sizes = [len(e.ports) for e in system.elements]
    out = np.zeros((sum(sizes), sum(sizes)))
    flat, at, start = system.part(which, work).copy(), 0, 0
    for size in sizes:
        out[at : at + size, at : at + size] = flat[start : start + size * size].reshape(size, size)
        at, start = at + size, start + size * size
    return out


@given(SEEDS)
@settings(max_examples=few(10), deadline=None)
def test_port_forces_reach_the_coordinates_by_virtual_work(system: System, seed: int) -> None:
    state = random_state(system, seed)
    work = state.evaluate()
    D = np.vstack([p.jacobian(system.n) for e in system.elements for p in e.ports])
    gravity = system.part(P.CONSTANT_FORCE)
    np.testing.assert_allclose(state.forces(), gravity + D.T @ system.part(P.PORT_FORCE, work), atol=1e-9, rtol=1e-12)


@given(SEEDS, st.floats(1e-6, 1e-2))
@settings(max_examples=few(10), deadline=None)
def test_the_tangent_is_assembled_as_its_formula_says(system: System, seed: int, scale: float) -> None:
    from tandem.multibody.natural import evaluation

    state = random_state(system, seed)
    work = state.evaluate()
    D = np.vstack([p.jacobian(system.n) for e in system.elements for p in e.ports])
    K, C = D.T @ _blocks(system, work, P.PORT_K) @ D, D.T @ _blocks(system, work, P.PORT_C) @ D
    J, W = state.jacobian(), np.diag(system.weights)
    expected = system.mass() + scale**2 * 0.5 * (K + K.T) + scale * 0.5 * (C + C.T) + J.T @ W @ J
    evaluation.tangent(system.ints, system.reals, state.vector, work, system.hook, scale**2, scale)
    got = system.pattern.matrix(system.part(P.FACTOR, work))
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-12 * np.abs(expected).max())
