"""The acquisition process: a source, a ring with every block, a socket with the newest one."""

import contextlib
import threading
from pathlib import Path
from typing import Any

from daq_service.acquire import Acquisition
from daq_service.sources import Source, open_source
from sync import realtime
from sync.block import Channel, Layout
from sync.config import Config
from sync.hostclock import Artificial, ClockServer
from sync.ring import RingReader, RingWriter, remove_stale
from sync.service import EVERY, Reporter, Run, Worker, join, look_after, start
from sync.watch import Peer
from sync.wire import Publisher, Receiver, context

# what a driver in the loop sees of the simulated car
POSE = Layout(
    tuple(Channel(name, "f8", unit) for name, unit in (("x", "m"), ("y", "m"), ("yaw", "rad"), ("vx", "m/s")))
)


def prepare(config: Config, file: Path) -> tuple[Run, dict[str, Any]]:
    return run, {}


def run(config: Config, file: Path, stop: threading.Event, reporter: Reporter) -> dict[str, Any]:
    peer = Peer("the simulator", config.ring("sim"))
    received: list[RingReader] = []

    def feedback() -> RingReader | None:
        return received[0] if received else peer.ring if config.transport.kind == "shm" else None

    source = open_source(config, file, feedback)
    times = config.realtime
    core, _ = realtime.cores(times)
    workers: list[Worker] = []
    with contextlib.ExitStack() as stack:
        stack.callback(peer.close)
        ring = RingWriter(config.ring("daq"), config.daq.layout, config.daq.ring_blocks)
        stack.callback(ring.close)
        publisher = None
        if config.transport.kind != "shm":
            zmq_context = context(times.wire_priority if times.enabled else None, core)
            stack.callback(zmq_context.destroy, 0)
            wrong = config.transport.artificial_clock
            clock = Artificial(round(wrong.offset_ms * 1e6), wrong.ppm * 1e-6)
            publisher = Publisher(
                zmq_context, config.endpoint("daq"), config.daq.layout, (clock.offset_ns, clock.drift)
            )
            stack.callback(publisher.close)
            if config.transport.clock_mode != "same":
                server = ClockServer(zmq_context, config.clock_endpoint, clock)
                stack.callback(server.close)
                workers.append(
                    Worker("clock", lambda: _serve_clock(server, stop), config, max(times.wire_priority - 5, 1), core)
                )
            if _drives_by_sight(source):
                remove_stale(config.ring("daq_in"))  # poses of a life before this one are none
                pose_ring = RingWriter(config.ring("daq_in"), POSE, 64)
                stack.callback(pose_ring.close)
                receiver = Receiver(zmq_context, config.endpoint("sim"), pose_ring, any_layout=True)
                stack.callback(receiver.close)
                received.append(RingReader(config.ring("daq_in"), POSE))
                stack.callback(received[0].close)
                workers.append(
                    Worker("feedback", lambda: _receive(receiver, stop), config, max(times.daq_priority - 1, 1), core)
                )
        acquisition = Acquisition(config, source, ring, publisher)
        workers.append(Worker("acquisition", lambda: acquisition.run(stop), config, times.daq_priority, core))
        start(workers, reporter)

        def look(turn: int) -> None:
            if said := peer.poll():
                reporter.say(said)
            if turn % EVERY == 0:
                reporter.status(acquisition.count.as_dict())

        look_after(workers, stop, look)
        join(workers, reporter)
        return {
            **acquisition.count.as_dict(),
            "sent": publisher.sent if publisher else 0,
            "repeated": publisher.repeated if publisher else 0,
            "seconds": acquisition.seconds,
            "head": ring.head,
            "epoch": ring.epoch,
        }


def _drives_by_sight(source: Source) -> bool:
    return bool(getattr(source, "follows", False))


def _serve_clock(server: ClockServer, stop: threading.Event) -> None:
    while not stop.is_set():
        server.serve()


def _receive(receiver: Receiver, stop: threading.Event) -> None:
    receiver.connect()
    while not stop.is_set():
        receiver.receive()
