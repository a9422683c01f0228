"""What a filter needs of the buggy in relative coordinates: the error of its independent coordinates, its transition.

Error, 37 numbers: x of the 14 independent coordinates (the chassis' place in the world and its turn about its own axes,
one coordinate of each suspension, the wheels' angles), their velocities, deflections of the tyres, the engine's speed.
Dependent coordinates follow by closing the loops, natural ones are written from the tree: constraints hold after every
correction.

Transition. The Rosenbrock step (RODAS3) factorises 2/h - J, J the exact Jacobian at its beginning. With its factors

    F = 2 (2/h) (2/h - J)^-1 - 1 = (1 - h J/2)^-1 (1 + h J/2)

costs 37 solutions, made at once, and no matrix: of second order in h as the exponential's Cayley form, and stable
where J is. On a linear machine a step of RODAS3 is, with D = (1 - F) / 2,

    F + D^3 (2/3 + D/3)

which would take two products of matrices. What is not small of it are the modes of wheels against their tyres' patches:
it is taken of these pairs alone, wheel by wheel, the pair's own D for two of the three factors (`of_method`).
After the step the turn of the chassis is counted from its new attitude, which turns the error with it.

Steps that were I3AL's (relative_dynamics.py) have no such factors: J of their beginning is then taken for itself
(start_jacobian.py). Where there is none, the filter's transition is constant, and accelerations are not predicted. A
step that found no end, or none that converged, failed: the state is none to go on from.

What the step decides once (drive torque by wheel speed, gear, pressure of the ABS) is held: F has nothing of it.

Places of sensors are from the centre of gravity of the sprung mass as the vehicle file has it (sprung_cg_x, _y, _z), in
the chassis' axes.

Estimable: `grip`, the factor on friction (a direction of the tyres' own derivatives), and `payload`, a mass that
rides in the sprung mass' centre of gravity: a force, -m (a + g), whose effect the filter adds (payload.py). It is in
accelerations, their slopes, and F.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from sim_service.contract.machine import STEP, Machine, Quantity, Reshape, tables
from sync.compile import parts
from sync.compile.array_copy import copy
from sync.compile.jit import inner, kernel
from sync.errors import ConfigError
from tandem.estimation.contract import (
    CONSTANT,
    CORRECT,
    FAILED,
    LINEARISE,
    MEASURE,
    ROUGH,
    TANGENT,
    Estimable,
    Observed,
)
from tandem.estimation.rows import R
from tandem.machines.car.buggy import relative_dynamics as relative
from tandem.machines.car.buggy import slots
from tandem.machines.car.buggy.bodies import WHEELS
from tandem.machines.car.buggy.description import OUTPUTS, WHEEL, P, V, W
from tandem.machines.car.buggy.payload import (
    COLUMNS,
    GRAVITY,
    carry_over,
    carrying_size,
    columns_of,
    feel,
    put_on,
    stride_of,
)
from tandem.machines.car.buggy.payload import scratch_size as payload_size
from tandem.machines.car.buggy.relative_forces import spread_grip
from tandem.machines.car.buggy.start_jacobian import jacobian_at_start
from tandem.machines.car.tyres.transient import STATES as TYRE_STATES
from tandem.machines.car.tyres.transient import S
from tandem.multibody.code.calls import address_of, as_word
from tandem.multibody.natural.tables import P as Part
from tandem.multibody.natural.views import part, view
from tandem.multibody.relative import ode, system
from tandem.multibody.relative.ode import LANES
from tandem.multibody.relative.port_jacobian import solve as solve_mass
from tandem.multibody.relative.system import P as Own
from tandem.multibody.relative.transition import scratch_size, solutions, width_of, write_coordinates, write_rest
from tandem.multibody.spatial import cross, dot, increment, into_body, into_world, three

COMPILED_ON_REQUEST = True  # see sync/compile/build.py

_N, _ERRORS = 14, 2 * 14 + relative.ADDED
_ARM, _SPIN = 6, 10  # the first suspension's coordinate, the first wheel's angle
_OUTPUTS, _PER_WHEEL = len(OUTPUTS), len(WHEEL)

# what `measure` reads: error coordinates, their rates, attitude, rows of J of the chassis' accelerations; of each
# estimated quantity what it does to them; what forces among these do; whether there are any
_Y, _RATES, _ATTITUDE = 0, _ERRORS, 2 * _ERRORS
_ROWS = _ATTITUDE + 4
_MOST = 2
_WIDTH, _ROWS_SEEN = stride_of(_ERRORS), 8  # of these rows: six, and two more to make fours
_SLOPE = _ROWS + _ROWS_SEEN * _WIDTH
_EFFECT = _SLOPE + 6 * _MOST
_KNOWN = _EFFECT + 6
_OTHER_OUTPUTS = _KNOWN + 1  # torque on the hand wheel, of the rear axle, pressures of the four brakes
# scratch: of payload.py; columns behind those of the error; solutions with them, and what changes these by a payload
_LOADED = _OTHER_OUTPUTS + 6
_WIDE = _LOADED + payload_size(_N, _ERRORS)
_MORE = _MOST + 1 + COLUMNS
_SOLVED = _WIDE + _MORE * _ERRORS
_CARRIED = _SOLVED + scratch_size(_ERRORS, _N + relative.ADDED, _MORE)
_AT = _CARRIED + carrying_size(_ERRORS + _MORE, _N + relative.ADDED)
_ROWS_SOLVED = -(-(_N + relative.ADDED) // LANES) * LANES
# behind the machine's numbers: the step's address, the chassis' origin as drawn, the chassis' point from it
_BEHIND = 7

ESTIMABLE = (
    Estimable("grip", "1", "factor on the friction of all tyres", int(P.grip)),
    Estimable("payload", "kg", "beside the sprung mass, in its centre of gravity"),
)
_GRIP, _PAYLOAD = range(2)
_BODY = (
    Quantity("specific_force", "m/s2", "at the place, along the direction on the chassis"),
    Quantity("rate", "rad/s", "about the direction on the chassis"),
    Quantity("position", "m", "of the place, along the direction in the world"),
    Quantity("velocity", "m/s", "of the place, along the direction in the world"),
)
_FORCE, _RATE, _POSITION, _VELOCITY, _FIRST_SPIN, _FIRST_ARM, _ENGINE = 0, 1, 2, 3, 4, 8, 12
# readings without derivatives: they move no estimate, but are predicted, gated and counted beside what the car comes to
COMPARED = (
    Quantity("steering_torque", "N m", "of the driver on the hand wheel, at the end of the step"),
    Quantity("axle_torque", "N m", "of the driveline on both rear wheels, at the end of the step"),
    *(Quantity(f"brake_pressure_{w}", "bar", "in the brake of the wheel, behind the ABS") for w in WHEELS),
)
_FIRST_COMPARED = 13
SIGNALS = (
    *_BODY,
    *(Quantity(f"wheel_{w}", "rad", "angle of the wheel") for w in WHEELS),
    *(Quantity(f"arm_{w}", "rad", "angle of the suspension's arm, by which its travel is measured") for w in WHEELS),
    Quantity("engine", "rad/s", "speed of the engine"),
    *COMPARED,
)
_AXES = ("x", "y", "z")
COORDINATES = (
    *(Quantity(a, "m", "of the chassis") for a in _AXES),
    *(Quantity(f"turn_{a}", "rad", "of the chassis about its own axis") for a in _AXES),
    *(Quantity(f"arm_{w}", "rad", "of the suspension") for w in WHEELS),
    *(Quantity(f"wheel_{w}", "rad", "angle of the wheel") for w in WHEELS),
    *(Quantity(f"v{a}", "m/s", "of the chassis, world") for a in _AXES),
    *(Quantity(f"rate_{a}", "rad/s", "of the chassis, its own axes") for a in _AXES),
    *(Quantity(f"arm_rate_{w}", "rad/s", "of the suspension") for w in WHEELS),
    *(Quantity(f"wheel_rate_{w}", "rad/s", "of the wheel") for w in WHEELS),
    *(Quantity(f"deflection_{a}_{w}", "m", "of the tyre") for w in WHEELS for a in "xy"),
    Quantity("engine", "rad/s", "speed"),
)


@inner
def add_to(H, at, v):
    for i in range(3):
        H[at + i] += v[i]


@inner
def read_errors(ints, tree, left, at):
    """The error's coordinates where the state is, and the attitude."""
    independent, x, w = part(ints, ints, Own.INDEPENDENT), part(ints, tree, Own.X), part(ints, tree, Own.W)
    for i in range(_N):
        at[i], at[_N + i] = x[independent[i]], w[independent[i]]
    for k in range(4):
        at[2 * _N + 2 * k] = left[TYRE_STATES * k + S.EX]
        at[2 * _N + 2 * k + 1] = left[TYRE_STATES * k + S.EY]
        at[_ATTITUDE + k] = part(ints, tree, Own.REF)[k]
    at[_ERRORS - 1] = left[slots.ENGINE]


