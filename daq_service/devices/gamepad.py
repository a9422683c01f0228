"""The gamepad source: axes of a game controller through SDL2, each of them a channel. See docs/gamepad.md.

    [source.axes.handle]  # a channel of daq.channels
    kind = "centred"      # goes both ways from its middle; or "pedal": from released to pressed
    axis = 0

SDL is asked for the axes a moment before each scan is due; a scan has what was read at or before its instant. A
controller reports only what moves, and one report holds all axes, so a reading is new when any axis has changed, and
otherwise confirmed every hundredth of a second: the age of a value (channels `..._age_us`) is that of the report as far
as can be known outside the controller.

What travels are counts: a centred axis has -32767 to 32767, from end to end, a pedal 0 (released) to 32767; inverted
and with dead zones as configured. Before an axis has moved for the first time a controller may not have reported where
it is, and what is read then may be an end of the range: until it has moved, a pedal counts as released and a centred
axis at its very end as in the middle.
"""

import itertools
from contextlib import suppress
from ctypes import byref, c_int16
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, PlainValidator, Tag, model_validator

from daq_service.devices.contract import Device, DeviceSettings, Host
from daq_service.devices.sdl import (
    MOST,
    Motor,
    NoMotorError,
    begin,
    choose,
    devices,  # noqa: F401  (asked by the doctor, as of every source)
    each_device,
    end,
    guid_of,
    last_error,
    load,
    name_of,
    none_there,
    watch,
)
from daq_service.effort_settings import EffortSettings
from sync.config.config import Config
from sync.config.input_rows import NAME
from sync.config.toml import CHOICE, Section
from sync.errors import ConfigError, DeviceError
from sync.ring.block import AGE

_LEAD_NS = 200_000  # the axes are read this long before a scan is due, or a quarter of a period
_CONFIRM_NS = 10_000_000
_SEARCH_FIRST_NS, _SEARCH_LAST_NS = 100_000_000, 2_000_000_000  # between two searches for a lost device
_REFUSALS = 50  # of the motor, in a row, before they are reported: every unplugging causes some


# ---- settings and conversion -----------------------------------------------------------------------------------------


class Centred(Section):
    kind: Literal["centred"]
    axis: int = Field(ge=0, le=63)  # its number
    invert: bool = False  # it counts the other way
    dead_zone: float = Field(0.0, ge=0, le=0.5)  # around the middle, as a share of the way from there to an end

    def counts(self, raw: int) -> int:
        value = max(raw, -MOST)
        if self.invert:
            value = -value
        return _beyond(value, self.dead_zone) if value >= 0 else -_beyond(-value, self.dead_zone)


