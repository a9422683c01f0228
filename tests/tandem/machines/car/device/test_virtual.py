"""The virtual sensors against the profile they were told to follow: as raw as the real ones, and no rawer."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from daq_service.counters import TOTAL, counter_table, unwrap
from daq_service.devices import open_device
from daq_service.devices.contract import Device, Host
from sync.config.config import Config
from sync.errors import ConfigError
from sync.ring.block import Channel, Layout
from sync.ring.ring import RingReader, push
from sync.virtual_clock import virtual_clock
from tandem.machines.car.device.virtual import POSE as NAMES
from tests.daq_service.conftest import DRIVE, Rings, drive_config

POSE = Layout(tuple(Channel(name, "f8") for name in NAMES))
BRAKE, THROTTLE, STEERING = range(3)  # columns of configs/drive.toml
DEG = 0.18
FAST = "daq.rate_hz=10000"
QUIET = ("source.brake_noise_counts=0.0", "source.brake_offset_counts=0.0")

Write = Callable[[str], Path]


def collect(source: Device, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The first `count` scans, and their instants in seconds after the first one."""
    scans, t_ns = np.zeros((count, 3), np.int64), np.zeros(count, np.int64)
    have = 0
    source.start()
    while have < count:
        taken, lost = source.read(scans[have:], t_ns[have:], 5_000_000)
        assert lost == 0
        have += taken
    source.stop()
    return scans, (t_ns - t_ns[0]) * 1e-9


def in_virtual_time() -> Host:
    return Host(clock=virtual_clock(read_ns=0))


def virtual(path: Path, *overrides: str) -> tuple[Device, Config]:
    config = drive_config(f'source.manoeuvre="{path}"', *overrides)
    return open_device(config, DRIVE, in_virtual_time()), config


def smoothstep(t: np.ndarray, seconds: float, high: float) -> np.ndarray:
    f = np.clip(t / seconds, 0, 1)
    return high * f * f * (3 - 2 * f)


# encoders


def test_encoders_count_whole_steps_of_the_commanded_motion(manoeuvre_file: Write) -> None:
    """Within one count of the profile at the instant of the scan; the registers start anywhere."""
    path = manoeuvre_file(
        "[steering_deg]\npoints = [[0, 0], [0.1, 40], [0.2, -60]]\n[throttle]\npoints = [[0, 0], [0.15, 1]]"
    )
    source, _ = virtual(path, FAST, "source.steering_start_count=1000", "source.throttle_start_count=2000")
    scans, t = collect(source, 2200)
    first = smoothstep(t, 0.1, 40.0)
    angle = np.where(t < 0.1, first, 40.0 - smoothstep(t - 0.1, 0.1, 100.0))
    steering = scans[:, STEERING].astype(np.uint16).astype(np.int64)
    off = np.where(steering < 32768, steering, steering - 65536) - 1000 - angle / DEG
    assert off.max() <= 1e-6 and off.min() > -1.0
    off = scans[:, THROTTLE] - 2000 - 420.0 * smoothstep(t, 0.15, 1.0)
    assert off.max() <= 1e-6 and off.min() > -1.0
    assert len(np.unique(scans[:, STEERING])) > 500  # it did turn


def test_registers_wrap_and_unwrapped_they_are_the_profile(manoeuvre_file: Write) -> None:
    path = manoeuvre_file("[steering_deg]\nsines = [{ start = 0, cycles = 2, amplitude = 90, frequency_hz = 10 }]")
    source, config = virtual(path, FAST, "source.steering_start_count=65530")
    scans, t = collect(source, 2000)
    registers = scans[:, STEERING]
    assert registers.min() >= 0 and registers.max() <= 65535
    assert (np.abs(np.diff(registers)) > 60_000).sum() >= 4  # both ways, in both cycles

    row = counter_table(config.daq.channels, config.daq.rate_hz)[STEERING]
    counts = []
    for register in registers.tolist():
        unwrap(row, register)
        counts.append(int(row[TOTAL]))
    angle = np.where(t < 0.2, 90.0 * np.sin(2 * math.pi * 10.0 * t), 0.0)
    off = np.array(counts) - angle / DEG
    assert off.max() <= 1e-6 and off.min() > -1.0