@inner
def of_method(R, width):
    """Solutions (transition.py) of the step's method in the modes of each wheel's speed and its tyre's deflection along
    it: 2 (1 - D) becomes that of the method."""
    for w in range(4):
        i, j = _N + _SPIN + w, 2 * _N + 2 * w
        one, two = view(R, (i - _N) * width, (i - _N + 1) * width), view(R, (j - _N) * width, (j - _N + 1) * width)
        one[i] -= 2.0
        two[j] -= 2.0
        a, b, c, d = -0.5 * one[i], -0.5 * one[j], -0.5 * two[i], -0.5 * two[j]
        p, q, r, s = a * a + b * c, b * (a + d), c * (a + d), d * d + b * c
        e, f, g, h = (2.0 + a) / 3.0, b / 3.0, c / 3.0, (2.0 + d) / 3.0
        p, q, r, s = -0.5 * (p * e + q * g), -0.5 * (p * f + q * h), -0.5 * (r * e + s * g), -0.5 * (r * f + s * h)
        for k in range(width):
            x, y = one[k], two[k]
            one[k], two[k] = x + (p * x + q * y), y + (r * x + s * y)
        one[i] += 2.0
        two[j] += 2.0


# long: one Jacobian, block by block in the order of its rows
@kernel(LINEARISE, error_model="numpy")
def linearise(state, inputs, params, tables, work, h, which, extra, F, at):
    """See estimation/contract.py."""
    head, reals = tables.ints, tables.floats
    ints, places = view(head, relative.FRONT, len(head)), view(head, head[relative.NATURAL_AT], len(head))
    of_natural = view(places, relative.NATURAL_HEAD, len(places))
    natural, tree = view(state, 0, head[relative.STATE_AT]), view(state, head[relative.STATE_AT], len(state))
    left = part(of_natural, view(natural, 0, places[relative.NATURAL_SIZE]), Part.ELEMENT)
    read_errors(ints, tree, left, at)
    step = relative.step_at(reals[len(reals) - _BEHIND])
    step(state, inputs, params, tables, work, h)
    at[_KNOWN] = 0.0
    at[_OTHER_OUTPUTS], at[_OTHER_OUTPUTS + 1] = work[W.steering_torque], work[W.axle_torque]
    pressures = part(ints, view(work, head[relative.WORK_AT], head[relative.SCRATCH_AT]), relative.C.LIVE)
    for k in range(4):
        at[_OTHER_OUTPUTS + 2 + k] = pressures[slots.PRESSURE + k]
    if work[W.capped] > 0.0:
        return FAILED
    by_method = work[W.parts] == 0.0
    before = view(work, len(work) - len(state), len(work))
    rotation_from = (0.0, 0.0, 0.0)
    if not by_method:
        rotation_from = increment(
            part(ints, view(before, head[relative.STATE_AT], len(before)), Own.REF), part(ints, tree, Own.REF)
        )
        if not jacobian_at_start(before, inputs, params, tables, work, h):
            return CONSTANT

    tree_work = view(work, head[relative.WORK_AT], head[relative.SCRATCH_AT])
    scratch = view(work, head[relative.SCRATCH_AT], len(work) - len(state))
    layout = view(head, head[relative.LAYOUT_AT], head[relative.NATURAL_AT])
    J, start = part(layout, scratch, ode.Part.JACOBIAN), part(layout, scratch, ode.Part.START)
    moved = part(layout, scratch, ode.Part.RATES)
    # before anything is placed there
    rotation = three(part(ints, tree_work, Own.AT_X), 3) if by_method else rotation_from
    at[_KNOWN] = 1.0
    for i in range(6):
        at[_EFFECT + i] = 0.0
    for i in range(_ERRORS):
        at[_RATES + i] = start[i]
    for i in range(_ROWS_SEEN):
        for j in range(_ERRORS):
            at[_ROWS + i * _WIDTH + j] = J[(_N + i) * _ERRORS + j]

    # estimated quantities: what they do to the rates; behind them what forces among them do
    more, loaded = len(which) + 1, False
    wide, carried = view(at, _WIDE, _SOLVED), view(at, _LOADED, _WIDE)
    forced = view(wide, (more - 1) * _ERRORS, more * _ERRORS)
    for i in range(_ERRORS):
        forced[i] = 0.0
    for k in range(len(which)):
        u = view(wide, k * _ERRORS, (k + 1) * _ERRORS)
        if which[k] == _GRIP:
            table = part(ints, ints, Own.BLOCKS)
            for i in range(_ERRORS):
                u[i] = 0.0
            spread_grip(
                part(ints, tree_work, relative.C.DUALS), table, relative.corner_columns(table), view(u, _N, 2 * _N),
                view(u, 2 * _N, _ERRORS),
            )  # fmt: skip
            solve_mass(_N, part(ints, tree_work, Own.FACTOR), u, 1)
        else:
            loaded = True
            independent, w = part(ints, ints, Own.INDEPENDENT), part(ints, tree, Own.W)
            for i in range(6):
                moved[i] = (w[independent[i]] - at[_N + i]) / h
            put_on(
                part(ints, tree_work, Own.FACTOR), _N, extra[k], three(reals, len(reals) - _BEHIND + 4),
                (at[_ATTITUDE], at[_ATTITUDE + 1], at[_ATTITUDE + 2], at[_ATTITUDE + 3]), three(at, _N + 3), start,
                moved, view(at, _ROWS, _SLOPE), carried, view(at, _EFFECT, _EFFECT + 6),
                view(at, _SLOPE + 6 * k, _SLOPE + 6 * k + 6), u, forced,
            )  # fmt: skip
    for k in range(len(which)):
        if which[k] == _GRIP:
            u = view(wide, k * _ERRORS, (k + 1) * _ERRORS)
            if loaded:
                feel(carried, _N, _ERRORS, u)
            for i in range(6):
                at[_SLOPE + 6 * k + i] = u[_N + i]
    sigma, columns = 2.0 / h, _ERRORS + more
    width = width_of(columns + (COLUMNS if loaded else 0))
    solved = view(at, _SOLVED, _CARRIED)
    R = view(solved, 0, _ROWS_SOLVED * width)
    if loaded:
        columns_of(carried, _N, wide, more, _ERRORS)
        solutions(layout, scratch, sigma, wide, more + COLUMNS, solved)
        carry_over(layout, scratch, sigma, carried, _N, _ERRORS, R, width, columns, view(at, _CARRIED, _AT))
    else:
        solutions(layout, scratch, sigma, wide, more, solved)
    write_coordinates(layout, scratch, sigma, R, width, columns, F)
    of_method(R, width)
    write_rest(layout, R, width, columns, F)
    # the turn of the chassis is counted from where the step has turned it
    share = 1.0 / (1.0 + 0.25 * dot(rotation, rotation))
    for j in range(columns):
        d = three(F, j * _ERRORS + 3)
        c = cross(rotation, d)
        for i in range(3):
            F[j * _ERRORS + 3 + i] = share * (d[i] - 0.5 * c[i])
    return TANGENT if by_method else ROUGH


