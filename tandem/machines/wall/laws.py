"""Laws of a virtual wall that is sampled and held, at y < 0: standard, half-sample, pole placement, dead-beat,
predicting.

Source: R. B. Gillespie, Haptic display of systems with changing kinematic constraints, 1996, chapters 5 and 6, for any
port: mass M, damping b, stiffness k and constant force s of device and hand, M a = s - b v - k y - f. The target is
the same port against a wall that is not sampled. All flows are exact (sync/signals/linear_flow.py).

    standard         f = K y + B v at the sample
    half-sample      the target's force half a step ahead, for a held force is late by as much
    pole placement   gains with which the held loop has the target's poles, and its deflection at rest
    dead-beat        half-sample inside the wall; the last two forces bring the port to where the target is on its way
                     out, whenever between samples it has come in
    predicting       half-sample from where the port is when the force arrives: over the delay of the loop it moves
                     under forces that were given out already, which are known. Its speed is estimated from positions
                     and these forces, so that neither delay nor differences of positions make it late

With `crossing` the instants of entry and exit are located between samples: the standard law becomes the mean force of
the target over the step, half-sample and pole placement end with the two dead-beat forces; the predicting law gives
the mean force from the predicted state on.
"""

from sync.compile.jit import kernel
from sync.signals.linear_flow import flow
from sync.signals.piecewise import SCRATCH as EVENT_SCRATCH
from sync.signals.piecewise import sequence

STANDARD, HALF_SAMPLE, POLE_PLACEMENT, DEAD_BEAT, PREDICTING = range(5)
NAMES = ("standard", "half-sample", "pole placement", "dead-beat", "predicting")

PENDING = 16  # forces that are remembered, for they may be on their way: the longest delay is two steps less
# what a law remembers from step to step
INSIDE, LEFT, EXIT_Y, EXIT_V, SECOND, ABANDONED, SEEN, SEEN_Y, SEEN_V, FORCES = range(10)
SIZE = FORCES + PENDING
MEMORY = (
    ("inside", "1", "1 from the first sample in the wall on"),
    ("samples_left", "1", "until the first one outside again, as expected at the entry; 0: not known"),
    ("exit_position", "m", "expected then"),
    ("exit_velocity", "m/s", "expected then"),
    ("second_force", "N", "the second one of the dead-beat"),
    ("exits_given_up", "1", "contacts that would last too long for their exit to be expected"),
    ("estimated", "1", "1 once the predicting law has a state of the port"),
    ("estimated_position", "m", "of the port at the last sample"),
    ("estimated_velocity", "m/s", "of the port at the last sample"),
    *((f"force_before_{k + 1}", "N", "given out so many steps before") for k in range(PENDING)),
)

# the port in its two submodels: position, velocity, momentum that the wall took, one
Y, V, TAKEN, ONE = range(4)
N = 4
OUTSIDE, IN_WALL = 0, N * N  # where their matrices are in the scratch, and the force's
UNIT_FORCE = 2 * N * N
_X, _OUT, _FLOW_SCRATCH = 3 * N * N, 3 * N * N + N, 3 * N * N + 2 * N
_EVENTS = _FLOW_SCRATCH + 2 * N
LAW_SCRATCH = _EVENTS + EVENT_SCRATCH * N
MOST_SAMPLES = 4096  # in the wall, before the exit is given up: a hand that leans on it


@kernel()
def describe(scratch, stiffness, damping, mass, b, k, s):
    """The matrices of the port outside and in the wall, and of its answer to a force of one."""
    for i in range(3 * N * N):
        scratch[i] = 0.0
    for at in (OUTSIDE, IN_WALL, UNIT_FORCE):
        scratch[at + N * Y + V] = 1.0
        scratch[at + N * V + Y], scratch[at + N * V + V] = -k / mass, -b / mass
    scratch[OUTSIDE + N * V + ONE] = scratch[IN_WALL + N * V + ONE] = s / mass
    scratch[UNIT_FORCE + N * V + ONE] = -1.0 / mass
    scratch[IN_WALL + N * V + Y] -= stiffness / mass
    scratch[IN_WALL + N * V + V] -= damping / mass
    scratch[IN_WALL + N * TAKEN + Y], scratch[IN_WALL + N * TAKEN + V] = stiffness, damping


