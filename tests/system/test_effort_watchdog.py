"""When the simulator is killed the DAQ brings the effort to zero: in time, and by a ramp."""

import itertools
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from daq_service import effort_record as rec
from daq_service.effort_settings import EffortSettings
from sync.config.config import Config, load
from sync.record import open_run
from sync.ring.follower import RingFollower
from tandem.live.supervisor.supervise import sweep
from tandem.records.replay_efforts import efforts_again
from tests.daqmx_double.handle import Double
from tests.system.conftest import DRIVE, ROOT, Program, pid_of, ring_of, until, wait_for_steps

Start = Callable[..., Program]
ONBOARD = str(ROOT / "configs" / "onboard.toml")
# the haptic wheel's own configuration at a NI device
WHEEL = 'include=["fragments/haptic_wheel.toml", "fragments/haptic_ni.toml"]'
LIMIT, SLEW, STALE_MS, ZERO_MS, RATE_HZ = 2.0, 20.0, 100.0, 400.0, 100.0
EFFORT = (
    f"source.effort={{channel='felt_torque', gain=1000.0, limit={LIMIT}, slew={SLEW}, rate_hz={RATE_HZ},"
    f" stale_after_ms={STALE_MS}, zero_within_ms={ZERO_MS}}}"
)


@pytest.fixture
def double() -> Iterator[Double]:
    process = Double()
    yield process
    process.close()


def assert_the_watchdog_acts(efforts: np.ndarray, settings: EffortSettings) -> None:
    """At every instant that an effort was made: by how long ago its step came or, if that is longer, its motion was
    sampled, and however late that instant was."""
    came = np.where(efforts["step_received_ns"] > 0, efforts["step_received_ns"], efforts["step_pushed_ns"])
    known = np.maximum.accumulate(np.where(efforts["sampled_ns"] > 0, np.arange(len(efforts)), -1))
    motion = np.where(known >= 0, efforts["sampled_ns"][known], 0)  # not known any more: the last one known
    age = efforts["t_ns"] - np.minimum(came, motion)
    stale_ns, zero_ns = round(1e6 * settings.stale_after_ms), round(1e6 * settings.zero_at_ms)
    following = (efforts["status"] & rec.ENDED == 0) & (came > 0)
    stale = following & (age >= stale_ns)
    assert ((efforts["status"] & rec.WATCHDOG != 0) == stale)[following].all()
    assert stale.any() and (efforts["given"][stale & (age >= zero_ns)] == 0.0).all()
    # never faster than allowed: up and down while there are steps, down without them
    passed_s, moved = 1e-9 * np.diff(efforts["t_ns"]), np.diff(efforts["given"])
    ramp = following[1:] & ~stale[1:] & following[:-1]
    assert (np.abs(moved[ramp]) <= settings.slew * passed_s[ramp] + 1e-12).all()
    fall = stale[1:] & (age[1:] < zero_ns) & following[:-1]
    fell = np.diff(np.abs(efforts["given"]))[fall]  # towards zero, from either side
    assert (fell <= 0.0).all() and (fell >= -settings.fall * passed_s[fall] - 1e-12).all()


@pytest.mark.drill  # by its record: the next test; the law: tests/daq_service/test_effort.py
def test_an_output_falls_to_zero_when_the_simulator_is_killed(start: Start, name: str, double: Double) -> None:
    double.tell("configure", script="drive")
    settings = (WHEEL, EFFORT, f"name={name}", f"source.server={double.server}", "sim.parameters.feel_limit=20.0")
    options = [word for setting in settings for word in ("--set", setting)]
    sim = start("tandem", "sim", ONBOARD, *options)
    daq = start("tandem", "daq", ONBOARD, *options, "--json")
    sim.wait_for("the DAQ is there")  # both may have to compile first, one after the other
    config = load(ONBOARD, settings)
    follower, made = RingFollower(config.ring("effort")), []

    def written() -> float:
        """What the device got last; what the effort loop made is read on."""
        made.extend(follower.batches())
        values = double.tell("written")
        return float(values[-1][1]) if values else 0.0

    def steps() -> int:
        """With a round trip: on a starved machine the sample of a late one may not be known any more."""
        return len({int(seq) for batch in made for seq in batch["step_seq"][batch["sampled_ns"] > 0]})

    # the hands weave: it goes from limit to limit; and there are steps enough to have round trips of
    until(lambda: written() == LIMIT and steps() > 60, lambda: f"{daq.said}\n{sim.said}")
    sim.signal(signal.SIGKILL)
    sim.end()
    looks = [0]

    def zero() -> bool:
        """At the device, look after look: a step that was on its way may have come meanwhile."""
        looks[0] = looks[0] + 1 if written() == 0.0 and made[-1]["given"][-1] == 0.0 else 0
        return looks[0] >= 50

    until(zero, lambda: daq.said)
    values = [v for _, v in double.tell("written") if v != 0.0]

    assert daq.popen.poll() is None  # it samples on, for the next simulator
    daq.signal(signal.SIGINT)
    assert daq.end() == 0, daq.said
    made.extend(follower.batches())
    follower.close()
    assert follower.lost == 0
    efforts = np.concatenate(made)
    assert_the_watchdog_acts(efforts, EffortSettings(**config.source["effort"]))
    assert efforts["given"].max() == LIMIT
    # what the device got is what was made, in that order
    given = iter(efforts["given"].tolist())
    assert all(value in given for value in (v for v, _ in itertools.groupby(values)))
    report = daq.json()
    assert report["effort"]["zeroed"] >= 1
    # a thread that hands over the newest one may pass over many on a starved machine
    handed_over = report["effort"]["round_trip_us"]["round_trip"]["n"]
    assert 0 < handed_over <= len(np.unique(efforts["sampled_ns"][efforts["sampled_ns"] > 0]))
    assert double.tell("written")[-1][1] == 0.0 and double.tell("state")["tasks"] == []
    sweep(load(ONBOARD, [f"name={name}"]))  # what the dead one left