@inner
def chassis_acceleration(at, which, linear, angular, H):
    """linear . a + angular . alpha of the chassis' origin, and its derivatives."""
    out = 0.0
    for i in range(6):
        c = linear[i] if i < 3 else angular[i - 3]
        out += c * at[_RATES + _N + i]
        for j in range(_ERRORS):
            H[j] += c * at[_ROWS + i * _WIDTH + j]
        out += c * at[_EFFECT + i]
        for k in range(len(which)):
            H[_ERRORS + k] += c * at[_SLOPE + 6 * k + i]
    return out


@kernel(MEASURE, error_model="numpy")
def measure(signal, row, tau, at, tables, work, which, H):
    """See estimation/contract.py. Positions go on by tau with their velocity; all else is that of the instant."""
    behind = len(tables.floats) - _BEHIND
    reference, point = three(tables.floats, behind + 1), three(tables.floats, behind + 4)
    d, place = three(row, R.DIRECTION), three(row, R.PLACE)
    r = (point[0] + place[0], point[1] + place[1], point[2] + place[2])
    q = (at[_ATTITUDE], at[_ATTITUDE + 1], at[_ATTITUDE + 2], at[_ATTITUDE + 3])
    omega = three(at, _N + 3)
    for j in range(_ERRORS + len(which)):
        H[j] = 0.0
    if signal == _FORCE:
        if at[_KNOWN] == 0.0:
            return np.nan
        a, more = three(at, _RATES + _N), three(at, _EFFECT)
        out = chassis_acceleration(at, which, into_world(q, d), cross(r, d), H)
        add_to(H, 3, cross(d, into_body(q, (a[0] + more[0], a[1] + more[1], a[2] + more[2] + GRAVITY))))
        out += GRAVITY * into_world(q, d)[2]
        along, reach, apart = dot(d, omega), dot(omega, r), dot(d, r)
        for i in range(3):
            H[_N + 3 + i] += along * r[i] + reach * d[i] - 2.0 * apart * omega[i]
        return out + along * reach - apart * dot(omega, omega)
    if signal == _RATE:
        add_to(H, _N + 3, d)
        return dot(omega, d)
    if signal in (_POSITION, _VELOCITY):
        u, v = into_body(q, d), cross(omega, r)
        by_turn, by_rate = cross(v, u), cross(r, u)
        speed = dot(three(at, _N), d) + dot(v, u)
        if signal == _VELOCITY:
            add_to(H, _N, d)
            add_to(H, 3, by_turn)
            add_to(H, _N + 3, by_rate)
            return speed
        add_to(H, 0, d)
        add_to(H, 3, by_rate)
        for i in range(3):
            H[_N + i] += tau * d[i]
            H[3 + i] += tau * by_turn[i]
            H[_N + 3 + i] += tau * by_rate[i]
        x = three(at, 0)
        return dot((x[0] + reference[0], x[1] + reference[1], x[2] + reference[2]), d) + dot(r, u) + tau * speed
    if signal >= _FIRST_COMPARED:
        return at[_OTHER_OUTPUTS + signal - _FIRST_COMPARED]
    j = _ERRORS - 1
    if signal < _FIRST_ARM:
        j = _SPIN + signal - _FIRST_SPIN
    elif signal < _ENGINE:
        j = _ARM + signal - _FIRST_ARM
    H[j] = 1.0
    return at[j]


