"""What every source promises (daq_service/sources/__init__.py), run against each of them.

A new source joins by a line in SOURCES: a function that opens it at a sampling rate, with a device buffer of so many
scans, and the device behind it. The first columns are those of configs/drive.toml.
"""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from daq_service.acquire import Acquisition
from daq_service.sources import Host, Source, find, open_source
from sync.clock import RealClock, VirtualClock
from sync.virtual_clock import virtual_clock

from .can_bus import open_can
from .conftest import DRIVE, Rings, drive_config, recorded, replay_config, write_record
from .nidaqmx_double_opener import open_nidaqmx
from .origin import open_remote
from .page_hand import open_page
from .virtual_wheel import open_gamepad

CHANNELS = 3
UNTOUCHED = -(2**60)  # no register reads this
MS = 1_000_000

Opener = Callable[[float, int], Source]


def open_virtual(rate_hz: float, buffer_scans: int) -> Source:
    config = drive_config(f"daq.rate_hz={rate_hz}", f"source.buffer_blocks={buffer_scans}")
    return open_source(config, DRIVE, Host(clock=virtual_clock(look_ns=0)))


def open_replay(rate_hz: float, buffer_scans: int) -> Source:
    """A record of some seconds: longer than any of these tests listens."""
    with tempfile.TemporaryDirectory() as folder:
        write_record(Path(folder), recorded(rate_hz, max(round(min(3 * rate_hz, 15_000)), 3)))
        config = replay_config(folder, f"daq.rate_hz={rate_hz}", buffer=buffer_scans)
        return open_source(config, DRIVE, Host(clock=virtual_clock(look_ns=0)))


SOURCES: dict[str, Opener] = {
    "virtual": open_virtual,
    "replay": open_replay,
    "nidaqmx": open_nidaqmx,
    "can": open_can,
    "gamepad": open_gamepad,
    "remote": open_remote,
    "page": open_page,
}
# sources that live by a clock they are given
VIRTUAL = {"virtual", "replay"}
# of sources whose instants are estimates: how far a period may be from the configured one, as a share of it
FITTED: dict[str, float] = {"nidaqmx": 0.05}
# sources whose device begins anew after an overrun: on a new beat, and with nothing of before
RESTARTING = {"nidaqmx"}
# of sources that know nothing before the first news from outside: how long that may take
FIRST_NEWS_NS: dict[str, int] = {"can": 20 * MS}
# of sources behind a wire: how long the first scan may take to be there after a start, and any other after its instant
LATE_NS: dict[str, int] = {"remote": 200 * MS}


class Device:
    """A source under test, and a buffer to read into."""

    def __init__(self, source: Source, kind: str, rate_hz: float, most: int):
        self.source, self.period_ns = source, round(1e9 / rate_hz)
        # devices, sockets and buses live in real time
        self.clock: RealClock | VirtualClock = source._clock if kind in VIRTUAL else RealClock()  # type: ignore[attr-defined]
        self._fitted, self.restarts = FITTED.get(kind, 0.0), kind in RESTARTING
        self.first_news_ns = FIRST_NEWS_NS.get(kind, 0)
        self.late_ns = LATE_NS.get(kind, 0)
        self._scans = np.zeros((most, CHANNELS), np.int64)
        self._t_ns = np.zeros(most, np.int64)

    def read(self, wait_ns: int = 5 * MS) -> tuple[np.ndarray, np.ndarray, int]:
        """(scans, instants, lost), after the checks that hold for every read."""
        self._scans[:] = self._t_ns[:] = UNTOUCHED
        count, lost = self.source.read(self._scans, self._t_ns, wait_ns)
        now = self.clock.now_ns()
        assert 0 <= count <= len(self._scans) and lost >= 0
        # every scan whole, and nothing beyond the last one
        assert (self._scans[:count] != UNTOUCHED).all() and (self._t_ns[:count] != UNTOUCHED).all()
        assert (self._scans[count:] == UNTOUCHED).all() and (self._t_ns[count:] == UNTOUCHED).all()
        # no scan from the future
        assert (self._t_ns[:count] <= now).all()
        return self._scans[:count].copy(), self._t_ns[:count].copy(), lost

    def read_for(self, seconds: float, pause_ns: int = 0) -> tuple[np.ndarray, list[tuple[int, int]]]:
        """(all instants, a pair for every read that lost scans: index of the first scan after them, how many)."""
        instants: list[int] = []
        gaps: list[tuple[int, int]] = []
        end = self.clock.now_ns() + round(seconds * 1e9)
        while self.clock.now_ns() < end:
            _, t_ns, lost = self.read()
            if lost:
                gaps.append((len(instants), lost))
            instants += t_ns.tolist()
            if pause_ns:
                self.sleep(pause_ns)
        return np.array(instants, np.int64), gaps

    def sleep(self, duration_ns: int) -> None:
        self.clock.sleep_until(self.clock.now_ns() + duration_ns)

    def assert_steady(self, t_ns: np.ndarray, gaps: list[tuple[int, int]]) -> None:
        """A period from scan to scan, and as many more as were lost between."""
        expected = np.full(len(t_ns), self.period_ns)
        allowed = np.full(len(t_ns), self._fitted * self.period_ns)
        for first, lost in gaps:
            if first < len(t_ns):
                expected[first] += lost * self.period_ns
                allowed[first] = max(allowed[first], self.restarts * self.period_ns)
        away = np.abs(np.diff(t_ns) - expected[1:])
        assert (away <= allowed[1:]).all() and (np.diff(t_ns) > 0).all()


