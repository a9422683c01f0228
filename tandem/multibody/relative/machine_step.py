"""A mechanism in relative coordinates as the step of a machine, and as the equation dy/dt = f(t, y) that it steps.

    state   y (what an importer of Model Exchange integrates): independent coordinates, a quaternion for every ball of
            which all three are, velocities; behind it what is kept: the instant, all coordinates, references of balls.
            Dependent coordinates begin from these when loops are closed, which decides nothing but their branch.
    outputs forms of the builder's coordinates and their rates in turns, then efforts of driven coordinates

Where loops do not close, or independent coordinates come near a position in which they no longer determine the others,
there are no numbers: outputs and rates are NaN.
"""

from enum import IntEnum, auto
from math import isnan, nan, sqrt

from sim_service.contract.machine import STEP
from sync.compile.jit import inner, kernel
from tandem.multibody.code.calls import call, function_at
from tandem.multibody.natural.tables import RATE, SECOND, VALUE
from tandem.multibody.natural.views import part, view
from tandem.multibody.relative import ode
from tandem.multibody.relative.system import GOOD, MOTION, PLACES, P, advance, begin, conclude, move
from tandem.multibody.relative.system import rates_and_jacobian as jacobian_of_rates

COMPILED_ON_REQUEST = True  # by machine.py alone: see sync/compile/build.py


class H(IntEnum):
    """In front of the integers: counts, and where parts begin."""

    SYSTEM_END = 0  # the system's own integers are behind these
    LAYOUT_END = auto()
    PLAIN = auto()  # coordinates of y that are none of a ball: how many, and where their places in (x, w) are
    PLAIN_AT = auto()
    BALLS = auto()  # that are in y: how many; of each its number and the place of its first coordinate
    BALLS_AT = auto()
    FORMS = auto()
    ROWS_AT = auto()  # of each form where its terms begin; which coordinate each is of, from the first input on inputs
    TERMS_AT = auto()
    EXTERNAL = auto()  # inputs from outside: how many; of each its number and the places of value, rate, second
    EXTERNAL_AT = auto()
    EFFORTS = auto()
    COLUMNS = auto()  # coordinates of the builder
    REALS = auto()  # in the numbers: the end of the system's own, of settings, of constants, of factors, of values
    SETTINGS = auto()
    CONST = auto()
    FACTOR = auto()
    VALUES = auto()
    TREE = auto()  # in work: where the tree's state begins, the work of the system, scratch, columns, derivatives
    WORK = auto()
    SCRATCH = auto()
    PLACED = auto()
    JACOBIAN = auto()
    DERIVATIVES = auto()


FRONT = len(H)
METHOD, RATES, BOTH = range(3)  # addresses of kernels, behind the values
method_at, rates_at, both_at = (function_at(kind) for kind in (ode.STEP, ode.RATES, ode.RATES_AND_JACOBIAN))


@inner
def load(head, ints, reals, state, inputs, floats, tree, t):
    """The tree's state from the machine's, and inputs from outside; what is not given stays as the file has it."""
    plain, balls, independent = head[H.PLAIN], head[H.BALLS], part(ints, ints, P.INDEPENDENT)
    x, ref, w, full = part(ints, tree, P.X), part(ints, tree, P.REF), part(ints, tree, P.W), part(ints, tree, P.FULL)
    n, y = len(independent), plain + 4 * balls + len(independent)
    part(ints, tree, P.TIME)[0] = t
    for i in range(len(x)):
        x[i], w[i], full[i] = state[y + 1 + i], 0.0, 0.0
    for i in range(len(ref)):
        ref[i] = state[y + 1 + len(x) + i]
    for i in range(plain):
        x[independent[head[head[H.PLAIN_AT] + i]]] = state[i]
    for b in range(balls):
        number, first = head[head[H.BALLS_AT] + 2 * b], independent[head[head[H.BALLS_AT] + 2 * b + 1]]
        size = 0.0
        for i in range(4):
            size += state[plain + 4 * b + i] * state[plain + 4 * b + i]
        for i in range(4):
            ref[4 * number + i] = state[plain + 4 * b + i] / sqrt(size)
        x[first], x[first + 1], x[first + 2] = 0.0, 0.0, 0.0
    for i in range(n):
        w[independent[i]] = state[plain + 4 * balls + i]
    at_inputs = part(ints, tree, P.INPUT)
    for j in range(head[H.EXTERNAL]):
        row = view(head, head[H.EXTERNAL_AT] + 4 * j, head[H.EXTERNAL_AT] + 4 * j + 4)
        for k in (VALUE, RATE, SECOND):
            usual = floats[head[H.FACTOR] + j] if k == VALUE else 0.0
            at = row[1 + k]
            if at >= 0 and isnan(inputs[at]):
                inputs[at] = usual
            at_inputs[3 * row[0] + k] = inputs[at] if at >= 0 else usual


