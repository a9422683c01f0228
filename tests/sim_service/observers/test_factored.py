"""The factored covariance beside numpy's full matrices: update, prediction, factorisation."""

import numpy as np

from sim_service.observers.factored import (
    SCRATCH,
    factorise_covariance,
    multiply_out_covariance,
    predict_covariance,
    update_covariance,
)

N, ROWS, COLUMNS = 9, 4, 6


def full(U, d):
    P = np.zeros(len(d) ** 2)
    multiply_out_covariance(U, d, P)
    upper = np.triu(P.reshape(len(d), len(d)).T)
    return upper + np.triu(upper, 1).T


def made(seed, scale=None):
    A = np.random.default_rng(seed).normal(size=(N, N))
    P = A @ A.T
    P = P if scale is None else P * np.outer(scale, scale)
    U, d = np.zeros(N * N), np.zeros(N)
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


def test_a_prediction_is_that_of_the_full_matrix():
    P, U, d = made(3)
    rng = np.random.default_rng(4)
    F, B = rng.normal(size=(ROWS, COLUMNS)), rng.normal(size=(N, N))
    T, Q = np.eye(N), 0.1 * B @ B.T
    T[:ROWS, :COLUMNS] = F
    T[:ROWS, COLUMNS:] = 0.0
    assert (
        predict_covariance(
            U,
            d,
            F.T.ravel().copy(),
            ROWS,
            COLUMNS,
            Q.ravel(),
            np.zeros(N),
            np.zeros(N * 12),
            np.zeros(SCRATCH * 12),
        )
        == 0
    )
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
