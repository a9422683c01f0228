"""The references stand on their own: each against another method, an invariant, or a case everybody knows."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.examples import few
from verify.multibody.references import chains, closed_form, elliptic, jets, linkages, one_freedom, rigid_body
from verify.multibody.references.extrapolation import integrate

TIMES = np.linspace(0.0, 3.0, 13)


def test_complete_integral_has_its_tabled_values():
    # Abramowitz and Stegun, table 17.1; K(1/2) = Γ(1/4)²/(4√π)
    assert elliptic.complete(0.0) == pytest.approx(math.pi / 2, rel=1e-15)
    assert elliptic.complete(0.5) == pytest.approx(math.gamma(0.25) ** 2 / (4 * math.sqrt(math.pi)), rel=1e-14)
    assert elliptic.complete(0.99) == pytest.approx(3.695637362989875, rel=1e-13)


@given(m=st.floats(0, 0.999), u=st.floats(-20, 20))
def test_jacobi_functions_satisfy_their_identities(m, u):
    sn, cn, dn = elliptic.jacobi(np.array([u]), m)
    assert sn**2 + cn**2 == pytest.approx(1, abs=1e-13)
    assert dn**2 + m * sn**2 == pytest.approx(1, abs=1e-13)
    ahead, _, _ = elliptic.jacobi(np.array([u + 4 * elliptic.complete(m)]), m)
    assert ahead == pytest.approx(sn, abs=1e-10)


@settings(max_examples=few(25), deadline=None)
@given(angle=st.floats(-3.0, 3.0), rate=st.floats(-9, 9), omega=st.floats(0.5, 5))
def test_the_exact_pendulum_agrees_with_its_equation_of_motion(angle, rate, omega):
    m = (rate / omega / 2) ** 2 + math.sin(angle / 2) ** 2
    assume(abs(m - 1) > 1e-2 and (m == 0 or m > 1e-6))  # near the separatrix and at rest the formula is ill-conditioned
    assume(rate == 0 or abs(rate) > 1e-3)
    exact, speed = closed_form.pendulum(TIMES, angle, rate, omega)
    found = integrate(lambda _, y: np.array([y[1], -(omega**2) * math.sin(y[0])]), np.array([angle, rate]), TIMES)
    np.testing.assert_allclose(np.sin(exact), np.sin(found[:, 0]), atol=2e-10)
    np.testing.assert_allclose(np.cos(exact), np.cos(found[:, 0]), atol=2e-10)
    np.testing.assert_allclose(speed, found[:, 1], atol=1e-9)


def test_extrapolation_is_exact_to_rounding_on_a_circle():
    found = integrate(lambda _, y: np.array([y[1], -y[0]]), np.array([1.0, 0.0]), np.array([0.0, 1.0, 20 * math.pi]))
    np.testing.assert_allclose(found[-1], [1.0, 0.0], atol=1e-11)
    np.testing.assert_allclose(found[1], [math.cos(1), -math.sin(1)], atol=1e-13)


@given(x=st.floats(-0.9, 0.9))
def test_jets_carry_both_derivatives(x):
    # f = sin(x) √(1 + x²)/(2 + cos x) − arcsin x, against differences of the values
    def f(s):
        return jets.sin(s) * jets.sqrt(1 + s * s) / (2 + jets.cos(s)) - jets.arcsin(s)

    h = 1e-4
    here, ahead, behind = f(jets.variable(x)), f(jets.variable(x + h)), f(jets.variable(x - h))
    assert here.d == pytest.approx((ahead.v - behind.v) / (2 * h), rel=1e-4, abs=1e-5)
    assert here.dd == pytest.approx((ahead.d - behind.d) / (2 * h), rel=1e-4, abs=1e-5)


LINKAGES = {
    "slider-crank": (linkages.slider_crank(0.3, 0.9, (1.0, 2.0, 3.0)), 0.2, 12.0),
    "four-bar": (linkages.four_bar(1.0, 0.3, 0.9, 0.8, (1.0, 2.0, 2.0)), 0.4, 15.0),
    "N-four-bar": (linkages.n_four_bar(3), 0.5, 8.0),
    "spatial slider-crank": (linkages.spatial_slider_crank((0.1, 0.12), 0.08, 0.3, (0.12, 0.5, 2.0)), 0.0, 20.0),
    "bricard": (linkages.bricard(), 0.0, 4.0),
}


@pytest.mark.parametrize("name", LINKAGES)
def test_quadrature_and_equation_of_motion_give_one_linkage_the_same_time(name):
    known, s0, rate0 = LINKAGES[name]
    times = np.array([0.0, 0.35, 0.8])
    s, rate = one_freedom.motion(known.linkage, s0, rate0, times)
    assert np.ptp(known.linkage.energy(s, rate)) < 1e-9 * (1 + abs(known.linkage.energy(s, rate)[0]))
    for t, end in zip(times[1:], s[1:], strict=True):
        assert one_freedom.passage(known.linkage, s0, rate0, end) == pytest.approx(t, abs=1e-10)


@pytest.mark.parametrize("name", LINKAGES)
def test_the_series_of_a_linkage_is_the_linkage(name):
    known, s, _ = LINKAGES[name]
    inertia, slope, potential, pull = known.linkage.terms(s + 1.0)
    found = one_freedom.Series(known.linkage)(s + 1.0)
    np.testing.assert_allclose(found, [inertia, potential, slope, pull], rtol=1e-10, atol=1e-10)


@given(s=st.floats(-7, 7))
def test_four_bar_keeps_its_lengths(s):
    b, c = linkages.four_bar(1.0, 0.3, 0.9, 0.8, (1.0, 2.0, 2.0)).joints(jets.variable(s))
    assert np.linalg.norm(b.v) == pytest.approx(0.3, abs=1e-12)
    assert np.linalg.norm(c.v - b.v) == pytest.approx(0.9, abs=1e-12)
    assert np.linalg.norm(c.v - [1, 0, 0]) == pytest.approx(0.8, abs=1e-12)


@given(s=st.floats(-7, 7))
def test_bricard_closes_with_the_right_hinge_at_the_ground(s):
    frames = linkages.bricard_frames(jets.variable(s))
    start, direction, axis = frames[-1]
    np.testing.assert_allclose((start + direction).v, [0, 0, 1], atol=1e-12)
    # the last hinge stands at right angles on both its bars, as the ground has it: along x
    last = np.cross(direction.v, axis.v)
    np.testing.assert_allclose(np.abs(last), [1, 0, 0], atol=1e-12)


def test_bricard_starts_on_the_edges_of_a_cube():
    corners = [j.v for j in linkages.bricard().joints(jets.variable(0.0))]
    np.testing.assert_allclose(corners, [[1, 0, 0], [1, -1, 0], [1, -1, 1], [0, -1, 1], [0, 0, 1]], atol=1e-15)


def test_a_bar_of_particles_has_the_moments_of_the_bar():
    axes = tuple(jets.jet(row) for row in np.eye(3))
    masses, places = one_freedom.bar(jets.jet(np.zeros(3)), axes, 2.0, 0.3, 5.0)
    at = np.array([p.v for p in places])
    moments = np.einsum("k,ki,kj->ij", masses, at - [1, 0, 0], at - [1, 0, 0])
    assert sum(masses) == pytest.approx(5.0)
    np.testing.assert_allclose(moments, np.diag([5 * 4 / 12, 5 * 0.09 / 12, 5 * 0.09 / 12]), atol=1e-14)


@settings(max_examples=few(30), deadline=None)
@given(st.integers(1, 7).flatmap(lambda n: st.lists(st.floats(-3, 3), min_size=2 * n, max_size=2 * n)))
def test_recursive_and_dense_dynamics_of_a_chain_agree(values):
    n = len(values) // 2
    phi, rate = np.array(values[:n]), np.array(values[n:])
    one = chains.accelerations(phi, rate, 0.7, 1.3)
    other = chains.dense_accelerations(phi, rate, 0.7, 1.3)
    np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def test_a_chain_of_one_rod_is_the_exact_pendulum():
    phi, _ = chains.motion(np.array([0.0]), np.array([0.0]), TIMES, 2.0, 1.0)
    exact, _ = closed_form.pendulum(TIMES, math.pi / 2, 0.0, math.sqrt(1.5 * one_freedom.GRAVITY / 2.0))
    np.testing.assert_allclose(phi[:, 0], exact - math.pi / 2, atol=1e-11)


def test_a_chain_keeps_its_energy():
    phi, rate = chains.motion(np.zeros(4), np.zeros(4), np.linspace(0, 1, 5), 0.5, 2.0)
    assert np.ptp(chains.energy(phi, rate, 0.5, 2.0)) < 1e-10


def test_a_free_body_keeps_energy_and_angular_momentum():
    inertia = np.array([1.0, 2.0, 3.0])
    turned, w = rigid_body.motion(inertia, np.array([0.1, 4.0, 0.2]), TIMES)
    assert np.ptp(0.5 * np.sum(inertia * w**2, axis=1)) < 1e-11
    assert np.max(np.ptp(np.einsum("tij,tj->ti", turned, inertia * w), axis=0)) < 1e-10


def test_a_symmetric_body_precesses_at_the_rate_of_the_formula():
    inertia = np.array([2.0, 2.0, 3.0])
    _, w = rigid_body.motion(inertia, np.array([1.0, 0.0, 5.0]), TIMES)
    drift = (3.0 - 2.0) / 2.0 * 5.0
    np.testing.assert_allclose(w[:, 0], np.cos(drift * TIMES), atol=1e-11)
    np.testing.assert_allclose(w[:, 1], np.sin(drift * TIMES), atol=1e-11)


def test_a_top_keeps_energy_and_the_momentum_about_the_vertical():
    inertia, centre, mass = np.array([0.6, 0.6, 0.1]), np.array([0.0, 0.3, 0.4]), 2.0
    turned, w = rigid_body.motion(inertia, np.array([0.3, 0.1, 20.0]), TIMES, mass, centre)
    momentum = np.einsum("tij,tj->ti", turned, inertia * w)[:, 2]
    energy = 0.5 * np.sum(inertia * w**2, axis=1) + mass * one_freedom.GRAVITY * (turned @ centre)[:, 2]
    assert np.ptp(momentum) < 1e-10
    assert np.ptp(energy) < 1e-10


def test_the_oscillator_satisfies_its_equation():
    x, v = closed_form.oscillator(TIMES, 0.3, -1.0, 2.0, 50.0, 1.5, 4.0)
    found = integrate(lambda _, y: np.array([y[1], (4 - 1.5 * y[1] - 50 * y[0]) / 2]), np.array([0.3, -1.0]), TIMES)
    np.testing.assert_allclose(np.stack([x, v], axis=1), found, atol=1e-11)
