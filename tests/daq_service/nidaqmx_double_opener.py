"""The nidaqmx source on the double: one double process for all tests of a session, reset before each use.

Both live in the same virtual time, which the two processes share.
"""

import atexit
import mmap
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from daq_service.devices import open_device
from daq_service.devices.contract import Device, Host
from daq_service.devices.nidaqmx import NiDevice
from sync.clock import Clock, VirtualClock
from sync.config.config import Config, load
from sync.virtual_clock import virtual_clock
from tests.daq_service.conftest import CONFIGS, unique
from tests.daqmx_double.handle import Double

ONBOARD = CONFIGS / "onboard.toml"
MASS_SPRING = CONFIGS / "mass_spring.toml"


@cache
def shared_clock() -> VirtualClock:
    return _shared()[0]


@cache
def _shared() -> tuple[VirtualClock, Path]:
    """A virtual clock whose words lie in a file, and that file."""
    clock = virtual_clock(read_ns=0)
    with tempfile.NamedTemporaryFile(prefix="tandem-clock-", delete=False) as file:
        file.write(clock.words.tobytes())
        file.flush()
        words = np.frombuffer(mmap.mmap(file.fileno(), 0), np.int64)
    return clock._replace(words=words), Path(file.name)


@cache
def _process() -> Double:
    file = _shared()[1]
    double = Double(clock=file)
    file.unlink()  # both have it; a worker that is killed leaves nothing
    atexit.register(double.close)
    return double


def double(**configured: Any) -> Double:
    """The double as it is when new, but for these settings of its device."""
    process = _process()
    process.tell("reset")
    if configured:
        process.tell("configure", **configured)
    return process


def onboard_config(server: str, *overrides: str, bits: int = 32) -> Config:
    """configs/onboard.toml with its device behind that server."""
    counter = f"counter_bits={bits}, max_counts_per_s=8000.0"
    channels = (
        f"[{{name='brake', type='i2'}}, {{name='throttle', type='i2', {counter}}},"
        f" {{name='steering', type='i4', {counter}}}]"
    )
    return load(ONBOARD, [f"name={unique()}", f"source.server={server}", f"daq.channels={channels}", *overrides])


def handle_config(server: str, *overrides: str, bits: int = 32) -> Config:
    """configs/mass_spring.toml: one encoder, and no analog input but for its clock."""
    source = f"source={{kind='nidaqmx', server='{server}', clock_input='ai0', channels={{handle={{input='ctr0'}}}}}}"
    channels = f"daq.channels=[{{name='handle', type='i4', counter_bits={bits}}}]"
    return load(MASS_SPRING, [f"name={unique()}", source, channels, *overrides])


def four_config(server: str, *overrides: str, bits: int = 32) -> Config:
    """A machine with three analog inputs and an encoder, in an order that is not the device's."""
    wiring = "force={input='ai2'}, handle={input='ctr1'}, current={input='ai0'}, warmth={input='ai1', full_counts=4e3}"
    channels = f"""daq.channels=[{{name='force', type='i2'}}, {{name='handle', type='i4', counter_bits={bits}}},
        {{name='current', type='i2'}}, {{name='warmth', type='i2'}}]"""
    source = f"source={{kind='nidaqmx', server='{server}', channels={{{wiring}}}}}"
    return load(MASS_SPRING, [f"name={unique()}", source, channels, *overrides])


def open_ni(config: Config, host: Host | None = None) -> NiDevice:
    source = open_device(config, ONBOARD, host or Host())
    assert isinstance(source, NiDevice)
    return source


def open_nidaqmx(rate_hz: float, buffer_scans: int) -> tuple[Device, Clock]:
    """For the contract of sources."""
    config = onboard_config(
        double().server,
        f"daq.rate_hz={rate_hz}",
        f"source.buffer_s={min(buffer_scans / rate_hz, 600.0)}",
        f"source.scans_per_read={max(min(5, buffer_scans // 4), 1)}",
    )
    return open_ni(config, Host(clock=shared_clock())), shared_clock()
