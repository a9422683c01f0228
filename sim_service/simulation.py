"""A model, its inputs and its books: everything the loop works on, made from a configuration."""

from typing import Any

import numpy as np

from sim_service import command_record, loop, step_record
from sim_service.models.description import Model, index
from sim_service.phase import arrival_histograms, describe, phase_state
from sim_service.signals import tables
from sim_service.signals.stale import policy
from sim_service.step_result import TURNED_WORDS
from sim_service.turn import guard
from sync.block import Channel, Layout
from sync.clock import REAL, RealClock, VirtualClock
from sync.config import Config
from sync.ledger import histograms, summary_us
from sync.ring import HEAD_WORD, private_ring


class Simulation:
    """A model, its inputs and its books: everything the loop works on."""

    def __init__(self, config: Config, model: Model, params: np.ndarray):
        self.model, self.params = model, params
        self.input_layout = config.daq.layout
        self.layout = step_record.output_layout(self.model)
        self.state = np.zeros(len(self.model.states))
        self.inputs = np.zeros(len(self.model.inputs))
        self.work = np.zeros(self.model.work_size)
        self.model.initial(self.state, self.params, self.work)
        self.signals = (
            *tables(config.sim.signals, config.daq.layout, config.step_ns * 1e-9, config.period_ns * 1e-9),
            policy(config.sim),
        )
        self.kept = np.zeros(len(model.states) + len(model.outputs))  # as they were before the step
        self.guard = guard(model.bound, config.sim.on_divergence, config.sim.most_divergences, config.step_ns)
        self.turned = np.zeros(TURNED_WORDS, np.int64)
        self.offending = np.zeros(len(self.inputs))  # what the model was given when it diverged
        self.settings = np.zeros(step_record.SETTINGS, np.int64)
        self.settings[step_record.H_NS] = config.step_ns
        if config.sim.stale.stop_after_ms > 0:
            self.settings[step_record.MOST_AGE_NS] = round(
                (config.sim.stale_after_ms + config.sim.stale.stop_after_ms) * 1e6
            )
        self.settings[step_record.LOST_ENDS] = config.sim.stale.stop == "end"
        self.settings[step_record.CATCH_UP] = config.sim.catch_up_steps if config.sim.overload == "catch_up" else 0
        self.settings[step_record.MOST_STEPS] = -1
        self.settings[step_record.WHEEL_SPEED] = index(self.model.outputs, "wheel_speed_rear")
        self.settings[step_record.OUTPUTS] = len(self.model.outputs)
        # a model that iterates says where it was capped
        named = [q.name for q in self.model.outputs]
        self.settings[step_record.CAPPED_OUTPUT] = named.index("capped") if "capped" in named else -1
        self.settings[step_record.DRAIN_NS] = 50_000_000 + 3 * max(config.period_ns, config.step_ns)
        self.settings[step_record.MOST_BLOCKS] = 2 * -(-config.step_ns // config.period_ns) + 64
        self.settings[step_record.RHYTHM_NS] = 2 * max(config.step_ns, config.period_ns)
        # for a late block; where not every step has a new one, there is none to wait for
        self.settings[step_record.WAIT_NS] = config.step_ns // 10 if config.period_ns <= config.step_ns else 0
        self.control = np.zeros(step_record.CONTROL_WORDS, np.int64)
        self.ledger = histograms(len(step_record.LEDGER))
        self._phase_mode, self._step_ns = config.sim.phase, config.step_ns
        self.phase = phase_state(config.sim.phase, config.step_ns, config.period_ns, config.sim.phase_slew)
        self.arrivals = arrival_histograms()
        self.counters = np.zeros(len(step_record.COUNTERS), np.int64)
        self._block = np.zeros(config.daq.layout.words, np.int64)
        self._passing = np.zeros(config.daq.layout.words, np.int64)
        self._out = np.zeros(self.layout.words, np.int64)
        self.commands = private_ring(command_record.LAYOUT, 16)  # an empty one, unless somebody is to be obeyed
        self._command = np.zeros(command_record.LAYOUT.words, np.int64)
        self.state_layout = Layout(tuple(Channel(q.name, "f8", q.unit) for q in model.states))
        self.states = private_ring(self.state_layout, 16)  # the state after every step, for whoever looks
        self._out_state = np.zeros(self.state_layout.words, np.int64)
        self._mode = command_record.mode()
        self._first = (self.state.copy(), self.work.copy())

    def listen(self, ring: np.ndarray) -> None:
        """Obey commands pushed into this ring from now on."""
        self.commands = ring
        self.control[step_record.OBEYED] = ring[HEAD_WORD]

    def run(self, ring_in: np.ndarray, ring_out: np.ndarray, clock: RealClock | VirtualClock = REAL) -> int:
        """Steps until `control[STOP]`; how it ended is one of STOPPED, ALL_STEPS, DIVERGED, RING_CLOSED, INPUT_LOST."""
        return int(
            loop.run_on(clock)(
                clock,
                ring_in,
                ring_out,
                self.commands,
                self.states,
                self._block,
                self._passing,
                self._out,
                self._command,
                self._out_state,
                self.settings,
                self.control,
                self.ledger,
                self.counters,
                self.phase,
                self.arrivals,
                *self.signals,
                self.model.step,
                self.state,
                self.inputs,
                self.params,
                self.work,
                *self._first,
                self._mode,
                self.kept,
                self.guard,
                self.turned,
                self.offending,
            )
        )

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
        }
