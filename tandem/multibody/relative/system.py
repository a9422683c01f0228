"""A mechanism in relative coordinates, ready to be stepped.

    ints   int32    constant: index tables; begins with the start and stop of every part listed below
    reals  float64  constant in a step: addresses of the generated functions, what follows from parameters, laws of time
    state  float64  one instant of one run: what is saved and forked
    work   float64  scratch of a step

The integrators see y = (x, w) of the independent velocities (ode.py). Within a step the dependent coordinates are found
by Newton's method, from where the evaluation before had them: stages of a method lie close to each other. A step begins
from its state alone, and so is the same to the bit whatever was asked before it; the same y gives the same rates to
`CLOSED`. Where a step ends, loops are looked at until they hold; within it also where Newton's method, which squares
the gap, is known to close them by the correction that was just made. After a step every ball's rotation goes to its
reference and its coordinates to 0.
"""

from dataclasses import dataclass
from enum import IntEnum, auto
from math import isfinite, sqrt
from typing import Any

import numpy as np
from numba import float64, int64, types, void

from sync.compile import parts
from sync.compile.array_types import CONSTANTS, INDICES, VECTOR
from sync.compile.jit import inner, kernel
from sync.compile.parts import joined, lay_out
from tandem.multibody.code.calls import as_word, call
from tandem.multibody.code.llvm import Compiled
from tandem.multibody.natural.equations import Equations
from tandem.multibody.natural.laws import follow_law
from tandem.multibody.natural.tables import EXTERNAL, RATE, SECOND, VALUE
from tandem.multibody.natural.views import part, view
from tandem.multibody.relative import ode
from tandem.multibody.relative.build import build
from tandem.multibody.relative.generate import Generated
from tandem.multibody.relative.port_jacobian import jacobian, time_derivatives

CLOSED = 1e-12  # m or rad, of a loop, within a step
MOST_CORRECTIONS = 8
MOST_CURVATURE = 1e3  # 1/m or 1/rad: the gap after a correction is below this times its square
SMALLEST_PIVOT = 0.05  # of what it is where the mechanism was assembled: below, other coordinates should be independent
GOOD, CAPPED, NOT_FINITE, OPEN, SINGULAR = range(5)  # a step: as ode.py has it; loops open; near a singular partition


class P(IntEnum):
    """Parts of the arrays. `ints`:"""

    INDEPENDENT = 0
    DEPENDENT = auto()
    DRIVEN = auto()
    BALLS = auto()  # first coordinate of each
    LAW_KIND = auto()
    DRIVEN_PTR = auto()  # what a driven coordinate follows: inputs and factors
    DRIVEN_INPUT = auto()
    BLOCKS = auto()  # of port_jacobian.py
    # reals
    ADDRESS = auto()
    D = auto()
    LAW = auto()
    DRIVEN_CONST = auto()
    DRIVEN_FACTOR = auto()
    PIVOT = auto()  # where the mechanism was assembled
    # state
    TIME = auto()
    X = auto()
    REF = auto()
    W = auto()
    FULL = auto()  # accelerations of all velocities
    EFFORT = auto()  # of driven coordinates
    INPUT = auto()
    # work
    AT_X = auto()
    AT_REF = auto()
    AT_W = auto()
    AT_INPUT = auto()
    START_X = auto()
    NEW = auto()
    H = auto()
    PIVOTS = auto()
    ACCELERATION = auto()
    XDOT = auto()
    AT_FULL = auto()
    AT_EFFORT = auto()
    END = auto()  # instant for which inputs from outside hold
    DERIVATIVES = auto()
    TURNS = auto()
    FACTOR = auto()
    DRIFT = auto()
    SCRATCH = auto()
    GENERATED = auto()  # work of the generated functions
    Y = auto()
    NONE = auto()


# places in ADDRESS
PREPARE, CLOSE, MOTION, DERIVATIVES, DRIFT, PLACES = range(6)
NAMES = ("prepare", "close", "motion", "derivatives_1", "derivatives_2", "places")


