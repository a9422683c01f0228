"""One random schedule: a script from a seed, the loop run on it in virtual time, and what it recorded.

The script has blocks with jitter, bursts, gaps and drops, a writer that closes its ring and is replaced, a ring that an
earlier simulator began to fill, commands and an end; looks at the clock and steps of the model cost random times.
verify/path/schedule_promises.py judges what comes out.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from sim_service import step_record as rec
from sim_service.command_record import AT_INDEX, AT_KIND, AT_VALUE, PARAMETER, PAUSE, RESET, RESUME, SLOW
from sim_service.command_record import LAYOUT as COMMANDS
from sim_service.registry import load_machine
from sim_service.simulation import Simulation
from sync.clock import VirtualClock
from sync.config.config import Config, load
from sync.ring.block import PAYLOAD, PUSHED, RECEIVED, SENT, T
from sync.ring.ring import CLOSED, EPOCH_WORD, HEAD_WORD, private_ring, since
from sync.virtual_clock import (
    AT,
    BLOCK,
    COMMAND,
    CONTROL,
    CURSOR,
    KIND,
    NEW_EPOCH,
    PUSH,
    READ_NS,
    SPREAD_NS,
    STALL_NS,
    STALL_PER_MILLION,
    STATE,
    WHERE,
    virtual_clock,
)
from verify import CONFIGS
from verify.path import trivial

DRIVE = CONFIGS / "drive.toml"
START_NS = 10**12
_MS = 1_000_000
_RINGS = 2
_COMMAND_BLOCKS = 64
_RESULTS = 2048
_GUARD_NS = 400 * _MS  # after the end was asked for, the loop is asked to end at once

# settings that a schedule is tried with, over those of configs/drive.toml
_STALE = "inputs.steering.stale={hold_ms=5, extrapolate_ms=0, ramp_ms=20, safe=3}"
_EXTRAPOLATED = "inputs.steering.stale={hold_ms=5, extrapolate_ms=20, ramp_ms=20, safe=3}"
SETTINGS = (
    ("sim.phase=locked", "sim.step_ms=5", "daq.rate_hz=1000", "daq.ring_blocks=64", "sim.rehearse=on"),
    ("sim.phase=locked", "sim.step_ms=2", "daq.rate_hz=500", "daq.ring_blocks=16", "sim.overload=skip"),
    ("sim.phase=locked", "sim.step_ms=1", "daq.rate_hz=200", "daq.ring_blocks=64", "sim.stale_after_ms=20", _STALE,
     "sim.rehearse=on"),
    ("sim.phase=free", "sim.step_ms=5", "daq.rate_hz=1000", "daq.ring_blocks=16", "sim.stale_after_ms=20",
     _EXTRAPOLATED),
    ("sim.phase=free", "sim.step_ms=2", "daq.rate_hz=300", "daq.ring_blocks=64", "sim.overload=skip",
     "inputs.steering.estimator=source"),
    ("sim.phase=free", "sim.step_ms=1", "daq.rate_hz=1000", "daq.ring_blocks=128", "sim.catch_up_steps=2",
     "sim.stale_after_ms=10", "sim.stale.stop_after_ms=20", "inputs.steering.estimator=full_rate", "sim.rehearse=on"),
    ("sim.phase=locked", "sim.step_ms=5", "daq.rate_hz=1000", "daq.ring_blocks=128", "sim.stale_after_ms=10",
     "sim.stale.stop_after_ms=20", "sim.stale.stop=end", "inputs.steering.estimator=edges"),
)  # fmt: skip
CALM = 0  # the settings of calm schedules, on which the phase lock must hold


def _arrays(simulation: Simulation) -> list[np.ndarray]:
    found = [a for a in vars(simulation).values() if isinstance(a, np.ndarray)]
    found += [a for group in vars(simulation).values() if isinstance(group, tuple) for a in group]
    return [a for a in found if isinstance(a, np.ndarray)]


class Setup:
    """A simulation of some settings that can be reset without being built again; and its twin for the replay."""

    def __init__(self, settings: tuple[str, ...], machine: str):
        self.config: Config = load(DRIVE, ["name=schedules", *settings])
        self.simulation, self.twin = (Simulation(self.config, *self._machine(machine)) for _ in range(2))
        layout = self.config.daq.layout
        self.commands = private_ring(COMMANDS, _COMMAND_BLOCKS)
        self.results = private_ring(self.simulation.layout, _RESULTS)
        self.rings = np.stack([private_ring(layout, self.config.daq.ring_blocks) for _ in range(_RINGS)])
        self.rings[:, EPOCH_WORD] = np.arange(_RINGS) * 1000 + 1
        if self.config.sim.rehearse == "on":
            self.simulation.settings = self.simulation.settings._replace(rehearses=1, spin_ns=self.config.step_ns // 20)
        self.simulation.listen(self.commands)
        everything = [self.commands, self.results, self.rings, *_arrays(self.simulation), *_arrays(self.twin)]
        self._first = [(array, array.copy()) for array in everything if array.flags.writeable]
        self.busy = self.simulation.busy(trivial.BUSY) if machine == "trivial" else np.zeros(1)
        self._blocks = np.zeros((_RESULTS, self.simulation.layout.words), np.int64)

    def _machine(self, machine: str) -> tuple[Any, np.ndarray]:
        if machine == "trivial":
            return trivial.MACHINE, np.array([p.value for p in trivial.MACHINE.parameters])
        return load_machine(DRIVE.parent / "vehicles" / f"{machine}.toml")

    def begin(self) -> None:
        for array, first in self._first:
            array[...] = first

    def steps(self) -> np.ndarray:
        count, _, lost = since(self.results, 0, self._blocks)
        assert lost == 0
        return self.simulation.layout.view(self._blocks[:count]).copy()


@dataclass
class Recorded:
    """What happened."""

    stage: Setup
    calm: bool
    script: np.ndarray  # the rows that were acted upon
    segments: list["Segment"]
    steps: np.ndarray
    later: np.ndarray  # rows that came too late for the loop
    read_ns: int  # what a look at the clock takes at most; 0 if now and then it takes much longer


@dataclass
class Segment:
    """The loop on one ring, from its start to how it ended."""

    ring: int
    first: int  # of its steps
    last: int
    ended: int
    used: int
    superseded: int
    last_seq: int
    head: int
    adopted: int  # blocks that an earlier simulator had received


def _cost(stage: Setup, random: np.random.Generator, calm: bool, clock: VirtualClock) -> None:
    h = stage.config.step_ns
    words = clock.words
    if calm:
        words[SPREAD_NS] = 200
        return
    words[SPREAD_NS] = int(random.choice([1, 300, 20_000]))
    words[STALL_PER_MILLION] = int(random.choice([0, 2_000, 20_000]))
    words[STALL_NS] = int(random.choice([h // 2, 3 * h, 12 * h]))
    if stage.simulation.model.name == "trivial" and random.random() < 0.3:
        stage.simulation.params[1] = stage.twin.params[1] = random.uniform(0.1, 1.7) * h


def _blocks(stage: Setup, random: np.random.Generator, calm: bool, span_ns: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of pushes in order, and the instants of the gaps before which blocks were dropped."""
    period = stage.config.period_ns * (1 + random.uniform(-100, 100) * 1e-6)
    t = (
        START_NS
        + np.int64(random.integers(0, 3 * _MS))
        + np.rint(np.arange(int(span_ns / period)) * period).astype(np.int64)
    )
    n = len(t)
    pushed = t + random.integers(5_000, 60_000, n)
    wire = random.random() < 0.6
    sent = pushed + random.integers(2_000, 20_000, n)
    jitter = random.exponential(8_000 if calm else float(random.choice([5_000, 100_000, 1_000_000])), n)
    there = sent + 20_000 + jitter.astype(np.int64)
    gaps = []
    remains = np.ones(n, bool)
    for _ in range(random.integers(0, 2) if calm else random.integers(0, 4)):  # the writer stalls, or loses scans
        begin = START_NS + span_ns // 2 if calm else START_NS + int(random.integers(0, span_ns))
        length = int(6 * stage.config.step_ns if calm else random.choice([3, 20, 80]) * _MS * random.uniform(0.5, 1.5))
        inside = (there >= begin) & (there < begin + length)
        if random.random() < 0.4 and not calm:
            remains &= ~inside
            gaps.append(begin + length)
        else:
            there[inside] = begin + length
    there = np.maximum.accumulate(there)
    rows = np.zeros((n, BLOCK + stage.config.daq.layout.words), np.int64)
    rows[:, AT], rows[:, KIND] = there, PUSH
    rows[:, BLOCK + T] = t
    if wire:
        rows[:, BLOCK + PUSHED], rows[:, BLOCK + SENT], rows[:, BLOCK + RECEIVED] = pushed, sent, there
    else:
        rows[:, BLOCK + PUSHED] = there
    steering = np.cumsum(random.integers(-4, 6, n))
    brake, throttle = random.integers(0, 3000, n), random.integers(0, 420, n)
    rows[:, BLOCK + PAYLOAD] = brake | throttle << 16 | steering << 32
    return rows[remains], np.array(gaps, np.int64)


