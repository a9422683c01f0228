"""The restart policy: what a heartbeat says, and what it does not."""

import os
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sync.config.config import load
from sync.ring.follower import RingFollower
from sync.ring.ring import HEARTBEAT_WORD, RingWriter, poke, push
from tandem.live.supervisor.launch import SIM
from tandem.live.supervisor.restart_policy import Slot
from tests.tandem.runs import CONFIGS

S = 10**9


class Watched:
    """A slot whose process is this one, with heartbeats and looks at instants of our choice."""

    def __init__(self) -> None:
        config = load(CONFIGS / "drive.toml", [f"name=keep_{os.getpid()}"])
        self.ring = RingWriter(config.ring("sim"), config.daq.layout, 16)
        self.killed: list[float] = []
        self.said: list[str] = []
        self.now = 1000.0
        self.service: Any = SimpleNamespace(
            pid=os.getpid(),
            code=None,
            statuses=0,
            status={},
            kill=lambda: self.killed.append(self.now),
            exit_message=lambda: "the simulator was killed by SIGKILL",
        )
        follower = RingFollower(config.ring("sim"))
        group: Any = SimpleNamespace(reap=lambda _: None, start=lambda _: SimpleNamespace(code=None))
        self.slot = Slot(
            SIM, self.service, lambda _: None, config.supervision, group, self.said.append, follower, []
        )  # fmt: skip
        self.slot._since = self.now

    def step(self) -> None:
        push(self.ring.words, np.zeros(self.ring.layout.words, np.int64))

    def look(self, at: float, heartbeat: float, trusted: bool = True) -> bool:
        """Whether it was killed by now."""
        self.now = at
        poke(self.ring.words, HEARTBEAT_WORD, round(heartbeat * S))
        assert self.slot.check(at, 0.0, trusted) is None
        return bool(self.killed)

    def close(self) -> None:
        self.slot.close()
        self.ring.close()


@pytest.fixture
def watched() -> Iterator[Watched]:
    made = Watched()
    made.step()
    yield made
    made.close()


def test_a_process_without_a_heartbeat_is_killed_once_and_not_before(watched: Watched) -> None:
    assert not watched.look(1000.0, 1000.0)
    assert not watched.look(1000.0 + SIM.silent_s - 0.01, 1000.0)
    assert watched.look(1000.0 + SIM.silent_s + 0.01, 1000.0)
    assert watched.look(1010.0, 1000.0)
    assert len(watched.killed) == 1
    assert watched.said == [f"the simulator has not moved for {SIM.silent_s:.1f} s: killed"]


def test_a_heartbeat_is_as_old_as_it_was_at_the_look_whenever_it_is_read(watched: Watched) -> None:
    """Everything is stopped between the look at the clock and that at the heartbeat: real time is far beyond both."""
    assert not watched.look(1000.0, 999.9)
    assert not watched.look(1000.05, 999.95)


def test_after_everything_was_stopped_a_process_has_time_to_move_again(watched: Watched) -> None:
    assert not watched.look(1000.0, 1000.0)
    assert not watched.look(1010.0, 1000.0, trusted=False)
    assert not watched.look(1010.4, 1000.0)
    assert watched.look(1010.6, 1000.0)


@pytest.mark.parametrize("worked", [True, False])
def test_a_process_that_crashed_is_replaced_if_its_ring_says_that_it_worked(worked: bool) -> None:
    """However much happened since the last look, which saw neither a step nor a crash."""
    watched = Watched()
    try:
        assert not watched.look(1000.0, 1000.0)
        if worked:
            watched.step()
        watched.service.code = -9
        given_up = watched.slot.check(1000.01, 0.0, True)
        assert (given_up is None) == worked
        assert (watched.slot.service is not None) == worked
        assert watched.said == (
            ["the simulator was killed by SIGKILL; another takes its place in 0.1 s"] if worked else []
        )
    finally:
        watched.close()
