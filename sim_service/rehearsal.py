"""A rehearsed step: the next step, made on copies shortly before its instant and thrown away.

A loop sleeps for most of its time, and meanwhile its code and data leave the caches. Shortly before a step's instant
the loop makes that step with the newest block there is; what it needs is then in the caches and branch predictors when
the real step comes. All that it writes belongs to a twin: state, work, inputs, the memory of estimators, buffers, the
guard against divergence. What it only reads is shared. So a rehearsal changes no bit and is not recorded; its time
and number are in the ledger and the counters.

It must not make the real step late. It begins so early that it would end in time even if it took half as long again as
the longest recent step, and is left out where that is not possible: after a step that ended late, after a late wake-up,
or where it would need more than half the period. It cannot be stopped in the middle: if it suddenly takes longer than
that, the real step is late by the difference, and that is counted.
"""

from typing import NamedTuple

import numpy as np

from sim_service import step_record as rec
from sim_service.contract.machine import Machine
from sim_service.inputs.table import ROWS, Rows
from sim_service.loop_data import TYPES, Buffers, Divergence, MachineData, Settings
from sim_service.step_kernel import advance_step
from sync.clock import now, sleep
from sync.compile.array_copy import copy
from sync.compile.array_types import group
from sync.compile.jit import kernel
from sync.config.config import Config
from sync.errors import ConfigError
from sync.process import realtime
from sync.ring.block import EPOCH, T
from sync.ring.ledger import record
from sync.ring.ring import newest

_SPARE_NS = 20_000  # between the end of a rehearsal, if it takes as long as expected, and the instant
_WAKE_NS = 50_000  # by which waking up for it may be late
_FORGET = 64  # steps in which the longest time decays by two thirds
_SPIN_NS = 100_000
_MOST_BYTES = 256 * 1024  # of state and work: two copies of these stay in a core's own cache


class Twin(NamedTuple):
    """What a rehearsal writes; its parts also name the arrays that it shares."""

    buffers: Buffers
    rows: Rows
    machine: MachineData
    divergence: Divergence


TWIN = group(Twin, TYPES[Buffers], ROWS, TYPES[MachineData], TYPES[Divergence])


def twin_of(work: np.ndarray, buffers: Buffers, rows: Rows, machine: MachineData, divergence: Divergence) -> Twin:
    """`work`: the twin's own."""
    return Twin(
        buffers._replace(block=buffers.block.copy(), passing=buffers.passing.copy()),
        rows._replace(memory=rows.memory.copy(), values=rows.values.copy(), clipped=rows.clipped.copy()),
        machine._replace(state=machine.state.copy(), inputs=machine.inputs.copy(), work=work),
        Divergence(divergence.limits, *(array.copy() for array in divergence[1:])),
    )


def refuse(config: Config, machine: Machine, file: str) -> None:
    """Raises ConfigError if steps that cannot be made twice are to be rehearsed."""
    if config.sim.rehearse == "on" and machine.stepping.one_at_a_time:
        raise ConfigError(
            f"{file}: sim.rehearse = 'on': {machine.name} has memory of its own, so its steps cannot be made on copies;"
            " must be 'auto' or 'off'"
        )


def rehearsing(settings: Settings, config: Config, machine: Machine) -> Settings:
    """The settings of a live loop on this host: "auto" rehearses, and any spins, only on a core of the loop's own."""
    acquisition, loop = realtime.cores(config.realtime)
    alone = loop is not None and loop != acquisition and len(realtime.own_cores()) > 1
    small = 8 * (len(machine.states) + machine.work_size) <= _MOST_BYTES
    wanted = {"on": True, "off": False, "auto": alone and small}[config.sim.rehearse]
    rehearses = wanted and not machine.stepping.one_at_a_time
    spins = rehearses and alone
    return settings._replace(rehearses=int(rehearses), spin_ns=min(_SPIN_NS, config.step_ns // 20) if spins else 0)


@kernel(inline="always")
def note_cost(at, took_ns):
    """Track the longest of the recent steps."""
    at.longest = max(took_ns, at.longest - at.longest // _FORGET)


@kernel(inline="always")
def _can_begin(clock, rings, settings, at, block):
    """Sleep until it is time; the position of the newest block, or -1 if this rehearsal is left out."""
    latest = at.planned - (at.longest + at.longest // 2 + _SPARE_NS)
    begin = latest - _WAKE_NS
    if at.planned - begin > settings.h_ns // 2 or now(clock) > begin:
        return np.int64(-1)
    sleep(clock, begin)
    begun = now(clock)
    if begun > latest:
        return np.int64(-1)
    position = newest(rings.blocks, block)
    if position < at.shown or block[EPOCH] != at.epoch or begun - block[T] > settings.rhythm_ns:
        return np.int64(-1)  # the next step does not continue the last one
    return position


@kernel(inline="always")
def rehearse(clock, rings, settings, books, rows, step_machine, machine, divergence, twin, at):
    """Rehearse the step that is planned, if there is time for it."""
    counters, block = books.counters, twin.buffers.block
    position = _can_begin(clock, rings, settings, at, block)
    if position < 0:
        counters[rec.NOT_REHEARSED] += 1
        return
    begun = now(clock)
    copy(twin.machine.state, machine.state)
    copy(twin.machine.work, machine.work)
    copy(twin.divergence.result, divergence.result)
    for row in range(rows.memory.shape[0]):
        for i in range(rows.memory.shape[1]):
            twin.rows.memory[row, i] = rows.memory[row, i]
    advance_step(
        rings.blocks, at.shown, position, False, False, begun - block[T],
        twin.buffers, settings, twin.rows, step_machine, twin.machine, twin.divergence,
    )  # fmt: skip
    ended = now(clock)
    note_cost(at, ended - begun)
    record(books.ledger[rec.REHEARSAL], ended - begun)
    counters[rec.REHEARSED] += 1
    if ended > at.planned:
        counters[rec.REHEARSED_LATE] += 1