@kernel()
def _flow_in(scratch, at, y, v, one, h):
    """Position, velocity and taken momentum after h."""
    x, out = scratch[_X : _X + N], scratch[_OUT : _OUT + N]
    x[Y], x[V], x[TAKEN], x[ONE] = y, v, 0.0, one
    flow(scratch[at : at + N * N], x, h, out, scratch[_FLOW_SCRATCH : _FLOW_SCRATCH + 2 * N])
    return out[Y], out[V], out[TAKEN]


@kernel()
def _flow_mode(mode, x, data, h, out):
    flow(data[mode * N * N : (mode + 1) * N * N], x, h, out, data[_FLOW_SCRATCH : _FLOW_SCRATCH + 2 * N])


@kernel()
def _indicate(mode, x, data, gaps):
    gaps[1 - mode] = x[Y] if mode == 0 else -x[Y]


@kernel()
def _switch(mode, to, x, data):
    pass


_advance = sequence(_flow_mode, _indicate, _switch)


@kernel()
def advance_target(mode, x, scratch, h):
    """The target, with its crossings located: (submodel, events, whether there were too many)."""
    return _advance(mode, x, scratch, scratch[_EVENTS : _EVENTS + EVENT_SCRATCH * N], h, 1)


@kernel()
def _mean_force(y, v, scratch, h):
    """Of the target's wall over the step."""
    x = scratch[_X : _X + N]
    x[Y], x[V], x[TAKEN], x[ONE] = y, v, 0.0, 1.0
    inside = y < 0.0 or (y == 0.0 and v < 0.0)
    advance_target(1 if inside else 0, x, scratch, h)
    return x[TAKEN] / h


@kernel()
def _crossing_time(scratch, at, y, v, h, rising):
    """When, within h, the position changes its sign upwards or downwards. Bisection: it is done twice a contact."""
    low, high = 0.0, h
    for _ in range(200):
        middle = 0.5 * (low + high)
        if middle <= low or middle >= high:
            break
        place, _, _ = _flow_in(scratch, at, y, v, 1.0, middle)
        if (place > 0.0) == rising:
            high = middle
        else:
            low = middle
    return high


@kernel()
def _expect_exit(memory, scratch, before_y, before_v, h):
    """At the first sample in the wall: at which sample the port is outside again, and with which state."""
    memory[LEFT] = 0.0
    entry = _crossing_time(scratch, OUTSIDE, before_y, before_v, h, False)
    _, v, _ = _flow_in(scratch, OUTSIDE, before_y, before_v, 1.0, entry)
    y, inside = 0.0, h - entry  # until the sample that is now
    # the target up to that sample, and on from sample to sample by the flow of one
    p11, p21, _ = _flow_in(scratch, IN_WALL, 1.0, 0.0, 0.0, h)
    p12, p22, _ = _flow_in(scratch, IN_WALL, 0.0, 1.0, 0.0, h)
    g1, g2, _ = _flow_in(scratch, IN_WALL, 0.0, 0.0, 1.0, h)
    for n in range(MOST_SAMPLES):
        piece = inside if n == 0 else h
        last_y, last_v = y, v
        if n == 0:
            y, v, _ = _flow_in(scratch, IN_WALL, last_y, last_v, 1.0, piece)
        else:
            y, v = p11 * last_y + p12 * last_v + g1, p21 * last_y + p22 * last_v + g2
        if y > 0.0:
            out_at = _crossing_time(scratch, IN_WALL, last_y, last_v, piece, True)
            _, v, _ = _flow_in(scratch, IN_WALL, last_y, last_v, 1.0, out_at)
            memory[EXIT_Y], memory[EXIT_V], _ = _flow_in(scratch, OUTSIDE, 0.0, v, 1.0, piece - out_at)
            memory[LEFT] = n if n >= 2 else 0.0  # two samples are needed
            return
    memory[ABANDONED] += 1.0


