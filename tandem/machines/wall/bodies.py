"""The virtual body of the displays that have one: on a coupler, fixed to the port, or moved by the hand's force.

Its motion over a step is exact while nothing touches, and so are the instants at which something does
(sync/signals/piecewise.py). The sprung mass of the impedance display is the source's own semi-implicit step (eq. 4.1):
f = K (x - y), v += f / m h, y += v h.
"""

from sync.compile.jit import kernel
from sync.signals.linear_flow import flow
from sync.signals.piecewise import SCRATCH as EVENT_ROOM
from sync.signals.piecewise import sequence

_IMPEDANCE_DISPLAY, _INVERSE_DYNAMICS, _ADMITTANCE = 1, 2, 3
_WALL, _SPRUNG_MASS, _BALL = range(3)

# the body, as its state is in the machine's
BODY, RATE, CONTACT, SERVO = range(4)
# what flows: the body's position and velocity, the port's position, one; submodels: free, in contact
Y, V, PORT, ONE = range(4)
N = 4
FREE, TOUCHING = 0, N * N
_ON_PORT = 2 * N * N  # whether it is the port that it touches
_X = _ON_PORT + 1
_ROOM = _X + N
_EVENTS = _ROOM + 2 * N
ROOM = _EVENTS + EVENT_ROOM * N


@kernel()
def _describe(room, thing, display, mass, stiffness, damping, coupler, coupler_damping, gravity, hand_force, v):
    for i in range(2 * N * N):
        room[i] = 0.0
    room[_ON_PORT] = 0.0
    for at in (FREE, TOUCHING):
        room[at + N * Y + V] = 1.0
        room[at + N * PORT + ONE] = v
        if display == _ADMITTANCE:
            room[at + N * V + ONE] = hand_force / mass
        elif thing == _BALL:
            room[at + N * V + ONE] = -gravity
        elif thing == _SPRUNG_MASS:
            room[at + N * V + Y], room[at + N * V + PORT] = -stiffness / mass, stiffness / mass
        else:
            room[at + N * V + Y], room[at + N * V + PORT] = -coupler / mass, coupler / mass
            room[at + N * V + V], room[at + N * V + ONE] = -coupler_damping / mass, coupler_damping * v / mass
    if thing == _BALL and display != _ADMITTANCE:
        room[_ON_PORT] = 1.0
        room[TOUCHING + N * V + Y], room[TOUCHING + N * V + PORT] = -stiffness / mass, stiffness / mass
        room[TOUCHING + N * V + V] -= damping / mass
        room[TOUCHING + N * V + ONE] += damping * v / mass
    elif thing == _WALL:
        room[TOUCHING + N * V + Y] -= stiffness / mass
        room[TOUCHING + N * V + V] -= damping / mass


@kernel()
def _flow(mode, x, data, h, out):
    flow(data[mode * N * N : (mode + 1) * N * N], x, h, out, data[_ROOM : _ROOM + 2 * N])


@kernel()
def _indicate(mode, x, data, gaps):
    gap = x[Y] - x[PORT] if data[_ON_PORT] > 0.0 else x[Y]
    gaps[1 - mode] = gap if mode == 0 else -gap


@kernel()
def _switch(mode, to, x, data):
    pass


_advance = sequence(_flow, _indicate, _switch)


@kernel()
def _move(body, counts, room, thing, x, h):
    """The body, a step on."""
    z = room[_X : _X + N]
    z[Y], z[V], z[PORT], z[ONE] = body[BODY], body[RATE], x, 1.0
    if thing == _SPRUNG_MASS:  # touches nothing
        flow(room[:TOUCHING], z, h, z, room[_ROOM : _ROOM + 2 * N])
    else:
        mode, events, exceeded = _advance(
            int(body[CONTACT]), z, room, room[_EVENTS : _EVENTS + EVENT_ROOM * N], h, 1
        )  # fmt: skip
        body[CONTACT] = mode
        counts[0] += events
        counts[1] += exceeded
    body[BODY], body[RATE] = z[Y], z[V]


# long: plain numbers: a kernel takes no object, and a tuple would be made at every call
@kernel()
def felt(
    body, counts, room, display, thing, x, v, acceleration, hand_force, mass, stiffness, damping, coupler,
    coupler_damping, gravity, servo, servo_damping, servo_integral, h,
):  # fmt: skip
    """The force that opposes the hand, and whether something touches. Positions are above the wall."""
    if display == _IMPEDANCE_DISPLAY and thing == _SPRUNG_MASS:
        force = stiffness * (x - body[BODY])
        body[RATE] += force / mass * h
        body[BODY] += body[RATE] * h
        return force, 0.0
    if display == _INVERSE_DYNAMICS and thing == _WALL:
        body[BODY], body[RATE] = x, v
        body[CONTACT] = 1.0 if x < 0.0 else 0.0
        return mass * acceleration + (stiffness * x + damping * v if x < 0.0 else 0.0), body[CONTACT]
    _describe(
        room, thing, display, mass, stiffness, damping, coupler, coupler_damping, gravity, hand_force,
        0.0 if display == _IMPEDANCE_DISPLAY and thing == _WALL else v,
    )  # fmt: skip
    if display == _IMPEDANCE_DISPLAY and thing == _WALL:
        for at in (FREE, TOUCHING):  # the port is where it was measured; its rate is felt by the coupler's damper
            room[at + N * V + ONE] += coupler_damping * v / mass
    if display == _ADMITTANCE:
        _move(body, counts, room, thing, x, h)
        wanted = body[BODY]
        if thing == _SPRUNG_MASS and stiffness > 0.0:
            wanted += hand_force / stiffness
        body[SERVO] += (x - wanted) * h
        force = servo * (x - wanted) + servo_damping * (v - body[RATE]) + servo_integral * body[SERVO]
        return force, body[CONTACT]
    if thing == _SPRUNG_MASS:  # of inverse dynamics: the free end of the spring is where the port is
        force = stiffness * (x - body[BODY])
        _move(body, counts, room, thing, x, h)
        return force, 0.0
    _move(body, counts, room, thing, x, h)
    if thing == _BALL:
        port = x + v * h
        force = stiffness * (port - body[BODY]) + damping * (v - body[RATE]) if body[CONTACT] > 0.0 else 0.0
        return force, body[CONTACT]
    return coupler * (x - body[BODY]) + coupler_damping * (v - body[RATE]), body[CONTACT]
