"""What must hold of every schedule, judged on what the loop recorded and on the script alone.

Each promise is a function that returns what is wrong, in words, or nothing.
"""

from collections.abc import Callable, Iterator

import numpy as np

from sim_service import step_record as rec
from sim_service.command_record import AT_KIND, AT_VALUE, PAUSE, RESET, RESUME, SLOW
from sim_service.command_record import LAYOUT as COMMANDS
from sim_service.replay import REPORTED, as_recorded, obeyed_as_recorded, replay
from sync.ring.block import PUSHED, RECEIVED, SENT, T
from sync.ring.ledger import BUCKETS
from sync.virtual_clock import AT, BLOCK, COMMAND, CONTROL, KIND, PUSH, WHERE
from verify.path.schedule import Recorded, Segment

_SUM = BUCKETS + 1  # of a histogram's words: the sum of all that was recorded
_NEGATIVE = BUCKETS
_SETTLED = 60  # steps after which a calm schedule is locked


def _flagged(steps: np.ndarray, bit: int) -> np.ndarray:
    found: np.ndarray = (steps["status"] & bit) != 0
    return found


def _rows(recorded: Recorded, kind: int) -> np.ndarray:
    found: np.ndarray = recorded.script[recorded.script[:, KIND] == kind]
    return found


def _on_ring(recorded: Recorded, segment: Segment) -> tuple[np.ndarray, np.ndarray]:
    """(the steps of a segment, the rows of the blocks of its ring)."""
    pushes = _rows(recorded, PUSH)
    return recorded.steps[segment.first : segment.last], pushes[pushes[:, WHERE] == segment.ring]


def _each(recorded: Recorded) -> Iterator[tuple[Segment, np.ndarray, np.ndarray]]:
    for segment in recorded.segments:
        yield (segment, *_on_ring(recorded, segment))


def balance(recorded: Recorded) -> str | None:
    for segment, steps, rows in _each(recorded):
        if segment.head != len(rows):
            return f"{len(rows)} blocks were pushed, the ring's head is {segment.head}"
        due = segment.last_seq + 1 - segment.adopted if segment.last_seq >= 0 else 0
        if segment.used + segment.superseded != due:
            return f"used {segment.used} + superseded {segment.superseded} != {due} up to the last block"
        if segment.used != len(np.unique(steps["input_seq"])):
            return f"used {segment.used}, but the steps name {len(np.unique(steps['input_seq']))} blocks"
        # asked to end when there is nothing new, and at a closed ring, every block is accounted for
        stops = _rows(recorded, CONTROL)[:, BLOCK]
        drained = segment.ended == rec.STOPPED and segment.last_seq >= 0 and rec.NOW not in stops
        if (drained or segment.ended == rec.RING_CLOSED) and segment.last_seq + 1 != segment.head:
            return f"ended with {segment.head - segment.last_seq - 1} blocks that are not accounted for"
        if drained and len(rows):  # and what was still on its way was waited for
            late = recorded.later[(recorded.later[:, KIND] == PUSH) & (recorded.later[:, WHERE] == segment.ring)]
            waited = int(rows[-1, BLOCK + T]) + recorded.stage.simulation.settings.drain_ns
            if (late[:, AT] <= waited).any():
                return f"ended before {int((late[:, AT] <= waited).sum())} blocks that were on their way"
    return None


def newest_block(recorded: Recorded) -> str | None:
    """Never an older block, none that had not arrived, and none while a newer one was there."""
    for _, steps, rows in _each(recorded):
        at = rows[:, AT]
        seq = steps["input_seq"]
        if (np.diff(seq) < 0).any():
            return f"step {int(np.flatnonzero(np.diff(seq) < 0)[0]) + 1} of a ring uses an older block"
        if (at[seq] > steps["taken_ns"]).any():
            return f"step {steps['step'][at[seq] > steps['taken_ns']][0]} uses a block that had not arrived"
        readable = np.searchsorted(at, steps["started_ns"], side="right")
        if (seq < readable - 1).any():
            k = int(np.flatnonzero(seq < readable - 1)[0])
            return f"step {steps['step'][k]} uses block {seq[k]}, block {readable[k] - 1} was there"
    return None