@kernel(CORRECT, error_model="numpy")
def correct(state, params, tables, work, dx):
    """See estimation/contract.py."""
    head, reals = tables.ints, tables.floats
    ints, places = view(head, relative.FRONT, len(head)), view(head, head[relative.NATURAL_AT], len(head))
    of_natural = view(places, relative.NATURAL_HEAD, len(places))
    natural, tree = view(state, 0, head[relative.STATE_AT]), view(state, head[relative.STATE_AT], len(state))
    car, tree_work = (
        view(natural, 0, places[relative.NATURAL_SIZE]),
        view(work, head[relative.WORK_AT], head[relative.SCRATCH_AT]),
    )
    own, left = view(work, _OUTPUTS, head[relative.WORK_AT]), part(of_natural, car, Part.ELEMENT)
    independent, x, w = part(ints, ints, Own.INDEPENDENT), part(ints, tree, Own.X), part(ints, tree, Own.W)
    for i in range(_N):
        x[independent[i]] += dx[i]
        w[independent[i]] += dx[_N + i]
    relative.turn_references(ints, x, part(ints, tree, Own.REF))
    for k in range(4):
        left[TYRE_STATES * k + S.EX] += dx[2 * _N + 2 * k]
        left[TYRE_STATES * k + S.EY] += dx[2 * _N + 2 * k + 1]
        left[slots.LEFT + _PER_WHEEL * k + V.wheel_speed] += dx[_N + _SPIN + k]
    left[slots.ENGINE] += dx[_ERRORS - 1]
    left[slots.ENERGY] = slots.UNKNOWN  # that of the state before
    # loops close again, and the natural state is where the tree is
    t = part(ints, tree, Own.TIME)[0]
    system.begin(ints, tree, tree_work, t)
    system.place(ints, reals, tree_work, t, part(ints, tree_work, Own.Y), True)
    xdot, a = part(ints, tree_work, Own.XDOT), part(ints, tree_work, Own.ACCELERATION)
    relative.move(ints, reals, tree_work, relative.MOTION, xdot, a)
    copy(part(ints, tree_work, Own.AT_FULL), part(ints, tree, Own.FULL))
    copy(part(ints, tree_work, Own.AT_EFFORT), part(ints, tree, Own.EFFORT))
    relative.write_natural(ints, reals, tree, tree_work, places, of_natural, car, own)
    copy(x, part(ints, tree_work, Own.AT_X))
    copy(w, part(ints, tree_work, Own.AT_W))
    relative.turn_references(ints, x, part(ints, tree, Own.REF))
    part(ints, tree, relative.C.FLAG)[relative.ON_TREE] = 1.0


