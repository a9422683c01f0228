"""The virtual haptic device: an encoder, an actuator that moves what the encoder reads, and a hand on it.

Mass, friction, encoder quantisation, saturation, bandwidth and dead time of the actuator, and the hand's mass, damping,
stiffness, bias force and intended motion, are settings (daq_service/devices/haptic_settings.py); the mechanics are
integrated exactly between samples (haptic_plant.py). A positive effort opposes a positive displacement. Scans become
available at their instants and wait in a buffer of finite size; what no longer fits is lost, and counted.

Channels: the encoder's, a force sensor's between hand and device if there is one, a pair of Hall sensors' and a voice
coil's likewise (haptic_sensors.py), and any others, which move as those of the source `waves`. A device may have
further axes (`source.axes`), each with an encoder, an actuator, an effort and a hand of its own; they are sampled
together and know nothing of each other.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np
from numba import int64, types

from daq_service.devices import haptic_plant
from daq_service.devices.contract import Actuator, Device, Host
from daq_service.devices.due_scans import NEVER, NEXT, PERIOD, START, begin, stopped, take_due, wait_for_due
from daq_service.devices.haptic_plant import V, X, hand_force, pass_until
from daq_service.devices.haptic_sensors import fill_sensors, sensor_rows
from daq_service.devices.haptic_settings import Axis, Motion, Settings
from daq_service.devices.waves import Wave, fill_waves, wave_rows
from daq_service.effort_settings import EffortSettings
from sync.clock import RealClock, now_ns, sleep_until
from sync.compile.array_types import MATRIX, VECTOR, WORDS, WORDS_2D
from sync.compile.jit import kernel
from sync.config.config import Config
from sync.config.toml import check
from sync.errors import ConfigError
from sync.ring.follower import RingFollower
from sync.signals.linear_flow import MOST_PIECES, pieces_of

# columns of the scan, and their masks; -1: there is none
_POSITION, _POSITION_MASK, _FORCE, _START_COUNT = range(4)
_PER_COUNT, _SKEW_S, _FORCE_PER_COUNT, _FORCE_MOST = range(4)


@kernel()
def _sample(scan, instant, columns, scales, plant, x, a, par, times, lines, scratch, queue):
    """Sample an axis at this instant into its columns."""
    pass_until(plant, x, a, par, times, lines, scratch, queue, instant)
    place = x[X] + scales[_SKEW_S] * x[V]
    counts = columns[_START_COUNT] + int64(math.floor(place / scales[_PER_COUNT]))
    scan[columns[_POSITION]] = counts & columns[_POSITION_MASK]
    if columns[_FORCE] >= 0:
        pressed = math.floor(hand_force(plant, x, a, par) / scales[_FORCE_PER_COUNT] + 0.5)
        scan[columns[_FORCE]] = int64(min(max(pressed, -scales[_FORCE_MOST]), scales[_FORCE_MOST]))


# long: a device as flat arrays; a kernel takes no object
@kernel(
    types.UniTuple(int64, 2)(
        WORDS_2D, WORDS, int64, WORDS, MATRIX, MATRIX, WORDS, VECTOR, WORDS, VECTOR, VECTOR, VECTOR, WORDS, MATRIX,
        VECTOR, VECTOR,
    )
)  # fmt: skip
def _make_scans(
    scans, t_ns, now, state, channels, sensors, columns, scales, plant, x, a, par, times, lines, scratch, queue
):  # fmt: skip
    """Every scan that is due by `now`, at least one. See Device.read."""
    count, lost = take_due(state, now, scans.shape[0])
    for row in range(count):
        since = state[NEXT] * state[PERIOD]
        t_ns[row] = state[START] + since
        state[NEXT] += 1
        fill_waves(scans[row], since, channels)
        _sample(scans[row], t_ns[row], columns, scales, plant, x, a, par, times, lines, scratch, queue)
        fill_sensors(scans[row], state[NEXT], x[X], x[V], sensors)
    return count, lost


# long: a device as flat arrays; a kernel takes no object
@kernel(
    types.void(WORDS_2D, WORDS, int64, WORDS, VECTOR, WORDS, VECTOR, VECTOR, VECTOR, WORDS, MATRIX, VECTOR, VECTOR)
)  # fmt: skip
def _sample_axis(scans, t_ns, count, columns, scales, plant, x, a, par, times, lines, scratch, queue):
    """Sample a further axis, at the instants of scans that have been made."""
    for row in range(count):
        _sample(scans[row], t_ns[row], columns, scales, plant, x, a, par, times, lines, scratch, queue)


class HapticAxis(Actuator):
    """An encoder and an actuator, with what moves and the hand on it. An Actuator by itself (daq_service/effort.py)."""

    def __init__(self, config: Config, settings: Axis, channel: str, force_sensor: str = "", per_count: float = 1.0):
        self.settings, self.channel, self.effort = settings, channel, settings.effort
        self._began, self._gripped = 0, 0  # its first instant, and how many grips have been taken
        self.queue = haptic_plant.new_queue()
        self.plant = np.zeros(haptic_plant.PLANT_WORDS, np.int64)
        self.x = np.zeros(haptic_plant.STATES)
        names = [each.name for each in config.daq.channels]
        at = names.index(channel)
        position = config.daq.channels[at]
        mask = -1 if position.counter_bits is None else (1 << position.counter_bits) - 1
        force = names.index(force_sensor) if force_sensor else -1
        bits = {"i2": 15, "u2": 16, "i4": 31, "u4": 32}[config.daq.channels[force].type]
        hand = settings.hand
        self.data = (
            np.array([at, mask, force, settings.start_count], np.int64),
            np.array([settings.per_count, 1e-6 * position.skew_us, per_count, 2.0**bits - 1]),
            self.plant, self.x, haptic_plant.matrices(settings), haptic_plant.numbers(settings),
            *haptic_plant.corners(hand.motion if hand else Motion()), haptic_plant.new_scratch(), self.queue,
        )  # fmt: skip

    @property
    def compiled_put(self) -> tuple[Any, np.ndarray]:
        return haptic_plant.put, self.queue

    def put(self, value: float) -> None:
        """The effort loop hands over itself."""

    def start(self, now: int, began: int) -> None:
        self._began, self._gripped = began, 0
        self._grip(self.settings)
        self.queue[:] = 0.0
        haptic_plant.begin_plant(self.plant, self.x, self.settings, now, began)

    def grip_at(self, now: int) -> None:
        """Apply the hand's grip at that instant to all that is sampled from here on."""
        hand = self.settings.hand
        grips = [] if hand is None else hand.grips
        while self._gripped < len(grips) and now >= self._began + round(1e9 * grips[self._gripped][0]):
            self._grip(gripped(self.settings, grips[self._gripped][1]))
            self._gripped += 1

    def _grip(self, settings: Axis) -> None:
        self.data[4][:], self.data[5][:] = haptic_plant.matrices(settings), haptic_plant.numbers(settings)


