"""One wheel of the buggy at an instant: port forces and rates of its states, with exact derivatives.

Promises
- The forces are those of `forces.wheel` for h = 0 (given the same deflections and the same braking), on smooth roads
  and on sharp ones; deflections and wind-up have rates instead of steps (tyres/rates.py, `braking` below).
- All derivatives by ports, their rates and the states are exact, curvature of the road included. On sharp roads, too;
  there they cost as much as 48 samples of the road with derivatives do.

Contact depends on the wheel through the centre c, the axle a, the velocity v of the centre, the rate b of the axle and
the spin alone: derivatives are computed by these, the deflections and the torque of the brake (`CONTACT`), and only
then expanded to the 13 ports, as the axle is a fixed combination of the knuckle's vectors.

Brake. Pads and caliper wind up by d, T = -clip(k d + c w, +-N) as in brakes.py. In place of its step

    dd/dt = w (1 - B) - k/c (|d| - left)+ sign(d),      left = N / k, or max(N - c |w|, 0) / k while it slips

B goes from 0 to 1 while |k d + c w| goes from HOLDS N to N, if w winds up further; the other term takes back what
pressure and damper leave no room for. So a brake holds for ever below HOLDS N, and a turning wheel has N.
"""

from math import atan2, sqrt

from sim_service.machines.buggy import brakes
from sim_service.machines.buggy.brake_parameters import P as B
from sim_service.machines.buggy.description import P
from sim_service.machines.buggy.forces import (
    _BODY_FRICTION,
    _BODY_SLIDES,
    _BRAKE_SIZE,
    _FRAME,
    _TYRE,
    _WHEEL_PORTS,
    BRAKE_PARAMETERS,
    FRAMES,
    PRESSURE,
    ROAD,
    TYRES,
    contact_arm,
)
from sim_service.machines.car.tyres.enveloping import LEAN, LYING, envelope, lean
from sim_service.machines.car.tyres.keys import T
from sim_service.machines.car.tyres.magic_formula import OPTIONS, effective_radius
from sim_service.machines.car.tyres.rates import HOLDS, law
from sim_service.machines.contract import places
from sim_service.multibody.natural.elements import add_cross, half_reciprocal
from sim_service.multibody.natural.views import inner, view
from sim_service.roads import ground
from sim_service.roads.layout import Head
from sync.dual import chain, constant, fresh, partial, seed, value, write_partials
from sync.jit import kernel

# fmt: off
CONTACT = places("CONTACT", (
    "CX", "CY", "CZ", "AX", "AY", "AZ",  # centre, axle
    "VX", "VY", "VZ", "BX", "BY", "BZ",  # their rates
    "SPIN", "EX", "EY", "BRAKING", "TWIST",
))
# fmt: on
WITHOUT_TURNING = 16
STATES = 4  # of one wheel: deflection along and across, twist, wind-up
RESULTS = 10  # force (3), torque on the spin, torque on the knuckle (3), rates of deflections and twist
_ROWS = 0  # in the work space of a wheel: derivatives of `RESULTS`
_TORQUE = _ROWS + RESULTS * len(CONTACT)  # the torque on the knuckle by ports (3 x 13), rates, states
_VALUES = _TORQUE + 3 * (2 * _WHEEL_PORTS + STATES)
_OWN = _VALUES + 7  # turning of the knuckle about its axle, by its vectors and by their rates
WORK = _OWN + 18