@inner
def set_inputs(ints, reals, work, t):
    """Inputs at an instant of a step: by their laws, or by the derivatives of what was given for its end."""
    kind, law, inputs = part(ints, ints, P.LAW_KIND), part(ints, reals, P.LAW), part(ints, work, P.AT_INPUT)
    external, before = part(ints, work, P.END), part(ints, work, P.END)[0] - t
    for j in range(len(kind)):
        out = view(inputs, 3 * j, 3 * j + 3)
        if kind[j] == EXTERNAL:
            v, r, s = external[1 + 3 * j], external[2 + 3 * j], external[3 + 3 * j]
            out[VALUE] = v - before * (r - 0.5 * before * s)
            out[RATE] = r - before * s
            out[SECOND] = s
        else:
            follow_law(kind[j], law[4 * j], law[4 * j + 1], law[4 * j + 2], law[4 * j + 3], t, out)


@inner
def close_loops(ints, reals, work, checked):
    """Dependent coordinates by Newton's method from where they were last closed.

    `checked`: until the measured gaps, in H, are below CLOSED. Otherwise the last evaluation is left out where the next
    gap is predicted below it: c gap^2, which H then has, with c from the last two gaps, or at the first correction so
    large that it holds for any mechanism.
    """
    dependent = part(ints, ints, P.DEPENDENT)
    if len(dependent) == 0:
        return
    x, ref, u = part(ints, work, P.AT_X), part(ints, work, P.AT_REF), part(ints, work, P.AT_INPUT)
    new, h, pivots = part(ints, work, P.NEW), part(ints, work, P.H), part(ints, work, P.PIVOTS)
    d, scratch, word = part(ints, reals, P.D), part(ints, work, P.GENERATED), part(ints, reals, P.ADDRESS)[CLOSE]
    start, curvature, last = part(ints, work, P.START_X), MOST_CURVATURE, 0.0
    for _ in range(MOST_CORRECTIONS):
        call(word, (x, ref, u, d, new, h, pivots, scratch))
        gap = 0.0
        for i in range(len(h)):
            gap = max(gap, abs(h[i])) if isfinite(h[i]) else 1e300
        if gap >= 1e300:
            return
        if last > 0.0:
            curvature = gap / (last * last)
        last = gap
        closed = gap <= CLOSED
        if not closed:
            for i in range(len(dependent)):
                x[dependent[i]] = new[i]
            closed = not checked and curvature * gap * gap <= CLOSED
            for i in range(len(h) if closed else 0):
                h[i] *= curvature * gap
        if closed:
            for i in range(len(dependent)):
                start[dependent[i]] = x[dependent[i]]
            return


@inner
def set_driven(ints, reals, work):
    driven, ptr = part(ints, ints, P.DRIVEN), part(ints, ints, P.DRIVEN_PTR)
    source, factor, const = (
        part(ints, ints, P.DRIVEN_INPUT), part(ints, reals, P.DRIVEN_FACTOR), part(ints, reals, P.DRIVEN_CONST),
    )  # fmt: skip
    x, u = part(ints, work, P.AT_X), part(ints, work, P.AT_INPUT)
    for i in range(len(driven)):
        total = const[i]
        for k in range(ptr[i], ptr[i + 1]):
            total += factor[k] * u[3 * source[k] + VALUE]
        x[driven[i]] = total


@inner
def take(ints, work, y):
    """Coordinates and velocities of y; dependent coordinates as they were last closed."""
    independent, dependent = part(ints, ints, P.INDEPENDENT), part(ints, ints, P.DEPENDENT)
    x, w, start = part(ints, work, P.AT_X), part(ints, work, P.AT_W), part(ints, work, P.START_X)
    n = len(independent)
    for i in range(n):
        x[independent[i]] = y[i]
        w[independent[i]] = y[n + i]
    for i in range(len(dependent)):
        x[dependent[i]] = start[dependent[i]]


@inner
def place(ints, reals, work, t, y, checked):
    """Coordinates, velocities and inputs at y, with the loops closed, and `checked` (close_loops) or not."""
    set_inputs(ints, reals, work, t)
    take(ints, work, y)
    set_driven(ints, reals, work)
    close_loops(ints, reals, work, checked)


@inner
def move(ints, reals, work, t, y, checked):
    """The generated motion at y."""
    place(ints, reals, work, t, y, checked)
    none = part(ints, work, P.NONE)
    call(
        part(ints, reals, P.ADDRESS)[MOTION],
        (
            part(ints, work, P.AT_X), part(ints, work, P.AT_REF), part(ints, work, P.AT_W),
            part(ints, work, P.AT_INPUT), part(ints, reals, P.D), none, part(ints, work, P.ACCELERATION),
            part(ints, work, P.XDOT), part(ints, work, P.AT_FULL), part(ints, work, P.AT_EFFORT),
            part(ints, work, P.GENERATED),
        ),
    )  # fmt: skip


