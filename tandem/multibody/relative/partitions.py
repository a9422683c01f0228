"""Steps of a run in compiled code, changes of the independent coordinates included.

A system is made for one choice of independent coordinates. Where they come near a position in which they no longer
determine the others, another system of the same mechanism takes over: the state, which has all coordinates, is laid out
alike in all of them and stays. Only velocities that were dependent are missing in it, and are found from the loops.

Two things go wrong near such a position, and each has its own measure:

    change   of the determinant of a group of loops within a step, as a share of it: the motion of the independent
             coordinates has a singularity 1 / change steps away, and a method of order p makes an error of about
             change^(p + 1) by it. It depends on which coordinates are dependent. Others whose change is much less take
             over where it is large, or where the determinant is small against that where they were chosen: the latter
             whatever the step, so that shorter steps make the error smaller and not only move it nearer.
    pivot    of the elimination, as a share of what it was where the coordinates were chosen: rounding grows with
             1 / pivot, also where only the order of elimination has become a bad one.

The tables of all systems that a run may use lie one behind the other (`Partitions`), and `run_steps` knows which one it
is in by its number. It comes back before its steps are made only if something has to be decided outside: numbers that
are not finite, loops that are open, or no known system that serves well here (`UNKNOWN`, `NEAR_SINGULAR`): code for a
new choice is generated in Python.
"""

from collections.abc import Sequence
from enum import IntEnum, auto
from math import isfinite
from typing import Any

import numpy as np
from numba import float64, int64, types