@kernel(**OPTIONS)
def contact(road, p, grip, side, turning, cx, cy, cz, ax, ay, az, vx, vy, vz, bx, by, bz, spin, ex, ey, braking, twist):
    """The `RESULTS` of what is in `CONTACT`; `turning` is None where there is no turn slip. As forces.wheel has it."""
    wx, wy, wz = ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx

    # the road: first below the centre, then where the wheel touches
    R0 = p[T.UNLOADED_RADIUS]
    px, py = cx, cy
    nx = ny = nz = an = upright = cosine = stands = reach = dx = dy = dz = 0.0
    mu = 1.0
    spring_load = mx = my = mz = 0.0
    sharp = road[Head.SHARP] > 0.0
    if sharp:
        found = envelope(
            *(road, R0, p[T.VERTICAL_STIFFNESS], fresh(cx, 0, 6), fresh(cy, 1, 6), fresh(cz, 2, 6)),
            *(fresh(ax, 3, 6), fresh(ay, 4, 6), fresh(az, 5, 6)),
        )
        depth, gx, gy, gz, mx, my, mz, mu = chain(found, (cx, cy, cz, ax, ay, az))
        spring_load = sqrt(gx * gx + gy * gy + gz * gz)
        nz = 1.0
        if spring_load > 0.0:
            nx, ny, nz = gx / spring_load, gy / spring_load, gz / spring_load
        an = ax * nx + ay * ny + az * nz
        upright, cosine, stands = lean(an)
        reach = R0 - depth
        dx, dy, dz = contact_arm(reach, an, ax, ay, az, nx, ny, nz)
        mx, my, mz = mx - dy * gz + dz * gy, my - dz * gx + dx * gz, mz - dx * gy + dy * gx
    else:
        for _ in range(2):
            pz, slope_x, slope_y, mu = ground(road, px, py)
            size = sqrt(1.0 + slope_x * slope_x + slope_y * slope_y)
            nx, ny, nz = -slope_x / size, -slope_y / size, 1.0 / size
            an = ax * nx + ay * ny + az * nz
            upright, cosine, stands = lean(an)
            reach = ((cx - px) * nx + (cy - py) * ny + (cz - pz) * nz) / cosine
            dx, dy, dz = contact_arm(reach, an, ax, ay, az, nx, ny, nz)
            px, py = cx + dx, cy + dy

    # velocity of the carrier where the wheel touches, in the axes of the contact
    vx, vy, vz = vx + wy * dz - wz * dy, vy + wz * dx - wx * dz, vz + wx * dy - wy * dx
    tx, ty, tz = (ay * nz - az * ny) / upright, (az * nx - ax * nz) / upright, (ax * ny - ay * nx) / upright
    sx, sy, sz = ny * tz - nz * ty, nz * tx - nx * tz, nx * ty - ny * tx
    along, across = vx * tx + vy * ty + vz * tz, vx * sx + vy * sy + vz * sz
    closing = -(vx * nx + vy * ny + vz * nz)

    # normal force
    deflection = R0 - reach
    if not sharp:
        spring_load = p[T.VERTICAL_STIFFNESS] * deflection * (1.0 / cosine)
    load = spring_load + p[T.VERTICAL_DAMPING] * closing
    if not (deflection > 0.0 and load > 0.0):
        load = 0.0
    touches = load > 0.0
    camber = atan2(an, upright)
    felt = camber if upright > LEAN else stands * camber

    # tyre
    radius = effective_radius(p, max(deflection, 0.0))
    beyond = radius - reach
    if upright <= LEAN:
        c = sqrt(max(1.0 - an * an, 1e-12))
        nearer = c * (cosine * c + stands * an * an) / upright
        beyond, radius = beyond * nearer, radius * nearer
    mu = mu * grip
    u = spin * radius
    if turning:
        turns = wx * nx + wy * ny + wz * nz
        results = law(
            *(p, fresh(load, 0, 10), fresh(along, 1, 10), fresh(across, 2, 10), fresh(u, 3, 10), fresh(felt, 4, 10)),
            *(fresh(mu, 5, 10), side, fresh(ex, 6, 10), fresh(ey, 7, 10), True, fresh(turns, 8, 10)),
            fresh(twist, 9, 10),
        )
        tyre = chain(results, (load, along, across, u, felt, mu, ex, ey, turns, twist))
    else:
        results = law(
            *(p, fresh(load, 0, 8), fresh(along, 1, 8), fresh(across, 2, 8), fresh(u, 3, 8), fresh(felt, 4, 8)),
            *(fresh(mu, 5, 8), side, fresh(ex, 6, 8), fresh(ey, 7, 8), None, 0.0, 0.0),
        )
        tyre = chain(results, (load, along, across, u, felt, mu, ex, ey))
    Fx, Fy, Mx, My, Mz, ex_rate, ey_rate, twist_rate, _, _ = tyre
    if upright <= LEAN:
        Mx, Mz = stands * Mx, stands * Mz
    more = -beyond * Fx
    gx, gy, gz = Fx * tx + Fy * sx + load * nx, Fx * ty + Fy * sy + load * ny, Fx * tz + Fy * sz + load * nz
    if an * an > 1.0 - LYING * LYING:
        ux, uy, uz = vx + spin * (ay * dz - az * dy), vy + spin * (az * dx - ax * dz), vz + spin * (ax * dy - ay * dx)
        un = ux * nx + uy * ny + uz * nz
        ux, uy, uz = ux - un * nx, uy - un * ny, uz - un * nz
        flank = 1.0 - (1.0 - an * an) / (LYING * LYING)
        rub = _BODY_FRICTION * mu * load * flank / sqrt(ux * ux + uy * uy + uz * uz + _BODY_SLIDES * _BODY_SLIDES)
        gx, gy, gz = gx - rub * ux, gy - rub * uy, gz - rub * uz
    hx = Mx * tx + My * sx + Mz * nx + more * ax + dy * gz - dz * gy
    hy = Mx * ty + My * sy + Mz * ny + more * ay + dz * gx - dx * gz
    hz = Mx * tz + My * sz + Mz * nz + more * az + dx * gy - dy * gx
    if sharp and touches:
        hx, hy, hz = hx + mx, hy + my, hz + mz
    back = hx * ax + hy * ay + hz * az + braking
    return gx, gy, gz, back, hx - back * ax, hy - back * ay, hz - back * az, ex_rate, ey_rate, twist_rate


