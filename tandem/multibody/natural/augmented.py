"""I3AL: the index-3 augmented Lagrangian step with mass-damping-stiffness orthogonal projections.

    M qdd + Phi_q^T (alpha Phi + lam) = Q,   Newmark:  q = q_n + h qd_n + h^2 ((1/2 - beta) qdd_n + beta qdd), ...

Newton corrections of q with the tangent A = M + gamma h C + beta h^2 K + Phi_q^T W Phi_q, W = beta h^2 alpha, and
lam += alpha Phi after each; then velocities and accelerations are brought onto their constraints in the metric of the
same tangent, A x = -Phi_q^T W r, repeated until the residual r is small: each pass divides r by about 1 + W / m.
beta = (1 + xi)^2 / 4, gamma = 1/2 + xi: xi = 0 is the trapezoidal rule, larger dissipates, with first order.

Generalised-alpha (rho < 1) dissipates with second order (Arnold and Bruels' form for constrained systems): Newmark's
rule on auxiliary accelerations a, (1 - am) a + am a_n = (1 - af) qdd + af qdd_n, with am = (2 rho - 1) / (rho + 1),
af = rho / (rho + 1), gamma = 1/2 - am + af, beta = (gamma + 1/2)^2 / 4. Then q moves by share beta h^2 where qdd moves
by 1, share = (1 - af) / (1 - am); everything else is as before, and share = 1 without it.

The factorisation is made at the prediction and made again only when the corrections do not shrink well; everything
that is multiplied by W uses the Jacobian it was made with (see `assemble`). Redundant
constraints and singular positions need no care: M keeps A regular.

A slip (a constraint of velocities alone) takes part as beta h / gamma times its speed, whose derivative by q is its row
of Phi_q but for how that row turns (Dopico and others 2014).

A step whose corrections stop shrinking is begun again: first with damped corrections, for two branches of a force that
send the iteration to each other and back (friction that breaks loose, a stop that is just touched); then in two halves.
That bounds a step by four times the cap; one that did not converge even so is marked as capped. The first attempt knows
nothing of this: a step that converges is the same to the bit, with retries or without.

What the step leaves out is estimated by (beta - 1/6) h^2 (qdd - qdd_n), the next term of Newmark's series (Zienkiewicz
and Xie 1991): STEP_ERROR, its largest component, in m or rad; of a mechanism below 1 m as a share of its size.
"""

from math import isfinite

from numba import float64, int64, void

from sync.compile.array_copy import copy
from sync.compile.array_types import CONSTANTS
from sync.compile.jit import inner, kernel
from tandem.multibody.natural.assembly import inputs_before, largest, largest_scaled, mask, set_inputs
from tandem.multibody.natural.constraints import slips
from tandem.multibody.natural.tables import (
    ATTEMPTS,
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
    RETRIES,
    RHO,
    STEP_ERROR,
    TOLERANCE,
    TOLERANCE_ACCELERATION,
    TOLERANCE_PHI,
    TOLERANCE_VELOCITY,
    XI,
    P,
)
from tandem.multibody.natural.unrolled import (
    add_mass_times,
    add_transposed,
    assemble,
    evaluate_positions,
    evaluate_rates,
    factorise,
    forces,
    jacobian,
    kinetic_energy,
    solve,
    times_jacobian,
    velocities,
    velocity_terms,
)
from tandem.multibody.natural.views import part, view

STEP = void(INTS, CONSTANTS, REALS, REALS, HOOK, float64)
LEAST_DAMPING = 1.0 / 1024.0  # share of a correction that is made at least


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
    scale = part(ints, reals, P.PHI_SCALE)
    left = largest_scaled(r, scale)
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
        add_transposed(ints, reals, part(ints, work, P.JAC_FACTOR), y, 1.0, rhs)
        solve(ints, reals, work, rhs)
        for k in range(len(r)):
            y[k] = 0.0
        times_jacobian(ints, reals, jac, rhs, y)
        across = 0.0
        for k in range(len(r)):
            across += weight[k] * d[k] * y[k]
        length = square / across if across > 0.0 else 1.0
        for i in range(len(qd)):
            qd[i] -= length * rhs[i]
        for k in range(len(r)):
            r[k] -= length * y[k] if weight[k] > 0.0 else 0.0
        left = largest_scaled(r, scale)
    evaluate_rates(ints, reals, work, qd, inputs)
    return largest(r)


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
        times_jacobian(ints, reals, part(ints, work, P.JAC), qdd, r)
        mask(ints, reals, r)
        left = largest_scaled(r, part(ints, reals, P.PHI_SCALE))
        if left <= tolerance or turn == passes:
            break
        y = part(ints, work, P.DIRECTION)
        for k in range(len(r)):
            y[k] = weight[k] * r[k]
        for i in range(len(rhs)):
            rhs[i] = 0.0
        add_transposed(ints, reals, part(ints, work, P.JAC_FACTOR), y, -1.0, rhs)
        solve(ints, reals, work, rhs)
        times_jacobian(ints, reals, part(ints, work, P.JAC_FACTOR), rhs, r)
        for k in range(len(r)):
            lam[k] += weight[k] * r[k]
        for i in range(len(qdd)):
            qdd[i] += rhs[i]


