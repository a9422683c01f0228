"""Real-time scheduling, where the system permits it; one clear line where it does not.

Scheduling class and core belong to a thread, locked memory to the process. A run without permission is still a run,
only with more jitter: every function returns what it could not do as a sentence that says how to grant it, and goes
on.
"""

import ctypes
import functools
import gc
import os
import resource
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from sync.config.config import Realtime
from sync.process import group_scheduling

_SET_TIMERSLACK, _GET_TIMERSLACK = 29, 30  # prctl
_MCL_CURRENT, _MCL_FUTURE, _MCL_ONFAULT = 1, 2, 4
GRANT = "grant it with `ulimit -r 98 -l unlimited`, or rtprio and memlock in /etc/security/limits.conf"


def cores(config: Realtime) -> tuple[int | None, int | None]:
    """(core of acquisition and wire, core of the loop); None if the scheduler is to choose.

    A block passes four threads on its way (producer, two of ZeroMQ, receiver). On one core that is four switches of
    context; spread over cores each is a wake-up of an idle core, which doubled the transfer time on a virtual machine.
    The loop runs alone on the last core.
    """
    if not config.enabled:
        return None, None
    there = sorted(own_cores())
    automatic = (there[0], there[-1]) if len(there) > 1 else (None, None)
    named = (config.daq_core, config.sim_core)
    chosen = [
        auto if core == "auto" else None if core == "any" else core for core, auto in zip(named, automatic, strict=True)
    ]
    return chosen[0], chosen[1]


@functools.cache
def own_cores() -> frozenset[int]:
    """The cores that this process had at the first call: its threads leave some of them later (`off_the_loop`)."""
    return frozenset(os.sched_getaffinity(0))


def cores_beside(config: Realtime) -> frozenset[int]:
    """The cores for everything but the loop: not the loop's and, if there are enough, not that of acquisition and wire.
    Otherwise the loop would wait for these threads or, with real-time priority, for what the kernel does not
    interrupt."""
    acquisition, loop = cores(config)
    left = own_cores() - {loop}
    return left - {acquisition} if len(left) > 1 else left or own_cores()


def off_the_loop(config: Realtime, *threads: int) -> None:
    """Move these threads, or the calling one, off the loop's core, with all threads that they start from now on."""
    if config.enabled:
        for thread in threads or (0,):
            with suppress(OSError):  # the thread has ended, or may not be moved
                os.sched_setaffinity(thread, cores_beside(config))


def exact_sleep() -> int:
    """Make sleeps of the calling thread exact; returns by how many ns they may still be late. Without real-time
    priority the kernel rounds sleeps up, by default by 50 us. (Bare loop on x86: late by 54 us before, by 5 after.)"""
    libc = ctypes.CDLL(None)
    libc.prctl(_SET_TIMERSLACK, ctypes.c_ulong(1), 0, 0, 0)
    return int(libc.prctl(_GET_TIMERSLACK, 0, 0, 0, 0))


def _granted(priority: int) -> str:
    """How to get a real-time priority that was refused, which depends on what refuses it."""
    found = group_scheduling.reason(priority)
    return GRANT if found is None else f"{found[0]}; {found[1]}"


def this_thread(priority: int, core: int | None = None) -> list[str]:
    """SCHED_FIFO and, if given, a core of its own for the calling thread."""
    exact_sleep()
    refused = []
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
    except (PermissionError, OSError):
        refused.append(f"real-time priority not permitted: wake-ups will jitter; {_granted(priority)}")
    if core is not None:
        try:
            os.sched_setaffinity(0, {core})
        except OSError:
            cores = ", ".join(str(c) for c in sorted(os.sched_getaffinity(0)))
            refused.append(f"core {core} cannot be had: this process may run on {cores}")
    return refused


def permitted(priority: int) -> bool:
    """Whether a thread of ours may have this real-time priority (tried on the calling thread, and undone)."""
    policy, param = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
    except (PermissionError, OSError):
        return False
    os.sched_setscheduler(0, policy, param)
    return True


@contextmanager
def at_ease() -> Iterator[None]:
    """Take real-time priority from the calling thread meanwhile: for long work that nothing waits for."""
    policy, param = os.sched_getscheduler(0), os.sched_getparam(0)
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    try:
        yield
    finally:
        with suppress(OSError):  # the permission was taken away meanwhile
            os.sched_setscheduler(0, policy, param)


def this_process(lock_memory: bool) -> list[str]:
    """Lock memory, keep the garbage collector off start-up objects, set a short GIL interval; returns refusals."""
    gc.collect()
    gc.freeze()
    # a thread that wakes up waits this long for one that computes; the default of 5 ms is a whole step
    sys.setswitchinterval(0.0002)
    if not lock_memory:
        return []
    unlimited = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] == resource.RLIM_INFINITY
    if not unlimited and os.geteuid() != 0:
        # below a limit MCL_FUTURE would let a later allocation fail, which is worse than paging
        return [f"locked memory is limited: pages may be swapped; {GRANT}"]
    if ctypes.CDLL(None, use_errno=True).mlockall(_MCL_CURRENT | _MCL_FUTURE | _MCL_ONFAULT) != 0:
        return [f"memory could not be locked ({os.strerror(ctypes.get_errno())}); {GRANT}"]
    return []


# ---- a wire that is flooded ------------------------------------------------------------------------------------------

