"""The waves source: channels that move as a formula says, for machines whose device is not there yet.

    [source.channels.handle]
    wave = "sine"  # or "triangle", "square", "quarters" (1, 0, -1, 0 for a quarter each), "constant"
    hz = 0.5
    amplitude_counts = 400.0
    offset_counts = 0.0
    phase_turns = 0.0  # a quarter is 0.25

Counts are rounded down, as an encoder's are, and wrap where the channel is a counter. Scans become available at their
instants and wait in a buffer of finite size; what no longer fits is lost, and counted. An effort goes to an actuator
that moves nothing.
"""

import math
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numba import int64, types
from pydantic import Field

from daq_service.devices.contract import Device, DeviceSettings, Host
from daq_service.devices.due_scans import NEVER, NEXT, PERIOD, START, begin, stopped, take_due, wait_for_due
from daq_service.effort_settings import EffortSettings
from sync.clock import RealClock
from sync.compile.array_types import MATRIX, WORDS, WORDS_2D
from sync.compile.jit import kernel
from sync.config.config import Config
from sync.config.toml import Section
from sync.errors import ConfigError

WAVES = ("constant", "sine", "triangle", "square", "quarters")
_WAVE, _HZ, _AMPLITUDE, _OFFSET, _SKEW_S, _MASK, _PHASE = range(7)


class Wave(Section):
    # its form; `quarters`: up, zero, down, zero
    wave: Literal["constant", "sine", "triangle", "square", "quarters"] = "sine"
    hz: float = Field(1.0, gt=0, le=1e5)  # how often a second
    amplitude_counts: float = Field(0.0, ge=0, lt=2**31)  # from its middle
    offset_counts: float = Field(0.0, gt=-(2**31), lt=2**31)  # its middle
    phase_turns: float = Field(0.0, ge=-1, le=1)  # where it begins


class Settings(DeviceSettings):
    moves_hand = False

    kind: str
    channels: dict[str, Wave] = {}  # a wave for each; others stand still
    buffer_blocks: int = Field(50_000, ge=1)  # that it holds; older ones are lost, and counted
    effort: EffortSettings | None = None  # [source.effort]: taken, and moves nothing


@kernel()
def _unit_wave(wave, turns):
    """From -1 to 1, zero and rising at 0 (a square: 1 from there on)."""
    phase = turns - math.floor(turns)
    if wave == 1:
        return math.sin(2.0 * math.pi * phase)
    if wave == 2:
        return 1.0 - abs(4.0 * (phase + 0.25 - math.floor(phase + 0.25)) - 2.0)
    if wave == 3:
        return 1.0 if phase < 0.5 else -1.0
    if wave == 4:
        return 1.0 if phase < 0.25 else (-1.0 if 0.5 <= phase < 0.75 else 0.0)
    return 0.0


@kernel()
def fill_waves(scan, since, channels):
    """Fill a scan that is `since` ns after the first one."""
    for k in range(channels.shape[0]):
        c = channels[k]
        turns = c[_HZ] * (1e-9 * since + c[_SKEW_S]) + c[_PHASE]
        value = c[_OFFSET] + c[_AMPLITUDE] * _unit_wave(int64(c[_WAVE]), turns)
        scan[k] = int64(math.floor(value)) & int64(c[_MASK])


@kernel(types.UniTuple(int64, 2)(WORDS_2D, WORDS, int64, WORDS, MATRIX))
def _make_scans(scans, t_ns, now, state, channels):
    """Every scan that is due by `now`, at least one. See Device.read."""
    count, lost = take_due(state, now, scans.shape[0])
    for row in range(count):
        since = state[NEXT] * state[PERIOD]
        t_ns[row] = state[START] + since
        state[NEXT] += 1
        fill_waves(scans[row], since, channels)
    return count, lost


def wave_rows(config: Config, waves: dict[str, Wave]) -> np.ndarray:
    """What `fill_waves` needs, a row for each channel; a channel without a wave stays at zero."""
    rows = []
    for channel in config.daq.channels:
        w = waves.get(channel.name, Wave(wave="constant"))
        mask = -1 if channel.counter_bits is None else (1 << channel.counter_bits) - 1
        moved = 1e-6 * channel.skew_us
        rows.append((WAVES.index(w.wave), w.hz, w.amplitude_counts, w.offset_counts, moved, mask, w.phase_turns))
    return np.array(rows, np.float64)


class WavesDevice(Device):
    def __init__(self, config: Config, settings: Settings, host: Host):
        self._clock = host.clock or RealClock()
        self._state = stopped(config.period_ns, settings.buffer_blocks)
        self._channels = wave_rows(config, settings.channels)
        self.effort = settings.effort
        self.wants = settings.effort.wants if settings.effort else ()
        self._actuator = np.zeros(1)

    @property
    def compiled_put(self) -> tuple[Any, np.ndarray]:
        from daq_service.effort import keep  # compiled, and only needed with an effort

        return keep, self._actuator

    def start(self) -> None:
        begin(self._state, self._clock)

    def read(self, scans: np.ndarray, t_ns: np.ndarray, wait_ns: int) -> tuple[int, int]:
        now = wait_for_due(self._state, self._clock, wait_ns)
        if now is None:
            return 0, 0
        count, lost = _make_scans(scans, t_ns, now, self._state, self._channels)
        return int(count), int(lost)

    def stop(self) -> None:
        self._state[START] = NEVER


def open_device(config: Config, settings: Settings, file: Path, host: Host) -> WavesDevice:
    names = [channel.name for channel in config.daq.channels]
    for name in settings.channels:
        if name not in names:
            raise ConfigError(f"{file}: source.channels.{name}: daq.channels has {', '.join(names)}, and no {name}")
    return WavesDevice(config, settings, host)
