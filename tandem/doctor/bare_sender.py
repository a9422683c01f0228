"""The sending process of `bare_ipc` (tandem/doctor/baseline.py).

It is started as `python -m tandem.doctor.bare_sender ENDPOINT RATE_HZ SECONDS PRIORITY CORE`.
"""

import sys

import msgpack
import zmq

from sync.clock import now_ns, sleep_until
from sync.process import realtime
from sync.transport.wire import context


def _send(endpoint: str, rate_hz: float, seconds: float, priority: int, core: int | None) -> None:
    realtime.exact_sleep()
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


if __name__ == "__main__":
    _send(
        sys.argv[1],
        float(sys.argv[2]),
        float(sys.argv[3]),
        int(sys.argv[4]),
        None if sys.argv[5] == "None" else int(sys.argv[5]),
    )
