"""Held values, against a model that keeps every reading and looks all of them through for every scan."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daq_service.sample_hold import SampleHold
from tests.daq_service.conftest import drive_config
from tests.examples import few

PERIOD = 1_000_000
NAMES = ("brake", "throttle", "steering")
AGED = (True, False, True)  # the layout below
CHANNELS = (
    'daq.channels=[{name="brake", type="i2"}, {name="throttle", type="i2"},'
    ' {name="brake_age_us", type="u4", unit="us"},'
    ' {name="steering", type="i4"}, {name="steering_age_us", type="u4", unit="us"}]'
)
COLUMNS, AGE_COLUMNS = (0, 1, 3), (2, None, 4)
CONFIG = drive_config(CHANNELS)


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000_000

    def now_ns(self) -> int:
        return self.now

    def sleep_until(self, instant_ns: int) -> None:
        self.now = max(self.now, instant_ns)


class Model:
    """What held values promise, as plainly as it can be said."""

    def __init__(self, clock: Clock, buffer: int):
        self.clock, self.buffer = clock, buffer
        self.valid_from = [clock.now] * 3
        self.readings: list[tuple[int, int, int]] = []  # instant, channel, value; in the order they came
        self.due = clock.now + PERIOD
        self.running = self.begun = False
        self.floor = 0  # no scan is before a reading that was there when one was asked for in vain
        self.lost = 0

    def note(self, channel: int, t: int, value: int) -> None:
        if t >= self.valid_from[channel]:
            self.readings.append((t, channel, value))

    def lose(self, gone: set[int]) -> None:
        for channel in gone:
            self.valid_from[channel] = self.clock.now
        self.readings = [reading for reading in self.readings if reading[1] not in gone]
        self.running = False

    def begin(self) -> bool:
        if {channel for _, channel, _ in self.readings} < {0, 1, 2}:
            self.floor = max((t for t, _, _ in self.readings), default=0)
            return False
        firsts = [min(t for t, channel, _ in self.readings if channel == c) for c in range(3)]
        known = max(self.floor, *firsts)
        before = self.due
        while self.due < known or (self.begun and self.due == before):
            self.due += PERIOD
            self.lost += self.begun
        self.running = True
        return True

    def take(self, most: int) -> tuple[list[list[int]], list[int], int]:
        if (not self.running and not self.begin()) or self.clock.now < self.due:
            return [], [], 0
        while self.due + self.buffer * PERIOD <= self.clock.now:
            self.due += PERIOD
            self.lost += 1
        rows, instants = [], []
        while self.due <= self.clock.now and len(rows) < most:
            row = [0] * 5
            for channel in range(3):
                there = [r for r in self.readings if r[1] == channel and r[0] <= self.due]
                t, _, value = max(reversed(there), key=lambda r: r[0])  # of equals the last that came
                row[COLUMNS[channel]] = value
                if (age := AGE_COLUMNS[channel]) is not None:
                    row[age] = (self.due - t) // 1000
            rows.append(row)
            instants.append(self.due)
            self.due += PERIOD
        lost, self.lost, self.begun = self.lost, 0, True
        return rows, instants, lost


pauses = st.one_of(st.integers(0, 3 * PERIOD), st.sampled_from([PERIOD, 10 * PERIOD, 100 * PERIOD]))
backs = st.one_of(st.just(0), st.integers(0, 3 * PERIOD))
values = st.integers(-(2**31), 2**31 - 1)
notes = st.tuples(st.just("note"), st.sampled_from([(0,), (1,), (2,), (0, 1, 2)]), backs, values)
passes = st.tuples(st.just("pass"), pauses)
takes = st.tuples(st.just("take"), st.integers(1, 20))
losses = st.tuples(st.just("lose"), st.sampled_from([(0,), (1,), (2,), (0, 1, 2)]))
operations = st.lists(st.one_of(notes, notes, notes, passes, passes, takes, takes, losses), min_size=25, max_size=60)


class Play:
    """Does what a script says, to held values and to whatever follows them."""

    def __init__(self, buffer: int):
        self.clock = Clock()
        self.held = SampleHold(CONFIG, buffer, self.clock)
        self.held.start()
        self.model = Model(self.clock, buffer)
        self._scans, self._t_ns = np.zeros((20, 5), np.int64), np.zeros(20, np.int64)

    def do(self, name: str, *arguments: Any) -> tuple[list[list[int]], list[int], int] | None:
        """What was taken, of a take."""
        match name, *arguments:
            case "note", channels, back, value:
                for channel in channels:
                    self.held.note(channel, self.clock.now - back, value + channel)
                    self.model.note(channel, self.clock.now - back, value + channel)
            case "pass", ns:
                self.clock.now += ns
            case "lose", channels:
                self.held.lose(channels[0] if len(channels) == 1 else None)
                self.model.lose(set(channels))
            case "take", most:
                count, lost = self.held.take(self._scans[:most], self._t_ns)
                return self._scans[:count].tolist(), self._t_ns[:count].tolist(), lost
        return None


@settings(max_examples=few(200), deadline=None, derandomize=True)
@given(operations, st.integers(1, 30))
def test_scans_are_those_of_the_model(script: list[tuple], buffer: int) -> None:
    play = Play(buffer)
    for operation in script:
        if (taken := play.do(*operation)) is not None:
            assert taken == play.model.take(operation[1])


@settings(max_examples=few(100), deadline=None, derandomize=True)
@given(operations)
def test_every_beat_since_the_first_scan_is_taken_or_lost(script: list[tuple]) -> None:
    play = Play(7)
    begun = play.clock.now
    first = beats = 0
    for operation in script:
        _, instants, lost = play.do(*operation) or ([], [], 0)
        if instants:
            beats += len(instants) + (lost if first else 0)
            first = first or instants[0]
            assert instants[-1] <= play.clock.now
            assert all((t - begun) % PERIOD == 0 for t in instants)
            assert beats == (instants[-1] - first) // PERIOD + 1


def full(held: SampleHold, t: int, value: int = 5) -> None:
    for channel in range(len(held.names)):
        held.note(channel, t, value)


def test_columns_are_those_of_the_configuration() -> None:
    held = SampleHold(CONFIG, 10, Clock())
    assert held.names == NAMES and held.aged == AGED


def test_nothing_is_known_before_the_start_nor_after_the_end() -> None:
    clock = Clock()
    held = SampleHold(CONFIG, 10, clock)
    scans, t_ns = np.zeros((20, 5), np.int64), np.zeros(20, np.int64)
    full(held, clock.now)
    held.lose()
    clock.now += 5 * PERIOD
    assert held.take(scans, t_ns) == (0, 0)
    held.start()
    full(held, clock.now - 1)  # from before
    clock.now += 5 * PERIOD
    assert held.take(scans, t_ns) == (0, 0)
    full(held, clock.now)
    assert held.take(scans, t_ns) == (1, 0)
    # gone, and back: known to be lost, but not told yet when it is stopped
    held.lose()
    full(held, clock.now)
    assert held.take(scans, t_ns) == (0, 0)
    held.stop()
    clock.now += 5 * PERIOD
    assert held.take(scans, t_ns) == (0, 0)
    # a new start owes nothing to the old
    held.start()
    full(held, clock.now)
    clock.now += PERIOD
    assert held.take(scans, t_ns) == (1, 0)


def test_gone_and_back_within_a_period_is_a_gap_all_the_same() -> None:
    clock = Clock()
    held = SampleHold(CONFIG, 10, clock)
    scans, t_ns = np.zeros((20, 5), np.int64), np.zeros(20, np.int64)
    held.start()
    full(held, clock.now)
    clock.now += PERIOD
    assert held.take(scans, t_ns) == (1, 0)
    clock.now += 10
    held.lose()
    full(held, clock.now)
    clock.now += PERIOD
    assert held.take(scans, t_ns) == (0, 0)
    clock.now += PERIOD
    assert held.take(scans, t_ns) == (1, 1)


def test_age_of_the_newest_reading_and_of_what_never_came() -> None:
    clock = Clock()
    held = SampleHold(CONFIG, 10, clock)
    held.start()
    clock.now += 70
    assert held.age_ns(0, clock.now) == 70 and not held.seen(0)
    held.note(0, clock.now - 20, 1)
    held.note(0, clock.now - 30, 2)  # came later, is older
    assert held.age_ns(0, clock.now) == 20 and held.seen(0) and not held.seen(1)
    clock.now += 10
    held.lose(0)
    clock.now += 5
    assert held.age_ns(0, clock.now) == 5 and held.age_ns(1, clock.now) == 85 and not held.seen(0)


def test_an_age_beyond_its_type_is_the_oldest_there_is() -> None:
    clock = Clock()
    held = SampleHold(CONFIG, 10, clock)
    held.start()
    full(held, clock.now)
    clock.now += 5_000 * 1_000_000_000
    scans, t_ns = np.zeros((20, 5), np.int64), np.zeros(20, np.int64)
    assert held.take(scans, t_ns)[0] == 10
    assert scans[9, 4] == 2**32 - 1


@pytest.mark.parametrize("known", [False, True])
def test_wait_ends_when_a_scan_is_due_or_on_request(known: bool) -> None:
    clock = Clock()
    held = SampleHold(drive_config(CHANNELS, "daq.rate_hz=100"), 10, clock)
    held.start()
    began = clock.now
    if known:
        full(held, began)
        assert held.take(np.zeros((20, 5), np.int64), np.zeros(20, np.int64)) == (0, 0)
    held.wait(2_000_000_000)
    assert clock.now - began == (10_000_000 if known else 1_000_000)  # a period, or a moment
    began = clock.now
    held.wait(0)
    assert clock.now == began