@kernel()
def two_forces(scratch, y, v, to_y, to_v, h):
    """That bring the port from one state to another in two steps."""
    p11, p21, _ = _flow_in(scratch, OUTSIDE, 1.0, 0.0, 0.0, h)
    p12, p22, _ = _flow_in(scratch, OUTSIDE, 0.0, 1.0, 0.0, h)
    g1, g2, _ = _flow_in(scratch, UNIT_FORCE, 0.0, 0.0, 1.0, h)
    f1, f2 = p11 * g1 + p12 * g2, p21 * g1 + p22 * g2
    away_y, away_v, _ = _flow_in(scratch, OUTSIDE, y, v, 1.0, 2.0 * h)
    e1, e2 = to_y - away_y, to_v - away_v
    determinant = f1 * g2 - f2 * g1
    return (e1 * g2 - e2 * g1) / determinant, (f1 * e2 - f2 * e1) / determinant


@kernel()
def placed_gains(scratch, h):
    """Of position and velocity, with which the held loop has the poles of the target."""
    p11, p21, _ = _flow_in(scratch, OUTSIDE, 1.0, 0.0, 0.0, h)
    p12, p22, _ = _flow_in(scratch, OUTSIDE, 0.0, 1.0, 0.0, h)
    g1, g2, _ = _flow_in(scratch, UNIT_FORCE, 0.0, 0.0, 1.0, h)
    t11, t21, _ = _flow_in(scratch, IN_WALL, 1.0, 0.0, 0.0, h)
    t12, t22, _ = _flow_in(scratch, IN_WALL, 0.0, 1.0, 0.0, h)
    a1, a2 = p22 * g1 - p12 * g2, p11 * g2 - p21 * g1
    trace = t11 + t22 - p11 - p22
    product = t11 * t22 - t12 * t21 - (p11 * p22 - p12 * p21)
    determinant = g1 * a2 - g2 * a1
    return (trace * a2 - product * g2) / determinant, (g1 * product - a1 * trace) / determinant


@kernel()
def _inner(law, y, v, stiffness, damping, k, s, scratch, h):
    if law == STANDARD:
        return stiffness * y + damping * v
    if law == POLE_PLACEMENT:
        rest = s / (k + stiffness) if k + stiffness > 0.0 else 0.0
        gain_y, gain_v = placed_gains(scratch, h)
        return gain_y * (y - rest) + gain_v * v + stiffness * rest
    ahead_y, ahead_v, _ = _flow_in(scratch, IN_WALL, y, v, 1.0, 0.5 * h)
    return stiffness * ahead_y + damping * ahead_v


@kernel()
def remember(memory, force):
    """What is given out at this sample, over those before."""
    for i in range(PENDING - 1, 0, -1):
        memory[FORCES + i] = memory[FORCES + i - 1]
    memory[FORCES] = force


