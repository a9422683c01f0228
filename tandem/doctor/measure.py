"""What the machine does: checks that measure the ring, the disk, the transport and the timer.

Each is a function from a `Case` to a `Finding`, is bounded in time and leaves nothing behind. Rings and sockets are as
a run's (layout, rate, priority where permitted), under a name of its own.
"""

import contextlib
import os
import shutil
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from numba import int64, types

from sync.clock import now_ns
from sync.compile import jit
from sync.compile.array_types import READ_ONLY, WORDS
from sync.config.config import Config
from sync.errors import RingError
from sync.process import realtime
from sync.ring.block import Channel, Layout
from sync.ring.ring import SHM, RingReader, RingWriter, newest, push
from sync.ring.streams import DAQ, STREAMS
from tandem.doctor.baseline import bare_ipc, bare_lateness
from tandem.doctor.findings import Case, Finding, failed, passed, stolen_ticks, user, warned

TIMER_PASS, TIMER_WARN = 0.05, 0.20  # p99.9 of the wake-up's lateness, as a share of the step
STEAL_WARN = 1.0  # percent of the processors' time taken by the host during the timer's measurement
TRANSPORT_S = 3.0  # at most, for the bare ZeroMQ pair
DISK_MB, DISK_S = 64, 5.0  # written at most, and tried at most
DISK_SYNC_MB = 8  # written between two fsyncs
DISK_MARGIN = 10.0  # times what a run records: the disk has other work too
DISK_FREE_GB = 1.0
_RING_NS = 50_000_000  # of pushing, of reading, and (four times as long) of both at once
_GRANT = "grant real-time permission as described above, and set realtime.enabled = true"
_BATCH = 256  # pushes or reads between two looks at the clock


def _private(config: Config, on_time: bool = True) -> Config:
    """The same configuration under a name of its own; without real time where we may not have it."""
    name = f"doctor_{os.getpid()}_{threading.get_native_id()}"
    times = config.realtime if on_time else config.realtime.model_copy(update={"enabled": False})
    return config.model_copy(update={"name": name, "realtime": times})


@jit.kernel(types.UniTuple(int64, 2)(WORDS, WORDS, int64))
def _push_for(ring, block, duration_ns):
    """(pushes, ns): blocks whose words are all the same number, as fast as they go."""
    done, begun = 0, now_ns()
    now = begun
    while now - begun < duration_ns:
        for _ in range(_BATCH):
            block[:] = done
            push(ring, block)
            done += 1
        now = now_ns()
    return done, now - begun


@jit.kernel(types.UniTuple(int64, 3)(READ_ONLY, WORDS, int64))
def _read_for(ring, block, duration_ns):
    """(reads, ns, how many of them were torn or older than the one before)."""
    done, wrong, last, begun = 0, 0, -1, now_ns()
    now = begun
    while now - begun < duration_ns:
        for _ in range(_BATCH):
            position = newest(ring, block)
            if position < 0:  # lapped again and again, as may happen in a very small ring: no block, no claim
                continue
            differing = 0
            for i in range(1, block.size):
                differing |= block[i] ^ block[0]
            if position < last or differing:
                wrong += 1
            last = position
            done += 1
        now = now_ns()
    return max(done, 1), now - begun, wrong


