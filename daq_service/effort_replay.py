"""The efforts of a record computed again from its steps, by the effort loop's own kernel: bit-identical."""

from typing import NamedTuple

import numpy as np
from numba import from_dtype, types

from daq_service import effort_record as rec
from daq_service.effort import (
    CURSOR_ROW,
    SETTINGS,
    _remember,
    advance_effort,
    new_cursor,
    new_past,
    note_arrival,
    settings_of,
)
from daq_service.effort_port import MODEL, model_names, port_effort
from daq_service.effort_settings import EffortSettings
from sync.compile.array_copy import copy
from sync.compile.array_types import MATRIX, WORDS, WORDS_2D
from sync.compile.jit import inner, kernel
from sync.ring.block import EPOCH, SEQ, T

_LONG_AGO = -(2**60)  # ns

# what is known when an effort is computed
_SO_FAR = np.dtype([(name, np.int64) for name in (
    "known", "blind",  # what came before it; not what its step asked for
    "model",  # the row of the newest step's
    "rising", "dark",  # a rise whose beginning is not known; a step whose port moved under efforts that are not
    "since",  # from when on all efforts are known
)])  # fmt: skip
_SO_FAR_ROW = types.Array(from_dtype(_SO_FAR), 1, "C")


class Origin(NamedTuple):
    """What an effort came from."""

    new: bool  # the first of its step
    came: int  # when the step came or, if earlier, its motion
    output: float
    displacement: float
    moved: int  # when the displacement was that


@inner
def _is_first(row, effort, before):
    """Whether it is the first effort of a loop: the limit rises from here, and there was none before."""
    if row == 0:
        return effort[SEQ] == 0
    return effort[SEQ] == before[SEQ] + 1 and effort[EPOCH] != before[EPOCH]


@inner
def _begin_step(at, past, effort, came, moved):
    """The state of the loop at the first effort of a step, if the efforts before it are not known."""
    moment = effort[T]
    at.began = moment if effort[rec.AT_STATUS] & rec.RISING else _LONG_AGO
    past[0] = 0
    at.impulse, at.since, at.epoch = 0.0, moment, effort[rec.AT_STEP_EPOCH]
    note_arrival(at, moment, min(came, effort[rec.AT_SAMPLED]), moved)


@inner
def _take_displacement(settings, at, values, moved):
    at.energy, at.displacement = values[rec.AT_ENERGY], values[rec.AT_DISPLACEMENT]
    at.placed = 1 if settings.watched and np.isfinite(at.displacement) else 0
    # a model that is too old is not evaluated, and its motion not accounted for
    at.evaluated_ns = moved
    at.placed_ns = moved if settings.at_samples else 0


@inner
def _write(at, effort, again):
    copy(again, effort)
    values = again.view(np.float64)
    values[rec.AT_WANTED], values[rec.AT_GIVEN] = at.wanted, at.applied
    values[rec.AT_DISPLACEMENT], values[rec.AT_ENERGY] = at.displacement, at.energy
    again[rec.AT_STATUS] = at.status


@inner
def _origin_of(settings, so_far, row, new, effort, steps, models):
    came = effort[rec.AT_STEP_RECEIVED] if effort[rec.AT_STEP_RECEIVED] > 0 else effort[rec.AT_STEP_PUSHED]
    if not settings.port:
        return Origin(new, came, steps[row, 0], steps[row, 1], effort[rec.AT_SAMPLED])
    if new:
        so_far.model = row
    values, sampled, moved = effort.view(np.float64), effort[rec.AT_SAMPLED], effort[rec.AT_MOTION]
    output = port_effort(
        models[so_far.model], values[rec.AT_ANGLE], values[rec.AT_SPEED], values[rec.AT_ACCELERATION], sampled, moved,
        settings.step_ns, new,
    )  # fmt: skip
    return Origin(new, min(came, sampled), output, values[rec.AT_ANGLE], moved)


@inner
def _advance(settings, at, so_far, origin, effort, past, again):
    """An effort after known ones, computed as the loop did; whether that can be compared."""
    values, status, moment = effort.view(np.float64), effort[rec.AT_STATUS], effort[T]
    so_far.blind = 0
    if origin.new or settings.port:
        so_far.dark = 1 if settings.at_samples and at.placed_ns < so_far.since else 0
    if so_far.rising and status & (rec.RISING | rec.WATCHDOG) == 0:
        at.began, so_far.rising = _LONG_AGO, 0
    advance_effort(
        settings, at, moment, origin.new, origin.came, origin.output, origin.displacement, effort[rec.AT_STEP_EPOCH],
        origin.moved, past,
    )  # fmt: skip
    if at.began == moment:
        so_far.rising = 0
    if so_far.rising or so_far.dark:  # cannot be computed; take the recorded values, on which later efforts build
        at.applied, at.energy = values[rec.AT_GIVEN], values[rec.AT_ENERGY]
        if settings.at_samples:
            past[0] -= 1
            _remember(past, moment, at.applied)
        return 0
    _write(at, effort, again)
    return 1


