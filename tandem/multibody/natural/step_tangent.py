"""The derivatives of a step of I3AL (augmented.py) by the implicit function theorem.

A step was made, and is known by where it ended; how its beginning, inputs and what the forces are given depend on eight
quantities is known as well (numbers with derivatives, relative/dual_vectors.py). Looked for is how its end does. The
equations that the step solved are evaluated with derivatives at its end, and what is left over of these is solved with
the factor that the step left behind, again until it is small: corrections of the derivatives alone, with a tangent that
need not be exact. Iterations of the step itself, damped corrections and refactorisations are not differentiated.

Velocities and accelerations follow as the projections do, in whose metric derivatives of the metric are left out: they
are multiplied by what a projection changes, 1e-6 of a velocity.
"""

from sync.compile.jit import inner
from tandem.multibody.natural import constraints, elements
from tandem.multibody.natural.assembly import add_mass_times, evaluate_kinematics, mask
from tandem.multibody.natural.augmented import predict, rule
from tandem.multibody.natural.cholesky import solve_by
from tandem.multibody.natural.tables import P
from tandem.multibody.natural.views import part
from tandem.multibody.relative.dual import derivative_of, value_of
from tandem.multibody.relative.dual_vectors import nowhere

# corrections; of the derivatives of accelerations: so small is the last one, and a tenth to a hundredth of it is left
MOST, ENOUGH = 12, 1e-2


@inner
def put_values(numbers, values):
    """Numbers that have these values, and the derivatives that they have."""
    for i in range(len(values)):
        numbers[i] = (numbers[i] - value_of(numbers[i])) + values[i]


@inner
def largest_slope(a, most):
    """For each direction the larger of what is there and of the derivative."""
    return (
        max(most[0], abs(derivative_of(a, 0))), max(most[1], abs(derivative_of(a, 1))),
        max(most[2], abs(derivative_of(a, 2))), max(most[3], abs(derivative_of(a, 3))),
        max(most[4], abs(derivative_of(a, 4))), max(most[5], abs(derivative_of(a, 5))),
        max(most[6], abs(derivative_of(a, 6))), max(most[7], abs(derivative_of(a, 7))),
    )  # fmt: skip


@inner
def solve_with(ints, factor, work, b):
    solve_by(ints, part(ints, factor, P.FACTOR), part(ints, work, P.SOLVE), b)


@inner
def forces(ints, reals, state, work, hook, h):
    element, inputs = part(ints, state, P.ELEMENT), part(ints, state, P.INPUT)
    t = value_of(part(ints, state, P.TIME)[0])
    elements.evaluate_into(ints, reals, work, hook, t, h, element, inputs, nowhere(), nowhere())
    elements.generalised_forces(ints, reals, work)


@inner
def correct(ints, reals, state, work, factor, beta, gamma, share, h):
    """As `correct` of augmented.py, with the factor and the Jacobian that the step left; whether it was small."""
    q, qd, qdd = part(ints, state, P.Q), part(ints, state, P.QD), part(ints, state, P.QDD)
    lam, weight, phi = part(ints, state, P.LAM), part(ints, reals, P.WEIGHT), part(ints, work, P.PHI)
    rhs, Q, y = part(ints, work, P.RHS), part(ints, work, P.FORCE), part(ints, work, P.RESIDUAL)
    old = part(ints, factor, P.JAC_FACTOR)
    bh2 = share * beta * h * h
    for i in range(len(q)):
        rhs[i] = bh2 * Q[i]
    add_mass_times(ints, reals, qdd, -bh2, rhs)
    constraints.add_transposed(ints, part(ints, work, P.JAC), lam, -bh2, rhs)
    for k in range(len(lam)):
        y[k] = weight[k] * phi[k]
    constraints.add_transposed(ints, old, y, -1.0, rhs)
    solve_with(ints, factor, work, rhs)
    for k in range(len(lam)):
        y[k] = phi[k]
    constraints.times_jacobian(ints, old, rhs, y)
    for k in range(len(lam)):
        lam[k] += weight[k] * y[k] / bh2
    none = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    size, whole = none, none
    for i in range(len(q)):
        dq = rhs[i]
        q[i] += dq
        qd[i] += gamma / (beta * h) * dq
        qdd[i] += dq / bh2
        size, whole = largest_slope(dq, size), largest_slope(qdd[i], whole)
    for lane in range(len(size)):
        if not size[lane] <= ENOUGH * bh2 * whole[lane]:
            return False
    return True


