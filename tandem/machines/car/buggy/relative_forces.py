"""The buggy's forces at an instant, and their exact derivatives, for its step in relative coordinates.

The hook's law (law.py, which both call) for what such a step is fit for: wheels that stand on a road without edges and
roll, brakes that slide, no turn slip, no body on the road. What is not so is reported, and the step is I3AL's. Every
function here serves floats and numbers with derivatives (multibody/relative/dual.py) alike, so the text of the law is
the text of its tangents.

A corner (wheel, spring, knuckle) is moved by eight velocities: six of the chassis, its own, its spin; those are the
eight directions of its numbers, first of coordinates, then of velocities. The angle of the spin moves no force: in its
place stands time. The tyre, which is most of the work, is differentiated by what it depends on at the contact (load,
speeds along, across and of rolling, camber, both deflections), once, and carried on to the directions by the chain
rule.

Forces at ports become generalised ones with the ports' derivatives P, held (the generated code has the rest): a force
by the derivatives of its point, a moment M on a body by the body's angular velocities o_i of each direction,

    dQ_i = dM . o_i + M . (o_j x o_i) / 2         along direction j

the last because the hook's port forces M x e^k / 2 turn with the basis e (elements.py).
"""

from math import atan2, copysign, sqrt

from sync.compile.jit import inner
from tandem.machines.car.buggy import brake_parameters, brakes, driveline, driveline_parameters, law
from tandem.machines.car.buggy.description import P
from tandem.machines.car.buggy.forces import add_couple, turn_chassis
from tandem.machines.car.buggy.law import ANTI_ROLL, AXLE, CHASSIS, SPRING, WHEEL_PORTS
from tandem.machines.car.buggy.slots import (
    BRAKE_PARAMETERS,
    BRAKE_SIZE,
    BRAKE_STATES,
    BRAKES,
    DRIVE,
    DRIVELINE_PARAMETERS,
    DRIVELINE_SIZE,
    FRAME,
    FRAMES,
    PRESSURE,
    RATIO,
    ROAD,
    THROTTLE,
    TYRE,
    TYRES,
)
from tandem.machines.car.tyres.keys import T
from tandem.machines.car.tyres.magic_formula import rolling_radius
from tandem.machines.car.tyres.transient import at_instant
from tandem.multibody.ground import surface
from tandem.multibody.ground.layout import Head
from tandem.multibody.natural.elements import half_reciprocal, turn
from tandem.multibody.natural.views import index_within, view
from tandem.multibody.relative.dual import add_derivatives, along, chain, derivative_of, number, value_of
from tandem.multibody.spatial import cross, dot, three

COMPILED_ON_REQUEST = True  # see sync/compile/build.py

# derivatives of ports, block by block (port_jacobian.py): of a wheel's point and spin, of its knuckle; of the others
_WHEEL, _KNUCKLE, _OF_SPRING, _OF_CHASSIS, _OF_BAR = 68, 32, 272, 328, 424
LANES = 8
_OWN, _LAST = 6, 7  # directions of a corner: its own velocity; spin, or time
_STANDS = 0.75  # cosine of the lean of a wheel that stands on its tread: from 0.7 on the hook's law is another one
_BEND = 1e-4  # m, over which the slope of a road is compared for its bend
# rows of eight in the scratch: derivatives of a point, its velocity, axle and its rate; angular velocities; spring's
_C, _V, _A, _B, _O, _S, _R = (24 * k for k in range(7))
_QX, _QW = 168, 232  # a corner's generalised forces by coordinates (and time) and by velocities: eight rows of eight
# of each corner what the factor on friction does to its eight generalised forces and to the rates of its deflections
BY_GRIP, OF_CORNER = 296, 10
SCRATCH = BY_GRIP + 4 * OF_CORNER
_STIFFNESS, _DAMPING = int(brake_parameters.P.brake_stiffness), int(brake_parameters.P.brake_damping)
_WIND_UP = int(brake_parameters.S.wind_up)
_GEAR_MODE, _INERTIA = int(driveline_parameters.P.gear_mode), int(driveline_parameters.P.engine_inertia)


def serves(first, sizes, columns, filled) -> bool:  # type: ignore[no-untyped-def]
    """Whether blocks of port_jacobian.py are as this file takes them to be."""
    found = list(zip(first, sizes, columns, filled, strict=True))
    base = tuple(range(6))
    own = [columns[2 * w][_OWN] for w in range(4)]
    wanted = []
    for w in range(4):
        spin = columns[2 * w][_LAST]
        wanted += [(13 * w, 4, (*base, own[w], spin), 8), (13 * w + 4, 9, (3, 4, 5, own[w]), 4)]
    wanted += [(SPRING + 3 * w, 3, (3, 4, 5, own[w]), 4) for w in range(4)]
    spins = columns[4][_LAST], columns[6][_LAST]
    wanted += [(AXLE, 2, (*spins, spins[0], spins[0]), 2), (CHASSIS, 12, (*base, 0, 0), 6)]
    wanted += [(ANTI_ROLL + 6 * k, 6, (*base, own[2 * k], own[2 * k + 1]), 8) for k in range(2)]
    return found == wanted


