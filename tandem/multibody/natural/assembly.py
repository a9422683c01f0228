"""From a state to the pieces of the equations of motion: inputs, forces, products with M, the tangent matrix.

    A = M + c_k K + c_c C + Phi_q^T W Phi_q

with the weights W of WEIGHT (the penalties times beta h^2, see compile.py). It is assembled row by row straight into
the panels of the factor; nothing is ever multiplied out densely.
"""

from math import isnan

from sync.compile.jit import inner
from tandem.multibody.natural.constraints import evaluate_forms, evaluate_rates, positions
from tandem.multibody.natural.laws import follow_law
from tandem.multibody.natural.tables import (
    EXTERNAL,
    RATE,
    SECOND,
    VALUE,
    P,
)  # fmt: skip
from tandem.multibody.natural.views import part, view


@inner
def set_inputs(ints, reals, state, t):
    """Inputs with a law of time take its value, rate and second derivative at t; others keep what was set."""
    kind, law = part(ints, ints, P.MOTION_KIND), part(ints, reals, P.MOTION)
    inputs = part(ints, state, P.INPUT)
    for j in range(len(kind)):
        a, b, c, d = law[4 * j], law[4 * j + 1], law[4 * j + 2], law[4 * j + 3]
        follow_law(kind[j], a, b, c, d, t, view(inputs, 3 * j, 3 * j + 3))


@inner
def mask(ints, reals, r):
    """Residuals of constraints that are switched off count as 0."""
    weight = part(ints, reals, P.WEIGHT)
    for k in range(len(r)):
        if weight[k] == 0.0:
            r[k] = 0.0


@inner
def evaluate_kinematics(ints, reals, state, work, q, qd):
    """Forms, their rates and Phi at q, qd."""
    inputs = part(ints, state, P.INPUT)
    evaluate_forms(ints, reals, work, q, inputs)
    evaluate_rates(ints, reals, work, qd, inputs)
    positions(ints, reals, work, part(ints, work, P.PHI))
    mask(ints, reals, part(ints, work, P.PHI))


@inner
def add_mass_times(ints, reals, x, factor, out):
    """out += factor M x"""
    row, col, mass = part(ints, ints, P.MASS_ROW), part(ints, ints, P.MASS_COL), part(ints, reals, P.MASS)
    for e in range(len(row)):
        i, j = row[e], col[e]
        m = factor * mass[e]
        out[i] += m * x[j]
        if i != j:
            out[j] += m * x[i]


@inner
def kinetic_energy(ints, reals, qd):
    row, col, mass = part(ints, ints, P.MASS_ROW), part(ints, ints, P.MASS_COL), part(ints, reals, P.MASS)
    total = 0.0
    for e in range(len(row)):
        total += (0.5 if row[e] == col[e] else 1.0) * mass[e] * qd[row[e]] * qd[col[e]]
    return total


@inner
def assemble(ints, reals, work, ck, cc):
    """The tangent A into FACTOR, from the port stiffnesses and the Jacobian, which is kept in JAC_FACTOR.

    Code that solves with this factor later must multiply weights by that Jacobian's transpose and no other: what of
    Phi_q^T W r lies outside its rows is not divided by W but by M, and an angle of 1e-6 between the two is amplified
    by the penalty.
    """
    fresh, jac = part(ints, work, P.JAC), part(ints, work, P.JAC_FACTOR)
    for e in range(len(jac)):
        jac[e] = fresh[e]
    A = part(ints, work, P.FACTOR)
    for i in range(len(A)):
        A[i] = 0.0
    dst, mass = part(ints, ints, P.MASS_DST), part(ints, reals, P.MASS)
    for e in range(len(dst)):
        A[dst[e]] += mass[e]
    if ck != 0.0 or cc != 0.0:
        dst, src, coef = (
            part(ints, ints, P.TANGENT_DST),
            part(ints, ints, P.TANGENT_SRC),
            part(ints, reals, P.TANGENT_COEF),
        )
        K, C = part(ints, work, P.PORT_K), part(ints, work, P.PORT_C)
        for e in range(len(K)):
            C[e] = ck * K[e] + cc * C[e]
        for e in range(len(dst)):
            A[dst[e]] += coef[e] * C[src[e]]
    ptr, weight = part(ints, ints, P.JAC_PTR), part(ints, reals, P.WEIGHT)
    dst = part(ints, ints, P.JTJ_DST)
    p = 0
    for k in range(len(ptr) - 1):
        row = view(jac, ptr[k], ptr[k + 1])
        w = weight[k]
        for a in range(len(row)):
            x = w * row[a]
            for b in range(a + 1):
                A[dst[p]] += x * row[b]
                p += 1


@inner
def largest_scaled(x, scale):
    """max |x scale|; not finite if any is not."""
    out = 0.0
    for i in range(len(x)):
        a = abs(x[i]) * scale[i]
        if isnan(a):
            return a
        out = max(out, a)
    return out


@inner
def inputs_before(ints, state, dt):
    """Inputs set from outside hold for the end of a step; what they were dt before it, by their own derivatives."""
    kind, inputs = part(ints, ints, P.MOTION_KIND), part(ints, state, P.INPUT)
    for j in range(len(kind)):
        if kind[j] == EXTERNAL:
            out = view(inputs, 3 * j, 3 * j + 3)
            out[VALUE] -= dt * (out[RATE] - 0.5 * dt * out[SECOND])
            out[RATE] -= dt * out[SECOND]


@inner
def inputs_half_way(ints, state, begin, h):
    """What they were in the middle of a step of h: between those of its beginning and its end, where the former are
    known (`begin`), else by their own derivatives. Rates that are estimates come late: backwards from the end alone,
    the middle would be elsewhere than the port was.
    """
    if len(begin) == 0:
        inputs_before(ints, state, 0.5 * h)
        return
    kind, inputs = part(ints, ints, P.MOTION_KIND), part(ints, state, P.INPUT)
    for j in range(len(kind)):
        if kind[j] == EXTERNAL:
            first, out = view(begin, 3 * j, 3 * j + 3), view(inputs, 3 * j, 3 * j + 3)
            out[VALUE] = 0.5 * (first[VALUE] + out[VALUE]) + 0.125 * h * (first[RATE] - out[RATE])
            out[RATE] = 0.5 * (first[RATE] + out[RATE]) + 0.125 * h * (first[SECOND] - out[SECOND])
            out[SECOND] = 0.5 * (first[SECOND] + out[SECOND])


@inner
def largest(x):
    """max |x|; not finite if any is not."""
    out = 0.0
    for i in range(len(x)):
        a = abs(x[i])
        if isnan(a):
            return a  # a later number would hide it
        out = max(out, a)
    return out