@pytest.mark.parametrize("bits", [8, 16, 24])
def test_registers_have_the_configured_width(manoeuvre_file: Write, bits: int) -> None:
    config = drive_config(f'source.manoeuvre="{manoeuvre_file("")}"').model_dump()
    config["source"]["encoder_bits"] = bits
    config["source"]["steering_start_count"] = -3
    for channel in config["daq"]["channels"][1:]:
        channel["counter_bits"] = bits
    source = open_device(Config.model_validate(config), DRIVE, in_virtual_time())
    assert collect(source, 3)[0][:, STEERING].tolist() == [(1 << bits) - 3] * 3


def test_a_small_turn_of_the_wheel_and_of_the_pedal_already_crosses_the_wrap(manoeuvre_file: Write) -> None:
    """So that every drive does, with the settings as they are."""
    path = manoeuvre_file("[steering_deg]\npoints = [[0, 0], [0.05, 5]]\n[throttle]\npoints = [[0, 0], [0.05, 0.2]]")
    scans, _ = collect(virtual(path)[0], 60)
    for channel in (STEERING, THROTTLE):
        assert (np.abs(np.diff(scans[:, channel])) > 60_000).any()


# brake


def test_brake_at_rest_is_noise_around_a_small_negative_offset(manoeuvre_file: Write) -> None:
    """Mean and sigma within four standard errors; counts below zero are there, as on the car."""
    n, sigma, offset = 4000, 6.0, -3.5
    source, _ = virtual(
        manoeuvre_file(""), FAST, f"source.brake_noise_counts={sigma}", f"source.brake_offset_counts={offset}"
    )
    brake = collect(source, n)[0][:, BRAKE]
    whole = math.hypot(sigma, math.sqrt(1 / 12))  # rounding to counts adds its own
    assert abs(brake.mean() - offset) < 4 * whole / math.sqrt(n)
    assert abs(brake.std() - whole) < 4 * whole / math.sqrt(2 * n)
    assert brake.min() < 0 and brake.min() > -40 and (brake < 0).mean() > 0.5
    # white: neighbours know nothing of each other
    noise = brake - brake.mean()
    assert abs((noise[1:] * noise[:-1]).mean() / noise.var()) < 4 / math.sqrt(n)


def test_each_channel_is_sampled_at_its_own_instant(manoeuvre_file: Write) -> None:
    """The brake 200 us before the counters: on a fast ramp that is 98 counts, and one period has nothing to do with
    it.
    """
    path = manoeuvre_file(
        "[brake_bar]\npoints = [[0, 0], [0.1, 40]]\n[steering_deg]\npoints = [[0, 0], [0.1, 400]]"
        "\n[throttle]\npoints = [[0, 0], [0.1, 1]]"
    )
    source, _ = virtual(path, "daq.rate_hz=2000", *QUIET, "source.throttle_start_count=0")
    scans, t = collect(source, 250)
    counts = 32767.0 / 40.0
    off = scans[:, BRAKE] - counts * smoothstep(t - 200e-6, 0.1, 40.0)
    assert np.abs(off).max() <= 0.5 + 1e-6
    assert (counts * smoothstep(t, 0.1, 40.0) - scans[:, BRAKE]).max() > 90
    # the counters without delay: here 200 us would be two throttle counts and more
    off = scans[:, THROTTLE] - 420.0 * smoothstep(t, 0.1, 1.0)
    assert off.max() <= 1e-6 and off.min() > -1.0


def test_brake_stops_at_the_ends_of_its_converter(manoeuvre_file: Write) -> None:
    for bar, count in ((60.0, 32767), (-60.0, -32768)):
        source, _ = virtual(manoeuvre_file(f"[brake_bar]\npoints = [[0, {bar}]]"), FAST)
        assert set(collect(source, 20)[0][:, BRAKE].tolist()) == {count}


# repetition


def test_same_seed_gives_the_same_scans_and_another_seed_another_noise() -> None:
    def drive(seed: int) -> np.ndarray:
        config = drive_config(FAST, f"source.seed={seed}")
        return collect(open_device(config, DRIVE, in_virtual_time()), 1000)[0]

    once, again, other = drive(7), drive(7), drive(8)
    assert (once == again).all()
    assert (once[:, [STEERING, THROTTLE]] == other[:, [STEERING, THROTTLE]]).all()
    assert once[:, BRAKE].std() > 1
    assert abs(np.corrcoef(once[:, BRAKE], other[:, BRAKE])[0, 1]) < 4 / math.sqrt(1000)  # the pressure is constant


def test_a_restarted_source_drives_the_same_again() -> None:
    source = open_device(drive_config(FAST), DRIVE, in_virtual_time())
    assert (collect(source, 300)[0] == collect(source, 300)[0]).all()


# a driver in the loop


Pose = tuple[float, float, float, float]  # x, y, yaw, vx