@inner
def applied_power(ints, reals, state, work, qd):
    """Power of the applied forces and of the prescribed motions, at a state that was looked at."""
    Q, lam, r = part(ints, work, P.FORCE), part(ints, state, P.LAM), part(ints, work, P.RESIDUAL)
    total = 0.0
    for i in range(len(qd)):
        total += Q[i] * qd[i]
    # reactions do work where Phi depends on time: -lam . Phi_q qd
    if len(part(ints, ints, P.INPUT_FORM)) > 0:
        for k in range(len(r)):
            r[k] = 0.0
        times_jacobian(ints, reals, part(ints, work, P.JAC), qd, r)
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
    now = applied_power(ints, reals, state, work, qd)
    after = kinetic_energy(ints, reals, qd)
    out[KINETIC] = after
    out[ENERGY_RESIDUAL] = after - before - 0.5 * h * (power[0] + now)
    power[0] = now
    power[1] += out[ENERGY_RESIDUAL]
    out[PHI_ERROR], out[PHID_ERROR] = phi_error, phid_error
    if not isfinite(largest(q) + largest(qd) + largest(qdd)):
        out[CAPPED] = 1.0


@inner
def rule(setting):
    """beta, gamma, share, and am, af of generalised-alpha."""
    rho = setting[RHO]
    if rho < 1.0:
        am, af = (2.0 * rho - 1.0) / (rho + 1.0), rho / (rho + 1.0)
        gamma = 0.5 - am + af
        return 0.25 * (gamma + 0.5) ** 2, gamma, (1.0 - af) / (1.0 - am), am, af
    return 0.25 * (1.0 + setting[XI]) ** 2, 0.5 + setting[XI], 1.0, 0.0, 0.0


@inner
def predict(ints, reals, state, h, beta, gamma, am, af):
    """Inputs of the end of the step, and where constant accelerations would lead."""
    q, qd, qdd = part(ints, state, P.Q), part(ints, state, P.QD), part(ints, state, P.QDD)
    time, alpha = part(ints, state, P.TIME), part(ints, state, P.ALPHA)
    time[0] += h
    set_inputs(ints, reals, state, time[0])
    if len(alpha) > 0:
        for i in range(len(q)):
            following = (qdd[i] - am * alpha[i]) / (1.0 - am)  # of qdd as it is
            q[i] += h * (qd[i] + h * ((0.5 - beta) * alpha[i] + beta * following))
            qd[i] += h * ((1.0 - gamma) * alpha[i] + gamma * following)
        return
    for i in range(len(q)):
        q[i] += h * (qd[i] + 0.5 * h * qdd[i])
        qd[i] += h * qdd[i]


@inner
def evaluate_slips(ints, reals, state, work, qd, share):
    """Slip speeds times a share of the step as far as they would go: in the place of Phi, with the same Jacobian."""
    if len(part(ints, ints, P.ROW_PTR)) > len(part(ints, work, P.R)) + 1:
        evaluate_rates(ints, reals, work, qd, part(ints, state, P.INPUT))
        slips(ints, reals, work, share, part(ints, work, P.PHI))
        mask(ints, reals, part(ints, work, P.PHI))


@inner
def correct(ints, reals, state, work, beta, gamma, share, h, damp):
    """One correction of q, qd, qdd and lam with the factor at hand; forces, Phi and Jacobian are those of q.

    `damp` is the share of it that is made; returned is the size of all of it.
    """
    q, qd, qdd = part(ints, state, P.Q), part(ints, state, P.QD), part(ints, state, P.QDD)
    lam, weight, phi = part(ints, state, P.LAM), part(ints, reals, P.WEIGHT), part(ints, work, P.PHI)
    rhs, Q, y = part(ints, work, P.RHS), part(ints, work, P.FORCE), part(ints, work, P.RESIDUAL)
    old = part(ints, work, P.JAC_FACTOR)
    bh2 = share * beta * h * h

    # residual of the equations of motion, times beta h^2
    for i in range(len(q)):
        rhs[i] = bh2 * Q[i]
    add_mass_times(ints, reals, qdd, -bh2, rhs)
    add_transposed(ints, reals, part(ints, work, P.JAC), lam, -bh2, rhs)
    for k in range(len(lam)):
        y[k] = weight[k] * phi[k]
    add_transposed(ints, reals, old, y, -1.0, rhs)
    solve(ints, reals, work, rhs)
    size = largest_scaled(rhs, part(ints, reals, P.SCALE))

    # multipliers: alpha Phi as the solved, linear equations see it
    for k in range(len(lam)):
        y[k] = phi[k]
    times_jacobian(ints, reals, old, rhs, y)
    for k in range(len(lam)):
        lam[k] += damp * (weight[k] * y[k] / bh2)
    for i in range(len(q)):
        dq = damp * rhs[i]
        q[i] += dq
        qd[i] += gamma / (beta * h) * dq
        qdd[i] += dq / bh2
    return size


