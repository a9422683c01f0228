"""Real-time where it is permitted, one clear sentence where it is not, and a run either way.

What a thread or process is granted stays with it, so all of this happens in processes of its own.
"""

import ctypes
import os
from types import SimpleNamespace

import pytest

from sync.config.config import Realtime
from sync.process import realtime
from sync.process.service import Worker
from tests.sync.actors import Actor

NOBODY = 65534
GRANTS = ("ulimit -r", "/etc/security/limits.conf")

WITHOUT_RIGHTS = """
resource.setrlimit(resource.RLIMIT_RTPRIO, (0, 0))
try:
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (memlock, memlock))
except ValueError:
    pass  # less than that to begin with
try:
    os.setgroups([])
    os.setgid(nobody)
    os.setuid(nobody)
except PermissionError:
    pass  # nobody special to begin with
"""


@pytest.fixture
def unprivileged(request: pytest.FixtureRequest, actor: Actor) -> Actor:
    """A process without rights; its parameter is how many bytes it may lock."""
    actor.do(WITHOUT_RIGHTS, nobody=NOBODY, memlock=getattr(request, "param", 65536))
    return actor


@pytest.fixture
def privileged(actor: Actor) -> Actor:
    if not actor.do("realtime.permitted(50)"):
        pytest.skip("real-time priority is not permitted here")
    return actor


def test_a_priority_that_is_not_permitted_is_one_sentence_that_says_how_to_grant_it(unprivileged: Actor) -> None:
    (said,) = unprivileged.do("realtime.this_thread(80)")
    assert "real-time priority" in said and "not permitted" in said
    assert all(grant in said for grant in GRANTS)
    assert "\n" not in said
    assert unprivileged.do("os.sched_getscheduler(0) == os.SCHED_OTHER")  # and it goes on
    assert not unprivileged.do("realtime.permitted(80)")


@pytest.mark.parametrize("unprivileged", [65536, 1 << 36], indirect=True, ids=["hardly any", "all there is so far"])
def test_memory_that_may_not_be_locked_is_one_sentence_that_says_how_to_grant_it(unprivileged: Actor) -> None:
    (said,) = unprivileged.do("realtime.this_process(True)")
    assert "memory" in said
    assert all(grant in said for grant in GRANTS)
    assert "\n" not in said
    assert unprivileged.do("realtime.this_process(False)") == []
    # nothing is locked that would let a later allocation fail
    assert "VmLck:\t       0 kB" in unprivileged.do("open('/proc/self/status').read()")
    assert unprivileged.do("len(bytearray(100_000_000))") == 100_000_000


def test_a_core_that_is_not_there_is_one_sentence_that_says_which_are(actor: Actor) -> None:
    allowed = actor.do("sorted(os.sched_getaffinity(0))")
    said = actor.do("realtime.this_thread(50, 4095)")[-1]
    assert "core 4095 cannot be had" in said
    assert said.endswith(", ".join(map(str, allowed)))
    assert actor.do("sorted(os.sched_getaffinity(0))") == allowed


def test_a_core_of_its_own_needs_no_rights(unprivileged: Actor) -> None:
    last = unprivileged.do("max(os.sched_getaffinity(0))")
    (said,) = unprivileged.do("realtime.this_thread(50, last)", last=last)
    assert "priority" in said
    assert unprivileged.do("list(os.sched_getaffinity(0))") == [last]


def test_what_is_permitted_is_done(privileged: Actor) -> None:
    assert privileged.do("realtime.this_thread(50)") == []
    assert privileged.do("[os.sched_getscheduler(0) == os.SCHED_FIFO, os.sched_getparam(0).sched_priority]") == [
        True,
        50,
    ]


def test_a_priority_that_groups_refuse_is_a_sentence_that_names_the_group(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "/proc/self/status": "CapEff:\t000001ffffffffff",
        "/proc/self/cgroup": "3:cpu:/own",
        "/sys/fs/cgroup/cpu/own/cpu.rt_runtime_us": "0",
    }
    monkeypatch.setattr(realtime.group_scheduling, "text", lambda path: files.get(str(path), ""))
    monkeypatch.setattr(os, "sched_setscheduler", _refuse)
    (said,) = realtime.this_thread(50)
    assert "/sys/fs/cgroup/cpu/own/cpu.rt_runtime_us" in said and "ulimit" not in said
    assert "\n" not in said