def ring(case: Case) -> Finding:
    config = _private(case.config)
    # the result's layout depends on the model; this one is wider than any
    wide = Layout(tuple(Channel(f"c{k}", "f8") for k in range(128)))
    wanted = {
        stream.name: (config.daq.layout if stream.layout == DAQ.layout else wide, stream.capacity(config))
        for stream in STREAMS.values()
    }
    with contextlib.ExitStack() as stack:
        rings = {}
        for role, (layout, blocks) in wanted.items():
            try:
                rings[role] = RingWriter(config.ring(role), layout, blocks)
            except RingError as error:
                return failed(
                    str(error),
                    f"`sudo mount -o remount,size=1G {SHM}` (in a container: --shm-size 1g), or smaller ring_blocks"
                    f" in {case.file}",
                )
            stack.callback(rings[role].close)
        files = [(SHM / config.ring(role)).stat() for role in wanted]
        modes = {oct(file.st_mode & 0o777) for file in files}
        writer, reader = rings["daq"], RingReader(config.ring("daq"))
        stack.callback(reader.close)
        pushed, read = (np.zeros(config.daq.layout.words, np.int64) for _ in range(2))

        # each alone, then one against the other
        pushes, push_ns = _push_for(writer.words, pushed, _RING_NS)
        reads, read_ns, _ = _read_for(reader.words, read, _RING_NS)
        both = threading.Thread(target=_push_for, args=(writer.words, pushed, 4 * _RING_NS))
        both.start()
        contended, contended_ns, wrong = _read_for(reader.words, read, 4 * _RING_NS)
        both.join()
    figures = {
        "push_ns": round(push_ns / pushes, 1),
        "read_ns": round(read_ns / reads, 1),
        "contended_read_ns": round(contended_ns / contended, 1),
        "contended_reads": contended,
        "torn": wrong,
        "modes": sorted(modes),
        "needed_mb": round(sum(file.st_size for file in files) / 1e6, 1),
        "free_mb": round(shutil.disk_usage(SHM).free / 1e6),
    }
    if wrong:
        return failed(
            f"{wrong} of {contended} reads were torn or went backwards",
            "do not use this machine: report its processor and `python -m numba -s` as a bug of tandem",
            **figures,
        )
    if modes != {"0o600"}:
        return failed(
            f"rings have mode {', '.join(sorted(modes))} instead of 0600: others can read them",
            f"mount {SHM} as an ordinary tmpfs (`mount | grep {SHM}` shows what it is)",
            **figures,
        )
    return passed(
        f"push {figures['push_ns']:.0f} ns, read {figures['read_ns']:.0f} ns; of {contended} reads against a writer at"
        f" full speed none was torn; {figures['needed_mb']} of {figures['free_mb']} MB of shared memory",
        **figures,
    )


def recording_folder() -> Path:
    """Where runs are recorded: `runs` here, or the nearest parent of it that exists."""
    runs = Path.cwd() / "runs"
    return next(path for path in (runs, *runs.parents) if path.is_dir())


def disk(case: Case) -> Finding:
    config, folder = case.config, recording_folder()
    # blocks as they are in the ring, steps of 64 words; and the ring waits for the recorder this long at most
    need_mb_s = 8e-6 * (config.daq.layout.words * config.daq.rate_hz + 64e3 / config.sim.step_ms)
    patience_ms = 1e3 * min(
        config.daq.ring_blocks / config.daq.rate_hz, config.sim.ring_blocks * config.sim.step_ms / 1e3
    )
    piece = os.urandom(1 << 20)
    syncs_ms: list[float] = []
    written = 0
    begun = time.monotonic()
    try:
        with tempfile.TemporaryFile(dir=folder, prefix=".tandem-doctor-", buffering=0) as file:
            while written < DISK_MB and time.monotonic() - begun < DISK_S:
                written += file.write(piece) >> 20
                if written % DISK_SYNC_MB == 0:
                    before = time.monotonic()
                    os.fsync(file.fileno())
                    syncs_ms.append(1e3 * (time.monotonic() - before))
            os.fsync(file.fileno())
    except OSError as error:
        return failed(
            f"{folder}: cannot be written: {error.strerror}",
            f"`sudo chown {user()} {folder}`, make room there, or start tandem in a folder of your own",
            folder=str(folder),
        )
    rate = written / (time.monotonic() - begun)
    worst = max(syncs_ms, default=1e3 * DISK_S)
    free_gb = shutil.disk_usage(folder).free / 1e9
    figures = {
        "folder": str(folder), "mb_s": round(rate, 1), "need_mb_s": round(need_mb_s, 3),
        "worst_fsync_ms": round(worst, 2), "free_gb": round(free_gb, 1),
    }  # fmt: skip
    result = f"{folder}: {rate:.0f} MB/s with fsync, worst fsync {worst:.1f} ms; a run writes {need_mb_s:.2f} MB/s"
    if rate < need_mb_s or worst > patience_ms:
        return failed(
            f"{result}, and its rings hold {patience_ms:.0f} ms",
            "start tandem in a folder on a faster disk, or set larger ring_blocks",
            **figures,
        )
    if rate < DISK_MARGIN * need_mb_s or worst > patience_ms / 4:
        return warned(f"{result}: not much to spare", "start tandem in a folder on a faster disk", **figures)
    if free_gb < DISK_FREE_GB:
        return warned(f"{result}; {free_gb:.1f} GB are left", f"make room in {folder}", **figures)
    return passed(result, **figures)