@pytest.fixture(params=SOURCES)
def device(request: pytest.FixtureRequest) -> Iterator[Callable[..., Device]]:
    """Opens the source under test; stops it in the end."""
    opened: list[Source] = []

    def make(rate_hz: float = 1000.0, buffer_scans: int = 50_000, most: int = 4096) -> Device:
        opened.append(SOURCES[request.param](rate_hz, buffer_scans))
        find(opened[-1])
        return Device(opened[-1], request.param, rate_hz, most)

    yield make
    for source in opened:
        source.stop()


def test_nothing_is_sampled_before_start(device: Callable[..., Device]) -> None:
    found = device()
    for _ in range(3):
        scans, _, lost = found.read(MS)
        assert len(scans) == 0 and lost == 0
    before = found.clock.now_ns()
    found.source.start()
    _, t_ns, lost = found.read(1000 * MS)
    assert len(t_ns) > 0 and lost == 0 and t_ns[0] >= before


@pytest.mark.parametrize("rate_hz", [100.0, 1000.0, 10_000.0])
def test_instants_rise_with_the_configured_period(device: Callable[..., Device], rate_hz: float) -> None:
    found = device(rate_hz)
    found.source.start()
    before = found.clock.now_ns()
    t_ns, gaps = found.read_for(0.2 + found.late_ns * 1e-9)
    assert gaps == []
    found.assert_steady(t_ns, gaps)
    # and there is one for every period of the clock, but for the first and the last
    begun = before + found.first_news_ns if found.late_ns == 0 else t_ns[0]
    assert len(t_ns) >= (t_ns[-1] - begun) // found.period_ns - 1 > 0


def test_no_scan_is_a_normal_answer(device: Callable[..., Device]) -> None:
    found = device(rate_hz=20.0)
    found.source.start()
    counts = [len(found.read(MS)[0]) for _ in range(200)]
    assert 0 in counts and sum(counts) > 0


def test_read_waits_no_longer_than_asked(device: Callable[..., Device]) -> None:
    found = device(rate_hz=0.1)
    found.source.start()
    found.read(50 * MS)  # a device may sample at the very instant of its start
    took = []
    for _ in range(9):
        began = found.clock.now_ns()
        assert len(found.read(5 * MS)[0]) == 0
        took.append(found.clock.now_ns() - began)
    assert sorted(took)[4] <= 50 * MS


def test_read_returns_as_soon_as_there_is_a_scan(device: Callable[..., Device]) -> None:
    found = device(rate_hz=1000.0)
    found.source.start()
    began = found.clock.now_ns()
    for _ in range(10):
        assert len(found.read(2000 * MS)[0]) > 0
    # ten periods are 10 ms, ten whole waits would be twenty seconds; real time has hiccups
    assert found.clock.now_ns() - began < (10_000 if isinstance(found.clock, RealClock) else 1000) * MS


