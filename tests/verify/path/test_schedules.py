"""The loop on random schedules in virtual time (verify/path/schedules.py): some in every run of the tests, and proof
that a broken promise is found."""

from collections.abc import Callable

import numpy as np
import pytest

from sim_service import step_record as rec
from sync.virtual_clock import AT, BLOCK, KIND, PUSH
from verify.path import schedule_promises as promises
from verify.path.schedule import CALM, SETTINGS, Recorded, Setup, run
from verify.path.schedules import one


@pytest.mark.parametrize("first", range(1, 281, 28))
def test_every_promise_holds_on_random_schedules(first: int) -> None:
    for seed in range(first, first + 28):
        assert promises.broken(one(seed, "trivial")) == [], f"python -m verify schedules --only {seed}"


def test_the_same_seed_is_the_same_to_the_bit() -> None:
    for seed in (3, 8, 13):
        first, again = one(seed, "trivial"), one(seed, "trivial")
        assert first.steps.tobytes() == again.steps.tobytes() and len(first.steps) > 0
        assert (first.script == again.script).all()


def test_schedules_are_as_wild_as_they_are_meant_to_be() -> None:
    """Every state the promises speak of occurs; otherwise they would say little."""
    seen = ended = rehearsed = 0
    for seed in range(1, 281):
        recorded = one(seed, "trivial")
        rehearsed += int(recorded.stage.simulation.counters[rec.REHEARSED]) if recorded.read_ns else 0
        seen |= int(np.bitwise_or.reduce(recorded.steps["status"], initial=0))
        for segment in recorded.segments:
            ended |= 1 << segment.ended
    for bit in (
        rec.STALE, rec.REPEATED, rec.NEW_EPOCH, rec.MISSED, rec.SKIPPED, rec.LOCKED, rec.HOLDOVER, rec.LAPPED,
        rec.WAITED, rec.RESTARTED, rec.SLOWED,
    ):  # fmt: skip
        assert seen & bit, rec.STATUS[bit]
    assert rehearsed > 100  # where that it ends in time is asserted
    for how in (rec.STOPPED, rec.RING_CLOSED, rec.INPUT_LOST):
        assert ended & 1 << how


def _wild() -> Recorded:
    """Steps enough, each of which has several blocks before it."""
    return next(r for seed in range(3, 400, 7) if len((r := one(seed, "trivial")).steps) > 40)


def _second_newest(recorded: Recorded) -> None:
    """As a loop that takes the block before the newest would have recorded it."""
    steps = recorded.steps[5:]
    pushes = recorded.script[recorded.script[:, KIND] == PUSH]
    seq = np.maximum(steps["input_seq"] - 1, 0)
    steps["input_seq"] = seq
    steps["input_t_ns"] = pushes[seq, BLOCK + 2]


def _too_early(recorded: Recorded) -> None:
    pushes = recorded.script[:, KIND] == PUSH
    recorded.script[pushes, AT] += 3_000_000


def _lost_block(recorded: Recorded) -> None:
    recorded.segments[0].superseded -= 1


def _another_age(recorded: Recorded) -> None:
    recorded.steps["input_age_ns"][3] += 1


def _endless_chase(recorded: Recorded) -> None:
    recorded.steps["status"] |= rec.MISSED
    recorded.steps["status"] &= ~rec.SKIPPED


def _other_bits(recorded: Recorded) -> None:
    recorded.steps["sum"].view(np.int64)[7] ^= 1


def _deaf(recorded: Recorded) -> None:
    recorded.steps["commands"] += 1


@pytest.mark.parametrize(
    ("mutate", "promise"),
    [
        (_second_newest, "newest_block"),
        (_too_early, "newest_block"),
        (_lost_block, "balance"),
        (_another_age, "ages"),
        (_endless_chase, "catching_up"),
        (_other_bits, "replayed"),
        (_deaf, "commanded"),
    ],
)
def test_a_loop_that_breaks_a_promise_is_caught(mutate: Callable[[Recorded], None], promise: str) -> None:
    recorded = _wild()
    assert promises.broken(recorded) == []
    recorded.stage.begin()  # the twin, for the replay
    mutate(recorded)
    assert any(found.startswith(promise) for found in promises.broken(recorded))


def test_a_lock_that_is_not_found_is_caught() -> None:
    recorded = run(Setup(SETTINGS[CALM], "trivial"), 8, calm=True)
    assert promises.phase_lock(recorded) is None
    recorded.steps["status"][100] &= ~(rec.LOCKED | rec.HOLDOVER)
    assert promises.phase_lock(recorded) == "step 100 is not locked"
