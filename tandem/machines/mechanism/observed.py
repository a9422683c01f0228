"""What a filter needs of a mechanism: the tangent of its step, and what sensors on its bodies read.

Coordinates of the error are the independent ones and their velocities; the loops follow. Signals are all outputs of the
machine (encoders, positions), and of every body BODY_rate and BODY_specific_force, at a place and along a direction
that are given where they are in the drawing, as everything of a mechanism is. In the plane the third axis is the one
that bodies turn about.

The transition is that of Runge and Kutta's step of the variational equation, with the exact Jacobian of the
accelerations at its four stages; the step itself is the machine's. Derivatives of outputs are exact (machine_step.py).
Of the sensors on bodies those by velocity are too; those by position are differences, extrapolated to the fourth order,
of exact velocities and accelerations.
"""

from dataclasses import replace

import numpy as np

from sim_service.contract.machine import Machine, Quantity, Rates, Tables, tables
from sync.compile.jit import inner, kernel
from sync.compile.parts import joined, lay_out, places
from sync.errors import ConfigError
from tandem.estimation.contract import CORRECT, FAILED, LINEARISE, MEASURE, TANGENT, Observed
from tandem.estimation.rows import R
from tandem.machines.mechanism.described import OfMechanism
from tandem.multibody.natural.equations import Equations
from tandem.multibody.natural.views import part, view
from tandem.multibody.relative.machine_step import FRONT, H, load, rates_of_change, tangent_of_rates
from tandem.multibody.relative.machine_step import step as plain_step
from tandem.multibody.relative.system import begin, rates_and_jacobian

COMPILED_ON_REQUEST = True  # see sync/compile/build.py

# parts behind the machine's own tables, of `at`, and of the scratch there
A = places("A", (
    # integers: freedoms, outputs, columns of the builder, bodies, time in the state
    "SIZES",
    # numbers: of each body its origin and three axes as drawn, three rows each, over the columns; then what is constant
    "FORMS", "CONSTANTS", "GRAVITY",
    # at: outputs and their derivatives; of bodies' origins and axes value, rate and acceleration, and their derivatives
    "OUT", "OUT_DERIVATIVES", "BODY", "BODY_DERIVATIVES",
    # scratch behind them
    "COLUMNS", "G", "BY_X", "STATE", "Y", "RATE", "DRIFT", "STAGES", "FIRST", "FOUND",
))  # fmt: skip
VECTORS = 4  # of a body: its origin, and its axes as drawn
NUMBERS = 3 * VECTORS
STEP_OF_X = 1e-3  # m or rad


@inner
def columns_at(state, by, k, inputs, params, tables, work, t, changed, out):
    """Rates and accelerations of the builder's coordinates where coordinate k is moved."""
    head = tables.ints
    for i in range(len(state)):
        changed[i] = state[i]
    changed[k] += by
    rates_of_change(changed, inputs, params, tables, work, t)
    placed, c = view(work, head[H.PLACED], head[H.JACOBIAN]), head[H.COLUMNS]
    for i in range(2 * c):
        out[i] = placed[c + i]


@inner
def transition(state, inputs, tables, work, h, ints, at, F):
    """Runge and Kutta's step of the variational equation, column by column."""
    head, floats = tables.ints, tables.floats
    own, reals = view(head, FRONT, head[H.SYSTEM_END]), view(floats, 0, head[H.REALS])
    tree, tree_work = view(work, head[H.TREE], head[H.WORK]), view(work, head[H.WORK], head[H.SCRATCH])
    J = view(work, head[H.JACOBIAN], head[H.DERIVATIVES])
    n = part(ints, ints, A.SIZES)[0]
    N, t = 2 * n, state[part(ints, ints, A.SIZES)[4]]
    y, rate, drift = part(ints, at, A.Y), part(ints, at, A.RATE), part(ints, at, A.DRIFT)
    S = part(ints, at, A.STAGES)
    load(head, own, reals, state, inputs, floats, tree, t)
    begin(own, tree, tree_work, t + h)
    for i in range(N * N):
        F[i] = 0.0
    for stage in range(4):
        ahead = 0.0 if stage == 0 else h if stage == 3 else 0.5 * h
        for i in range(N):
            y[i] = state[i] + (ahead * rate[N * (stage - 1) + i] if stage > 0 else 0.0)
        rates_and_jacobian(own, reals, tree_work, t + ahead, y, view(rate, N * stage, N * (stage + 1)), J, drift)
        weight = h / 6.0 if stage in (0, 3) else h / 3.0
        here, before = N * N * stage, N * N * (stage - 1)
        for i in range(N):
            for k in range(N):
                total = J[N * i + k]
                if stage > 0:
                    for m in range(N):
                        total += ahead * J[N * i + m] * S[before + N * m + k]
                S[here + N * i + k] = total
                F[N * k + i] += weight * total
    for i in range(N):
        F[N * i + i] += 1.0
        F[N * N + i] = 0.0  # forces do nothing that the step has not done


