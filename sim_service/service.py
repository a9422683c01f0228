"""The simulation process: the loop, and beside it the threads that feed it and carry its results away."""

import contextlib
import json
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sim_service import step_record
from sim_service.checked import checked_machine, effort_fault
from sim_service.command_record import LAYOUT as COMMANDS
from sim_service.commands import CommandServer
from sim_service.contract.machine import Machine
from sim_service.contract.parameters import described
from sim_service.many_steps import for_many_steps
from sim_service.notices import ClippedInput, Divergence, Overload, StaleInput, divergence_message, lost_words
from sim_service.phase import can_lock
from sim_service.rehearsal import rehearsing
from sim_service.simulation import Simulation
from sync.clock import now_ns, sleep_until
from sync.compile.jit import compiling
from sync.config.config import Config
from sync.errors import Diverged, InputLost
from sync.process import realtime
from sync.process.service import EVERY, Prepared, Reporter, Worker, held, join, prefault, start, watch_workers
from sync.process.threads import joined
from sync.process.waiting import Waiting
from sync.ring import streams
from sync.ring.block import PUSHED, T
from sync.ring.follower import RingFollower
from sync.ring.ledger import histogram, summary_us
from sync.ring.memory import refuse_too_large
from sync.ring.rhythm import usual_lag
from sync.ring.ring import BOUND_WORD, RingReader, RingWriter, beat, newest, peek, remove_stale
from sync.ring.watch import NO_LOG, Peer, watch
from sync.transport.host_clock import ClockClient
from sync.transport.keys import Keys, transport_keys
from sync.transport.socket_guard import SocketGuard
from sync.transport.wire import UNKNOWN_CLOCK, Context, Publisher, Receiver, context, wait_beyond

_BOUND_HOLDS_NS = 500_000_000
_AWAITED_NS = 1_000_000_000  # without a block for so long, it reports that it waits
_POLL_S = 0.01  # between two polls for the ring of a DAQ
_USUAL = 0.5  # share of the results that are there when the publisher first polls for them
_DRAIN_S = 0.3  # at most, if a DAQ goes on sending
_LAST_S = 2.0  # at most, for a DAQ that the same supervisor has asked to end, and for its last block
_ENDED = {step_record.STOPPED: "stopped", step_record.ALL_STEPS: "all steps done"}


def prepare(config: Config, file: Path) -> Prepared:
    """A machine in its initial state, its parameters and its outputs."""
    keys = transport_keys(config, file, "sim")
    with compiling(f"model-{Path(config.sim.machine).stem}"):
        model, params = checked_machine(config, file)
        facts = described(model, params)  # as made: commands change it
        if fault := effort_fault(config, model, str(file)):
            facts["effort_fault"] = fault  # ignored for a device that takes any effort
        # a live step takes a moment of each period: what unrolled code gains there is measured (docs/results/speed.md),
        # and it is used only if `sim.code` names it
        simulation = Simulation(config, for_many_steps(model, 0, config.sim.code), params)
        simulation.settings = rehearsing(simulation.settings, config, model)
    refuse_too_large(file, "sim.ring_blocks", config.ring("sim"), simulation.layout, config.sim.ring_blocks)
    if config.transport.kind != "shm":  # received blocks go into a ring of this process
        refuse_too_large(file, "daq.ring_blocks", config.ring("sim_in"), config.daq.layout, config.daq.ring_blocks)
    return Prepared(partial(run, simulation, keys), {**facts, "outputs": list(simulation.layout.names)})


