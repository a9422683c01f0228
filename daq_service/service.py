"""The acquisition process: a source, a ring with every block, a socket with the newest one."""

import contextlib
import importlib
import threading
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from daq_service import effort_record
from daq_service.acquire import Acquisition
from daq_service.devices import open_device, settings_class
from daq_service.devices.contract import Device, Host
from sync.clock import now_ns
from sync.config.config import Config
from sync.process import realtime
from sync.process.service import EVERY, Prepared, Reporter, Worker, held, join, prefault, start, watch_workers
from sync.process.waiting import Waiting
from sync.ring import streams
from sync.ring.block import Channel, Layout
from sync.ring.memory import refuse_too_large
from sync.ring.ring import BOUND_WORD, RingReader, RingWriter, poke, remove_stale
from sync.ring.watch import Peer
from sync.transport.host_clock import Artificial, ClockServer
from sync.transport.keys import Keys, transport_keys
from sync.transport.socket_guard import SocketGuard
from sync.transport.wire import Publisher, Receiver, context, every_block

if TYPE_CHECKING:  # most sources have no efforts
    from daq_service.effort import EffortLoop

_UNFIT = ("foreign", "malformed")
_AWAITED_NS = 1_000_000_000  # without a scan for so long, it reports that it waits


class _Surroundings:
    """What the source gets and what it reports, before and while it runs."""

    def __init__(self, config: Config):
        self.peer = Peer("the simulator", config.ring("sim"))
        self.received: RingReader | None = None
        self._shm = config.transport.kind == "shm"
        self._pending: list[str] = []
        self._reporter: Reporter | None = None

    def feedback(self) -> RingReader | None:
        return self.peer.ring if self._shm else self.received

    def say(self, text: str) -> None:
        if self._reporter is None:
            self._pending.append(text)
        else:
            self._reporter.say(text)

    def listen(self, reporter: Reporter) -> None:
        self._reporter = reporter
        for text in self._pending:
            reporter.say(text)


def prepare(config: Config, file: Path) -> Prepared:
    """A source, and the outputs of the simulator that it wants."""
    keys = transport_keys(config, file, "daq")
    refuse_too_large(file, "daq.ring_blocks", config.ring("daq"), config.daq.layout, config.daq.ring_blocks)
    around = _Surroundings(config)
    source = open_device(config, file, Host(around.feedback, around.say))
    if source.effort is not None:
        importlib.import_module("daq_service.effort")  # compiled before anything starts
    facts = {"wants": list(source.wants), "any_effort": settings_class(config, str(file)).takes_any_effort}
    return Prepared(partial(run, source, around, keys), facts, source.find)


def run(
    source: Device,
    around: _Surroundings,
    keys: Keys | None,
    config: Config,
    file: Path,
    stop: threading.Event,
    reporter: Reporter,
) -> dict[str, Any]:
    around.listen(reporter)
    times = config.realtime
    core, _ = realtime.cores(times)
    with contextlib.ExitStack() as stack:
        stack.callback(source.stop)
        stack.callback(around.peer.close)
        ring = RingWriter(config.ring("daq"), config.daq.layout, streams.DAQ.capacity(config))
        stack.push(held(ring, reporter))
        prefault(ring)
        wire = _Wire() if config.transport.kind == "shm" else _open_wire(config, keys, source, around, stop, stack)
        acquisition = Acquisition(config, source, ring, wire.publisher, wire.every)
        acquire = Worker("acquisition", lambda: acquisition.run(stop), config, times.daq_priority, core)
        workers = [*wire.workers, acquire]
        efforts: dict[str, EffortLoop] = {}
        for stream, actuator in zip((streams.EFFORT, *streams.AXIS_EFFORTS), (source, *source.axes), strict=False):
            if actuator.effort is not None:
                efforts[stream.name] = _start_efforts(
                    actuator, stream, around, config, ring, stack, workers, stop, reporter
                )

        def end() -> None:
            stop.set()
            for loop in efforts.values():
                loop.stop()

        start(workers, reporter, stack, end)
        if wire.guard:
            wire.guard.warden.watch(*wire.workers)
        watch = _Watch(config, source, around, ring, acquisition, wire, efforts, reporter)
        watch_workers(workers, stop, watch.poll)
        end()
        join(workers, reporter)
        return {
            **watch.counts(),
            "sent": wire.publisher.sent if wire.publisher else 0,
            "repeated": wire.publisher.repeated if wire.publisher else 0,
            **({"every_sent": wire.every.sent} if wire.every else {}),
            "seconds": acquisition.seconds,
            "head": ring.head,
            "epoch": ring.epoch,
        }