# ---- the law, for any kind of number ---------------------------------------------------------------------------------


@inner
def stand(p, road, c, a):
    """How a wheel with this centre and axle stands: n, t, s (axes of the contact), d (its arm), reach, cosine, camber,
    rolling radius, deflection; friction of the road; whether it stands on its tread."""
    flat = road[Head.LAYERS] < 0.5
    px, py = c[0], c[1]
    n, d = a, a
    upright = reach = a[0]
    mu = 1.0
    for _ in range(1 if flat else 2):
        x, y = value_of(px), value_of(py)
        z, zx, zy, mu = surface(road, x, y)
        ox, oy = px - x, py - y
        pz, sx, sy = z + zx * ox + zy * oy, zx + 0.0 * ox, zy + 0.0 * oy
        if not flat:
            _, ax, ay, _ = surface(road, x + _BEND, y)
            _, bx, by, _ = surface(road, x, y + _BEND)
            sx = zx + ((ax - zx) * ox + (bx - zx) * oy) / _BEND
            sy = zy + ((ay - zy) * ox + (by - zy) * oy) / _BEND
        n = law.normal_of(sx, sy)
        an = dot(a, n)
        upright = sqrt(max(1.0 - an * an, _STANDS * _STANDS))
        reach = law.reach_to(c, px, py, pz, n, upright)
        d = law.arm_of(reach, upright, an, a, n)
        px, py = c[0] + d[0], c[1] + d[1]
    t, s = law.contact_axes(a, n, upright)
    camber = atan2(dot(a, n), upright)
    deflection = p[T.UNLOADED_RADIUS] - reach
    radius = rolling_radius(p, max(deflection, 0.0))
    return n, t, s, d, reach, upright, camber, radius, deflection, mu, upright > _STANDS


@inner
def slip(p, n, t, s, d, cosine, deflection, a, v, b):
    """Load, speeds along and across: of a wheel that stands so, whose centre has velocity v and whose axle turns with
    rate b."""
    u = law.carried(v, cross(a, b), d)
    load = law.along_normal(p[T.VERTICAL_STIFFNESS] * deflection, cosine) - p[T.VERTICAL_DAMPING] * dot(u, n)
    return load, dot(u, t), dot(u, s)


@inner
def loads(n, t, s, d, beyond, a, load, Fx, Fy, Mx, My, Mz):
    """Force on a wheel's centre, moment about it, and what of this is about the axle."""
    g = law.contact_force(n, t, s, load, Fx, Fy)
    h = law.contact_moment(n, t, s, d, a, g, Mx, My, Mz, -beyond * Fx)
    return g, h, dot(h, a)


@inner
def braking(w, live, states, relative_speed):
    """Torque of a brake that slides, how it grows with its limit, and whether it slides."""
    p = view(live, BRAKE_PARAMETERS, BRAKE_PARAMETERS + BRAKE_SIZE)
    limit = brakes.friction_limit(p, w < 2, live[PRESSURE + w])
    k, most = p[_STIFFNESS], limit
    pull = min(max(k * states[BRAKES + BRAKE_STATES * w + _WIND_UP], -most), most) + p[_DAMPING] * relative_speed
    sign = -copysign(1.0, pull)
    return sign * limit, sign, abs(pull) >= limit


@inner
def push_of(front, live, params, x, v):
    """Force of a spring, its damper and its stops, along x from its lower end."""
    length, u, speed = law.spring_line(x, v)
    push = law.spring_push(front, live, params, length, speed)
    return push * u[0], push * u[1], push * u[2]


@inner
def axle_torques(live, drive, ratio, left, right, engine):
    """Torque on the rear axle, and between its wheels; rate of the engine's speed."""
    p = view(live, DRIVELINE_PARAMETERS, DRIVELINE_PARAMETERS + DRIVELINE_SIZE)
    speed = 0.5 * (left + right)
    torque, rate = drive + 0.0 * speed, 0.0 * engine
    if p[_GEAR_MODE] >= 0.5:
        t = min(max(ratio * speed, -driveline.LIMIT), driveline.LIMIT)
        pump = min(max(engine, 0.0), driveline.LIMIT)
        throttle = min(max(live[THROTTLE], 0.0), 1.0)
        produced, produced_x = driveline.engine(p, throttle, value_of(pump))
        Tp, Tt, _, _, _, _ = driveline.converter(p, pump, t)
        out, _ = driveline.gears(p, Tt, 0.0, t)
        torque = ratio * out
        rate = (produced + produced_x * (pump - value_of(pump)) - Tp) / p[_INERTIA]
    apart = left - right
    return torque, law.coupling(live, law.DIFFERENTIAL, torque, speed, apart) * apart, rate


