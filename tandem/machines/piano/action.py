"""The grand action: key, whippen, jack, repetition lever and hammer, in four phases with the same state.

    acceleration   the jack is fixed to the whippen and lifts the hammer by its knuckle
    let-off        its toe is on the let-off button: it turns, and its head slides along the knuckle
    catch          the head is off the knuckle; the hammer is thrown, and falls on the repetition lever
    reset          the toe is free again: the jack is back at the whippen's stop, not yet below the knuckle

Source: R. B. Gillespie, 1996, 3.5 (its submodels A to D). Symbols are its own: q1 key, q2 hammer, q3 repetition lever,
q5 whippen, q6 jack; q4 compression of the spring between jack and hammer along the jack, q9 place of the head along the
knuckle. q5 to q9 follow from q1 to q3 in closed form, in every phase, also where nothing touches: so the state passes
from phase to phase as it is. Masses are four points; links have none. Ground points close the loops at the source's
pose at rest. What else is not in the source is a reconstruction (docs/piano.md), whose regression values tests hold.

The driver D is the measured key; a spring and a damper (the coupler) lead from it to the virtual key, and their torque
is what is felt. Phases change by indicator functions, located inside a step (sync/signals/piecewise.py). The source's
table leaves out two ways, which `repair` adds: a hammer that was thrown off and lands on the jack while its toe is on
the button (catch to let-off), and a toe that comes to the button while the jack is not below the knuckle (reset to
catch).

A strike is the first time that the hammer meets the string in a stroke: with no back-check and no drop screw in the
source, a hammer that was struck comes back from the lever and touches the string again, in a deep press many times. It
is another strike once the jack is under the knuckle again and the key has risen.

Energy is counted: what went in through the coupler, and what was lost in dampers, at the string and where a spring was
let go. What is stored beyond that was made by steps and transitions.
"""

import math

from sync.compile.jit import kernel
from sync.signals.piecewise import SCRATCH as EVENT_SCRATCH
from sync.signals.piecewise import sequence
from tandem.machines.piano.geometry import (
    BUTTON,
    CAPSTAN,
    CAPSTAN_HEIGHT,
    GRAVITY,
    JACK,
    KEY_CENTRE,
    KEY_GYRATION,
    KNUCKLE,
    LEVER,
    LEVER_BACK,
    LEVER_BED,
    LEVER_HEIGHT,
    LEVER_OFFSET,
    P2X,
    P2Y,
    P3X,
    P3Y,
    PARAMETERS,
    Q9,
    REST_SPREAD,
    SHANK,
    STOP,
    TOE,
    WHIPPEN,
)

ACCELERATION, LET_OFF, CATCH, RESET = range(4)

# what flows: the state of the action, as it stands in the machine's
STATE = (
    ("key_angle", "rad", "q1, of the virtual key"),
    ("hammer_angle", "rad", "q2; the string is at 0"),
    ("lever_angle", "rad", "q3, of the repetition lever"),
    ("key_rate", "rad/s", "u1"),
    ("hammer_rate", "rad/s", "u2"),
    ("lever_rate", "rad/s", "u3"),
    ("driver_angle", "rad", "D, of the measured key"),
    ("work", "J", "done on the action through the coupler"),
    ("lost", "J", "in dampers, at the string, where a spring was let go"),
    ("time", "s", "since the start"),
    ("strikes", "1", "of the hammer on the string"),
    ("strike_at", "s", "the last one"),
    ("strike_rate", "rad/s", "of the hammer, then"),
    ("changes", "1", "of the phase"),
    ("change_at", "s", "the last one"),
    ("spent", "1", "1 from a strike on until the jack has come back under the knuckle"),
    ("deepest", "rad", "angle of the key since then"),
)
(
    QK, QH, QR, UK, UH, UR, DRIVER, WORK, LOST, TIME, STRIKES, STRIKE_AT, STRIKE_RATE, CHANGES, CHANGE_AT, SPENT,
    DEEPEST,
) = range(17)  # fmt: skip
REARMED = 2e-3  # rad, of the key above where it was, for the next blow: half a millimetre at its front
N = len(STATE)

