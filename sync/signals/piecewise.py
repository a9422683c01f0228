"""Piecewise models: submodels, indicator functions between them, events located inside a step.

The EPISODE scheme (R. B. Gillespie, Haptic display of systems with changing kinematic constraints, 1996, 3.4.2): in
submodel a the state flows as a says while every indicator g_ab is positive; where one comes to zero the model goes on
in submodel b, from the state that the transition function makes. The order of submodels is decided by the state alone.

Unlike there, an event is not overshot by up to a step: it is located between the two sides of its indicator's change of
sign, to the last bits of time, and the rest of the step belongs to the new submodel. No hysteresis is needed for that:
an event is taken on the side where its condition holds, so that the way back is open and not yet there. An indicator
that is not positive at the beginning of a piece and at its end holds at once. At most MOST_EVENTS are taken in a step;
then the submodel stays for the rest of it, which is reported: a ball that comes to rest would bounce for ever.

A model gives three compiled functions,

    flow(mode, x, data, h, out)        the state after h from x in this submodel, into `out`
    indicate(mode, x, data, gaps)      `gaps[b]` for every submodel b that this one may change to; the others are ones
    switch(mode, to, x, data)          the transition function, on `x` in place

and `sequence(flow, indicate, switch)` makes `advance` of them, for a kernel of the model to call. `data` is whatever
they need.
"""

from typing import Any

from sync.compile.array_copy import copy
from sync.compile.jit import kernel

MOST_EVENTS = 16
_MOST_HALVINGS = 80

SCRATCH = 3  # times the length of the state, which has as many entries as there are submodels at least


# long: a kernel that is made for its submodels, which it closes over
def sequence(flow: Any, indicate: Any, switch: Any) -> Any:
    """`advance` of the model that these three functions make.

    Its parts are not cached by themselves: they become part of the kernel that calls it, which is.
    """

    @kernel(cache=False)
    def gaps_at(mode, x, data, gaps):
        for b in range(gaps.size):
            gaps[b] = 1.0
        indicate(mode, x, data, gaps)

    @kernel(cache=False)
    def locate(mode, to, x, data, scratch, low_gap, high, high_gap):
        """When, after the start of a piece, the indicator of `to` has changed its sign: the first instant found at
        which it is not positive. Secants, and a halving at every third check."""
        low, side = 0.0, 0
        n = x.size
        trial, gaps = scratch[:n], scratch[2 * n : 3 * n]
        for k in range(_MOST_HALVINGS):
            middle = 0.5 * (low + high)
            if k % 3 != 2 and low_gap - high_gap > 0.0:
                secant = low + (high - low) * (low_gap / (low_gap - high_gap))
                if low < secant < high:
                    middle = secant
            if middle <= low or middle >= high:
                break
            flow(mode, x, data, middle, trial)
            gaps_at(mode, trial, data, gaps)
            gap = gaps[to]
            if gap > 0.0:
                low, low_gap = middle, gap
                if side == 1:
                    high_gap *= 0.5  # Illinois: the other end has stayed for two checks
                side = 1
            else:
                high, high_gap = middle, gap
                if side == -1:
                    low_gap *= 0.5
                side = -1
                if gap == 0.0:
                    break
        return high

    @kernel(cache=False)
    def advance(mode, x, data, scratch, h, checks):
        """The state `x` a step on, in place. The indicators are checked `checks` times a step, and at every event.

        Returns the submodel, the number of events, and 1 where there were too many of them.
        """
        n = x.size
        trial, before, after = scratch[:n], scratch[n : 2 * n], scratch[2 * n : 3 * n]
        left, events = h, 0
        while left > 0.0:
            piece = min(left, h / checks)
            gaps_at(mode, x, data, before)
            flow(mode, x, data, piece, trial)
            gaps_at(mode, trial, data, after)
            first, which = piece, -1
            for b in range(after.size):
                if after[b] <= 0.0:
                    at = 0.0
                    if before[b] > 0.0:
                        at = locate(mode, b, x, data, scratch, before[b], piece, after[b])
                        flow(mode, x, data, piece, trial)  # `locate` has used the scratch
                        gaps_at(mode, trial, data, after)
                    if which < 0 or at < first:
                        first, which = at, b
            if which < 0:
                copy(x, trial)
                left = left - piece if left > piece else 0.0
                continue
            if events == MOST_EVENTS:
                flow(mode, x, data, left, trial)
                copy(x, trial)
                return mode, events, 1
            flow(mode, x, data, first, trial)
            copy(x, trial)
            switch(mode, which, x, data)
            mode, events = which, events + 1
            left -= first
        return mode, events, 0

    return advance