def transport(case: Case) -> Finding:
    config = case.config
    if config.transport.kind == "shm":
        return passed("shm: no socket is used")
    times, own = config.realtime, os.sched_getaffinity(0)
    core = realtime.cores(times)[0]
    # libzmq ends the whole process (SIGABRT) when its thread may not have the priority or core that was set
    on_time = times.enabled and realtime.permitted(times.wire_priority) and (core is None or core in own)
    seconds = min(case.seconds, TRANSPORT_S)
    measured = bare_ipc(_private(config, on_time), seconds)
    period_us, step_us = config.period_ns / 1e3, config.step_ns / 1e3
    result = (
        f"a bare ZeroMQ pair at {config.daq.rate_hz:g} Hz: p50 {measured['p50']:.0f} us, p99 {measured['p99']:.0f} us"
        + " over a local socket" * (config.transport.kind == "tcp")
    )
    figures = {**measured, "real_time": on_time}
    if measured["n"] < 0.5 * seconds * config.daq.rate_hz:
        return failed(
            f"{measured['n']} of some {seconds * config.daq.rate_hz:.0f} messages arrived",
            "run `python -m tandem.doctor.bare_sender ipc:///tmp/bare 1000 1 0 None`, and see what stops it",
            **figures,
        )
    if measured["p99"] < period_us:
        return passed(result, **figures)
    if not on_time:
        return warned(f"{result}, without real-time priority", _GRANT, **figures)
    remedy = 'end other programs, or set transport.kind = "shm"'
    if measured["p99"] < step_us:
        return warned(f"{result}: longer than from block to block", remedy, **figures)
    return failed(f"{result}: longer than a step", remedy, **figures)


def timer(case: Case) -> Finding:
    config = case.config
    before = stolen_ticks()
    measured = bare_lateness(config, case.seconds)
    stolen, ticks = (after - earlier for after, earlier in zip(stolen_ticks(), before, strict=True))
    steal = 100.0 * stolen / ticks if ticks else 0.0
    share = measured["p999"] / (config.step_ns / 1e3)
    misses = measured["deadline_misses"]
    on_time = config.realtime.enabled and realtime.permitted(config.realtime.sim_priority)
    figures = {**measured, "p999_share": round(share, 4), "steal_percent": round(steal, 2), "real_time": on_time}
    result = (
        f"{measured['n']} wake-ups every {config.sim.step_ms:g} ms were late by p50 {measured['p50']:.0f}, p99"
        f" {measured['p99']:.0f}, p99.9 {measured['p999']:.0f}, at most {measured['max']:.0f} us"
        f" (p99.9 is {share:.1%} of the step; {misses} missed)"
    )
    if not on_time:
        result += f", without real-time priority, with a timer slack of {measured['timer_slack_ns']} ns"
    if steal >= STEAL_WARN:
        result += f"; the host took {steal:.1f} % of our time"
    if share < TIMER_PASS and not misses and steal < STEAL_WARN:
        return passed(result, **figures)
    if not on_time:
        return warned(result, _GRANT, **figures)
    core = realtime.cores(config.realtime)[1]
    remedy = f"put isolcpus={core} on the kernel's command line" if core is not None else "give the loop its own core"
    if steal >= STEAL_WARN:
        remedy = "ask the host for processors of your own (dedicated or pinned), or use a real machine"
    return (warned if share < TIMER_WARN else failed)(result, f"{remedy}, and end other programs", **figures)
