"""The efforts of a record computed again from its steps, by the effort loop's own kernel: bit-identical."""

import numpy as np
from numba import types

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


@kernel(types.void(SETTINGS, CURSOR_ROW, WORDS, MATRIX, MATRIX, WORDS_2D, WORDS_2D, WORDS))
def _recompute(settings, cursor, past, steps, models, efforts, again, compared):
    """What the effort loop does, once more and in its order."""
    at = cursor[0]
    known = blind = False  # what came before an effort; what its step asked for
    of = 0  # the row of the newest step's model
    rising = dark = False  # a rise whose beginning is not known; a step whose port moved under efforts that are not
    since = _LONG_AGO  # from when on all efforts are known
    for row in range(efforts.shape[0]):
        effort, before = efforts[row], efforts[max(row - 1, 0)]
        values, status = effort.view(np.float64), effort[rec.AT_STATUS]
        seq, epoch, moment = effort[rec.AT_STEP_SEQ], effort[rec.AT_STEP_EPOCH], effort[T]
        new = row == 0 or seq != before[rec.AT_STEP_SEQ] or epoch != before[rec.AT_STEP_EPOCH]
        if row == 0 or effort[SEQ] != before[SEQ] + 1 or effort[EPOCH] != before[EPOCH]:
            known = False
        if status & rec.ENDED or (new and np.isnan(steps[row, 0])):
            known = False
            continue
        came = effort[rec.AT_STEP_RECEIVED] if effort[rec.AT_STEP_RECEIVED] > 0 else effort[rec.AT_STEP_PUSHED]
        output, displacement, moved = steps[row, 0], steps[row, 1], effort[rec.AT_SAMPLED]
        if settings.port:
            of = row if new else of
            displacement, moved = values[rec.AT_ANGLE], effort[rec.AT_MOTION]
            output = port_effort(
                models[of], displacement, values[rec.AT_SPEED], values[rec.AT_ACCELERATION], effort[rec.AT_SAMPLED],
                moved, settings.step_ns, new,
            )  # fmt: skip
            came = min(came, effort[rec.AT_SAMPLED])
        if known and (new or not blind):
            blind = False
            if new or settings.port:
                dark = settings.at_samples and at.placed_ns < since
            if rising and status & (rec.RISING | rec.WATCHDOG) == 0:
                at.began, rising = _LONG_AGO, False
            advance_effort(settings, at, moment, new, came, output, displacement, epoch, moved, past)
            rising = rising and at.began != moment
            if rising or dark:  # cannot be computed; take the recorded values, on which later efforts build
                at.applied, at.energy = values[rec.AT_GIVEN], values[rec.AT_ENERGY]
                if settings.at_samples:
                    past[0] -= 1
                    _remember(past, moment, at.applied)
            else:
                _write(at, effort, again[row])
                compared[row] = 1
        elif known or (new and effort[rec.AT_SAMPLED] > 0):
            # the first effort of a step, if those before it are not known, is taken as recorded
            evaluated = new or (settings.port and at.fresh and moved > at.evaluated_ns and np.isfinite(output))
            if new:
                first = _is_first(row, effort, before)  # how far any other rise has come is not known
                rising = status & rec.RISING != 0 and not first
                since = _LONG_AGO if first else moment
                _begin_step(at, past, effort, came, moved)
            else:
                at.impulse += at.applied * ((moment - at.last) * 1e-9)
            if evaluated:
                _take_displacement(settings, at, values, moved)
            at.applied, at.last = values[rec.AT_GIVEN], moment
            if settings.at_samples:
                _remember(past, moment, at.applied)
            at.fresh = 1 if moment < at.came + settings.stale_ns else 0
            known = blind = True


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
    _recompute(settings, new_cursor(), new_past(), outputs, models, words, again, compared)
    return rec.LAYOUT.view(again), compared.astype(bool)
