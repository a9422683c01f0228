"""What a step records: the channels of its output, its status word, the ledger's rows, the counters and the words that
the loop shares with its process.

Integers and names only: code that reads a step, a report or a record imports this module and compiles nothing. The loop
(sim_service/loop.py) fills what is named here.
"""

from sim_service.contract.step_channels import STEP_CHANNELS
from sync.ring.block import PAYLOAD, Channel, Layout

# the status word of a step
STALE = 1  # an input is older than allowed; what became of it is in its stage
REPEATED = 2  # no new block since the last step
NEW_EPOCH = 4  # first block after a gap: derivatives restart
MISSED = 8  # the step before this one ended after this one was due
SKIPPED = 16  # steps were given up before this one
DIVERGED = 32  # the state was non-finite or out of bounds; the outputs are those it goes on from, or ended with
LOCKED = 64  # the step's instant is locked to the block stream
HOLDOVER = 128  # the lock goes on without a new block to follow
LAPPED = 256  # blocks before it were overwritten or an earlier simulator's: it used its own alone, derivatives restart
WAITED = 512  # the step waited for its block, which was late
CAPPED = 1024  # the model ended the step at its limit of iterations
RESTARTED = 2048  # the first step after a pause or of a model that was reset: derivatives restart
SLOWED = 4096  # steps follow each other more slowly than in real time, as commanded
CLIPPED = 16384  # an input was beyond its row's limits, and was clipped
STATUS = {
    STALE: "stale input",
    REPEATED: "no new block",
    NEW_EPOCH: "new epoch",
    MISSED: "deadline missed",
    SKIPPED: "steps skipped",
    DIVERGED: "diverged",
    LOCKED: "locked",
    HOLDOVER: "holdover",
    LAPPED: "blocks overwritten",
    WAITED: "waited for its block",
    CAPPED: "iterations capped",
    RESTARTED: "after a pause or reset",
    SLOWED: "slowed down",
    CLIPPED: "input beyond its limits",
}

# rows of the ledger: the age at use and what it is made of, in order; then the step
AGE, SENSOR, RING, WIRE, WAIT, STEP_DONE, LATENESS, COST, REHEARSAL = range(9)
LEDGER = ("age", "sensor", "ring", "wire", "wait", "step", "lateness", "cost", "rehearsal")

# counters
(
    STEPS, USED, SUPERSEDED, REUSED, MISSES, SKIPS, STALES, EPOCHS, NOT_NEWEST,
    LOCKED_STEPS, HOLDOVERS, WAITS, CAPS, PAUSES, STARVED, DIVERGENCES, CLIPS,
    REHEARSED, NOT_REHEARSED, REHEARSED_LATE, SPUN_NS,
) = range(21)  # fmt: skip
COUNTERS = (
    "steps", "used", "superseded", "reused", "deadline_misses", "skipped", "stale_steps", "epochs", "not_newest",
    "locked_steps", "holdover_steps", "waited_steps", "capped_steps",
    "paused_steps", "starved_steps", "diverged_steps", "clipped_steps",
    "rehearsed_steps", "not_rehearsed", "late_rehearsals", "spun_ns",
)  # fmt: skip

# words the loop and its process share
(
    STOP, LAST_SEQ, FIRST_STEP_NS, BOUND_NS, WORST_BOUND_NS, OBEYED, LOST_ROW, LOST_NS, DIVERGED_STEP, BEGIN,
    RUN_NS, END_NS, AT_END,  # length from the first instant; so no step from this instant on; it is reached
) = range(13)  # fmt: skip
CONTROL_WORDS = 13
DRAIN, NOW = 1, 2  # what STOP may ask for: end when no new block has come for a while, or end at once

# how the loop ended
STOPPED, ALL_STEPS, ENDED_DIVERGED, RING_CLOSED, INPUT_LOST = range(5)

# the channels of a step's output before the model's own, and the words of the block they stand in
(
    AT_STEP, AT_STATUS, AT_INPUT_SEQ, AT_INPUT_EPOCH, AT_INPUT_T, AT_INPUT_PUSHED, AT_INPUT_SENT, AT_INPUT_RECEIVED,
    AT_STARTED, AT_TAKEN, AT_INPUT_AGE, AT_INPUT_STAGES, AT_AGE_BOUND,
    AT_PHASE_ERROR, AT_COMMANDS, AT_COMMAND_EPOCH, AT_TIME,
) = range(PAYLOAD, PAYLOAD + 17)  # fmt: skip
AT_INPUTS = PAYLOAD + 17


def output_layout(model) -> Layout:  # type: ignore[no-untyped-def]
    """The output block of a model: what the step used and when, its inputs, its outputs."""
    quantities = (*model.inputs, *model.outputs)
    return Layout((*STEP_CHANNELS, *(Channel(q.name, "f8", q.unit) for q in quantities)))
