"""Why SCHED_FIFO is refused to a process that has the right to it: real-time group scheduling.

A kernel built with CONFIG_RT_GROUP_SCHED gives each control group its own real-time budget, and a group without one
may run no real-time thread, whatever the capabilities of its processes. Under cgroup v1 the budget is the group's
`cpu.rt_runtime_us`, 0 for a new group; v2 has no such file, and only its root group may run them.
`sched_rt_runtime_us` is the budget of the whole machine.
"""

import gzip
import os
import resource
from pathlib import Path

_SYS_NICE = 23  # the bit of CAP_SYS_NICE
_BUDGET_US = 950_000


def text(path: str | Path) -> str:
    """A file of /proc or /sys, stripped; empty where this kernel does not have it."""
    try:
        return Path(path).read_text(errors="replace").strip("\0 \n")
    except OSError:
        return ""


def allowed_by_right(priority: int) -> bool:
    """Whether capability or limit would permit this priority, so that something else must have refused it."""
    for line in text("/proc/self/status").splitlines():
        if line.startswith("CapEff:") and int(line.split()[1], 16) >> _SYS_NICE & 1:
            return True
    limit = resource.getrlimit(resource.RLIMIT_RTPRIO)[0]
    return limit == resource.RLIM_INFINITY or limit >= priority


def reason(priority: int) -> tuple[str, str] | None:
    """(what refuses this priority, what to do about it) to a process that has the right to it; None to one without."""
    if not allowed_by_right(priority):
        return None
    return _by_groups() or (
        "something other than permissions or groups refuses it",
        "look for a security policy (seccomp, SELinux) of the container or service that runs it",
    )


def _by_groups() -> tuple[str, str] | None:
    if text("/proc/sys/kernel/sched_rt_runtime_us") == "0":
        return (
            "this machine has no time for real-time threads (kernel.sched_rt_runtime_us = 0)",
            f"`sudo sysctl kernel.sched_rt_runtime_us={_BUDGET_US}`",
        )
    for hierarchy, controllers, path in _groups():
        if "cpu" not in controllers:
            continue
        for mount in dict.fromkeys((f"/sys/fs/cgroup/{','.join(controllers)}", "/sys/fs/cgroup/cpu")):
            # inside a container the group is often mounted as the root
            for folder in dict.fromkeys((f"{mount}{path.rstrip('/')}", mount)):
                if text(f"{folder}/cpu.rt_runtime_us") == "0":
                    return (
                        f"real-time group scheduling: group {path} of hierarchy {hierarchy} has no real-time budget"
                        f" ({folder}/cpu.rt_runtime_us = 0)",
                        f"`echo {_BUDGET_US} | sudo tee {folder}/cpu.rt_runtime_us`, its parents first"
                        f" (in a container: --cpu-rt-runtime={_BUDGET_US})",
                    )
    own = next((path for _, controllers, path in _groups() if not controllers), None)
    if own is not None and _built_in() and (own != "/" or "cpu" in text("/sys/fs/cgroup/cgroup.controllers").split()):
        return (
            f"real-time group scheduling (CONFIG_RT_GROUP_SCHED): under cgroup v2 group {own} has no real-time budget",
            "run in the root group (`echo $$ | sudo tee /sys/fs/cgroup/cgroup.procs`), or boot with rt_group_sched=0",
        )
    return None


def _groups() -> list[tuple[str, list[str], str]]:
    """(hierarchy, controllers, path) of this process; under cgroup v2 there are no controllers."""
    found = []
    for line in text("/proc/self/cgroup").splitlines():
        hierarchy, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        found.append((hierarchy, controllers.split(",") if controllers else [], path))
    return found


def _built_in() -> bool:
    """Whether the kernel was built with it and not set at boot to leave it."""
    if "rt_group_sched=0" in text("/proc/cmdline").split():
        return False
    settings = text(f"/boot/config-{os.uname().release}")
    if not settings:
        try:
            settings = gzip.decompress(Path("/proc/config.gz").read_bytes()).decode(errors="replace")
        except (OSError, EOFError):
            return False
    return "CONFIG_RT_GROUP_SCHED=y" in settings.splitlines()