def drives_by_sight(rings: Rings, pose: Pose | None, age_ns: int = 0) -> np.ndarray:
    """Scans of half a second, read while a simulator publishes this pose, always so many ns ago."""
    writer, reader = rings.pair(POSE, 64)
    clock = virtual_clock(read_ns=0)

    def feedback() -> RingReader | None:
        if pose is not None:
            record = np.zeros(1, POSE.dtype)
            record["x"], record["y"], record["yaw"], record["vx"] = pose
            record["pushed_ns"] = clock.now_ns() - age_ns
            push(writer.words, record.view(np.int64))
        return reader

    config = drive_config(
        'source.manoeuvre="manoeuvres/follow_lane_change.toml"',
        "source.throttle_start_count=0",
        "source.steering_start_count=10000",
        *QUIET,
    )
    return collect(open_device(config, DRIVE, Host(feedback, clock=clock)), 500)[0]


def test_driver_presses_the_throttle_when_he_sees_the_car_stand(rings: Rings) -> None:
    scans = drives_by_sight(rings, (0.0, 0.0, 0.0, 0.0))
    assert scans[-1, THROTTLE] > 300 and scans[-1, BRAKE] < 10


def test_driver_steers_back_to_the_path_he_sees(rings: Rings) -> None:
    assert drives_by_sight(rings, (20.0, -2.0, 0.0, 10.0))[-1, STEERING] > 10_000 + 50
    assert drives_by_sight(rings, (20.0, 2.0, 0.0, 10.0))[-1, STEERING] < 10_000 - 50


@pytest.mark.parametrize("pose", [None, (0.0, 0.0, 0.0, 0.0)])
def test_without_a_fresh_pose_the_driver_brakes_and_leaves_the_throttle(rings: Rings, pose: Pose | None) -> None:
    """No pose at all, or one of 400 ms ago."""
    scans = drives_by_sight(rings, pose, age_ns=400_000_000)
    assert (scans[:, THROTTLE] == 0).all() and (scans[:, STEERING] == 10_000).all()
    assert abs(scans[-1, BRAKE] - 15.0 / 40.0 * 32767) < 0.01 * 15.0 / 40.0 * 32767


# settings


def refused(*overrides: str, change: Callable[[dict], None] | None = None) -> str:
    """What opening the source of such a configuration complains about."""
    data = drive_config(*overrides).model_dump()
    if change:
        change(data)
    config = Config.model_validate(data)
    with pytest.raises(ConfigError) as error:
        open_device(config, DRIVE)
    assert str(DRIVE) in str(error.value) or str(DRIVE.parent) in str(error.value)
    return str(error.value)


def test_unknown_manoeuvre_file_is_named_with_its_neighbours() -> None:
    said = refused("source.manoeuvre=manoeuvres/twn.toml")
    assert str(DRIVE.parent / "manoeuvres/twn.toml") in said and "no such file" in said and "town.toml" in said


def test_unknown_key_of_the_source_is_named_with_what_was_meant() -> None:
    said = refused("source.manoeuver=manoeuvres/town.toml")
    assert "source.manoeuver" in said and "unknown key" in said and "did you mean manoeuvre?" in said


def test_value_out_of_limits_is_named() -> None:
    said = refused("source.buffer_blocks=0")
    assert f"{DRIVE}: source.buffer_blocks = 0: must be greater than or equal to 1" in said


def test_missing_manoeuvre_is_named() -> None:
    said = refused(change=lambda data: data["source"].pop("manoeuvre"))
    assert f"{DRIVE}: source.manoeuvre: is missing" in said


@pytest.mark.parametrize("kind", ["labjack", None, ["virtual"]])
def test_unknown_kind_of_source_is_named_with_those_there_are(kind: object) -> None:
    said = refused(change=lambda data: data["source"].update(kind=kind))
    assert f"{DRIVE}: source.kind = {kind!r}" in said and "virtual" in said


def test_counter_width_that_is_not_the_encoders_is_named() -> None:
    said = refused("source.encoder_bits=12")
    assert f"{DRIVE}: daq.channels: throttle.counter_bits = 16" in said and "12 bits (source.encoder_bits)" in said


def test_channel_that_the_source_does_not_have_is_named() -> None:
    extra = {"name": "yaw_rate", "type": "i2", "unit": "count"}
    said = refused(change=lambda data: data["daq"]["channels"].append(extra))
    assert f"{DRIVE}: daq.channels: yaw_rate" in said and "brake, throttle, steering" in said
