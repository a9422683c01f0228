"""When the simulator dies the DAQ lives on and brings its output to zero: in time, and by a ramp."""

import signal
import time
from collections.abc import Callable, Iterator

import pytest

from sync.config import load
from tandem.supervise import sweep
from tests.daqmx_double.handle import Double
from tests.system.conftest import ROOT, Program

Start = Callable[..., Program]
ONBOARD = str(ROOT / "configs" / "onboard.toml")
LIMIT, SLEW, STALE_MS, ZERO_MS, RATE_HZ = 2.0, 20.0, 100.0, 400.0, 100.0
FORCE = (
    f"source.force={{channel='vx', gain=1.0, limit={LIMIT}, slew={SLEW}, rate_hz={RATE_HZ},"
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
    options = ("--set", f"name={name}", "--set", f"source.server={double.server}", "--set", FORCE)
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
    assert report["force_zeroed"] == 1 and report["lost"] == 0
    assert double.tell("written")[-1][1] == 0.0 and double.tell("state")["tasks"] == []
    sim.end()
    sweep(load(ONBOARD, [f"name={name}"]))  # what the dead one left
