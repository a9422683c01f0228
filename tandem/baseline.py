"""What this machine does without us: the yardsticks that every figure of ours is held against.

`bare_ipc` is the least a Python program can do: a msgpack map over a plain ZeroMQ PUB/SUB pair between two processes.
`bare_lateness` is a compiled loop that only sleeps. Both run with the scheduling our services have, so that the
comparison shows our own cost and nothing else.

    python -m tandem.baseline ENDPOINT RATE_HZ SECONDS PRIORITY CORE     is the sending process of bare_ipc
"""

import subprocess
import sys
import threading
import time
from typing import Any

import msgpack
import zmq
from numba import int64, types

from sync import realtime
from sync.array_types import WORDS
from sync.clock import now_ns, sleep_until
from sync.config import Config, runtime_directory
from sync.jit import kernel
from sync.ledger import histogram, record, summary_us
from sync.transport.wire import context


@kernel(types.void(WORDS, int64))
def _record(hist, value_ns):
    record(hist, value_ns)


@kernel(int64(WORDS, int64, int64))
def _sleep_and_measure(hist, period_ns, count):
    """Lateness of `count` wake-ups; returns how many came after the next was due."""
    missed = 0
    planned = now_ns() + period_ns
    for _ in range(count):
        sleep_until(planned)
        late = now_ns() - planned
        record(hist, late)
        planned += period_ns
        if late > period_ns:
            missed += 1
            planned += late // period_ns * period_ns
    return missed


def bare_lateness(config: Config, seconds: float) -> dict[str, Any]:
    hist = histogram()
    missed: list[int] = []

    def work() -> None:
        if config.realtime.enabled:
            realtime.this_thread(config.realtime.sim_priority, realtime.cores(config.realtime)[1])
        missed.append(_sleep_and_measure(hist, config.step_ns, round(seconds * 1e9 / config.step_ns)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return {**summary_us(hist), "deadline_misses": missed[0]}


def _send(endpoint: str, rate_hz: float, seconds: float, priority: int, core: int | None) -> None:
    if priority:
        realtime.this_thread(priority, core)
    socket = context(priority or None, core).socket(zmq.PUB)
    socket.set(zmq.LINGER, 0)
    socket.bind(endpoint)
    due, period_ns = now_ns(), round(1e9 / rate_hz)
    end = due + round(seconds * 1e9)
    number = 0
    while due < end:
        due += period_ns
        sleep_until(due)
        begun = now_ns()
        message = {"version": 1, "layout": "0" * 16, "seq": number, "epoch": 1, "t_ns": begun, "pushed_ns": begun}
        socket.send(msgpack.packb({**message, "sent_ns": begun, "a": 0, "b": 0, "c": 0}))
        number += 1
    socket.close()


def bare_ipc(config: Config, seconds: float) -> dict[str, Any]:
    """From before packing in one process to after unpacking in the other, at the configured block rate."""
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
    sender = subprocess.Popen([sys.executable, "-m", "tandem.baseline", *arguments])

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


if __name__ == "__main__":
    _send(
        sys.argv[1],
        float(sys.argv[2]),
        float(sys.argv[3]),
        int(sys.argv[4]),
        None if sys.argv[5] == "None" else int(sys.argv[5]),
    )