@kernel(**OPTIONS)
def braking(p, limit, w, d):
    """Torque of a brake on the wheel, and rate of its wind-up d; w: speed of the wheel against it."""
    k, c = p[B.brake_stiffness], p[B.brake_damping]
    most = limit / k
    trial = k * min(max(d, -most), most) + c * w
    size = abs(trial)
    rate = w
    if w * trial > 0.0 and size > HOLDS * limit:
        part = min((size / limit - HOLDS) / (1.0 - HOLDS), 1.0)
        rate = w * (1.0 - part * part * (3.0 - 2.0 * part))
    # no more wind-up than the pressure holds, nor, while it slips, than the damper leaves of that
    wound = d if trial > 0.0 else -d
    over = abs(d) - most
    if size > limit:
        over = max(over, wound - max(limit - c * abs(w), 0.0) / k)
    if over > 0.0:
        rate -= k / c * (over if d > 0.0 else -over)
    return -min(max(trial, -limit), limit), rate


@inner
def _contact_rows(w, x, xd, ax, ay, az, bx, by, bz, torque, given, params, s, f3, sdot, rows):
    """Results of `contact` into f3 (7) and sdot, their derivatives into rows of `WITHOUT_TURNING` or all `CONTACT`."""
    at, own = _WHEEL_PORTS * w, STATES * w
    tyre_at = TYRES + _TYRE * (w // 2)
    p = view(params, tyre_at, tyre_at + _TYRE)
    road = view(params, ROAD, len(params))
    side = 1.0 if w % 2 == 0 else -1.0
    grip = given[P.grip]
    if given[P.turn_slip] > 0.5 or p[T.TURN_SLIP] > 0.0:
        found = contact(
            *(road, p, grip, side, True, seed(x[at], 0, 17), seed(x[at + 1], 1, 17), seed(x[at + 2], 2, 17)),
            *(seed(ax, 3, 17), seed(ay, 4, 17), seed(az, 5, 17)),
            *(seed(xd[at], 6, 17), seed(xd[at + 1], 7, 17), seed(xd[at + 2], 8, 17)),
            *(seed(bx, 9, 17), seed(by, 10, 17), seed(bz, 11, 17), seed(xd[at + 3], 12, 17)),
            *(seed(s[own], 13, 17), seed(s[own + 1], 14, 17), seed(torque, 15, 17), seed(s[own + 2], 16, 17)),
        )
        for i in range(RESULTS):
            write_partials(found[i], rows, 17 * i)
            if i < 7:
                f3[i] = value(found[i])
            else:
                sdot[own + i - 7] = value(found[i])
        return 17
    flat = contact(
        *(road, p, grip, side, None, seed(x[at], 0, 16), seed(x[at + 1], 1, 16), seed(x[at + 2], 2, 16)),
        *(seed(ax, 3, 16), seed(ay, 4, 16), seed(az, 5, 16)),
        *(seed(xd[at], 6, 16), seed(xd[at + 1], 7, 16), seed(xd[at + 2], 8, 16)),
        *(seed(bx, 9, 16), seed(by, 10, 16), seed(bz, 11, 16), seed(xd[at + 3], 12, 16)),
        *(seed(s[own], 13, 16), seed(s[own + 1], 14, 16), seed(torque, 15, 16), constant(0.0, 16)),
    )
    for i in range(RESULTS):
        write_partials(flat[i], rows, 16 * i)
        if i < 7:
            f3[i] = value(flat[i])
        else:
            sdot[own + i - 7] = value(flat[i])
    return 16


@inner
def _expand(rows, at, frame, params, own, brake_w, brake_d, twists, row, by_x, by_v, by_s):
    """Derivatives by ports of a result of `contact`, from those at rows[at:] by `CONTACT`."""
    by_brake = rows[at + 15]
    for i in range(3):
        by_x[13 * row + i], by_v[13 * row + i] = rows[at + i], rows[at + 6 + i]
    by_x[13 * row + 3], by_v[13 * row + 3] = 0.0, rows[at + 12] + by_brake * brake_w
    for k in range(3):
        c = params[frame + 9 + k]
        for i in range(3):
            j = 3 * k + i
            by_x[13 * row + 4 + j] = c * rows[at + 3 + i] - by_brake * brake_w * own[j]
            by_v[13 * row + 4 + j] = c * rows[at + 9 + i] - by_brake * brake_w * own[9 + j]
    by_s[4 * row], by_s[4 * row + 1] = rows[at + 13], rows[at + 14]
    by_s[4 * row + 2], by_s[4 * row + 3] = rows[at + 16] if twists else 0.0, by_brake * brake_d


@inner
def _cross_rows(rx, ry, rz, size, by, into, first):
    """Rows of T x r at into[first:], from those of T."""
    for j in range(size):
        a, b, c = by[j], by[size + j], by[2 * size + j]
        into[first + j] = b * rz - c * ry
        into[first + size + j] = c * rx - a * rz
        into[first + 2 * size + j] = a * ry - b * rx


@inner
def wheel_rates(w, x, xd, given, params, s, f, sdot, fx, fv, fs, sx, sv, ss, work):
    """Contact, tyre and brake of one wheel: its 13 port forces, rates of its `STATES`, and all derivatives.

    fx, fv (13 x 13), fs (13 x 4), sx, sv (4 x 13), ss (4 x 4): its own blocks, row by row; work: `WORK` numbers.
    """
    at, states = _WHEEL_PORTS * w, STATES * w
    frame = FRAMES + _FRAME * w
    basis, basis_rate = view(x, at + 4, at + 13), view(xd, at + 4, at + 13)
    metric = view(params, frame, frame + 9)
    own = view(work, _OWN, _OWN + 18)

    # the axle, its rate, the turning of the knuckle about it and the derivatives of that
    ax = ay = az = bx = by = bz = turning = 0.0
    for k in range(3):
        c = params[frame + 9 + k]
        ax, ay, az = ax + c * basis[3 * k], ay + c * basis[3 * k + 1], az + c * basis[3 * k + 2]
        bx, by, bz = bx + c * basis_rate[3 * k], by + c * basis_rate[3 * k + 1], bz + c * basis_rate[3 * k + 2]
    qx = qy = qz = 0.0  # turning = q . a
    for i in range(9):
        own[i] = 0.0
    for k in range(3):
        rx = ry = rz = 0.0
        ex, ey, ez = basis_rate[3 * k], basis_rate[3 * k + 1], basis_rate[3 * k + 2]
        for j in range(3):
            g = 0.5 * metric[3 * k + j]
            rx, ry, rz = rx + g * basis[3 * j], ry + g * basis[3 * j + 1], rz + g * basis[3 * j + 2]
            own[3 * j] += g * (ey * az - ez * ay)
            own[3 * j + 1] += g * (ez * ax - ex * az)
            own[3 * j + 2] += g * (ex * ay - ey * ax)
        qx, qy, qz = qx + ry * ez - rz * ey, qy + rz * ex - rx * ez, qz + rx * ey - ry * ex
        own[9 + 3 * k], own[9 + 3 * k + 1], own[9 + 3 * k + 2] = ay * rz - az * ry, az * rx - ax * rz, ax * ry - ay * rx
    turning = ax * qx + ay * qy + az * qz
    for k in range(3):
        c = params[frame + 9 + k]
        own[3 * k], own[3 * k + 1], own[3 * k + 2] = (
            own[3 * k] + c * qx,
            own[3 * k + 1] + c * qy,
            own[3 * k + 2] + c * qz,
        )

    # brake, against the knuckle
    b = view(given, BRAKE_PARAMETERS, BRAKE_PARAMETERS + _BRAKE_SIZE)
    limit = brakes.friction_limit(b, w < 2, given[PRESSURE + w])
    torque, wind = braking(b, limit, seed(xd[at + 3] - turning, 0, 2), seed(s[states + 3], 1, 2))
    brake_w, brake_d, wind_w = partial(torque, 0), partial(torque, 1), partial(wind, 0)

    # contact
    rows, results = view(work, _ROWS, _TORQUE), view(work, _VALUES, _OWN)
    n = _contact_rows(w, x, xd, ax, ay, az, bx, by, bz, value(torque), given, params, s, results, sdot, rows)
    twists = n == 17
    for i in range(4):
        f[at + i] = results[i]
        _expand(rows, n * i, frame, params, own, brake_w, brake_d, twists, i, fx, fv, fs)
    Tx = view(work, _TORQUE, _TORQUE + 39)
    Tv, Ts = view(work, _TORQUE + 39, _TORQUE + 78), view(work, _TORQUE + 78, _VALUES)
    for i in range(3):
        _expand(rows, n * (4 + i), frame, params, own, brake_w, brake_d, twists, i, Tx, Tv, Ts)
        _expand(rows, n * (7 + i), frame, params, own, brake_w, brake_d, twists, i, sx, sv, ss)
    sdot[states + 3] = value(wind)
    for j in range(13):
        sx[39 + j] = sv[39 + j] = 0.0
    sv[39 + 3] = wind_w
    for j in range(9):
        sx[39 + 4 + j], sv[39 + 4 + j] = -wind_w * own[j], -wind_w * own[9 + j]
    ss[12], ss[13], ss[14], ss[15] = 0.0, 0.0, 0.0, partial(wind, 1)

    # the torque on the knuckle acts on its vectors: T x r, r half of a reciprocal one
    hx, hy, hz = results[4], results[5], results[6]
    for k in range(3):
        rx, ry, rz = half_reciprocal(basis, metric, k)
        row = 4 + 3 * k
        f[at + row], f[at + row + 1], f[at + row + 2] = hy * rz - hz * ry, hz * rx - hx * rz, hx * ry - hy * rx
        _cross_rows(rx, ry, rz, 13, Tx, fx, 13 * row)
        _cross_rows(rx, ry, rz, 13, Tv, fv, 13 * row)
        _cross_rows(rx, ry, rz, 4, Ts, fs, 4 * row)
        for j in range(3):
            add_cross(fx, 13, row, 4 + 3 * j, 0.5 * metric[3 * k + j], hx, hy, hz)