@inner
def iterate(ints, reals, state, work, hook, h, beta, gamma, share, damped):
    """Corrections of a predicted step until they are small; whether they became so. Counts in the diagnostics."""
    setting, out = part(ints, reals, P.SETTING), part(ints, work, P.DIAGNOSTIC)
    cap = part(ints, ints, P.OPTION)[CAP]
    q, qd = part(ints, state, P.Q), part(ints, state, P.QD)
    time, phi = part(ints, state, P.TIME), part(ints, work, P.PHI)
    scale = part(ints, reals, P.PHI_SCALE)
    iterations, factored = -1, 0
    size = last = contraction = 0.0
    damp = 1.0
    done, again = False, True
    while True:  # looked at in one place, for the code of that is long
        evaluate_positions(ints, reals, state, work, q, qd)
        evaluate_slips(ints, reals, state, work, qd, beta * h / gamma)
        if iterations >= 0:
            done = size <= setting[TOLERANCE] and largest_scaled(phi, scale) <= setting[TOLERANCE_PHI]
            if iterations > 0 and last > 0.0:
                contraction = max(contraction, size / last)
                if damped:
                    # of a correction of which a share was made, 1 - share is left where the equations are linear
                    if size > (1.0 - 0.5 * damp) * last:
                        damp = max(0.5 * damp, LEAST_DAMPING)
                    else:
                        damp = 1.0 if size < 0.1 * last else min(1.25 * damp, 1.0)
            again = not done and iterations > 0 and (damped or size > setting[REFACTOR] * last)
            last = size
        iterations += 1
        if done or iterations >= cap:
            break
        forces(ints, reals, state, work, hook, time[0], h)
        jacobian(ints, reals, work)
        if again:
            assemble(ints, reals, work, share * beta * h * h, share * gamma * h)
            factorise(ints, reals, work)
            factored += 1
        size = correct(ints, reals, state, work, beta, gamma, share, h, damp)
    out[ITERATIONS] += iterations
    out[FACTORISATIONS] += factored
    out[CONTRACTION], out[CORRECTION] = contraction, last
    return done


@kernel(STEP, error_model="numpy")
def step(ints, reals, state, work, hook, h):
    """Advance `state` by h with I3AL. Diagnostics are the first entries of `work`."""
    setting, option = part(ints, reals, P.SETTING), part(ints, ints, P.OPTION)
    out = part(ints, work, P.DIAGNOSTIC)
    qd, qdd, alpha = part(ints, state, P.QD), part(ints, state, P.QDD), part(ints, state, P.ALPHA)
    phi, passes = part(ints, work, P.PHI), int64(option[PASSES])
    beta, gamma, share, am, af = rule(setting)
    saved = view(part(ints, work, P.SAVED), 0, len(state))
    copy(saved, state)
    out[BAD_PIVOTS] = out[ITERATIONS] = out[FACTORISATIONS] = 0.0

    attempts, residual = 1 + option[RETRIES], 0.0
    for attempt in range(attempts):
        pieces = 2 if attempt == 2 else 1
        dt = h / pieces
        residual = 0.0
        unfinished = 0.0
        for piece in range(pieces):
            before = kinetic_energy(ints, reals, qd)
            if pieces == 2:
                if piece == 0:
                    inputs_before(ints, state, dt)
                else:
                    copy(part(ints, state, P.INPUT), part(ints, saved, P.INPUT))
            old = qdd if len(alpha) == 0 else part(ints, work, P.STAGE)
            for i in range(len(alpha)):
                old[i] = qdd[i]
            predict(ints, reals, state, dt, beta, gamma, am, af)
            done = iterate(ints, reals, state, work, hook, dt, beta, gamma, share, attempt > 0)
            if not done:
                if attempt < attempts - 1:
                    unfinished = 1.0
                    break
                unfinished = 1.0
            error = largest(phi)
            jacobian(ints, reals, work)
            rate = project_velocities(ints, reals, state, work, qd, passes, setting[TOLERANCE_VELOCITY])
            if passes > 0:
                project_accelerations(ints, reals, state, work, qdd, passes, setting[TOLERANCE_ACCELERATION])
            for i in range(len(alpha)):
                alpha[i] = ((1.0 - af) * qdd[i] + af * old[i] - am * alpha[i]) / (1.0 - am)
            out[CAPPED] = unfinished
            conclude(ints, reals, state, work, hook, dt, before, error, rate)
            residual += out[ENERGY_RESIDUAL]
        out[ATTEMPTS] = attempt + 1.0
        if unfinished == 0.0 or attempt == attempts - 1:
            break
        copy(state, saved)
    out[ENERGY_RESIDUAL] = residual
    first, scale = part(ints, saved, P.QDD), part(ints, reals, P.SCALE)
    change = 0.0
    for i in range(len(qdd)):
        change = max(change, abs(qdd[i] - first[i]) * scale[i])
    out[STEP_ERROR] = abs(beta - 1.0 / 6.0) * h * h * change
