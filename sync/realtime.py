"""Real-time scheduling, where the system permits it; one clear line where it does not.

Scheduling class and core belong to a thread, locked memory to the process. A run without permission is still a run,
only with more jitter: every function returns what it could not do as a sentence that says how to grant it, and goes
on.
"""

import ctypes
import gc
import os
import resource
import sys

from sync.config import Realtime

_MCL_CURRENT, _MCL_FUTURE = 1, 2
GRANT = "grant it with `ulimit -r 98 -l unlimited`, or rtprio and memlock in /etc/security/limits.conf"


def cores(config: Realtime) -> tuple[int | None, int | None]:
    """(core of acquisition and wire, core of the loop); None where the scheduler shall choose.

    A block passes four threads on its way (producer, two of ZeroMQ, receiver). On one core that is four switches of
    context; spread over cores each is a wake-up of an idle core, which doubled the transfer time on a virtual machine.
    The loop has the other end of the machine for itself.
    """
    if not config.enabled:
        return None, None
    there = sorted(os.sched_getaffinity(0))
    automatic = (there[0], there[-1]) if len(there) > 1 else (None, None)
    asked = (config.daq_core, config.sim_core)
    chosen = [
        auto if core == "auto" else None if core == "any" else core for core, auto in zip(asked, automatic, strict=True)
    ]
    return chosen[0], chosen[1]


def this_thread(priority: int, core: int | None = None) -> list[str]:
    """SCHED_FIFO and, if given, a core of its own for the calling thread."""
    refused = []
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
    except (PermissionError, OSError):
        refused.append(f"real-time priority not permitted: wake-ups will jitter; {GRANT}")
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
    if ctypes.CDLL(None, use_errno=True).mlockall(_MCL_CURRENT | _MCL_FUTURE) != 0:
        return [f"memory could not be locked ({os.strerror(ctypes.get_errno())}); {GRANT}"]
    return []