(
    K1, B1, K2, K3, K4, K5, K6, B4, B5, B7, B8, M1, M2, M3, M4, PRELOAD, HIGHER, EDGE, TOLERANCE, UP, DOWN, RESTITUTION,
    REPAIR,
) = range(len(PARAMETERS))  # fmt: skip
# after them in the scratch: rate of the driver's path, rate at the coupler's damper, derivatives of a Runge-Kutta step
PATH_RATE = len(PARAMETERS)
SEEN_RATE = PATH_RATE + 1
_DERIVATIVES = SEEN_RATE + 1
_STAGE = _DERIVATIVES + 4 * N
_EVENTS = _STAGE + N
ACTION_SCRATCH = _EVENTS + EVENT_SCRATCH * N


@kernel()
def jack_at(mode, q1, button):
    """By the key's angle: q5, its cosine and sine, rho = dq5/dq1, drho/dq1, q6, dq6/dq1, JJ, dJJ/dq1."""
    c1, s1 = math.cos(q1), math.sin(q1)
    cx, cy = CAPSTAN * c1 - CAPSTAN_HEIGHT * s1, CAPSTAN * s1 + CAPSTAN_HEIGHT * c1
    dx, dy = cx - P2X, cy - P2Y
    square = dx * dx + dy * dy
    cross = dx * cx + dy * cy  # d x dC/dq1, with dC/dq1 = (-cy, cx)
    along = -dx * cy + dy * cx
    rho = cross / square
    drho = (-dx * cy + dy * cx) / square - 2.0 * cross * along / (square * square)
    q5 = math.atan2(-dy, -dx)
    c5, s5 = math.cos(q5), math.sin(q5)
    jx, jy = P2X - WHIPPEN * c5, P2Y - WHIPPEN * s5
    djx, djy = WHIPPEN * s5 * rho, -WHIPPEN * c5 * rho
    if mode in (ACCELERATION, RESET):
        q6, dq6 = q5 + STOP, rho
    else:
        sine = min(max((jy - button) / TOE, -0.999), 0.999)
        q6 = math.asin(sine)
        dq6 = djy / (TOE * math.sqrt(1.0 - sine * sine))
    return q5, c5, s5, rho, drho, q6, dq6, jx, jy, djx, djy


@kernel()
def knuckle(q2, q6, dq6, jx, jy, djx, djy):
    """The jack's head at the knuckle: q4, q9 and their derivatives by q1 and q2."""
    c2, s2, c6, s6 = math.cos(q2), math.sin(q2), math.cos(q6), math.sin(q6)
    vx = jx - JACK * s6 - P3X - KNUCKLE * s2
    vy = jy + JACK * c6 - P3Y + KNUCKLE * c2
    c = c2 * c6 + s2 * s6  # h = (c2, s2) along the knuckle, j = (-s6, c6) along the jack
    q4 = -(vx * s2 - vy * c2) / c
    q9 = (vx * c6 + vy * s6) / c
    w1x, w1y = djx - JACK * c6 * dq6 + q4 * c6 * dq6, djy - JACK * s6 * dq6 + q4 * s6 * dq6
    w2x, w2y = -KNUCKLE * c2 + q9 * s2, -KNUCKLE * s2 - q9 * c2
    return (
        q4, q9, -(w1x * s2 - w1y * c2) / c, -(w2x * s2 - w2y * c2) / c, (w1x * c6 + w1y * s6) / c,
        (w2x * c6 + w2y * s6) / c,
    )  # fmt: skip


@kernel()
def toe_gap(q1, button):
    """How far the toe is below the let-off button, the jack at the whippen's stop."""
    _, _, _, _, _, q6, _, _, jy, _, _ = jack_at(ACCELERATION, q1, button)
    return button - (jy - TOE * math.sin(q6))


