"""A model, its inputs and its books: everything the loop works on, made from a configuration."""

from typing import Any

import numpy as np

from sim_service import command_record, loop, step_record
from sim_service.contract.machine import Machine, Reshape
from sim_service.inputs.table import rows
from sim_service.loop_data import (
    CURSOR,
    Books,
    Buffers,
    Divergence,
    MachineData,
    PhaseLock,
    Rings,
    Settings,
)
from sim_service.phase import arrival_histograms, describe, phase_state
from sim_service.rehearsal import twin_of
from sim_service.reshape import changeable, no_fit
from sim_service.step_kernel import RESULT_WORDS, limits
from sync.clock import REAL, RealClock, VirtualClock
from sync.compile.array_types import read_only
from sync.config.config import Config
from sync.ring.block import SEQ, Channel, Layout
from sync.ring.ledger import histograms, summary_us
from sync.ring.ring import HEAD_WORD, newest, private_ring


class Simulation:
    """A model, its inputs and its books: everything the loop works on."""

    def __init__(self, config: Config, model: Machine, params: np.ndarray):
        self.model, self.params = model, params
        self.input_layout = config.daq.layout
        self.layout = step_record.output_layout(self.model)
        self.state = np.zeros(len(self.model.states))
        self.inputs = np.zeros(len(self.model.inputs))
        self._works = np.zeros(2 * self.model.work_size)
        self.work = self._works[: self.model.work_size]
        self.model.initial(self.state, self.params, self.model.tables, self.work)
        self.tables, self._floats, self.shape_rows = changeable(model)
        reshape = model.of(Reshape)
        self.fit = no_fit if reshape is None else reshape.fit
        self.rows = rows(
            config.inputs, config.daq.layout, model.inputs, config.step_ns * 1e-9,
            config.period_ns * 1e-9, config.sim.stale_after_ms,
        )  # fmt: skip
        previous = np.zeros(len(model.states) + len(model.outputs))
        bounds = limits(model.stepping.bound, config.sim.on_divergence, config.sim.most_divergences, config.step_ns)
        self.divergence = Divergence(bounds, previous, np.zeros(RESULT_WORDS, np.int64), np.zeros(len(self.inputs)))
        self.settings = _settings(config, model)
        self.control = np.zeros(step_record.CONTROL_WORDS, np.int64)
        self.control[step_record.LAST_SEQ] = -1
        self._blocks: np.ndarray | None = None  # the ring the loop reads, or has read
        self.ledger = histograms(len(step_record.LEDGER))
        self._phase_mode, self._step_ns = config.sim.phase, config.step_ns
        self.phase = phase_state(
            config.sim.phase, config.step_ns, config.period_ns, config.sim.phase_slew, config.sim.phase_quantile
        )
        self.arrivals = arrival_histograms()
        self.counters = np.zeros(len(step_record.COUNTERS), np.int64)
        self.commands = private_ring(command_record.LAYOUT, 16)  # an empty one, unless there is a command server
        self.state_layout = Layout(tuple(Channel(q.name, "f8", q.unit) for q in model.states))
        self.states = private_ring(self.state_layout, 16)  # the state after every step, for the view
        layouts = (self.input_layout, self.input_layout, self.layout, command_record.LAYOUT, self.state_layout)
        self.buffers = Buffers(*(np.zeros(layout.words, np.int64) for layout in layouts))
        self._cursor = np.zeros(1, CURSOR)
        self._mode = command_record.mode()
        self._first = (self.state.copy(), self.work.copy())
        own = self._works[self.model.work_size :]
        self.twin = twin_of(own, self.buffers, self.rows, self.machine, self.divergence)  # what a rehearsal writes

    @property
    def machine(self) -> MachineData:
        return MachineData(
            self.state, self.inputs, self.params, self.tables, self.work, *self._first, self._mode, self._floats,
            self.shape_rows,
        )  # fmt: skip

    def busy(self, word: int) -> np.ndarray:
        """For a virtual clock: an array with this word of `work` first, and the same word of the twin's last."""
        return self._works[word : word + self.model.work_size + 1]

    def listen(self, ring: np.ndarray) -> None:
        """Obey commands pushed into this ring from now on."""
        self.commands = ring
        self.control[step_record.OBEYED] = ring[HEAD_WORD]

    def run(self, ring_in: np.ndarray, ring_out: np.ndarray, clock: RealClock | VirtualClock = REAL) -> int:
        """Steps until `control[STOP]`; how it ended: STOPPED, ALL_STEPS, ENDED_DIVERGED, RING_CLOSED or INPUT_LOST."""
        self._blocks = read_only(ring_in)
        rings = Rings(self._blocks, ring_out, read_only(self.commands), self.states)
        books = Books(self.control, self.counters, self.ledger, self._cursor)
        lock = PhaseLock(self.phase, self.arrivals)
        return int(
            loop.run_on(clock)(
                clock, rings, self.buffers, self.settings, books, lock, self.rows, self.model.step, self.fit,
                self.machine, self.divergence, self.twin,
            )
        )  # fmt: skip

    def give_up_rest(self) -> None:
        """Count blocks that came after the loop had ended as superseded: no step used them. Nothing writes any more."""
        if self._blocks is None:
            return
        position, cursor = newest(self._blocks, self.buffers.block), self._cursor[0]
        if position > cursor["used"]:
            self.counters[step_record.SUPERSEDED] += position - cursor["used"]
            self.control[step_record.LAST_SEQ] = self.buffers.block[SEQ]
            cursor["used"] = position

    def figures(self) -> dict[str, Any]:
        return {
            **{name: int(value) for name, value in zip(step_record.COUNTERS, self.counters, strict=True)},
            "last_seq": int(self.control[step_record.LAST_SEQ]),
            "first_step_ns": int(self.control[step_record.FIRST_STEP_NS]),
            "bound_us": int(self.control[step_record.WORST_BOUND_NS]) / 1e3,
            "phase": describe(self._phase_mode, self.phase, self._step_ns),
            "age_us": summary_us(self.ledger[step_record.AGE]),
            "hops_us": {
                step_record.LEDGER[row]: summary_us(self.ledger[row])
                for row in range(step_record.SENSOR, step_record.LATENESS)
            },
            "lateness_us": summary_us(self.ledger[step_record.LATENESS]),
            "step_us": summary_us(self.ledger[step_record.COST]),
            "rehearsal_us": summary_us(self.ledger[step_record.REHEARSAL]),
        }


def _settings(config: Config, model: Machine) -> Settings:
    stale, step_ns, period_ns = config.sim.stale, config.step_ns, config.period_ns
    lost_ms = config.sim.stale_after_ms + stale.stop_after_ms if stale.stop_after_ms > 0 else 0.0
    named = [q.name for q in model.outputs]
    return Settings(
        h_ns=step_ns,
        most_age_ns=round(lost_ms * 1e6),
        lost_ends=int(stale.stop == "end"),
        catch_up=config.sim.catch_up_steps if config.sim.overload == "catch_up" else 0,
        most_steps=-1,
        outputs=len(model.outputs),
        capped_output=named.index("capped") if "capped" in named else -1,  # of a model that iterates
        drain_ns=50_000_000 + 3 * max(period_ns, step_ns),
        most_blocks=2 * -(-step_ns // period_ns) + 64,
        rhythm_ns=2 * max(step_ns, period_ns),
        # where not every step has a new block, there is none to wait for
        wait_ns=step_ns // 10 if period_ns <= step_ns else 0,
        rehearses=0,  # a live run sets these two (sim_service/rehearsal.py)
        spin_ns=0,
    )
