"""The virtual body of the displays that have one: on a coupler, fixed to the port, or moved by the hand's force.

Its motion over a step is exact while nothing touches, and so are the instants at which something does
(sync/signals/piecewise.py). The sprung mass of the impedance display is the source's own semi-implicit step (eq. 4.1):
f = K (x - y), v += f / m h, y += v h.
"""

from sync.compile.jit import kernel
from sync.signals.linear_flow import flow
from sync.signals.piecewise import SCRATCH as EVENT_SCRATCH
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
_FLOW_SCRATCH = _X + N
_EVENTS = _FLOW_SCRATCH + 2 * N
BODY_SCRATCH = _EVENTS + EVENT_SCRATCH * N


@kernel()
def _describe(scratch, thing, display, mass, stiffness, damping, coupler, coupler_damping, gravity, hand_force, v):
    for i in range(2 * N * N):
        scratch[i] = 0.0
    scratch[_ON_PORT] = 0.0
    for at in (FREE, TOUCHING):
        scratch[at + N * Y + V] = 1.0
        scratch[at + N * PORT + ONE] = v
        if display == _ADMITTANCE:
            scratch[at + N * V + ONE] = hand_force / mass
        elif thing == _BALL:
            scratch[at + N * V + ONE] = -gravity
        elif thing == _SPRUNG_MASS:
            scratch[at + N * V + Y], scratch[at + N * V + PORT] = -stiffness / mass, stiffness / mass
        else:
            scratch[at + N * V + Y], scratch[at + N * V + PORT] = -coupler / mass, coupler / mass
            scratch[at + N * V + V], scratch[at + N * V + ONE] = -coupler_damping / mass, coupler_damping * v / mass
    if thing == _BALL and display != _ADMITTANCE:
        scratch[_ON_PORT] = 1.0
        scratch[TOUCHING + N * V + Y], scratch[TOUCHING + N * V + PORT] = -stiffness / mass, stiffness / mass
        scratch[TOUCHING + N * V + V] -= damping / mass
        scratch[TOUCHING + N * V + ONE] += damping * v / mass
    elif thing == _WALL:
        scratch[TOUCHING + N * V + Y] -= stiffness / mass
        scratch[TOUCHING + N * V + V] -= damping / mass


@kernel()
def _flow(mode, x, data, h, out):
    flow(data[mode * N * N : (mode + 1) * N * N], x, h, out, data[_FLOW_SCRATCH : _FLOW_SCRATCH + 2 * N])


@kernel()
def _indicate(mode, x, data, gaps):
    gap = x[Y] - x[PORT] if data[_ON_PORT] > 0.0 else x[Y]
    gaps[1 - mode] = gap if mode == 0 else -gap


@kernel()
def _switch(mode, to, x, data):
    pass


_advance = sequence(_flow, _indicate, _switch)


@kernel()
def _move(body, counts, scratch, thing, x, h):
    """The body, a step on."""
    z = scratch[_X : _X + N]
    z[Y], z[V], z[PORT], z[ONE] = body[BODY], body[RATE], x, 1.0
    if thing == _SPRUNG_MASS:  # touches nothing
        flow(scratch[:TOUCHING], z, h, z, scratch[_FLOW_SCRATCH : _FLOW_SCRATCH + 2 * N])
    else:
        mode, events, exceeded = _advance(
            int(body[CONTACT]), z, scratch, scratch[_EVENTS : _EVENTS + EVENT_SCRATCH * N], h, 1
        )  # fmt: skip
        body[CONTACT] = mode
        counts[0] += events
        counts[1] += exceeded
    body[BODY], body[RATE] = z[Y], z[V]


# long: plain numbers: a kernel takes no object, and a tuple would be made at every call
@kernel()
def body_force(
    body, counts, scratch, display, thing, x, v, acceleration, hand_force, mass, stiffness, damping, coupler,
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
        scratch, thing, display, mass, stiffness, damping, coupler, coupler_damping, gravity, hand_force,
        0.0 if display == _IMPEDANCE_DISPLAY and thing == _WALL else v,
    )  # fmt: skip
    if display == _IMPEDANCE_DISPLAY and thing == _WALL:
        for at in (FREE, TOUCHING):  # the port is where it was measured; its rate is felt by the coupler's damper
            scratch[at + N * V + ONE] += coupler_damping * v / mass
    if display == _ADMITTANCE:
        _move(body, counts, scratch, thing, x, h)
        wanted = body[BODY]
        if thing == _SPRUNG_MASS and stiffness > 0.0:
            wanted += hand_force / stiffness
        body[SERVO] += (x - wanted) * h
        force = servo * (x - wanted) + servo_damping * (v - body[RATE]) + servo_integral * body[SERVO]
        return force, body[CONTACT]
    if thing == _SPRUNG_MASS:  # of inverse dynamics: the free end of the spring is where the port is
        force = stiffness * (x - body[BODY])
        _move(body, counts, scratch, thing, x, h)
        return force, 0.0
    _move(body, counts, scratch, thing, x, h)
    if thing == _BALL:
        port = x + v * h
        force = stiffness * (port - body[BODY]) + damping * (v - body[RATE]) if body[CONTACT] > 0.0 else 0.0
        return force, body[CONTACT]
    return coupler * (x - body[BODY]) + coupler_damping * (v - body[RATE]), body[CONTACT]
