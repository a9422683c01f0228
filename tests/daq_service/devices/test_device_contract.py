"""What every source promises (daq_service/devices/__init__.py), run against each of them.

A new source joins by a line in DEVICES: a function that opens it at a sampling rate, with a device buffer of so many
scans, and the device behind it, and returns the clock that both live by. The first columns are those of
configs/drive.toml. In virtual time a promise about time is checked to the nanosecond. What lives in real time, behind
sockets and threads, is waited for: it promises the same, but when its scans come no test can say.
"""

import importlib.util
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from daq_service.acquire import Acquisition
from daq_service.devices import open_device
from daq_service.devices.contract import Device, Host
from sync.clock import REAL, Clock, now_ns
from sync.virtual_clock import virtual_clock
from tests.daq_service.can_bus import open_can
from tests.daq_service.conftest import DRIVE, Rings, drive_config, recorded, replay_config, write_record
from tests.daq_service.nidaqmx_double_opener import open_nidaqmx
from tests.daq_service.origin import open_remote
from tests.daq_service.page_hand import open_page
from tests.daq_service.ros2_topics import open_ros2
from tests.daq_service.simulator_steps import open_simulator
from tests.daq_service.virtual_wheel import open_gamepad
from tests.sync.actors import PATIENCE_S

CHANNELS = 3
UNTOUCHED = -(2**60)  # no register reads this
MS = 1_000_000

Opener = Callable[[float, int], tuple[Device, Clock]]


def open_virtual(rate_hz: float, buffer_scans: int) -> tuple[Device, Clock]:
    config = drive_config(f"daq.rate_hz={rate_hz}", f"source.buffer_blocks={buffer_scans}")
    clock = virtual_clock(read_ns=0)
    return open_device(config, DRIVE, Host(clock=clock)), clock


def open_waves(rate_hz: float, buffer_scans: int) -> tuple[Device, Clock]:
    wave = "{wave='sine', hz=3.0, amplitude_counts=300.0}"
    channels = f"channels={{steering={wave}, throttle={wave}}}"
    config = drive_config(
        f"daq.rate_hz={rate_hz}", f"source={{kind='waves', buffer_blocks={buffer_scans}, {channels}}}"
    )
    clock = virtual_clock(read_ns=0)
    return open_device(config, DRIVE, Host(clock=clock)), clock


def open_haptic(rate_hz: float, buffer_scans: int) -> tuple[Device, Clock]:
    hand = "hand={motion={amplitude=0.004, hz=3.0}}"
    source = f"source={{kind='haptic', position='steering', buffer_blocks={buffer_scans}, friction=0.2, {hand}}}"
    clock = virtual_clock(read_ns=0)
    return open_device(drive_config(f"daq.rate_hz={rate_hz}", source), DRIVE, Host(clock=clock)), clock


def open_replay(rate_hz: float, buffer_scans: int) -> tuple[Device, Clock]:
    """A record of some seconds: longer than any of these tests listens."""
    with tempfile.TemporaryDirectory() as folder:
        write_record(Path(folder), recorded(rate_hz, max(round(min(3 * rate_hz, 15_000)), 3)))
        config = replay_config(folder, f"daq.rate_hz={rate_hz}", buffer=buffer_scans)
        clock = virtual_clock(read_ns=0)
        return open_device(config, DRIVE, Host(clock=clock)), clock


DEVICES: dict[str, Opener] = {
    "virtual": open_virtual,
    "waves": open_waves,
    "haptic": open_haptic,
    "replay": open_replay,
    "nidaqmx": open_nidaqmx,
    "can": open_can,
    "gamepad": open_gamepad,
    "remote": open_remote,
    "page": open_page,
    "simulator": open_simulator,
    **({"ros2": open_ros2} if importlib.util.find_spec("zenoh") else {}),
}
# sources whose device begins anew after an overrun: on a new beat, and with nothing of before
RESTARTING = {"nidaqmx"}
PATIENCE_NS = round(PATIENCE_S * 1e9)  # of real time: only something broken takes longer


