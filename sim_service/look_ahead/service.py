"""The process of the look ahead: newest state in, predictions out, warnings as notices, hindsight at the end.

It only reads what the simulator writes anyway, and writes a ring of its own. It has an ordinary, low priority and keeps
off the loop's core. Held futures are due `rate_hz` times a second; one that is too late for its turn is left out and
counted. Between two of them, if there is time for it, one of the other kinds is predicted, in turn.

It follows parameters that are commanded while it runs: the ring of commands holds them, and every step says how many of
the commands it has obeyed.
"""

import contextlib
import os
import threading
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sim_service import step_record
from sim_service.command_record import PARAMETER
from sim_service.contract.machine import Machine, index
from sim_service.contract.stability import LOSS
from sim_service.look_ahead import record as rec
from sim_service.look_ahead.hindsight import Hindsight
from sim_service.look_ahead.predict import Predictor
from sim_service.registry import configured_machine
from sync.clock import now_ns, sleep_until
from sync.compile.jit import compiling
from sync.config.config import Config
from sync.process import realtime
from sync.process.service import Prepared, Reporter, held
from sync.ring import streams
from sync.ring.block import EPOCH, PAYLOAD, PUSHED, SEQ, T
from sync.ring.follower import RingFollower
from sync.ring.ledger import histogram, record, summary_us
from sync.ring.ring import RingWriter, newest, push

_NICE = 15
_REST_NS = 2_000_000  # between polls for a new state
_NAP_NS = 50_000_000  # at most, so that a stop need not wait for the next turn
_STATUS_NS = 300_000_000
_RETRY_NS = 50_000_000
_TRIES = 3  # for a step and its state: between the loop's two pushes the newest ones belong to two steps
_MOST_STEPS = 4096  # taken at once
_MOST_WAITING = 1024  # commands
_SLACK = 1.25  # times the average cost of a future must be left for another one before the next is due


def prepare(config: Config, file: Path) -> Prepared:
    with compiling(f"model-{Path(config.sim.machine).stem}"):
        machine, params = configured_machine(config, file.parent)
        predictor = Predictor(config, machine, params, str(file))
    # predict once of every kind, so that nothing is loaded later
    state, work = np.zeros(len(machine.states)), np.zeros(machine.work_size)
    machine.initial(state, params, machine.tables, work)
    inputs = np.zeros(len(machine.inputs))
    for kind in predictor.kinds:
        predictor.predict(kind, state, inputs, work[: len(machine.outputs)], params, _block())
    return Prepared(partial(run, predictor, params))


def _block() -> np.ndarray:
    return np.zeros(rec.LAYOUT.words, np.int64)


class Parameters:
    """The parameters, with all commands that a step has obeyed."""

    def __init__(self, config: Config, initial: np.ndarray):
        self._initial, self.values = initial, initial.copy()
        self._follower = RingFollower(config.ring("command"), retry_ns=_RETRY_NS)
        self._waiting: list[Any] = []
        self._epoch = -1

    @property
    def lost(self) -> int:
        """Commands that were overwritten before they were read."""
        return self._follower.lost

    def at(self, commands: int, epoch: int) -> np.ndarray:
        """Those of a step that has obeyed all commands before this position; a restarted simulator resets them."""
        if epoch != self._epoch:
            self._epoch = epoch
            self.values[:] = self._initial
        for batch in self._follower.batches():
            self._waiting += list(batch)
        later = []
        for command in self._waiting:
            if int(command["epoch"]) == epoch and int(command["seq"]) < commands:
                if command["kind"] == PARAMETER:
                    self.values[int(command["index"])] = command["value"]
            else:
                later.append(command)
        self._waiting = later[-_MOST_WAITING:]  # those of simulators that have ended are never obeyed
        return self.values

    def close(self) -> None:
        self._follower.close()


