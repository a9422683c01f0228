"""Entry points that make no step: look at a state, find its accelerations, solve with its tangent."""

from numba import float64, void

from sim_service.multibody.natural.assembly import add_mass_times, assemble, forces, look, mask, set_inputs
from sim_service.multibody.natural.augmented import applied_power
from sim_service.multibody.natural.cholesky import factorise, solve
from sim_service.multibody.natural.constraints import (
    add_transposed,
    jacobian,
    times_jacobian,
    velocities,
    velocity_terms,
)  # fmt: skip
from sim_service.multibody.natural.tables import HOOK, INTS, REALS, P, inner, part
from sync.jit import kernel

MULTIPLIER_PASSES = 12
ENOUGH = 1e-12  # relative change of the accelerations that ends the passes


@kernel(void(INTS, REALS, REALS, REALS, HOOK), error_model="numpy")
def evaluate(ints, reals, state, work, hook):
    """Inputs, V, Phi, Jacobian, forces with their K and C, and dPhi/dt (in RESIDUAL) of a state."""
    time = part(ints, state, P.TIME)
    set_inputs(ints, reals, state, time[0])
    look(ints, reals, state, work, part(ints, state, P.Q), part(ints, state, P.QD))
    forces(ints, reals, state, work, hook, time[0], 0.0)
    jacobian(ints, reals, work)
    velocities(ints, reals, work, part(ints, work, P.RESIDUAL))
    mask(ints, reals, part(ints, work, P.RESIDUAL))


@kernel(void(INTS, REALS, REALS, REALS, HOOK, float64, float64), error_model="numpy")
def tangent(ints, reals, state, work, hook, ck, cc):
    """M + ck K + cc C + Phi_q^T W Phi_q of a state into FACTOR, not factorised."""
    evaluate(ints, reals, state, work, hook)
    assemble(ints, reals, work, ck, cc)


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


@kernel(void(INTS, REALS, REALS, REALS, HOOK), error_model="numpy")
def accelerate(ints, reals, state, work, hook):
    """The acceleration problem: qdd and lam of a consistent state, and the power that energy residuals start from."""
    evaluate(ints, reals, state, work, hook)
    solve_accelerations(ints, reals, state, work, 0.0, 0.0)
    part(ints, state, P.POWER)[0] = applied_power(ints, state, work, part(ints, state, P.QD))


@kernel(void(INTS, REALS, REALS), error_model="numpy")
def second_terms(ints, reals, work):
    """dPhi_q/dt qd + dPhi_t/dt of a state that was evaluated, into SECOND."""
    velocity_terms(ints, reals, work, part(ints, work, P.SECOND))


@kernel(void(INTS, REALS, REALS), error_model="numpy")
def solve_tangent(ints, work, b):
    """b becomes the solution with the matrix in FACTOR, which is factorised first."""
    factorise(ints, work)
    solve(ints, work, b)