@kernel()
def _bed(q1, data):
    """Torque of the ends of the travel on the key."""
    if q1 < data[UP]:
        return data[K2] * (data[UP] - q1)
    if q1 > data[DOWN]:
        return data[K2] * (data[DOWN] - q1)
    return 0.0


@kernel()
def _lever_contact(q1, q2, q3, c5, s5, rho):
    """Overlap of lever and hammer, and its derivatives by q1, q2, q3."""
    c2, s2, c3, s3 = math.cos(q2), math.sin(q2), math.cos(q3), math.sin(q3)
    rx, ry = P2X - LEVER_BACK * c5 - LEVER_HEIGHT * s5, P2Y - LEVER_BACK * s5 + LEVER_HEIGHT * c5
    hx, hy = Q9 * c2 + KNUCKLE * s2, Q9 * s2 - KNUCKLE * c2
    ax, ay = P3X + hx - rx, P3Y + hy - ry
    overlap = LEVER_OFFSET - (-ax * s3 + ay * c3)
    # of the lever's pivot, i z e(q5) rho
    px, py = -(ry - P2Y) * rho, (rx - P2X) * rho
    return overlap, -px * s3 + py * c3, -(hy * s3 + hx * c3), ax * c3 + ay * s3, px, py, c3, s3


@kernel()
def coupler(x, data):
    """Torque on the virtual key, which is felt."""
    return data[K1] * (x[DRIVER] - x[QK]) + data[B1] * (data[SEEN_RATE] - x[UK])


@kernel()
def derivatives(mode, x, data, out):
    """Time derivatives of the state."""
    q1, q2, q3, u1, u2, u3 = x[QK], x[QH], x[QR], x[UK], x[UH], x[UR]
    q5, c5, s5, rho, drho, q6, dq6, jx, jy, djx, djy = jack_at(mode, q1, BUTTON + data[HIGHER])
    overlap, o1, o2, o3, px, py, c3, s3 = _lever_contact(q1, q2, q3, c5, s5, rho)
    torque = coupler(x, data)
    m1, m2, m3, m4 = data[M1], data[M2], data[M3], data[M4]
    # masses of K*, JJ and RW; RW moves by (px, py) u1 + LEVER (s3, -c3) u3
    m11 = m2 * KEY_GYRATION * KEY_GYRATION + m4 * WHIPPEN * WHIPPEN * rho * rho + m3 * (px * px + py * py)
    m13 = m3 * LEVER * (px * s3 - py * c3)
    m33 = m3 * LEVER * LEVER
    # accelerations of RW at constant rates
    zx, zy = -LEVER_BACK * c5 - LEVER_HEIGHT * s5, -LEVER_BACK * s5 + LEVER_HEIGHT * c5
    bx = (-drho * zy - rho * rho * zx) * u1 * u1 + LEVER * c3 * u3 * u3
    by = (drho * zx - rho * rho * zy) * u1 * u1 + LEVER * s3 * u3 * u3
    f1 = torque - m2 * GRAVITY * KEY_CENTRE * math.cos(q1) + _bed(q1, data)
    f1 -= m4 * WHIPPEN * WHIPPEN * rho * drho * u1 * u1 + m3 * (px * bx + py * by)
    f2 = -m1 * GRAVITY * SHANK * math.cos(q2) - data[B7] * u2
    f3 = -m3 * LEVER * (s3 * bx - c3 * by)
    lost = data[B7] * u2 * u2 + data[B1] * (data[SEEN_RATE] - u1) * (data[PATH_RATE] - u1)
    # jack on knuckle
    if mode in (ACCELERATION, LET_OFF):
        q4, _, d41, d42, d91, d92 = knuckle(q2, q6, dq6, jx, jy, djx, djy)
        if q4 > 0.0:
            rate = d41 * u1 + d42 * u2
            force = max(data[K4] * q4 + data[B4] * rate, 0.0)
            lost += (force - data[K4] * q4) * rate
            if force > 0.0:
                slide = d91 * u1 + d92 * u2
                f1 -= force * d41 + data[B8] * slide * d91
                f2 -= force * d42 + data[B8] * slide * d92
                lost += data[B8] * slide * slide
    # repetition lever on whippen, and its stop
    spread, spread_rate = q3 - q5 - REST_SPREAD, u3 - rho * u1
    lever = -(data[K5] * spread + data[B5] * spread_rate + data[PRELOAD])
    if spread < 0.0:
        lever -= data[K6] * LEVER_BED * LEVER_BED * spread
    lost += data[B5] * spread_rate * spread_rate
    f3 += lever
    f1 -= rho * lever
    # lever on hammer
    if overlap > 0.0:
        force = data[K3] * overlap
        f1 -= force * o1
        f2 -= force * o2
        f3 -= force * o3
    determinant = m11 * m33 - m13 * m13
    out[QK], out[QH], out[QR] = u1, u2, u3
    out[UK] = (m33 * f1 - m13 * f3) / determinant
    out[UH] = f2 / (m1 * SHANK * SHANK)
    out[UR] = (m11 * f3 - m13 * f1) / determinant
    out[DRIVER], out[WORK], out[LOST], out[TIME] = data[PATH_RATE], torque * data[PATH_RATE], lost, 1.0
    out[STRIKES] = out[STRIKE_AT] = out[STRIKE_RATE] = out[CHANGES] = out[CHANGE_AT] = 0.0
    out[SPENT] = out[DEEPEST] = 0.0


