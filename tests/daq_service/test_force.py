"""Back to the hand: limits, and zero in time when the simulator falls silent. With a real ring, in virtual time."""

import itertools
import math
import threading
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from daq_service.force import ForceLoop, ForceSettings, follow
from sync.block import PAYLOAD, PUSHED, RECEIVED, Channel, Layout
from sync.clock import VirtualClock
from sync.ring import RingReader, RingWriter, push
from sync.virtual_clock import virtual_clock

from .conftest import Rings, unique

MS = 1_000_000
LAYOUT = Layout((Channel("speed", "f8"), Channel("steering_torque", "f8")))


def settings(**changes: object) -> ForceSettings:
    return ForceSettings(**{"gain": 0.1, "limit": 0.5, "slew": 5.0, **changes})  # type: ignore[arg-type]


@st.composite
def some_settings(draw: st.DrawFn) -> ForceSettings:
    rate = draw(st.floats(50, 2000))
    stale = draw(st.floats(1, 1000))
    return settings(
        limit=draw(st.floats(1e-3, 100)),
        slew=draw(st.floats(1e-3, 1e4)),
        rate_hz=rate,
        stale_after_ms=stale,
        zero_within_ms=stale + 10_001 / rate + draw(st.floats(0, 1000)),
    )


ANY = st.floats(allow_nan=True, allow_infinity=True)
SHARES = st.floats(-1, 1)


@given(some_settings(), SHARES, ANY, st.booleans(), st.floats(0, 10))
def test_never_beyond_the_limit_nor_faster_than_allowed(
    s: ForceSettings, start: float, wanted: float, fresh: bool, dt: float
) -> None:
    last = start * s.limit
    value = follow(last, wanted, fresh, dt, s.limit, s.slew, s.fall)
    assert abs(value) <= s.limit
    fastest = s.slew if fresh and math.isfinite(wanted) else s.fall
    assert abs(value - last) <= fastest * dt + 1e-12 * s.limit


@given(some_settings(), SHARES, st.floats(-1e6, 1e6))
def test_it_arrives_where_it_is_asked_to_go(s: ForceSettings, start: float, wanted: float) -> None:
    value = follow(start * s.limit, wanted, True, 2 * s.limit / s.slew * 1.001, s.limit, s.slew, s.fall)
    assert value == min(max(wanted, -s.limit), s.limit)


@given(some_settings(), SHARES, ANY, st.floats(0, 1), st.lists(st.floats(0.2, 5.0), min_size=1, max_size=8))
def test_after_the_last_step_it_is_zero_in_time_however_long_the_turns_are(
    s: ForceSettings, start: float, wanted: float, early: float, turns: list[float]
) -> None:
    """What counts is the time that has passed. Times are from the last step on."""
    dt = 1.0 / s.rate_hz
    silent, end = 1e-3 * s.stale_after_ms, 1e-3 * s.zero_within_ms
    t, value = silent - early * dt, start * s.limit  # of the last turn that took it for fresh
    for turn in itertools.cycle(turns):
        t += turn * dt
        if t <= silent:
            value = follow(value, wanted, True, turn * dt, s.limit, s.slew, s.fall)
            continue
        value = follow(value, wanted, False, turn * dt, s.limit, s.slew, s.fall)
        if t >= end - dt:
            assert value == 0.0
            break


@given(SHARES)
def test_what_is_no_number_counts_as_silence(start: float) -> None:
    s = settings()
    for wanted in (math.nan, math.inf, -math.inf):
        assert follow(start, wanted, True, 0.002, s.limit, s.slew, s.fall) == follow(
            start, 0.0, False, 0.002, s.limit, s.slew, s.fall
        )


def test_settings_without_time_to_ramp_down_are_refused() -> None:
    with pytest.raises(ValidationError, match=r"zero_within_ms = 40 leaves no time.*at least 50"):
        settings(stale_after_ms=30.0, zero_within_ms=40.0)


class Hand:
    """An actuator that remembers what it was given, and when."""

    def __init__(self, force: ForceSettings, clock: VirtualClock):
        self.force, self.clock = force, clock
        self.given: list[tuple[int, float]] = []
        self.slow_ns = 0  # how long it takes to give it something

    def put(self, value: float) -> None:
        self.given.append((self.clock.now_ns(), value))
        self.clock.sleep_until(self.clock.now_ns() + self.slow_ns)


class Simulator:
    """Pushes a step every 5 ms, until it is silent."""

    def __init__(self, running: "Running", writer: RingWriter, received: bool = False):
        self.torque = 0.0
        self.last_ns = 0
        self._writer, self._received = writer, received
        self._due_ns = running.clock.now_ns()
        self._silent = False
        running.simulators.append(self)

    def push_due(self, now: int) -> None:
        block = np.zeros(LAYOUT.words, np.int64)
        while not self._silent and self._due_ns <= now:
            block.view(np.float64)[PAYLOAD + 1] = self.torque
            self.last_ns = self._due_ns
            # on a wire the simulator's clock may be any
            block[PUSHED], block[RECEIVED] = (12345, self.last_ns) if self._received else (self.last_ns, 0)
            push(self._writer.words, block)
            self._due_ns += 5 * MS

    def fall_silent(self) -> int:
        """When its last step was."""
        self._silent = True
        return self.last_ns


