"""Coefficients of Rosenbrock methods, as flat tables.

In the form without products by the Jacobian (Hairer and Wanner, Solving Ordinary Differential Equations II, IV.7):

    (1/(h gamma) - J) u_i = f(t + alpha_i h, y + sum_j a_ij u_j) + sum_j c_ij/h u_j + gamma_i h f_t,    j < i
    y_next = y + sum_i m_i u_i,   error = sum_i e_i u_i   (the difference to a solution of one order less)

With (gamma_ij) = (1/gamma - C)^-1, alpha_i and gamma_i are sums of rows of (a_ij)(gamma_ij) and of (gamma_ij): they are
computed here from the published a, c, gamma, and the tests check the order conditions of the result.

    LINEAR_EULER  linear-implicit Euler: order 1, L-stable
    ROS2          order 2, L-stable; gamma = 1 - 1/sqrt(2), whose error constant is 1/34 of that of 1 + 1/sqrt(2)
    RODAS3        order 3(2), four stages with three evaluations, L-stable and stiffly accurate (Sandu et al. 1997)
    RODAS4        order 4(3), six stages, L-stable and stiffly accurate (Hairer and Wanner)

A table is: stages, gamma, then alpha, gamma_i, m, e, and whether f is that of the step's beginning (all by stage), then
a and c by rows.
"""

from collections.abc import Sequence
from math import sqrt

import numpy as np

STAGES, GAMMA, FIRST = range(3)
ALPHA, GAMMA_SUM, M, E, REUSED = range(5)  # blocks of `stages` entries
ROW_BLOCKS = 5


def _table(
    gamma: float,
    a: Sequence[Sequence[float]],
    c: Sequence[Sequence[float]],
    m: Sequence[float],
    e: Sequence[float],
) -> np.ndarray:
    stages = len(m)
    A, C, inverse = (np.zeros((stages, stages)) for _ in range(3))
    for i in range(1, stages):
        A[i, :i], C[i, :i] = a[i - 1], c[i - 1]
    # rows of the inverse of (1/gamma - C), a lower triangle, without a library
    for i in range(stages):
        inverse[i, i] = gamma
        for j in range(i):
            inverse[i, j] = gamma * sum(C[i, k] * inverse[k, j] for k in range(j, i))
    gamma_sum = [sum(row) for row in inverse.tolist()]
    alpha = [sum(A[i, k] * gamma_sum[k] for k in range(i)) for i in range(stages)]
    reused = [float(not A[i].any()) for i in range(stages)]
    return np.concatenate([[stages, gamma], alpha, gamma_sum, m, e, reused, A.ravel(), C.ravel()])


_G = 1.0 - 1.0 / sqrt(2.0)

LINEAR_EULER = _table(1.0, [], [], [1.0], [0.0])

ROS2 = _table(_G, [[1.0 / _G]], [[-2.0 / _G]], [1.5 / _G, 0.5 / _G], [0.5 / _G, 0.5 / _G])

RODAS3 = _table(
    0.5,
    [[0.0], [2.0, 0.0], [2.0, 0.0, 1.0]],
    [[4.0], [1.0, -1.0], [1.0, -1.0, -8.0 / 3.0]],
    [2.0, 0.0, 1.0, 1.0],
    [0.0, 0.0, 0.0, 1.0],
)

_FIFTH = [1.221224509226641, 6.019134481288629, 12.53708332932087, -0.6878860361058950]
RODAS4 = _table(
    0.25,
    [
        [1.544],
        [0.9466785280815826, 0.2557011698983284],
        [3.314825187068521, 2.896124015972201, 0.9986419139977817],
        _FIFTH,
        [*_FIFTH, 1.0],
    ],
    [
        [-5.6688],
        [-2.430093356833875, -0.2063599157091915],
        [-0.1073529058151375, -9.594562251023355, -20.47028614809616],
        [7.496443313967647, -10.24680431464352, -33.99990352819905, 11.70890893206160],
        [8.083246795921522, -7.981132988064893, -31.52159432874371, 16.31930543123136, -6.058818238834054],
    ],
    [*_FIFTH, 1.0, 1.0],
    [0.0, 0.0, 0.0, 0.0, 0.0, 1.0],
)
