"""The buggy's step in relative coordinates: a Rosenbrock method where it is fit, I3AL where it is not.

Promises
- The state is that of natural coordinates (dynamics.py), followed by the coordinates of the tree (`P` of
  multibody/relative/system.py): outputs, frames and forks read the former, whichever method made a step.
- A step is fit for the Rosenbrock method while every wheel rolls on the road at `SLOWEST` or faster, does not lock, and
  its brake slides; while the rack follows the hand wheel's angle; without turn slip, halved steps or estimates; on
  roads without edges. What only the step itself shows (a patch that slides, a wheel that lifts, body contact, loops
  that do not close, pivots that vanish, an estimated error above `MOST_ERROR`) is found while it is made.
- Any other step is I3AL's, from the same beginning, to the bit that of the natural formulation from that state; the
  coordinates of the tree follow it. The output `parts` is 0 for a Rosenbrock step, and `iterations` its evaluations.

The forces are those of the same hook, asked for an instant instead of a step: tyres then give the rate of their
deflection, which with the engine's speed are states of the differential equation,

    de/dt = -v_s - (V m / sigma) e        (transient.py),     dp/dt = (T - Tp) / J        (driveline.py)

Torque, ratio and pressures, which a step decides once, go linearly from those of the step before. Derivatives are
exact: those of the mechanism by its graph, those of the forces by relative_forces.py, whose law is the hook's where the
step is fit. The hook itself is asked where the step ended: it leaves what outputs are written from.
"""

from enum import IntEnum, auto
from math import isfinite, isnan, sqrt

from numba import boolean, float64, int64, void

from sim_service.contract.machine import STEP, TABLES, Tables
from sync.compile.array_copy import copy
from sync.compile.array_types import CONSTANTS, VECTOR
from sync.compile.jit import inner, kernel
from tandem.machines.car.buggy import brake_parameters, brakes, driveline, driveline_parameters, dynamics, slots
from tandem.machines.car.buggy.description import OUTPUTS, WHEEL, P, V, W
from tandem.machines.car.buggy.dynamics import LAST, SHIFT, STEERING
from tandem.machines.car.buggy.prescribed import ANGLE, SPEED
from tandem.machines.car.buggy.relative_forces import forces, forces_and_derivatives
from tandem.machines.car.buggy.slots import HEAD, RACK_INPUT, RACK_ROW, SIZE
from tandem.machines.car.buggy.slots import PORTS as PORTS_AT
from tandem.machines.car.buggy.steering import RACK, by_angle, hand_with_rack
from tandem.machines.car.tyres.keys import T
from tandem.machines.car.tyres.transient import STATES as TYRE_STATES
from tandem.machines.car.tyres.transient import S
from tandem.multibody.code.calls import call, function_at
from tandem.multibody.ground.layout import Head
from tandem.multibody.natural import tables as core
from tandem.multibody.natural.tables import ACCELERATE, FORCE, HOOK, INTS, REALS
from tandem.multibody.natural.tables import P as Part
from tandem.multibody.natural.views import part, view
from tandem.multibody.relative import ode, system
from tandem.multibody.relative.port_jacobian import ENTRY, jacobian, time_derivatives
from tandem.multibody.relative.port_jacobian import HEAD as TABLE_HEAD
from tandem.multibody.relative.system import P as Own

COMPILED_ON_REQUEST = True  # by relative_build.py alone: see sync/compile/build.py

SLOWEST = 2.0  # m/s of a wheel along its plane; slower, the tyre is damped and I3AL is better
ROLLS = 0.3  # of that speed is that of rolling, at least
MOST_ERROR = 1e-2  # m, rad, m/s, rad/s by the embedded method
TYRE = 2  # states of a tyre here: its deflection
ADDED = slots.ADDED
MOST_FITS = 12  # corrections that follow a natural state
FITTED = 1e-13  # m or rad

