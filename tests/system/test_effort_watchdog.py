"""When the simulator is killed the DAQ brings the effort to zero: in time, and by a ramp."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from daq_service import effort_record as rec
from sync.config import Config, load
from sync.record import open_run
from tandem.replay_efforts import efforts_again
from tandem.supervise import sweep
from tests.daqmx_double.handle import Double
from tests.system.conftest import DRIVE, ROOT, Program, pid_of, ring_of, until, wait_for_steps

Start = Callable[..., Program]
ONBOARD = str(ROOT / "configs" / "onboard.toml")
LIMIT, SLEW, STALE_MS, ZERO_MS, RATE_HZ = 2.0, 20.0, 100.0, 400.0, 100.0
EFFORT = (
    f"source.effort={{channel='vx', gain=1.0, limit={LIMIT}, slew={SLEW}, rate_hz={RATE_HZ},"
    f" stale_after_ms={STALE_MS}, zero_within_ms={ZERO_MS}}}"
)
# by the settings from the limit to zero in the time that is left
FALL = LIMIT / (1e-3 * (ZERO_MS - STALE_MS) - 2.0 / RATE_HZ)
JITTER_S = 0.1  # between the instant a value is made and the instant the double has it
PATIENCE_S = 4.0  # ten times what is promised


@pytest.fixture
def double() -> Iterator[Double]:
    process = Double()
    yield process
    process.close()


def test_an_output_falls_to_zero_when_the_simulator_is_killed(start: Start, name: str, double: Double) -> None:
    double.tell("configure", script="drive")
    options = ("--set", f"name={name}", "--set", f"source.server={double.server}", "--set", EFFORT)
    sim = start("tandem", "sim", ONBOARD, *options)
    daq = start("tandem", "daq", ONBOARD, *options, "--json")
    sim.wait_for("the DAQ is there")  # both may have to compile first, one after the other
    end = time.monotonic() + 60
    while not (written := double.tell("written")) or written[-1][1] < LIMIT:  # the car is faster than 2 m/s
        assert time.monotonic() < end, f"{written[-3:]}\n{daq.said}\n{sim.said}"
        time.sleep(0.05)
    # while it rose it kept to the slew
    rise = [(t * 1e-9, v) for t, v in written if v > 0]
    assert all(v <= rise[0][1] + SLEW * (t - rise[0][0] + JITTER_S) for t, v in rise)

    killed = time.monotonic()
    sim.signal(signal.SIGKILL)
    while double.tell("written")[-1][1] != 0.0:
        assert time.monotonic() - killed < PATIENCE_S, daq.said
        time.sleep(0.01)
    fall = [(t * 1e-9, v) for t, v in double.tell("written") if t * 1e-9 > killed - 1.0]
    begun = max(i for i, (_, v) in enumerate(fall) if v == LIMIT)
    ramp = [entry for entry in fall[begun:] if entry[0] <= killed + PATIENCE_S]
    zero = next(t for t, v in ramp if v == 0.0)
    assert zero - killed < PATIENCE_S
    values = [v for _, v in ramp]
    assert values == sorted(values, reverse=True) and values[-1] == 0.0
    assert len({v for v in values if 0.0 < v < LIMIT}) >= 5
    t0 = ramp[0][0]
    assert all(v >= LIMIT - FALL * (t - t0 + JITTER_S) for t, v in ramp)
    print(f"zero {1e3 * (zero - killed):.0f} ms after the simulator was killed; {ZERO_MS:g} ms are promised")

    assert daq.popen.poll() is None  # it samples on, for the next simulator
    daq.signal(signal.SIGINT)
    assert daq.end() == 0, daq.said
    report = daq.json()
    assert report["effort"]["zeroed"] == 1 and report["lost"] == 0
    assert report["effort"]["round_trip_us"]["round_trip"]["n"] > 10
    assert double.tell("written")[-1][1] == 0.0 and double.tell("state")["tasks"] == []
    sim.end()
    sweep(load(ONBOARD, [f"name={name}"]))  # what the dead one left


def run_config(effort: dict[str, Any]) -> Config:
    return load(DRIVE, [f"source.effort={{{', '.join(f'{key}={value!r}' for key, value in effort.items())}}}"])


@pytest.mark.parametrize("transport", ["shm", "ipc"])
def test_by_the_record_the_effort_was_zero_in_time_after_a_kill(
    drive: Callable[..., Program], name: str, tmp_path: Path, transport: str
) -> None:
    settings = {"channel": "vx", "gain": 1.0, "limit": 0.05, "slew": 1.0, "rate_hz": 500.0, "displacement": "yaw",
                "stale_after_ms": 20.0, "zero_within_ms": 80.0}  # fmt: skip
    written = ", ".join(f"{key}={value!r}" for key, value in settings.items())
    program = drive("--seconds", "0", "--json", "--set", f"source.effort={{{written}}}", "--set",
                    f'transport.kind="{transport}"')  # fmt: skip
    efforts = ring_of(name, "effort")
    until(lambda: (found := efforts.newest()) is not None and found["given"] == 0.05, "the car does not move")
    killed = pid_of(name, "sim")
    os.kill(killed, signal.SIGKILL)
    until(lambda: pid_of(name, "sim") != killed, "no simulator took its place")
    steps = ring_of(name, "sim")
    wait_for_steps(steps, steps.head + 20)
    steps.close()
    efforts.close()
    program.signal(signal.SIGINT)
    program.end()
    report = program.json()
    assert report["record"]["topics"]["/effort"]["lost"] == 0 and report["effort"]["zeroed"] >= 1

    run = open_run(next((tmp_path / "runs").iterdir()))
    found = run.topics["/effort"].blocks
    came = np.where(found["step_received_ns"] > 0, found["step_received_ns"], found["step_pushed_ns"])
    first = np.flatnonzero(np.diff(found["step_seq"], prepend=-1))  # effort of each step
    silent = int(np.argmax(np.diff(came[first])))  # the last step before the longest silence
    last, following = came[first[silent]], found["t_ns"][first[silent + 1]]
    assert following - last > 80_000_000, "a simulator took its place before the watchdog had to act"
    between = (found["t_ns"] >= last) & (found["t_ns"] < following)
    assert found["given"][between][0] == 0.05 and found["given"][between][-1] == 0.0
    zero = found["pushed_ns"][between & (found["given"] == 0.0)][0]
    assert zero - last <= 80_000_000
    assert (found["status"][between & (found["t_ns"] - last > 30_000_000)] & rec.WATCHDOG).all()
    print(f"zero {(zero - last) / 1e6:.1f} ms after the last step; 80 ms are promised")

    # and the record's efforts can be made again from its steps, to the bit; with another gain they differ
    made = efforts_again(run, config := run_config(settings))
    assert made is not None and made["differing"] == 0 and made["compared"] > 0.9 * made["recorded"] == 0.9 * len(found)
    config.source["effort"]["gain"] = 0.9
    other = efforts_again(run, config)
    assert other is not None and other["differing"] > 0 and other["first_difference"] is not None
