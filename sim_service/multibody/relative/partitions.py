"""Steps of a run in compiled code, changes of the independent coordinates included.

A system is made for one choice of independent coordinates. Where they come near a position in which they no longer
determine the others, another system of the same mechanism takes over: the state, which has all coordinates, is laid out
alike in all of them and stays. Only velocities that were dependent are missing in it, and are found from the loops.

The tables of all systems that a run may use lie one behind the other (`Partitions`), and `run_steps` knows which one it
is in by its number. It comes back before its steps are made only if something has to be decided outside: numbers that
are not finite, loops that are open, or no known system whose pivots are good here (`UNKNOWN`): code for a new choice is
generated in Python.
"""

from collections.abc import Sequence
from enum import IntEnum, auto
from typing import Any

import numpy as np
from numba import float64, int64, types

from sim_service.multibody.natural import tables as core
from sim_service.multibody.natural.assembly import largest
from sim_service.multibody.natural.views import part
from sim_service.multibody.relative import ode
from sim_service.multibody.relative.calls import address_of, as_word, call, function_at
from sim_service.multibody.relative.system import (
    CAPPED,
    CLOSE,
    GOOD,
    NOT_FINITE,
    OPEN,
    SINGULAR,
    P,
    System,
    advance,
    rates,
    rates_and_jacobian,
    settle,
)
from sync.array_types import CONSTANTS, INDICES, MATRIX, VECTOR, WORDS
from sync.jit import inner, kernel

OPEN_GAP = 1e-9  # m or rad
GOOD_PIVOT = 0.3  # of what it is where the coordinates were chosen: better ones are not looked for
UNKNOWN = SINGULAR + 1  # how a run ended: no known system serves here

METHOD, RATES, BOTH, VELOCITIES = range(4)  # addresses: of kernels, then of every system's velocities
method_at, rates_at, both_at = (function_at(kind) for kind in (ode.STEP, ode.RATES, ode.RATES_AND_JACOBIAN))


class Span(IntEnum):
    """A system's tables in those of all: where each begins and ends is read as that of a part of an array."""

    INTS = 0
    REALS = auto()
    LAYOUT = auto()
    SETTINGS = auto()


TABLES = len(Span)


class Partitions:
    """The tables of some systems of one mechanism, and work that is large enough for any of them."""

    def __init__(self, systems: Sequence[System], method: Any) -> None:
        tables = [[getattr(s, name) for s in systems] for name in ("ints", "reals", "layout", "settings")]
        ends = [np.cumsum([0, *(len(one) for one in kind)]) for kind in tables]
        spans = [[(end[k], end[k + 1]) for end in ends] for k in range(len(systems))]
        self.spans = np.array(spans, np.int32).ravel()
        self.ints, self.reals, self.layouts, self.settings = (np.concatenate(kind) for kind in tables)
        kernels = ((method, ode.STEP), (rates, ode.RATES), (rates_and_jacobian, ode.RATES_AND_JACOBIAN))
        addresses = [address_of(*one) for one in kernels] + [s.code.address["velocities"] for s in systems]
        self.words = np.array([as_word(address) for address in addresses])
        self.work = np.zeros(max(s.work_size for s in systems))
        self.scratch = np.zeros(max(len(ode.make_scratch(s.layout)) for s in systems))


@inner
def least_pivot(ints, reals, state, work):
    """Of a system at this state, of what it is where its coordinates were chosen."""
    pivots, usual = part(ints, work, P.PIVOTS), part(ints, reals, P.PIVOT)
    call(
        part(ints, reals, P.ADDRESS)[CLOSE],
        (
            part(ints, state, P.X), part(ints, state, P.REF), part(ints, state, P.INPUT), part(ints, reals, P.D),
            part(ints, work, P.NEW), part(ints, work, P.H), pivots, part(ints, work, P.GENERATED),
        ),
    )  # fmt: skip
    least = 1.0
    for i in range(len(pivots)):
        share = abs(pivots[i] / usual[i])
        if not share >= least:  # nor if it is no number
            least = share
    return least


@inner
def take_over(ints, reals, state, work, scratch):
    """This system begins at the state; whether its loops hold."""
    for i in range(len(scratch)):
        scratch[i] = 0.0  # as J must begin
    settle(ints, reals, state, work)
    return largest(part(ints, work, P.H)) < OPEN_GAP  # false if one is no number


