"""The same steps again, from a record instead of a machine.

A replay is a list of steps, each with the block it uses and what the loop knew about it (first step of a simulator,
restart after a gap, how old), and the blocks in the order in which they stood in the ring. It runs the very turn of
the loop over a private ring that the recorded blocks are pushed into. Given what a run recorded, its outputs are those
of the run to the last bit, on any machine (docs/decisions/0022); given other blocks, a delay or other
parameters, they say what those change.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numba import float64, int64, types

from sim_service import step_record
from sim_service.command_record import LAYOUT, mode
from sim_service.commands import obey
from sim_service.models.description import STEP
from sim_service.simulation import Simulation
from sim_service.step_result import BEYOND, DIVERGED, OVER, STAGES
from sim_service.turn import turn
from sync.array_types import WORDS, WORDS_2D
from sync.jit import kernel
from sync.ring import private_ring, push

INITIAL, RESTART, LAPPED = 1, 2, 4
_VECTOR = float64[::1]
_PUSHED, _SHOWN, _OVER = range(3)
TOLD = (STAGES, BEYOND, DIVERGED)  # what a replayed step says of itself, as in sim_service/turn.py
_BATCH = 2000  # steps between two looks at the clock


def _no_commands() -> np.ndarray:
    return np.zeros((0, LAYOUT.words), np.int64)


@dataclass
class Plan:
    """What to do: a step an entry."""

    blocks: np.ndarray  # rows of words, in the order of the ring
    which: np.ndarray  # the block of each step
    floor: np.ndarray  # the first block of the ring that this one stood in: no step sees further back
    flags: np.ndarray  # of INITIAL, RESTART, LAPPED
    ages: np.ndarray  # of the block when its step used it, ns
    first: int = 0  # which recorded step it begins with
    stopped: str | None = None  # why it ends before the last recorded step
    commands: np.ndarray = field(default_factory=_no_commands)  # rows of words
    obeyed: np.ndarray | None = None  # of each step: (first, behind the last) of the commands it obeyed; None: of none

    def __len__(self) -> int:
        return len(self.which)


@kernel(
    int64(
        WORDS, WORDS_2D, WORDS, WORDS, WORDS, WORDS, WORDS_2D, WORDS_2D, int64, int64, WORDS, WORDS, WORDS, WORDS,
        WORDS_2D, _VECTOR, _VECTOR, _VECTOR, _VECTOR,
        types.FunctionType(STEP), _VECTOR, _VECTOR, _VECTOR, _VECTOR, _VECTOR, _VECTOR, _VECTOR,
        _VECTOR, _VECTOR, _VECTOR, WORDS, types.Array(float64, 2, "C"), WORDS_2D,
    )
)  # fmt: skip
def _steps(
    ring, blocks, which, floor, flags, ages, commands, obeyed, first, last, cursor, settings, block, passing,
    rows, calibration, estimator, memory, policy,
    step_model, state, inputs, params, work, first_state, first_work, first_params,
    mode, kept, guard, turned, results, told,
):  # fmt: skip
    """Steps `first` … `last` - 1; returns how far it came: a step that ended the run is the last."""
    h = settings[step_record.H_NS] * 1e-9
    outputs, wheel_speed = settings[step_record.OUTPUTS], settings[step_record.WHEEL_SPEED]
    for k in range(first, last):
        position = which[k]
        while cursor[_PUSHED] <= position:
            push(ring, blocks[cursor[_PUSHED]])
            cursor[_PUSHED] += 1
        if flags[k] & INITIAL:
            state[:] = first_state
            work[:] = first_work
            params[:] = first_params
            memory[:] = 0.0
            turned[:] = 0
            cursor[_SHOWN] = -1
        block[:] = blocks[position]
        for n in range(obeyed[k, 0], obeyed[k, 1]):
            obey(commands[n], params, state, work, first_state, first_work, mode)
        turn(
            ring, max(cursor[_SHOWN], floor[k] - 1), position, settings[step_record.MOST_BLOCKS], block, passing,
            flags[k] & RESTART != 0, flags[k] & LAPPED != 0, ages[k],
            rows, calibration, estimator, memory, policy,
            step_model, state, inputs, params, work, first_state, first_work, kept, guard, turned,
            wheel_speed, outputs, h,
        )  # fmt: skip
        cursor[_SHOWN] = position
        for i in range(inputs.size):
            results[k, i] = inputs[i]
        for i in range(outputs):
            results[k, inputs.size + i] = work[i]
        for i in range(len(TOLD)):
            told[k, i] = turned[TOLD[i]]
        if turned[DIVERGED] == OVER:
            cursor[_OVER] = 1
            return k + 1
    return last


def replay(
    simulation: Simulation,
    plan: Plan,
    batch: int = _BATCH,
    each: Callable[[int, np.ndarray], None] = lambda *_: None,
    told: np.ndarray | None = None,
) -> np.ndarray:
    """The inputs and outputs of every step, a row a step; fewer rows than planned if a model that diverges ends it.

    `each` is called after every `batch` steps with how many are done and the results so far. `told`, a row a step, is
    filled with what each says of itself (TOLD).
    """
    told = np.zeros((len(plan), len(TOLD)), np.int64) if told is None else told
    layout_words = plan.blocks.shape[1]
    most = int(simulation.settings[step_record.MOST_BLOCKS])
    ring = private_ring(simulation.input_layout, 1 << (2 * most).bit_length())
    results = np.zeros((len(plan), len(simulation.model.inputs) + len(simulation.model.outputs)))
    cursor = np.array([0, -1, 0], np.int64)
    block, passing = np.zeros(layout_words, np.int64), np.zeros(layout_words, np.int64)
    first_state, first_work, first_params = (
        simulation.state.copy(), simulation.work.copy(), simulation.params.copy()
    )  # fmt: skip
    obeyed = np.zeros((len(plan), 2), np.int64) if plan.obeyed is None else np.ascontiguousarray(plan.obeyed)
    done = 0
    while done < len(plan):
        upto = min(done + batch, len(plan))
        reached = _steps(
            ring, plan.blocks, plan.which, plan.floor, plan.flags, plan.ages, plan.commands, obeyed, done, upto, cursor,
            simulation.settings, block, passing, *simulation.signals, simulation.model.step, simulation.state,
            simulation.inputs, simulation.params, simulation.work, first_state, first_work, first_params, mode(),
            simulation.kept, simulation.guard, simulation.turned, results, told,
        )  # fmt: skip
        done = int(reached)
        each(done, results)
        if cursor[_OVER]:
            break
    return results[:done]


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
    restart = status & (step_record.NEW_EPOCH | step_record.SKIPPED | step_record.RESUMED) != 0
    flags = _flags(initial, restart, status & step_record.LAPPED != 0)
    return Plan(words, which, rings[which], flags, np.ascontiguousarray(steps["input_age_ns"][:n]), first, stopped)


def _find(steps: np.ndarray, blocks: np.ndarray) -> np.ndarray:
    """Index of the block that each step used, -1 where it is not there. A number can stand in several rings: every
    restarted simulator gets the newest block again; the instant of reception tells them apart."""
    found = np.full(len(steps), -1, np.int64)
    for epoch in np.unique(steps["input_epoch"]):
        here = np.flatnonzero(blocks["epoch"].astype(np.int64) == epoch)
        mine = np.flatnonzero(steps["input_epoch"] == epoch)
        if len(here) == 0:
            continue
        numbers = blocks["seq"][here].astype(np.int64)
        wanted = steps["input_seq"][mine]
        first = np.searchsorted(numbers, wanted)
        for copy in range(int(np.unique(numbers, return_counts=True)[1].max())):
            at = np.minimum(first + copy, len(here) - 1)
            index = here[at]
            right = (numbers[at] == wanted) & (blocks["received_ns"][index] == steps["input_received_ns"][mine])
            found[mine[right]] = index[right]
    return found


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
    in_order = available_ns <= later  # a block that comes after a newer one is of no use any more
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
    """The same for steps that were not made on board: what had been commanded by then."""
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