# places in front of the integers
STATE_AT, WORK_AT, LAYOUT_AT, NATURAL_AT, FLOATS, SCRATCH_AT, SETTINGS_AT = range(7)
FRONT = 8
# of the natural car's integers: where its tables begin, its state's size, where the rack is; the column in its memory
NATURAL_HEAD, NATURAL_SIZE, RACK_AT, STEERING_AT = HEAD, SIZE, RACK_INPUT, STEERING
# addresses in their part: the first two as system.py has them
CLOSE, MOTION, DERIVATIVES, PLACES, GO_ON, DERIVATIVES_ON, DRIFT = 1, 2, 3, 4, 5, 6, 7
NAMES = ("prepare", "close", "motion_0", "derivatives_0", "places", "motion_1", "derivatives_1", "derivatives_2")
# and of kernels
HOOK_AT, NATURAL_STEP_AT, EXAMINE_AT, METHOD_AT, RATES_AT, BOTH_AT = range(8, 14)
EXAMINE = void(INTS, CONSTANTS, REALS, REALS, HOOK, int64, float64, float64)
hook_at, step_at, examine_at, method_at = (function_at(kind) for kind in (FORCE, STEP, EXAMINE, ode.STEP))
rates_at, both_at = function_at(ode.RATES), function_at(ode.RATES_AND_JACOBIAN)
ON_TREE = 0  # first of the state behind the tree's: whether the multipliers of the natural state are missing
_OUTPUTS, _PER_WHEEL, _TYRE = len(OUTPUTS), len(WHEEL), slots.TYRE
BRAKE_STATES = len(brake_parameters.STATES)
WHEEL_SPEED = int(brake_parameters.S.wheel_speed)
DAMPING = int(brake_parameters.P.brake_damping)
_TURBINE, _ENGINE_INERTIA = int(driveline_parameters.S.turbine_speed), int(driveline_parameters.P.engine_inertia)
_GEAR_MODE = int(driveline_parameters.P.gear_mode)
BRAKES, BRAKE_SIZE = slots.BRAKE_PARAMETERS, len(brake_parameters.PARAMETERS)
_DRIVELINE, _DRIVELINE_SIZE = slots.DRIVELINE_PARAMETERS, len(driveline_parameters.PARAMETERS)


class C(IntEnum):
    """Parts behind those of system.py. `reals`:"""

    NUMBERS = len(Own)  # the hook's constants
    BARE = auto()  # `ints`: the table of port_jacobian.py without blocks
    # state
    FLAG = auto()
    # work
    PORTS = auto()
    RATES = auto()
    FORCE = auto()
    STIFF = auto()
    DAMP = auto()
    PACKED = auto()
    PACKED_RATES = auto()
    BY_PORT = auto()  # derivatives of ports, port by port
    PORT_DRIFT = auto()
    RATE_DRIFT = auto()
    ELEMENT = auto()
    AFTER = auto()
    LIVE = auto()
    BEGUN = auto()  # what goes linearly through the step: at its beginning, then its rate; instant; whether unfit
    BY_FORCE = auto()  # generalised forces by coordinates and velocities, by time
    BY_TIME = auto()
    DUALS = auto()  # scratch of relative_forces.py
    MOVED_Y = auto()
    NORMAL = auto()
    SIDE = auto()


CHANGING = slots.LIVE - slots.DRIVE
BEGUN_SIZE = 2 * CHANGING + 2
_INSTANT, _UNFIT = 2 * CHANGING, 2 * CHANGING + 1


@inner
def go_on(ints, work, t):
    """`live` at an instant of the step: some of it goes linearly."""
    live, begun = part(ints, work, C.LIVE), part(ints, work, C.BEGUN)
    since = t - begun[_INSTANT]
    for i in range(CHANGING):
        live[slots.DRIVE + i] = begun[i] + since * begun[CHANGING + i]


