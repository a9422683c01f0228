"""The replay source: a recorded run plays as the driver, in real time, through the whole live path.

Each recorded block becomes due when as much time has passed since the start as had when it was recorded; its raw values
are those of the record. Gaps of the record are gaps again. After the last block nothing more comes, or, with `again`,
the record starts again (a gap, too). Counters in a record are unwrapped already, so the acquisition takes them as they
are.
"""

from pathlib import Path

import numpy as np
from numba import int64, types
from pydantic import Field

from daq_service.devices.contract import Device, DeviceSettings, Host
from sync.clock import RealClock
from sync.compile.array_copy import copy
from sync.compile.array_types import WORDS, WORDS_2D
from sync.compile.jit import kernel
from sync.config.config import Config
from sync.errors import ConfigError
from sync.record import Run, open_run
from sync.ring.streams import BLOCK_TOPICS


class Settings(DeviceSettings):
    moves_hand = False

    kind: str
    run: str  # the record: a run's folder or file
    again: bool = False  # at its end it begins again
    buffer_blocks: int = Field(50_000, ge=1)  # that it holds; older ones are lost, and counted


_NEVER = 2**62
_NEXT, _START = range(2)
_RATE_TOLERANCE = 0.01


@kernel(types.UniTuple(int64, 2)(WORDS_2D, WORDS, int64, WORDS, int64, WORDS_2D, WORDS, WORDS, int64))
def _take(scans, t_ns, now, state, buffer, recorded, offsets, lost_before, turn_ns):
    """Every scan that is due by `now`. `turn_ns`: how long the record takes if it begins again at its end, else 0."""
    size = offsets.size
    # scans that no longer fit into the device's buffer are lost, oldest first
    ready = np.int64(0)
    last = state[_NEXT]
    while (turn_ns > 0 or last < size) and state[_START] + last // size * turn_ns + offsets[last % size] <= now:
        last += 1
        ready += 1
    lost = count = np.int64(0)
    for _ in range(ready - buffer):
        lost += 1 + (lost_before[state[_NEXT] % size] if state[_NEXT] > 0 else 0)
        state[_NEXT] += 1
    while count < scans.shape[0] and state[_NEXT] < last:
        at = state[_NEXT] % size
        gap = lost_before[at] if state[_NEXT] > 0 else 0
        if gap > 0:
            if count > 0:
                break  # scans after a gap do not continue these: they begin the next read
            lost += gap
        copy(scans[count], recorded[at])
        t_ns[count] = state[_START] + state[_NEXT] // size * turn_ns + offsets[at]
        state[_NEXT] += 1
        count += 1
    return count, lost


class ReplayDevice(Device):
    unwrapped = True

    def __init__(self, config: Config, settings: Settings, run: Run, scans: np.ndarray, t_ns: np.ndarray, host: Host):
        self._clock = host.clock or RealClock()
        period = config.period_ns
        self._scans = scans
        self._offsets = t_ns - t_ns[0] + period
        topic = run.topics[run.source_topic]
        epochs, positions = topic.blocks["epoch"], topic.positions
        unrecorded = (np.diff(positions) & 0xFFFFFFFF) != 1
        gaps = np.concatenate([[True], (epochs[1:] != epochs[:-1]) | unrecorded])
        away = np.concatenate([[period], np.diff(t_ns)])
        self._lost_before = np.where(gaps, np.maximum(np.rint(away / period) - 1, 1), 0).astype(np.int64)
        self._buffer = settings.buffer_blocks
        length = int(self._offsets[-1])
        self._turn_ns = length + period if settings.again else 0
        self.seconds = None if settings.again else length * 1e-9
        self._state = np.array([0, _NEVER], np.int64)

    def start(self) -> None:
        self._state[:] = 0, self._clock.now_ns()

    def read(self, scans: np.ndarray, t_ns: np.ndarray, wait_ns: int) -> tuple[int, int]:
        now, due = self._clock.now_ns(), self._due()
        if due > now:
            self._clock.sleep_until(min(due, now + wait_ns))
            now = self._clock.now_ns()
            if due > now:
                return 0, 0
        played = (self._scans, self._offsets, self._lost_before, self._turn_ns)
        count, lost = _take(scans, t_ns, now, self._state, self._buffer, *played)
        return int(count), int(lost)

    def _due(self) -> int:
        """When the next scan is due; never, after the last."""
        (number, start), size = self._state.tolist(), len(self._offsets)
        if self._turn_ns == 0 and number >= size:
            return _NEVER
        return int(start + number // size * self._turn_ns + self._offsets[number % size])

    def stop(self) -> None:
        self._state[_START] = _NEVER


def open_device(config: Config, settings: Settings, file: Path, host: Host) -> ReplayDevice:
    path = file.parent / settings.run
    run = open_run(path if path.exists() else Path(settings.run), BLOCK_TOPICS)
    topic = run.need(run.source_topic)
    known = {c.name: c for c in topic.layout.channels}
    for channel in config.daq.channels:
        if channel.name not in known:
            raise ConfigError(f"{file}: daq.channels: {channel.name}: not in {run.path}, which has {', '.join(known)}")
        if known[channel.name].unit != channel.unit:
            raise ConfigError(
                f"{file}: daq.channels: {channel.name}.unit = {channel.unit!r}: {run.path} has it in"
                f" {known[channel.name].unit!r}"
            )
    t_ns = np.ascontiguousarray(topic.blocks["t_ns"])
    if len(t_ns) > 1:
        period = float(np.median(np.diff(t_ns)))
        if abs(period - config.period_ns) > _RATE_TOLERANCE * config.period_ns:
            raise ConfigError(
                f"{file}: daq.rate_hz = {config.daq.rate_hz:g}: {run.path} was sampled at {1e9 / period:.6g} Hz"
            )
        if (np.diff(t_ns) < 0).any():
            raise ConfigError(f"{run.path}: its sample instants go back in time; it cannot be played")
    columns = [topic.blocks[c.name].astype(np.int64) for c in config.daq.channels]
    return ReplayDevice(config, settings, run, np.ascontiguousarray(np.stack(columns, axis=1)), t_ns, host)