@inner
def isnan_of(values, count):
    for i in range(count):
        if values[i] != values[i]:
            return True
    return False


@kernel(LINEARISE, error_model="numpy")
def linearise(state, inputs, params, tables, work, h, which, extra, F, at):
    """See estimation/contract.py."""
    head = tables.ints
    ints = view(head, head[len(head) - 1], len(head) - 1)  # ours behind the machine's
    sizes, floats = part(ints, ints, A.SIZES), tables.floats
    n, outputs, c, bodies, t = sizes[0], sizes[1], sizes[2], sizes[3], state[sizes[4]]
    N, wide = 2 * n, 2 * n + len(inputs)
    forms, constants = part(ints, floats, A.FORMS), part(ints, floats, A.CONSTANTS)
    out, derivatives = part(ints, at, A.OUT), part(ints, at, A.OUT_DERIVATIVES)
    body, by = part(ints, at, A.BODY), part(ints, at, A.BODY_DERIVATIVES)
    columns, G, by_x = part(ints, at, A.COLUMNS), part(ints, at, A.G), part(ints, at, A.BY_X)
    moved, first, found = part(ints, at, A.STATE), part(ints, at, A.FIRST), part(ints, at, A.FOUND)

    tangent_of_rates(state, inputs, params, tables, work, t)
    for r in range(outputs):
        for k in range(N):
            derivatives[N * r + k] = work[wide * r + k]
    for i in range(n):  # of accelerations
        for k in range(N):
            first[N * i + k] = work[wide * (outputs + n + i) + k]
    for i in range(n * c):
        G[i] = work[head[H.DERIVATIVES] + i]
    rates_of_change(state, inputs, params, tables, work, t)
    if isnan_of(work, outputs):
        return FAILED
    for r in range(outputs):
        out[r] = work[r]
    for i in range(3 * c):
        columns[i] = work[head[H.PLACED] + i]
    for k in range(n):  # rates and accelerations by each coordinate
        to = view(by_x, 2 * c * k, 2 * c * (k + 1))
        for i in range(2 * c):
            to[i] = 0.0
        for far, factor in ((1.0, 8.0 / 12.0), (-1.0, -8.0 / 12.0), (2.0, -1.0 / 12.0), (-2.0, 1.0 / 12.0)):
            columns_at(state, far * STEP_OF_X, k, inputs, params, tables, work, t, moved, found)
            for i in range(2 * c):
                to[i] += factor / STEP_OF_X * found[i]
    for r in range(NUMBERS * bodies):
        form = view(forms, c * r, c * (r + 1))
        for d in range(3):
            total = constants[r] if d == 0 else 0.0
            for i in range(c):
                total += form[i] * columns[c * d + i]
            body[3 * r + d] = total
        for k in range(n):
            value, speed, accel, pulled = 0.0, 0.0, 0.0, 0.0
            for i in range(c):
                value += form[i] * G[c * k + i]
                speed += form[i] * by_x[2 * c * k + i]
                accel += form[i] * by_x[2 * c * k + c + i]
                for j in range(n):
                    pulled += form[i] * G[c * j + i] * first[N * j + n + k]
            at_r = N * 3 * r
            by[at_r + k], by[at_r + n + k] = value, 0.0
            by[at_r + N + k], by[at_r + N + n + k] = speed, value
            by[at_r + 2 * N + k], by[at_r + 2 * N + n + k] = accel, pulled + 2.0 * speed
    transition(state, inputs, tables, work, h, ints, at, F)
    plain_step(state, inputs, params, tables, work, h)
    if isnan_of(work, outputs):
        return FAILED
    return TANGENT


@inner
def add_product(N, a, a_derivatives, b, b_derivatives, factor, H):
    """A product of two numbers with their derivatives, added to H; its value."""
    for k in range(N):
        H[k] += factor * (a * b_derivatives[k] + b * a_derivatives[k])
    return factor * a * b