from sync.compile.array_copy import copy
from sync.compile.array_types import CONSTANTS, INDICES, MATRIX, VECTOR, WORDS
from sync.compile.jit import inner, kernel
from tandem.multibody.code.calls import address_of, as_word, call, function_at
from tandem.multibody.natural import tables as core
from tandem.multibody.natural.assembly import largest
from tandem.multibody.natural.views import part
from tandem.multibody.relative import ode
from tandem.multibody.relative.system import (
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

OPEN_GAP = 1e-9  # m or rad
GOOD_PIVOT = 0.3  # of what it is where the coordinates were chosen: better ones are not looked for
# a point on a rod, 10 s in steps of 5 ms: energy off by 1e-3 of what moves with 0.3, 7e-6 with 0.1, 1e-7 with 0.02
SMALL_CHANGE = 0.02  # other coordinates are not looked for below,
LARGE_SHARE = 0.5  # if the determinant is above this share of that where they were chosen
BETTER = 0.5  # of the change of the present coordinates: others take over below
AGAIN = 1.5  # times the change at which no new choice was found outside: one is looked for again
AT_SINGULAR = 1.0  # change from which on no step is believed
UNKNOWN, NEAR_SINGULAR = SINGULAR + 1, SINGULAR + 2  # how a run ended: by its pivots or loops, by the change

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
        sets = [set(s.generated.dependent) for s in systems]
        # the first system with the same dependent coordinates: what is eliminated in another order changes alike
        self.alike = np.array([sets.index(one) for one in sets], np.int32)
        self.groups = np.cumsum([0, *(len(group) for group in systems[0].generated.tree.groups)]).astype(np.int32)
        self.work = np.zeros(max(s.work_size for s in systems))
        self.before = np.zeros(max(1, len(systems[0].generated.dependent)))  # pivots, in front of the last step
        self.scratch = np.zeros(max(len(ode.make_scratch(s.layout)) for s in systems))


@inner
def find_pivots(ints, reals, state, work):
    """Pivots of a system at a state, into its work."""
    call(
        part(ints, reals, P.ADDRESS)[CLOSE],
        (
            part(ints, state, P.X), part(ints, state, P.REF), part(ints, state, P.INPUT), part(ints, reals, P.D),
            part(ints, work, P.NEW), part(ints, work, P.H), part(ints, work, P.PIVOTS), part(ints, work, P.GENERATED),
        ),
    )  # fmt: skip


@inner
def least_pivot(ints, reals, work):
    """Of those that were found, of what it is where the coordinates were chosen."""
    pivots, usual = part(ints, work, P.PIVOTS), part(ints, reals, P.PIVOT)
    least = 1.0
    for i in range(len(pivots)):
        share = abs(pivots[i] / usual[i])
        if not share >= least:  # nor if it is no number
            least = share
    return least


@inner
def least_share(groups, ints, reals, work):
    """Of the determinant of a group of loops, of what it is where the coordinates were chosen."""
    pivots, usual = part(ints, work, P.PIVOTS), part(ints, reals, P.PIVOT)
    least = 1.0
    for g in range(len(groups) - 1):
        share = 1.0
        for i in range(groups[g], groups[g + 1]):
            share *= abs(pivots[i] / usual[i])
        if not share >= least:  # nor if it is no number
            least = share
    return least


@inner
def largest_change(groups, before, pivots):
    """Of the determinant of a group of loops; 1e300 where it has passed through 0."""
    most = 0.0
    for g in range(len(groups) - 1):
        ratio = 1.0
        for i in range(groups[g], groups[g + 1]):
            ratio *= pivots[i] / before[i]
        change = max(ratio, 1.0 / ratio) - 1.0 if ratio > 0.0 else 1e300
        if not change <= most:  # nor if it is no number
            most = change if isfinite(change) else 1e300
    return most


@inner
def change_of(groups, ints, reals, old, state, work, before):
    """Of a system from the state in front of the last step to this one, whose pivots are in work afterwards."""
    find_pivots(ints, reals, old, work)
    copy(before, part(ints, work, P.PIVOTS))
    find_pivots(ints, reals, state, work)
    return largest_change(groups, before, part(ints, work, P.PIVOTS))


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
def best_system(spans, all_ints, all_reals, groups, alike, current, old, state, work, before, most):
    """Of the others with good pivots here that whose determinants change least, if less than `most`; or, if `most` is
    0, that with the largest pivots. -1 if there is none."""
    best, largest_pivot = -1, GOOD_PIVOT
    for k in range(len(spans) // (2 * TABLES)):
        if k != current and (most == 0.0 or alike[k] != alike[current]):
            ints, reals = part(spans, all_ints, TABLES * k + Span.INTS), part(spans, all_reals, TABLES * k + Span.REALS)
            if most > 0.0:
                change = change_of(groups, ints, reals, old, state, work, before)
                if change < most and least_pivot(ints, reals, work) > GOOD_PIVOT:
                    best, most = k, change
            else:
                find_pivots(ints, reals, state, work)
                least = least_pivot(ints, reals, work)
                if least > largest_pivot:
                    best, largest_pivot = k, least
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


# long: several systems as flat arrays; a kernel takes no object
@kernel(
    types.Tuple((int64, int64, int64, int64, int64, float64))(
        CONSTANTS, INDICES, INDICES, CONSTANTS, INDICES, CONSTANTS, INDICES, INDICES, int64, VECTOR, VECTOR, VECTOR,
        VECTOR, VECTOR, float64, int64, int64, int64, int64, VECTOR, MATRIX, WORDS, MATRIX,
    ),
    error_model="numpy",
)  # fmt: skip
def run_steps(
    words, spans, all_ints, all_reals, layouts, all_settings, groups, alike, current, old, state, work, scratch, before,
    h, steps, every, begun, changes, tried, states, systems, diagnostics,
):  # fmt: skip
    """Steps of the system `current`, and of others where these serve better, at most `changes` times.

    `old` is the state in front of the last step, or the state itself; `tried` has for every system the change at which
    no other choice was found outside.

    How many steps were made, how the last one ended, how many were capped, the system at the end, how often it was
    changed, and the last change of its determinants. States are kept where the number of the step in the whole run
    (from `begun`) is a multiple of `every`, and of which system they are.
    """
    capped, changed, completed = 0, 0, 0
    while True:
        ints, reals = (
            part(spans, all_ints, TABLES * current + Span.INTS),
            part(spans, all_reals, TABLES * current + Span.REALS),
        )
        layout = part(spans, layouts, TABLES * current + Span.LAYOUT)
        settings = part(spans, all_settings, TABLES * current + Span.SETTINGS)
        change, pivots = change_of(groups, ints, reals, old, state, work, before), part(ints, work, P.PIVOTS)
        copy(before, pivots)
        status, best = GOOD, -1
        while best < 0:
            if change > SMALL_CHANGE or (change > 0.0 and least_share(groups, ints, reals, work) < LARGE_SHARE):
                best = best_system(
                    spans, all_ints, all_reals, groups, alike, current, old, state, work, before, BETTER * change
                )
                if best >= 0:
                    break
                if change >= AT_SINGULAR or change > AGAIN * tried[current]:
                    return completed, NEAR_SINGULAR, capped, current, changed, change
                find_pivots(ints, reals, state, work)
                copy(before, pivots)
            if completed == steps:
                return completed, GOOD, capped, current, changed, change
            copy(old, state)
            status = advance(
                method_at(words[METHOD]), rates_at(words[RATES]), both_at(words[BOTH]), layout, settings, ints, reals,
                state, work, scratch, h,
            )  # fmt: skip
            if status == NOT_FINITE:
                return completed, NOT_FINITE, capped, current, changed, change
            if status in (CAPPED, OPEN):
                capped += 1
            change = largest_change(groups, before, pivots)
            copy(before, pivots)
            note(ints, work, scratch, status, diagnostics, completed)
            completed += 1
            if (begun + completed) % every == 0:
                row = (begun + completed) // every - begun // every - 1
                systems[row] = current
                for i in range(len(state)):
                    states[row, i] = state[i]
            if status in (OPEN, SINGULAR) and completed < steps:
                best = best_system(spans, all_ints, all_reals, groups, alike, current, old, state, work, before, 0.0)
                if best < 0:
                    return completed, UNKNOWN, capped, current, changed, change
        if changed == changes:
            return completed, OPEN, capped, current, changed, change
        complete_velocities(words[VELOCITIES + current], ints, reals, state, work)
        current, changed = best, changed + 1
        ints, reals = (
            part(spans, all_ints, TABLES * current + Span.INTS),
            part(spans, all_reals, TABLES * current + Span.REALS),
        )
        if not take_over(ints, reals, state, work, scratch):
            return completed, OPEN, capped, current, changed, change