@inner
def complete_velocities(word, ints, reals, state, work):
    """Those that were dependent, from the loops."""
    w, found = part(ints, state, P.W), part(ints, work, P.AT_W)
    call(
        word,
        (
            part(ints, state, P.X), part(ints, state, P.REF), w, part(ints, state, P.INPUT), part(ints, reals, P.D),
            found, part(ints, work, P.GENERATED),
        ),
    )  # fmt: skip
    for i in range(len(w)):
        w[i] = found[i]


@inner
def best_system(spans, all_ints, all_reals, current, state, work):
    """Of the others that with the largest pivots here, if they are good ones; -1 if there is none."""
    best, most = -1, GOOD_PIVOT
    for k in range(len(spans) // (2 * TABLES)):
        if k != current:
            ints, reals = part(spans, all_ints, TABLES * k + Span.INTS), part(spans, all_reals, TABLES * k + Span.REALS)
            least = least_pivot(ints, reals, state, work)
            if least > most:
                best, most = k, least
    return best


@inner
def note(ints, work, scratch, status, diagnostics, s):
    """What step s reports of itself."""
    diagnostics[s, core.ITERATIONS] = scratch[ode.EVALUATIONS]
    diagnostics[s, core.PHI_ERROR] = largest(part(ints, work, P.H))
    diagnostics[s, core.CAPPED] = 1.0 if status in (CAPPED, OPEN) else 0.0
    diagnostics[s, core.FACTORISATIONS] = scratch[ode.FACTORISATIONS]
    diagnostics[s, core.ATTEMPTS] = 1.0
    diagnostics[s, core.STEP_ERROR] = scratch[ode.ERROR]


@kernel(
    types.UniTuple(int64, 5)(
        CONSTANTS, INDICES, INDICES, CONSTANTS, INDICES, CONSTANTS, int64, VECTOR, VECTOR, VECTOR, float64, int64,
        int64, int64, int64, MATRIX, WORDS, MATRIX,
    ),
    error_model="numpy",
)  # fmt: skip
def run_steps(
    words, spans, all_ints, all_reals, layouts, all_settings, current, state, work, scratch, h, steps, every, begun,
    changes, states, systems, diagnostics,
):  # fmt: skip
    """Steps of the system `current`, and of others where these serve better, at most `changes` times.

    How many steps were made, how the last one ended, how many were capped, the system at the end, and how often it was
    changed. States are kept where the number of the step in the whole run (from `begun`) is a multiple of `every`, and
    of which system they are.
    """
    capped, changed, made = 0, 0, 0
    while True:
        ints, reals = (
            part(spans, all_ints, TABLES * current + Span.INTS),
            part(spans, all_reals, TABLES * current + Span.REALS),
        )
        layout = part(spans, layouts, TABLES * current + Span.LAYOUT)
        settings = part(spans, all_settings, TABLES * current + Span.SETTINGS)
        status = GOOD
        while made < steps and status not in (OPEN, SINGULAR):
            status = advance(
                method_at(words[METHOD]), rates_at(words[RATES]), both_at(words[BOTH]), layout, settings, ints, reals,
                state, work, scratch, h,
            )  # fmt: skip
            if status == NOT_FINITE:
                return made, NOT_FINITE, capped, current, changed
            if status in (CAPPED, OPEN):
                capped += 1
            note(ints, work, scratch, status, diagnostics, made)
            made += 1
            if (begun + made) % every == 0:
                kept = (begun + made) // every - begun // every - 1
                systems[kept] = current
                for i in range(len(state)):
                    states[kept, i] = state[i]
        if made == steps:
            return made, GOOD, capped, current, changed
        if changed == changes:
            return made, OPEN, capped, current, changed
        complete_velocities(words[VELOCITIES + current], ints, reals, state, work)
        best = best_system(spans, all_ints, all_reals, current, state, work)
        if best < 0:
            return made, UNKNOWN, capped, current, changed
        current, changed = best, changed + 1
        ints, reals = (
            part(spans, all_ints, TABLES * current + Span.INTS),
            part(spans, all_reals, TABLES * current + Span.REALS),
        )
        if not take_over(ints, reals, state, work, scratch):
            return made, OPEN, capped, current, changed