def observed(machine: Machine, params: np.ndarray) -> Observed:
    """Of a buggy in relative coordinates."""
    if machine.step is not relative.step:
        raise ConfigError('the filter needs exact derivatives; formulation = "relative" in the vehicle file has them')
    step = as_word(address_of(relative.step, STEP))
    behind = np.zeros(_BEHIND)
    behind[0] = step
    numbers = np.concatenate([machine.tables.floats, behind])
    places = (*machine.placed.addresses, len(machine.tables.floats))
    first = replace(machine, tables=tables(machine.tables.ints, numbers))
    first = first.having(replace(machine.placed, addresses=places)).without(Reshape)
    numbers[-_BEHIND + 1 :] = _reference(first, params)
    machine_with_point = replace(first, tables=tables(machine.tables.ints, numbers))
    rates = (*range(_N, 2 * _N), *[-1] * (_ERRORS - _N))
    return Observed(
        machine=machine_with_point,
        coordinates=COORDINATES,
        rates=rates,
        estimable=ESTIMABLE,
        signals=SIGNALS,
        linearise=linearise,
        measure=measure,
        correct=correct,
        at_size=_AT,
        difference=_difference(machine_with_point),
        relaxing=tuple(range(2 * _N, _ERRORS - 1)),
    )


def _spans(machine: Machine) -> Any:
    ints = machine.tables.ints[relative.FRONT :]

    return lambda which: parts.span(ints, which)


