"""Waves: every channel is where its formula says, as an encoder reads it. The contract: test_device_contract.py."""

import math

import numpy as np
import pytest

from daq_service.devices import open_device
from daq_service.devices.contract import Host
from sync.errors import ConfigError
from sync.virtual_clock import virtual_clock
from tests.daq_service.conftest import DRIVE, drive_config

MS = 1_000_000
WAVES = "channels={steering={wave='%s', hz=2.0, amplitude_counts=500.0, offset_counts=-3.0}}"


def read(wave: str, scans: int, more: str = "") -> tuple[np.ndarray, np.ndarray]:
    """(seconds since the first scan, counts of the steering)."""
    config = drive_config("source={kind='waves', " + (WAVES % wave).replace("-3.0", f"-3.0{more}") + "}")
    clock = virtual_clock(read_ns=0)
    source = open_device(config, DRIVE, Host(clock=clock))
    rows, t_ns = np.zeros((scans, 3), np.int64), np.zeros(scans, np.int64)
    source.start()
    clock.sleep_until(clock.now_ns() + scans * MS)
    count, lost = source.read(rows, t_ns, MS)
    assert (count, lost) == (scans, 0)
    steering = rows[:, config.daq.layout.names.index("steering")]
    assert ((steering >= 0) & (steering < 1 << 16)).all()  # a register of 16 bits
    return (t_ns - t_ns[0]) * 1e-9, (steering + 2**15) % 2**16 - 2**15


@pytest.mark.parametrize(
    "wave, value",
    [
        ("constant", lambda turns: 0.0),
        ("sine", lambda turns: math.sin(2.0 * math.pi * turns)),
        ("triangle", lambda turns: math.asin(math.sin(2.0 * math.pi * turns)) * 2.0 / math.pi),
        ("square", lambda turns: 1.0 if turns % 1.0 < 0.5 else -1.0),
        ("quarters", lambda turns: (1.0, 0.0, -1.0, 0.0)[int(4.0 * (turns % 1.0)) % 4]),
    ],
)
def test_a_channel_is_where_its_formula_says(wave: str, value: object) -> None:
    t, counts = read(wave, 1200)
    expected = np.array([-3.0 + 500.0 * value(2.0 * s) for s in t])  # type: ignore[operator]
    near = np.abs(counts + 0.5 - expected) <= 0.5 + 1e-6
    at_a_jump = (wave in ("square", "quarters")) & (np.abs(8.0 * t - np.rint(8.0 * t)) < 1e-9)
    assert (near | at_a_jump).all() and near[1:100].all()


def test_a_phase_moves_a_wave_by_turns() -> None:
    _, counts = read("sine", 1200, ", phase_turns=0.25")
    t, without = read("sine", 1325)
    assert (counts[:1000] == without[125:1125]).mean() > 0.99  # a quarter of 0.5 s; a count where rounding differs
    assert np.abs(counts[:1000] - without[125:1125]).max() <= 1 and t[1] == pytest.approx(1e-3)


def test_a_wave_of_a_channel_that_is_not_there_is_refused() -> None:
    config = drive_config("source={kind='waves', channels={handle={hz=1.0}}}")
    with pytest.raises(ConfigError, match=r"source.channels.handle: daq.channels has brake, throttle, steering"):
        open_device(config, DRIVE)
