"""The factored covariance beside numpy's full matrices: update, prediction, factorisation."""

import numpy as np
import pytest

from sync.compile.jit import kernel
from tandem.estimation.factored import (
    PADDING,
    SCRATCH,
    apply,
    factorise_covariance,
    innovation_variance,
    multiply_out_covariance,
    predict_covariance,
)

N = 9


@kernel(error_model="numpy")
def update(U, d, H, r, f, g, K):
    s = innovation_variance(U, d, H, r, f, g)
    apply(U, d, r, f, g, K)
    return s


def update_covariance(U, d, H, r):
    """The variance of the innovation, and the gain."""
    n = len(d)
    padded, K = np.concatenate([U, np.zeros(PADDING)]), np.zeros(n)
    s = float(update(padded, d, np.concatenate([H, np.zeros(PADDING)]), r, np.zeros(n), np.zeros(n), K))
    U[:] = padded[: n * n]
    return s, K


def full(U, d):
    P = np.zeros(len(d) ** 2)
    multiply_out_covariance(U, d, P)
    upper = np.triu(P.reshape(len(d), len(d)).T)
    return upper + np.triu(upper, 1).T


def made(seed, scale=None, n=N):
    A = np.random.default_rng(seed).normal(size=(n, n))
    P = A @ A.T
    P = P if scale is None else P * np.outer(scale, scale)
    U, d = np.zeros(n * n), np.zeros(n)
    assert factorise_covariance(P.T.ravel().copy(), U, d) == 0
    return P, U, d


def test_factors_multiply_to_what_they_were_made_of():
    P, U, d = made(0)
    assert np.allclose(full(U, d), P, rtol=1e-12, atol=1e-12)
    assert np.all(d > 0)


def test_an_update_is_that_of_the_full_matrix():
    P, U, d = made(1)
    H = np.random.default_rng(2).normal(size=N)
    H[:5] = 0.0  # columns before it are left alone
    s, K = update_covariance(U, d, H, 0.3)
    gain = P @ H / (H @ P @ H + 0.3)
    assert np.isclose(s, H @ P @ H + 0.3)
    assert np.allclose(K, gain)
    I_KH = np.eye(N) - np.outer(gain, H)
    assert np.allclose(full(U, d), I_KH @ P @ I_KH.T + 0.3 * np.outer(gain, gain))  # Joseph's form


@pytest.mark.parametrize(("n", "rows", "columns"), [(3, 2, 3), (8, 5, 7), (9, 4, 6), (18, 13, 16), (47, 43, 45)])
def test_a_prediction_is_that_of_the_full_matrix(n, rows, columns):
    P, U, d = made(3, n=n)
    rng = np.random.default_rng(4)
    F, B = rng.normal(size=(rows, columns)), rng.normal(size=(n, n))
    T, Q = np.eye(n), 0.1 * B @ B.T
    T[:rows, :columns] = F
    T[:rows, columns:] = 0.0
    room = np.zeros(n), np.zeros(n * (n + 3)), np.zeros(SCRATCH * (n + 3))
    assert predict_covariance(U, d, F.T.ravel().copy(), rows, columns, Q.ravel(), *room) == 0
    assert np.allclose(full(U, d), T @ P @ T.T + Q)


def test_it_stays_positive_where_the_full_matrix_does_not():
    """Very good readings of very uncertain states, of very different sizes: (1 - K H) P loses its sign."""
    rng = np.random.default_rng(5)
    P, U, d = made(5, 10.0 ** rng.uniform(-6, 6, N))
    simple = P.copy()
    lowest = []
    for _ in range(20):
        H = rng.normal(size=N)
        update_covariance(U, d, H, 1e-12)
        simple = simple - np.outer(simple @ H, H @ simple) / (H @ simple @ H + 1e-12)
        assert np.all(d > 0)
        lowest.append(np.linalg.eigvalsh(simple).min())
    assert min(lowest) < 0


def test_what_rounding_made_negative_is_raised_and_counted():
    P = np.ones((3, 3))
    P[2, 2] = 1.0 - 1e-13
    U, d = np.zeros(9), np.zeros(3)
    assert factorise_covariance(P.T.ravel().copy(), U, d) > 0
    assert np.all(d > 0)