@dataclass
class _Wire:
    """What connects the DAQ with simulators elsewhere; empty with shared memory."""

    guard: SocketGuard | None = None
    publisher: Publisher | None = None
    every: Publisher | None = None
    clock: ClockServer | None = None
    steps: Receiver | None = None  # of the simulator's results
    workers: list[Worker] = field(default_factory=list)


def _open_wire(
    config: Config,
    keys: Keys | None,
    source: Device,
    around: _Surroundings,
    stop: threading.Event,
    stack: contextlib.ExitStack,
) -> _Wire:
    times = config.realtime
    core, _ = realtime.cores(times)
    zmq_context = context(times.wire_priority if times.enabled else None, core)
    stack.callback(zmq_context.destroy, 0)
    guard = SocketGuard(zmq_context, keys)
    stack.callback(guard.close)
    wrong = config.transport.artificial_clock
    clock = Artificial(round(wrong.offset_ms * 1e6), wrong.ppm * 1e-6)
    shown = (clock.offset_ns, clock.drift)
    wire = _Wire(guard, Publisher(zmq_context, config.endpoint("daq"), config.daq.layout, shown, guard))
    assert wire.publisher is not None
    stack.callback(wire.publisher.close)
    if config.transport.every_port:
        waiting = every_block(config.daq.rate_hz)
        wire.every = Publisher(zmq_context, config.every_endpoint, config.daq.layout, shown, guard, waiting)
        stack.callback(wire.every.close)
    if config.transport.clock_mode != "same":
        wire.clock = server = ClockServer(zmq_context, config.clock_endpoint, clock, guard)
        stack.callback(server.close)
        serve = lambda: _serve_clock(server, stop)  # noqa: E731
        wire.workers.append(Worker("clock", serve, config, max(times.wire_priority - 5, 1), core))
    if wants := source.wants:
        stamps = effort_record.STAMPS if source.effort is not None else ()
        seen = Layout((*(Channel(name, "f8") for name in wants), *(Channel(name, "i8") for name in stamps)))
        remove_stale(config.ring("daq_in"))  # skip steps issued before this start
        seen_ring = RingWriter(config.ring("daq_in"), seen, streams.DAQ_IN.capacity(config))
        stack.callback(seen_ring.close)
        wire.steps = receiver = Receiver(zmq_context, config.endpoint("sim"), seen_ring, any_layout=True, guard=guard)
        stack.callback(receiver.close)
        around.received = RingReader(config.ring("daq_in"), seen)
        stack.callback(around.received.close)
        receive = lambda: _receive(receiver, stop)  # noqa: E731
        wire.workers.append(Worker("feedback", receive, config, max(times.daq_priority - 1, 1), core))
    return wire