@inner
def apply_hook(hook, ints, reals, work, t, y, ports, rates, f, sdot):
    """Forces at ports that move so, and the rates of the added states; whether the law holds there."""
    n = len(part(ints, ints, Own.INDEPENDENT))
    element, after, live = part(ints, work, C.ELEMENT), part(ints, work, C.AFTER), part(ints, work, C.LIVE)
    go_on(ints, work, t)
    K, D = part(ints, work, C.STIFF), part(ints, work, C.DAMP)
    numbers = part(ints, reals, C.NUMBERS)
    for w in range(4):
        element[TYRE_STATES * w + S.EX], element[TYRE_STATES * w + S.EY] = y[2 * n + 2 * w], y[2 * n + 2 * w + 1]
    speed = y[2 * n + 4 * TYRE]
    element[slots.ENGINE] = speed
    for i in range(len(f)):
        f[i] = 0.0
    for i in range(len(K)):
        K[i] = D[i] = 0.0
    hook(t, 0.0, ports, rates, part(ints, work, Own.AT_INPUT), live, numbers, element, after, f, K, D)
    unfit = after[slots.BODY_LOAD] > 0.0
    for w in range(4):
        at = TYRE_STATES * w
        for i in range(2):
            e = element[at + S.EX + i]
            sdot[2 * w + i] = -after[at + S.VSX + i] - after[at + S.RX + i] * e
            unfit = unfit or abs(after[at + S.EX + i] - e) > 1e-9 * abs(e)
        unfit = unfit or not after[slots.LEFT + _PER_WHEEL * w + V.load] > 0.0
    p = view(live, _DRIVELINE, _DRIVELINE + _DRIVELINE_SIZE)
    sdot[4 * TYRE] = 0.0
    if p[_GEAR_MODE] >= 0.5:
        throttle = min(max(live[slots.THROTTLE], 0.0), 1.0)
        T, _ = driveline.engine(p, throttle, max(speed, 0.0))
        Tp, _, _, _, _, _ = driveline.converter(p, max(speed, 0.0), after[slots.ENGINE + _TURBINE])
        sdot[4 * TYRE] = (T - Tp) / p[_ENGINE_INERTIA]
    return unfit


@inner
def move(ints, reals, work, stage, xdot, a):
    """A stage of the generated motion: ports before the forces, accelerations behind them."""
    call(
        part(ints, reals, Own.ADDRESS)[stage],
        (
            part(ints, work, Own.AT_X), part(ints, work, Own.AT_REF), part(ints, work, Own.AT_W),
            part(ints, work, Own.AT_INPUT), part(ints, reals, Own.D), part(ints, work, C.FORCE),
            part(ints, work, C.PORTS), part(ints, work, C.RATES), a, xdot, part(ints, work, Own.AT_FULL),
            part(ints, work, Own.AT_EFFORT), part(ints, work, Own.GENERATED),
        ),
    )  # fmt: skip


@kernel(ode.RATES, error_model="numpy")
def car_rates(ints, reals, work, t, y, ydot):
    """See ode.py."""
    n, N = len(part(ints, ints, Own.INDEPENDENT)), len(y)
    system.place(ints, reals, work, t, y, False)
    go_on(ints, work, t)
    xdot, a = view(ydot, 0, n), view(ydot, n, 2 * n)
    move(ints, reals, work, MOTION, xdot, a)
    if not forces(
        part(ints, work, C.PORTS), part(ints, work, C.RATES), part(ints, work, C.LIVE), part(ints, reals, C.NUMBERS),
        part(ints, work, C.ELEMENT), view(y, 2 * n, N), part(ints, work, C.FORCE), view(ydot, 2 * n, N),
    ):  # fmt: skip
        part(ints, work, C.BEGUN)[_UNFIT] = 1.0
    move(ints, reals, work, GO_ON, xdot, a)


@inner
def by_ports(ints, packed, out):
    """Derivatives of ports, block by block, as rows of all velocities."""
    table = part(ints, ints, Own.BLOCKS)
    n = table[0]
    for i in range(len(out)):
        out[i] = 0.0
    for block in range(table[1]):
        at = TABLE_HEAD + ENTRY * block
        first, size, width, begin, columns = table[at], table[at + 1], table[at + 2], table[at + 4], table[at + 5]
        for a in range(size):
            for i in range(width):
                out[n * (first + a) + table[columns + i]] += packed[begin + a * width + i]


