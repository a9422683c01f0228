"""What the machine is, what it permits, and what is in the way: checks that look and try, but do not measure.

Each is a function from a `Case` to a `Finding`. It tries the thing itself (asks for the priority, locks the memory,
binds the ports) where that leaves nothing behind, and reads the kernel's own files where it would.
"""

import ctypes
import errno
import os
import resource
import socket
import tempfile
from pathlib import Path
from typing import Any, Literal

from sync.compile import dependencies, jit
from sync.errors import RingError, TandemError
from sync.process import group_scheduling, realtime
from sync.process.group_scheduling import text
from sync.ring.ring import SHM, RingReader
from sync.ring.streams import DAQ, SOCKETS, STREAMS, ring_name
from tandem.doctor.findings import Case, Finding, failed, passed, stolen_ticks, user, warned

_GOOD_CLOCKS = ("tsc", "arch_sys_counter", "kvm-clock", "hyperv_clocksource_tsc_page")
_SLOW_GOVERNORS = ("powersave", "conservative")

# ---- what the machine is ---------------------------------------------------------------------------------------------


def configuration(case: Case) -> Finding:
    with jit.compiling("check"):
        from daq_service.devices import open_device
        from sim_service.registry import configured_machine

        try:
            open_device(case.config, case.file)
            configured_machine(case.config, case.file.parent)
        except TandemError as error:
            return failed(str(error), f"edit {case.file} as the message says")
    return passed(f"{case.file} opens its source and its machine")


def cores(case: Case) -> Finding:
    there, own = os.cpu_count() or 1, sorted(os.sched_getaffinity(0))
    figures: dict[str, Any] = {"cores": there, "affinity": own}
    times = case.config.realtime
    unavailable = [core for core in (times.daq_core, times.sim_core) if isinstance(core, int) and core not in own]
    if times.enabled and unavailable:
        return failed(
            f"core {unavailable[0]} is configured, but this process may run on {', '.join(map(str, own))} only",
            f'set realtime.daq_core and realtime.sim_core in {case.file} to one of these, or to "auto"',
            **figures,
        )
    quota = text("/sys/fs/cgroup/cpu.max") or "max"
    if not quota.startswith("max"):
        return warned(
            f"this container's processor time is rationed (cpu.max {quota}): when it is used up, everything stops",
            "start the container without --cpus (pin it with --cpuset-cpus instead)",
            **figures,
            cpu_max=quota,
        )
    if len(own) < 2:
        return warned(
            f"{len(own)} of {there} cores is ours: acquisition and loop take turns on it",
            "give this process two cores (`taskset -c 0,1 tandem …`, or a machine with more)",
            **figures,
        )
    daq, sim = realtime.cores(times)
    shares = f"acquisition and wire on {daq}, the loop on {sim}" if sim is not None else "no core is set apart"
    return passed(f"{len(own)} of {there} cores are ours; {shares}", **figures)


def governor(case: Case) -> Finding:
    found = {
        core: text(f"/sys/devices/system/cpu/cpu{core}/cpufreq/scaling_governor") for core in os.sched_getaffinity(0)
    }
    kinds = sorted({kind for kind in found.values() if kind})
    if not kinds:
        return passed("no frequency control here (a virtual machine, or fixed clocks)")
    slow = [kind for kind in kinds if kind in _SLOW_GOVERNORS]
    if slow:
        return warned(
            f"governor {', '.join(slow)}: a core that slept is slow when it wakes",
            "`sudo cpupower frequency-set -g performance`",
            governors=kinds,
        )
    return passed(f"governor {', '.join(kinds)}", governors=kinds)


def clock_source(case: Case) -> Finding:
    source = text("/sys/devices/system/clocksource/clocksource0/current_clocksource")
    if source in _GOOD_CLOCKS:
        return passed(f"{source}, read without a system call", clock_source=source)
    if not source:
        return passed("this kernel does not say which clock it uses", clock_source=source)
    return warned(
        f"{source}: every look at the clock is a slow system call",
        "`echo tsc | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource`, or tsc=reliable on the"
        " kernel's command line",
        clock_source=source,
    )