def _refuse(*_: object) -> None:
    raise PermissionError


SLACK = "ctypes.CDLL(None).prctl(30, 0, 0, 0, 0)"  # PR_GET_TIMERSLACK


def test_a_thread_that_keeps_time_has_its_sleeps_rounded_up_by_a_nanosecond_at_most(unprivileged: Actor) -> None:
    unprivileged.do("import ctypes")
    assert unprivileged.do(SLACK) > 1  # as the kernel has it
    unprivileged.do(f"there = []; keep = lambda: (realtime.this_thread(50), there.append({SLACK}))")
    unprivileged.do("t = threading.Thread(target=keep); t.start(); t.join()")
    assert unprivileged.do("there") == [1]
    assert unprivileged.do(SLACK) > 1  # it belongs to the thread


def test_a_worker_sleeps_exactly_without_real_time_too() -> None:
    slack = ctypes.CDLL(None).prctl
    off = SimpleNamespace(realtime=Realtime(enabled=False))
    worker = Worker("timer", lambda: slack(30, 0, 0, 0, 0), off, 50)  # type: ignore[arg-type]
    worker.start()
    worker.join()
    assert worker.result == 1


CORES_LEFT = [
    # cores there are, those of everything but the loop
    ([0], [0]),
    ([0, 1], [0]),
    ([0, 1, 2, 3], [1, 2]),
]


@pytest.mark.parametrize(("there", "left"), CORES_LEFT)
def test_everything_but_the_loop_keeps_off_its_core_and_off_the_acquisitions_where_there_are_enough(
    there: list[int], left: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(realtime, "own_cores", lambda: frozenset(there))
    assert sorted(realtime.cores_beside(Realtime())) == left


def test_a_priority_belongs_to_the_thread_that_asked_for_it(privileged: Actor) -> None:
    privileged.do("said = []; t = threading.Thread(target=lambda: said.append(realtime.this_thread(50)))")
    privileged.do("t.start(); t.join()")
    assert privileged.do("said") == [[]]
    assert privileged.do("os.sched_getscheduler(0) == os.SCHED_OTHER")


def test_asking_what_is_permitted_changes_nothing(privileged: Actor) -> None:
    assert privileged.do("os.sched_getscheduler(0) == os.SCHED_OTHER")


def test_locked_memory_is_locked(privileged: Actor) -> None:
    if (said := privileged.do("realtime.this_process(True)")) != []:
        pytest.skip(said[0])
    locked = privileged.do("[line for line in open('/proc/self/status') if line.startswith('VmLck')][0]")
    assert int(locked.split()[1]) > 1000


CORES = [
    # (daq_core, sim_core), cores there are, what is chosen
    (("auto", "auto"), [0, 1], [0, 1]),
    (("auto", "auto"), [0], [None, None]),
    (("any", "auto"), [0, 1], [None, 1]),
    (("auto", "any"), [0, 1], [0, None]),
    ((1, 0), [0, 1], [1, 0]),
    ((7, "auto"), [0], [7, None]),
]


@pytest.mark.parametrize("asked,there,chosen", CORES)
def test_cores_are_chosen_among_those_there_are(
    actor: Actor, asked: tuple[int | str, int | str], there: list[int], chosen: list[int | None]
) -> None:
    if not set(there) <= os.sched_getaffinity(0):
        pytest.skip(f"needs the cores {there}")
    actor.do("os.sched_setaffinity(0, there)", there=there)
    assert actor.do("realtime.cores(Realtime(daq_core=daq, sim_core=sim))", daq=asked[0], sim=asked[1]) == chosen


def test_without_real_time_no_core_is_chosen() -> None:
    assert realtime.cores(Realtime(enabled=False, daq_core=0, sim_core=1)) == (None, None)