@kernel(ode.RATES, error_model="numpy")
def rates(ints, reals, work, t, y, ydot):
    """See ode.py."""
    move(ints, reals, work, t, y, False)
    a, xdot = part(ints, work, P.ACCELERATION), part(ints, work, P.XDOT)
    n = len(a)
    for i in range(n):
        ydot[i] = xdot[i]
        ydot[n + i] = a[i]


@kernel(ode.RATES_AND_JACOBIAN, error_model="numpy")
def rates_and_jacobian(ints, reals, work, t, y, ydot, J, ydot_t):
    """See ode.py."""
    place(ints, reals, work, t, y, False)
    a, xdot, none = part(ints, work, P.ACCELERATION), part(ints, work, P.XDOT), part(ints, work, P.NONE)
    derivatives, turns, factor = part(ints, work, P.DERIVATIVES), part(ints, work, P.TURNS), part(ints, work, P.FACTOR)
    drift, address = part(ints, work, P.DRIFT), part(ints, reals, P.ADDRESS)
    arrays = (
        part(ints, work, P.AT_X), part(ints, work, P.AT_REF), part(ints, work, P.AT_W), part(ints, work, P.AT_INPUT),
        part(ints, reals, P.D), none, none, none, none, none, none, none, a, xdot, part(ints, work, P.AT_FULL),
        part(ints, work, P.AT_EFFORT), derivatives, turns, factor, drift, part(ints, work, P.GENERATED),
    )  # fmt: skip
    # the first stage has nothing but ports
    call(address[DERIVATIVES], arrays)
    n = len(a)
    table = part(ints, ints, P.BLOCKS)
    jacobian(table, none, none, none, none, derivatives, turns, factor, part(ints, work, P.SCRATCH), J, 2 * n)
    for i in range(n):
        ydot[i] = xdot[i]
        ydot[n + i] = a[i]
    if len(part(ints, work, P.AT_INPUT)) > 0:
        call(address[DRIFT], arrays)
        time_derivatives(table, none, none, none, none, none, drift, factor, J, 2 * n, ydot_t)
    else:
        for i in range(2 * n):
            ydot_t[i] = 0.0


@inner
def turn_reference(ref, xi):
    """ref times the increment (1, xi / 2), normalised; the increment is 0 afterwards."""
    a, b, c = 0.5 * xi[0], 0.5 * xi[1], 0.5 * xi[2]
    q0, q1, q2, q3 = ref[0], ref[1], ref[2], ref[3]
    r0 = q0 - q1 * a - q2 * b - q3 * c
    r1 = q1 + q0 * a + q2 * c - q3 * b
    r2 = q2 + q0 * b + q3 * a - q1 * c
    r3 = q3 + q0 * c + q1 * b - q2 * a
    size = 1.0 / sqrt(r0 * r0 + r1 * r1 + r2 * r2 + r3 * r3)
    ref[0], ref[1], ref[2], ref[3] = r0 * size, r1 * size, r2 * size, r3 * size
    xi[0] = xi[1] = xi[2] = 0.0


@inner
def begin(ints, state, work, end):
    """Put a state into the work of a step that ends at `end`."""
    x, ref, w, inputs = (
        part(ints, state, P.X), part(ints, state, P.REF), part(ints, state, P.W), part(ints, state, P.INPUT),
    )  # fmt: skip
    at_x, start, at_ref, at_w = (
        part(ints, work, P.AT_X), part(ints, work, P.START_X), part(ints, work, P.AT_REF), part(ints, work, P.AT_W),
    )  # fmt: skip
    external, independent, y = part(ints, work, P.END), part(ints, ints, P.INDEPENDENT), part(ints, work, P.Y)
    for i in range(len(x)):
        at_x[i] = start[i] = x[i]
        at_w[i] = w[i]
    for i in range(len(ref)):
        at_ref[i] = ref[i]
    external[0] = end
    for i in range(len(inputs)):
        external[1 + i] = inputs[i]
    n = len(independent)
    for i in range(n):
        y[i] = x[independent[i]]
        y[n + i] = w[independent[i]]