def _commands(stage: Setup, random: np.random.Generator, width: int, span_ns: int) -> np.ndarray:
    count = int(random.integers(0, 7))
    rows = np.zeros((count, width), np.int64)
    rows[:, KIND] = COMMAND
    for row in rows:
        kind = int(random.choice([PARAMETER, RESET, PAUSE, RESUME, RESUME, SLOW]))
        value = {PAUSE: float(random.integers(0, 4)), SLOW: float(random.choice([1.0, 1.0, 2.5, 8.0]))}.get(kind, 0.0)
        index = 0
        if kind == PARAMETER:
            value = float(stage.twin.params[index]) * random.uniform(0.9, 1.1)
        row[AT] = START_NS + int(random.integers(0, span_ns))
        row[BLOCK + AT_KIND], row[BLOCK + AT_INDEX] = kind, index
        row[BLOCK + AT_VALUE] = np.float64(value).view(np.int64)
    return rows


def make_script(stage: Setup, random: np.random.Generator, calm: bool) -> np.ndarray:
    steps = 150 if calm else int(random.integers(20, 80))
    config = stage.config
    # a locked loop watches some blocks arrive before its first step
    watched = min(70 * config.period_ns, 250 * _MS) if config.sim.phase == "locked" else 0
    span_ns = steps * config.step_ns + watched
    # a DAQ that is asked to end together with the loop may go on a little longer
    blocks, gaps = _blocks(stage, random, calm, span_ns + (0 if calm else int(random.choice([0, 3, 40])) * _MS))
    width = max(blocks.shape[1], BLOCK + COMMANDS.words)
    parts = [np.pad(blocks, ((0, 0), (0, width - blocks.shape[1])))]
    for at in gaps:
        parts.append(np.zeros((1, width), np.int64))
        parts[-1][0, [AT, KIND]] = at - 1, NEW_EPOCH
    end = START_NS + span_ns
    if not calm:
        parts.append(_commands(stage, random, width, span_ns))
        if random.random() < 0.15 and len(blocks):  # the DAQ ends, and another takes its place
            at = START_NS + int(random.integers(0, span_ns))
            parts.append(np.zeros((1, width), np.int64))
            parts[-1][0, [AT, KIND, BLOCK]] = at, STATE, CLOSED
            for part in parts[:-1]:
                part[(part[:, AT] >= at) & (part[:, KIND] != COMMAND), WHERE] = 1
    stop = rec.DRAIN if random.random() < 0.7 else rec.NOW
    for at, value in ((end, stop), (end + _GUARD_NS, rec.NOW)):
        parts.append(np.zeros((1, width), np.int64))
        parts[-1][0, [AT, KIND, WHERE, BLOCK]] = at, CONTROL, rec.STOP, value
    script = np.concatenate(parts)
    return np.ascontiguousarray(script[np.argsort(script[:, AT], kind="stable")])