def run_config(source: str) -> Config:
    return load(DRIVE, [source])


@pytest.mark.parametrize("axes", [False, True], ids=["virtual-ipc", "haptic-axes-shm"])
def test_by_the_record_the_effort_was_zero_in_time_after_a_kill(
    drive: Callable[..., Program], name: str, tmp_path: Path, axes: bool
) -> None:
    """Of every axis of the device, by itself; the axes' are those of a hand wheel that is swung."""
    settings = {"channel": "hand_wheel_angle" if axes else "vx", "gain": 1.0, "limit": 0.05, "slew": 1.0,
                "rate_hz": 500.0, "displacement": "yaw", "stale_after_ms": 20.0, "zero_within_ms": 80.0}  # fmt: skip
    settings |= {"gain": 10.0} if axes else {}
    effort = f"{{{', '.join(f'{key}={value!r}' for key, value in settings.items())}}}"
    source, transport = f"source.effort={effort}", "ipc"
    if axes:
        source, transport = (
            "source={kind='haptic', position='steering', lever=1.0, hand={rigid=true, motion={amplitude=0.5, hz=0.5}},"
            f" effort={effort}, axes={{throttle={{effort={effort}}}}}}}", "shm",
        )  # fmt: skip
    program = drive("--seconds", "0", "--json", "--set", source, "--set", f'transport.kind="{transport}"')
    rings = [ring_of(name, stream) for stream in run_config(source).efforts]
    assert len(rings) == 1 + axes
    for efforts in rings:
        until(lambda e=efforts: (x := e.newest()) is not None and abs(x["given"]) == 0.05, "the car does not move")
    killed = pid_of(name, "sim")
    program.signal(signal.SIGSTOP)  # nobody takes its place before the watchdog has acted
    os.kill(killed, signal.SIGKILL)
    for efforts in rings:
        until(lambda e=efforts: e.newest()["given"] == 0.0, "the effort does not become zero")
    program.signal(signal.SIGCONT)
    until(lambda: pid_of(name, "sim") != killed, "no simulator took its place")
    steps = ring_of(name, "sim")
    wait_for_steps(steps, steps.head + 20)
    for ring in (steps, *rings):
        ring.close()
    program.signal(signal.SIGINT)
    program.end()
    report = program.json()
    counted = [report["effort"], *report["axis_efforts"].values()]
    assert len(counted) == len(rings) and all(each["zeroed"] >= 1 for each in counted)

    run = open_run(next((tmp_path / "runs").iterdir()))
    recorded = 0
    for topic in ("/effort", "/effort_1")[: len(rings)]:
        assert report["record"]["topics"][topic]["lost"] == 0
        found = run.topics[topic].blocks
        recorded += len(found)
        assert np.abs(found["given"]).max() == 0.05
        assert_the_watchdog_acts(found, EffortSettings.model_validate(settings))

    # and the record's efforts can be made again from its steps, to the bit; with another gain they differ
    made = efforts_again(run, config := run_config(source))
    assert made is not None and made["differing"] == 0 and made["compared"] > 0.9 * made["recorded"] == 0.9 * recorded
    changed = config.source["axes"]["throttle"] if axes else config.source
    changed["effort"]["gain"] = 0.9
    other = efforts_again(run, config)
    assert other is not None and other["differing"] > 0 and other["first_difference"] is not None
    assert [bool(each["differing"]) for each in other["topics"].values()] == ([False, True] if axes else [True])
