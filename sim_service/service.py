"""The simulation process: the loop, and beside it the threads that feed it and carry its results away."""

import contextlib
import threading
from pathlib import Path
from typing import Any

import numpy as np

from sim_service import loop
from sim_service.models import load_model
from sim_service.models.description import Model, index
from sim_service.signals import tables
from sync import realtime
from sync.clock import now_ns
from sync.config import Config
from sync.errors import LayoutMismatch, RingMissing, TandemError
from sync.ledger import histogram, histograms, summary_us
from sync.ring import RingReader, RingWriter, newest
from sync.service import EVERY, Reporter, Worker, join, look_after
from sync.watch import NO_LOG, Peer, watch
from sync.wire import Publisher, Receiver, context, wait_beyond

_DRAIN_S = 0.3  # at most, if a DAQ goes on sending
_ENDED = {loop.STOPPED: "stopped", loop.ALL_STEPS: "all steps done", loop.DIVERGED: "the model diverged"}


class Diverged(TandemError):
    """The model left the numbers."""

    code = 3


class Simulation:
    """A model, its inputs and its books: everything the loop works on."""

    def __init__(self, config: Config, file: Path):
        self.model, self.params = load_model(file.parent / config.sim.vehicle)
        self.layout = loop.output_layout(self.model)
        self.state = np.zeros(len(self.model.states))
        self.inputs = np.zeros(len(self.model.inputs))
        self.work = np.zeros(self.model.work_size)
        self.model.initial(self.state, self.params, self.work)
        self.signals = tables(config.sim.signals, config.daq.layout)
        self.settings = np.zeros(7, np.int64)
        self.settings[loop.H_NS] = config.step_ns
        self.settings[loop.STALE_NS] = round(config.sim.stale_after_ms * 1e6)
        self.settings[loop.CATCH_UP] = config.sim.catch_up_steps
        self.settings[loop.MOST_STEPS] = -1
        self.settings[loop.WHEEL_SPEED] = index(self.model.outputs, "wheel_speed_rear")
        self.settings[loop.OUTPUTS] = len(self.model.outputs)
        self.settings[loop.DRAIN_NS] = 50_000_000 + 3 * max(config.period_ns, config.step_ns)
        self.control = np.zeros(loop.CONTROL_WORDS, np.int64)
        self.ledger = histograms(3)
        self.counters = np.zeros(len(loop.COUNTERS), np.int64)
        self._block = np.zeros(config.daq.layout.words, np.int64)
        self._out = np.zeros(self.layout.words, np.int64)

    def run(self, ring_in: np.ndarray, ring_out: np.ndarray) -> int:
        """Steps until `control[STOP]`; how it ended is one of STOPPED, ALL_STEPS, DIVERGED."""
        return int(
            loop.run(
                ring_in,
                ring_out,
                self._block,
                self._out,
                self.settings,
                self.control,
                self.ledger,
                self.counters,
                *self.signals,
                self.model.step,
                self.state,
                self.inputs,
                self.params,
                self.work,
            )
        )

    def figures(self) -> dict[str, Any]:
        return {
            **{name: int(value) for name, value in zip(loop.COUNTERS, self.counters, strict=True)},
            "last_seq": int(self.control[loop.LAST_SEQ]),
            "first_step_ns": int(self.control[loop.FIRST_STEP_NS]),
            "age_us": summary_us(self.ledger[loop.AGE]),
            "lateness_us": summary_us(self.ledger[loop.LATENESS]),
            "step_us": summary_us(self.ledger[loop.COST]),
        }