@kernel()
def _flow(mode, x, data, h, out):
    """One Runge-Kutta step of fourth order; `advance` takes short ones."""
    a, b = data[_DERIVATIVES : _DERIVATIVES + N], data[_DERIVATIVES + N : _DERIVATIVES + 2 * N]
    c, d = data[_DERIVATIVES + 2 * N : _DERIVATIVES + 3 * N], data[_DERIVATIVES + 3 * N : _DERIVATIVES + 4 * N]
    stage = data[_STAGE : _STAGE + N]
    derivatives(mode, x, data, a)
    for i in range(N):
        stage[i] = x[i] + 0.5 * h * a[i]
    derivatives(mode, stage, data, b)
    for i in range(N):
        stage[i] = x[i] + 0.5 * h * b[i]
    derivatives(mode, stage, data, c)
    for i in range(N):
        stage[i] = x[i] + h * c[i]
    derivatives(mode, stage, data, d)
    for i in range(N):
        out[i] = x[i] + h / 6.0 * (a[i] + 2.0 * b[i] + 2.0 * c[i] + d[i])


@kernel()
def _indicate(mode, x, data, gaps):
    button = BUTTON + data[HIGHER]
    # the string, in any phase: a transition into itself
    if x[UH] > 0.0:
        gaps[mode] = -x[QH]
    gap = toe_gap(x[QK], button)
    if mode == ACCELERATION:
        gaps[LET_OFF] = gap
        return
    _, _, _, _, _, q6, dq6, jx, jy, djx, djy = jack_at(mode, x[QK], button)
    q4, q9, d41, d42, _, _ = knuckle(x[QH], q6, dq6, jx, jy, djx, djy)
    if mode == LET_OFF:
        gaps[ACCELERATION] = -gap
        gaps[CATCH] = min(q4, q9 - data[EDGE])
    elif mode == CATCH:
        gaps[RESET] = -gap
        # from below: a jack that comes back from beside the knuckle is none that the hammer lands on
        if data[REPAIR] > 0.0 and q9 > data[EDGE] and d41 * x[UK] + d42 * x[UH] > 0.0:
            gaps[LET_OFF] = max(-q4, q4 - data[TOLERANCE])
    else:
        gaps[ACCELERATION] = abs(q4) - data[TOLERANCE]
        if data[REPAIR] > 0.0:
            gaps[CATCH] = gap


