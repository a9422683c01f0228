"""What the loop works on, in groups: a few named tuples instead of thirty arguments.

A named tuple costs compiled code nothing: its fields are registers, as arguments were. What changes while the loop runs
is in arrays, which the tuples only name; `Settings` are plain integers and do not change. `TYPES` has the compiled type
of each group; `Simulation` (sim_service/simulation.py) makes them from a configuration.
"""

from typing import NamedTuple

import numpy as np
from numba import from_dtype, int64, types

from sim_service.contract.machine import TABLES, Tables
from sync.compile.array_types import MATRIX, READ_ONLY, VECTOR, WORDS, WORDS_2D, group

Words = np.ndarray
Vector = np.ndarray


class Rings(NamedTuple):
    blocks: Words  # of the DAQ; read
    steps: Words
    commands: Words  # read
    states: Words  # the state after every step, for the view


class Buffers(NamedTuple):
    """One block each, of its ring's layout."""

    block: Words  # the one that the step uses
    passing: Words  # one that is only shown to estimators, or timed
    step: Words
    command: Words
    state: Words


class Settings(NamedTuple):
    h_ns: int  # the step
    most_age_ns: int  # of input that steps are still made with; 0: any
    lost_ends: int  # whether older input ends the loop; otherwise it waits for fresh input
    catch_up: int  # steps in a row that may begin late
    most_steps: int  # -1: without end
    outputs: int  # of the machine
    capped_output: int  # which of them says that a step ended at its limit of iterations; -1: none
    drain_ns: int  # without a new block, after which a loop that was asked to end does so
    most_blocks: int  # how many blocks a step looks back at
    rhythm_ns: int  # age beyond which a block is out of rhythm
    wait_ns: int  # longest wait for a late block
    rehearses: int  # whether steps are rehearsed (sim_service/rehearsal.py)
    spin_ns: int  # how long it spins before an instant, and while it waits for a late block


class Books(NamedTuple):
    control: Words  # what the loop and its process share, see sim_service/step_record.py
    counters: Words
    ledger: Words  # histograms, a row a hop
    cursor: np.ndarray  # one CURSOR: where the loop is


class PhaseLock(NamedTuple):
    state: Vector  # see sim_service/phase.py
    arrivals: Words


class MachineData(NamedTuple):
    state: Vector
    inputs: Vector
    params: Vector
    tables: Tables
    work: Vector
    first_state: Vector  # as it started
    first_work: Vector
    mode: Vector  # how it goes: paused, slowly; see sim_service/command_record.py
    floats: Vector  # of `tables`, to be changed between steps; empty where the machine has one shape
    shape_rows: np.ndarray  # rows, see sim_service/reshape.py


class Divergence(NamedTuple):
    """What catches a machine whose state becomes non-finite or out of bounds, see sim_service/step_kernel.py."""

    limits: Vector
    previous: Vector  # state and outputs as they were before the step
    result: Words  # what the step reports, see sim_service/step_kernel.py
    offending: Vector  # inputs of a step that diverged


CURSOR = np.dtype(
    [
        (name, np.int64)
        for name in (
            "planned", "following",  # instants of this step and of the next
            "started", "taken",  # when this one began, and had its block
            "begun",  # when the loop did
            "stop", "obeyed",  # what was asked for; position behind the last command
            "position", "there",  # of the newest block, and of the head when it was looked for
            "used", "shown", "timed",  # positions of the last block: used, shown to estimators, timed for the phase
            "epoch", "seen", "seen_ns",  # of the last block; the newest one, and when it was first there
            "age", "fresh", "in_rhythm", "late",  # of this step's block; steps in a row that began late
            "status", "done",
            "stepped", "longest",  # whether the last instant had a step; what steps took lately, at most
        )
    ]
)  # fmt: skip


TYPES: dict[type, types.Type] = {
    Rings: group(Rings, READ_ONLY, WORDS, READ_ONLY, WORDS),
    Buffers: group(Buffers, *5 * [WORDS]),
    Settings: group(Settings, *len(Settings._fields) * [int64]),
    Books: group(Books, WORDS, WORDS, WORDS_2D, types.Array(from_dtype(CURSOR), 1, "C")),
    PhaseLock: group(PhaseLock, VECTOR, WORDS_2D),
    MachineData: group(MachineData, VECTOR, VECTOR, VECTOR, TABLES, *5 * [VECTOR], MATRIX),
    Divergence: group(Divergence, VECTOR, VECTOR, WORDS, VECTOR),
}