def run(
    simulation: Simulation,
    keys: Keys | None,
    config: Config,
    file: Path,
    stop: threading.Event,
    reporter: Reporter,
) -> dict[str, Any]:
    with contextlib.ExitStack() as stack:
        peer = Peer("the DAQ", config.ring("daq"))
        stack.callback(peer.close)
        ring_out, command_ring = _own_rings(config, simulation, reporter, stack)
        simulation.control[step_record.RUN_NS], simulation.control[step_record.END_NS] = _length(reporter)
        halt = threading.Event()  # the loop has ended; `stop` asks it to
        if config.transport.kind == "shm":
            blocks = RingFollower(config.ring("daq"), config.daq.layout, living=True)  # one that has ended is no input
            stack.callback(blocks.close)
            if _await_ring(blocks, stop, reporter, ring_out) is None:
                return {**simulation.figures(), "ended": "stopped before there was a DAQ"}
            link = _by_ring(config, simulation, blocks, stack)
        else:
            link = _by_wire(config, simulation, keys, ring_out.head == 0, halt, reporter, stack)
        server = CommandServer(
            link.zmq_context, config.command_endpoint, command_ring, simulation.model, simulation.params,
            lambda: int(simulation.control[step_record.OBEYED]), reporter.say,
            None if config.look_ahead.enabled else simulation.shape_rows,  # a look ahead has the shape of the start
        )  # fmt: skip
        stack.callback(server.close)
        wire_core, loop_core = realtime.cores(config.realtime)
        loop = lambda: _run_on(config, simulation, link.blocks, ring_out, stop, reporter)  # noqa: E731
        job = Worker("loop", loop, config, config.realtime.sim_priority, loop_core)
        workers = [
            *link.workers,
            Worker("commands", lambda: _serve_commands(server, halt), config, 1, wire_core),
            job,
        ]

        def end() -> None:
            simulation.control[step_record.STOP] = step_record.NOW
            halt.set()

        start(workers, reporter, stack, end)
        link.guard.warden.watch(*(worker for worker in workers if worker is not job))
        link.begin()
        view = RingReader(config.ring("sim"))
        stack.callback(view.close)
        watch = _Watch(config, simulation, link, peer, view, server, reporter)
        watch_workers(workers, stop, watch.poll)
        simulation.control[step_record.STOP] = step_record.DRAIN
        both = reporter.supervised and job.is_alive()  # asked to end, and the DAQ with us
        joined(job, _LAST_S if both else _DRAIN_S)
        if both:
            _await_last(peer, link.receiver)
        end()
        join(workers, reporter)
        simulation.give_up_rest()
        _say_bound(simulation, link, reporter)
        if job.result == step_record.ENDED_DIVERGED:
            raise Diverged(f"the model diverged {divergence_message(simulation)}")
        if job.result == step_record.INPUT_LOST:
            raise InputLost(_lost(simulation, config))
        return {
            **simulation.figures(),
            "ended": _ENDED.get(job.result, "failed"),
            **link.count(),
            "clock": _describe_clock(config, link.clock),
            "commands": server.count(),
        }


def _own_rings(
    config: Config, simulation: Simulation, reporter: Reporter, stack: contextlib.ExitStack
) -> tuple[RingWriter, RingWriter]:
    """The rings of results and of commands; the ring of states goes to the simulation alone."""
    ring_out = RingWriter(config.ring("sim"), simulation.layout, streams.SIM.capacity(config))
    stack.push(held(ring_out, reporter))
    command_ring = RingWriter(config.ring("command"), COMMANDS, streams.COMMAND.capacity(config))
    stack.push(held(command_ring, reporter))
    simulation.listen(command_ring.words)
    states = RingWriter(config.ring("state"), simulation.state_layout, streams.STATE.capacity(config))
    stack.push(held(states, reporter))
    simulation.states = states.words
    prefault(ring_out, command_ring, states)
    return ring_out, command_ring


@dataclass
class _Link:
    """Where blocks come from, and by which way: shared memory alone, or the wire."""

    blocks: RingFollower
    zmq_context: Context
    guard: SocketGuard
    transfer: np.ndarray
    where: str  # where blocks are awaited, for messages
    receiver: Receiver | None = None
    clock: ClockClient | None = None
    workers: list[Worker] = field(default_factory=list)
    begin: Callable[[], None] = lambda: None  # once the loop runs

    def count(self) -> dict[str, Any]:
        received = self.receiver.count() if self.receiver else None
        return {"transfer_us": summary_us(self.transfer), "received": received, **self.guard.count()}


def _by_ring(config: Config, simulation: Simulation, blocks: RingFollower, stack: contextlib.ExitStack) -> _Link:
    """The loop reads the DAQ's own ring; a thread beside it measures how long a block takes."""
    zmq_context = context()
    stack.callback(zmq_context.destroy, 0)
    guard = SocketGuard(zmq_context)
    stack.callback(guard.close)
    transfer = histogram()
    watching = (config, blocks, simulation.control, transfer, realtime.cores(config.realtime)[1])
    watcher = threading.Thread(target=_watch, args=watching, daemon=True)
    stack.callback(watcher.join, 1.0)
    return _Link(blocks, zmq_context, guard, transfer, f"ring {config.ring('daq')}", begin=watcher.start)