class Pedal(Section):
    kind: Literal["pedal"]
    axis: int = Field(ge=0, le=63)  # its number
    invert: bool = False  # it counts the other way
    half: Literal["positive", "negative"] | None = None  # of an axis that two pedals share
    dead_zone: float = Field(0.02, ge=0, le=0.5)  # at rest, as a share of the way of the pedal

    def counts(self, raw: int) -> int:
        value = -1 - raw if self.invert else raw
        if self.half == "positive":
            return _beyond(max(value, 0), self.dead_zone)
        if self.half == "negative":
            return _beyond(max(-1 - value, 0), self.dead_zone)
        return _beyond((value + MOST + 1) // 2, self.dead_zone)


def _beyond(value: int, dead_zone: float) -> int:
    """0 within the dead zone, continuous beyond it, and full deflection stays full."""
    dead = round(dead_zone * MOST)
    return max(value - dead, 0) * MOST // (MOST - dead)


def _kinds_known(axes: Any) -> Any:
    for name, axis in axes.items() if isinstance(axes, dict) else ():
        kind = axis.get("kind") if isinstance(axis, dict) else None
        if kind not in ("centred", "pedal"):
            stated = "is missing" if kind is None else f"= {kind!r}"
            raise ValueError(
                f"{name}.kind {stated}: must be 'centred', of an axis that goes both ways from its middle, or 'pedal',"
                f' such as {name} = {{ kind = "pedal", axis = 0 }}'
            )
    return axes


def _apart(axes: "dict[str, Axis]") -> "dict[str, Axis]":
    """Only two pedals may share an axis, half of it each."""
    for (name, one), (other, another) in itertools.combinations(axes.items(), 2):
        halves = {axis.half for axis in (one, another) if isinstance(axis, Pedal)}
        if one.axis == another.axis and halves != {"positive", "negative"}:
            raise ValueError(
                f"{name} and {other} share axis {one.axis}: both must be pedals, one with half = 'positive', the other"
                " with half = 'negative'"
            )
    return axes


Axis = Annotated[
    Annotated[Centred, Tag(CHOICE + "centred")] | Annotated[Pedal, Tag(CHOICE + "pedal")],
    Discriminator(lambda axis: CHOICE + str(axis["kind"] if isinstance(axis, dict) else axis.kind)),
]
Axes = Annotated[dict[Annotated[str, Field(pattern=NAME)], Axis], BeforeValidator(_kinds_known), AfterValidator(_apart)]


def _device(value: Any) -> Any:
    if isinstance(value, str) or (type(value) is int and value >= 0):
        return value
    raise ValueError("must be part of a name, a GUID or the number of a joystick")


class Settings(DeviceSettings):
    survives_fork = False

    kind: str
    device: Annotated[str | int, PlainValidator(_device)] = ""  # the first one there
    axes: Axes  # of daq.channels: which axis each is
    effort: EffortSettings | None = None  # [source.effort]: force feedback, as a share of the full force
    buffer_blocks: int = Field(50_000, ge=1)  # that it holds; older ones are lost, and counted

    @model_validator(mode="after")
    def _full_force(self) -> "Settings":
        if self.effort is not None and self.effort.limit > 1.0:
            raise ValueError(f"effort.limit = {self.effort.limit:g}: is a share of the full force, 1 at most")
        return self

    def require(self) -> None:
        load()


# ---- the source ------------------------------------------------------------------------------------------------------


class GamepadDevice(Device):
    def __init__(self, config: Config, settings: Settings, host: Host):
        from daq_service.sample_hold import SampleHold
        from sync.clock import RealClock

        clock = host.clock or RealClock()
        self._now, self._sleep_until = clock.now_ns, clock.sleep_until
        self._say = host.say
        self._settings = settings
        self.effort = settings.effort
        self.wants = settings.effort.wants if settings.effort else ()
        self._held = SampleHold(config, settings.buffer_blocks, clock)
        self._roles: list[Centred | Pedal] = [settings.axes[name] for name in self._held.names]
        self._period = config.period_ns
        self._lead = min(_LEAD_NS, config.period_ns // 4)
        self._sdl: Any = None
        self._stick: Any = None
        self._motor: Motor | None = None
        self._name, self._guid = "the device", ""  # of the one that was found
        self._running = False
        self._next = 0  # when the next scan is due, 0: not known
        self._raw: list[int] = []
        self._read_ns = 0  # when the axes were last noted
        self._moved = [False] * len(self._roles)
        self._search_nap_ns, self._next_search_ns = _SEARCH_FIRST_NS, 0
        self._polls = self._unplugged = self._refused = self._refused_in_a_row = 0
        self._forceless = ""  # why; reported once
        self._most_force = 0.0  # rises from zero when a device is opened

    # finding it

    def find(self) -> None:
        self._sdl = self._sdl or begin()
        self._close()
        try:
            self._find()
        except DeviceError:
            self.stop()
            raise

    def _find(self) -> None:
        self._sdl.SDL_JoystickUpdate()
        index = choose(self._sdl, self._settings.device)
        if index is None:
            there = "; ".join(str(device) for device in each_device(self._sdl))
            missing = f"source.device = {self._settings.device!r}: is not there; there is {there}"
            raise DeviceError(missing if there else f"source: {none_there()}")
        if not self._open(index):
            raise DeviceError(f"source: {self._name} cannot be opened: {last_error(self._sdl)}")
        if self._forceless:  # an effort is configured: an error is better than a wheel without force
            raise DeviceError(
                f"source.effort: {self._name} gives no force back ({self._forceless}); choose another by source.device,"
                " or leave [source.effort] out"
            )
        axes = self._sdl.SDL_JoystickNumAxes(self._stick)
        for name, role in zip(self._held.names, self._roles, strict=True):
            if role.axis >= axes:
                there = "; ".join(str(device) for device in each_device(self._sdl))
                raise DeviceError(
                    f"source.axes.{name}.axis = {role.axis}: {self._name} has {axes} axes, from 0; there is {there}"
                )

    def _open(self, index: int) -> bool:
        self._name, self._guid = name_of(self._sdl, index), guid_of(self._sdl, index)
        self._stick = self._sdl.SDL_JoystickOpen(index) or None
        if self._stick is None:
            return False
        self._raw, self._read_ns, self._next = [], 0, 0
        self._moved = [False] * len(self._roles)
        if self.effort is not None:
            self._most_force = 0.0
            try:
                self._motor = Motor(self._sdl, self._stick)
            except NoMotorError as error:
                if self._running and not self._forceless:
                    self._say(f"{self._name} gives no force back: {error}")
                self._forceless = str(error) or "it has no motor"
        return True

    def _close(self) -> None:
        if self._motor is not None:
            self._motor.close()
            self._motor = None
        if self._stick is not None:
            self._sdl.SDL_JoystickClose(self._stick)
            self._stick = None

    def _search(self) -> bool:
        """Search for the lost device, now and then."""
        now = self._now()
        if now < self._next_search_ns:
            return False
        self._sdl.SDL_JoystickUpdate()
        index = choose(self._sdl, self._guid or self._settings.device)
        if index is not None and self._open(index):
            self._search_nap_ns = _SEARCH_FIRST_NS
            return True
        self._next_search_ns = now + self._search_nap_ns
        self._search_nap_ns = min(2 * self._search_nap_ns, _SEARCH_LAST_NS)
        return False

    # sampling

    def start(self) -> None:
        self._sdl = self._sdl or begin()
        self._search_nap_ns, self._next_search_ns = _SEARCH_FIRST_NS, 0
        if self._stick is None and not self._search():
            self._say(f"{self._name} is not there; looking for it")
        self._read_ns = self._next = 0
        self._held.start()
        self._running = True
        self._poll()  # scans are due from now on, whenever they are read

    def read(self, scans: np.ndarray, t_ns: np.ndarray, wait_ns: int) -> tuple[int, int]:
        until = self._now() + wait_ns
        while self._running:
            early = min(self._next - self._lead, until)
            if early > self._now():
                self._sleep_until(early)
            self._poll()
            self._held.wait(max(until - self._now(), 0))
            count, lost = self._held.take(scans, t_ns)
            if count:
                self._next = int(t_ns[count - 1]) + self._period
            if count or self._now() >= until:
                return count, lost
        self._sleep_until(until)
        return 0, 0

    def _poll(self) -> None:
        sdl = self._sdl
        if self._stick is None:
            if not self._search():
                return
            self._say(f"{self._name} is there")
        sdl.SDL_JoystickUpdate()
        now = self._now()
        raw = [sdl.SDL_JoystickGetAxis(self._stick, role.axis) for role in self._roles]
        self._polls += 1
        if not sdl.SDL_JoystickGetAttached(self._stick):
            self._close()
            self._held.lose()
            self._next, self._next_search_ns = 0, now + _SEARCH_FIRST_NS
            self._unplugged += 1
            self._say(f"{self._name} is unplugged; looking for it")
        elif raw != self._raw or now - self._read_ns >= _CONFIRM_NS:
            self._raw, self._read_ns = raw, now
            for channel, value in enumerate(raw):
                self._held.note(channel, now, self._counts(channel, value))

    def _counts(self, channel: int, raw: int) -> int:
        role = self._roles[channel]
        if not self._moved[channel]:
            first = c_int16()
            known = self._sdl.SDL_JoystickGetAxisInitialState(self._stick, role.axis, byref(first))
            self._moved[channel] = bool(known) and raw != first.value
            if not self._moved[channel] and (isinstance(role, Pedal) or not known or abs(raw) >= MOST):
                return 0
        return role.counts(raw)

    def put(self, value: float) -> None:
        """See daq_service/effort.py. Positive pushes to the right: against a hand that turns left."""
        motor = self._motor
        if motor is None or self.effort is None:
            return
        # so that a device that comes back under force is not thrown around
        self._most_force = min(self._most_force + self.effort.slew / self.effort.rate_hz, self.effort.limit)
        if motor.put(min(max(value, -self._most_force), self._most_force)):
            self._refused_in_a_row = 0
            return
        self._refused += 1
        self._refused_in_a_row += 1
        if self._refused_in_a_row == _REFUSALS:
            self._say(f"{self._name} refuses its force")

    def counts(self) -> dict[str, int]:
        return {
            "polls": self._polls,
            "unplugged": self._unplugged,
            "unmoved": self._moved.count(False),
            **({"force_refused": self._refused} if self.effort is not None else {}),
        }

    def stop(self) -> None:
        self._running = False
        self._held.stop()
        if self._sdl is not None:
            self._close()
            end(self._sdl)
            self._sdl = None


def open_device(config: Config, settings: Settings, file: Path, host: Host) -> GamepadDevice:
    names = [channel.name for channel in config.daq.channels if not channel.name.endswith(AGE)]
    for name in settings.axes:
        if name not in names:
            raise ConfigError(f"{file}: source.axes.{name}: is no channel; daq.channels has {', '.join(names)}")
    for channel in config.daq.channels:
        name = channel.name
        if name.removesuffix(AGE) not in settings.axes:
            raise ConfigError(
                f"{file}: daq.channels: {name}: has no axis; give [source.axes.{name.removesuffix(AGE)}], or leave the"
                " channel out"
            )
        if channel.counter_bits is not None:
            raise ConfigError(
                f"{file}: daq.channels: {name}.counter_bits = {channel.counter_bits}: an axis is no counter; leave it"
                " out"
            )
        if isinstance(settings.axes.get(name), Centred) and channel.type not in ("i2", "i4"):
            raise ConfigError(
                f"{file}: daq.channels: {name}.type = {channel.type!r}: must be 'i2' or 'i4'; it has a sign"
            )
    return GamepadDevice(config, settings, host)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        watch(print, 3600.0)