@inner
def corner_columns(table):
    """Where the velocities of each corner are in the table of blocks: every other block is a wheel's."""
    first = TABLE_HEAD + 5
    return table[first], table[first + 2 * ENTRY], table[first + 4 * ENTRY], table[first + 6 * ENTRY]


@kernel(ode.RATES_AND_JACOBIAN, error_model="numpy")
def car_rates_and_jacobian(ints, reals, work, t, y, ydot, J, ydot_t):
    """See ode.py. Increments of balls are 0 here: derivatives along their velocities are those by them."""
    system.place(ints, reals, work, t, y, False)
    n, address = len(part(ints, ints, Own.INDEPENDENT)), part(ints, reals, Own.ADDRESS)
    N = 2 * n + ADDED
    ports, rates, f = part(ints, work, C.PORTS), part(ints, work, C.RATES), part(ints, work, C.FORCE)
    a, xdot = part(ints, work, Own.ACCELERATION), part(ints, work, Own.XDOT)
    packed, packed_rates = part(ints, work, C.PACKED), part(ints, work, C.PACKED_RATES)
    derivatives, drift = part(ints, work, Own.DERIVATIVES), part(ints, work, Own.DRIFT)
    turns, factor = part(ints, work, Own.TURNS), part(ints, work, Own.FACTOR)
    port_drift, rate_drift = part(ints, work, C.PORT_DRIFT), part(ints, work, C.RATE_DRIFT)
    arrays = (
        part(ints, work, Own.AT_X), part(ints, work, Own.AT_REF), part(ints, work, Own.AT_W),
        part(ints, work, Own.AT_INPUT), part(ints, reals, Own.D), f, ports, rates, packed, packed_rates, port_drift,
        rate_drift, a, xdot, part(ints, work, Own.AT_FULL), part(ints, work, Own.AT_EFFORT), derivatives, turns, factor,
        drift, part(ints, work, Own.GENERATED),
    )  # fmt: skip
    call(address[DERIVATIVES], arrays)
    # what the generated code adds to comes before the forces, in arrays of their own
    e, edot, edot_t = view(y, 2 * n, N), view(ydot, 2 * n, N), view(ydot_t, 2 * n, N)
    begun, by_force, by_time = part(ints, work, C.BEGUN), part(ints, work, C.BY_FORCE), part(ints, work, C.BY_TIME)
    for i in range(len(by_force)):
        by_force[i] = 0.0
    for i in range(n):
        by_time[i] = 0.0
        for c in range(2 * n, N):  # what is here was solved in the step before
            J[(n + i) * N + c] = 0.0
    go_on(ints, work, t)
    table = part(ints, ints, Own.BLOCKS)
    of = corner_columns(table)
    if not forces_and_derivatives(
        ports, rates, part(ints, work, C.LIVE), view(begun, CHANGING, 2 * CHANGING), part(ints, reals, C.NUMBERS),
        part(ints, work, C.ELEMENT), e, f, edot, table, of, packed, packed_rates, port_drift, rate_drift,
        part(ints, work, C.DUALS), n, N, by_force, J, by_time, edot_t,
    ):  # fmt: skip
        begun[_UNFIT] = 1.0
    call(address[DERIVATIVES_ON], arrays)
    call(address[DRIFT], arrays)
    for i in range(n):
        ydot[i] = xdot[i]
        ydot[n + i] = a[i]
        drift[i] += by_time[i]
    for i in range(len(by_force)):
        derivatives[i] += by_force[i]
    bare, none = part(ints, ints, C.BARE), part(ints, work, Own.NONE)
    jacobian(bare, none, none, none, none, derivatives, turns, factor, part(ints, work, Own.SCRATCH), J, N)
    time_derivatives(bare, none, none, none, none, none, drift, factor, J, N, ydot_t)


