"""Force elements: what they do at their ports.

An element sees only its ports, scalar linear forms x of the coordinates with rates v, and gives the force f on each of
them, the stiffness k = -df/dx and the damping c = -df/dv (square blocks, row by row). Tables carry these to the
coordinates: Q = D^T f, K = D^T k D, C = D^T c D. Of K and C the symmetric part enters the tangent.

Bodies are turned through the vectors e1, e2, e3 of their basis. With the reciprocal basis e^k = sum_j G^kj e_j (G^kj
constant, since the body is rigid) the torque T is the port force 1/2 T x e^k on e_k: its power is T . omega.

Every kind is a plain function over slices; a kind is added by writing one, giving it a number, and calling it in
`evaluate_elements`.
"""

from math import sqrt

from sync.compile.jit import inner
from tandem.multibody.natural.tables import (
    CONTACT,
    CONTACT_STATES,
    DRAG,
    FORCE_ON,
    FRICTION,
    LIMIT,
    ROTOR,
    SPRING,
    STILL,
    TORQUE_2D,
    TORQUE_3D,
    TORSION,
    VALUE,
    P,
)
from tandem.multibody.natural.views import part, view


@inner
def spring_damper(x, v, p, f, k, c):
    """Between the ends of the vector x; p: stiffness, damping, free length, preload (tension)."""
    d = len(x)
    length = 0.0
    for i in range(d):
        length += x[i] * x[i]
    length = max(sqrt(length), 1e-12)
    rate = 0.0
    for i in range(d):
        rate += x[i] * v[i] / length
    tension = p[0] * (length - p[2]) + p[1] * rate + p[3]
    for i in range(d):
        n = x[i] / length
        f[i] = -tension * n
        for j in range(d):
            m = x[j] / length
            across = ((1.0 if i == j else 0.0) - n * m) / length
            # the last term: turning changes how fast the length grows
            drag = 0.0
            for r in range(d):
                drag += ((1.0 if r == j else 0.0) - x[r] / length * m) / length * v[r]
            k[i * d + j] = p[0] * n * m + tension * across + p[1] * n * drag
            c[i * d + j] = p[1] * n * m


@inner
def torsion(x, v, p, f, k, c):
    """On a scalar; p: stiffness, damping, rest, cubic stiffness."""
    s = x[0] - p[2]
    f[0] = -p[0] * s - p[1] * v[0] - p[3] * s * s * s
    k[0] = p[0] + 3.0 * p[3] * s * s
    c[0] = p[1]


@inner
def friction(v, p, f, c):
    """On a scalar: Coulomb, rounded below the speed p[1], and viscous; p: level, speed, viscous.

    Its tangent is the secant: the derivative is almost zero beyond p[1] and steep below it, so that a Newton step over
    the corner overshoots to the other side for ever.
    """
    root = sqrt(v[0] * v[0] + p[1] * p[1])
    f[0] = -p[0] * v[0] / root - p[2] * v[0]
    c[0] = p[0] / root + p[2]


@inner
def limit(x, v, p, f, k, c):
    """On a scalar: a stop at both ends that pushes and never pulls; p: low, high, stiffness, damping per depth.

    Force k d (1 + e dd/dt) at depth d: no jump at the touch, dissipates like a Hunt-Crossley contact.
    """
    sign = 0.0
    depth = 0.0
    if x[0] < p[0]:
        sign, depth = 1.0, p[0] - x[0]
    elif x[0] > p[1]:
        sign, depth = -1.0, x[0] - p[1]
    speed = -sign * v[0]
    push = p[2] * depth * (1.0 + p[3] * speed)
    if push > 0.0:
        f[0] = sign * push
        k[0] = p[2] * (1.0 + p[3] * speed)
        c[0] = p[2] * depth * p[3]


@inner
def contact(x, v, p, f, k, c):
    """On a point beyond a plane; p: stiffness, damping, friction, speed, offset, normal. Returns the power lost.

    Along the normal as `limit`; across it Coulomb's friction, rounded below the speed p[3], with the secant as tangent
    (see `friction`). How friction grows with the depth is left out of the tangent, which is symmetric.
    """
    d = len(x)
    gap = -p[4]
    rate = 0.0
    for i in range(d):
        gap += p[5 + i] * x[i]
        rate += p[5 + i] * v[i]
    if gap >= 0.0:
        return 0.0
    elastic = -p[0] * gap
    push = max(elastic * (1.0 - p[1] * rate), 0.0)
    if push == 0.0:
        return elastic * rate
    square = 0.0
    for i in range(d):
        slip = v[i] - rate * p[5 + i]
        square += slip * slip
    grip = p[2] * push / sqrt(square + p[3] * p[3])
    for i in range(d):
        n = p[5 + i]
        f[i] = push * n - grip * (v[i] - rate * n)
        for j in range(d):
            m = p[5 + j]
            k[i * d + j] = p[0] * (1.0 - p[1] * rate) * n * m
            c[i * d + j] = elastic * p[1] * n * m + grip * ((1.0 if i == j else 0.0) - n * m)
    return (elastic - push) * rate + grip * square