class Source:
    """The newest step and the state after it; and every step, for the hindsight."""

    def __init__(self, config: Config, machine: Machine):
        self._steps = RingFollower(config.ring("sim"), living=True, from_now=True, retry_ns=_RETRY_NS)
        self._states = RingFollower(config.ring("state"), living=True, from_now=True, retry_ns=_RETRY_NS)
        layout = step_record.output_layout(machine)
        self.step = np.zeros(layout.words, np.int64)
        self._state = np.zeros(PAYLOAD + len(machine.states), np.int64)
        values, first, n = self.step.view(np.float64), step_record.AT_INPUTS, len(machine.inputs)
        self.inputs, self.outputs = values[first : first + n], values[first + n : first + n + len(machine.outputs)]
        self.state = self._state.view(np.float64)[PAYLOAD:]
        self._all = np.zeros((_MOST_STEPS, layout.words), np.int64)
        self._first = first + n
        self.unmatched = 0

    def take(self) -> bool:
        """Read the newest step and its state; False if there is none, or the two do not match."""
        steps, states = self._steps.attached(), self._states.attached()
        if steps is None or states is None or not (self._steps.alive and self._states.alive):
            return False
        if steps.layout.words != len(self.step) or states.layout.words != len(self._state):
            return False
        for _ in range(_TRIES):
            if newest(steps.words, self.step) < 0 or newest(states.words, self._state) < 0:
                return False
            if self.step[SEQ] == self._state[SEQ] and self.step[EPOCH] == self._state[EPOCH]:
                return True
        self.unmatched += 1
        return False

    def happened(self) -> np.ndarray:
        """The steps since the last call, as rows of words; with their outputs from column `first` on."""
        ring = self._steps.ring
        if ring is None or ring.layout.words != self._all.shape[1]:
            return self._all[:0]
        return self._all[: self._steps.take(self._all)]

    @property
    def first(self) -> int:
        return self._first

    @property
    def lost(self) -> int:
        return self._steps.lost

    def close(self) -> None:
        self._steps.close()
        self._states.close()


class Predictions:
    """Predictions, in turns."""

    def __init__(self, config: Config, predictor: Predictor, params: np.ndarray, ring: RingWriter):
        machine = predictor.machine
        self._config, self._predictor, self._ring = config, predictor, ring
        self.source, self.parameters = Source(config, machine), Parameters(config, params)
        self.hindsight = Hindsight(config.step_ns, predictor.h, predictor.steps)
        self._place = [index(machine.outputs, name) for name in predictor.monitor.place]
        self._block = _block()
        self._period_ns = round(1e9 / config.look_ahead.rate_hz)
        self._due_ns = now_ns()
        self._last = [(-1, -1)] * len(rec.KINDS)  # (epoch, step) of the last prediction of each kind
        self.counts = [0] * len(rec.KINDS)
        self.cost = histogram()
        self._mean_ns = 0.0
        self._first_ns = self._last_ns = 0
        self.left_out = 0
        self._turns = 0  # of futures between the held ones
        self.status = 0  # of the last held prediction

    def turn(self) -> None:
        now = now_ns()
        due = now >= self._due_ns
        spare = now + _SLACK * self._mean_ns < self._due_ns
        others = self._predictor.kinds[1:]
        kind = rec.HELD if due or not others else others[self._turns % len(others)]
        if not due and not (spare and self._mean_ns and others):
            sleep_until(min(self._due_ns, now + _NAP_NS))
            return
        self._compare()
        if not self.source.take() or self._is_known(kind):
            # there is no new state, as in a pause: that does not count as a turn left out
            self._due_ns = max(self._due_ns, now)
            sleep_until(now_ns() + _REST_NS)
            return
        if due:
            behind = (now - self._due_ns) // self._period_ns
            if not self.counts[rec.HELD]:  # turns begin with the first one, however long that took to begin
                self._due_ns = now_ns() + self._period_ns
            else:
                self.left_out += behind
                self._due_ns = now + self._period_ns if behind else self._due_ns + self._period_ns
        else:
            self._turns += 1
        self._predict(kind)

    def _is_known(self, kind: int) -> bool:
        step = self.source.step
        here = (int(step[EPOCH]), int(step[step_record.AT_STEP]))
        known = self._last[kind] == here
        self._last[kind] = here
        return known

    def _predict(self, kind: int) -> None:
        source, block = self.source, self._block
        step = source.step
        params = self.parameters.at(int(step[step_record.AT_COMMANDS]), int(step[step_record.AT_COMMAND_EPOCH]))
        begun = now_ns()
        self._predictor.predict(kind, source.state, source.inputs, source.outputs, params, block)
        block[rec.AT_STEP], block[rec.AT_STEP_EPOCH] = step[step_record.AT_STEP], step[EPOCH]
        block[rec.AT_BEGUN], block[T] = begun, step[T]
        block[SEQ], block[EPOCH], block[PUSHED] = self._ring.head, self._ring.epoch, now_ns()
        push(self._ring.words, block)
        took = int(block[PUSHED]) - begun
        record(self.cost, took)
        self._mean_ns = took if not self._mean_ns else self._mean_ns + 0.1 * (took - self._mean_ns)
        self._first_ns = self._first_ns or begun
        self._last_ns = int(block[PUSHED])
        self.counts[kind] += 1
        if kind == rec.HELD:
            self.status = int(block[rec.AT_STATUS])
        self.hindsight.predicted(block)

    def _compare(self) -> None:
        rows = self.source.happened()
        first, outputs = self.source.first, len(self._predictor.machine.outputs)
        for row in rows:
            if int(row[step_record.AT_STATUS]) & step_record.RESTARTED:
                self.hindsight.forget()
            values = row.view(np.float64)[first : first + outputs]
            lost = bool(self._predictor.judge(values, self.parameters.values)[LOSS] >= 1.0)
            self.hindsight.happened(
                int(row[EPOCH]), int(row[step_record.AT_STEP]), int(row[T]), values[self._place], lost
            )
        self.hindsight.compare()

    def figures(self) -> dict[str, Any]:
        seconds = (self._last_ns - self._first_ns) * 1e-9
        cost = summary_us(self.cost)
        return {
            "horizon_s": self._config.look_ahead.horizon_s,
            "predictions": dict(zip(rec.KINDS, self.counts, strict=True)),
            "rate_hz": {
                name: round(count / seconds, 2) if seconds > 0 else 0.0
                for name, count in zip(rec.KINDS, self.counts, strict=True)
            },
            "cost_ms": {key: round(cost[key] / 1e3, 3) for key in ("p50", "p99", "max")},
            "left_out": self.left_out,
            "unmatched": self.source.unmatched,
            "steps_not_seen": self.source.lost,
            "lost_commands": self.parameters.lost,
            **self.hindsight.figures(),
        }

    def close(self) -> None:
        self._compare()
        self.source.close()
        self.parameters.close()


