"""What makes no step: look at a state, find its accelerations, assemble its tangent, solve with it.

The four are one compiled entry point, since each of its own would compile most of the core again.
"""

from typing import Any

import numpy as np
from numba import float64, int64, void

from sync.compile.array_types import CONSTANTS
from sync.compile.jit import inner, kernel
from tandem.multibody.natural.assembly import add_mass_times, assemble, evaluate_kinematics, mask, set_inputs
from tandem.multibody.natural.augmented import applied_power
from tandem.multibody.natural.cholesky import factorise, solve
from tandem.multibody.natural.constraints import (
    add_transposed,
    jacobian,
    times_jacobian,
    velocities,
    velocity_terms,
)  # fmt: skip
from tandem.multibody.natural.tables import ACCELERATE, HOOK, INTS, KINEMATICS, REALS, SOLVE, TANGENT, P
from tandem.multibody.natural.unrolled import forces
from tandem.multibody.natural.views import part

MULTIPLIER_PASSES = 12
ENOUGH = 1e-12  # relative change of the accelerations that ends the passes


@inner
def solve_accelerations(ints, reals, state, work, rate, damping):
    """qdd and lam from the forces and the Jacobian at hand, by the augmented Lagrangian of index 1.

    The second derivative of the constraints becomes -2 damping rate dPhi/dt - rate^2 Phi (Baumgarte) or 0. Redundant
    constraints share their load evenly; the factor is of M + Phi_q^T W Phi_q.
    """
    qdd, lam = part(ints, state, P.QDD), part(ints, state, P.LAM)
    n = len(qdd)
    Q, rhs, r = part(ints, work, P.FORCE), part(ints, work, P.RHS), part(ints, work, P.RESIDUAL)
    weight, phi = part(ints, reals, P.WEIGHT), part(ints, work, P.PHI)
    second = part(ints, work, P.SECOND)
    assemble(ints, reals, work, 0.0, 0.0)
    factorise(ints, work)
    velocities(ints, reals, work, r)
    mask(ints, reals, r)
    velocity_terms(ints, reals, work, second)
    for k in range(len(lam)):
        second[k] += 2.0 * damping * rate * r[k] + rate * rate * phi[k]
        r[k] = second[k]
    times_jacobian(ints, part(ints, work, P.JAC), qdd, r)
    for _ in range(MULTIPLIER_PASSES):
        for i in range(n):
            rhs[i] = Q[i]
        add_mass_times(ints, reals, qdd, -1.0, rhs)
        for k in range(len(lam)):
            r[k] = lam[k] + weight[k] * r[k]
        add_transposed(ints, part(ints, work, P.JAC_FACTOR), r, -1.0, rhs)
        solve(ints, work, rhs)
        size = 0.0
        change = 0.0
        for i in range(n):
            qdd[i] += rhs[i]
            size = max(size, abs(qdd[i]))
            change = max(change, abs(rhs[i]))
        for k in range(len(lam)):
            r[k] = second[k]
        times_jacobian(ints, part(ints, work, P.JAC), qdd, r)
        for k in range(len(lam)):
            lam[k] += weight[k] * r[k]
        if change <= ENOUGH * size:
            break


@kernel(void(INTS, CONSTANTS, REALS, REALS, HOOK, int64, float64, float64), error_model="numpy")
def examine(ints, reals, state, work, hook, what, ck, cc):
    if what == SOLVE:
        factorise(ints, work)
        solve(ints, work, part(ints, work, P.RHS))
        return
    time = part(ints, state, P.TIME)
    set_inputs(ints, reals, state, time[0])
    evaluate_kinematics(ints, reals, state, work, part(ints, state, P.Q), part(ints, state, P.QD))
    forces(ints, reals, state, work, hook, time[0], 0.0)
    jacobian(ints, reals, work)
    if what == ACCELERATE:
        solve_accelerations(ints, reals, state, work, 0.0, 0.0)
        alpha, qdd = part(ints, state, P.ALPHA), part(ints, state, P.QDD)
        for i in range(len(alpha)):
            alpha[i] = qdd[i]
        part(ints, state, P.POWER)[0] = applied_power(ints, reals, state, work, part(ints, state, P.QD))
        return
    velocities(ints, reals, work, part(ints, work, P.RESIDUAL))
    mask(ints, reals, part(ints, work, P.RESIDUAL))
    velocity_terms(ints, reals, work, part(ints, work, P.SECOND))
    if what == TANGENT:
        assemble(ints, reals, work, ck, cc)


def evaluate(ints: np.ndarray, reals: np.ndarray, state: np.ndarray, work: np.ndarray, hook: Any) -> None:
    """Inputs, V, Phi, Jacobian, forces with their K and C, dPhi/dt (in RESIDUAL) and its velocity terms (in SECOND)."""
    examine(ints, reals, state, work, hook, KINEMATICS, 0.0, 0.0)


def tangent(
    ints: np.ndarray, reals: np.ndarray, state: np.ndarray, work: np.ndarray, hook: Any, ck: float, cc: float
) -> None:
    """M + ck K + cc C + Phi_q^T W Phi_q of a state into FACTOR, not factorised."""
    examine(ints, reals, state, work, hook, TANGENT, ck, cc)


def accelerate(ints: np.ndarray, reals: np.ndarray, state: np.ndarray, work: np.ndarray, hook: Any) -> None:
    """The acceleration problem: qdd and lam of a consistent state, and the power that energy residuals start from."""
    examine(ints, reals, state, work, hook, ACCELERATE, 0.0, 0.0)


def solve_tangent(ints: np.ndarray, reals: np.ndarray, state: np.ndarray, work: np.ndarray, hook: Any) -> None:
    """RHS becomes the solution with the matrix in FACTOR, which is factorised."""
    examine(ints, reals, state, work, hook, SOLVE, 0.0, 0.0)