@inner
def conclude(ints, reals, state, work, t):
    """The state where `work` has moved it to. How it went."""
    x, ref, w, full = (
        part(ints, state, P.X),
        part(ints, state, P.REF),
        part(ints, state, P.W),
        part(ints, state, P.FULL),
    )
    at_x, at_w, at_full = part(ints, work, P.AT_X), part(ints, work, P.AT_W), part(ints, work, P.AT_FULL)
    effort, at_effort = part(ints, state, P.EFFORT), part(ints, work, P.AT_EFFORT)
    inputs, at_inputs, kind = part(ints, state, P.INPUT), part(ints, work, P.AT_INPUT), part(ints, ints, P.LAW_KIND)
    h, pivots, usual = part(ints, work, P.H), part(ints, work, P.PIVOTS), part(ints, reals, P.PIVOT)
    for i in range(len(x)):
        x[i], w[i], full[i] = at_x[i], at_w[i], at_full[i]
    for i in range(len(effort)):
        effort[i] = at_effort[i]
    for j in range(len(kind)):
        for k in range(3):
            inputs[3 * j + k] = at_inputs[3 * j + k]
    part(ints, state, P.TIME)[0] = t
    balls = part(ints, ints, P.BALLS)
    for b in range(len(balls)):
        turn_reference(view(ref, 4 * b, 4 * b + 4), view(x, balls[b], balls[b] + 3))
    gap, total, least = 0.0, 0.0, 1.0
    for i in range(len(h)):
        gap = max(gap, abs(h[i]))
        least = min(least, abs(pivots[i] / usual[i]))
    for i in range(len(x)):
        total += x[i] + w[i] + full[i]
    if not (isfinite(total) and isfinite(gap)):
        return NOT_FINITE
    if gap > 1e3 * CLOSED:
        return OPEN
    return SINGULAR if least < SMALLEST_PIVOT else GOOD


@inner
def finish(ints, reals, state, work, t):
    """The state at y: loops closed, accelerations and efforts, balls with new references. How it went."""
    move(ints, reals, work, t, part(ints, work, P.Y), True)
    return conclude(ints, reals, state, work, t)


# functions are arguments: a kernel that names them could not be kept in the cache
FUNCTIONS = (types.FunctionType(ode.STEP), types.FunctionType(ode.RATES), types.FunctionType(ode.RATES_AND_JACOBIAN))
ADVANCE = int64(*FUNCTIONS, INDICES, CONSTANTS, INDICES, CONSTANTS, VECTOR, VECTOR, VECTOR, float64)


@kernel(ADVANCE, error_model="numpy")
def advance(step, of_rates, of_both, layout, settings, ints, reals, state, work, scratch, h):
    """One step of a state; inputs from outside are those of its end. A status: the worst of GOOD to SINGULAR."""
    t = part(ints, state, P.TIME)[0]
    begin(ints, state, work, t + h)
    y = part(ints, work, P.Y)
    done = ode.GOOD
    if len(y) > 0:  # otherwise all is driven
        done = step(of_rates, of_both, layout, settings, ints, reals, work, t, h, y, scratch)
    if done == ode.NOT_FINITE:
        return NOT_FINITE
    found = finish(ints, reals, state, work, t + h)
    return found if found != GOOD else int64(done)


@kernel(void(INDICES, CONSTANTS, VECTOR, VECTOR), error_model="numpy")
def settle(ints, reals, state, work):
    """Close the loops of a state and find its accelerations, without a step."""
    t = part(ints, state, P.TIME)[0]
    begin(ints, state, work, t)
    finish(ints, reals, state, work, t)


@kernel(void(INDICES, CONSTANTS, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR), error_model="numpy")
def natural_places(ints, reals, state, work, q, qd, qdd):
    """Every coordinate of the builder and its derivatives, of a state."""
    call(
        part(ints, reals, P.ADDRESS)[PLACES],
        (
            part(ints, state, P.X), part(ints, state, P.REF), part(ints, state, P.W), part(ints, state, P.INPUT),
            part(ints, reals, P.D), part(ints, state, P.FULL), q, qd, qdd, part(ints, work, P.GENERATED),
        ),
    )  # fmt: skip