@inner
def _take_recorded(settings, at, so_far, origin, first, effort, past):
    """The first effort of a step, if those before it are not known; `first`: of a loop, too."""
    values, moment = effort.view(np.float64), effort[T]
    evaluated = origin.new or (
        settings.port and at.fresh and origin.moved > at.evaluated_ns and np.isfinite(origin.output)
    )
    if origin.new:  # how far a rise has come is known of a loop's first effort alone
        so_far.rising = 1 if effort[rec.AT_STATUS] & rec.RISING != 0 and not first else 0
        so_far.since = _LONG_AGO if first else moment
        _begin_step(at, past, effort, origin.came, origin.moved)
    else:
        at.impulse += at.applied * ((moment - at.last) * 1e-9)
    if evaluated:
        _take_displacement(settings, at, values, origin.moved)
    at.applied, at.last = values[rec.AT_GIVEN], moment
    if settings.at_samples:
        _remember(past, moment, at.applied)
    at.fresh = 1 if moment < at.came + settings.stale_ns else 0
    so_far.known = so_far.blind = 1


@kernel(types.void(SETTINGS, CURSOR_ROW, _SO_FAR_ROW, WORDS, MATRIX, MATRIX, WORDS_2D, WORDS_2D, WORDS))
def _recompute(settings, cursor, so_far_row, past, steps, models, efforts, again, compared):
    """What the effort loop does, once more and in its order."""
    at, so_far = cursor[0], so_far_row[0]
    for row in range(efforts.shape[0]):
        effort, before = efforts[row], efforts[max(row - 1, 0)]
        seq, epoch = effort[rec.AT_STEP_SEQ], effort[rec.AT_STEP_EPOCH]
        new = row == 0 or seq != before[rec.AT_STEP_SEQ] or epoch != before[rec.AT_STEP_EPOCH]
        gap = row == 0 or effort[SEQ] != before[SEQ] + 1 or effort[EPOCH] != before[EPOCH]
        ended = effort[rec.AT_STATUS] & rec.ENDED or (new and np.isnan(steps[row, 0]))
        if gap or ended:
            so_far.known = 0
        if ended:
            continue
        origin = _origin_of(settings, so_far, row, new, effort, steps, models)
        if so_far.known and (new or not so_far.blind):
            compared[row] = _advance(settings, at, so_far, origin, effort, past, again[row])
        elif so_far.known or (new and effort[rec.AT_SAMPLED] > 0):
            _take_recorded(settings, at, so_far, origin, _is_first(row, effort, before), effort, past)


def recompute(
    effort: EffortSettings, steps: np.ndarray, efforts: np.ndarray, step_ns: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """(the efforts of a record computed again from its steps, which of them could be). `steps` and `efforts` have
    named fields, `efforts` those of effort_record.LAYOUT; `step_ns` matters if steps have a model of their
    port. Three kinds cannot be computed: the first effort after a gap in the record, the others of its step, and those
    whose step is not in the record. All others must be bit-identical."""
    words = np.ascontiguousarray(efforts).view(np.int64).reshape(len(efforts), rec.LAYOUT.words)
    outputs, models = np.full((len(efforts), 2), np.nan), np.full((len(efforts), MODEL), np.nan)
    for epoch in np.unique(efforts["step_epoch"]):
        here = np.flatnonzero(efforts["step_epoch"] == epoch)
        there = np.flatnonzero(steps["epoch"].astype(np.int64) == epoch)
        there = there[np.argsort(steps["seq"][there], kind="stable")]
        numbers, wanted = steps["seq"][there].astype(np.int64), efforts["step_seq"][here]
        at = np.minimum(np.searchsorted(numbers, wanted), max(len(numbers) - 1, 0))
        known = numbers[at] == wanted if len(numbers) else np.zeros(len(here), bool)
        found = there[at[known]] if len(numbers) else there
        outputs[here[known], 0] = steps[effort.channel][found]
        outputs[here[known], 1] = steps[effort.displacement][found] if effort.displacement else 0.0
        for column, name in enumerate(model_names(effort) if effort.port else ()):
            if name:
                models[here[known], column] = steps[name][found]
    again, compared = np.zeros_like(words), np.zeros(len(words), np.int64)
    # when the loop polls, and for what, changes nothing here
    settings = settings_of(effort, step_ns, same_clock=True, in_loop=True)
    so_far = np.zeros(1, _SO_FAR)
    so_far["since"] = _LONG_AGO
    _recompute(settings, new_cursor(), so_far, new_past(), outputs, models, words, again, compared)
    return rec.LAYOUT.view(again), compared.astype(bool)