def _coordinates(machine: Machine, state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The error's coordinates and the chassis' attitude."""
    head, span = machine.tables.ints, _spans(machine)
    tree = state[head[relative.STATE_AT] :]
    independent = head[relative.FRONT :][span(Own.INDEPENDENT)]
    places = head[head[relative.NATURAL_AT] :]
    of_natural = places[relative.NATURAL_HEAD :]
    left = state[of_natural[2 * Part.ELEMENT] : of_natural[2 * Part.ELEMENT + 1]]
    tyres = [left[TYRE_STATES * k + at] for k in range(4) for at in (S.EX, S.EY)]
    x, w = tree[span(Own.X)][independent], tree[span(Own.W)][independent]
    return np.concatenate([x, w, tyres, [left[slots.ENGINE]]]), tree[span(Own.REF)][:4]


def _difference(machine: Machine) -> Any:
    def difference(state: np.ndarray, other: np.ndarray, of: Machine) -> np.ndarray:
        (y, q), (z, p) = _coordinates(machine, state), _coordinates(machine, other)
        # a car with other masses has the chassis' origin elsewhere; its point is the same
        theirs, ours = of.tables.floats[-_BEHIND + 1 :], machine.tables.floats[-_BEHIND + 1 :]
        shift = theirs[3:6] - ours[3:6]
        y[:3] += theirs[:3] - ours[:3] + _matrix(q) @ shift
        y[_N : _N + 3] += _matrix(q) @ np.cross(y[_N + 3 : _N + 6], shift)
        out = y - z
        # the increment (1, xi / 2) that turns p into q
        scalar = float(p @ q)
        vector = p[0] * q[1:] - q[0] * p[1:] - np.cross(p[1:], q[1:])
        out[3:6] = 2.0 * vector / scalar
        return np.asarray(out)

    return difference


def _matrix(q: np.ndarray) -> np.ndarray:
    """Of an attitude: columns are the body's axes in the world."""
    w, v = q[0], q[1:]
    across = np.array([[0.0, -v[2], v[1]], [v[2], 0.0, -v[0]], [-v[1], v[0], 0.0]])
    return np.asarray(np.eye(3) + 2.0 * w * across + 2.0 * across @ across)


def _reference(machine: Machine, params: np.ndarray) -> np.ndarray:
    """The chassis' origin as drawn and, from there, its point, which a vehicle file gives: x + drawn + turned(point).

    By three attitudes of the assembled car, whose natural coordinates say where the point is.
    """
    state, work = np.zeros(len(machine.states)), np.zeros(machine.work_size)
    machine.initial(state, params, machine.tables, work)
    head = machine.tables.ints
    places = head[head[relative.NATURAL_AT] :]
    at = places[relative.NATURAL_HEAD :][2 * Part.Q]
    rows, sides = [], []
    for axis in range(3):
        other, dx = state.copy(), np.zeros(_ERRORS)
        dx[3 + axis] = 0.5
        correct(other, params, machine.tables, work, dx)
        y, q = _coordinates(machine, other)
        rows.append(np.hstack([np.eye(3), _matrix(q)]))
        sides.append(other[at : at + 3] - y[:3])
    found, _, _, _ = np.linalg.lstsq(np.vstack(rows), np.concatenate(sides), rcond=None)
    return np.asarray(found)
