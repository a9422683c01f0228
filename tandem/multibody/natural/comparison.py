"""Other integrators over the same tables, to compare the augmented Lagrangian with.

BAUMGARTE        accelerations of index 1 with Baumgarte's terms, classical Runge-Kutta
NONE             the same without terms, so that constraints drift open
PROJECTION       without terms; after the step, coordinates and velocities are projected, in the mass metric
LINEAR_IMPLICIT  linear-implicit Euler of index 2: q+ = q + h u, then one factorisation for u+ with
                 G(q+) u+ + Phi_t = 0: (M + h C) (u+ - u) + h G^T lam = h (f - h K u).  G is taken at q+ on both sides,
                 which keeps the matrix symmetric and differs from the published form by a term of its own order.

Inputs set from outside are held over the stages of a step. Element states advance once, at the end of it.
"""

from numba import int64

from sync.compile.jit import inner, kernel
from tandem.multibody.natural.assembly import assemble, evaluate_kinematics, kinetic_energy, largest, mask, set_inputs
from tandem.multibody.natural.augmented import STEP, conclude, project_velocities
from tandem.multibody.natural.cholesky import factorise, solve
from tandem.multibody.natural.constraints import add_transposed, jacobian, velocities
from tandem.multibody.natural.elements import generalised_forces
from tandem.multibody.natural.evaluation import solve_accelerations
from tandem.multibody.natural.settings import Scheme
from tandem.multibody.natural.tables import (
    BAD_PIVOTS,
    BAUMGARTE_DAMPING,
    BAUMGARTE_RATE,
    CAP,
    CAPPED,
    CONTRACTION,
    FACTORISATIONS,
    ITERATIONS,
    PASSES,
    SCHEME,
    STABILISATION,
    TOLERANCE_PHI,
    TOLERANCE_VELOCITY,
    P,
)
from tandem.multibody.natural.unrolled import forces
from tandem.multibody.natural.views import part, view

BAUMGARTE, LINEAR_IMPLICIT, PROJECTION = int(Scheme.BAUMGARTE), int(Scheme.LINEAR_IMPLICIT), int(Scheme.PROJECTION)


@inner
def accelerate_at(ints, reals, state, work, hook, t, rate, damping):
    """qdd and lam of the q, qd in the state."""
    set_inputs(ints, reals, state, t)
    evaluate_kinematics(ints, reals, state, work, part(ints, state, P.Q), part(ints, state, P.QD))
    forces(ints, reals, state, work, hook, t, 0.0)
    jacobian(ints, reals, work)
    solve_accelerations(ints, reals, state, work, rate, damping)


@inner
def project(ints, reals, state, work):
    """Coordinates, G delta = -Phi in the mass metric, again until closed; then velocities. Returns the iterations."""
    setting, weight = part(ints, reals, P.SETTING), part(ints, reals, P.WEIGHT)
    option = part(ints, ints, P.OPTION)
    q, qd = part(ints, state, P.Q), part(ints, state, P.QD)
    phi, rhs = part(ints, work, P.PHI), part(ints, work, P.RHS)
    evaluate_kinematics(ints, reals, state, work, q, qd)
    jacobian(ints, reals, work)
    assemble(ints, reals, work, 0.0, 0.0)
    factorise(ints, work)
    iterations = 0
    while iterations < option[CAP] and largest(phi) > setting[TOLERANCE_PHI]:
        for k in range(len(phi)):
            phi[k] *= weight[k]
        for i in range(len(q)):
            rhs[i] = 0.0
        add_transposed(ints, part(ints, work, P.JAC_FACTOR), phi, -1.0, rhs)
        solve(ints, work, rhs)
        for i in range(len(q)):
            q[i] += rhs[i]
        evaluate_kinematics(ints, reals, state, work, q, qd)
        iterations += 1
    jacobian(ints, reals, work)
    project_velocities(ints, reals, state, work, qd, int64(option[PASSES]), setting[TOLERANCE_VELOCITY])
    return iterations


@inner
def runge_kutta(ints, reals, state, work, hook, h, projected, rate):
    """Four stages; the accelerations of the first are those the state came with. Returns iterations, factorisations."""
    q, qd, qdd = part(ints, state, P.Q), part(ints, state, P.QD), part(ints, state, P.QDD)
    q0, qd0, stage = part(ints, work, P.Q0), part(ints, work, P.QD0), part(ints, work, P.STAGE)
    setting, time = part(ints, reals, P.SETTING), part(ints, state, P.TIME)
    damping = setting[BAUMGARTE_DAMPING]
    n, t = len(q), time[0]
    speed, change = view(stage, 0, n), view(stage, n, 2 * n)
    for i in range(n):
        q0[i], qd0[i] = q[i], qd[i]
        speed[i], change[i] = 0.0, 0.0
    iterations = 0
    for s in range(4):
        weight = 1.0 / 3.0 if 0 < s < 3 else 1.0 / 6.0
        reach = h if s >= 2 else 0.5 * h
        for i in range(n):
            v, a = qd[i], qdd[i]
            speed[i] += weight * v
            change[i] += weight * a
            q[i] = q0[i] + (h * speed[i] if s == 3 else reach * v)
            qd[i] = qd0[i] + (h * change[i] if s == 3 else reach * a)
        time[0] = t + reach
        if s == 3 and projected:
            set_inputs(ints, reals, state, time[0])
            iterations = project(ints, reals, state, work)
        accelerate_at(ints, reals, state, work, hook, time[0], rate, damping)
    return iterations, 5 if projected else 4