def run(stage: Setup, seed: int, calm: bool) -> Recorded:
    random = np.random.default_rng(seed)
    stage.begin()
    script = make_script(stage, random, calm)
    simulation = stage.simulation
    clock = virtual_clock(
        START_NS, script=script, rings=stage.rings, commands=stage.commands, control=simulation.control,
        busy=stage.busy, read_ns=int(random.integers(20, 500)), seed=seed + 1,
    )  # fmt: skip
    _cost(stage, random, calm, clock)
    segments: list[Segment] = []
    counters, control = simulation.counters, simulation.control
    if not calm and random.random() < 0.15:  # an earlier simulator received the first blocks of the ring
        pushes = int(((script[:, KIND] == PUSH) & (script[:, WHERE] == 0)).sum())
        control[rec.BEGIN] = int(random.integers(1, max(pushes // 2, 2)))
    if (
        not calm and random.random() < 0.3
    ):  # a run of so many seconds, that may be over before or after it is asked to end
        control[rec.RUN_NS] = int(random.integers(1, int(script[-1, AT]) - START_NS))
    for ring in range(_RINGS):
        before = counters.copy()
        control[rec.LAST_SEQ] = -1
        ended = simulation.run(stage.rings[ring], stage.results, clock)
        delta = counters - before
        segments.append(
            Segment(
                ring, int(before[rec.STEPS]), int(counters[rec.STEPS]), ended, int(delta[rec.USED]),
                int(delta[rec.SUPERSEDED]), int(control[rec.LAST_SEQ]), int(stage.rings[ring, HEAD_WORD]),
                int(control[rec.BEGIN]),
            )
        )  # fmt: skip
        control[rec.BEGIN] = 0
        if ended != rec.RING_CLOSED:
            break
    cursor = int(clock.words[CURSOR])
    words = clock.words
    read_ns = 0 if words[STALL_PER_MILLION] else int(words[READ_NS] + words[SPREAD_NS])
    return Recorded(stage, calm, script[:cursor], segments, stage.steps(), script[cursor:], read_ns)