# ---- in Python -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class System:
    """The tables of a mechanism, and its machine code."""

    mechanism: Equations
    generated: Generated
    code: Compiled
    ints: np.ndarray
    reals: np.ndarray
    state_size: int
    work_size: int
    layout: np.ndarray  # of the integrators
    settings: np.ndarray

    def span(self, which: P) -> slice:
        return parts.span(self.ints, which)

    def part(self, which: P, array: np.ndarray) -> np.ndarray:
        return array[self.span(which)]

    def work(self) -> np.ndarray:
        return np.zeros(self.work_size)

    def state(self) -> np.ndarray:
        """At rest where the mechanism is assembled, accelerations found."""
        out = np.zeros(self.state_size)
        self.part(P.X, out)[:] = self.generated.tree.assembled
        self.part(P.REF, out)[::4] = 1.0
        self.part(P.INPUT, out)[VALUE::3] = self.generated.tree.start
        settle(self.ints, self.reals, out, self.work())
        return out


def make_system(mechanism: Equations, built: tuple[Generated, Compiled] | None = None) -> System:
    """From the builder to a system; of functions that were built before if given."""
    generated, code = build(mechanism) if built is None else built
    if generated.ports:
        raise ValueError("model forces: a mechanism with a hook is stepped by its own machine")
    (d,) = code.call("prepare", generated.parameters)
    tree = generated.tree
    n, u, v = tree.n, len(generated.independent), len(generated.dependent)
    m = len(generated.blocks.ball_rows)
    count, balls = len(mechanism.inputs), len(generated.balls)
    forms = [tree.driven[k] for k in generated.driven]
    start = np.zeros((count, 3))
    start[:, VALUE] = generated.at.inputs
    pivots = code.call("close", generated.at.x, generated.at.ref, start.ravel(), d)[2]
    laws = [[*i.law, 0.0, 0.0, 0.0, 0.0][:4] for i in mechanism.inputs.values()]
    filled: dict[P, Any] = {
        P.INDEPENDENT: generated.independent, P.DEPENDENT: generated.dependent, P.DRIVEN: generated.driven,
        P.BALLS: generated.balls, P.LAW_KIND: [i.kind for i in mechanism.inputs.values()],
        P.DRIVEN_PTR: np.cumsum([0, *(len(form.inputs) for form in forms)]),
        P.BLOCKS: generated.blocks.table, P.DRIVEN_INPUT: [k for form in forms for k in form.inputs],
        P.ADDRESS: [as_word(code.address[name]) for name in NAMES], P.D: d, P.LAW: np.ravel(laws),
        P.DRIVEN_CONST: [form.const for form in forms],
        P.DRIVEN_FACTOR: [c for form in forms for c in form.inputs.values()], P.PIVOT: pivots,
    }  # fmt: skip
    sizes = {
        P.TIME: 1, P.X: n, P.REF: 4 * balls, P.W: n, P.FULL: n, P.EFFORT: len(generated.driven), P.INPUT: 3 * count,
        P.AT_X: n, P.AT_REF: 4 * balls, P.AT_W: n, P.AT_INPUT: 3 * count, P.START_X: n, P.NEW: v, P.H: v, P.PIVOTS: v,
        P.ACCELERATION: u, P.XDOT: u, P.AT_FULL: n, P.AT_EFFORT: len(generated.driven), P.END: 1 + 3 * count,
        P.DERIVATIVES: 2 * u * u, P.TURNS: 2 * u * m, P.FACTOR: u * u, P.DRIFT: u + 2 * m,
        P.SCRATCH: generated.blocks.work_size, P.GENERATED: max(code.work_size, 1), P.Y: 2 * u, P.NONE: 1,
    }  # fmt: skip
    ints = {which: filled[which] for which in P if which < P.ADDRESS}
    reals = {which: filled[which] for which in P if P.ADDRESS <= which < P.TIME}
    state = {which: sizes[which] for which in P if P.TIME <= which < P.AT_X}
    work = {which: sizes[which] for which in P if which >= P.AT_X}
    spans, ends = lay_out(len(P), (2 * len(P), ints), (0, reals), (0, state), (0, work))
    place = {k: i for i, k in enumerate(generated.independent)}
    some = [k for k in generated.balls if any(k + i in place for i in range(3))]
    free = [place[k] for k in some if all(k + i in place for i in range(3))]
    layout = ode.make_layout(max(u, 1), 0, free, dense=len(free) < len(some))
    return System(
        mechanism, generated, code, np.concatenate([spans, joined(ints, np.int64)]).astype(np.int32),
        joined(reals, float), ends[2], ends[3], layout, ode.make_settings(layout),
    )  # fmt: skip
