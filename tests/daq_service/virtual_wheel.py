"""A wheel of SDL's own making: SDL's virtual joystick, in this process. It has axes but no motor."""

from ctypes import byref
from typing import Any

import pytest

from daq_service.devices import open_device
from daq_service.devices import sdl as joysticks
from daq_service.devices.contract import Device, Host
from sync.clock import Clock
from sync.config.config import Config, load
from sync.errors import DeviceError
from sync.virtual_clock import virtual_clock
from tests.daq_service.conftest import CONFIGS, unique

GAMEPAD = CONFIGS / "gamepad.toml"
STEERING, UNUSED, THROTTLE, BRAKE = range(4)  # as in configs/gamepad.toml, where pedals fall when they are pressed
LOWEST, HIGHEST = -32768, 32767


def need_sdl() -> Any:
    try:
        return joysticks.load()
    except DeviceError as error:
        pytest.skip(str(error))


class VirtualWheel:
    """Plugged in from the start. `at` says where axes are that nobody has moved yet."""

    def __init__(self, name: str = "Virtual wheel", product: int = 1, at: dict[int, int] | None = None, axes: int = 4):
        self._sdl = need_sdl()
        joysticks.begin()
        self._about = self._sdl.SDL_VirtualJoystickDesc()
        self._about.version, self._about.type = 1, self._sdl.SDL_JOYSTICK_TYPE_WHEEL
        self._about.name, self._about.naxes = name.encode(), axes
        self._about.vendor_id, self._about.product_id = 0x0FEE, product
        self._stick: Any = None
        self.plug(at)

    def plug(self, at: dict[int, int] | None = None) -> None:
        index = self._sdl.SDL_JoystickAttachVirtualEx(byref(self._about))
        assert index >= 0
        self._stick = self._sdl.SDL_JoystickOpen(index)
        self._number = self._sdl.SDL_JoystickInstanceID(self._stick)
        self.move(at or {})
        self._sdl.SDL_JoystickClose(self._stick)  # opened anew, this is where it has been from the first
        self._stick = self._sdl.SDL_JoystickOpen(index)

    def move(self, to: dict[int, int]) -> None:
        for axis, value in to.items():
            assert self._sdl.SDL_JoystickSetVirtualAxis(self._stick, axis, value) == 0

    @property
    def index(self) -> int:
        every = range(self._sdl.SDL_NumJoysticks())
        return next(i for i in every if self._sdl.SDL_JoystickGetDeviceInstanceID(i) == self._number)

    def unplug(self) -> None:
        if self._stick is not None:
            assert self._sdl.SDL_JoystickDetachVirtual(self.index) == 0
            self._sdl.SDL_JoystickClose(self._stick)
            self._stick = None

    def close(self) -> None:
        self.unplug()
        joysticks.end(self._sdl)


def gamepad_config(*overrides: str) -> Config:
    return load(GAMEPAD, [f"name={unique()}", *overrides])


_lasting: list[VirtualWheel] = []


def open_gamepad(rate_hz: float, buffer_scans: int) -> tuple[Device, Clock]:
    """For the contract of sources: a wheel that stays, in the columns of configs/drive.toml, which have no ages."""
    if not _lasting:
        _lasting.append(VirtualWheel("Lasting wheel", product=99, at={THROTTLE: HIGHEST, BRAKE: HIGHEST}))
    channels = ", ".join(
        f"{{name='{n}', type='{t}'}}" for n, t in (("brake", "i2"), ("throttle", "i2"), ("steering", "i4"))
    )
    config = gamepad_config(
        f"daq.channels=[{channels}]",
        f"daq.rate_hz={rate_hz}",
        f"source.buffer_blocks={buffer_scans}",
        "source.device='Lasting wheel'",
    )
    clock = virtual_clock(read_ns=0)
    return open_device(config, GAMEPAD, Host(clock=clock)), clock


def unplug_lasting() -> None:
    while _lasting:
        _lasting.pop().close()