def test_a_read_takes_at_most_what_it_has_room_for_and_the_next_ones_the_rest(device: Callable[..., Device]) -> None:
    found = device(rate_hz=1000.0, most=16)
    found.source.start()
    found.sleep(found.late_ns + 100 * MS)
    instants: list[int] = []
    for _ in range(6):
        _, t_ns, lost = found.read()
        assert len(t_ns) == 16 and lost == 0
        instants += t_ns.tolist()
    found.assert_steady(np.array(instants), [])


def test_a_read_takes_all_there_is(device: Callable[..., Device]) -> None:
    found = device(rate_hz=1000.0)
    found.source.start()
    found.sleep(2 * found.late_ns + 50 * MS)
    asked = found.clock.now_ns()
    _, t_ns, _ = found.read()
    assert t_ns[-1] > asked - found.period_ns - found.late_ns


def test_overrun_is_counted_and_time_goes_on(device: Callable[..., Device]) -> None:
    found = device(rate_hz=1000.0, buffer_scans=4)
    if found.restarts:  # a buffer that a busy machine may find full whenever it comes would never be read at all
        found = device(rate_hz=1000.0, buffer_scans=200)
    found.source.start()
    seconds, pause_ns = (2.5, 400 * MS) if found.restarts else (0.3 + found.late_ns * 1e-9, 20 * MS)
    t_ns, gaps = found.read_for(seconds, pause_ns)
    assert len(gaps) >= 3
    found.assert_steady(t_ns, gaps)
    # what is left of a long sleep is the newest, as much as the buffer holds
    found.sleep(pause_ns)
    asked = found.clock.now_ns()
    _, kept, lost = found.read()
    if found.restarts:  # what is left is nothing; what comes is new, and says what was lost
        while len(kept) == 0:
            _, kept, lost = found.read()
        assert lost > 0 and kept[0] > asked - found.period_ns
    else:
        assert lost > 0 and len(kept) == 4 and kept[-1] > asked - found.period_ns - found.late_ns


def test_a_gap_begins_a_new_epoch_and_nothing_else_does(device: Callable[..., Device], rings: Rings) -> None:
    """Through the acquisition, into a ring: what a simulator sees of it."""
    found = device(rate_hz=1000.0, buffer_scans=4)
    if found.restarts:
        found = device(rate_hz=1000.0, buffer_scans=200)
    config = drive_config("daq.rate_hz=1000")
    writer, reader = rings.pair(config.daq.layout)
    acquisition = Acquisition(config, found.source, writer, None, clock=found.clock)
    found.source.start()
    gaps, end = 0, found.clock.now_ns() + 30_000 * MS
    while gaps < 2 or writer.head == 0:
        assert found.clock.now_ns() < end
        lost, blocks = acquisition.count.lost, acquisition.count.blocks
        acquisition.turn()
        gaps += acquisition.count.lost > lost and blocks > 0
        found.sleep(400 * MS if found.restarts else 20 * MS)
    found.source.stop()
    blocks, _, overwritten = reader.since(0, 16384)
    assert overwritten == 0 and (np.diff(blocks["seq"].astype(np.int64)) == 1).all()
    apart = np.diff(blocks["t_ns"])
    began_anew = np.diff(blocks["epoch"].astype(np.int64)) != 0
    assert began_anew.sum() >= 2
    assert (began_anew == (apart > 1.5 * found.period_ns)).all()


def test_nothing_comes_after_stop_and_stop_may_be_called_twice(device: Callable[..., Device]) -> None:
    found = device()
    found.source.stop()  # also before anything was started
    found.source.start()
    assert len(found.read(1000 * MS)[0]) > 0
    for _ in range(2):
        found.source.stop()
        found.sleep(5 * MS)
        scans, _, lost = found.read(MS)
        assert len(scans) == 0 and lost == 0


def test_a_stopped_source_can_be_started_again(device: Callable[..., Device]) -> None:
    found = device()
    for _ in range(2):
        before = found.clock.now_ns()
        found.source.start()
        t_ns, gaps = found.read_for(0.02 + found.late_ns * 1e-9)
        assert gaps == [] and t_ns[0] >= before
        found.assert_steady(t_ns, gaps)
        found.source.stop()
