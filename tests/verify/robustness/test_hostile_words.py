"""Nothing that a record holds makes a step read or write beyond its arrays, or go on without end: a sample of the cases
of verify/robustness/hostile_words.py, with the kernels of every run. All cases, with bounds checked, are in the
drill."""

import os
import signal

import pytest

from verify.robustness.hostile_words import (
    FAULTS,
    MACHINES,
    OUT_OF_BOUNDS,
    RAN,
    VERDICTS,
    Subject,
    judge,
    machine_commands,
    machine_words,
    mechanism_words,
)

SAMPLED = [name for name in MACHINES if name not in ("swerve", "observer of buggy", "sensed buggy")]


@pytest.mark.parametrize("name", SAMPLED)
def test_recorded_words_and_commands_stay_within_their_arrays(name: str) -> None:
    for subject in (machine_words(name, guard=True), machine_commands(name)):
        found = judge(subject, max(subject.words // 12, 1), 1)
        assert not found["faults"], found
        assert found["verdicts"].keys() <= set(VERDICTS) - {VERDICTS[v] for v in FAULTS}
        assert sum(found["verdicts"].values()) == found["cases"] >= 12


def test_recorded_words_of_a_mechanism_stay_within_their_arrays() -> None:
    subject = mechanism_words("spatial_slider_crank", guard=True)
    assert not judge(subject, subject.words // 40, 1)["faults"]


def test_the_check_finds_what_it_looks_for() -> None:
    """A process that a case ends is a fault of that case, and the rest goes on."""

    def run(word: int, value: float) -> tuple[int, float]:
        if value == 2.0:
            os.kill(os.getpid(), signal.SIGSEGV)
        return (OUT_OF_BOUNDS if value == 1e9 else RAN), 0.0

    found = judge(Subject("made up", 3, run), 1, 2)
    assert found["verdicts"] == {"ran": 27, "crashed": 3, "out of bounds": 3}
    assert {(fault["word"], fault["value"], fault["verdict"]) for fault in found["faults"]} == {
        (word, value, verdict)
        for word in range(3)
        for value, verdict in (("2.0", "crashed"), ("1000000000.0", "out of bounds"))
    }