@inner
def add_stiffness(ints, work, factor):
    """Port forces += factor k v, block by block."""
    port, block = part(ints, ints, P.EL_PORT), part(ints, ints, P.EL_BLOCK)
    force, xd, K = part(ints, work, P.PORT_FORCE), part(ints, work, P.XD), part(ints, work, P.PORT_K)
    for e in range(len(port) - 1):
        a, size = port[e], port[e + 1] - port[e]
        for i in range(size):
            for j in range(size):
                force[a + i] += factor * K[block[e] + i * size + j] * xd[a + j]


@inner
def linear_euler(ints, reals, state, work, hook, h):
    setting, weight = part(ints, reals, P.SETTING), part(ints, reals, P.WEIGHT)
    q, qd, qdd = part(ints, state, P.Q), part(ints, state, P.QD), part(ints, state, P.QDD)
    lam, time, old = part(ints, state, P.LAM), part(ints, state, P.TIME), part(ints, work, P.QD0)
    Q, rhs, r, phi = (
        part(ints, work, P.FORCE),
        part(ints, work, P.RHS),
        part(ints, work, P.RESIDUAL),
        part(ints, work, P.PHI),
    )
    n, m = len(q), len(lam)

    # f - h K u at the old position
    evaluate_kinematics(ints, reals, state, work, q, qd)
    forces(ints, reals, state, work, hook, time[0], 0.0)
    add_stiffness(ints, work, -h)
    generalised_forces(ints, reals, work)

    # constraints at the new one
    time[0] += h
    set_inputs(ints, reals, state, time[0])
    for i in range(n):
        old[i] = qd[i]
        q[i] += h * qd[i]
    evaluate_kinematics(ints, reals, state, work, q, qd)
    jacobian(ints, reals, work)
    assemble(ints, reals, work, 0.0, h)
    factorise(ints, work)
    share = setting[STABILISATION] / h
    passes = 0
    for i in range(n):
        rhs[i] = h * Q[i]
    velocities(ints, reals, work, r)
    mask(ints, reals, r)
    for k in range(m):
        r[k] = h * lam[k] + weight[k] * (r[k] + share * phi[k])
    for _ in range(part(ints, ints, P.OPTION)[PASSES] + 1):
        add_transposed(ints, part(ints, work, P.JAC_FACTOR), r, -1.0, rhs)
        solve(ints, work, rhs)
        for i in range(n):
            qd[i] += rhs[i]
            rhs[i] = 0.0
        evaluate_kinematics(ints, reals, state, work, q, qd)
        velocities(ints, reals, work, r)
        mask(ints, reals, r)
        error = 0.0
        for k in range(m):
            r[k] += share * phi[k]
            error = max(error, abs(r[k]))
            r[k] *= weight[k]
            lam[k] += r[k] / h
        passes += 1
        if error <= setting[TOLERANCE_VELOCITY]:
            break
    for i in range(n):
        qdd[i] = (qd[i] - old[i]) / h
    return passes, 1


@kernel(STEP, error_model="numpy")
def compared_step(ints, reals, state, work, hook, h):
    """Advance `state` by h with the scheme that the settings name."""
    out = part(ints, work, P.DIAGNOSTIC)
    out[BAD_PIVOTS] = 0.0
    before = kinetic_energy(ints, reals, part(ints, state, P.QD))
    scheme = part(ints, ints, P.OPTION)[SCHEME]
    if scheme == LINEAR_IMPLICIT:
        iterations, factorisations = linear_euler(ints, reals, state, work, hook, h)
    else:
        rate = part(ints, reals, P.SETTING)[BAUMGARTE_RATE] if scheme == BAUMGARTE else 0.0
        iterations, factorisations = runge_kutta(ints, reals, state, work, hook, h, scheme == PROJECTION, rate)
    out[ITERATIONS], out[FACTORISATIONS] = iterations, factorisations
    out[CAPPED], out[CONTRACTION] = 0.0, 0.0
    q, qd, r = part(ints, state, P.Q), part(ints, state, P.QD), part(ints, work, P.RESIDUAL)
    evaluate_kinematics(ints, reals, state, work, q, qd)
    jacobian(ints, reals, work)
    velocities(ints, reals, work, r)
    mask(ints, reals, r)
    conclude(ints, reals, state, work, hook, h, before, largest(part(ints, work, P.PHI)), largest(r))
