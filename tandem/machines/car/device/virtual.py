"""The virtual source: a driver and the sensors of the car, as raw as the real ones.

The steering wheel and the throttle pedal turn incremental encoders whose 16-bit registers start anywhere and wrap; the
brake pressure passes a ±5 V converter with noise and a small negative offset. Each channel is sampled at its own
instant (its skew). Scans become available at their sample instants on the monotonic clock and wait in a device buffer
of finite size; what no longer fits is lost, and counted.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np
from numba import float64, int64, types

from daq_service.devices.contract import Device, Host
from daq_service.devices.due_scans import NEVER, NEXT, OWN, PERIOD, START, begin, stopped, take_due, wait_for_due
from sync.clock import RealClock
from sync.compile.array_types import READ_ONLY, WORDS, WORDS_2D
from sync.compile.jit import kernel
from sync.config.config import Config
from sync.errors import ConfigError
from sync.ring.block import PUSHED, RECEIVED
from sync.ring.ring import newest
from tandem.machines.car.device.driver import (
    BEFORE,
    BRAKE,
    MEMORY,
    STEERING,
    THROTTLE,
    Manoeuvre,
    drive_along,
    evaluate,
    follow_parameters,
    prepare_path,
    profile_tables,
    read_manoeuvre,
)
from tandem.machines.car.device.settings import Settings

POSE = ("x", "y", "yaw", "vx")
_POSE_FRESH_NS = 300_000_000

# places in the tables that the kernel gets
_RATE, _NOISE, _OFFSET, _DEG, _THROTTLE_FULL, _BAR, _BAR_COUNTS = range(7)
_RANDOM = OWN  # of the state
_MASK, _STEERING_0, _THROTTLE_0 = range(3)

_TABLE = float64[:, ::1]
_VECTOR = float64[::1]


@kernel()
def _normal(state):
    """A standard normal number from a state of our own (xorshift64*): the same seed drives the same way."""
    total = 0.0
    for _ in range(12):
        s = np.uint64(state[_RANDOM])
        s ^= s >> np.uint64(12)
        s ^= s << np.uint64(25)
        s ^= s >> np.uint64(27)
        state[_RANDOM] = np.int64(s)
        total += float(s * np.uint64(2685821657736338717) >> np.uint64(11)) / 9007199254740992.0
    return total - 6.0


@kernel()
def _profiles(profiles, channel, t):
    if channel == STEERING:
        return evaluate(profiles[0], profiles[1], t)
    if channel == THROTTLE:
        return evaluate(profiles[2], profiles[3], t)
    return evaluate(profiles[4], profiles[5], t)


# long: a device as flat arrays; a kernel takes no object
@kernel(
    types.UniTuple(int64, 2)(
        WORDS_2D, WORDS, int64, WORDS, WORDS, _VECTOR, WORDS_2D, types.UniTuple(_TABLE, 6),
        _TABLE, _VECTOR, _VECTOR, _VECTOR, READ_ONLY, WORDS, WORDS,
    )
)  # fmt: skip
def _make_scans(
    scans, t_ns, now, state, fixed, par, columns, profiles, path, follow, memory, value,
    feedback, feedback_block, pose,
):  # fmt: skip
    """Make every scan that is due by `now`, at least one. See Device.read."""
    count, lost = take_due(state, now, scans.shape[0])
    for row in range(count):
        t = state[START] + state[NEXT] * state[PERIOD]
        state[NEXT] += 1
        t_ns[row] = t
        if path.shape[0] > 0:
            found = newest(feedback, feedback_block) >= 0
            seen = feedback_block.view(np.float64)
            # when it came, by our clock: the simulator's may be another
            stamp = feedback_block[RECEIVED] if feedback_block[RECEIVED] > 0 else feedback_block[PUSHED]
            fresh = found and now - stamp < _POSE_FRESH_NS
            x, y, yaw, vx = seen[pose[0]], seen[pose[1]], seen[pose[2]], seen[pose[3]]
            drive_along(path, follow, memory, x, y, yaw, vx, fresh, 1.0 / par[_RATE])
        for channel in range(3):
            skew_ns = columns[channel, 1]
            if path.shape[0] > 0:
                back = skew_ns * 1e-9 * par[_RATE]
                value[channel] = memory[channel] + (memory[channel] - memory[BEFORE + channel]) * back
            else:
                value[channel] = _profiles(profiles, channel, (t + skew_ns - state[START]) * 1e-9)
        steering_counts = int64(math.floor(value[STEERING] / par[_DEG]))
        scans[row, columns[STEERING, 0]] = (fixed[_STEERING_0] + steering_counts) & fixed[_MASK]
        pressed = int64(math.floor(value[THROTTLE] * par[_THROTTLE_FULL]))
        scans[row, columns[THROTTLE, 0]] = (fixed[_THROTTLE_0] + pressed) & fixed[_MASK]
        counts = value[BRAKE] / par[_BAR] * par[_BAR_COUNTS] + par[_OFFSET] + par[_NOISE] * _normal(state)
        scans[row, columns[BRAKE, 0]] = int64(min(max(math.floor(counts + 0.5), -32768.0), 32767.0))
    return count, lost


_NO_FEEDBACK = np.zeros(512, np.int64)  # a ring that is for ever empty
_NO_FEEDBACK.flags.writeable = False


class VirtualDevice(Device):
    def __init__(self, config: Config, settings: Settings, manoeuvre: Manoeuvre, host: Host):
        layout = config.daq.layout
        self._feedback = host.feedback
        self._clock = host.clock or RealClock()
        self._ring = _NO_FEEDBACK
        self._block = np.zeros(64, np.int64)
        self._pose = np.zeros(4, np.int64)
        self._seed = settings.seed
        self._start_offset_ns = round(settings.start_offset_ms * 1e6)
        period_ns = round(config.period_ns * (1.0 + settings.clock_ppm * 1e-6))
        self._state = stopped(period_ns, settings.buffer_blocks, own=1)
        mask = (1 << settings.encoder_bits) - 1
        self._fixed = np.array(
            [mask, settings.steering_start_count & mask, settings.throttle_start_count & mask], np.int64
        )
        self._parameters = np.array(
            [
                config.daq.rate_hz,
                settings.brake_noise_counts,
                settings.brake_offset_counts,
                settings.encoder_deg_per_count,
                settings.throttle_full_counts,
                settings.brake_full_bar,
                settings.brake_full_counts,
            ]
        )
        self._columns = np.array(
            [
                [layout.names.index(name), layout.channels[layout.names.index(name)].skew_ns]
                for name in ("steering", "throttle", "brake")
            ],
            np.int64,
        )
        steering, throttle, brake = manoeuvre.steering_deg, manoeuvre.throttle, manoeuvre.brake_bar
        self._profiles = (*profile_tables(steering), *profile_tables(throttle), *profile_tables(brake))
        self.follows = manoeuvre.follow is not None
        self.effort = settings.effort
        self._actuator = np.zeros(1)
        own = POSE if self.follows else ()
        self.wants = tuple(dict.fromkeys((*own, *(self.effort.wants if self.effort else ()))))
        self._path = prepare_path(manoeuvre.follow) if manoeuvre.follow else np.empty((0, 3))
        self._follow = follow_parameters(manoeuvre.follow) if manoeuvre.follow else np.empty(8)
        self._memory = np.zeros(MEMORY)
        self._value = np.zeros(3)

    @property
    def compiled_put(self) -> tuple[Any, np.ndarray]:
        from daq_service.effort import keep  # compiled, and only needed with an effort

        return keep, self._actuator

    def start(self) -> None:
        begin(self._state, self._clock, self._start_offset_ns)
        self._state[_RANDOM] = self._seed * 0x9E3779B97F4A7C1 & (2**63 - 1)
        self._memory[:] = 0

    def _poll_feedback(self) -> None:
        ring = self._feedback()
        if ring is not None and self._ring is not ring.words:
            self._block = np.zeros(ring.layout.words, np.int64)
            self._pose = np.array([ring.layout.table[ring.layout.names.index(n), 0] for n in POSE], np.int64)
            self._ring = ring.words

    def read(self, scans: np.ndarray, t_ns: np.ndarray, wait_ns: int) -> tuple[int, int]:
        if self.follows:
            self._poll_feedback()
        now = wait_for_due(self._state, self._clock, wait_ns)
        if now is None:
            return 0, 0
        count, lost = _make_scans(
            scans,
            t_ns,
            now,
            self._state,
            self._fixed,
            self._parameters,
            self._columns,
            self._profiles,
            self._path,
            self._follow,
            self._memory,
            self._value,
            self._ring,
            self._block,
            self._pose,
        )
        return int(count), int(lost)

    def stop(self) -> None:
        self._state[START] = NEVER


def open_device(config: Config, settings: Settings, file: Path, host: Host) -> VirtualDevice:
    for channel in config.daq.channels:
        if channel.name not in ("brake", "throttle", "steering"):
            raise ConfigError(f"{file}: daq.channels: {channel.name}: the virtual source has brake, throttle, steering")
        if channel.name != "brake" and channel.counter_bits != settings.encoder_bits:
            raise ConfigError(
                f"{file}: daq.channels: {channel.name}.counter_bits = {channel.counter_bits}: the virtual encoder has"
                f" {settings.encoder_bits} bits (source.encoder_bits)"
            )
    return VirtualDevice(config, settings, read_manoeuvre(file.parent / settings.manoeuvre), host)