@inner
def keep(head, ints, tree, into):
    """What is behind y in the machine's state."""
    x, ref = part(ints, tree, P.X), part(ints, tree, P.REF)
    into[0] = part(ints, tree, P.TIME)[0]
    for i in range(len(x)):
        into[1 + i] = x[i]
    for i in range(len(ref)):
        into[1 + len(x) + i] = ref[i]


@inner
def form_of(head, floats, r, of, inputs, derivative):
    """Of the builder's coordinates or their rates."""
    total = floats[head[H.SETTINGS] + r] if derivative == VALUE else 0.0
    for k in range(head[head[H.ROWS_AT] + r], head[head[H.ROWS_AT] + r + 1]):
        c, factor = head[head[H.TERMS_AT] + k], floats[head[H.CONST] + k]
        if c < len(of):
            total += factor * of[c]
        else:
            total += factor * inputs[3 * (c - len(of)) + derivative]
    return total


@inner
def place_columns(ints, reals, x, ref, w, inputs, full, tree_work, placed):
    """Every coordinate of the builder, its rate and its acceleration, one behind the other."""
    n = len(placed) // 3
    call(
        part(ints, reals, P.ADDRESS)[PLACES],
        (
            x, ref, w, inputs, part(ints, reals, P.D), full, view(placed, 0, n), view(placed, n, 2 * n),
            view(placed, 2 * n, 3 * n), part(ints, tree_work, P.GENERATED),
        ),
    )  # fmt: skip


@inner
def write_outputs(head, ints, reals, floats, tree, tree_work, placed, out):
    inputs, n = part(ints, tree, P.INPUT), len(placed) // 3
    place_columns(
        ints, reals, part(ints, tree, P.X), part(ints, tree, P.REF), part(ints, tree, P.W), inputs,
        part(ints, tree, P.FULL), tree_work, placed,
    )  # fmt: skip
    for r in range(head[H.FORMS]):
        out[2 * r] = form_of(head, floats, r, view(placed, 0, n), inputs, VALUE)
        out[2 * r + 1] = form_of(head, floats, r, view(placed, n, 2 * n), inputs, RATE)
    effort = part(ints, tree, P.EFFORT)
    for i in range(head[H.EFFORTS]):
        out[2 * head[H.FORMS] + i] = effort[i]


@inner
def fill(out, value):
    for i in range(len(out)):
        out[i] = value


@kernel(STEP, error_model="numpy")
def step(state, inputs, params, tables, work, h):
    head, floats = tables.ints, tables.floats
    ints, reals = view(head, FRONT, head[H.SYSTEM_END]), view(floats, 0, head[H.REALS])
    layout, settings = view(head, head[H.SYSTEM_END], head[H.LAYOUT_END]), view(floats, head[H.REALS], head[H.SETTINGS])
    tree, tree_work = view(work, head[H.TREE], head[H.WORK]), view(work, head[H.WORK], head[H.SCRATCH])
    scratch, placed = view(work, head[H.SCRATCH], head[H.PLACED]), view(work, head[H.PLACED], head[H.JACOBIAN])
    out = view(work, 0, 2 * head[H.FORMS] + head[H.EFFORTS])
    plain, balls, independent = head[H.PLAIN], head[H.BALLS], part(ints, ints, P.INDEPENDENT)
    y = plain + 4 * balls + len(independent)
    load(head, ints, reals, state, inputs, floats, tree, state[y])
    words = view(floats, head[H.VALUES], len(floats))
    status = advance(
        method_at(words[METHOD]), rates_at(words[RATES]), both_at(words[BOTH]), layout, settings, ints, reals, tree,
        tree_work, scratch, h,
    )  # fmt: skip
    if status != GOOD:
        fill(out, nan)
        return
    x, ref, w = part(ints, tree, P.X), part(ints, tree, P.REF), part(ints, tree, P.W)
    for i in range(plain):
        state[i] = x[independent[head[head[H.PLAIN_AT] + i]]]
    for b in range(balls):
        for i in range(4):
            state[plain + 4 * b + i] = ref[4 * head[head[H.BALLS_AT] + 2 * b] + i]
    for i in range(len(independent)):
        state[plain + 4 * balls + i] = w[independent[i]]
    keep(head, ints, tree, view(state, y, len(state)))
    write_outputs(head, ints, reals, floats, tree, tree_work, placed, out)


