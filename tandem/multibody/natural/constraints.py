"""Constraints: one kernel over index tables for all of them.

V are scalar linear forms of q and of the inputs u(t). A plain constraint is a sum of products of two of them, an angle
is `A sin(theta) - B cos(theta)` with two such sums A, B: with A = cos, B = sin of the angle the derivative with respect
to theta is 1 everywhere, so that no form has to be switched. Exact to round-off and without any generated code:

    Phi   = sum c Va Vb            Phi_t and Phi_tt come from the inputs within V, Vd, Vu
    Phi_q = sum c (Va dVb + Vb dVa)
    dPhi/dt      = sum c (Vda Vb + Va Vdb)                        = Phi_q qd + Phi_t
    d2Phi/dt2 - Phi_q qdd = sum c (2 Vda Vdb + Va Vub + Vb Vua)   = dPhi_q/dt qd + dPhi_t/dt

Vu is the part of the second derivative of V that comes from the inputs.

A slip (a knife edge, a wheel that rolls) is a speed that stays 0, s = sum c Va Vdb, without any Phi: its row of the
Jacobian is c Va dVb, and ds/dt - s_qd qdd = sum c (Vda Vdb + Va Vub). These rows come behind all others. Where a step
looks for coordinates, `slips` puts their speed times a share of the step in the place of Phi.
"""

from math import cos, sin

from sync.compile.jit import inner
from tandem.multibody.natural.tables import RATE, SECOND, VALUE, P
from tandem.multibody.natural.views import part


@inner
def add_linear(ints, reals, x, out):
    """The coefficients of all forms times x, added to out."""
    ptr, col, coef = part(ints, ints, P.FORM_PTR), part(ints, ints, P.FORM_COL), part(ints, reals, P.FORM_COEF)
    for f in range(len(out)):
        s = out[f]
        for p in range(ptr[f], ptr[f + 1]):
            s += coef[p] * x[col[p]]
        out[f] = s


@inner
def evaluate_forms(ints, reals, work, q, inputs):
    """V at q and the input values."""
    v, const = part(ints, work, P.V), part(ints, reals, P.FORM_CONST)
    for f in range(len(v)):
        v[f] = const[f]
    add_linear(ints, reals, q, v)
    form, index, weight = (
        part(ints, ints, P.INPUT_FORM),
        part(ints, ints, P.INPUT_INDEX),
        part(ints, reals, P.INPUT_COEF),
    )
    for e in range(len(form)):
        v[form[e]] += weight[e] * inputs[3 * index[e] + VALUE]


@inner
def evaluate_rates(ints, reals, work, qd, inputs):
    """Vd at qd and the input rates, Vu from the second derivatives of the inputs."""
    vd, vu = part(ints, work, P.VD), part(ints, work, P.VU)
    for f in range(len(vd)):
        vd[f] = 0.0
    add_linear(ints, reals, qd, vd)
    form, index, weight = (
        part(ints, ints, P.INPUT_FORM),
        part(ints, ints, P.INPUT_INDEX),
        part(ints, reals, P.INPUT_COEF),
    )
    for e in range(len(form)):
        vu[form[e]] = 0.0
    for e in range(len(form)):
        vd[form[e]] += weight[e] * inputs[3 * index[e] + RATE]
        vu[form[e]] += weight[e] * inputs[3 * index[e] + SECOND]


@inner
def positions(ints, reals, work, phi):
    """Phi from V; keeps the product sums and the sines and cosines that the derivatives need."""
    ptr, a, b = part(ints, ints, P.ROW_PTR), part(ints, ints, P.TERM_A), part(ints, ints, P.TERM_B)
    coef, v, r = part(ints, reals, P.TERM_COEF), part(ints, work, P.V), part(ints, work, P.R)
    for k in range(len(r)):
        s = 0.0
        for p in range(ptr[k], ptr[k + 1]):
            s += coef[p] * v[a[p]] * v[b[p]]
        r[k] = s
    angle, trig = part(ints, ints, P.ANGLE_FORM), part(ints, work, P.TRIG)
    plain = len(r) - 2 * len(angle)
    for k in range(plain + len(angle), len(phi)):
        phi[k] = 0.0
    for k in range(plain):
        phi[k] = r[k]
    for j in range(len(angle)):
        s, c = sin(v[angle[j]]), cos(v[angle[j]])
        A, B = r[plain + 2 * j], r[plain + 2 * j + 1]
        trig[2 * j], trig[2 * j + 1] = s, -c
        phi[plain + j] = A * s - B * c


@inner
def slips(ints, reals, work, factor, out):
    """The last of `out`: slip speeds from V and Vd, times a factor."""
    ptr, a, b = part(ints, ints, P.ROW_PTR), part(ints, ints, P.TERM_A), part(ints, ints, P.TERM_B)
    coef, v, vd = part(ints, reals, P.TERM_COEF), part(ints, work, P.V), part(ints, work, P.VD)
    before = len(part(ints, work, P.R)) - len(part(ints, ints, P.ANGLE_FORM))
    for k in range(before, len(out)):
        row = k + len(part(ints, ints, P.ANGLE_FORM))
        s = 0.0
        for p in range(ptr[row], ptr[row + 1]):
            s += coef[p] * v[a[p]] * vd[b[p]]
        out[k] = factor * s


