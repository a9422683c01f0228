"""I3AL: the index-3 augmented Lagrangian step with mass-damping-stiffness orthogonal projections.

    M qdd + Phi_q^T (alpha Phi + lam) = Q,   Newmark:  q = q_n + h qd_n + h^2 ((1/2 - beta) qdd_n + beta qdd), ...

Newton corrections of q with the tangent A = M + gamma h C + beta h^2 K + Phi_q^T W Phi_q, W = beta h^2 alpha, and
lam += alpha Phi after each; then velocities and accelerations are brought onto their constraints in the metric of the
same tangent, A x = -Phi_q^T W r, repeated until the residual r is small: each pass divides r by about 1 + W / m.
beta = (1 + xi)^2 / 4, gamma = 1/2 + xi: xi = 0 is the trapezoidal rule, larger dissipates.

The factorisation is made at the prediction and made again only when the corrections do not shrink well; everything
that is multiplied by W uses the Jacobian it was made with (see `assemble`). Redundant
constraints and singular positions need no care: M keeps A regular, and where the corrections stop shrinking the cap
ends the step, which is then marked as capped.
"""

from math import isfinite

from numba import float64, void

from sim_service.multibody.natural.assembly import (
    add_mass_times,
    assemble,
    forces,
    kinetic_energy,
    largest,
    look_within,
    mask,
    set_inputs,
)  # fmt: skip
from sim_service.multibody.natural.cholesky import factorise, solve
from sim_service.multibody.natural.constraints import (
    add_transposed,
    evaluate_rates,
    jacobian,
    times_jacobian,
    velocities,
    velocity_terms,
)  # fmt: skip
from sim_service.multibody.natural.tables import (
    BAD_PIVOTS,
    CAP,
    CAPPED,
    CONTRACTION,
    CORRECTION,
    ENERGY_RESIDUAL,
    FACTORISATIONS,
    HOOK,
    INTS,
    ITERATIONS,
    KINETIC,
    PASSES,
    PHI_ERROR,
    PHID_ERROR,
    REALS,
    REFACTOR,
    TOLERANCE,
    TOLERANCE_ACCELERATION,
    TOLERANCE_PHI,
    TOLERANCE_VELOCITY,
    XI,
    P,
)
from sim_service.multibody.natural.views import inner, part
from sync.array_types import CONSTANTS
from sync.jit import kernel

STEP = void(INTS, CONSTANTS, REALS, REALS, HOOK, float64)


@inner
def project_velocities(ints, reals, state, work, qd, passes, tolerance):
    """qd onto Phi_q qd + Phi_t = 0 with the factor at hand; returns the largest residual that is left.

    One pass divides the residual by the penalty. Near singular positions some directions converge slowly; conjugate
    gradients over the passes, in the metric of the weights, find them: the operator r -> Phi_q A^-1 Phi_q^T W r has
    eigenvalues below 1, and all but a few are next to 1.
    """
    inputs, weight = part(ints, state, P.INPUT), part(ints, reals, P.WEIGHT)
    r, rhs, d = part(ints, work, P.RESIDUAL), part(ints, work, P.RHS), part(ints, work, P.SECOND)
    jac, y = part(ints, work, P.JAC), part(ints, work, P.DIRECTION)
    evaluate_rates(ints, reals, work, qd, inputs)
    velocities(ints, reals, work, r)
    mask(ints, reals, r)
    left = largest(r)
    last = 0.0
    for turn in range(passes):
        if left <= tolerance:
            break
        square = 0.0
        for k in range(len(r)):
            square += weight[k] * r[k] * r[k]
        share = square / last if turn > 0 else 0.0
        last = square
        for k in range(len(r)):
            d[k] = r[k] + share * d[k]
            y[k] = weight[k] * d[k]
        for i in range(len(rhs)):
            rhs[i] = 0.0
        add_transposed(ints, part(ints, work, P.JAC_FACTOR), y, 1.0, rhs)
        solve(ints, work, rhs)
        for k in range(len(r)):
            y[k] = 0.0
        times_jacobian(ints, jac, rhs, y)
        across = 0.0
        for k in range(len(r)):
            across += weight[k] * d[k] * y[k]
        length = square / across if across > 0.0 else 1.0
        for i in range(len(qd)):
            qd[i] -= length * rhs[i]
        for k in range(len(r)):
            r[k] -= length * y[k] if weight[k] > 0.0 else 0.0
        left = largest(r)
    evaluate_rates(ints, reals, work, qd, inputs)
    return left