class _Watch:
    """Checks everything from time to time, and reports."""

    def __init__(
        self, config: Config, source: Device, around: _Surroundings, ring: RingWriter, acquisition: Acquisition,
        wire: _Wire, efforts: "dict[str, EffortLoop]", reporter: Reporter,
    ):  # fmt: skip
        self._source, self._around, self._ring, self._acquisition = source, around, ring, acquisition
        self._wire, self._efforts, self._reporter = wire, efforts, reporter
        where = f"ring {config.ring('daq')}" + (f", {config.endpoint('daq')}" if wire.publisher else "")
        self._simulator = Waiting("a simulator on this host", f"blocks are in {where}")
        self._scans = Waiting("the source", f"source.kind = {config.source.get('kind')!r}")
        self._scanned = Progress()

    def counts(self) -> dict[str, Any]:
        own, wire = self._source.counts(), self._wire
        return {
            **self._acquisition.count.as_dict(),
            **(wire.guard.count() if wire.guard else {}),
            **({"clock": wire.clock.count()} if wire.clock else {}),
            **({"source": own} if own else {}),
            **({"feedback": {k: wire.steps.count()[k] for k in _UNFIT}} if wire.steps else {}),
            **{name: loop.figures() for name, loop in self._efforts.items()},
        }

    def poll(self, turn: int) -> None:
        reporter, peer = self._reporter, self._around.peer
        if text := peer.poll():
            reporter.say(text)
        if not reporter.supervised:
            scans = self._scans.poll(self._scanned.moves(self._ring.head))
            for awaited in (self._simulator.poll(peer.ring is not None), scans):
                if awaited:
                    reporter.say(awaited)
        for text in self._wire.guard.news() if self._wire.guard else ():
            reporter.say(text)
        poke(self._ring.words, BOUND_WORD, self._source.bound_ns)
        if self._wire.steps and (lacking := unfit(self._wire.steps)):
            reporter.say(lacking, once=True)
        for name, loop in self._efforts.items():
            loop.poll()
            if loop.missing:
                reporter.say(f"{name}: the simulator has no output {', '.join(loop.missing)}", once=True)
        if turn % EVERY == 0:
            reporter.status(self.counts())


def _start_efforts(
    actuator: Any,
    stream: streams.Stream,
    around: _Surroundings,
    config: Config,
    blocks: RingWriter,
    stack: contextlib.ExitStack,
    workers: list[Worker],
    stop: threading.Event,
    reporter: Reporter,
) -> "EffortLoop":
    """The ring of efforts, and the threads between the simulator's steps and the device."""
    from daq_service.effort import DeviceThread, EffortLoop
    from daq_service.effort_port import follower

    times = config.realtime
    core, _ = realtime.cores(times)
    ring = RingWriter(config.ring(stream.name), effort_record.LAYOUT, stream.capacity(config))
    stack.push(held(ring, reporter))
    prefault(ring)
    loop = EffortLoop(
        actuator,
        around.feedback,
        blocks.words,
        config.daq.layout.words,
        ring.words,
        config.step_ns,
        config.transport.clock_mode == "same",
        port=follower(config, actuator.effort) if actuator.effort.port else None,
    )
    workers.append(Worker(stream.name, loop.run, config, max(times.daq_priority - 1, 1), core))
    if not loop.in_loop:
        device = DeviceThread(actuator, ring.words, loop.ledger)
        workers.append(
            Worker(
                stream.name.replace("effort", "device"),
                lambda: device.run(stop),
                config,
                max(times.daq_priority - 2, 1),
                core,
            )
        )
    return loop


class Progress:
    """Whether a count still grows."""

    def __init__(self) -> None:
        self._count, self._grown_ns = 0, now_ns()

    def moves(self, count: int) -> bool:
        if count != self._count:
            self._count, self._grown_ns = count, now_ns()
        return bool(now_ns() - self._grown_ns < _AWAITED_NS)


def in_words(report: dict[str, Any]) -> str:
    """What it did, for a person."""
    sent = f", {report['sent']} sent" if report["sent"] else ""
    return f"ended after {report['seconds']:.1f} s: {report['blocks']} blocks{sent}, {report['lost']} scans lost"


def unfit(steps: Receiver) -> str | None:
    """A notice about steps that came but could not be used: without it a wrong channel would go unnoticed."""
    if not any(steps.count()[k] for k in _UNFIT):
        return None
    wanted = ", ".join(steps.ring.layout.names)
    return (
        f"the simulator's steps lack {wanted}, or are of another version, or another program sends on {steps.endpoint}:"
        " counted and ignored"
    )


def _serve_clock(server: ClockServer, stop: threading.Event) -> None:
    while not stop.is_set():
        server.serve()


def _receive(receiver: Receiver, stop: threading.Event) -> None:
    receiver.connect()
    while not stop.is_set():
        receiver.receive()
