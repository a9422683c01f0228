"""Analogue sensors of the virtual haptic device: their voltages by position and velocity, their noise, their ranges;
and what a configuration may not say of them."""

from pathlib import Path

import numpy as np
import pytest

from daq_service.devices import open_device
from daq_service.devices.haptic_sensors import fill_sensors, sensor_rows
from daq_service.devices.haptic_settings import Settings
from sync.config.config import load
from sync.config.toml import check
from sync.errors import ConfigError

FILE = Path(__file__).resolve().parents[3] / "configs" / "piano_instrument.toml"


def scans(place: float, speed: float, count: int = 1, **changed: str) -> np.ndarray:
    config = load(FILE, [f"source.{key}={value}" for key, value in changed.items()])
    settings = check(Settings, dict(config.source), str(FILE), "source")
    rows = sensor_rows(config, settings)
    made = np.zeros((count, 4), np.int64)
    for k in range(count):
        fill_sensors(made[k], k, place, speed, rows)
    return made


QUIET = {
    "hall": '{front="front", rear="rear", noise=0.0, volts=4.0, reach=0.03, front_gap=0.0175, rear_gap=0.008}',
    "coil": '{channel="coil", noise=0.0, kappa=12.0}',
}


def test_a_field_falls_with_the_square_of_the_distance_and_a_coil_reads_velocity() -> None:
    for place in (0.0, 0.004, 0.0095):
        _, front, rear, coil = scans(place, 0.05, **QUIET)[0] * 1.5e-4
        assert front == pytest.approx(4.0 / (1.0 + (0.0175 - place) / 0.03) ** 2, abs=1e-4)
        assert rear == pytest.approx(4.0 / (1.0 + (0.008 + place) / 0.03) ** 2, abs=1e-4)
        assert coil == pytest.approx(0.6, abs=1e-4)
    # a magnet does not go through its sensor, and a converter ends where its type does
    assert scans(1.0, 1e9, **QUIET)[0].tolist() == [0, 26667, scans(1.0, 0.0, **QUIET)[0, 2], 32767]
    assert scans(0.0, -1e9, **QUIET)[0, 3] == -32768


def test_noise_is_as_large_as_it_says_differs_between_sensors_and_is_the_same_twice() -> None:
    loud = {"hall": '{front="front", rear="rear", noise=0.003}', "coil": '{channel="coil", noise=0.003}'}
    once = scans(0.002, 0.0, 2000, **loud)[:, 1:]
    assert (once == scans(0.002, 0.0, 2000, **loud)[:, 1:]).all()
    assert once.std(axis=0) * 1.5e-4 == pytest.approx([0.003] * 3, rel=0.1)
    assert abs(np.corrcoef(once.T)[np.triu_indices(3, 1)]).max() < 0.1


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ('source.hall={front="front", rear="back"}', "source.hall.rear = 'back': daq.channels has"),
        ('source.hall={front="front", rear="front"}', "source.hall.rear = 'front': is that of source.hall.front"),
        ('source.coil={channel="reference"}', "source.coil.channel = 'reference': is the encoder's channel"),
        ('source.coil={channel="coil", kappa=0.0}', "coil.kappa"),
        ("source.hall={front=\"front\", rear=\"rear\", reach=nan}", "hall.reach"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_by_name(setting: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        open_device(load(FILE, [setting]), FILE)