@kernel(STEP, error_model="numpy")
def rates_of_change(state, inputs, params, tables, work, h):
    """Of a state at the instant `h`: outputs, rates of y, and what is kept if a step ends here."""
    head, floats = tables.ints, tables.floats
    ints, reals = view(head, FRONT, head[H.SYSTEM_END]), view(floats, 0, head[H.REALS])
    tree, tree_work = view(work, head[H.TREE], head[H.WORK]), view(work, head[H.WORK], head[H.SCRATCH])
    placed = view(work, head[H.PLACED], head[H.JACOBIAN])
    plain, balls, n = head[H.PLAIN], head[H.BALLS], len(part(ints, ints, P.INDEPENDENT))
    y, outputs = plain + 4 * balls + n, 2 * head[H.FORMS] + head[H.EFFORTS]
    load(head, ints, reals, state, inputs, floats, tree, h)
    begin(ints, tree, tree_work, h)
    move(ints, reals, tree_work, h, part(ints, tree_work, P.Y), True)
    if conclude(ints, reals, tree, tree_work, h) != GOOD:
        fill(view(work, 0, outputs + y), nan)
        return
    rate, a = view(work, outputs, outputs + y), part(ints, tree_work, P.ACCELERATION)
    for i in range(plain):
        rate[i] = state[plain + 4 * balls + head[head[H.PLAIN_AT] + i]]
    for b in range(balls):
        first = plain + 4 * balls + head[head[H.BALLS_AT] + 2 * b + 1]
        u, v, w = 0.5 * state[first], 0.5 * state[first + 1], 0.5 * state[first + 2]
        q, out = view(state, plain + 4 * b, plain + 4 * b + 4), view(rate, plain + 4 * b, plain + 4 * b + 4)
        out[0] = -q[1] * u - q[2] * v - q[3] * w
        out[1] = q[0] * u + q[2] * w - q[3] * v
        out[2] = q[0] * v + q[3] * u - q[1] * w
        out[3] = q[0] * w + q[1] * v - q[2] * u
    for i in range(n):
        rate[plain + 4 * balls + i] = a[i]
    keep(head, ints, tree, view(work, outputs + y, outputs + len(state)))
    write_outputs(head, ints, reals, floats, tree, tree_work, placed, view(work, 0, outputs))


@inner
def move_with(ints, reals, tree, tree_work, placed, accelerations, full):
    """Accelerations at a state of the tree as it is, and the columns there."""
    x, ref, w = part(ints, tree, P.X), part(ints, tree, P.REF), part(ints, tree, P.W)
    inputs = part(ints, tree, P.INPUT)
    none = part(ints, tree_work, P.NONE)
    call(
        part(ints, reals, P.ADDRESS)[MOTION],
        (
            x, ref, w, inputs, part(ints, reals, P.D), none, accelerations, part(ints, tree_work, P.XDOT), full,
            part(ints, tree_work, P.AT_EFFORT), part(ints, tree_work, P.GENERATED),
        ),
    )  # fmt: skip
    place_columns(ints, reals, x, ref, w, inputs, full, tree_work, placed)


