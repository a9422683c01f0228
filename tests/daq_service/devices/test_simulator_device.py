"""Steps of another run as scans: counts, ages, gaps, and what is wrong said by its name."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from daq_service.devices import open_device
from sync.clock import now_ns
from sync.errors import ConfigError
from tests.daq_service.conftest import DRIVE, drive_config
from tests.daq_service.simulator_steps import Steps, config_of

CHANNELS = """daq.channels=[{name="angle", type="i4"}, {name="angle_age_us", type="u4", unit="us"}]"""
SOURCE = (
    "source={{kind='simulator', run='{run}', channels={{angle={{of='angle', age='age_angle', per_count=0.5{more}}}}}}}"
)


@pytest.fixture
def run() -> str:
    return f"steps_{os.getpid()}"


@pytest.fixture
def steps(run: str) -> Iterator[Steps]:
    made = Steps(run)
    yield made
    made.ring.close()


def device(run: str, more: str = ""):
    found = open_device(drive_config("inputs={}", CHANNELS, SOURCE.format(run=run, more=more)), DRIVE)
    found.start()
    return found


def read(found, most: int = 16):
    scans, t_ns = np.zeros((most, 2), np.int64), np.zeros(most, np.int64)
    count, lost = found.read(scans, t_ns, 1_000_000)
    return scans[:count].tolist(), t_ns[:count].tolist(), lost


def test_results_become_counts_at_the_step_s_instant_with_their_age(run: str, steps: Steps) -> None:
    steps.put(now_ns(), 7.0)  # before the start: not ours
    found = device(run, ", zero_counts=-0.5")
    t = now_ns()
    steps.put(t, 1.25, 0.15)
    steps.put(t + 5, 1.75, 0.155)
    steps.put(t + 10, float("nan"), 4000.0)
    steps.put(t + 15, 1e300, 1e9)
    scans, t_ns, lost = read(found)
    assert t_ns == [t, t + 5, t + 10, t + 15] and lost == 0
    assert scans[:3] == [[2, 150_000], [3, 155_000], [0, 4_000_000_000]] and scans[3][1] == 2**32 - 1
    assert found.counts()["not_finite"] == 1
    found.stop()


def test_a_simulator_that_was_started_again_is_a_gap(run: str, steps: Steps) -> None:
    found = device(run)
    steps.put(now_ns(), 1.0)
    assert read(found)[2] == 0
    steps.ring.bump_epoch()
    steps.put(now_ns(), 2.0)
    scans, _, lost = read(found)
    assert len(scans) == 1 and lost == 1
    assert read(found)[0] == []  # and none comes twice
    found.stop()


def test_a_run_that_is_not_there_yet_is_waited_for(run: str) -> None:
    found = device(run)
    assert read(found) == ([], [], 0)
    later = Steps(run)
    later.put(now_ns(), 0.5)
    for _ in range(50):
        if scans := read(found)[0]:
            break
    assert scans == [[1, 0]]
    found.stop()
    later.ring.close()


def test_an_output_that_the_other_machine_does_not_have_is_named(run: str, steps: Steps) -> None:
    for setting, why in (
        ("source.channels.brake.of='angel'", r"source\.channels\.brake\.of = 'angel': the run .* has step, angle"),
        ("source.watch=['angel']", r"source\.watch: angel: the run .* has step, angle"),
    ):
        found = open_device(config_of(run, setting), DRIVE)
        found.start()
        with pytest.raises(ConfigError, match=why):
            read(found)
        found.stop()


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("{kind='simulator', channels={}}", "give truth, a configuration, or run"),
        ("{kind='simulator', run='a', truth='b.toml', channels={}}", "give truth, a configuration, or run"),
        ("{kind='simulator', run='a', channels={}}", r"give \[source.channels.brake\]"),
        ("{kind='simulator', run='a', channels={speed={of='vx', per_count=1.0}}}", "no speed"),
        ("{kind='simulator', run='a', channels={brake={of='b', per_count=0.0}}}", "per_count"),
        ("{kind='simulator', run='a', channels={brake={of='b', per_count=1.0, age='a'}}}", "brake_age_us must be"),
        ("{kind='simulator', run='a', chanels={}}", "chanels"),
    ],
)
def test_what_is_wrong_in_its_settings_is_named(source: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        open_device(drive_config(f"source={source}"), DRIVE)


def test_a_truth_that_is_missing_or_of_another_rate_is_named() -> None:
    one = "{of='b', per_count=1.0}"
    source = f"source={{kind='simulator', truth='%s', channels={{brake={one}, throttle={one}, steering={one}}}}}"
    with pytest.raises(ConfigError, match=r"nowhere\.toml"):
        open_device(drive_config(source % "nowhere.toml"), DRIVE)
    with pytest.raises(ConfigError, match=r"daq\.rate_hz = 1000: must be 200, a scan for every step of twin_truth"):
        open_device(drive_config(source % "twin_truth.toml"), DRIVE)
    with pytest.raises(ConfigError, match="too long for that of its truth"):
        open_device(drive_config(source % "twin_truth.toml", f"name={'a' * 30}"), DRIVE)
    assert Path(DRIVE.parent / "twin_truth.toml").exists()