@inner
def on_chassis(live, v, e0, e1, e2, torque):
    """Force of the air at the centre of gravity; moment of air, drive and hand."""
    g, pitch, _ = law.air(live, v, e0, e2)
    return g, law.rotated_by(live[P.push_roll], live[P.push_pitch] + pitch - torque, live[P.push_yaw], e0, e1, e2)


# ---- forces alone ----------------------------------------------------------------------------------------------------


@inner
def angular(basis, metric, rates):
    """Angular velocity of a body whose basis has these rates."""
    ox = oy = oz = 0.0
    for k in range(3):
        rx, ry, rz = half_reciprocal(basis, metric, k)
        ex, ey, ez = rates[3 * k], rates[3 * k + 1], rates[3 * k + 2]
        ox, oy, oz = ox + ry * ez - rz * ey, oy + rz * ex - rx * ez, oz + rx * ey - ry * ex
    return ox, oy, oz


@inner
def write_corner(w, x, xd, live, params, states, f, g, h, turning, a, push):
    """Forces of a corner to its ports, with the brake's; how the brake's torque grows with its limit; whether it slides
    and the moment on the knuckle."""
    at, frame = WHEEL_PORTS * w, FRAMES + FRAME * w
    basis, metric = view(x, at + 4, at + 13), view(params, frame, frame + 9)
    own = law.turning_about(a, basis, metric, view(xd, at + 4, at + 13))
    brake, by_limit, slides = braking(w, live, states, xd[at + 3] - own)
    back = turning + brake
    m = h[0] - back * a[0], h[1] - back * a[1], h[2] - back * a[2]
    f[at], f[at + 1], f[at + 2], f[at + 3] = g[0], g[1], g[2], back
    turn(basis, metric, m[0], m[1], m[2], view(f, at + 4, at + 13))
    at = SPRING + 3 * w
    f[at], f[at + 1], f[at + 2] = push
    return by_limit, slides, m


@inner
def write_rest(x, live, params, f, torque, between, g, m):
    """Forces of axle, chassis and hand to their ports."""
    f[AXLE], f[AXLE + 1] = 0.5 * torque - between, 0.5 * torque + between
    f[CHASSIS], f[CHASSIS + 1], f[CHASSIS + 2] = g
    turn_chassis(x, params, f, m)
    body = index_within(live[P.push_body] + 0.5, 0, 4)
    at = CHASSIS if body == 0 else WHEEL_PORTS * (body - 1)
    f[at] += live[P.push_x]
    f[at + 1] += live[P.push_y]
    f[at + 2] += live[P.push_z]