def _by_wire(
    config: Config,
    simulation: Simulation,
    keys: Keys | None,
    fresh: bool,
    halt: threading.Event,
    reporter: Reporter,
    stack: contextlib.ExitStack,
) -> _Link:
    """A receiver fills a ring of ours, a publisher sends results; a thread estimates the DAQ's clock, if it differs."""
    times = config.realtime
    core, _ = realtime.cores(times)
    zmq_context = context(times.wire_priority if times.enabled else None, core)
    stack.callback(zmq_context.destroy, 0)
    guard = SocketGuard(zmq_context, keys)
    stack.callback(guard.close)
    if fresh:  # no step used what an earlier simulator received
        remove_stale(config.ring("sim_in"))
    ring_received = RingWriter(config.ring("sim_in"), config.daq.layout, streams.SIM_IN.capacity(config))
    stack.push(held(ring_received, reporter))
    simulation.control[step_record.BEGIN] = ring_received.head
    prefault(ring_received)
    blocks = RingFollower(config.ring("sim_in"), config.daq.layout)
    if (own := blocks.attached()) is not None:
        prefault(own)
    stack.callback(blocks.close)
    receiver = Receiver(zmq_context, config.endpoint("daq"), ring_received, guard=guard)
    stack.callback(receiver.close)
    publisher = Publisher(zmq_context, config.endpoint("sim"), simulation.layout, guard=guard)
    stack.callback(publisher.close)
    results = RingReader(config.ring("sim"))
    stack.callback(results.close)
    link = _Link(blocks, zmq_context, guard, receiver.transfer, config.endpoint("daq"), receiver)
    receive = Worker("receiver", lambda: _receive(receiver, halt), config, times.wire_priority, core)
    link.workers.append(receive)
    clock = link.clock = _clock_client(config, zmq_context, guard)
    if clock is not None:
        receiver.clock = UNKNOWN_CLOCK
        stack.callback(clock.close)
        keep = lambda: _keep_clock(clock, receiver, simulation, halt)  # noqa: E731
        link.workers.append(Worker("clock", keep, config, max(times.wire_priority - 5, 1), core))
    publish = lambda: _publish(publisher, results, halt, config)  # noqa: E731
    link.workers.append(Worker("publisher", publish, config, max(times.wire_priority - 10, 1), core))
    return link


class _Watch:
    """Checks everything from time to time, and reports."""

    def __init__(
        self, config: Config, simulation: Simulation, link: _Link, peer: Peer, view: RingReader, server: CommandServer,
        reporter: Reporter,
    ):  # fmt: skip
        self._simulation, self._link, self._peer, self._view = simulation, link, peer, view
        self._server, self._reporter = server, reporter
        self._stale = StaleInput(config, link.blocks, view, simulation.control)
        self._waiting = Waiting("blocks of a DAQ", link.where)
        self._overload, self._divergence = Overload(), Divergence(simulation, config)
        self._clipping = ClippedInput(config.inputs, simulation.rows.clipped)
        if config.sim.phase == "locked" and not can_lock(simulation.phase):
            reporter.say(
                f"step {config.sim.step_ms:g} ms and sampling {1e3 / config.daq.rate_hz:g} ms are no multiples of each"
                " other: the phase cannot be locked, the steps run free"
            )

    def poll(self, turn: int) -> None:
        simulation, link, reporter = self._simulation, self._link, self._reporter
        texts = [self._peer.poll(), *self._stale.poll(), *self._overload.poll(simulation.counters)]
        for text in (*texts, *self._divergence.poll(), *self._clipping.poll(), *link.guard.news()):
            if text:
                reporter.say(text)
        if not reporter.supervised and (awaited := self._waiting.poll(_fresh(link.blocks.ring))):
            reporter.say(awaited)
        if link.receiver and (text := _foreign(link.receiver)):
            reporter.say(text, once=True)
        if link.clock is None and self._peer.ring:
            # the bound that the DAQ states, which may get its blocks from elsewhere. Blocks outlive the DAQ that
            # sampled them, and so does their bound: without a ring the last one stays
            simulation.control[step_record.BOUND_NS] = peek(self._peer.ring.words, BOUND_WORD)
        at_end = bool(simulation.control[step_record.AT_END])
        if turn % EVERY == 0 or at_end:
            reporter.status(
                {
                    **simulation.figures(),
                    **link.count(),
                    "commands": self._server.count(),
                    **_motion(self._view, simulation.model),
                    "at_end": at_end,
                }
            )


