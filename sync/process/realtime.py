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
    """(core of acquisition and wire, core of the loop); None where the scheduler shall choose.

    A block passes four threads on its way (producer, two of ZeroMQ, receiver). On one core that is four switches of
    context; spread over cores each is a wake-up of an idle core, which doubled the transfer time on a virtual machine.
    The loop has the other end of the machine for itself.
    """
    if not config.enabled:
        return None, None
    there = sorted(own_cores())
    automatic = (there[0], there[-1]) if len(there) > 1 else (None, None)
    asked = (config.daq_core, config.sim_core)
    chosen = [
        auto if core == "auto" else None if core == "any" else core for core, auto in zip(asked, automatic, strict=True)
    ]
    return chosen[0], chosen[1]


@functools.cache
def own_cores() -> frozenset[int]:
    """The cores of this process: those of its first look, for its threads leave some of them (`off_the_loop`)."""
    return frozenset(os.sched_getaffinity(0))


def cores_beside(config: Realtime) -> frozenset[int]:
    """Where everything but the loop runs: not on its core and, where there are enough, not on that of acquisition and
    wire. Without real-time priority the loop would wait there; with it, for what the kernel does not interrupt."""
    acquisition, loop = cores(config)
    left = own_cores() - {loop}
    return left - {acquisition} if len(left) > 1 else left or own_cores()


def off_the_loop(config: Realtime, *threads: int) -> None:
    """These threads, or the calling one, and all they start from now on."""
    if config.enabled:
        for thread in threads or (0,):
            with suppress(OSError):  # it has ended, or is not ours to move
                os.sched_setaffinity(thread, cores_beside(config))


def exact_sleep() -> int:
    """Without real-time priority the kernel rounds every sleep of a thread up, by 50 us unless the thread says
    otherwise: the calling one by no more than what is returned, in ns. (Bare loop on x86: late by 54 us, then by 5.)"""
    libc = ctypes.CDLL(None)
    libc.prctl(_SET_TIMERSLACK, ctypes.c_ulong(1), 0, 0, 0)
    return int(libc.prctl(_GET_TIMERSLACK, 0, 0, 0, 0))


def _granted(priority: int) -> str:
    """How to get a real-time priority that was refused: by what refuses it."""
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
    """The calling thread without real-time priority: for work that takes long, and that nothing waits for."""
    policy, param = os.sched_getscheduler(0), os.sched_getparam(0)
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    try:
        yield
    finally:
        with suppress(OSError):  # taken away meanwhile
            os.sched_setscheduler(0, policy, param)


def this_process(lock_memory: bool) -> list[str]:
    """Memory that is not paged out, a collector that leaves start-up objects alone, and a short GIL interval."""
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

_FLOODED = 0.7  # of a core, at two looks one after the other
_QUIET = 0.35  # of a core
_QUIET_NS = 5_000_000_000  # so long below before it has its priority back; longer each time
_MOST_QUIET = 12
_FIND_LOOKS = 40  # between looks for threads of libzmq's, and at all threads of a core together
_FORGOTTEN_NS = 600_000_000_000  # so long without a flood, and it is as if there had been none
_CROWDED = 0.85  # of a core, for all real-time threads of ours; the kernel lets them have 0.95
_CROWDED_NS = 500_000_000  # over less than this a share means nothing


@dataclass
class _Watched:
    used_ns: int
    at_ns: int
    hot: int = 0
    priority: int = 0  # taken away; 0: not
    times: int = 0
    hot_ns: int = 0


class Warden:
    """Real time only for a wire that behaves.

    Threads that serve others run above the sampling on the same core, which is right as long as there is little to do.
    One that does nothing else any more is being flooded: it would starve the sampling, and at 95 % of a core the
    kernel stops every real-time thread there for a while. It then runs like any program until it has been quiet for
    some seconds. Watched are libzmq's own threads, and those given to `watch`.

    What the kernel stops is all real-time threads of a core together, so those of this process, the sampling and the
    loop too, are also added up; of other processes on that core nothing is known here.
    """

    def __init__(self) -> None:
        self.flooded = 0  # times that a thread lost its priority
        self._registered: list[threading.Thread] = []
        self._watched: dict[int, _Watched] = {}
        self._looks = 0
        self._used: dict[int, int] = {}  # ns, of every real-time thread that has a core
        self._used_at_ns = 0
        self._crowded: dict[int, str] = {}
        self._refused = ""

    @property
    def notices(self) -> list[str]:
        """Messages for the user."""
        return [*self._crowded.values(), *([self._refused] if self._refused else [])]

    def watch(self, *threads: threading.Thread) -> None:
        self._registered += threads
        self._looks = 0

    def look(self) -> None:
        """To be called some forty times a second."""
        if self._looks % _FIND_LOOKS == 0:
            self._find()
            self._add_up()
        self._looks += 1
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
            in_real_time = os.sched_getscheduler(thread) == os.SCHED_FIFO  # otherwise it is at ease, and no trouble
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
            except PermissionError:  # it stays watched, and is tried again after the next quiet time
                how = _granted(watched.priority)
                self._refused = f"a thread of the wire does not get its real-time priority back; {how}"
            watched.hot_ns = now


def _used_ns(thread: int) -> int:
    """Time of a core that a thread of ours has used so far (its clock, numbered as the kernel numbers them)."""
    return time.clock_gettime_ns(~thread << 3 | 6)
