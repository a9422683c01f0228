"""SDL: its joysticks by name, and the motor of one. See docs/gamepad.md.

SDL guards its joysticks itself against threads. It does not guard force feedback, so `Motor` does.
"""

import functools
import glob
import os
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import byref, create_string_buffer
from dataclasses import dataclass
from typing import Any

from sync.config.extras import install_extra
from sync.errors import DeviceError

MOST = 32767


@functools.cache
def load() -> Any:
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Using SDL2 binaries", UserWarning)
            import sdl2
    except ImportError as error:
        raise DeviceError(
            f"source: kind = 'gamepad' needs SDL2, which is not there ({error}): {install_extra('gamepad')}"
        ) from None
    return sdl2


def begin() -> Any:
    """SDL, with joysticks but without a window. Every `begin` needs an `end`; SDL counts them."""
    sdl = load()
    sdl.SDL_SetHint(b"SDL_NO_SIGNAL_HANDLERS", b"1")  # Ctrl-C is ours
    sdl.SDL_SetHint(b"SDL_JOYSTICK_ALLOW_BACKGROUND_EVENTS", b"1")
    if sdl.SDL_InitSubSystem(sdl.SDL_INIT_JOYSTICK) < 0:
        raise DeviceError(f"source: SDL cannot look for joysticks: {last_error(sdl)}")
    sdl.SDL_InitSubSystem(sdl.SDL_INIT_HAPTIC)  # without it there is no force, which is reported where one is asked for
    sdl.SDL_JoystickEventState(sdl.SDL_IGNORE)  # nothing would ever empty the queue of events
    return sdl


def end(sdl: Any) -> None:
    sdl.SDL_QuitSubSystem(sdl.SDL_INIT_HAPTIC | sdl.SDL_INIT_JOYSTICK)


def last_error(sdl: Any) -> str:
    return str(sdl.SDL_GetError().decode(errors="replace")) or "no reason given"


@dataclass(frozen=True)
class Device:
    """A joystick that is there, for people and for `tandem doctor`."""

    index: int
    name: str
    guid: str
    axes: int
    haptic: bool

    def __str__(self) -> str:
        force = "force feedback" if self.haptic else "no force feedback"
        return f"{self.index}: {self.name} (GUID {self.guid}), axes 0 to {self.axes - 1}, {force}"


def devices() -> list[Device]:
    """Every joystick there is. Raises DeviceError if SDL is missing."""
    sdl = begin()
    try:
        return list(each_device(sdl))
    finally:
        end(sdl)


def each_device(sdl: Any) -> Iterator[Device]:
    sdl.SDL_JoystickUpdate()
    for index in range(sdl.SDL_NumJoysticks()):
        with opened(sdl, index) as stick:
            if stick:
                axes, haptic = sdl.SDL_JoystickNumAxes(stick), sdl.SDL_JoystickIsHaptic(stick) == 1
                yield Device(index, name_of(sdl, index), guid_of(sdl, index), axes, haptic)


def watch(say: Callable[[str], None], seconds: float) -> None:
    """Print which joysticks there are, then each axis that moves, with its value: this shows the numbers of axes."""
    from sync.clock import now_ns, sleep_until

    sdl = begin()
    there = list(each_device(sdl))
    for device in there:
        say(str(device))
    if not there:
        say(none_there())
        seconds = 0.0
    sticks = {device: sdl.SDL_JoystickOpen(device.index) for device in there}
    seen: dict[tuple[int, int], int] = {}
    until = now_ns() + round(seconds * 1e9)
    try:
        while now_ns() < until:
            sdl.SDL_JoystickUpdate()
            for device, axis in [(d, a) for d in there for a in range(d.axes)]:
                value = sdl.SDL_JoystickGetAxis(sticks[device], axis)
                if abs(value - seen.setdefault((device.index, axis), value)) > MOST // 10:
                    seen[device.index, axis] = value
                    say(f"{device.index}: axis {axis} is at {value}")
            sleep_until(now_ns() + 20_000_000)
    finally:
        for stick in sticks.values():
            sdl.SDL_JoystickClose(stick)
        end(sdl)


@contextmanager
def opened(sdl: Any, index: int) -> Iterator[Any]:
    stick = sdl.SDL_JoystickOpen(index)
    try:
        yield stick
    finally:
        if stick:
            sdl.SDL_JoystickClose(stick)