def keep_off(config: Config) -> str:
    """Take a low priority and the configured core. Returns what was refused, "" if nothing was."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, _NICE)
    core = config.look_ahead.core
    if core == "auto":  # every process but the loop keeps off the loop's core anyway
        return ""
    try:
        os.sched_setaffinity(0, {core} if isinstance(core, int) else realtime.own_cores())
    except OSError:
        there = ", ".join(map(str, sorted(os.sched_getaffinity(0))))
        return f"look_ahead.core = {core}: cannot be had; this process may run on {there}"
    return ""


def run(
    predictor: Predictor, params: np.ndarray, config: Config, file: Path, stop: threading.Event, reporter: Reporter
) -> dict[str, Any]:
    if refused := keep_off(config):
        reporter.say(refused)
    if config.sim.code != "tables":
        predictor.unroll()  # not in `prepare`: the process that compiles does not survive a fork
    with contextlib.ExitStack() as stack:
        ring = RingWriter(config.ring("look_ahead"), rec.LAYOUT, streams.LOOK_AHEAD.capacity(config))
        stack.push(held(ring, reporter))
        predictions = Predictions(config, predictor, params, ring)
        stack.callback(predictions.close)
        reported = 0
        while not stop.is_set():
            predictions.turn()
            if now_ns() - reported > _STATUS_NS:
                reported = now_ns()
                reporter.status(predictions.figures())
                if predictions.parameters.lost:
                    text = "commands were overwritten before they were read: parameters may not be those of the machine"
                    reporter.say(text, once=True)
        return predictions.figures()


def in_words(report: dict[str, Any]) -> str:
    """What it did, for a person."""
    counts = ", ".join(f"{count} {kind}" for kind, count in report["predictions"].items())
    return f"ended: {counts} futures of {report['horizon_s']:g} s, {report['warnings']} warnings"