class Device:
    """A source under test, and a buffer to read into."""

    def __init__(self, source: Device, clock: Clock, kind: str, rate_hz: float, most: int):
        self.source, self.clock, self.period_ns = source, clock, round(1e9 / rate_hz)
        self.virtual, self.restarts = clock is not REAL, kind in RESTARTING
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

    def first(self) -> tuple[np.ndarray, int]:
        """(instants, lost) of the first read that brings a scan: in virtual time, the first read."""
        end = now_ns() + PATIENCE_NS
        while True:
            _, t_ns, lost = self.read(1000 * MS)
            if len(t_ns):
                return t_ns, lost
            assert not self.virtual and now_ns() < end

    def gather(self, scans: int, gaps: int = 0, pause_ns: int = 0) -> tuple[np.ndarray, list[tuple[int, int]]]:
        """(instants of so many scans and more, a pair for every read that lost some: index of the first scan after
        them, how many); goes on until there were so many of these, too."""
        instants: list[int] = []
        found: list[tuple[int, int]] = []
        end = now_ns() + PATIENCE_NS
        while len(instants) < scans or len(found) < gaps:
            assert now_ns() < end, f"{len(instants)} scans, {len(found)} gaps"
            _, t_ns, lost = self.read()
            if lost:
                found.append((len(instants), lost))
            instants += t_ns.tolist()
            if pause_ns:
                self.sleep(pause_ns)
        return np.array(instants, np.int64), found

    def sleep(self, duration_ns: int) -> None:
        self.clock.sleep_until(self.clock.now_ns() + duration_ns)

    def assert_steady(self, t_ns: np.ndarray, gaps: list[tuple[int, int]]) -> None:
        """A period from scan to scan, and as many more as were lost between."""
        expected = np.full(len(t_ns), self.period_ns)
        allowed = np.zeros(len(t_ns), np.int64)
        for first, lost in gaps:
            if first < len(t_ns):
                expected[first] += lost * self.period_ns
                allowed[first] = self.restarts * self.period_ns
        away = np.abs(np.diff(t_ns) - expected[1:])
        assert (away <= allowed[1:]).all() and (np.diff(t_ns) > 0).all()


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest, patient_client: None) -> Iterator[Callable[..., Device]]:
    """Opens the source under test; stops it in the end."""
    opened: list[Device] = []

    def make(rate_hz: float = 1000.0, buffer_scans: int = 50_000, most: int = 4096) -> Device:
        source, clock = DEVICES[request.param](rate_hz, buffer_scans)
        opened.append(source)
        source.find()
        return Device(source, clock, request.param, rate_hz, most)

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
    t_ns, lost = found.first()
    assert lost == 0 and t_ns[0] >= before


@pytest.mark.slow
@pytest.mark.parametrize("rate_hz", [100.0, 1000.0, 10_000.0])
def test_instants_rise_with_the_configured_period(device: Callable[..., Device], rate_hz: float) -> None:
    found = device(rate_hz)
    found.source.start()
    before = found.clock.now_ns()
    t_ns, gaps = found.gather(round(0.2 * rate_hz))
    assert gaps == []
    found.assert_steady(t_ns, gaps)
    if found.virtual:  # there is one for every period of the clock
        assert t_ns[0] <= before + found.period_ns and t_ns[-1] > found.clock.now_ns() - found.period_ns


def test_no_scan_is_a_normal_answer(device: Callable[..., Device]) -> None:
    found = device(rate_hz=20.0)
    found.source.start()
    counts: list[int] = []
    end = now_ns() + PATIENCE_NS
    while not (0 in counts and sum(counts) > 0 and len(counts) >= 200):
        counts.append(len(found.read(MS)[0]))
        assert now_ns() < end