def name_of(sdl: Any, index: int) -> str:
    return (sdl.SDL_JoystickNameForIndex(index) or b"without a name").decode(errors="replace")


def guid_of(sdl: Any, index: int) -> str:
    text = create_string_buffer(33)
    sdl.SDL_JoystickGetGUIDString(sdl.SDL_JoystickGetDeviceGUID(index), text, 33)
    return text.value.decode()


def choose(sdl: Any, device: str | int) -> int | None:
    """The joystick that the setting means: by its number, its GUID, or part of its name."""
    there = range(sdl.SDL_NumJoysticks())
    if isinstance(device, int):
        return device if device in there else None
    wanted = device.strip().lower()
    by_guid = [i for i in there if guid_of(sdl, i) == wanted]
    by_name = [i for i in there if wanted in name_of(sdl, i).lower()]
    return next(iter(by_guid + by_name), None)


def none_there() -> str:
    events = glob.glob("/dev/input/event*")
    closed = sum(not os.access(path, os.R_OK) for path in events)
    if not events:
        return "no joystick is there, nor any /dev/input/event*: is it plugged in (and passed into a container)?"
    if closed:
        return (
            f"no joystick is there that may be read: {closed} of {len(events)} /dev/input/event* may not; as a member"
            " of the group input you may (sudo usermod -aG input $USER, then log in again)"
        )
    return "no joystick is there: is the device plugged in, has it power, is its switch on the right mode?"


# ---- force -----------------------------------------------------------------------------------------------------------


class NoMotorError(Exception):
    pass


class Motor:
    """One constant force on the axis that has a motor, without end and without any spring of the device's own.

    Any thread may call; after `close` nothing happens any more.
    """

    def __init__(self, sdl: Any, stick: Any):
        self._sdl, self._lock = sdl, threading.Lock()
        self._haptic = sdl.SDL_HapticOpenFromJoystick(stick)
        if not self._haptic:
            raise NoMotorError(last_error(sdl))
        self._level: int | None = 0  # the level that the device has; None if unknown
        self._effect = sdl.SDL_HapticEffect()
        constant = self._effect.constant
        constant.type = sdl.SDL_HAPTIC_CONSTANT
        constant.direction.type = sdl.SDL_HAPTIC_STEERING_AXIS
        constant.length = sdl.SDL_HAPTIC_INFINITY
        self._number = -1
        able = sdl.SDL_HapticQuery(self._haptic)
        if not able & sdl.SDL_HAPTIC_CONSTANT:
            self.close()
            raise NoMotorError("it has no constant force")
        if able & sdl.SDL_HAPTIC_AUTOCENTER:
            sdl.SDL_HapticSetAutocenter(self._haptic, 0)
        if able & sdl.SDL_HAPTIC_GAIN:
            sdl.SDL_HapticSetGain(self._haptic, 100)
        self._number = sdl.SDL_HapticNewEffect(self._haptic, byref(self._effect))
        if self._number < 0 or sdl.SDL_HapticRunEffect(self._haptic, self._number, 1) < 0:
            reason = last_error(sdl)
            self.close()
            raise NoMotorError(reason)

    def put(self, share: float) -> bool:
        """Push with this share of the full force, to the right if positive; False if the device did not take it."""
        # on this axis SDL's force comes from the right, and so pushes to the left
        level = -round(min(max(share, -1.0), 1.0) * MOST)
        with self._lock:
            return not self._haptic or self._send(level)

    def _send(self, level: int) -> bool:
        if level == self._level:
            return True  # a device takes some hundred updates a second: send none that changes nothing
        self._effect.constant.level = level
        taken = self._sdl.SDL_HapticUpdateEffect(self._haptic, self._number, byref(self._effect)) >= 0
        self._level = level if taken else None
        return bool(taken)

    def close(self) -> None:
        with self._lock:
            if not self._haptic:
                return
            if self._number >= 0:
                self._send(0)
                self._sdl.SDL_HapticStopEffect(self._haptic, self._number)
                self._sdl.SDL_HapticDestroyEffect(self._haptic, self._number)
            self._sdl.SDL_HapticClose(self._haptic)
            self._haptic = None