def ages(recorded: Recorded) -> str | None:
    """The age is from the sample instant to use, and the sum of its hops, step by step and in the ledger."""
    for _, steps, rows in _each(recorded):
        mine = rows[steps["input_seq"]]
        for name, word in (("t", T), ("pushed", PUSHED), ("sent", SENT), ("received", RECEIVED)):
            if (steps[f"input_{name}_ns"] != mine[:, BLOCK + word]).any():
                return f"input_{name}_ns is not the block's"
        if (steps["input_age_ns"] != steps["taken_ns"] - steps["input_t_ns"]).any():
            return "an age is not the time from sampling to use"
    ledger = recorded.stage.simulation.ledger
    sums = [int(ledger[row, _SUM]) for row in (rec.AGE, rec.SENSOR, rec.RING, rec.WIRE, rec.WAIT)]
    if ledger[:, _NEGATIVE].any():
        return "a negative time in the ledger"
    if sums[0] != sum(sums[1:]) or sums[0] != int(recorded.steps["input_age_ns"].sum()):
        return f"ages sum to {sums[0]}, their hops to {sum(sums[1:])}, or those of the steps to something else"
    return None


def catching_up(recorded: Recorded) -> str | None:
    simulation = recorded.stage.simulation
    most, h = simulation.settings.catch_up, recorded.stage.config.step_ns
    for _, steps, _ in _each(recorded):
        missed, skipped = _flagged(steps, rec.MISSED), _flagged(steps, rec.SKIPPED)
        row = 0
        for late, skip in zip(missed.tolist(), skipped.tolist(), strict=True):
            row = row + 1 if late and not skip else 0
            if row > most:
                return f"{row} late steps in a row, {most} are allowed"
        if (steps["started_ns"] < steps["t_ns"]).any():
            return "a step began before its instant"
        behind = steps["pushed_ns"][:-1] - steps["t_ns"][1:]
        if (behind >= (most + 1) * h).any():
            return f"a step was begun {behind.max()} ns behind"
        if (behind[skipped[1:] & missed[1:]] >= 0).any():
            return "steps were given up, and the next was late all the same"
    if (np.diff(recorded.steps["step"]) != 1).any():
        return "steps are not numbered one by one"
    if simulation.counters[rec.MISSES] < _flagged(recorded.steps, rec.MISSED).sum():
        return "fewer deadline misses counted than flagged"
    return None


def rehearsed(recorded: Recorded) -> str | None:
    """Where nothing stalls, a step whose instant comes after the step before it starts at its instant: a rehearsal in
    between has ended by then."""
    simulation = recorded.stage.simulation
    if not simulation.settings.rehearses or not recorded.read_ns:
        return None
    for _, steps, _ in _each(recorded):
        late = (steps["started_ns"] - steps["t_ns"])[1:]
        ready = steps["pushed_ns"][:-1] + 20 * recorded.read_ns < steps["t_ns"][1:]  # what follows a push are looks
        if (late[ready] > 8 * recorded.read_ns).any():
            k = int(np.flatnonzero(ready & (late > 8 * recorded.read_ns))[0]) + 1
            return f"step {steps['step'][k]} starts {late[k - 1]} ns late after a rehearsal"
    return None