@kernel()
def _predict(memory, scratch, y, h, delay, trust):
    """The port when the force of this sample arrives: estimated now, moved on under the forces on their way."""
    whole = min(int(delay / h + 1e-9), PENDING - 2)
    rest = min(max(delay - whole * h, 0.0), h)
    p11, p21, _ = _flow_in(scratch, OUTSIDE, 1.0, 0.0, 0.0, h)
    p12, p22, _ = _flow_in(scratch, OUTSIDE, 0.0, 1.0, 0.0, h)
    c1, c2, _ = _flow_in(scratch, OUTSIDE, 0.0, 0.0, 1.0, h)
    g1, g2, _ = _flow_in(scratch, UNIT_FORCE, 0.0, 0.0, 1.0, h)
    r11, r21, _ = _flow_in(scratch, OUTSIDE, 1.0, 0.0, 0.0, rest)
    r12, r22, _ = _flow_in(scratch, OUTSIDE, 0.0, 1.0, 0.0, rest)
    d1, d2, _ = _flow_in(scratch, OUTSIDE, 0.0, 0.0, 1.0, rest)
    e1, e2, _ = _flow_in(scratch, UNIT_FORCE, 0.0, 0.0, 1.0, rest)
    if memory[SEEN] == 0.0:
        memory[SEEN], memory[SEEN_Y], memory[SEEN_V] = 1.0, y, 0.0
    else:
        # the force that acted over the step before changed once, `rest` after its beginning: what would have come
        # of the newer one alone, and what the older one did more
        newer, older = memory[FORCES + whole], memory[FORCES + whole + 1]
        last_y, last_v = memory[SEEN_Y], memory[SEEN_V]
        there_y = p11 * last_y + p12 * last_v + c1 + g1 * newer
        there_v = p21 * last_y + p22 * last_v + c2 + g2 * newer
        more = older - newer
        if more != 0.0 and rest > 0.0:
            on_y, on_v, _ = _flow_in(scratch, OUTSIDE, e1 * more, e2 * more, 0.0, h - rest)
            there_y, there_v = there_y + on_y, there_v + on_v
        memory[SEEN_Y], memory[SEEN_V] = y, there_v + trust * (y - there_y) / h
    y, v = memory[SEEN_Y], memory[SEEN_V]
    f = memory[FORCES + whole]
    y, v = r11 * y + r12 * v + d1 + e1 * f, r21 * y + r22 * v + d2 + e2 * f
    for back in range(whole - 1, -1, -1):
        f = memory[FORCES + back]
        y, v = p11 * y + p12 * v + c1 + g1 * f, p21 * y + p22 * v + c2 + g2 * f
    return y, v


# long: plain numbers, as `force`
@kernel()
def predicting_force(crossing, y, stiffness, damping, mass, b, k, s, delay, trust, memory, scratch, h):
    """Of the wall on the port where it will be when the force arrives, `delay` after the sample; what was estimated of
    its speed is corrected by the share `trust` of what the newest position says. Forces given out are remembered by
    `remember`."""
    describe(scratch, stiffness, damping, mass, b, k, s)
    ahead_y, ahead_v = _predict(memory, scratch, y, h, delay, trust)
    if crossing == 1:
        return _mean_force(ahead_y, ahead_v, scratch, h)
    return _inner(HALF_SAMPLE, ahead_y, ahead_v, stiffness, damping, k, s, scratch, h) if ahead_y < 0.0 else 0.0


# long: plain numbers: a kernel takes no object, and a tuple would be made at every call
@kernel()
def force(
    law, crossing, y, v, before_y, before_v, begun, stiffness, damping, mass, b, k, s, memory, scratch, h
):  # fmt: skip
    """Of the wall on the port, held for the step that begins with this sample."""
    if law == STANDARD and crossing == 0:
        memory[INSIDE], memory[LEFT] = 1.0 if y < 0.0 else 0.0, 0.0
        return stiffness * y + damping * v if y < 0.0 else 0.0
    describe(scratch, stiffness, damping, mass, b, k, s)
    if law == STANDARD:
        return _mean_force(y, v, scratch, h)
    dead_beat = crossing == 1 or law == DEAD_BEAT
    if memory[INSIDE] > 0.0:
        memory[LEFT] = max(memory[LEFT] - 1.0, 0.0)
    elif y < 0.0:
        memory[INSIDE] = 1.0
        if dead_beat and begun > 0.0 and before_y >= 0.0:
            _expect_exit(memory, scratch, before_y, before_v, h)
    if dead_beat and memory[INSIDE] > 0.0:
        if memory[LEFT] == 2.0:
            first, memory[SECOND] = two_forces(scratch, y, v, memory[EXIT_Y], memory[EXIT_V], h)
            return first
        if memory[LEFT] == 1.0:
            return memory[SECOND]
    if y >= 0.0:
        memory[INSIDE], memory[LEFT] = 0.0, 0.0
        return 0.0
    return _inner(law, y, v, stiffness, damping, k, s, scratch, h)
