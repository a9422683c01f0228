"""Step halving: a step, and the same again in two halves. The difference is a true error estimate, and is taken away.

The rule is of second order, so the two halves are off by a quarter of what the whole step is off, and by a third of the
difference of both: q + (q - q_whole) / 3 is of the next order. That costs three steps. What is extrapolated leaves the
constraints by the square of the difference; the next step brings it back. Element states are those of the halves: they
may be counters. A step in which an attempt did not converge is not extrapolated.
"""

from sim_service.multibody.natural.assembly import copy, inputs_before, largest, largest_scaled, look
from sim_service.multibody.natural.augmented import STEP, step
from sim_service.multibody.natural.constraints import velocities
from sim_service.multibody.natural.tables import (
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
from sim_service.multibody.natural.views import inner, part, view
from sync.jit import kernel


@inner
def extrapolate(fine, whole):
    """fine += (fine - whole) / 3; `whole` becomes the correction."""
    for i in range(len(fine)):
        whole[i] = (fine[i] - whole[i]) / 3.0
        fine[i] += whole[i]


@kernel(STEP, error_model="numpy")
def halved_step(ints, reals, state, work, hook, h):
    """Advance `state` by h. STEP_ERROR is the error of the two halves before it is taken away."""
    out, size = part(ints, work, P.DIAGNOSTIC), len(state)
    saved = part(ints, work, P.SAVED)
    first, whole = view(saved, size, 2 * size), view(saved, 2 * size, 3 * size)
    copy(state, first)
    iterations = factored = capped = contraction = residual = 0.0
    attempts = 1.0
    for turn in range(3):
        if turn == 1:
            copy(state, whole)
            copy(first, state)
            inputs_before(ints, state, 0.5 * h)
        if turn == 2:
            copy(part(ints, first, P.INPUT), part(ints, state, P.INPUT))
        step(ints, reals, state, work, hook, h if turn == 0 else 0.5 * h)
        iterations += out[ITERATIONS]
        factored += out[FACTORISATIONS]
        contraction, attempts = max(contraction, out[CONTRACTION]), max(attempts, out[ATTEMPTS])
        if turn > 0:
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
        look(ints, reals, state, work, q, qd)
        out[PHI_ERROR] = largest(part(ints, work, P.PHI))
        velocities(ints, reals, work, part(ints, work, P.RESIDUAL))
        out[PHID_ERROR] = largest(part(ints, work, P.RESIDUAL))
    out[ITERATIONS], out[FACTORISATIONS], out[CONTRACTION] = iterations, factored, contraction
    out[CAPPED], out[ATTEMPTS], out[ENERGY_RESIDUAL] = capped, attempts, residual
