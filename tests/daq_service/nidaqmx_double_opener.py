"""The nidaqmx source on the double: one double process for all tests of a session, reset before each use."""

import atexit
from functools import cache
from typing import Any

from daq_service.sources import Host, open_source
from daq_service.sources.nidaqmx import NiSource
from sync.config import Config, load
from tests.daqmx_double.handle import Double

from .conftest import CONFIGS, unique

ONBOARD = CONFIGS / "onboard.toml"


@cache
def _process() -> Double:
    double = Double()
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


def open_onboard(config: Config, host: Host | None = None) -> NiSource:
    source = open_source(config, ONBOARD, host or Host())
    assert isinstance(source, NiSource)
    return source


def open_nidaqmx(rate_hz: float, buffer_scans: int) -> NiSource:
    """For the contract of sources."""
    config = onboard_config(
        double().server,
        f"daq.rate_hz={rate_hz}",
        f"source.buffer_s={min(buffer_scans / rate_hz, 600.0)}",
        f"source.scans_per_read={max(min(5, buffer_scans // 4), 1)}",
    )
    return open_onboard(config)
