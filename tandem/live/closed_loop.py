"""A haptic loop on the virtual clock, in one thread: the real device code, acquisition, inputs, machine and effort.

The device samples, a step is made from every sample, and its effort is handed over a chosen delay after the sample:
what a run does, with a delay that does not vary. The same configuration gives the same bits.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numba import float64, int64, types

from daq_service.acquire import Acquisition
from daq_service.devices import open_device
from daq_service.devices.contract import Host
from daq_service.devices.haptic import HapticDevice
from daq_service.devices.haptic_plant import V, X, hand_over
from daq_service.effort import CURSOR_ROW, SETTINGS, advance_effort, new_cursor, new_past, settings_of
from sim_service.registry import configured_machine
from sim_service.replay import StepByStep
from sim_service.simulation import Simulation
from sync.compile.array_types import WORDS
from sync.compile.jit import kernel
from sync.config.config import Config
from sync.errors import ConfigError
from sync.ring.block import Layout
from sync.ring.ring import EPOCH_WORD, HEAD_WORD, newest, private_ring
from sync.virtual_clock import virtual_clock


@kernel(types.void(SETTINGS, CURSOR_ROW, WORDS, int64, int64, float64, float64))
def _advance(settings, cursor, past, sampled, moment, output, displacement):
    advance_effort(settings, cursor[0], moment, True, moment, output, displacement, 1, sampled, past)


class _Ring:
    """The DAQ's ring, in this process's own memory."""

    def __init__(self, layout: Layout):
        self.layout, self.words = layout, private_ring(layout, 64)

    @property
    def head(self) -> int:
        return int(self.words[HEAD_WORD])

    def bump_epoch(self) -> int:
        self.words[EPOCH_WORD] += 1
        return int(self.words[EPOCH_WORD])


@dataclass(frozen=True)
class Trace:
    """A row a sample."""

    seconds: np.ndarray
    position: np.ndarray  # of the device, exactly
    velocity: np.ndarray
    effort: np.ndarray  # effort, handed over a delay after the sample
    energy: np.ndarray  # of the port, as the passivity monitor computes it
    outputs: dict[str, np.ndarray]  # inputs and outputs of the machine


def run_closed_loop(
    config: Config,
    file: Path,
    seconds: float,
    delay_ns: int = 0,
    before: Callable[[HapticDevice], None] = lambda _: None,
) -> Trace:
    """Run a configuration whose source is a virtual haptic device for so many seconds. `before` gets the device once it
    has started. Raises ConfigError if the configuration has no such device, or no effort."""
    clock = virtual_clock(read_ns=0)
    device = open_device(config, file, Host(clock=clock))
    if not isinstance(device, HapticDevice) or device.effort is None:
        kind = config.source.get("kind")
        raise ConfigError(f"{file}: source.kind = {kind!r}: must be 'haptic', with [source.effort]")
    machine, params = configured_machine(config, file.parent)
    simulation = Simulation(config, machine, params)
    steps = round(seconds * 1e9 / config.period_ns)
    stepper = StepByStep(simulation, steps)
    ring = _Ring(config.daq.layout)
    acquisition = Acquisition(config, device, ring, None, clock=clock)  # type: ignore[arg-type]  # only its words
    names = [q.name for q in (*machine.inputs, *machine.outputs)]
    at_effort = names.index(device.effort.channel)
    at_port = names.index(device.effort.displacement) if device.effort.displacement else at_effort
    settings, cursor = settings_of(device.effort, config.step_ns, True, True), new_cursor()
    past = new_past()
    block = np.zeros(config.daq.layout.words, np.int64)
    rows = np.zeros((steps, 5))
    device.start()
    before(device)
    for k in range(steps):
        while ring.head <= k:
            acquisition.turn()
        sampled = clock.now_ns()
        newest(ring.words, block)
        found = stepper.step(block, 0)
        moment = sampled + delay_ns
        _advance(settings, cursor, past, sampled, moment, found[at_effort], found[at_port])
        hand_over(device.queue, cursor["applied"][0], moment)
        rows[k] = k * config.period_ns * 1e-9, device.x[X], device.x[V], cursor["applied"][0], cursor["energy"][0]
    outputs = {name: stepper.results[:, i] for i, name in enumerate(names)}
    return Trace(rows[:, 0], rows[:, 1], rows[:, 2], rows[:, 3], rows[:, 4], outputs)