class Running:
    """A force loop, the ring it looks at, and who pushes into it: turn by turn."""

    def __init__(self, force: ForceSettings):
        self.clock = virtual_clock(look_ns=0)
        self.hand = Hand(force, self.clock)
        self.ring: RingReader | None = None
        self.loop = ForceLoop(self.hand, lambda: self.ring, self.clock)
        self.simulators: list[Simulator] = []

    def wait_for(self, condition: Callable[[], bool], seconds: float = 5.0) -> bool:
        end = self.clock.now_ns() + round(seconds * 1e9)
        while not condition() and self.clock.now_ns() < end:
            for simulator in self.simulators:
                simulator.push_due(self.clock.now_ns())
            self.loop.turn()
        return condition()

    def stop(self) -> None:
        """As a thread that is told to stop."""
        stop = threading.Event()
        stop.set()
        self.loop.run(stop)


@pytest.fixture
def running() -> Running:
    return Running(settings(stale_after_ms=50.0, zero_within_ms=200.0))


def test_without_a_simulator_there_is_no_force(running: Running) -> None:
    assert running.wait_for(lambda: len(running.hand.given) > 20)
    assert {v for _, v in running.hand.given} == {0.0} and running.loop.zeroed == 0


@pytest.mark.parametrize("received", [False, True], ids=["shared memory", "off a wire"])
def test_a_silent_simulator_lets_go_of_the_hand_and_one_that_is_back_is_followed(
    running: Running, rings: Rings, received: bool
) -> None:
    name = f"tandem.{unique()}.sim"
    writer, running.ring = rings.pair(LAYOUT, 64, name)
    simulator = Simulator(running, writer, received)
    simulator.torque = 3.0
    assert running.wait_for(lambda: running.loop.value == pytest.approx(0.3))
    simulator.torque = -1e9
    assert running.wait_for(lambda: running.loop.value == -0.5)
    silent_ns = simulator.fall_silent()
    assert running.wait_for(lambda: running.hand.given[-1][1] == 0.0)
    # down from the limit, a little at a time, and there in time
    given = running.hand.given
    full_ns = max(t for t, v in given if v == -0.5)
    zero_ns = next(t for t, v in given if v == 0.0 and t > full_ns)
    ramp = [v for t, v in given if full_ns <= t <= zero_ns]
    assert ramp == sorted(ramp) and len(ramp) > 5
    assert zero_ns - silent_ns <= 200 * MS
    assert running.loop.zeroed == 1
    # the simulator is reborn
    writer.close()
    reborn, running.ring = rings.pair(LAYOUT, 64, name)
    again = Simulator(running, reborn, received)
    again.torque = 2.0
    assert running.wait_for(lambda: running.loop.value == pytest.approx(0.2))
    again.fall_silent()


def test_a_slow_device_is_let_down_in_larger_steps(running: Running, rings: Rings) -> None:
    """The time it takes to zero is that of a clock, however few turns there are."""
    running.hand.slow_ns = 30 * MS
    writer, running.ring = rings.pair(LAYOUT)
    simulator = Simulator(running, writer)
    simulator.torque = 1e3
    assert running.wait_for(lambda: running.loop.value == 0.5)
    simulator.fall_silent()
    assert running.wait_for(lambda: running.loop.value == 0.0)
    full_ns = max(t for t, v in running.hand.given if v == 0.5)
    falling = [v for t, v in running.hand.given if t > full_ns and v > 0.0]
    assert len(falling) <= 6  # of 30 ms at least, in 150


def test_a_simulator_that_computes_nonsense_is_as_good_as_silent(running: Running, rings: Rings) -> None:
    writer, running.ring = rings.pair(LAYOUT)
    simulator = Simulator(running, writer)
    simulator.torque = 4.0
    assert running.wait_for(lambda: running.loop.value == pytest.approx(0.4))
    simulator.torque = math.nan
    assert running.wait_for(lambda: running.loop.value == 0.0)
    assert all(math.isfinite(v) for _, v in running.hand.given) and running.loop.zeroed == 1
    simulator.fall_silent()


def test_a_simulator_without_that_output_is_told(running: Running, rings: Rings) -> None:
    writer, running.ring = rings.pair(LAYOUT)
    simulator = Simulator(running, writer)
    simulator.torque = 3.0
    assert running.wait_for(lambda: running.loop.value == pytest.approx(0.3))
    other, running.ring = rings.pair(Layout((Channel("speed", "f8"),)))
    push(other.words, np.full(PAYLOAD + 1, running.clock.now_ns()))
    assert running.wait_for(lambda: running.loop.missing and running.hand.given[-1][1] == 0.0)
    running.ring = None
    assert running.wait_for(lambda: running.loop.value == 0.0)
    name = running.hand.force.channel
    number, running.ring = rings.pair(Layout((Channel(name, "i8"),)))  # its bits are no force
    push(number.words, np.full(PAYLOAD + 1, running.clock.now_ns()))
    assert running.wait_for(lambda: running.loop.missing and running.loop._ring is running.ring)
    simulator.fall_silent()


def test_the_last_thing_a_hand_is_given_is_zero(running: Running, rings: Rings) -> None:
    writer, running.ring = rings.pair(LAYOUT)
    simulator = Simulator(running, writer)
    simulator.torque = 5.0
    assert running.wait_for(lambda: running.loop.value == 0.5)
    running.stop()
    assert running.hand.given[-1][1] == 0.0 and running.hand.given[-2][1] == 0.5
    simulator.fall_silent()
