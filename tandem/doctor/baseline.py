"""What this machine does without us: the yardsticks that every figure of ours is held against.

`bare_ipc` is the least a Python program can do: a msgpack map over a plain ZeroMQ PUB/SUB pair between two processes.
`bare_lateness` is a compiled loop that only sleeps. Both run with the scheduling our services have, so that the
comparison shows our own cost and nothing else.
"""

import subprocess
import threading
import time
from typing import Any, Self

import msgpack
import numpy as np
import zmq
from numba import int64, types

from sync.child_python import python_command, python_environment
from sync.clock import now_ns, sleep_until
from sync.compile.array_types import WORDS
from sync.compile.atomics import load_acquire
from sync.compile.jit import kernel
from sync.config.config import Config, runtime_directory
from sync.process import realtime
from sync.ring.ledger import histogram, record, summary_us
from sync.transport.wire import context

_MOST_MISSES = 100_000  # that are listed one by one


@kernel(types.void(WORDS, int64))
def _record(hist, value_ns):
    record(hist, value_ns)


@kernel(int64(WORDS, WORDS, WORDS, int64, int64, int64))
def sleep_and_measure(hist, misses, stop, period_ns, count, catch_up):
    """Lateness of `count` wake-ups, or of those until asked to stop; returns how many came after the next was due.

    Missed, caught up with and given up is what the loop calls so (sim_service/loop.py), of a step that takes no time.
    Of each miss as far as `misses` goes: when it was due, and when it was done.
    """
    missed = late = 0
    planned = now_ns() + period_ns
    for _ in range(count):
        if load_acquire(stop, 0):
            break
        sleep_until(planned)
        done = now_ns()
        record(hist, done - planned)
        due, planned = planned, planned + period_ns
        if done <= planned:
            late = 0
            continue
        if 2 * missed + 1 < misses.size:
            misses[2 * missed], misses[2 * missed + 1] = due, done
        missed += 1
        late += 1
        passed = (done - planned) // period_ns + 1
        if max(late, passed - 1) > catch_up:
            planned += passed * period_ns
            late = 0
    return missed


class BareLoop:
    """A loop that only sleeps, at the rate, on the core and with the priority of the simulator's, in its own thread."""

    def __init__(self, config: Config, seconds: float, catch_up: int | None = None) -> None:
        """`catch_up`: as many steps as the loop catches up with, unless given."""
        self.hist = histogram()
        self.missed = 0
        self.slack_ns = 0  # by which the kernel may round its sleeps up
        self._misses = np.full(2 * _MOST_MISSES, -1, np.int64)  # written to: its pages are there
        self._stop = np.zeros(1, np.int64)
        self._thread = threading.Thread(target=self._work, args=(config, seconds, catch_up))

    def _work(self, config: Config, seconds: float, catch_up: int | None) -> None:
        self.slack_ns = realtime.exact_sleep()
        if config.realtime.enabled:
            realtime.this_thread(config.realtime.sim_priority, realtime.cores(config.realtime)[1])
        if catch_up is None:
            catch_up = config.sim.catch_up_steps if config.sim.overload == "catch_up" else 0
        count = round(seconds * 1e9 / config.step_ns)
        self.missed = sleep_and_measure(self.hist, self._misses, self._stop, config.step_ns, count, catch_up)

    @property
    def misses(self) -> np.ndarray:
        """When each was due and when it was done, ns."""
        return self._misses[: 2 * min(self.missed, _MOST_MISSES)].reshape(-1, 2)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop[0] = 1
        self._thread.join()

    def wait(self) -> None:
        self._thread.join()


def bare_lateness(config: Config, seconds: float) -> dict[str, Any]:
    """The lateness of a loop that skips the periods it missed, so that every pause counts once."""
    with BareLoop(config, seconds, catch_up=0) as bare:
        bare.wait()
    return {**summary_us(bare.hist), "deadline_misses": bare.missed, "timer_slack_ns": bare.slack_ns}


def bare_ipc(config: Config, seconds: float) -> dict[str, Any]:
    """The time from before packing in one process to after unpacking in the other, at the configured block rate."""
    path = runtime_directory() / f"{config.name}.bare.ipc"
    endpoint = f"ipc://{path}"
    priority = config.realtime.wire_priority if config.realtime.enabled else 0
    hist = histogram()
    core, _ = realtime.cores(config.realtime)
    zmq_context = context(priority or None, core)
    socket = zmq_context.socket(zmq.SUB)
    socket.set(zmq.SUBSCRIBE, b"")
    socket.set(zmq.RCVTIMEO, 2000)
    arguments = [endpoint, str(config.daq.rate_hz), str(seconds), str(priority), str(core)]
    sender = subprocess.Popen(python_command("-m", "tandem.doctor.bare_sender", *arguments), env=python_environment())

    def receive() -> None:
        if priority:
            realtime.this_thread(priority, core)
        begun = time.monotonic()
        while True:
            try:
                message = msgpack.unpackb(socket.recv())
            except zmq.Again:
                if sender.poll() is not None or time.monotonic() - begun > seconds + 60:
                    return
                continue
            _record(hist, now_ns() - message["t_ns"])

    socket.connect(endpoint)
    thread = threading.Thread(target=receive)
    thread.start()
    sender.wait()
    thread.join()
    socket.close()
    zmq_context.destroy(0)
    path.unlink(missing_ok=True)
    return summary_us(hist)