def test_read_waits_no_longer_than_asked(device: Callable[..., Device]) -> None:
    found = device(rate_hz=10.0)  # all reads together are shorter
    found.source.start()
    found.read(50 * MS)  # a device may sample at the very instant of its start
    for _ in range(9):
        began = found.clock.now_ns()
        scans, _, _ = found.read(5 * MS)
        if found.virtual:
            assert len(scans) == 0 and found.clock.now_ns() - began == 5 * MS


def test_read_returns_as_soon_as_there_is_a_scan(device: Callable[..., Device]) -> None:
    found = device(rate_hz=1000.0)
    found.source.start()
    began = found.clock.now_ns()
    for _ in range(10):
        assert len(found.read(PATIENCE_NS)[0]) > 0
    if found.virtual:  # some sources are asked for several at once
        assert found.clock.now_ns() - began <= 50 * MS


def test_a_read_takes_at_most_what_it_has_room_for_and_the_next_ones_the_rest(device: Callable[..., Device]) -> None:
    found = device(rate_hz=1000.0, most=16)
    found.source.start()
    found.sleep(100 * MS)
    if found.virtual:
        for _ in range(6):
            _, t_ns, lost = found.read()
            assert len(t_ns) == 16 and lost == 0
    t_ns, gaps = found.gather(96)
    assert gaps == []
    found.assert_steady(t_ns, [])


def test_a_read_takes_all_there_is(device: Callable[..., Device]) -> None:
    found = device(rate_hz=1000.0)
    found.source.start()
    found.sleep(50 * MS)
    asked = found.clock.now_ns()
    _, t_ns, _ = found.read()
    end = now_ns() + PATIENCE_NS
    while not found.virtual and len(t_ns) < 10:
        assert now_ns() < end
        found.sleep(50 * MS)
        _, t_ns, _ = found.read()
    if found.virtual:
        assert t_ns[-1] > asked - found.period_ns


def test_overrun_is_counted_and_time_goes_on(device: Callable[..., Device]) -> None:
    found = device(rate_hz=1000.0, buffer_scans=4)
    found.source.start()
    t_ns, gaps = found.gather(0, gaps=3, pause_ns=20 * MS)
    found.assert_steady(t_ns, gaps)
    # what is left of a long sleep is the newest, as much as the buffer holds
    kept, lost, end = np.zeros(0), 0, now_ns() + PATIENCE_NS
    while lost == 0:
        assert now_ns() < end
        found.sleep(20 * MS)
        asked = found.clock.now_ns()
        _, kept, lost = found.read()
        while found.restarts and len(kept) == 0:  # what is left is nothing; what comes is new, and says what was lost
            _, kept, lost = found.read()
        assert lost > 0 or not found.virtual
    if found.restarts:
        assert kept[0] > asked - found.period_ns
    elif found.virtual:
        assert len(kept) == 4 and kept[-1] > asked - found.period_ns


def test_a_gap_begins_a_new_epoch_and_nothing_else_does(device: Callable[..., Device], rings: Rings) -> None:
    """Through the acquisition, into a ring: what a simulator sees of it."""
    found = device(rate_hz=1000.0, buffer_scans=4)
    config = drive_config("daq.rate_hz=1000")
    writer, reader = rings.pair(config.daq.layout)
    acquisition = Acquisition(config, found.source, writer, None, clock=found.clock)
    found.source.start()
    gaps, end = 0, now_ns() + PATIENCE_NS
    while gaps < 2 or writer.head == 0:
        assert now_ns() < end
        lost, blocks = acquisition.count.lost, acquisition.count.blocks
        acquisition.turn()
        gaps += acquisition.count.lost > lost and blocks > 0
        found.sleep(20 * MS)
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
    found.first()
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
        t_ns, gaps = found.gather(20)
        assert gaps == [] and t_ns[0] >= before
        found.assert_steady(t_ns, gaps)
        found.source.stop()