def gripped(axis: Axis, factor: float) -> Axis:
    """The axis with a hand of `factor` times the mass, damping and stiffness."""
    assert axis.hand is not None
    values = {name: factor * getattr(axis.hand, name) for name in ("mass", "damping", "stiffness")}
    return axis.model_copy(update={"hand": axis.hand.model_copy(update=values)})


class HapticDevice(Device):
    def __init__(self, config: Config, settings: Settings, waves: dict[str, Wave], host: Host):
        self.settings = settings
        self.effort, self.wants = settings.effort, wants_of(settings)
        self._clock = host.clock or RealClock()
        self._state = stopped(config.period_ns, settings.buffer_blocks)
        self._channels, self._sensors = wave_rows(config, waves), sensor_rows(config, settings)
        position = settings.position or config.daq.channels[0].name
        self._first = HapticAxis(config, settings, position, settings.force_sensor, settings.force_per_count)
        self._further = [HapticAxis(config, settings.axes[name], name) for name in sorted(settings.axes)]
        self.axes = self._further
        self.queue, self.plant, self.x = self._first.queue, self._first.plant, self._first.x

    @property
    def parts(self) -> list[HapticAxis]:
        """All its axes, the first one first."""
        return [self._first, *self._further]

    @property
    def compiled_put(self) -> tuple[Any, np.ndarray]:
        return self._first.compiled_put

    def start(self) -> None:
        begin(self._state, self._clock)
        for axis in self.parts:
            axis.start(self._clock.now_ns(), int(self._state[START]))

    def lean(self, position: float, velocity: float, effort: float) -> None:
        """Begin at this position and velocity, with this effort acting: for studies."""
        self.x[X], self.x[V], self.x[haptic_plant.COMMANDED] = position, velocity, effort

    def read(self, scans: np.ndarray, t_ns: np.ndarray, wait_ns: int) -> tuple[int, int]:
        now = wait_for_due(self._state, self._clock, wait_ns)
        if now is None:
            return 0, 0
        for axis in self.parts:
            axis.grip_at(now)
        count, lost = _make_scans(scans, t_ns, now, self._state, self._channels, self._sensors, *self._first.data)
        for axis in self._further:
            _sample_axis(scans, t_ns, count, *axis.data)
        return int(count), int(lost)

    def stop(self) -> None:
        self._state[START] = NEVER

    def counts(self) -> dict[str, int]:
        places = {
            "efforts_late": haptic_plant.LATE,
            "efforts_missed": haptic_plant.MISSED,
            "steps_with_too_many_events": haptic_plant.EXCEEDED,
        }
        plants = [axis.plant for axis in self.parts]
        return {name: sum(int(plant[place]) for plant in plants) for name, place in places.items()}