# ---- between natural coordinates and the tree ------------------------------------------------------------------------


@inner
def solve_normal(n, A, b):
    """b becomes the solution of A x = b, A symmetric and positive definite, of which the lower half is read."""
    for j in range(n):
        for k in range(j):
            A[n * j + j] -= A[n * j + k] * A[n * j + k]
        A[n * j + j] = sqrt(A[n * j + j])
        for i in range(j + 1, n):
            for k in range(j):
                A[n * i + j] -= A[n * i + k] * A[n * j + k]
            A[n * i + j] /= A[n * j + j]
    for i in range(n):
        for k in range(i):
            b[i] -= A[n * i + k] * b[k]
        b[i] /= A[n * i + i]
    for i in range(n - 1, -1, -1):
        for k in range(i + 1, n):
            b[i] -= A[n * k + i] * b[k]
        b[i] /= A[n * i + i]


@inner
def fit(n, P_, wanted, there, A, b):
    """b becomes the velocities that bring ports from where they are to where they should be, as near as can be."""
    for i in range(n):
        b[i] = 0.0
        for j in range(i + 1):
            A[n * i + j] = 0.0
    for k in range(len(there)):
        off = wanted[k] - there[k]
        for i in range(n):
            p = P_[n * k + i]
            if p != 0.0:
                b[i] += p * off
                for j in range(i + 1):
                    A[n * i + j] += p * P_[n * k + j]
    solve_normal(n, A, b)


@inner
def evaluate_ports(ints, reals, tree, work):
    """Ports, their rates and derivatives of a state of the tree, its loops closed."""
    system.begin(ints, tree, work, part(ints, tree, Own.TIME)[0])
    system.place(ints, reals, work, part(ints, tree, Own.TIME)[0], part(ints, work, Own.Y), True)
    none = part(ints, work, Own.NONE)
    call(
        part(ints, reals, Own.ADDRESS)[DERIVATIVES],
        (
            part(ints, work, Own.AT_X), part(ints, work, Own.AT_REF), part(ints, work, Own.AT_W),
            part(ints, work, Own.AT_INPUT), part(ints, reals, Own.D), none, part(ints, work, C.PORTS),
            part(ints, work, C.RATES), part(ints, work, C.PACKED), part(ints, work, C.PACKED_RATES),
            part(ints, work, C.PORT_DRIFT), part(ints, work, C.RATE_DRIFT), none, none, none, none, none, none, none,
            none, part(ints, work, Own.GENERATED),
        ),
    )  # fmt: skip
    by_ports(ints, part(ints, work, C.PACKED), part(ints, work, C.BY_PORT))


@inner
def turn_references(ints, x, ref):
    balls = part(ints, ints, Own.BALLS)
    for k in range(len(balls)):
        system.turn_reference(view(ref, 4 * k, 4 * k + 4), view(x, balls[k], balls[k] + 3))


@inner
def follow_natural(ints, reals, tree, work, time, rack, ports, rates):
    """The tree where the natural state's ports are, moving as they do."""
    independent, n = part(ints, ints, Own.INDEPENDENT), len(part(ints, ints, Own.INDEPENDENT))
    x, w, ref = part(ints, tree, Own.X), part(ints, tree, Own.W), part(ints, tree, Own.REF)
    at_x, inputs = part(ints, work, Own.AT_X), part(ints, tree, Own.INPUT)
    A, b = part(ints, work, C.NORMAL), part(ints, work, C.SIDE)
    part(ints, tree, Own.TIME)[0] = time
    for i in range(3):
        inputs[i] = rack[i]
    last = 1e300
    for _ in range(MOST_FITS):
        evaluate_ports(ints, reals, tree, work)
        fit(n, part(ints, work, C.BY_PORT), ports, part(ints, work, C.PORTS), A, b)
        copy(x, at_x)
        size = 0.0
        for i in range(n):
            x[independent[i]] += b[i]
            size = max(size, abs(b[i]))
        turn_references(ints, x, ref)
        if not size > FITTED or not size < last:
            break
        last = size
    evaluate_ports(ints, reals, tree, work)
    copy(x, at_x)
    turn_references(ints, x, ref)
    fit(n, part(ints, work, C.BY_PORT), rates, part(ints, work, C.RATES), A, b)
    for i in range(n):
        w[independent[i]] += b[i]