def _say_bound(simulation: Simulation, link: _Link, reporter: Reporter) -> None:
    """Report the error bound of the ages, if they were measured by two clocks."""
    age = summary_us(simulation.ledger[step_record.AGE])
    bound = int(simulation.control[step_record.WORST_BOUND_NS]) / 1e3
    if link.clock is not None and age["n"]:
        reporter.say(f"age at use: median {age['p50']:.0f} us, at most {age['max']:.0f} us, each ± {bound:.0f} us")
        if bound > age["p50"]:
            reporter.say("the bound is larger than the age itself: the ages mean little")


def _length(reporter: Reporter) -> tuple[int, int]:
    """How long the run is, from its first instant, and the instant of its end where that is known; 0: without end."""
    begin = json.loads(reporter.begin_line) if reporter.begin_line else {}
    return round(begin.get("seconds", 0.0) * 1e9), int(begin.get("end_ns", 0))


def _run_on(
    config: Config,
    simulation: Simulation,
    blocks: RingFollower,
    ring_out: RingWriter,
    stop: threading.Event,
    reporter: Reporter,
) -> int:
    """Run the loop; run it again on the ring of a new DAQ if the ring that it reads directly (shm) was closed."""
    ring = blocks.ring
    while ring is not None:
        ended = simulation.run(ring.words, ring_out.words)
        if ended != step_record.RING_CLOSED:
            return ended
        allowed = config.sim.stale
        ends = allowed.stop == "end" and allowed.stop_after_ms > 0
        ring = _await_ring(blocks, stop, reporter, ring_out, 1e-3 * allowed.stop_after_ms if ends else None)
    simulation.control[step_record.LOST_NS] = 0
    return step_record.STOPPED if stop.is_set() else step_record.INPUT_LOST


def _watch(config: Config, blocks: RingFollower, control: np.ndarray, transfer: np.ndarray, core: int | None) -> None:
    """Measure the transfer from the loop's core: on the DAQ's, a push would be seen only once the DAQ sleeps again.

    Without real-time priority it yields to the loop at once.
    """
    if core is not None:
        os.sched_setaffinity(0, {core})
    block = np.zeros(config.daq.layout.words, np.int64)
    while control[step_record.STOP] == 0 and (ring := blocks.ring) is not None:
        watch(ring.words, control, block, transfer, round(config.sim.probe_rest_ms * 1e6), NO_LOG)
        sleep_until(now_ns() + 10_000_000)  # the ring was closed: perhaps there is a new one


def _await_ring(
    blocks: RingFollower,
    stop: threading.Event,
    reporter: Reporter,
    ring_out: RingWriter,
    patience_s: float | None = None,
) -> RingReader | None:
    """The ring of a living DAQ, once there is one."""
    waiting = Waiting("a DAQ", f"its ring {blocks.name}")
    end = None if patience_s is None else now_ns() + round(1e9 * patience_s)
    while not stop.is_set() and (end is None or now_ns() < end):
        beat(ring_out.words)
        if (ring := blocks.attached()) is not None and blocks.alive:
            return ring
        if text := waiting.poll(False):
            reporter.say(text)
        stop.wait(_POLL_S)
    return None


def _await_last(peer: Peer, receiver: Receiver | None) -> None:
    """Wait until the DAQ has ended and its last block is here, so that blocks after the last step are counted, too,
    however long the DAQ takes to end. The limit is a number of polls, not a time: all processes may have been stopped
    meanwhile."""
    for _ in range(round(_LAST_S / _POLL_S)):
        head = peer.ended_at()
        if head is not None and (receiver is None or receiver.last_seq >= head - 1):
            return
        time.sleep(_POLL_S)


def _receive(receiver: Receiver, halt: threading.Event) -> None:
    receiver.connect()
    while not halt.is_set():
        receiver.receive()


def _serve_commands(server: CommandServer, halt: threading.Event) -> None:
    while not halt.is_set():
        server.serve()