def run(config: Config, file: Path, stop: threading.Event, reporter: Reporter) -> dict[str, Any]:
    simulation = Simulation(config, file)
    times = config.realtime
    wire_core, loop_core = realtime.cores(times)
    peer = Peer("the DAQ", config.ring("daq"))
    with contextlib.ExitStack() as stack:
        stack.callback(peer.close)
        ring_out = RingWriter(config.ring("sim"), simulation.layout, config.sim.ring_blocks)
        stack.callback(ring_out.close)
        workers: list[Worker] = []
        receiver = None
        halt = threading.Event()  # the loop has ended; `stop` asks it to
        if config.transport.kind == "shm":
            ring_in = _await_ring(config, stop, reporter)
            if ring_in is None:
                return {**simulation.figures(), "ended": "stopped before there was a DAQ"}
            stack.callback(ring_in.close)
            transfer = histogram()
            scratch = np.zeros(config.daq.layout.words, np.int64)
            rest_ns = round(config.sim.probe_rest_ms * 1e6)
            arguments = (ring_in.words, simulation.control, scratch, transfer, rest_ns, NO_LOG)
            watcher = threading.Thread(target=watch, args=arguments, daemon=True)
            stack.callback(watcher.join, 1.0)
        else:
            zmq_context = context(times.wire_priority if times.enabled else None, wire_core)
            stack.callback(zmq_context.destroy, 0)
            ring_received = RingWriter(config.ring("sim_in"), config.daq.layout, config.daq.ring_blocks)
            stack.callback(ring_received.close)
            ring_in = RingReader(config.ring("sim_in"), config.daq.layout)
            stack.callback(ring_in.close)
            receiver = Receiver(zmq_context, config.endpoint("daq"), ring_received)
            stack.callback(receiver.close)
            transfer = receiver.transfer
            publisher = Publisher(zmq_context, config.endpoint("sim"), simulation.layout)
            stack.callback(publisher.close)
            results = RingReader(config.ring("sim"))
            stack.callback(results.close)
            workers.append(Worker("receiver", lambda: _receive(receiver, halt), config, times.wire_priority, wire_core))
            workers.append(
                Worker(
                    "publisher",
                    lambda: _publish(publisher, results, halt, config),
                    config,
                    times.wire_priority - 10,
                    wire_core,
                )
            )
        job = Worker(
            "loop", lambda: simulation.run(ring_in.words, ring_out.words), config, times.sim_priority, loop_core
        )
        workers.append(job)
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.ready.wait()
            for refused in worker.refused:
                reporter.say(refused, once=True)
        if receiver is None:
            watcher.start()
        view = RingReader(config.ring("sim"))
        stack.callback(view.close)
        stale = _Stale(config, ring_in)

        def look(turn: int) -> None:
            for said in (peer.poll(), stale.poll(), receiver and _foreign(receiver)):
                if said:
                    reporter.say(said, once=said.startswith("messages"))
            if turn % EVERY == 0:
                reporter.status(
                    {**simulation.figures(), "transfer_us": summary_us(transfer), **_motion(view, simulation.model)}
                )

        try:
            look_after(workers, stop, look)
            simulation.control[loop.STOP] = loop.DRAIN
            job.join(_DRAIN_S)
        finally:
            simulation.control[loop.STOP] = loop.NOW
            halt.set()
        join(workers, reporter)
        if job.result == loop.DIVERGED:
            values = dict(zip([q.name for q in simulation.model.inputs], simulation.inputs.tolist(), strict=True))
            raise Diverged(f"the model diverged at step {simulation.counters[loop.STEPS]}; its inputs were {values}")
        return {
            **simulation.figures(),
            "ended": _ENDED.get(job.result, "failed"),
            "transfer_us": summary_us(transfer),
            "received": receiver.count() if receiver else None,
        }


def _await_ring(config: Config, stop: threading.Event, reporter: Reporter) -> RingReader | None:
    """The DAQ's own ring, once there is one."""
    waited = False
    while not stop.is_set():
        try:
            return RingReader(config.ring("daq"), config.daq.layout, timeout_s=0.2)
        except LayoutMismatch:
            raise
        except RingMissing:
            if not waited:
                reporter.say(f"waiting for the DAQ's ring {config.ring('daq')}")
            waited = True
    return None


def _receive(receiver: Receiver, halt: threading.Event) -> None:
    receiver.connect()
    while not halt.is_set():
        receiver.receive()


def _publish(publisher: Publisher, results: RingReader, halt: threading.Event, config: Config) -> None:
    """The newest result on the wire, as soon as there is one; the last one again while nothing new comes."""
    block = np.zeros(results.layout.words, np.int64)
    position, nap_ns = -1, min(config.step_ns // 10, 500_000)
    repeat_ns = round(config.daq.idle_repeat_ms * 1e6)
    while not halt.is_set():
        wait_beyond(results.words, position, now_ns() + repeat_ns, nap_ns)
        found = newest(results.words, block)
        if found >= 0:
            position = found
            publisher.publish(block)


def _foreign(receiver: Receiver) -> str | None:
    count = receiver.count()
    if count["foreign"]:
        return f"messages of another layout or version on {receiver.endpoint}: counted and ignored"
    if count["malformed"]:
        return f"messages that are not ours on {receiver.endpoint}: counted and ignored"
    return None


class _Stale:
    """Says when blocks stop coming, and when they come again."""

    def __init__(self, config: Config, ring: RingReader):
        self._limit_ns = round(config.sim.stale_after_ms * 1e6)
        self._ring = ring
        self._stale = False

    def poll(self) -> str | None:
        block = self._ring.newest()
        if block is None:
            return None
        age_ns = now_ns() - int(block["t_ns"])
        if (age_ns > self._limit_ns) == self._stale:
            return None
        self._stale = not self._stale
        return (
            f"input is stale: the newest block is {age_ns / 1e6:.0f} ms old" if self._stale else "input is fresh again"
        )


def _motion(view: RingReader, model: Model) -> dict[str, Any]:
    block = view.newest()
    if block is None:
        return {}
    return {
        name: round(float(block[name]), 3) for name in ("time", "vx", "yaw_rate", "x", "y") if name in view.layout.names
    }