def virtual_machine(case: Case) -> Finding:
    maker = text("/sys/class/dmi/id/sys_vendor") + " " + text("/sys/class/dmi/id/product_name")
    known = ("qemu", "kvm", "vmware", "virtualbox", "innotek", "xen", "amazon ec2", "google compute", "virtual machine")
    signs = {
        "a hypervisor flag": "hypervisor" in text("/proc/cpuinfo").partition("flags")[2].partition("\n")[0].split(),
        maker.strip(): any(name in maker.lower() for name in known),
        "a virtual board": "virt" in text("/proc/device-tree/compatible"),
        "a hypervisor": Path("/proc/device-tree/hypervisor").exists() or bool(text("/sys/hypervisor/type")),
    }
    seen = [sign for sign, there in signs.items() if there]
    if not seen and stolen_ticks()[0] == 0:
        return passed("there is no sign of a virtual machine", virtual=False)
    return passed(
        f"a virtual machine ({seen[0] if seen else 'time was stolen'}): its host may take time from it, see timer",
        virtual=True,
    )


# ---- what the machine permits ----------------------------------------------------------------------------------------


def permission(case: Case) -> Finding:
    times = case.config.realtime
    if not times.enabled:
        return passed("not asked for (realtime.enabled = false)", asked=False)
    priorities = sorted({times.sim_priority, times.wire_priority, times.daq_priority}, reverse=True)
    refused = [priority for priority in priorities if not realtime.permitted(priority)]
    figures = {"asked": priorities, "refused": refused, "rtprio_limit": resource.getrlimit(resource.RLIMIT_RTPRIO)[0]}
    if refused and (found := group_scheduling.reason(max(refused))) is not None:
        why, remedy = found
        return warned(
            f"SCHED_FIFO with priority {', '.join(map(str, refused))} is refused although {user()} has the right to it:"
            f" {why}; wake-ups wait for ordinary programs",
            remedy,
            **figures,
        )
    if refused:
        return warned(
            f"SCHED_FIFO with priority {', '.join(map(str, refused))} is not permitted to {user()}:"
            " wake-ups wait for ordinary programs",
            f"put `{user()} - rtprio 98` into /etc/security/limits.conf and log in again"
            " (in a container: --cap-add SYS_NICE)",
            **figures,
        )
    return passed(f"SCHED_FIFO with priorities {', '.join(map(str, priorities))}", **figures)


def throttling(case: Case) -> Finding:
    runtime, period = text("/proc/sys/kernel/sched_rt_runtime_us"), text("/proc/sys/kernel/sched_rt_period_us")
    if not runtime or not period:
        return passed("this kernel does not ration real-time threads")
    share = 1.0 if int(runtime) < 0 else int(runtime) / int(period)
    if share < 0.5:
        return warned(
            f"real-time threads may use {share:.0%} of a processor",
            "`sudo sysctl kernel.sched_rt_runtime_us=950000`",
            share=share,
        )
    return passed(f"real-time threads may use {share:.0%} of a processor; ours sleep most of the time", share=share)