_FLOODED = 0.7  # share of a core, at two polls in a row
_QUIET = 0.35  # share of a core
_QUIET_NS = 5_000_000_000  # so long below that until a thread gets its priority back; longer each time
_MOST_QUIET = 12
_FIND_POLLS = 40  # polls between searches for libzmq's threads, and sums over all threads of a core
_FORGOTTEN_NS = 600_000_000_000  # after so long without a flood earlier ones no longer count
_CROWDED = 0.85  # share of a core for all our real-time threads together; the kernel allows 0.95
_CROWDED_NS = 500_000_000  # a share over less time than this means nothing


@dataclass
class _Watched:
    used_ns: int
    at_ns: int
    hot: int = 0
    priority: int = 0  # the priority that was taken away; 0: none was
    times: int = 0
    hot_ns: int = 0


class Warden:
    """Takes real-time priority from threads of the wire that are flooded.

    Threads that serve others have a higher priority than the sampling on the same core, which is right as long as they
    have little to do. A thread that is busy most of the time is being flooded: it would starve the sampling, and at
    95 % of a core the kernel stops every real-time thread there for a while. It then runs without real-time priority
    until it has been quiet for some seconds. This watches libzmq's own threads, and those given to `watch`.

    The kernel counts all real-time threads of a core together, so those of this process, the sampling and the loop
    included, are also added up; other processes on that core are not known here.
    """

    def __init__(self) -> None:
        self.flooded = 0  # times that a thread lost its priority
        self._registered: list[threading.Thread] = []
        self._watched: dict[int, _Watched] = {}
        self._polls = 0
        self._used: dict[int, int] = {}  # ns, of every real-time thread that is bound to one core
        self._used_at_ns = 0
        self._crowded: dict[int, str] = {}
        self._refused = ""

    @property
    def notices(self) -> list[str]:
        """Messages for the user."""
        return [*self._crowded.values(), *([self._refused] if self._refused else [])]

    def watch(self, *threads: threading.Thread) -> None:
        self._registered += threads
        self._polls = 0

    def poll(self) -> None:
        """To be called some forty times a second."""
        if self._polls % _FIND_POLLS == 0:
            self._find()
            self._add_up()
        self._polls += 1
        for thread, watched in list(self._watched.items()):
            try:
                self._weigh(thread, watched)
            except OSError:  # it has ended
                del self._watched[thread]

    def _find(self) -> None:
        found = {t.native_id for t in self._registered if t.is_alive() and t.native_id is not None}
        for task in Path("/proc/self/task").glob("*"):
            try:
                if (task / "comm").read_text().startswith("ZMQbg/IO"):
                    found.add(int(task.name))
            except OSError:
                continue
        for thread in found - set(self._watched):
            try:
                self._watched[thread] = _Watched(_used_ns(thread), time.monotonic_ns())
            except OSError:
                continue

    def _add_up(self) -> None:
        now = time.monotonic_ns()
        if now - self._used_at_ns < _CROWDED_NS:
            return
        used: dict[int, int] = {}
        shares: dict[int, float] = {}
        for task in os.listdir("/proc/self/task"):
            thread = int(task)
            try:
                if os.sched_getscheduler(thread) != os.SCHED_FIFO or len(on := os.sched_getaffinity(thread)) != 1:
                    continue
                used[thread] = _used_ns(thread)
            except OSError:  # it has ended
                continue
            core = min(on)
            since = used[thread] - self._used.get(thread, used[thread])
            shares[core] = shares.get(core, 0.0) + since / (now - self._used_at_ns)
        self._used, self._used_at_ns = used, now
        for core, share in shares.items():
            if share > _CROWDED and core not in self._crowded:
                self._crowded[core] = (
                    f"real-time threads use {100 * share:.0f} % of core {core}: the kernel stops them beyond 95 %; give"
                    " another core (realtime.daq_core), fewer subscribers or a lower rate"
                )

    def _weigh(self, thread: int, watched: _Watched) -> None:
        used, now = _used_ns(thread), time.monotonic_ns()
        share = (used - watched.used_ns) / max(now - watched.at_ns, 1)
        watched.used_ns, watched.at_ns = used, now
        if not watched.priority:
            in_real_time = os.sched_getscheduler(thread) == os.SCHED_FIFO  # without real-time priority it harms nothing
            watched.hot = watched.hot + 1 if share > _FLOODED and in_real_time else 0
            if now - watched.hot_ns > _FORGOTTEN_NS:
                watched.times = 0
            if watched.hot >= 2:
                watched.priority = os.sched_getparam(thread).sched_priority
                os.sched_setscheduler(thread, os.SCHED_OTHER, os.sched_param(0))
                watched.hot, watched.hot_ns, watched.times = 0, now, watched.times + 1
                self.flooded += 1
        elif share > _QUIET:
            watched.hot_ns = now
        elif now - watched.hot_ns > _QUIET_NS * min(watched.times, _MOST_QUIET):
            try:
                os.sched_setscheduler(thread, os.SCHED_FIFO, os.sched_param(watched.priority))
                watched.priority = 0
            except PermissionError:  # it stays watched; another attempt follows after the next quiet time
                how = _granted(watched.priority)
                self._refused = f"a thread of the wire does not get its real-time priority back; {how}"
            watched.hot_ns = now


def _used_ns(thread: int) -> int:
    """Processor time that a thread of ours has used so far (its clock, as the kernel numbers them)."""
    return time.clock_gettime_ns(~thread << 3 | 6)