@inner
def write_natural(ints, reals, tree, work, places, of_natural, car, own):
    """The natural state where the tree is, and what outputs are written from."""
    call(
        part(ints, reals, Own.ADDRESS)[PLACES],
        (
            part(ints, work, Own.AT_X), part(ints, work, Own.AT_REF), part(ints, work, Own.AT_W),
            part(ints, work, Own.AT_INPUT), part(ints, reals, Own.D), part(ints, work, Own.AT_FULL),
            part(of_natural, car, Part.Q), part(of_natural, car, Part.QD), part(of_natural, car, Part.QDD),
            part(ints, work, Own.GENERATED),
        ),
    )  # fmt: skip
    x, xd = part(of_natural, own, Part.X), part(of_natural, own, Part.XD)
    ports, rates, first = part(ints, work, C.PORTS), part(ints, work, C.RATES), places[PORTS_AT]
    for i in range(len(ports)):
        x[first + i], xd[first + i] = ports[i], rates[i]
    part(of_natural, car, Part.LAM)[places[RACK_ROW]] = -part(ints, work, Own.AT_EFFORT)[0]


# ---- the step --------------------------------------------------------------------------------------------------------


@inner
def fit_for(params, numbers, left, live):
    """Whether the Rosenbrock method is fit for the step, by what is known before it."""
    if params[P.steering_mode] >= 0.5 or params[P.column_stiffness] > 0.0:
        return False
    if params[P.step_halving] > 0.5 or params[P.estimate_every] > 0.5 or params[P.turn_slip] > 0.5:
        return False
    if numbers[slots.ROAD + Head.SHARP] > 0.0 or left[slots.BODY_LOAD] > 0.0:
        return False
    if params[P.caster_trail] != 0.0 or params[P.front_toe_in] != 0.0 or params[P.rear_toe_in] != 0.0:
        return False
    if params[P.front_roll_centre] != 0.0 or params[P.rear_roll_centre] != 0.0:
        return False
    p = view(params, BRAKES, BRAKES + BRAKE_SIZE)
    for w in range(4):
        at = slots.LEFT + _PER_WHEEL * w
        if numbers[slots.TYRES + _TYRE * (w // 2) + T.TURN_SLIP] > 0.0 or not left[at + V.load] > 0.0:
            return False
        along, rolling = abs(left[at + V.speed]), abs(left[at + V.wheel_speed] * left[at + V.rolling_radius])
        if along < SLOWEST or rolling < ROLLS * along:
            return False
        limit = brakes.friction_limit(p, w < 2, live[slots.PRESSURE + w])
        if p[DAMPING] * abs(left[slots.BRAKES + BRAKE_STATES * w + WHEEL_SPEED]) < 1.5 * limit:
            return False
    return True


@inner
def begin_step(ints, tree, work, left, memory, t, h):
    """What the forces of a step from t on begin with: the states of tyres and engine, what goes linearly through it."""
    system.begin(ints, tree, work, t + h)
    y, begun, live = part(ints, work, Own.Y), part(ints, work, C.BEGUN), part(ints, work, C.LIVE)
    n = len(part(ints, ints, Own.INDEPENDENT))
    copy(part(ints, work, C.ELEMENT), left)
    for w in range(4):
        y[2 * n + 2 * w], y[2 * n + 2 * w + 1] = left[TYRE_STATES * w + S.EX], left[TYRE_STATES * w + S.EY]
    y[2 * n + 4 * TYRE] = left[slots.ENGINE]
    for i in range(CHANGING):
        begun[i] = memory[LAST + i]
        begun[CHANGING + i] = (live[slots.DRIVE + i] - memory[LAST + i]) / h
    begun[_INSTANT], begun[_UNFIT] = t, 0.0


# long: a machine as flat arrays; a kernel takes no object
@inner
def advance(method, rates, both, hook, ints, reals, layout, settings, tree, work, scratch, left, memory, h):
    """A Rosenbrock step of the tree and of the states of tyres and engine; whether it went well."""
    t = part(ints, tree, Own.TIME)[0]
    begin_step(ints, tree, work, left, memory, t, h)
    y, begun = part(ints, work, Own.Y), part(ints, work, C.BEGUN)
    status = method(rates, both, layout, settings, ints, reals, work, t, h, y, scratch)
    if status != ode.GOOD or begun[_UNFIT] > 0.0 or not scratch[ode.ERROR] <= MOST_ERROR:
        return False
    # where it ended: accelerations, effort, and what the elements leave behind
    system.place(ints, reals, work, t + h, y, True)
    a, xdot, edot = part(ints, work, Own.ACCELERATION), part(ints, work, Own.XDOT), part(ints, work, C.MOVED_Y)
    ports, port_rates, f = part(ints, work, C.PORTS), part(ints, work, C.RATES), part(ints, work, C.FORCE)
    move(ints, reals, work, MOTION, xdot, a)
    unfit = apply_hook(hook, ints, reals, work, t + h, y, ports, port_rates, f, edot)
    move(ints, reals, work, GO_ON, xdot, a)
    return not unfit and system.conclude(ints, reals, tree, work, t + h) == system.GOOD


@inner
def follow(of_natural, ints, reals, places, car, tree, tree_work, own):
    first, place = places[PORTS_AT], places[RACK_INPUT]
    x, xd = part(of_natural, own, Part.X), part(of_natural, own, Part.XD)
    follow_natural(
        ints, reals, tree, tree_work, part(of_natural, car, Part.TIME)[0], view(car, place, place + 3),
        view(x, first, len(x)), view(xd, first, len(xd)),
    )  # fmt: skip


@inner
def rosenbrock_step(method, rates, both, hook, state, inputs, params, tables, work, h, shown):
    """A step by `method` on the tree; whether it was fit for one and went well. If not, the state is to be restored.

    Natural coordinates and outputs follow it if `shown`; the next step needs neither.
    """
    head = tables.ints
    ints, places = view(head, FRONT, len(head)), view(head, head[NATURAL_AT], len(head))
    of_natural, reals = view(places, HEAD, len(places)), tables.floats
    layout = view(head, head[LAYOUT_AT], head[NATURAL_AT])
    natural, tree = view(state, 0, head[STATE_AT]), view(state, head[STATE_AT], len(state))
    of_step, tree_work = view(work, 0, head[WORK_AT]), view(work, head[WORK_AT], head[SCRATCH_AT])
    scratch = view(work, head[SCRATCH_AT], len(work) - len(state))
    settings = view(reals, head[SETTINGS_AT], len(reals))
    own = view(of_step, _OUTPUTS, len(of_step))
    car, memory = view(natural, 0, places[SIZE]), view(natural, places[SIZE], len(natural))
    numbers = part(ints, reals, C.NUMBERS)

    live, left = part(ints, tree_work, C.LIVE), part(of_natural, car, Part.ELEMENT)
    if not (isnan(inputs[SPEED]) and isnan(inputs[ANGLE])):
        return False
    torque = dynamics.decide(of_natural, car, memory, inputs, params, live, h)
    place, sign, column = places[RACK_INPUT], numbers[slots.RACK_SIGN], view(memory, STEERING, SHIFT)
    rack = view(car, place, place + 3)
    if not fit_for(params, numbers, left, live):
        return False
    by_angle(inputs, params, sign, column[RACK], rack, h)
    copy(part(ints, tree, Own.INPUT), rack)
    if not advance(method, rates, both, hook, ints, reals, layout, settings, tree, tree_work, scratch, left, memory, h):
        return False
    hand_with_rack(params, sign, column, rack)
    for i in range(CHANGING):
        memory[LAST + i] = live[slots.DRIVE + i]
    copy(left, part(ints, tree_work, C.AFTER))
    part(of_natural, car, Part.TIME)[0] += h
    part(ints, tree, C.FLAG)[ON_TREE] = 1.0
    if not shown:
        return True
    write_natural(ints, reals, tree, tree_work, places, of_natural, car, own)
    report = part(of_natural, own, Part.DIAGNOSTIC)
    for i in range(len(report)):
        report[i] = 0.0
    report[core.ITERATIONS] = scratch[ode.EVALUATIONS] + 1.0
    report[core.STEP_ERROR] = scratch[ode.ERROR]
    gaps = part(ints, tree_work, Own.H)
    for i in range(len(gaps)):
        report[core.PHI_ERROR] = max(report[core.PHI_ERROR], abs(gaps[i]))
    dynamics.write_outputs(places, of_natural, car, params, numbers, memory, torque, own, of_step)
    of_step[W.parts] = 0.0
    return isfinite(of_step[W.x] + of_step[W.ax] + of_step[W.rack_force])


@kernel(STEP, error_model="numpy")
def step(state, inputs, params, tables, work, h):
    head = tables.ints
    ints, reals = view(head, FRONT, len(head)), tables.floats
    previous, address = view(work, len(work) - len(state), len(work)), part(ints, reals, Own.ADDRESS)
    copy(previous, state)
    hook = hook_at(address[HOOK_AT])
    method, rates, both = method_at(address[METHOD_AT]), rates_at(address[RATES_AT]), both_at(address[BOTH_AT])
    if rosenbrock_step(method, rates, both, hook, state, inputs, params, tables, work, h, True):
        return
    places = view(head, head[NATURAL_AT], len(head))
    of_natural, of_car = view(places, HEAD, len(places)), Tables(places, view(reals, 0, head[FLOATS]))
    natural, tree = view(state, 0, head[STATE_AT]), view(state, head[STATE_AT], len(state))
    of_step, tree_work = view(work, 0, head[WORK_AT]), view(work, head[WORK_AT], head[SCRATCH_AT])
    own = view(of_step, _OUTPUTS, len(of_step))
    car, memory = view(natural, 0, places[SIZE]), view(natural, places[SIZE], len(natural))
    copy(state, previous)
    flag = part(ints, tree, C.FLAG)
    if flag[ON_TREE] > 0.0:  # multipliers, and the power from which the balance of energy goes on
        flag[ON_TREE] = 0.0
        before = part(of_natural, own, Part.LIVE)
        copy(before, part(ints, tree_work, C.LIVE))
        for i in range(CHANGING):
            before[slots.DRIVE + i] = memory[LAST + i]
        examine = examine_at(address[EXAMINE_AT])
        examine(of_natural, of_car.floats, car, own, hook, ACCELERATE, 0.0, 0.0)
    natural_step = step_at(address[NATURAL_STEP_AT])
    natural_step(natural, inputs, params, of_car, of_step, h)
    follow(of_natural, ints, reals, places, car, tree, tree_work, own)


@kernel(void(VECTOR, CONSTANTS, TABLES, VECTOR, boolean), error_model="numpy")
def join(state, params, tables, work, at_rest):
    """The tree where a natural state is that was just found, and as that moves; or at rest."""
    head = tables.ints
    ints, places = view(head, FRONT, len(head)), view(head, head[NATURAL_AT], len(head))
    of_natural = view(places, HEAD, len(places))
    natural, tree = view(state, 0, head[STATE_AT]), view(state, head[STATE_AT], len(state))
    own = view(work, _OUTPUTS, head[WORK_AT])
    tree_work = view(work, head[WORK_AT], head[SCRATCH_AT])
    rates = part(of_natural, own, Part.XD)
    for i in range(len(rates) if at_rest else 0):
        rates[i] = 0.0
    follow(of_natural, ints, tables.floats, places, view(natural, 0, places[SIZE]), tree, tree_work, own)