def _clock_client(config: Config, zmq_context: Context, guard: SocketGuard) -> ClockClient | None:
    """What estimates the DAQ's clock; None if it is the same as ours."""
    mode = config.transport.clock_mode
    if mode == "same":
        return None
    declared = round(config.transport.clock_bound_us * 1e3) if mode == "disciplined" else None
    return ClockClient(zmq_context, config.clock_endpoint, declared, guard)


def _keep_clock(clock: ClockClient, receiver: Receiver, simulation: Simulation, halt: threading.Event) -> None:
    clock.connect()
    while not halt.wait(clock.pause_s()):
        clock.exchange()
        receiver.clock = clock.reading()
        if clock.estimate is not None:
            # the bound has to hold until it is next computed, even if the next request is not answered
            simulation.control[step_record.BOUND_NS] = clock.estimate.bound_at(now_ns() + _BOUND_HOLDS_NS)


def _describe_clock(config: Config, clock: ClockClient | None) -> dict[str, Any]:
    mode = config.transport.clock_mode
    if clock is None or clock.estimate is None:
        return {"mode": mode, "bound_us": 0.0 if mode == "same" else None}
    return {
        "mode": mode,
        "at_ns": clock.estimate.at_ns,
        "offset_ns": clock.estimate.offset_ns,
        "drift_ppm": round(clock.estimate.drift * 1e6, 4),
        "bound_us": clock.estimate.bound_ns / 1e3,
        "exchanges": clock.walls.exchanges,
        "unanswered": clock.unanswered,
        "stepped": clock.stepped,
    }


def _publish(publisher: Publisher, results: RingReader, halt: threading.Event, config: Config) -> None:
    """Publish each new result as soon as it is there; repeat the last one while nothing new comes."""
    block = np.zeros(results.layout.words, np.int64)
    position, nap_ns, lag, due = -1, min(config.step_ns // 10, 500_000), 0, 0
    repeat_ns = round(config.daq.idle_repeat_ms * 1e6)
    while not halt.is_set():
        wait_beyond(results.words, position, now_ns() + repeat_ns, nap_ns, due)
        found = newest(results.words, block)
        if found >= 0:
            new, position = found > position, found
            publisher.publish(block)
            if new:
                lag = usual_lag(lag, block[T], block[PUSHED], config.step_ns, _USUAL)
                due = int(block[T]) + config.step_ns + lag


def _fresh(ring: RingReader | None) -> bool:
    """Whether blocks are coming."""
    block = ring.newest() if ring else None
    return block is not None and now_ns() - max(int(block["received_ns"]), int(block["pushed_ns"])) < _AWAITED_NS


def in_words(report: dict[str, Any]) -> str:
    """What it did, for a person."""
    if not report["steps"]:
        return f"ended ({report['ended']}): no step was made, for want of a block"
    age = report["age_us"]
    counted = {"deadline_misses": "deadline misses", "skipped": "skipped", "stale_steps": "with stale input"}
    return (
        f"ended ({report['ended']}): {report['steps']} steps, "
        + ", ".join(f"{report[key]} {text}" for key, text in counted.items())
        + f"; input {age['p50']:.0f} us old (median), at most {age['max']:.0f} us"
        + f"; {report['used']} blocks used, {report['superseded']} superseded"
    )


def _foreign(receiver: Receiver) -> str | None:
    count = receiver.count()
    if count["foreign"]:
        return f"messages of another layout or version on {receiver.endpoint}: counted and ignored"
    if count["malformed"]:
        return f"messages that are not ours on {receiver.endpoint}: counted and ignored"
    return None


def _lost(simulation: Simulation, config: Config) -> str:
    """Why a run with stale input ends."""
    allowed = f"sim.stale.stop_after_ms = {config.sim.stale.stop_after_ms:g}"
    if simulation.control[step_record.LOST_NS] == 0:
        return f"input lost: the DAQ has ended and none came in its place ({allowed})"
    return f"input lost: {lost_words(simulation.control, list(config.inputs))} ({allowed})"


def _motion(view: RingReader, model: Machine) -> dict[str, Any]:
    block = view.newest()
    if block is None:
        return {}
    shown = {}
    for tile in model.shown.display.figures[:1]:
        shown["shown"] = f"{tile.factor * float(block[tile.channel]):.{tile.digits}f} {tile.unit}"
    return {"time": round(float(block["time"]), 3), **shown}