@inner
def corner_forces(w, x, xd, live, params, states, e, f, edot):
    """Forces of a corner to its ports, rates of its deflections; whether the law here holds."""
    at, tyre_at = WHEEL_PORTS * w, TYRES + TYRE * (w // 2)
    p, road = view(params, tyre_at, tyre_at + TYRE), view(params, ROAD, len(params))
    a = law.axle_of(params, w, x)
    n, t, s, d, reach, cosine, camber, radius, deflection, mu, stands = stand(p, road, three(x, at), a)
    load, ahead, across = slip(p, n, t, s, d, cosine, deflection, a, three(xd, at), law.axle_of(params, w, xd))
    if not (stands and deflection > 0.0 and load > 0.0):
        return False
    Fx, Fy, Mx, My, Mz, ex, ey, holds = at_instant(
        p, load, ahead, across, xd[at + 3] * radius, camber, mu * live[P.grip], 1.0 - 2.0 * (w % 2), e[2 * w],
        e[2 * w + 1],
    )  # fmt: skip
    edot[2 * w], edot[2 * w + 1] = ex, ey
    g, h, turning = loads(n, t, s, d, radius - reach, a, load, Fx, Fy, Mx, My, Mz)
    push = push_of(w < 2, live, params, three(x, SPRING + 3 * w), three(xd, SPRING + 3 * w))
    _, slides, _ = write_corner(w, x, xd, live, params, states, f, g, h, turning, a, push)
    return holds and slides


@inner
def forces(x, xd, live, params, states, e, f, edot):
    """Forces f at ports x that move with rates xd, rates of the states e (deflections, speed of the engine); whether
    the law here holds."""
    fits = True
    for i in range(len(f)):
        f[i] = 0.0
    for w in range(4):
        fine = corner_forces(w, x, xd, live, params, states, e, f, edot)
        fits = fits and fine
    forces_of_rest(x, xd, live, params, e, f, edot)
    return fits


@inner
def forces_of_rest(x, xd, live, params, e, f, edot):
    """Of axle, chassis, hand and bars."""
    torque, between, edot[8] = axle_torques(live, live[DRIVE], live[RATIO], xd[AXLE], xd[AXLE + 1], e[8])
    e0, e1, e2 = three(x, CHASSIS + 3), three(x, CHASSIS + 6), three(x, CHASSIS + 9)
    g, m = on_chassis(live, three(xd, CHASSIS), e0, e1, e2, torque)
    write_rest(x, live, params, f, torque, between, g, m)
    for k in range(2):
        rate = live[P.front_anti_roll] if k == 0 else live[P.rear_anti_roll]
        if rate > 0.0:
            d = law.between_ends(x, k)
            pull, m = law.couple(rate * dot(e2, d), e2, d)
            add_couple(f, k, pull)
            turn_chassis(x, params, f, m)


# ---- with derivatives ------------------------------------------------------------------------------------------------


@inner
def clear(array, start, stop):
    for i in range(start, stop):
        array[i] = 0.0


@inner
def angular_rows(basis, metric, derivatives, first, width, row, out, at):
    """Angular velocities of a body along each direction, to three rows of eight, from the derivatives of its basis."""
    clear(out, at, at + 3 * LANES)
    for k in range(3):
        rx, ry, rz = half_reciprocal(basis, metric, k)
        for i in range(width):
            here = first + row * 3 * k + i
            ex, ey, ez = derivatives[here], derivatives[here + row], derivatives[here + 2 * row]
            out[at + i] += ry * ez - rz * ey
            out[at + LANES + i] += rz * ex - rx * ez
            out[at + 2 * LANES + i] += rx * ey - ry * ex


@inner
def corner_rows(w, x, params, derivatives, rate_derivatives, drift, rate_drift, Z):
    """The rows of a corner: see the constants above."""
    clear(Z, 0, _QX)
    at, first = WHEEL_PORTS * w, _WHEEL * w
    frame = FRAMES + FRAME * w
    for i in range(3):
        for c in range(LANES - 1):
            Z[_C + LANES * i + c] = derivatives[first + LANES * i + c]
            Z[_V + LANES * i + c] = rate_derivatives[first + LANES * i + c]
        Z[_C + LANES * i + _LAST] = drift[at + i]
        Z[_V + LANES * i + _LAST] = rate_drift[at + i]
    first += _KNUCKLE
    for k in range(3):
        factor = params[frame + 9 + k]
        for i in range(3):
            port = 3 * k + i
            for c in range(4):
                Z[_A + LANES * i + 3 + c] += factor * derivatives[first + 4 * port + c]
                Z[_B + LANES * i + 3 + c] += factor * rate_derivatives[first + 4 * port + c]
            Z[_A + LANES * i + _LAST] += factor * drift[at + 4 + port]
            Z[_B + LANES * i + _LAST] += factor * rate_drift[at + 4 + port]
    # of the knuckle in directions 3 to 6, and in time
    basis, metric = view(x, at + 4, at + 13), view(params, frame, frame + 9)
    angular_rows(basis, metric, derivatives, first, 4, 4, Z, _O)
    for i in range(3):
        for c in range(3, -1, -1):
            Z[_O + LANES * i + 3 + c] = Z[_O + LANES * i + c]
        for c in range(3):
            Z[_O + LANES * i + c] = 0.0
    o = angular(basis, metric, view(drift, at + 4, at + 13))
    Z[_O + _LAST], Z[_O + LANES + _LAST], Z[_O + 2 * LANES + _LAST] = o
    first, at = _OF_SPRING + 12 * w, SPRING + 3 * w
    for i in range(3):
        for c in range(4):
            Z[_S + LANES * i + 3 + c] = derivatives[first + 4 * i + c]
            Z[_R + LANES * i + 3 + c] = rate_derivatives[first + 4 * i + c]
        Z[_S + LANES * i + _LAST] = drift[at + i]
        Z[_R + LANES * i + _LAST] = rate_drift[at + i]


@inner
def numbers(x, at, Z, rows):
    """Three numbers with three rows of derivatives."""
    return number(x[at], Z, rows), number(x[at + 1], Z, rows + LANES), number(x[at + 2], Z, rows + 2 * LANES)


@inner
def add_force(g, Z, rows, first, last, out, at):
    """Generalised forces of a force on what moves as `rows` say, in directions from first to last."""
    for i in range(first, last):
        add_derivatives(g[0], Z[rows + i], out, at + LANES * i)
        add_derivatives(g[1], Z[rows + LANES + i], out, at + LANES * i)
        add_derivatives(g[2], Z[rows + 2 * LANES + i], out, at + LANES * i)


@inner
def add_rotated(m, Z, rows, out, at):
    """M . (o_j x o_i) / 2 to row i and column j."""
    for i in range(3, LANES - 1):
        a = (Z[rows + i], Z[rows + LANES + i], Z[rows + 2 * LANES + i])
        b = cross(a, m)  # (o_j x o_i) . M = o_j . (o_i x M)
        for j in range(3, LANES):
            o = (Z[rows + j], Z[rows + LANES + j], Z[rows + 2 * LANES + j])
            out[at + LANES * i + j] += 0.5 * dot(o, b)


# long: one corner in the order of forces.py, for floats and for numbers with derivatives
@inner
def corner(w, x, xd, live, pressure_rates, params, states, e, f, edot, Z, columns, n, N, S, J, drift, edot_t):
    """Forces of a corner, and their derivatives to S (of generalised forces), J and what changes with time."""
    road, at = view(params, ROAD, len(params)), WHEEL_PORTS * w
    tyre_at = TYRES + TYRE * (w // 2)
    p = view(params, tyre_at, tyre_at + TYRE)
    # by coordinates: geometry, then velocities
    a, b = law.axle_of(params, w, x), law.axle_of(params, w, xd)
    ad = number(a[0], Z, _A), number(a[1], Z, _A + LANES), number(a[2], Z, _A + 2 * LANES)
    bd = number(b[0], Z, _B), number(b[1], Z, _B + LANES), number(b[2], Z, _B + 2 * LANES)
    n_, t_, s_, d_, reach_, cosine_, camber_, radius_, deflection_, mu, stands = stand(
        p, road, numbers(x, at, Z, _C), ad
    )
    spin = xd[at + 3]
    load_, ahead_, across_ = slip(p, n_, t_, s_, d_, cosine_, deflection_, ad, numbers(xd, at, Z, _V), bd)
    rolling_ = spin * radius_
    load, ahead, across, rolling = value_of(load_), value_of(ahead_), value_of(across_), value_of(rolling_)
    if not (stands and deflection_ > 0.0 and load > 0.0):
        return False
    # by velocities: the same geometry, without derivatives
    nn, t = (value_of(n_[0]), value_of(n_[1]), value_of(n_[2])), (value_of(t_[0]), value_of(t_[1]), value_of(t_[2]))
    s, d = (value_of(s_[0]), value_of(s_[1]), value_of(s_[2])), (value_of(d_[0]), value_of(d_[1]), value_of(d_[2]))
    radius, reach = value_of(radius_), value_of(reach_)
    for i in range(3):  # neither the spin nor time moves a centre or an axle by velocity
        Z[_C + LANES * i + _LAST] = Z[_A + LANES * i + _LAST] = 0.0
    bw = number(b[0], Z, _A), number(b[1], Z, _A + LANES), number(b[2], Z, _A + 2 * LANES)
    loadw, aheadw, acrossw = slip(
        p, nn, t, s, d, value_of(cosine_), value_of(deflection_), a, numbers(xd, at, Z, _C), bw
    )
    rollingw = along(spin, 7) * radius

    # the tyre by what it depends on, and on to the directions
    by_tyre = at_instant(
        p, along(load, 0), along(ahead, 1), along(across, 2), along(rolling, 3), along(value_of(camber_), 4),
        mu * along(live[P.grip], 7), 1.0 - 2.0 * (w % 2), along(e[2 * w], 5), along(e[2 * w + 1], 6),
    )  # fmt: skip
    Fx, Fy, Mx, My, Mz, ex, ey, holds = by_tyre
    x8 = (load_, ahead_, across_, rolling_, camber_, 0.0, 0.0, 0.0)
    w8 = (loadw, aheadw, acrossw, rollingw, 0.0, 0.0, 0.0, 0.0)
    g_, h_, turning_ = loads(
        n_, t_, s_, d_, radius_ - reach_, ad, load_, chain(Fx, x8), chain(Fy, x8), chain(Mx, x8), chain(My, x8),
        chain(Mz, x8),
    )  # fmt: skip
    gw, hw, turningw = loads(
        nn, t, s, d, radius - reach, a, loadw, chain(Fx, w8), chain(Fy, w8), chain(Mx, w8), chain(My, w8), chain(Mz, w8)
    )
    sp, sv = numbers(x, SPRING + 3 * w, Z, _S), numbers(xd, SPRING + 3 * w, Z, _R)
    push_ = push_of(w < 2, live, params, sp, sv)
    g, h = (value_of(g_[0]), value_of(g_[1]), value_of(g_[2])), (value_of(h_[0]), value_of(h_[1]), value_of(h_[2]))
    push = value_of(push_[0]), value_of(push_[1]), value_of(push_[2])
    by_limit, slides, m = write_corner(w, x, xd, live, params, states, f, g, h, value_of(turning_), a, push)
    brake = f[at + 3] - value_of(turning_)
    edot[2 * w], edot[2 * w + 1] = value_of(ex), value_of(ey)

    # generalised forces by coordinates and time; the brake's torque changes with pressure
    clear(Z, _QX, BY_GRIP)
    add_force(g_, Z, _C, 0, _LAST, Z, _QX)
    back_ = turning_ + brake
    M_ = h_[0] - back_ * ad[0], h_[1] - back_ * ad[1], h_[2] - back_ * ad[2]
    add_force(M_, Z, _O, 3, _LAST, Z, _QX)
    add_force(push_, Z, _S, 3, _LAST, Z, _QX)
    add_derivatives(turning_, 1.0, Z, _QX + LANES * _LAST)
    add_rotated(m, Z, _O, Z, _QX)
    p = view(live, BRAKE_PARAMETERS, BRAKE_PARAMETERS + BRAKE_SIZE)
    grows = by_limit * (
        brakes.friction_limit(p, w < 2, live[PRESSURE + w] + 1.0) - brakes.friction_limit(p, w < 2, live[PRESSURE + w])
    )
    grows *= pressure_rates[w]
    Z[_QX + LANES * _LAST + _LAST] += grows
    for i in range(3, _LAST):
        o = (Z[_O + i], Z[_O + LANES + i], Z[_O + 2 * LANES + i])
        Z[_QX + LANES * i + _LAST] -= grows * dot(a, o)
    # and by velocities
    add_force(gw, Z, _C, 0, _LAST, Z, _QW)
    Mw = hw[0] - turningw * a[0], hw[1] - turningw * a[1], hw[2] - turningw * a[2]
    add_force(Mw, Z, _O, 3, _LAST, Z, _QW)
    for i in range(3):
        Z[_S + LANES * i + _LAST] = 0.0
    fixed = three(x, SPRING + 3 * w)
    add_force(push_of(w < 2, live, params, fixed, numbers(xd, SPRING + 3 * w, Z, _S)), Z, _S, 3, _LAST, Z, _QW)
    add_derivatives(turningw, 1.0, Z, _QW + LANES * _LAST)

    for i in range(LANES):
        row = 2 * n * columns[i]
        for j in range(LANES):
            if j < _LAST:
                S[row + columns[j]] += Z[_QX + LANES * i + j]
            S[row + n + columns[j]] += Z[_QW + LANES * i + j]
        drift[columns[i]] += Z[_QX + LANES * i + _LAST]

    # deflections: their rates by everything, and what they do to the generalised forces
    clear(Z, _QX, _QX + 4 * LANES)
    add_derivatives(chain(ex, x8), 1.0, Z, _QX)
    add_derivatives(chain(ey, x8), 1.0, Z, _QX + LANES)
    add_derivatives(chain(ex, w8), 1.0, Z, _QX + 2 * LANES)
    add_derivatives(chain(ey, w8), 1.0, Z, _QX + 3 * LANES)
    for i in range(2):
        row = (2 * n + 2 * w + i) * N
        for j in range(LANES):
            if j < _LAST:
                J[row + columns[j]] = Z[_QX + LANES * i + j]
            J[row + n + columns[j]] = Z[_QX + LANES * (2 + i) + j]
        edot_t[2 * w + i] = Z[_QX + LANES * i + _LAST]
    at_e = 2 * n + 2 * w
    J[at_e * N + at_e], J[at_e * N + at_e + 1] = derivative_of(ex, 5), derivative_of(ex, 6)
    J[(at_e + 1) * N + at_e], J[(at_e + 1) * N + at_e + 1] = derivative_of(ey, 5), derivative_of(ey, 6)
    beyond = radius - reach
    deflect(
        loads(nn, t, s, d, beyond, a, 0.0, derivative_of(Fx, 5), derivative_of(Fy, 5), derivative_of(Mx, 5),
              derivative_of(My, 5), derivative_of(Mz, 5)), a, Z, columns, n, N, at_e, J,
    )  # fmt: skip
    deflect(
        loads(nn, t, s, d, beyond, a, 0.0, derivative_of(Fx, 6), derivative_of(Fy, 6), derivative_of(Mx, 6),
              derivative_of(My, 6), derivative_of(Mz, 6)), a, Z, columns, n, N, at_e + 1, J,
    )  # fmt: skip
    by_grip(
        loads(nn, t, s, d, beyond, a, 0.0, derivative_of(Fx, 7), derivative_of(Fy, 7), derivative_of(Mx, 7),
              derivative_of(My, 7), derivative_of(Mz, 7)), a, derivative_of(ex, 7), derivative_of(ey, 7), Z,
        BY_GRIP + OF_CORNER * w,
    )  # fmt: skip
    return holds and slides


@inner
def generalised(force, a, Z, i):
    """Of a force and moments on a wheel (`loads`) in direction i of its corner, short of the spin."""
    g, h, turning = force
    m = h[0] - turning * a[0], h[1] - turning * a[1], h[2] - turning * a[2]
    c = (Z[_C + i], Z[_C + LANES + i], Z[_C + 2 * LANES + i])
    o = (Z[_O + i], Z[_O + LANES + i], Z[_O + 2 * LANES + i])
    return dot(g, c) + dot(m, o)


@inner
def deflect(by_e, a, Z, columns, n, N, column, J):
    """A column of J: what a deflection changes of the generalised forces of its corner."""
    for i in range(_LAST):
        J[(n + columns[i]) * N + column] = generalised(by_e, a, Z, i)
    J[(n + columns[_LAST]) * N + column] = by_e[2]


@inner
def by_grip(by_factor, a, ex, ey, Z, at):
    """The same for the factor on friction, which all corners have in common: each to its own place."""
    for i in range(_LAST):
        Z[at + i] = generalised(by_factor, a, Z, i)
    Z[at + _LAST], Z[at + LANES], Z[at + LANES + 1] = by_factor[2], ex, ey


# long: the numbers of a corner one by one: with derivatives there are no arrays of them
@inner
def rest(x, xd, live, changing, params, e, f, edot, Z, P_, R_, spins, own, n, N, S, J, drift, edot_t):
    """Axle, chassis, hand and bars: as `corner`."""
    # axle: directions are both spins, the engine's speed, time
    torque_, between_, rate_ = axle_torques(
        live, live[DRIVE] + changing[0] * along(0.0, 3), live[RATIO] + changing[1] * along(0.0, 3),
        along(xd[AXLE], 0), along(xd[AXLE + 1], 1), along(e[8], 2),
    )  # fmt: skip
    torque, edot[8] = value_of(torque_), value_of(rate_)
    engine, left, right = 2 * n + 8, spins[0], spins[1]
    clear(Z, 0, 4 * LANES)
    add_derivatives(0.5 * torque_ - between_, 1.0, Z, 0)
    add_derivatives(0.5 * torque_ + between_, 1.0, Z, LANES)
    add_derivatives(torque_, 1.0, Z, 2 * LANES)
    add_derivatives(rate_, 1.0, Z, 3 * LANES)
    for i in range(2):
        row, at = spins[i], LANES * i
        S[2 * n * row + n + left] += Z[at]
        S[2 * n * row + n + right] += Z[at + 1]
        J[(n + row) * N + engine] = Z[at + 2]
        drift[row] += Z[at + 3]
    at = 3 * LANES
    J[engine * N + n + left], J[engine * N + n + right], J[engine * N + engine] = Z[at], Z[at + 1], Z[at + 2]
    edot_t[8] = Z[at + 3]
    by_left, by_right, by_engine, by_time = Z[2 * LANES], Z[2 * LANES + 1], Z[2 * LANES + 2], Z[2 * LANES + 3]

    # chassis: directions are its six, by coordinates and then by velocities
    basis = view(x, CHASSIS + 3, CHASSIS + 12)
    metric = view(params, FRAMES + 4 * FRAME, FRAMES + 4 * FRAME + 9)
    first = _OF_CHASSIS
    angular_rows(basis, metric, P_, first + 3 * LANES, 6, LANES, Z, _O)
    e0, e1, e2 = three(x, CHASSIS + 3), three(x, CHASSIS + 6), three(x, CHASSIS + 9)
    d0, d1 = numbers(x, CHASSIS + 3, P_, first + 24), numbers(x, CHASSIS + 6, P_, first + 48)
    d2 = numbers(x, CHASSIS + 9, P_, first + 72)
    g_, m_ = on_chassis(live, numbers(xd, CHASSIS, R_, first), d0, d1, d2, torque)
    gw, mw = on_chassis(live, numbers(xd, CHASSIS, P_, first), e0, e1, e2, torque)
    g = value_of(g_[0]), value_of(g_[1]), value_of(g_[2])
    m = value_of(m_[0]), value_of(m_[1]), value_of(m_[2])
    write_rest(x, live, params, f, torque, value_of(between_), g, m)
    clear(Z, _QX, BY_GRIP)
    add_force(g_, P_, first, 0, 6, Z, _QX)
    add_force(m_, Z, _O, 3, 6, Z, _QX)
    add_rotated(m, Z, _O, Z, _QX)
    add_force(gw, P_, first, 0, 6, Z, _QW)
    add_force(mw, Z, _O, 3, 6, Z, _QW)
    for i in range(6):
        for j in range(6):
            S[2 * n * i + j] += Z[_QX + LANES * i + j]
            S[2 * n * i + n + j] += Z[_QW + LANES * i + j]
        by_torque = -(e1[0] * Z[_O + i] + e1[1] * Z[_O + LANES + i] + e1[2] * Z[_O + 2 * LANES + i])
        S[2 * n * i + n + left] += by_torque * by_left
        S[2 * n * i + n + right] += by_torque * by_right
        J[(n + i) * N + engine] = by_torque * by_engine
        drift[i] += by_torque * by_time

    # bars: directions are the chassis' six and the own ones of both corners
    for k in range(2):
        rate = live[P.front_anti_roll] if k == 0 else live[P.rear_anti_roll]
        if rate > 0.0:
            at = _OF_BAR + 48 * k
            for i in range(3 * LANES):
                Z[_C + i] = P_[at + i] - P_[at + 3 * LANES + i]
            ends = law.between_ends(x, k)
            d = number(ends[0], Z, _C), number(ends[1], Z, _C + LANES), number(ends[2], Z, _C + 2 * LANES)
            pull_, m_ = law.couple(rate * dot(d2, d), d2, d)
            m = value_of(m_[0]), value_of(m_[1]), value_of(m_[2])
            add_couple(f, k, (value_of(pull_[0]), value_of(pull_[1]), value_of(pull_[2])))
            turn_chassis(x, params, f, m)
            clear(Z, _QX, _QX + 64)
            add_force((-pull_[0], -pull_[1], -pull_[2]), Z, _C, 0, LANES, Z, _QX)
            add_force(m_, Z, _O, 3, 6, Z, _QX)
            add_rotated(m, Z, _O, Z, _QX)
            for i in range(LANES):
                row = i if i < 6 else own[2 * k + i - 6]
                for j in range(LANES):
                    S[2 * n * row + (j if j < 6 else own[2 * k + j - 6])] += Z[_QX + LANES * i + j]


# long: the numbers of a corner one by one: with derivatives there are no arrays of them
@inner
def forces_and_derivatives(
    x, xd, live, changing, params, states, e, f, edot, table, of, P_, R_, port_drift, rate_drift, Z, n, N, S, J, drift,
    edot_t,
):  # fmt: skip
    """As `forces`; to S and `drift` are added the derivatives of generalised forces with those of the ports held,
    to J go columns and rows of the states e. From table[of[w]] on are the eight velocities of a corner; `changing` are
    the rates of drive torque, ratio and pressures. From Z[BY_GRIP] on is left what friction does (`spread_grip`)."""
    fits = True
    clear(Z, BY_GRIP, SCRATCH)
    for i in range(len(f)):
        f[i] = 0.0
    for w in range(4):
        corner_rows(w, x, params, P_, R_, port_drift, rate_drift, Z)
        columns = view(table, of[w], len(table))
        fine = corner(
            w, x, xd, live, view(changing, 2, 6), params, states, e, f, edot, Z, columns, n, N, S, J, drift,
            edot_t,
        )  # fmt: skip
        fits = fits and fine
    rest(
        x, xd, live, changing, params, e, f, edot, Z, P_, R_, (table[of[2] + 7], table[of[3] + 7]),
        (table[of[0] + 6], table[of[1] + 6], table[of[2] + 6], table[of[3] + 6]), n, N, S, J, drift, edot_t,
    )  # fmt: skip
    return fits


@inner
def spread_grip(Z, table, of, by_force, by_rate):
    """What the factor on friction does to generalised forces, which is added, and to the rates of the deflections."""
    for w in range(4):
        at = BY_GRIP + OF_CORNER * w
        for i in range(LANES):
            by_force[table[of[w] + i]] += Z[at + i]
        by_rate[2 * w], by_rate[2 * w + 1] = Z[at + LANES], Z[at + LANES + 1]