@kernel()
def _jack_spring(mode, x, data):
    """Energy in the spring between jack and knuckle."""
    if mode in (CATCH, RESET):
        return 0.0
    _, _, _, _, _, q6, dq6, jx, jy, djx, djy = jack_at(mode, x[QK], BUTTON + data[HIGHER])
    q4, _, _, _, _, _ = knuckle(x[QH], q6, dq6, jx, jy, djx, djy)
    return 0.5 * data[K4] * max(q4, 0.0) ** 2


@kernel()
def _switch(mode, to, x, data):
    if to == mode:
        if x[SPENT] == 0.0:
            x[STRIKES] += 1.0
            x[STRIKE_AT], x[STRIKE_RATE] = x[TIME], x[UH]
            x[SPENT], x[DEEPEST] = 1.0, x[QK]
        restitution = data[RESTITUTION]
        x[LOST] += 0.5 * data[M1] * SHANK * SHANK * x[UH] * x[UH] * (1.0 - restitution * restitution)
        x[UH] *= -restitution
        return
    x[LOST] += max(_jack_spring(mode, x, data) - _jack_spring(to, x, data), 0.0)
    x[CHANGES] += 1.0
    x[CHANGE_AT] = x[TIME]


_advance = sequence(_flow, _indicate, _switch)


@kernel()
def advance(mode, x, data, h, longest):
    """The state `x` a step on, in place, in pieces of `longest` at most: (phase, pieces with too many events)."""
    pieces = max(math.ceil(h / longest - 1e-9), 1)
    exceeded = 0
    for _ in range(pieces):
        mode, _, many = _advance(mode, x, data, data[_EVENTS : _EVENTS + EVENT_SCRATCH * N], h / pieces, 1)
        exceeded += many
        if x[SPENT] > 0.0:
            x[DEEPEST] = max(x[DEEPEST], x[QK])
            if mode == ACCELERATION and x[DEEPEST] - x[QK] > REARMED:
                x[SPENT] = 0.0
    return mode, exceeded


@kernel()
def stored(mode, x, data):
    """Energy of the masses and springs."""
    q1, q2, q3, u1, u2, u3 = x[QK], x[QH], x[QR], x[UK], x[UH], x[UR]
    q5, c5, s5, rho, _, _, _, _, _, _, _ = jack_at(mode, q1, BUTTON + data[HIGHER])
    overlap, _, _, _, px, py, c3, s3 = _lever_contact(q1, q2, q3, c5, s5, rho)
    wx, wy = px * u1 + LEVER * s3 * u3, py * u1 - LEVER * c3 * u3
    energy = 0.5 * (data[M2] * KEY_GYRATION**2 + data[M4] * WHIPPEN**2 * rho * rho) * u1 * u1
    energy += 0.5 * data[M3] * (wx * wx + wy * wy) + 0.5 * data[M1] * SHANK**2 * u2 * u2
    energy += GRAVITY * (data[M2] * KEY_CENTRE * math.sin(q1) + data[M1] * SHANK * math.sin(q2))
    energy += 0.5 * data[K1] * (x[DRIVER] - q1) ** 2
    energy += 0.5 * data[K2] * (max(data[UP] - q1, 0.0) ** 2 + max(q1 - data[DOWN], 0.0) ** 2)
    spread = q3 - q5 - REST_SPREAD
    energy += 0.5 * data[K5] * spread * spread + data[PRELOAD] * spread
    energy += 0.5 * data[K6] * (LEVER_BED * min(spread, 0.0)) ** 2 + 0.5 * data[K3] * max(overlap, 0.0) ** 2
    return energy + _jack_spring(mode, x, data)


@kernel()
def pilot_torque(mode, x, data):
    """What the key does to the whippen, about the key's pivot: the coupler's torque less what the key itself needs."""
    rates = data[_DERIVATIVES : _DERIVATIVES + N]
    derivatives(mode, x, data, rates)
    own = data[M2] * (KEY_GYRATION**2 * rates[UK] + GRAVITY * KEY_CENTRE * math.cos(x[QK]))
    return coupler(x, data) - own + _bed(x[QK], data)
