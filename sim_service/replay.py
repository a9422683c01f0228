"""The same steps again, from a record instead of a machine.

A replay is a list of steps, each with the block it uses and what the loop knew about it (first step of a simulator,
restart after a gap, how old), and the blocks in the order in which they stood in the ring. It runs the very step of
the loop over a private ring that the recorded blocks are pushed into. Given what a run recorded, its outputs are those
of the run to the last bit, on any machine (docs/decisions/0022); given other blocks, a delay or other
parameters, they show what those change.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numba import int64, types

from sim_service import step_record
from sim_service.command_record import LAYOUT, mode
from sim_service.commands import obey
from sim_service.contract.machine import FIT, STEP
from sim_service.inputs import forget
from sim_service.inputs.table import ROWS
from sim_service.loop_data import TYPES, Buffers, Divergence, MachineData, Settings
from sim_service.reshape import reshape_rows, without_addresses
from sim_service.simulation import Simulation
from sim_service.step_kernel import CLIPPED, DIVERGED, OVER, STAGES, advance_step
from sync.clock import now_ns
from sync.compile.array_copy import copy
from sync.compile.array_types import MATRIX, VECTOR, WORDS, WORDS_2D, group
from sync.compile.jit import kernel
from sync.ring.ring import private_ring, push

INITIAL, RESTART, LAPPED = 1, 2, 4
_PUSHED, _SHOWN, _OVER = range(3)
REPORTED = (STAGES, CLIPPED, DIVERGED)  # what a replayed step reports, as in sim_service/step_kernel.py
_BATCH = 2000  # steps between two calls of `each`
_LONGEST_NS = 200_000_000  # of one call of compiled code, which no signal interrupts


def _no_commands() -> np.ndarray:
    return np.zeros((0, LAYOUT.words), np.int64)


@dataclass
class Plan:
    """What to do: one entry for each step."""

    blocks: np.ndarray  # rows of words, in the order of the ring
    which: np.ndarray  # the block of each step
    floor: np.ndarray  # of each step: the first block of the ring that its block was in; it sees no further back
    flags: np.ndarray  # of INITIAL, RESTART, LAPPED
    ages: np.ndarray  # of the block when its step used it, ns
    first: int = 0  # which recorded step it begins with
    stopped: str | None = None  # why it ends before the last recorded step
    commands: np.ndarray = field(default_factory=_no_commands)  # rows of words
    obeyed: np.ndarray | None = None  # of each step: (first, behind the last) of the commands it obeyed; None: of none

    def __len__(self) -> int:
        return len(self.which)


class Tape(NamedTuple):
    """A plan, as compiled code reads it."""

    blocks: np.ndarray
    which: np.ndarray
    floor: np.ndarray
    flags: np.ndarray
    ages: np.ndarray
    commands: np.ndarray
    obeyed: np.ndarray
    first_state: np.ndarray
    first_params: np.ndarray
    first_floats: np.ndarray  # of the tables, where they may change


class Results(NamedTuple):
    """What the steps gave, a row a step."""

    values: np.ndarray  # inputs and outputs
    reported: np.ndarray
    cursor: np.ndarray  # how far the replay has come


_TAPE = group(Tape, WORDS_2D, *4 * [WORDS], WORDS_2D, WORDS_2D, *3 * [VECTOR])
_RESULTS = group(Results, MATRIX, WORDS_2D, WORDS)


@kernel(
    int64(
        WORDS, _TAPE, int64, int64, TYPES[Buffers], TYPES[Settings], ROWS, types.FunctionType(STEP),
        types.FunctionType(FIT), TYPES[MachineData], TYPES[Divergence], _RESULTS,
    )
)  # fmt: skip
def _steps(ring, tape, first, last, buffers, settings, rows, step_machine, fit_machine, machine, divergence, out):
    """Steps `first` … `last` - 1; returns how far it came: a step that ended the run is the last."""
    cursor, inputs = out.cursor, machine.inputs
    for k in range(first, last):
        position = tape.which[k]
        while cursor[_PUSHED] <= position:
            push(ring, tape.blocks[cursor[_PUSHED]])
            cursor[_PUSHED] += 1
        if tape.flags[k] & INITIAL:
            copy(machine.first_state, tape.first_state)
            copy(machine.state, tape.first_state)
            copy(machine.work, machine.first_work)
            copy(machine.params, tape.first_params)
            copy(machine.floats, tape.first_floats)
            forget(rows)
            divergence.result[:] = 0
            cursor[_SHOWN] = -1
        copy(buffers.block, tape.blocks[position])
        for n in range(tape.obeyed[k, 0], tape.obeyed[k, 1]):
            obey(tape.commands[n], fit_machine, machine)
        advance_step(
            ring, max(cursor[_SHOWN], tape.floor[k] - 1), position, tape.flags[k] & RESTART != 0,
            tape.flags[k] & LAPPED != 0, tape.ages[k], buffers, settings, rows, step_machine, machine, divergence,
        )  # fmt: skip
        cursor[_SHOWN] = position
        for i in range(inputs.size):
            out.values[k, i] = inputs[i]
        for i in range(settings.outputs):
            out.values[k, inputs.size + i] = machine.work[i]
        for i in range(len(REPORTED)):
            out.reported[k, i] = divergence.result[REPORTED[i]]
        if divergence.result[DIVERGED] == OVER:
            cursor[_OVER] = 1
            return k + 1
    return last


def replay(
    simulation: Simulation,
    plan: Plan,
    batch: int = _BATCH,
    each: Callable[[int, np.ndarray], None] = lambda *_: None,
    reported: np.ndarray | None = None,
) -> np.ndarray:
    """The inputs and outputs of every step, a row a step; fewer rows than planned if a model that diverges ends it.

    `each` is called after every `batch` steps with how many are done and the results so far. `reported`, a row a step,
    is filled with what each step reports (REPORTED).
    """
    reported = np.zeros((len(plan), len(REPORTED)), np.int64) if reported is None else reported
    ring = private_ring(simulation.input_layout, 1 << (2 * simulation.settings.most_blocks).bit_length())
    results = np.zeros((len(plan), len(simulation.model.inputs) + len(simulation.model.outputs)))
    obeyed = np.zeros((len(plan), 2), np.int64) if plan.obeyed is None else np.ascontiguousarray(plan.obeyed)
    commands, shape_rows = reshape_rows(
        simulation.model, simulation.params, plan.commands, int((plan.flags & INITIAL != 0).sum()) > 1
    )
    machine = simulation.machine._replace(
        first_state=simulation.state.copy(), first_work=simulation.work.copy(), mode=mode(), shape_rows=shape_rows
    )
    tape = Tape(
        plan.blocks, plan.which, plan.floor, plan.flags, plan.ages, commands, obeyed,
        simulation.state.copy(), simulation.params.copy(),
        without_addresses(simulation.model, machine.floats).copy(),
    )  # fmt: skip
    out = Results(results, reported, np.array([0, -1, 0], np.int64))
    done, at_once = 0, 1
    while done < len(plan):
        upto = min(done + at_once, (done // batch + 1) * batch, len(plan))
        begun, before = now_ns(), done
        done = int(
            _steps(
                ring, tape, done, upto, simulation.buffers, simulation.settings, simulation.rows,
                simulation.model.step, simulation.fit, machine, simulation.divergence, out,
            )
        )  # fmt: skip
        if done % batch == 0 or done == len(plan) or out.cursor[_OVER]:
            each(done, results)
        if out.cursor[_OVER]:
            break
        # as many steps as take a part of a second; just one, if a hostile record makes it slow
        each_ns = max((now_ns() - begun) // max(done - before, 1), 1)
        at_once = min(max(_LONGEST_NS // each_ns, 1), 2 * at_once)
    return results[:done]


class StepByStep:
    """The same steps one at a time, each with the block that is given: for a loop that is closed outside."""

    def __init__(self, simulation: Simulation, most: int):
        self._simulation, self._done = simulation, 0
        self._ring = private_ring(simulation.input_layout, 1 << (2 * simulation.settings.most_blocks).bit_length())
        self.results = np.zeros((most, len(simulation.model.inputs) + len(simulation.model.outputs)))
        self._tape = Tape(
            np.zeros((most, simulation.input_layout.words), np.int64), np.arange(most), np.zeros(most, np.int64),
            np.zeros(most, np.int64), np.zeros(most, np.int64), _no_commands(), np.zeros((most, 2), np.int64),
            simulation.machine.first_state.copy(), simulation.params.copy(),
            without_addresses(simulation.model, simulation.machine.floats).copy(),
        )  # fmt: skip
        self._tape.flags[:1] = INITIAL | RESTART
        self._machine = simulation.machine._replace(mode=mode())
        self._out = Results(self.results, np.zeros((most, len(REPORTED)), np.int64), np.array([0, -1, 0], np.int64))

    def step(self, block: np.ndarray, age_ns: int) -> np.ndarray:
        """Its inputs and outputs."""
        k, simulation = self._done, self._simulation
        self._tape.blocks[k], self._tape.ages[k] = block, age_ns
        _steps(
            self._ring, self._tape, k, k + 1, simulation.buffers, simulation.settings, simulation.rows,
            simulation.model.step, simulation.fit, self._machine, simulation.divergence, self._out,
        )  # fmt: skip
        self._done = k + 1
        found: np.ndarray = self.results[k]
        return found


# ---- plans -----------------------------------------------------------------------------------------------------------


def as_recorded(steps: np.ndarray, blocks: np.ndarray, words: np.ndarray, rings: np.ndarray) -> Plan:
    """Every step with the block it used. `rings`: for every block the first one of its ring.

    Begins with the first step of a simulator: what a record holds from before has no known state to start from. Ends
    before the first step that cannot be done again, because it or its block is not in the record.
    """
    begins = np.flatnonzero(steps["step"] == 0)
    first = int(begins[0]) if len(begins) else len(steps)
    steps = steps[first:]
    which = _find(steps, blocks)
    status = steps["status"]
    initial = steps["step"] == 0
    continues = np.ones(len(steps), bool)
    continues[1:] = (np.diff(steps["step"]) == 1) | initial[1:]
    bad = np.flatnonzero((which < 0) | ~continues)
    n, stopped = len(steps), None
    if len(bad):
        n = int(bad[0])
        lacks = "the block it used" if continues[n] else "steps before it"
        stopped = f"step {steps['step'][n]} cannot be done again: the record lacks {lacks}"
    which, status, initial = which[:n], status[:n], initial[:n]
    restart = status & (step_record.NEW_EPOCH | step_record.SKIPPED | step_record.RESTARTED) != 0
    flags = _flags(initial, restart, status & step_record.LAPPED != 0)
    return Plan(words, which, rings[which], flags, np.ascontiguousarray(steps["input_age_ns"][:n]), first, stopped)


def _find(steps: np.ndarray, blocks: np.ndarray) -> np.ndarray:
    """Index of the block that each step used, -1 where it is not there. A number can stand in several rings: every
    restarted simulator gets the newest block again; the instant of reception distinguishes them."""
    if not len(blocks):
        return np.full(len(steps), -1, np.int64)
    epoch, number, received = (blocks[name].astype(np.int64) for name in ("epoch", "seq", "received_ns"))
    of_epoch, of_number, at_ns = (
        steps[name].astype(np.int64) for name in ("input_epoch", "input_seq", "input_received_ns")
    )
    order = np.lexsort((received, number, epoch))
    low, high = np.zeros(len(steps), np.int64), np.full(len(steps), len(blocks), np.int64)
    for _ in range(len(blocks).bit_length()):  # bisection, safe for any record: how many blocks come before, or match
        middle = (low + high) // 2
        at = order[np.minimum(middle, len(blocks) - 1)]
        same_epoch, same_number = epoch[at] == of_epoch, number[at] == of_number
        before = (epoch[at] < of_epoch) | (
            same_epoch & ((number[at] < of_number) | (same_number & (received[at] <= at_ns)))
        )
        low, high = np.where((low < high) & before, middle + 1, low), np.where((low < high) & ~before, middle, high)
    last = order[np.maximum(low - 1, 0)]
    there = (low > 0) & (epoch[last] == of_epoch) & (number[last] == of_number) & (received[last] == at_ns)
    return np.where(there, last, -1)


def as_available(
    instants: np.ndarray,
    words: np.ndarray,
    blocks: np.ndarray,
    available_ns: np.ndarray,
    begins: np.ndarray | None = None,
) -> Plan:
    """Steps at these instants, each with the newest block available by then; before the first, with the first.

    `begins`: where a simulator made its first step, besides the very first.
    """
    later = np.minimum.accumulate(available_ns[::-1])[::-1]  # when this block or a newer one is there
    in_order = available_ns <= later  # a block that arrives after a newer one is no longer of use
    words, blocks, later = words[in_order], blocks[in_order], later[in_order]
    which = np.maximum(np.searchsorted(later, instants, "right") - 1, 0).astype(np.int64)
    epoch = blocks["epoch"][which]
    new_epoch = np.concatenate([[True], np.diff(epoch.astype(np.int64)) != 0])[: len(which)]
    initial = np.zeros(len(which), bool)
    if begins is not None:
        initial |= begins
    initial[:1] = True
    flags = _flags(initial, new_epoch, np.zeros(len(which), bool))
    ages = (instants - blocks["t_ns"][which]).astype(np.int64)
    return Plan(np.ascontiguousarray(words), which, np.zeros(len(which), np.int64), flags, ages)


def obeyed_as_recorded(steps: np.ndarray, commands: np.ndarray) -> np.ndarray:
    """Which commands came before each of these steps; a simulator's first step is where its own commands begin."""
    behind = np.zeros(len(steps), np.int64)
    first = np.zeros(len(steps), np.int64)
    if len(commands) and "commands" in (steps.dtype.names or ()):
        epochs = commands["epoch"].astype(np.int64)
        for epoch in np.unique(steps["command_epoch"]):
            here, mine = np.flatnonzero(epochs == epoch), np.flatnonzero(steps["command_epoch"] == epoch)
            if len(here):
                first[mine] = here[0]
                numbers = commands["seq"][here].astype(np.int64)
                behind[mine] = here[0] + np.searchsorted(numbers, steps["commands"][mine])
    begins = np.concatenate([[True], steps["step"][1:] == 0])[: len(steps)]
    since = np.where(begins, first, np.concatenate([[0], behind[:-1]])[: len(steps)])
    return np.column_stack([since, behind])


def obeyed_by_time(instants: np.ndarray, commands: np.ndarray) -> np.ndarray:
    """The same for steps that no simulator made at these instants: what had been commanded by then."""
    behind = (
        np.searchsorted(commands["t_ns"], instants, "right") if len(commands) else np.zeros(len(instants), np.int64)
    )
    return np.column_stack([np.concatenate([[0], behind[:-1]])[: len(behind)], behind]).astype(np.int64)


def _flags(initial: np.ndarray, restart: np.ndarray, lapped: np.ndarray) -> np.ndarray:
    bits = ((initial, INITIAL), (restart, RESTART), (lapped, LAPPED))
    flags = np.zeros(len(initial), np.int64)
    for where, bit in bits:
        flags[where] |= bit
    return flags
