"""A CAN bus within this process (python-can's virtual one), a car that sends on it, and the source that listens."""

from typing import Any

import can
import cantools
import numpy as np
from can.interfaces.virtual import VirtualBus

from daq_service.devices import open_device
from daq_service.devices.can import CanDevice
from daq_service.devices.contract import Device, Host
from sync.clock import REAL, Clock
from sync.config.config import Config, load
from sync.virtual_clock import virtual_clock
from tests.daq_service.conftest import CONFIGS, DRIVE, drive_config, unique

CAN = CONFIGS / "can.toml"
EXAMPLE = cantools.database.load_file(CONFIGS / "can" / "example.dbc")
MS = 1_000_000
STEERING, THROTTLE, BRAKE = "EPS_Angle", "ENGINE_Pedals", "BRAKES_Pressure"


def encode(message: str, **raw: int) -> can.Message:
    """A frame with these raw values; all else in it is zero."""
    known = EXAMPLE.get_message_by_name(message)
    values: dict[str, Any] = {s.name: 0 for s in known.signals} | raw
    data = known.encode(values, scaling=False, strict=False)
    return can.Message(arbitration_id=known.frame_id, is_extended_id=known.is_extended_frame, data=data)


class Pluggable(VirtualBus):  # type: ignore[misc]
    """A bus that can be unplugged, in place of the kernel's. What is on it knows filters only by what was asked."""

    unplugged: set[str] = set()
    filters_asked: list[dict[str, Any]] = []

    def __init__(self, channel: str, can_filters: Any = None, **kwargs: Any):
        if channel in self.unplugged:
            raise OSError(19, "No such device")
        Pluggable.filters_asked = can_filters
        super().__init__(channel, **kwargs)

    def _recv_internal(self, timeout: float | None) -> tuple[can.Message | None, bool]:
        if self.channel_id in self.unplugged:
            raise can.CanOperationError("Failed to receive: Network is down", 100)
        return super()._recv_internal(timeout)


class Car:
    """Sends frames, one by one or one of each."""

    def __init__(self, channel: str, clock: Clock = REAL, **options: Any):
        if clock is not REAL:  # else the bus stamps what it hears
            options["preserve_timestamps"] = True
        self.bus = can.Bus(interface="virtual", channel=channel, ignore_config=True, **options)
        self._clock = clock
        self.raw = (0, 0, 0)  # steering, throttle, brake

    def steer(self, raw: int) -> None:
        self.send(encode(STEERING, SteeringWheelAngle=raw))

    def send(self, message: can.Message) -> None:
        message.timestamp = self._clock.wall_ns() * 1e-9
        self.bus.send(message)

    def burst(self) -> None:
        steering, throttle, brake = self.raw
        self.send(encode(STEERING, SteeringWheelAngle=steering))
        self.send(encode(THROTTLE, ThrottlePosition=throttle))
        self.send(encode(BRAKE, MasterPressure=brake))

    def close(self) -> None:
        self.bus.shutdown()


def can_config(channel: str, *overrides: str) -> Config:
    """configs/can.toml on a bus of this process."""
    usual = [f"name={unique()}", "source.interface=virtual", f"source.channel={channel}"]
    return load(CAN, [*usual, *overrides])


def open_can_device(channel: str, *overrides: str, host: Host | None = None) -> CanDevice:
    source = open_device(can_config(channel, *overrides), CAN, host or Host())
    assert isinstance(source, CanDevice)
    return source


class Fed(Device):
    """For the contract: a source, in virtual time, and a car that sends whenever it is listened to."""

    def __init__(self, source: CanDevice, car: Car):
        self._source, self._car = source, car
        self.find, self.stop = source.find, source.stop

    def start(self) -> None:
        self._source.start()
        self._car.burst()

    def read(self, scans: np.ndarray, t_ns: np.ndarray, wait_ns: int) -> tuple[int, int]:
        self._car.burst()
        return self._source.read(scans, t_ns, wait_ns)


def open_can(rate_hz: float, buffer_scans: int) -> tuple[Device, Clock]:
    channel = unique()
    signals = {
        "brake": ("i2", f"{BRAKE}.MasterPressure"),
        "throttle": ("i2", f"{THROTTLE}.ThrottlePosition"),
        "steering": ("i4", f"{STEERING}.SteeringWheelAngle"),
    }
    channels = ", ".join(f'{{name="{name}", type="{kind}"}}' for name, (kind, _) in signals.items())
    mapped = ", ".join(f'{name}={{signal="{signal}"}}' for name, (_, signal) in signals.items())
    source = (
        f'{{kind="can", interface="virtual", channel="{channel}", dbc="can/example.dbc",'
        f" buffer_blocks={buffer_scans}, signals={{{mapped}}}}}"
    )
    config = drive_config(f"daq.rate_hz={rate_hz}", f"daq.channels=[{channels}]", f"source={source}")
    clock = virtual_clock(read_ns=0)
    opened = open_device(config, DRIVE, Host(clock=clock))
    assert isinstance(opened, CanDevice)
    return Fed(opened, Car(channel, clock)), clock