def locked_memory(case: Case) -> Finding:
    times = case.config.realtime
    if not (times.enabled and times.lock_memory):
        return passed("not asked for (realtime.lock_memory = false)", asked=False)
    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    unlimited = limit == resource.RLIM_INFINITY
    remedy = (
        f"put `{user()} - memlock unlimited` into /etc/security/limits.conf and log in again"
        " (in a container: --ulimit memlock=-1 --cap-add IPC_LOCK)"
    )
    figures = {"memlock_kb": None if unlimited else limit // 1024}
    if not unlimited and os.geteuid() != 0:
        return warned(
            f"{user()} may lock {limit // 1024} kB, a service needs it all: pages may be swapped", remedy, **figures
        )
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mlockall(1) != 0:  # MCL_CURRENT
        return warned(f"memory cannot be locked: {os.strerror(ctypes.get_errno())}", remedy, **figures)
    libc.munlockall()
    return passed("memory can be locked", **figures)


def pages(case: Case) -> Finding:
    huge = text("/sys/kernel/mm/transparent_hugepage/enabled")
    swaps = [line.split() for line in text("/proc/swaps").splitlines()[1:]]
    swapped_mb = sum(int(row[3]) for row in swaps) // 1024
    figures = {"transparent_hugepage": huge.partition("[")[2].partition("]")[0], "swap_used_mb": swapped_mb}
    if "[always]" in huge:
        return warned(
            "transparent huge pages are put together behind a program's back, which may stop it for a while",
            "`echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled`",
            **figures,
        )
    return passed(f"no huge pages unasked; {swapped_mb} MB are swapped out", **figures)


# ---- what is in the way ----------------------------------------------------------------------------------------------


def _owner(name: str) -> Literal["nobody", "living", "dead", "foreign"]:
    if not (SHM / name).exists():
        return "nobody"
    if not os.access(SHM / name, os.R_OK):
        return "foreign"
    try:
        ring = RingReader(name)
    except RingError:
        return "dead"  # not even its header is whole
    alive = ring.writer_alive
    ring.close()
    return "living" if alive else "dead"


def other_runs(case: Case) -> Finding:
    config = case.config
    owners = {role: _owner(config.ring(role)) for role in STREAMS}
    if "foreign" in owners.values():
        return failed(
            f"another user has rings named {config.name!r}",
            f"give this run another `name` in {case.file} or with --set name=…",
            owners=owners,
        )
    if "living" in owners.values():
        return warned(
            f"a run named {config.name!r} is going on: the figures below are disturbed",
            "wait for that run or end it, then ask again",
            owners=owners,
        )
    left = [config.ring(role) for role, owner in owners.items() if owner == "dead"]
    left += [str(config.socket(role)) for role in SOCKETS if config.socket(role).exists()]
    if left:
        return warned(f"a run that crashed left {', '.join(left)}", "the next run of this name sweeps them", left=left)
    others = [p.name for p in sorted(SHM.glob(ring_name("*", DAQ.name))) if _owner(p.name) == "living"]
    if others:
        return warned(
            f"another run is going on ({', '.join(others)}): the figures below are disturbed",
            "wait for that run or end it, then ask again",
            others=others,
        )
    return passed(f"no run named {config.name!r} is going on, and none has left anything behind")


def _refusal(host: str, port: int) -> OSError | None:
    """Why a server cannot listen there; None if it can."""
    try:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as ZeroMQ does
            probe.bind((host, port))
            probe.listen()
    except OSError as error:
        return error
    return None


def ports(case: Case) -> Finding:
    to, tcp = case.config.transport, case.config.transport.kind == "tcp"
    elsewhere = []
    for key, host, port in (("daq_port", to.daq_host, to.daq_port), ("sim_port", to.sim_host, to.sim_port)):
        error = _refusal(host, port)
        if error is None:
            continue
        if error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
            elsewhere.append(host)
            continue
        say, remark = (failed, "") if tcp else (warned, f" (but only tcp needs it, and the transport is {to.kind})")
        return say(
            f"{host}:{port} cannot be had: {error.strerror}{remark}",
            f"end the program that `ss -ltnp 'sport = :{port}'` shows, or set transport.{key} in {case.file}",
            port=port,
        )
    remark = f"; {' and '.join(elsewhere)}: not an address of this machine" if elsewhere else ""
    return passed(f"{to.daq_port} and {to.sim_port} are free{remark}", ports=[to.daq_port, to.sim_port])


def cache(case: Case) -> Finding:
    place = next(path for path in (jit.CACHE, *jit.CACHE.parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        return failed(
            f"compiled code cannot be kept in {jit.CACHE}: {error.strerror}",
            "set TANDEM_CACHE to a folder you can write to",
            place=str(jit.CACHE),
        )
    warm = all(dependencies.marker(service).exists() for service in ("daq", "sim"))
    remark = "warm" if warm else "cold, so the first run compiles before it starts"
    return passed(f"{jit.CACHE} is {remark}", place=str(jit.CACHE), warm=warm)