@inner
def drag(v, p, f, c):
    """On a point that moves through a fluid at rest; p: linear, coefficient, area, density."""
    d = len(v)
    square = STILL * STILL
    for i in range(d):
        square += v[i] * v[i]
    speed = sqrt(square)
    growth = 0.5 * p[1] * p[2] * p[3]
    for i in range(d):
        f[i] = -(p[0] + growth * speed) * v[i]
        for j in range(d):
            c[i * d + j] = (p[0] + growth * speed if i == j else 0.0) + growth * v[i] * v[j] / speed


@inner
def half_reciprocal(e, p, a):
    """Half of the reciprocal vector a to the basis vectors e (9), from their reciprocal metric p (9)."""
    rx = ry = rz = 0.0
    for b in range(3):
        g = 0.5 * p[3 * a + b]
        rx += g * e[3 * b]
        ry += g * e[3 * b + 1]
        rz += g * e[3 * b + 2]
    return rx, ry, rz


@inner
def turn(e, p, Tx, Ty, Tz, f):
    """Port forces of the torque T on a body with basis vectors e (9) and reciprocal metric p (9)."""
    for a in range(3):
        rx, ry, rz = half_reciprocal(e, p, a)
        f[3 * a] += Ty * rz - Tz * ry
        f[3 * a + 1] += Tz * rx - Tx * rz
        f[3 * a + 2] += Tx * ry - Ty * rx


@inner
def add_cross(block, size, row, col, factor, Tx, Ty, Tz):
    """block[row:, col:] += factor [T x]"""
    block[row * size + col + 1] -= factor * Tz
    block[row * size + col + 2] += factor * Ty
    block[(row + 1) * size + col] += factor * Tz
    block[(row + 1) * size + col + 2] -= factor * Tx
    block[(row + 2) * size + col] -= factor * Ty
    block[(row + 2) * size + col + 1] += factor * Tx


@inner
def turning_by_axis(e, p, a, size, col, gain, block):
    """block[:9, col:col+3] -= d(port forces)/dz for the torque T = gain z with the vector z at column col.

    T x r = -[r x] T, r = 1/2 e^k.
    """
    rx, ry, rz = half_reciprocal(e, p, a)
    add_cross(block, size, 3 * a, col, gain, rx, ry, rz)


@inner
def torque_3d(x, p, u, f, k):
    """Torque on a body: u (fixed vector + vector of the body); p: reciprocal metric (9), world torque, body torque."""
    Tx, Ty, Tz = p[9], p[10], p[11]
    for b in range(3):
        Tx += p[12 + b] * x[3 * b]
        Ty += p[12 + b] * x[3 * b + 1]
        Tz += p[12 + b] * x[3 * b + 2]
    Tx, Ty, Tz = u * Tx, u * Ty, u * Tz
    turn(x, p, Tx, Ty, Tz, f)
    for a in range(3):
        for b in range(3):
            add_cross(k, 9, 3 * a, 3 * b, -0.5 * p[3 * a + b], Tx, Ty, Tz)
            turning_by_axis(x, p, a, 9, 3 * b, u * p[12 + b], k)


@inner
def torque_2d(x, p, u, f, k):
    """Torque on a planar body with the vector x; p: torque / |x|^2."""
    T = u * p[0]
    f[0], f[1] = -T * x[1], T * x[0]
    k[1], k[2] = T, -T


@inner
def rotor(x, v, p, f, k, c):
    """Gyroscopic torque -I Omega dw/dt on the carrier of a spinning axisymmetric rotor.

    Ports: basis of the carrier (9), spin angle; p: reciprocal metric (9), spin inertia, axis in the basis (3). The
    spin inertia itself belongs to the spin angle. The torque does no work, since dw/dt is across omega.
    """
    wx = wy = wz = 0.0
    for b in range(3):
        wx += p[10 + b] * v[3 * b]
        wy += p[10 + b] * v[3 * b + 1]
        wz += p[10 + b] * v[3 * b + 2]
    gain = -p[9] * v[9]
    Tx, Ty, Tz = gain * wx, gain * wy, gain * wz
    turn(x, p, Tx, Ty, Tz, f)
    for a in range(3):
        for b in range(3):
            add_cross(k, 10, 3 * a, 3 * b, -0.5 * p[3 * a + b], Tx, Ty, Tz)
            turning_by_axis(x, p, a, 10, 3 * b, gain * p[10 + b], c)
        rx, ry, rz = half_reciprocal(x, p, a)
        c[(3 * a) * 10 + 9] += p[9] * (wy * rz - wz * ry)
        c[(3 * a + 1) * 10 + 9] += p[9] * (wz * rx - wx * rz)
        c[(3 * a + 2) * 10 + 9] += p[9] * (wx * ry - wy * rx)