@inner
def project(ints, reals, work, factor, r, qd):
    """qd, so that derivatives of r = Phi_q qd + ... become nothing, in the factor's metric; RHS is what that took."""
    weight, rhs, y = part(ints, reals, P.WEIGHT), part(ints, work, P.RHS), part(ints, work, P.DIRECTION)
    old = part(ints, factor, P.JAC_FACTOR)
    for k in range(len(r)):
        y[k] = weight[k] * r[k]
    for i in range(len(rhs)):
        rhs[i] = 0.0
    constraints.add_transposed(ints, old, y, -1.0, rhs)
    solve_with(ints, factor, work, rhs)
    for i in range(len(qd)):
        qd[i] += rhs[i]


# long: a step as flat arrays; a kernel takes no object
@inner
def follow_step(ints, reals, state, work, factor, target, hook, h):
    """`state`, that of the beginning with its derivatives, becomes `target`, that of the end, with its own.

    `factor` is the work that the step left behind, `work` as much of it with derivatives; their values may be the same
    numbers.
    """
    q, qd, qdd = part(ints, state, P.Q), part(ints, state, P.QD), part(ints, state, P.QDD)
    lam = part(ints, state, P.LAM)
    beta, gamma, share, am, af = rule(part(ints, reals, P.SETTING))
    predict(ints, reals, state, h, beta, gamma, am, af)
    at = part(ints, target, P.Q)
    for i in range(len(q)):
        change = at[i] - value_of(q[i])
        qd[i] += gamma / (beta * h) * change
        qdd[i] += change / (share * beta * h * h)
    put_values(q, at)
    put_values(lam, part(ints, target, P.LAM))
    for _ in range(MOST):
        evaluate_kinematics(ints, reals, state, work, q, qd)
        forces(ints, reals, state, work, hook, h)
        constraints.jacobian(ints, reals, work)
        if correct(ints, reals, state, work, factor, beta, gamma, share, h):
            break

    put_values(q, at)
    put_values(qd, part(ints, target, P.QD))
    put_values(qdd, part(ints, target, P.QDD))
    evaluate_kinematics(ints, reals, state, work, q, qd)
    constraints.jacobian(ints, reals, work)
    r, jac = part(ints, work, P.RESIDUAL), part(ints, work, P.JAC)
    inputs, rhs = part(ints, state, P.INPUT), part(ints, work, P.RHS)
    # a pass of each projection divides what is left by about the penalty, and derivatives need no more
    constraints.velocities(ints, reals, work, r)
    mask(ints, reals, r)
    project(ints, reals, work, factor, r, qd)
    put_values(qd, part(ints, target, P.QD))
    constraints.evaluate_rates(ints, reals, work, qd, inputs)
    constraints.velocities(ints, reals, work, r)
    terms, weight = part(ints, work, P.SECOND), part(ints, reals, P.WEIGHT)
    constraints.velocity_terms(ints, reals, work, terms)
    for k in range(len(r)):
        r[k] = terms[k]
    constraints.times_jacobian(ints, jac, qdd, r)
    mask(ints, reals, r)
    project(ints, reals, work, factor, r, qdd)
    constraints.times_jacobian(ints, part(ints, factor, P.JAC_FACTOR), rhs, r)
    for k in range(len(r)):
        lam[k] += weight[k] * r[k]
    put_values(qdd, part(ints, target, P.QDD))
    put_values(lam, part(ints, target, P.LAM))
    forces(ints, reals, state, work, hook, h)
    element, following = part(ints, state, P.ELEMENT), part(ints, work, P.ELEMENT_NEXT)
    for i in range(len(element)):
        element[i] = following[i]
    put_values(element, part(ints, target, P.ELEMENT))
