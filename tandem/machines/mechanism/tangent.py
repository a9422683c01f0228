"""The step of a mechanism with derivatives of its state by eight numbers of its file (shape_derivatives.py).

Beside the machine's own step that of Runge and Kutta for S' = J S + a: J the exact Jacobian of the accelerations at
four stages, a how they change with a number, exact too. Both steps are of the fourth order. Derivatives of outputs are
exact (relative/machine_step.py).
"""

from sim_service.contract.machine import TANGENT
from sync.compile.jit import inner, kernel
from sync.compile.parts import places
from tandem.multibody.code.calls import call
from tandem.multibody.natural.views import part, view
from tandem.multibody.relative.machine_step import FRONT, H, load, tangent_of_rates
from tandem.multibody.relative.machine_step import step as plain_step
from tandem.multibody.relative.system import P, begin, rates_and_jacobian

COMPILED_ON_REQUEST = True  # see sync/compile/build.py
LANES = 8  # as in ensembles/many_tangents.py

A = places("A", (
    "SIZES",  # integers behind the machine's: freedoms, outputs, time in the state
    "D_DERIVATIVES", "WORD",  # numbers: of d by each lane; the function
    # scratch behind the derivatives of work
    "OUT", "Y", "RATE", "DRIFT", "STAGES", "FORCED", "GENERATED",
))  # fmt: skip


@inner
def derivatives_after(state, by_state, inputs, tables, work, h, ints, by_work):
    """Runge and Kutta's step of the derivatives of y, all lanes."""
    head, floats = tables.ints, tables.floats
    own, reals = view(head, FRONT, head[H.SYSTEM_END]), view(floats, 0, head[H.REALS])
    tree, tree_work = view(work, head[H.TREE], head[H.WORK]), view(work, head[H.WORK], head[H.SCRATCH])
    J = view(work, head[H.JACOBIAN], head[H.DERIVATIVES])
    n, t = part(ints, ints, A.SIZES)[0], state[part(ints, ints, A.SIZES)[2]]
    N = 2 * n
    y, rate, drift = part(ints, by_work, A.Y), part(ints, by_work, A.RATE), part(ints, by_work, A.DRIFT)
    stages, forced = part(ints, by_work, A.STAGES), part(ints, by_work, A.FORCED)
    by_d, word = part(ints, floats, A.D_DERIVATIVES), part(ints, floats, A.WORD)[0]
    d = part(own, reals, P.D)
    load(head, own, reals, state, inputs, floats, tree, t)
    begin(own, tree, tree_work, t + h)
    for stage in range(4):
        ahead = 0.0 if stage == 0 else h if stage == 3 else 0.5 * h
        for i in range(N):
            y[i] = state[i] + (ahead * rate[N * (stage - 1) + i] if stage > 0 else 0.0)
        rates_and_jacobian(own, reals, tree_work, t + ahead, y, view(rate, N * stage, N * (stage + 1)), J, drift)
        for lane in range(LANES):
            call(
                word,
                (
                    part(own, tree_work, P.AT_X), part(own, tree_work, P.AT_REF), part(own, tree_work, P.AT_W),
                    part(own, tree_work, P.AT_INPUT), d, view(by_d, len(d) * lane, len(d) * (lane + 1)), forced,
                    part(ints, by_work, A.GENERATED),
                ),
            )  # fmt: skip
            for i in range(N):
                total = forced[i - n] if i >= n else 0.0
                for k in range(N):
                    s = by_state[LANES * k + lane]
                    if stage > 0:
                        s += ahead * stages[LANES * (N * (stage - 1) + k) + lane]
                    total += J[N * i + k] * s
                stages[LANES * (N * stage + i) + lane] = total
    for i in range(LANES * N):
        by_state[i] += (
            h
            / 6.0
            * (stages[i] + 2.0 * stages[LANES * N + i] + 2.0 * stages[2 * LANES * N + i] + stages[3 * LANES * N + i])
        )


@kernel(TANGENT, error_model="numpy")
def tangent(state, by_state, inputs, by_inputs, params, by_params, tables, work, by_work, h):
    head = tables.ints
    ints = view(head, head[len(head) - 1], len(head) - 1)
    sizes = part(ints, ints, A.SIZES)
    n, outputs = sizes[0], sizes[1]
    N, wide = 2 * n, 2 * n + len(inputs)
    derivatives_after(state, by_state, inputs, tables, work, h, ints, by_work)
    plain_step(state, inputs, params, tables, work, h)
    out = part(ints, by_work, A.OUT)
    for r in range(outputs):
        out[r] = work[r]
    tangent_of_rates(state, inputs, params, tables, work, state[sizes[2]])
    for r in range(outputs):
        for lane in range(LANES):
            total = 0.0
            for k in range(N):
                total += work[wide * r + k] * by_state[LANES * k + lane]
            by_work[LANES * r + lane] = total
    for r in range(outputs):
        work[r] = out[r]