@inner
def project_accelerations(ints, reals, state, work, qdd, passes, tolerance):
    """qdd onto the second derivative of the constraints; V, Vd are those of the projected velocity.

    The multipliers take their share: Newmark's accelerations, to which they belong until now, are of first order in the
    constrained directions only, and so would be the reactions.
    """
    r, rhs, weight = part(ints, work, P.RESIDUAL), part(ints, work, P.RHS), part(ints, reals, P.WEIGHT)
    terms, lam = part(ints, work, P.SECOND), part(ints, state, P.LAM)
    velocity_terms(ints, reals, work, terms)
    for turn in range(passes + 1):
        for k in range(len(r)):
            r[k] = terms[k]
        times_jacobian(ints, part(ints, work, P.JAC), qdd, r)
        mask(ints, reals, r)
        left = largest(r)
        if left <= tolerance or turn == passes:
            break
        y = part(ints, work, P.DIRECTION)
        for k in range(len(r)):
            y[k] = weight[k] * r[k]
        for i in range(len(rhs)):
            rhs[i] = 0.0
        add_transposed(ints, part(ints, work, P.JAC_FACTOR), y, -1.0, rhs)
        solve(ints, work, rhs)
        times_jacobian(ints, part(ints, work, P.JAC_FACTOR), rhs, r)
        for k in range(len(r)):
            lam[k] += weight[k] * r[k]
        for i in range(len(qdd)):
            qdd[i] += rhs[i]


@inner
def applied_power(ints, state, work, qd):
    """Power of the applied forces and of the prescribed motions, at a state that was looked at."""
    Q, lam, r = part(ints, work, P.FORCE), part(ints, state, P.LAM), part(ints, work, P.RESIDUAL)
    total = 0.0
    for i in range(len(qd)):
        total += Q[i] * qd[i]
    # reactions do work where Phi depends on time: -lam . Phi_q qd
    if len(part(ints, ints, P.INPUT_FORM)) > 0:
        for k in range(len(r)):
            r[k] = 0.0
        times_jacobian(ints, part(ints, work, P.JAC), qd, r)
        for k in range(len(lam)):
            total -= lam[k] * r[k]
    return total


@inner
def conclude(ints, reals, state, work, hook, h, before, phi_error, phid_error):
    """What every scheme does at the end of a step, with V, Vd and Jacobian of it: forces, element states, energy."""
    q, qd, qdd = part(ints, state, P.Q), part(ints, state, P.QD), part(ints, state, P.QDD)
    out, power = part(ints, work, P.DIAGNOSTIC), part(ints, state, P.POWER)
    forces(ints, reals, state, work, hook, part(ints, state, P.TIME)[0], h)
    elements, following = part(ints, state, P.ELEMENT), part(ints, work, P.ELEMENT_NEXT)
    for i in range(len(elements)):
        elements[i] = following[i]
    now = applied_power(ints, state, work, qd)
    after = kinetic_energy(ints, reals, qd)
    out[KINETIC] = after
    out[ENERGY_RESIDUAL] = after - before - 0.5 * h * (power[0] + now)
    power[0] = now
    power[1] += out[ENERGY_RESIDUAL]
    out[PHI_ERROR], out[PHID_ERROR] = phi_error, phid_error
    if not isfinite(largest(q) + largest(qd) + largest(qdd)):
        out[CAPPED] = 1.0