def flags(recorded: Recorded) -> str | None:
    for segment, steps, _ in _each(recorded):
        if segment.adopted and len(steps):
            if steps["input_seq"][0] < segment.adopted:
                return "a step on a block that an earlier simulator received"
            if not _flagged(steps, rec.LAPPED)[0]:
                return "the first step on a ring of an earlier simulator shows more than its own block"
        again = np.diff(steps["input_seq"], prepend=-1) == 0
        if (_flagged(steps, rec.REPEATED) != again).any():
            return "a step that repeats a block is not flagged, or one that does not is"
        if (_flagged(steps, rec.NEW_EPOCH) != (np.diff(steps["input_epoch"], prepend=-1) != 0)).any():
            return "new epochs are not where the blocks have them"
        limit = round(recorded.stage.config.sim.stale_after_ms * 1e6)
        if (_flagged(steps, rec.STALE) != (steps["input_age_ns"] > limit)).any():
            return "stale is not what is older than allowed"
        allowed = recorded.stage.simulation.settings.most_age_ns
        if allowed and (steps["input_age_ns"] > allowed).any():
            return "a step on input that was lost"
        if segment.ended == rec.INPUT_LOST and recorded.stage.config.sim.stale.stop != "end":
            return "ended for lost input, which should be waited for"
    return None


def end_request(recorded: Recorded) -> str | None:
    """Asked to end at once, no further step begins; asked to end when nothing new comes, none without a new block."""
    steps = recorded.steps
    for control in _rows(recorded, CONTROL):
        after = steps[steps["started_ns"] > control[AT]]
        if control[BLOCK] == rec.NOW and len(after):
            return f"{len(after)} steps were begun after the loop was asked to end at once"
        if control[BLOCK] == rec.DRAIN and _flagged(after, rec.REPEATED).any():
            return "a step without a new block, after the loop was asked to end"
    return None