@kernel(MEASURE, error_model="numpy")
def measure(signal, row, tau, at, tables, work, which, H):
    """See estimation/contract.py. The instant is that of the beginning of the step: tau is taken as 0."""
    head = tables.ints
    ints = view(head, head[len(head) - 1], len(head) - 1)
    sizes = part(ints, ints, A.SIZES)
    N, outputs = 2 * sizes[0], sizes[1]
    if signal < outputs:
        derivatives = part(ints, at, A.OUT_DERIVATIVES)
        for k in range(N):
            H[k] = derivatives[N * signal + k]
        return part(ints, at, A.OUT)[signal]
    for k in range(N):
        H[k] = 0.0
    of, force = (signal - outputs) // 2, (signal - outputs) % 2 == 1
    body, by = part(ints, at, A.BODY), part(ints, at, A.BODY_DERIVATIVES)
    first, total = 3 * NUMBERS * of, 0.0
    if not force:
        # w . x = z . dy/dt, and so on: axes turn with the body
        for k in range(3):
            along = row[R.DIRECTION + k]
            if along == 0.0:
                continue
            second, third = 1 + (k + 1) % 3, 1 + (k + 2) % 3
            for i in range(3):
                a, b = first + 3 * (3 * third + i), first + 3 * (3 * second + i) + 1
                total += add_product(
                    N, body[a], view(by, N * a, N * a + N), body[b], view(by, N * b, N * b + N), along, H
                )
        return total
    gravity = part(ints, tables.floats, A.GRAVITY)
    for i in range(3):
        for k in range(3):
            d = first + 3 * (3 * (1 + k) + i)
            along = row[R.DIRECTION + k]
            if along == 0.0:
                continue
            towards, its = body[d], view(by, N * d, N * d + N)
            for m in range(N):
                H[m] -= along * gravity[i] * its[m]
            total -= along * gravity[i] * towards
            for v in range(VECTORS):
                a = first + 3 * (3 * v + i) + 2
                far = 1.0 if v == 0 else row[R.PLACE + v - 1]
                total += add_product(N, towards, its, body[a], view(by, N * a, N * a + N), along * far, H)
    return total


@kernel(CORRECT, error_model="numpy")
def correct(state, params, tables, work, dx):
    """The coordinates are independent; loops are closed from where they were."""
    head = tables.ints
    ints = view(head, head[len(head) - 1], len(head) - 1)
    for i in range(2 * part(ints, ints, A.SIZES)[0]):
        state[i] += dx[i]


def observed(machine: Machine, params: np.ndarray) -> Observed:
    of = machine.of(OfMechanism)
    if of is None:
        raise ConfigError('observed: a mechanism with a control is not observed; leave "control" out of its file')
    rates = machine.of(Rates)
    if rates is None or not rates.tangent:
        raise ConfigError(
            f"observed: {of.path}: has drives, inputs that move, or a body that turns freely, and for these there is no"
            " tangent; mechanisms that forces move are observed"
        )
    m, n = of.mechanism, of.freedoms
    signals = (
        *machine.outputs,
        *(
            Quantity(f"{name}_{what}", unit, "at the place, along the direction as drawn")
            for name in m.bodies
            for what, unit in (("rate", "rad/s"), ("specific_force", "m/s2"))
        ),
    )
    extended, at_size = _tables(machine, m, n)
    return Observed(
        machine=replace(machine, tables=extended),
        coordinates=machine.states[: 2 * n],
        rates=(*range(n, 2 * n), *(-1,) * n),
        estimable=(),
        signals=signals,
        linearise=linearise,
        measure=measure,
        correct=correct,
        at_size=at_size,
        difference=lambda state, other, _: np.asarray(state[: 2 * n] - other[: 2 * n]),
    )


def _tables(machine: Machine, m: Equations, n: int) -> tuple[Tables, int]:
    """The machine's with ours behind them, and how much `at` takes."""
    c, N, bodies, outputs = m.n, 2 * n, len(m.bodies), len(machine.outputs)
    forms, constants = np.zeros((bodies, VECTORS, 3, c)), np.zeros((bodies, VECTORS, 3))
    constants[:, 1:] = np.eye(3)  # in the plane the third axis stays
    constants[:, 1 : 1 + m.dimension, : m.dimension] = 0.0
    for b, body in enumerate(m.bodies.values()):
        axes = [body.along(e) for e in np.eye(m.dimension)]
        for v, form in enumerate((body.at(np.zeros(m.dimension)), *axes)):
            constants[b, v, : m.dimension] = form.const
            for column, factors in form.terms.items():
                forms[b, v, : m.dimension, column] = factors
    gravity = np.append(m.g, np.zeros(3 - m.dimension))
    states = [q.name for q in machine.states]
    ints = {A.SIZES: [n, outputs, c, bodies, states.index("kept_time")]}
    reals = {A.FORMS: forms.ravel(), A.CONSTANTS: constants.ravel(), A.GRAVITY: gravity}
    sizes = {
        A.OUT: outputs, A.OUT_DERIVATIVES: outputs * N, A.BODY: bodies * NUMBERS * 3,
        A.BODY_DERIVATIVES: bodies * NUMBERS * 3 * N,
        A.COLUMNS: 3 * c, A.G: n * c, A.BY_X: 2 * n * c, A.STATE: len(states), A.Y: N, A.RATE: 4 * N, A.DRIFT: N,
        A.STAGES: 4 * N * N, A.FIRST: n * N, A.FOUND: 2 * c,
    }  # fmt: skip
    spans, (_, _, at_end) = lay_out(len(A), (2 * len(A), ints), (len(machine.tables.floats), reals), (0, sizes))
    head = machine.tables.ints
    whole = np.concatenate([head, spans, joined(ints, np.int64), [len(head)]])
    return tables(whole, np.concatenate([machine.tables.floats, joined(reals, float)])), at_end