@kernel(STEP, error_model="numpy")
def tangent_of_rates(state, inputs, params, tables, work, h):
    """Of every output and every rate of y, a row each, by y and the inputs; for mechanisms without balls in y, without
    efforts, whose inputs from outside scale forces alone.

    Columns q of the builder move with qd = G w. Their derivatives by a coordinate are G's column; those of qd are the
    second derivatives Q(e, w) of q, of which qdd = G a + Q(w, w) has the quadratic form: Q(e, w) is a quarter of the
    difference of those at w + e and w - e. Accelerations are linear in what scales a force.
    """
    head, floats = tables.ints, tables.floats
    ints, reals = view(head, FRONT, head[H.SYSTEM_END]), view(floats, 0, head[H.REALS])
    tree, tree_work = view(work, head[H.TREE], head[H.WORK]), view(work, head[H.WORK], head[H.SCRATCH])
    placed, J = view(work, head[H.PLACED], head[H.JACOBIAN]), view(work, head[H.JACOBIAN], head[H.DERIVATIVES])
    independent = part(ints, ints, P.INDEPENDENT)
    n, c, outputs = len(independent), head[H.COLUMNS], 2 * head[H.FORMS]
    G = view(work, head[H.DERIVATIVES], head[H.DERIVATIVES] + n * c)
    moved = view(work, head[H.DERIVATIVES] + n * c, head[H.DERIVATIVES] + n * c + c)
    N, columns = 2 * n, 2 * n + len(inputs)
    out = view(work, 0, (outputs + N) * columns)
    fill(out, 0.0)
    fill(J, 0.0)
    load(head, ints, reals, state, inputs, floats, tree, h)
    begin(ints, tree, tree_work, h)
    y, rate = part(ints, tree_work, P.Y), view(work, head[H.DERIVATIVES] + n * c + c, len(work))
    jacobian_of_rates(ints, reals, tree_work, h, y, view(rate, 0, N), J, view(rate, N, 2 * N))
    for i in range(N):
        for k in range(N):
            out[(outputs + i) * columns + k] = J[N * i + k]
    if conclude(ints, reals, tree, tree_work, h) != GOOD:
        fill(out, nan)
        return
    w, u, full = part(ints, tree, P.W), part(ints, tree, P.INPUT), part(ints, tree, P.FULL)
    a = part(ints, tree_work, P.ACCELERATION)
    nominal = view(rate, 0, len(u))
    for i in range(len(u)):
        nominal[i] = u[i]
    # columns of G: rates of the builder's coordinates at unit velocities, inputs standing still
    for i in range(len(u)):
        if i % 3 != VALUE:
            u[i] = 0.0
    for k in range(n):
        for i in range(n):
            w[independent[i]] = 1.0 if i == k else 0.0
        place_columns(ints, reals, part(ints, tree, P.X), part(ints, tree, P.REF), w, u, full, tree_work, placed)
        for i in range(c):
            G[c * k + i] = placed[c + i]
    for i in range(len(u)):
        u[i] = nominal[i]
    for k in range(n):
        for i in range(c):
            moved[i] = 0.0
        for sign in (0.25, -0.25):
            for i in range(n):
                w[independent[i]] = state[n + i] + (4.0 * sign if i == k else 0.0)
            move_with(ints, reals, tree, tree_work, placed, a, full)
            for i in range(c):
                moved[i] += sign * placed[2 * c + i]
                for j in range(n):
                    moved[i] -= sign * G[c * j + i] * a[j]
        for r in range(head[H.FORMS]):
            by, rate_by = 0.0, 0.0
            for m in range(head[head[H.ROWS_AT] + r], head[head[H.ROWS_AT] + r + 1]):
                i, factor = head[head[H.TERMS_AT] + m], floats[head[H.CONST] + m]
                if i < c:
                    by += factor * G[c * k + i]
                    rate_by += factor * moved[i]
            out[2 * r * columns + k] = by
            out[(2 * r + 1) * columns + k] = rate_by
            out[(2 * r + 1) * columns + n + k] = by
    for i in range(n):
        w[independent[i]] = state[n + i]
    for j in range(head[H.EXTERNAL]):
        at, column = 3 * head[head[H.EXTERNAL_AT] + 4 * j] + VALUE, head[head[H.EXTERNAL_AT] + 4 * j + 1]
        for sign in (0.5, -0.5):
            u[at] = nominal[at] + 2.0 * sign
            move_with(ints, reals, tree, tree_work, placed, a, full)
            for i in range(n):
                out[(outputs + n + i) * columns + N + column] += sign * a[i]
        u[at] = nominal[at]