def wants_of(settings: Settings) -> tuple[str, ...]:
    efforts = [axis.effort for axis in (settings, *settings.axes.values()) if axis.effort]
    return tuple(dict.fromkeys(name for effort in efforts for name in effort.wants))


class LinkedAxis(Actuator):
    """An axis of a device in another process, which reads what the effort loop writes."""

    def __init__(self, channel: str, effort: EffortSettings | None):
        self.channel, self.effort = channel, effort
        self._actuator = np.zeros(1)

    @property
    def compiled_put(self) -> tuple[Any, np.ndarray]:
        from daq_service.effort import keep  # compiled, and only needed with an effort

        return keep, self._actuator

    def put(self, value: float) -> None:
        """The effort loop hands over itself."""


class LinkedDevice(Device):
    """The same device in a process of its own (daq_service/haptic_process.py): reads its scans from its ring. Efforts
    need no other way: that process reads the ring that the effort loop writes."""

    def __init__(self, config: Config, settings: Settings, host: Host):
        self.effort, self.wants = settings.effort, wants_of(settings)
        self._first = LinkedAxis("", settings.effort)
        self.axes = tuple(LinkedAxis(name, settings.axes[name].effort) for name in sorted(settings.axes))
        self._name, self._say = config.ring("device"), host.say
        self._channels = [channel.name for channel in config.daq.channels]
        self._nap_ns = min(max(config.period_ns // 4, 20_000), 1_000_000)
        self._follower: RingFollower | None = None
        self._period_ns = config.period_ns
        self._lost = 0
        self._epoch = self._last_ns = -1  # of the last scan
        self._waiting: np.ndarray | None = None  # scans behind a gap

    @property
    def compiled_put(self) -> tuple[Any, np.ndarray]:
        return self._first.compiled_put

    def start(self) -> None:
        self.stop()
        self._follower = RingFollower(self._name, living=True, from_now=True, retry_ns=50_000_000)
        self._lost = 0
        self._epoch, self._last_ns, self._waiting = -1, -1, None

    def read(self, scans: np.ndarray, t_ns: np.ndarray, wait_ns: int) -> tuple[int, int]:
        end = now_ns() + wait_ns
        while self._follower is not None:
            blocks, self._waiting = self._waiting, None
            if blocks is None:
                blocks = self._follower.blocks(len(scans))
            if blocks is not None:
                return self._take(blocks, self._follower.lost, scans, t_ns)
            if (now := now_ns()) >= end:
                break
            sleep_until(min(now + self._nap_ns, end))
        else:
            sleep_until(end)
        return 0, 0

    def _take(self, blocks: np.ndarray, lost: int, scans: np.ndarray, t_ns: np.ndarray) -> tuple[int, int]:
        """Take scans up to a gap, or as many as there is room for. Another epoch is a gap: the device lost scans, or
        another process has taken its place; the instants show how many are missing, at least one."""
        epoch = int(blocks["epoch"][0])
        count = min(int(np.argmax(np.append(blocks["epoch"] != epoch, True))), len(scans))
        missing, self._lost = lost - self._lost, lost
        if self._epoch not in (-1, epoch) and not missing:
            missing = max((int(blocks["t_ns"][0]) - self._last_ns) // self._period_ns - 1, 1)
        for column, name in enumerate(self._channels):
            scans[:count, column] = blocks[name][:count]
        t_ns[:count] = blocks["t_ns"][:count]
        self._epoch, self._last_ns = epoch, int(t_ns[count - 1])
        self._waiting = blocks[count:] if count < len(blocks) else None
        return count, missing

    def stop(self) -> None:
        if self._follower is not None:
            self._follower.close()
            self._follower = None


def open_device(config: Config, settings: Settings, file: Path, host: Host) -> HapticDevice | LinkedDevice:
    device = open_here(config, settings, file, host)
    return LinkedDevice(config, settings, host) if settings.own_process else device


def open_here(config: Config, settings: Settings, file: Path, host: Host) -> HapticDevice:
    """In this process, whatever `own_process` says."""
    names = [channel.name for channel in config.daq.channels]
    position = settings.position or names[0]
    analogue = [(key, name) for key, name, _ in settings.sensors()]
    taken: dict[str, str] = {}
    for key, name in (("position", position), ("force_sensor", settings.force_sensor), *analogue):
        if name and name not in names:
            raise ConfigError(f"{file}: source.{key} = {name!r}: daq.channels has {', '.join(names)}, and no {name}")
        if name in taken:
            whose = "the encoder's channel" if taken[name] == "position" else f"that of source.{taken[name]}"
            raise ConfigError(f"{file}: source.{key} = {name!r}: is {whose}; must be another")
        if name:
            taken[name] = key
    for name in settings.axes:
        if name not in names or name in taken:
            others = [n for n in names if n not in taken]
            raise ConfigError(
                f"{file}: source.axes.{name}: must be a channel beside the device's own:"
                f" {', '.join(others) or 'there is none'}"
            )
    for where, axis in (("source", settings), *((f"source.axes.{name}", each) for name, each in settings.axes.items())):
        held = [axis, *(gripped(axis, factor) for _, factor in (axis.hand.grips if axis.hand else ()))]
        rates = [haptic_plant.matrices(each).reshape(-1, haptic_plant.STATES) for each in held]
        pieces = max(pieces_of(each, config.period_ns * 1e-9) for each in rates)
        if not pieces <= MOST_PIECES:
            raise ConfigError(
                f"{file}: {where}.mass = {axis.mass:g} with its stiffness and damping, {where}.bandwidth_hz ="
                f" {axis.bandwidth_hz:g}: moves {pieces:.3g} times as fast as can be sampled at daq.rate_hz ="
                f" {config.daq.rate_hz:g}; {MOST_PIECES} times are the most"
            )
    waves = {}  # an axis overrides the wave of its channel, so that a fragment may add one
    for name, wave in settings.channels.items():
        if name not in names or name in taken:
            others = [n for n in names if n not in taken]
            raise ConfigError(
                f"{file}: source.channels.{name}: must be a channel beside the device's own:"
                f" {', '.join(others) or 'there is none'}"
            )
        waves[name] = check(Wave, wave, str(file), f"source.channels.{name}")
    return HapticDevice(config, settings, waves, host)