@inner
def jacobian(ints, reals, work):
    """Phi_q into JAC, from V and the sines and cosines."""
    v, jac, const = part(ints, work, P.V), part(ints, work, P.JAC), part(ints, reals, P.JAC_CONST)
    for e in range(len(jac)):
        jac[e] = const[e]
    dst, form, coef = part(ints, ints, P.JAC_DST), part(ints, ints, P.JAC_FORM), part(ints, reals, P.JAC_COEF)
    for e in range(len(dst)):
        jac[dst[e]] += coef[e] * v[form[e]]
    angle = part(ints, ints, P.ANGLE_FORM)
    if len(angle) == 0:
        return
    trig, r = part(ints, work, P.TRIG), part(ints, work, P.R)
    plain = len(r) - 2 * len(angle)
    dst, form, coef = part(ints, ints, P.TRIG_DST), part(ints, ints, P.TRIG_FORM), part(ints, reals, P.TRIG_COEF)
    factor = part(ints, ints, P.TRIG_FACTOR)
    for e in range(len(dst)):
        jac[dst[e]] += coef[e] * v[form[e]] * trig[factor[e]]
    dst, which, coef = part(ints, ints, P.THETA_DST), part(ints, ints, P.THETA_ANGLE), part(ints, reals, P.THETA_COEF)
    for e in range(len(dst)):
        j = which[e]
        jac[dst[e]] += coef[e] * (r[plain + 2 * j + 1] * trig[2 * j] - r[plain + 2 * j] * trig[2 * j + 1])


@inner
def velocities(ints, reals, work, phid):
    """dPhi/dt from V and Vd; `positions` at the same V came before."""
    ptr, a, b = part(ints, ints, P.ROW_PTR), part(ints, ints, P.TERM_A), part(ints, ints, P.TERM_B)
    coef, v, vd = part(ints, reals, P.TERM_COEF), part(ints, work, P.V), part(ints, work, P.VD)
    r, rd = part(ints, work, P.R), part(ints, work, P.RD)
    for k in range(len(r)):
        s = 0.0
        for p in range(ptr[k], ptr[k + 1]):
            s += coef[p] * (vd[a[p]] * v[b[p]] + v[a[p]] * vd[b[p]])
        rd[k] = s
    slips(ints, reals, work, 1.0, phid)
    angle, trig = part(ints, ints, P.ANGLE_FORM), part(ints, work, P.TRIG)
    plain = len(r) - 2 * len(angle)
    for k in range(plain):
        phid[k] = rd[k]
    for j in range(len(angle)):
        s, c = trig[2 * j], -trig[2 * j + 1]
        A, B = r[plain + 2 * j], r[plain + 2 * j + 1]
        phid[plain + j] = rd[plain + 2 * j] * s - rd[plain + 2 * j + 1] * c + vd[angle[j]] * (A * c + B * s)


@inner
def velocity_terms(ints, reals, work, gamma):
    """d2Phi/dt2 without Phi_q qdd, from V, Vd and Vu; `velocities` came before."""
    ptr, a, b = part(ints, ints, P.ROW_PTR), part(ints, ints, P.TERM_A), part(ints, ints, P.TERM_B)
    coef, v, vd, vu = (
        part(ints, reals, P.TERM_COEF),
        part(ints, work, P.V),
        part(ints, work, P.VD),
        part(ints, work, P.VU),
    )
    r, rd = part(ints, work, P.R), part(ints, work, P.RD)
    angle, trig = part(ints, ints, P.ANGLE_FORM), part(ints, work, P.TRIG)
    plain = len(r) - 2 * len(angle)
    for k in range(len(gamma)):
        gamma[k] = 0.0
    for k in range(len(r)):
        s = 0.0
        for p in range(ptr[k], ptr[k + 1]):
            x, y = a[p], b[p]
            s += coef[p] * (2.0 * vd[x] * vd[y] + v[x] * vu[y] + vu[x] * v[y])
        if k < plain:
            gamma[k] = s
        else:
            j = (k - plain) // 2
            gamma[plain + j] += s * trig[k - plain]
    for j in range(len(angle)):
        s, c = trig[2 * j], -trig[2 * j + 1]
        A, B = r[plain + 2 * j], r[plain + 2 * j + 1]
        Ad, Bd = rd[plain + 2 * j], rd[plain + 2 * j + 1]
        w = vd[angle[j]]
        gamma[plain + j] += 2.0 * w * (Ad * c + Bd * s) + w * w * (B * c - A * s) + vu[angle[j]] * (A * c + B * s)
    for k in range(plain + len(angle), len(gamma)):
        for p in range(ptr[k + len(angle)], ptr[k + len(angle) + 1]):
            gamma[k] += coef[p] * (vd[a[p]] * vd[b[p]] + v[a[p]] * vu[b[p]])


@inner
def times_jacobian(ints, jac, x, out):
    """out += Phi_q x, with the Jacobian at hand (JAC) or the one of the factorisation (JAC_FACTOR)"""
    ptr, col = part(ints, ints, P.JAC_PTR), part(ints, ints, P.JAC_COL)
    for k in range(len(out)):
        s = 0.0
        for p in range(ptr[k], ptr[k + 1]):
            s += jac[p] * x[col[p]]
        out[k] += s


@inner
def add_transposed(ints, jac, y, factor, out):
    """out += factor Phi_q^T y, with either Jacobian"""
    ptr, col = part(ints, ints, P.JAC_PTR), part(ints, ints, P.JAC_COL)
    for k in range(len(y)):
        s = factor * y[k]
        for p in range(ptr[k], ptr[k + 1]):
            out[col[p]] += s * jac[p]