@inner
def evaluate_elements(ints, reals, work, hook, t, h, states, inputs):
    """Forces, stiffness and damping of all elements at their ports, from V and Vd."""
    K, C = part(ints, work, P.PORT_K), part(ints, work, P.PORT_C)
    evaluate_into(ints, reals, work, hook, t, h, states, inputs, K, C)


@inner
def evaluate_into(ints, reals, work, hook, t, h, states, inputs, K, C):
    form, v, vd = part(ints, ints, P.PORT_FORM), part(ints, work, P.V), part(ints, work, P.VD)
    x, xd = part(ints, work, P.X), part(ints, work, P.XD)
    for i in range(len(form)):
        x[i], xd[i] = v[form[i]], vd[form[i]]
    kind, port = part(ints, ints, P.EL_KIND), part(ints, ints, P.EL_PORT)
    param_ptr, block = part(ints, ints, P.EL_PARAM), part(ints, ints, P.EL_BLOCK)
    source, params = part(ints, ints, P.EL_INPUT), part(ints, reals, P.PARAM)
    force, after = part(ints, work, P.PORT_FORCE), part(ints, work, P.ELEMENT_NEXT)
    for i in range(len(force)):
        force[i] = 0.0
    for i in range(len(K)):
        K[i] = 0.0
        C[i] = 0.0
    for i in range(len(after)):
        after[i] = states[i]
    own_states = 0

    for e in range(len(kind)):
        a, b = port[e], port[e + 1]
        ex, ev, f = view(x, a, b), view(xd, a, b), view(force, a, b)
        p = view(params, param_ptr[e], param_ptr[e + 1])
        k, c = view(K, block[e], block[e + 1]), view(C, block[e], block[e + 1])
        u = inputs[3 * source[e] + VALUE] if source[e] >= 0 else 1.0
        what = kind[e]
        if what == SPRING:
            spring_damper(ex, ev, p, f, k, c)
        elif what == TORSION:
            torsion(ex, ev, p, f, k, c)
        elif what == FORCE_ON:
            for i in range(b - a):
                f[i] = u * p[i]
        elif what == TORQUE_3D:
            torque_3d(ex, p, u, f, k)
        elif what == TORQUE_2D:
            torque_2d(ex, p, u, f, k)
        elif what == FRICTION:
            friction(ev, p, f, c)
        elif what == LIMIT:
            limit(ex, ev, p, f, k, c)
        elif what == ROTOR:
            rotor(ex, ev, p, f, k, c)
        elif what == CONTACT:
            lost = contact(ex, ev, p, f, k, c)
            after[own_states] = states[own_states] + 0.5 * h * (states[own_states + 1] + lost)
            after[own_states + 1] = lost
            own_states += CONTACT_STATES
        elif what == DRAG:
            drag(ev, p, f, c)

    # model-specific forces own the last ports, parameters, blocks and states
    a, p0, b0 = port[len(kind)], param_ptr[len(kind)], block[len(kind)]
    if a < len(x):
        own, n = view(params, p0, len(params)), len(x)
        k, c = view(K, b0, len(K)), view(C, b0, len(C))
        live = part(ints, work, P.LIVE)
        before, following = view(states, own_states, len(states)), view(after, own_states, len(after))
        hook(t, h, view(x, a, n), view(xd, a, n), inputs, live, own, before, following, view(force, a, n), k, c)


@inner
def generalised_forces(ints, reals, work):
    """Q into FORCE, from the port forces and the constant forces."""
    Q, constant = part(ints, work, P.FORCE), part(ints, reals, P.CONSTANT_FORCE)
    for i in range(len(Q)):
        Q[i] = constant[i]
    col, port, coef = part(ints, ints, P.FORCE_COL), part(ints, ints, P.FORCE_PORT), part(ints, reals, P.FORCE_COEF)
    f = part(ints, work, P.PORT_FORCE)
    for e in range(len(col)):
        Q[col[e]] += coef[e] * f[port[e]]