@inner
def predict(ints, reals, state, h):
    """Inputs of the end of the step, and where constant accelerations would lead."""
    q, qd, qdd = part(ints, state, P.Q), part(ints, state, P.QD), part(ints, state, P.QDD)
    time = part(ints, state, P.TIME)
    time[0] += h
    set_inputs(ints, reals, state, time[0])
    for i in range(len(q)):
        q[i] += h * (qd[i] + 0.5 * h * qdd[i])
        qd[i] += h * qdd[i]


@inner
def correct(ints, reals, state, work, beta, gamma, h):
    """One correction of q, qd, qdd and lam with the factor at hand; forces, Phi and Jacobian are those of q."""
    q, qd, qdd = part(ints, state, P.Q), part(ints, state, P.QD), part(ints, state, P.QDD)
    lam, weight, phi = part(ints, state, P.LAM), part(ints, reals, P.WEIGHT), part(ints, work, P.PHI)
    rhs, Q, y = part(ints, work, P.RHS), part(ints, work, P.FORCE), part(ints, work, P.RESIDUAL)
    old = part(ints, work, P.JAC_FACTOR)
    bh2 = beta * h * h

    # residual of the equations of motion, times beta h^2
    for i in range(len(q)):
        rhs[i] = bh2 * Q[i]
    add_mass_times(ints, reals, qdd, -bh2, rhs)
    add_transposed(ints, part(ints, work, P.JAC), lam, -bh2, rhs)
    for k in range(len(lam)):
        y[k] = weight[k] * phi[k]
    add_transposed(ints, old, y, -1.0, rhs)
    solve(ints, work, rhs)

    # multipliers: alpha Phi as the solved, linear equations see it
    for k in range(len(lam)):
        y[k] = phi[k]
    times_jacobian(ints, old, rhs, y)
    for k in range(len(lam)):
        lam[k] += weight[k] * y[k] / bh2
    for i in range(len(q)):
        q[i] += rhs[i]
        qd[i] += gamma / (beta * h) * rhs[i]
        qdd[i] += rhs[i] / bh2
    return largest(rhs)


@kernel(STEP, error_model="numpy")
def step(ints, reals, state, work, hook, h):
    """Advance `state` by h with I3AL. Diagnostics are the first entries of `work`."""
    setting, out = part(ints, reals, P.SETTING), part(ints, work, P.DIAGNOSTIC)
    q, qd, qdd = part(ints, state, P.Q), part(ints, state, P.QD), part(ints, state, P.QDD)
    time, phi = part(ints, state, P.TIME), part(ints, work, P.PHI)
    beta, gamma = 0.25 * (1.0 + setting[XI]) ** 2, 0.5 + setting[XI]
    before = kinetic_energy(ints, reals, qd)
    out[BAD_PIVOTS] = 0.0
    predict(ints, reals, state, h)
    look_within(ints, reals, state, work, q, qd)

    iterations = factored = 0
    last = contraction = error = 0.0
    done, again = False, True
    while iterations < int(setting[CAP]) and not done:
        forces(ints, reals, state, work, hook, time[0], h)
        jacobian(ints, reals, work)
        if again:
            assemble(ints, reals, work, beta * h * h, gamma * h)
            factorise(ints, work)
            factored += 1
        size = correct(ints, reals, state, work, beta, gamma, h)
        look_within(ints, reals, state, work, q, qd)
        error = largest(phi)
        done = size <= setting[TOLERANCE] and error <= setting[TOLERANCE_PHI]
        if iterations > 0 and last > 0.0:
            contraction = max(contraction, size / last)
        again = not done and iterations > 0 and size > setting[REFACTOR] * last
        last = size
        iterations += 1
    out[ITERATIONS], out[FACTORISATIONS], out[CONTRACTION] = iterations, factored, contraction
    out[CAPPED], out[CORRECTION] = 0.0 if done else 1.0, last

    passes = int(setting[PASSES])
    jacobian(ints, reals, work)
    rate = project_velocities(ints, reals, state, work, qd, passes, setting[TOLERANCE_VELOCITY])
    if passes > 0:
        project_accelerations(ints, reals, state, work, qdd, passes, setting[TOLERANCE_ACCELERATION])
    conclude(ints, reals, state, work, hook, h, before, error, rate)
