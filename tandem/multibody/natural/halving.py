"""Step halving: a step, and the same again in two halves. The difference is a true error estimate, and is taken away.

`halve` does so; `estimate` leaves the step as it is to the bit, for drives that may not change.

The rule is of second order, so the two halves are off by a quarter of what the whole step is off, and by a third of the
difference of both: q + (q - q_whole) / 3 is of the next order. That costs three steps. What is extrapolated leaves the
constraints by the square of the difference; the next step brings it back. Element states are those of the halves: they
may be counters. A step in which an attempt did not converge is not extrapolated.

A machine takes these into its own step; as a step of their own they are in halved_step.py.
"""

from sync.compile.array_copy import copy
from sync.compile.jit import inner
from tandem.multibody.natural.assembly import evaluate_kinematics, inputs_half_way, largest, largest_scaled
from tandem.multibody.natural.augmented import step
from tandem.multibody.natural.constraints import velocities
from tandem.multibody.natural.tables import (
    ATTEMPTS,
    CAPPED,
    CONTRACTION,
    ENERGY_RESIDUAL,
    FACTORISATIONS,
    ITERATIONS,
    PHI_ERROR,
    PHID_ERROR,
    STEP_ERROR,
    P,
)
from tandem.multibody.natural.views import part, view


@inner
def extrapolate(fine, whole):
    """fine += (fine - whole) / 3; `whole` becomes the correction."""
    for i in range(len(fine)):
        whole[i] = (fine[i] - whole[i]) / 3.0
        fine[i] += whole[i]


@inner
def set_middle(live, before, at):
    """The hook's `live` at the middle of a step that began with `before`, which takes that of the end."""
    for i in range(len(before)):
        end = live[at + i]
        live[at + i] = 0.5 * (before[i] + end)
        before[i] = end


@inner
def set_end(live, before, at):
    for i in range(len(before)):
        live[at + i] = before[i]


@inner
def whole_and_half(ints, reals, state, work, hook, h, begin, before, at):
    """The whole step, which is saved, and the first half; returns what their diagnostics add up to."""
    out, size = part(ints, work, P.DIAGNOSTIC), len(state)
    saved, live = part(ints, work, P.SAVED), part(ints, work, P.LIVE)
    first, whole = view(saved, size, 2 * size), view(saved, 2 * size, 3 * size)
    copy(first, state)
    step(ints, reals, state, work, hook, h)
    iterations, factored = out[ITERATIONS], out[FACTORISATIONS]
    contraction, attempts = out[CONTRACTION], out[ATTEMPTS]
    copy(whole, state)
    copy(state, first)
    inputs_half_way(ints, state, begin, h)
    set_middle(live, before, at)
    step(ints, reals, state, work, hook, 0.5 * h)
    iterations += out[ITERATIONS]
    factored += out[FACTORISATIONS]
    contraction, attempts = max(contraction, out[CONTRACTION]), max(attempts, out[ATTEMPTS])
    return iterations, factored, contraction, attempts, out[ENERGY_RESIDUAL], out[CAPPED]


@inner
def other_half(ints, reals, state, work, hook, h, before, at, sums):
    """The second half, and the extrapolation of both; returns whether it was made."""
    out, size = part(ints, work, P.DIAGNOSTIC), len(state)
    saved, live = part(ints, work, P.SAVED), part(ints, work, P.LIVE)
    first, whole = view(saved, size, 2 * size), view(saved, 2 * size, 3 * size)
    copy(part(ints, state, P.INPUT), part(ints, first, P.INPUT))
    set_end(live, before, at)
    step(ints, reals, state, work, hook, 0.5 * h)
    iterations, factored, contraction, attempts, residual, capped = sums
    iterations += out[ITERATIONS]
    factored += out[FACTORISATIONS]
    contraction, attempts = max(contraction, out[CONTRACTION]), max(attempts, out[ATTEMPTS])
    residual += out[ENERGY_RESIDUAL]
    capped = max(capped, out[CAPPED])
    q, qd = part(ints, state, P.Q), part(ints, state, P.QD)
    if attempts == 1.0:
        extrapolate(q, part(ints, whole, P.Q))
        out[STEP_ERROR] = largest_scaled(part(ints, whole, P.Q), part(ints, reals, P.SCALE))
        extrapolate(qd, part(ints, whole, P.QD))
        extrapolate(part(ints, state, P.QDD), part(ints, whole, P.QDD))
        extrapolate(part(ints, state, P.LAM), part(ints, whole, P.LAM))
        extrapolate(part(ints, state, P.ALPHA), part(ints, whole, P.ALPHA))
        evaluate_kinematics(ints, reals, state, work, q, qd)
        out[PHI_ERROR] = largest(part(ints, work, P.PHI))
        velocities(ints, reals, work, part(ints, work, P.RESIDUAL))
        out[PHID_ERROR] = largest(part(ints, work, P.RESIDUAL))
    out[ITERATIONS], out[FACTORISATIONS], out[CONTRACTION] = iterations, factored, contraction
    out[CAPPED], out[ATTEMPTS], out[ENERGY_RESIDUAL] = capped, attempts, residual
    return attempts == 1.0


@inner
def halve(ints, reals, state, work, hook, h, begin, before, at):
    """Advance `state` by h. STEP_ERROR is the error of the two halves before it is taken away.

    `begin` are the inputs at the beginning of the step, or nothing (`inputs_half_way`). The hook's `live` from
    `at` on was `before` then: half way it is between the two.
    """
    sums = whole_and_half(ints, reals, state, work, hook, h, begin, before, at)
    other_half(ints, reals, state, work, hook, h, before, at, sums)


@inner
def estimate(ints, reals, state, work, hook, h, begin, before, at):
    """The step of augmented.py, three times as dear; STEP_ERROR is its error by two halves that are thrown away."""
    out, size = part(ints, work, P.DIAGNOSTIC), len(state)
    saved, live = part(ints, work, P.SAVED), part(ints, work, P.LIVE)
    first, fine = view(saved, size, 2 * size), view(saved, 2 * size, 3 * size)
    copy(first, state)
    inputs_half_way(ints, state, begin, h)
    set_middle(live, before, at)
    step(ints, reals, state, work, hook, 0.5 * h)
    copy(part(ints, state, P.INPUT), part(ints, first, P.INPUT))
    set_end(live, before, at)
    step(ints, reals, state, work, hook, 0.5 * h)
    copy(fine, state)
    copy(state, first)
    step(ints, reals, state, work, hook, h)
    q, halves = part(ints, state, P.Q), part(ints, fine, P.Q)
    for i in range(len(q)):
        halves[i] = (q[i] - halves[i]) * 4.0 / 3.0
    out[STEP_ERROR] = largest_scaled(halves, part(ints, reals, P.SCALE))