def length(recorded: Recorded) -> str | None:
    """No step is due after the end of a run; those that were due before it were made or counted as given up."""
    control, counters = recorded.stage.simulation.control, recorded.stage.simulation.counters
    end, steps = int(control[rec.END_NS]), recorded.steps
    if not end or not len(steps):
        return None
    if (steps["t_ns"] >= end).any():
        return f"{(steps['t_ns'] >= end).sum()} steps after the end of the run"
    disturbed = len(recorded.segments) > 1 or counters[rec.STARVED] or counters[rec.PAUSES]
    disturbed |= bool(_flagged(steps, rec.SLOWED).any())
    early = (_rows(recorded, CONTROL)[:, AT] <= end).any()
    if control[rec.AT_END] and not disturbed and not early and recorded.stage.config.sim.phase == "free":
        due = -(-(end - int(steps["t_ns"][0])) // recorded.stage.config.step_ns)
        if len(steps) + counters[rec.SKIPS] != due:
            return f"{len(steps)} steps and {counters[rec.SKIPS]} skipped of {due} that were due"
    return None


def commanded(recorded: Recorded) -> str | None:
    """Every command there is when a step starts is obeyed before it, and what it asks for is done."""
    rows = _rows(recorded, COMMAND)
    steps = recorded.steps
    if (steps["commands"] != np.searchsorted(rows[:, AT], steps["started_ns"], side="right")).any():
        return "a step did not obey what had been commanded by its start"
    kinds, values = rows[:, BLOCK + AT_KIND], np.ascontiguousarray(rows[:, BLOCK + AT_VALUE]).view(np.float64)
    h = recorded.stage.config.step_ns
    stops = _rows(recorded, CONTROL)[:, AT]
    paused, left, slow, obeyed = False, 0.0, 1.0, 0
    slowed = _flagged(steps, rec.SLOWED)
    firsts = {segment.first for segment in recorded.segments}
    for k, step in enumerate(steps):
        undisturbed = k not in firsts and step["commands"] == obeyed and not (stops <= step["started_ns"]).any()
        if slow > 1.0 and undisturbed and step["t_ns"] - steps["t_ns"][k - 1] < int(h * slow):
            return f"step {step['step']} comes sooner than {slow} times slower"
        was_slow, fresh_start = slow > 1.0, False
        for n in range(obeyed, int(step["commands"])):
            if kinds[n] == PAUSE:
                paused, left = True, values[n]
            elif kinds[n] == RESUME:
                paused = False
            elif kinds[n] == SLOW:
                slow = values[n]
            fresh_start |= kinds[n] == RESET
        obeyed = int(step["commands"])
        if paused and left <= 0:
            return f"step {step['step']} was made during a pause"
        left -= paused
        if fresh_start and not step["status"] & rec.RESTARTED:
            return f"step {step['step']} follows a reset without the flag"
        rested = k not in firsts and 2 * (step["t_ns"] - steps["t_ns"][k - 1]) > 3 * h
        explained = was_slow or slow > 1.0 or (stops <= step["started_ns"]).any()
        if rested and not explained and not step["status"] & (rec.RESTARTED | rec.SKIPPED):
            return f"step {step['step']} follows instants without a step without the flag"
        if slowed[k] != (slow > 1.0):
            return f"step {step['step']}: slowed is flagged {bool(slowed[k])}, {slow} times is what was asked for"
    return None


def phase_lock(recorded: Recorded) -> str | None:
    """On a calm stream the lock is found, held over a silence, and there again after it."""
    if not recorded.calm:
        return None
    steps = recorded.steps
    locked, held = _flagged(steps, rec.LOCKED), _flagged(steps, rec.HOLDOVER)
    rhythm = recorded.stage.simulation.settings.rhythm_ns
    if len(steps) <= _SETTLED:
        return f"only {len(steps)} steps"
    settled = slice(25, None)
    if not (locked | held)[settled].all():
        k = 25 + int(np.flatnonzero(~(locked | held)[settled])[0])
        return f"step {k} is not locked"
    if (held != (locked | held) & (steps["input_age_ns"] > rhythm)).any():
        return "holdover is not what it is without a block"
    slew = recorded.stage.config.sim.phase_slew * recorded.stage.config.step_ns
    away = np.abs(np.diff(steps["t_ns"]) - recorded.stage.config.step_ns)
    if away.max() > slew + 1:
        return f"a step of the locked loop is {away.max()} ns longer or shorter, {slew} are allowed"
    if np.abs(steps["phase_error_ns"][settled]).max() > 0.05 * recorded.stage.config.period_ns:
        return f"the phase is off by {np.abs(steps['phase_error_ns'][settled]).max()} ns"
    return None


def replayed(recorded: Recorded) -> str | None:
    """The same bits again, and the same words about them."""
    steps, stage = recorded.steps, recorded.stage
    layout = stage.config.daq.layout
    pushes = _rows(recorded, PUSH)
    pushes = pushes[np.argsort(pushes[:, WHERE], kind="stable")]
    words = np.ascontiguousarray(pushes[:, BLOCK : BLOCK + layout.words])
    rings = np.searchsorted(pushes[:, WHERE], pushes[:, WHERE])
    plan = as_recorded(steps, layout.view(words), words, rings)
    if len(plan) != len(steps):
        return f"the record holds {len(plan)} of {len(steps)} steps: {plan.stopped}"
    rows = _rows(recorded, COMMAND)
    plan.commands = np.ascontiguousarray(rows[:, BLOCK : BLOCK + COMMANDS.words])
    plan.obeyed = obeyed_as_recorded(steps, COMMANDS.view(plan.commands))
    reported = np.zeros((len(plan), len(REPORTED)), np.int64)
    results = replay(stage.twin, plan, reported=reported)
    names = [q.name for q in (*stage.twin.model.inputs, *stage.twin.model.outputs)]
    live = np.stack([steps[name] for name in names], axis=1) if len(steps) else np.zeros((0, len(names)))
    if len(results) != len(steps) or (results.view(np.int64) != live.view(np.int64)).any():
        unequal = (results.view(np.int64) != live[: len(results)].view(np.int64)).any(axis=1)
        return f"the replay differs from step {int(np.argmax(unequal))} on"
    if (reported[:, 0] != steps["input_stages"]).any():
        return "the replay's stages differ"
    return None


PROMISES: tuple[Callable[[Recorded], str | None], ...] = (
    balance,
    newest_block,
    ages,
    catching_up,
    rehearsed,
    flags,
    end_request,
    length,
    commanded,
    phase_lock,
    replayed,
)


def broken(recorded: Recorded) -> list[str]:
    """What does not hold, one line a promise."""
    return [f"{promise.__name__}: {wrong}" for promise in PROMISES if (wrong := promise(recorded))]
