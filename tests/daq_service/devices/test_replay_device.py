"""The replay source: a record plays as the driver, with its values, its rhythm and its gaps."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from daq_service.acquire import Acquisition
from daq_service.devices import open_device
from daq_service.devices.contract import Device, Host
from sync.clock import VirtualClock
from sync.errors import ConfigError
from sync.record import RunError
from sync.ring.block import Channel, Layout
from sync.virtual_clock import virtual_clock
from tests.daq_service.conftest import DRIVE, Rings, Until, drive_config, recorded, replay_config, write_record

MS = 1_000_000
LAYOUT = drive_config().daq.layout
CHANNELS = ("brake", "throttle", "steering")

Play = Callable[..., Device]


@pytest.fixture
def clock() -> VirtualClock:
    return virtual_clock(read_ns=0)


@pytest.fixture
def opened(tmp_path: Path, request: pytest.FixtureRequest, clock: VirtualClock) -> Play:
    """Records blocks and opens them as a source, in virtual time."""

    def make(words: np.ndarray, topic: str = "/daq", **options: bool | int) -> Device:
        folder = tmp_path / f"run{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        config = replay_config(write_record(folder, words, topic=topic), **options)
        source = open_device(config, DRIVE, Host(clock=clock))
        request.addfinalizer(source.stop)
        return source

    return make


def played(source: Device, seconds: float) -> tuple[np.ndarray, np.ndarray, list[tuple[int, int]]]:
    """(scans, instants, a pair for every read that lost: index of the first scan after it, how many)."""
    scans, t_ns = np.zeros((4096, len(CHANNELS)), np.int64), np.zeros(4096, np.int64)
    found: list[np.ndarray] = []
    instants: list[int] = []
    gaps: list[tuple[int, int]] = []
    clock: VirtualClock = source._clock  # type: ignore[attr-defined]
    end = clock.now_ns() + round(seconds * 1e9)
    while clock.now_ns() < end:
        count, lost = source.read(scans, t_ns, 5 * MS)
        if lost:
            gaps.append((len(instants), lost))
        found += list(scans[:count].copy())
        instants += t_ns[:count].tolist()
    return np.array(found), np.array(instants), gaps


def raw(words: np.ndarray) -> np.ndarray:
    blocks = LAYOUT.view(words)
    return np.stack([blocks[name].astype(np.int64) for name in CHANNELS], axis=1)


def restless(n: int, seed: int = 1) -> np.ndarray:
    """Instants that tremble, values that jump over all of their range."""
    random = np.random.default_rng(seed)
    words = recorded(1000.0, n)
    blocks = LAYOUT.view(words)
    blocks["t_ns"] += random.integers(-10_000, 10_000, n)
    blocks["brake"] = random.integers(-(2**15), 2**15, n)
    blocks["throttle"] = random.integers(-(2**15), 2**15, n)
    blocks["steering"] = random.integers(-(2**31), 2**31, n)
    return words


@pytest.mark.parametrize("topic", ["/daq", "/received"])
def test_values_and_relative_instants_are_those_of_the_record(opened: Play, clock: VirtualClock, topic: str) -> None:
    words = restless(200)
    source = opened(words, topic)
    began = clock.now_ns()
    source.start()
    scans, t_ns, gaps = played(source, 0.4)
    assert gaps == []
    assert (scans == raw(words)).all()
    assert (np.diff(t_ns) == np.diff(LAYOUT.view(words)["t_ns"])).all()
    assert t_ns[0] - began == MS


def test_nothing_comes_before_as_much_time_has_passed_as_on_board(opened: Play, clock: VirtualClock) -> None:
    """The reads of the contract suite check that no scan is from the future; here, that all come."""
    words = recorded(1000.0, 100)
    source = opened(words)
    began = clock.now_ns()
    source.start()
    clock.sleep_until(clock.now_ns() + 50 * MS)
    scans, t_ns = np.zeros((4096, 3), np.int64), np.zeros(4096, np.int64)
    count, lost = source.read(scans, t_ns, MS)
    assert count == (clock.now_ns() - began) // MS == 50 and lost == 0


def test_after_the_last_block_nothing_more_comes(opened: Play, clock: VirtualClock) -> None:
    source = opened(recorded(1000.0, 20))
    assert source.seconds == pytest.approx(0.020)  # type: ignore[attr-defined]
    source.start()
    scans, _, gaps = played(source, 0.2)
    assert len(scans) == 20 and gaps == []
    began = clock.now_ns()
    assert source.read(np.zeros((8, 3), np.int64), np.zeros(8, np.int64), 20 * MS) == (0, 0)
    assert clock.now_ns() - began == 20 * MS  # it waits, as it does for a scan that may still come


def test_again_begins_anew_after_a_gap_and_again(opened: Play) -> None:
    words = restless(50)
    source = opened(words, again=True)
    assert source.seconds is None  # type: ignore[attr-defined]
    source.start()
    scans, t_ns, gaps = played(source, 0.25)
    rounds = len(scans) // 50
    assert rounds >= 3
    assert (scans[: 50 * rounds] == np.tile(raw(words), (rounds, 1))).all()
    assert gaps == [(50 * k, 1) for k in range(1, len(gaps) + 1)] and len(gaps) >= rounds - 1
    relative = LAYOUT.view(words)["t_ns"] - LAYOUT.view(words)["t_ns"][0]
    for k in range(rounds):
        mine = t_ns[50 * k : 50 * k + 50]
        assert (mine - mine[0] == relative).all()
    assert (np.diff(t_ns[::50]) == relative[-1] + 2 * MS).all()  # one scan is missing between two rounds


def test_started_again_it_plays_from_the_beginning(opened: Play) -> None:
    words = recorded(1000.0, 100)
    source = opened(words)
    for _ in range(2):
        source.start()
        scans, _, _ = played(source, 0.08)
        assert len(scans) > 0 and (scans == raw(words)[: len(scans)]).all()
        source.stop()


def test_gaps_of_the_record_are_gaps_again(opened: Play) -> None:
    """A new epoch with a pause, one without, and blocks that the recorder lost."""
    words = recorded(1000.0, 120)
    blocks = LAYOUT.view(words)
    blocks["epoch"][30:] += 1
    blocks["t_ns"][30:] += 20 * MS
    blocks["epoch"][60:] += 1
    words = np.delete(words, slice(90, 95), axis=0)
    source = opened(words)
    source.start()
    scans, t_ns, gaps = played(source, 0.4)
    assert gaps == [(30, 20), (60, 1), (90, 5)]
    assert (scans == raw(words)).all()
    assert (np.diff(t_ns) == np.diff(LAYOUT.view(words)["t_ns"])).all()


def test_a_gap_that_was_slept_through_counts_with_the_rest(opened: Play, clock: VirtualClock) -> None:
    """What the device's buffer could not hold, and what the record has not: all of it is time without scans."""
    words = recorded(1000.0, 600)
    blocks = LAYOUT.view(words)
    blocks["epoch"][150:] += 1
    blocks["t_ns"][150:] += 30 * MS
    source = opened(words, buffer=4)
    source.start()
    _, before, _ = played(source, 0.05)
    clock.sleep_until(clock.now_ns() + 200 * MS)
    _, after, gaps = played(source, 0.05)
    assert gaps[0][0] == 0 and gaps[0][1] > 30
    assert after[0] - before[-1] == (1 + gaps[0][1]) * MS


def test_through_the_acquisition_values_stay_and_gaps_bump_the_epoch(
    opened: Play, rings: Rings, clock: VirtualClock
) -> None:
    """Counters of a record are running counts already: however they jump, they are taken as they are."""
    words = restless(150)
    blocks = LAYOUT.view(words)
    blocks["epoch"][50:] += 1
    blocks["t_ns"][50:] += 10 * MS
    blocks["epoch"][100:] += 41
    writer, reader = rings.pair(LAYOUT)
    acquisition = Acquisition(drive_config(), opened(words), writer, None, clock=clock)
    acquisition.run(Until(lambda: writer.head == 150 or clock.now_ns() > 10**13))  # type: ignore[arg-type]
    found, _, lost = reader.since(0)
    assert lost == 0 and len(found) == 150
    for name in CHANNELS:
        assert (found[name] == blocks[name]).all()
    assert (np.diff(found["t_ns"]) == np.diff(blocks["t_ns"])).all()
    changes = np.flatnonzero(np.diff(found["epoch"].astype(np.int64))) + 1
    assert changes.tolist() == [50, 100]
    assert found["seq"].tolist() == list(range(150))
    assert (acquisition.count.blocks, acquisition.count.implausible, acquisition.count.saturated) == (150, 0, 0)
    assert acquisition.count.lost == 10 + 1


# ---- what cannot be played -------------------------------------------------------------------------------------------


def refused(folder: Path, said: str, *overrides: str) -> None:
    with pytest.raises(ConfigError, match=said):
        open_device(replay_config(folder, *overrides), DRIVE)


def test_a_channel_that_the_record_has_not_is_named(tmp_path: Path) -> None:
    layout = Layout((Channel("brake", "i2", "count"), Channel("clutch", "i2", "count")))
    write_record(tmp_path, np.zeros((1, layout.words), np.int64), layout)
    refused(tmp_path, r"drive\.toml: daq\.channels: throttle: not in .*run\.mcap, which has brake, clutch")


def test_another_unit_is_refused(tmp_path: Path) -> None:
    layout = Layout((*LAYOUT.channels[:2], Channel("steering", "i4", "deg")))
    write_record(tmp_path, recorded(1000.0, 3), layout)
    refused(tmp_path, r"steering\.unit = 'count': .*run\.mcap has it in 'deg'")


@pytest.mark.parametrize("rate_hz", [500.0, 980.0, 1020.0, 2000.0])
def test_another_rate_is_refused(tmp_path: Path, rate_hz: float) -> None:
    write_record(tmp_path, recorded(1000.0, 50))
    refused(tmp_path, rf"daq\.rate_hz = {rate_hz:g}: .*run\.mcap was sampled at 1000 Hz", f"daq.rate_hz={rate_hz}")


def test_instants_that_go_back_are_refused(tmp_path: Path) -> None:
    words = recorded(1000.0, 50)
    LAYOUT.view(words)["t_ns"][20] -= 5 * MS
    write_record(tmp_path, words)
    refused(tmp_path, r"run\.mcap: its sample instants go back in time")


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    for path, said in ((tmp_path / "nowhere", "nowhere: no such run"), (tmp_path, r"holds no run\.mcap")):
        with pytest.raises(RunError, match=said):
            open_device(replay_config(path), DRIVE)
    write_record(tmp_path, np.zeros((0, LAYOUT.words), np.int64))
    with pytest.raises(RunError, match="holds no /received messages; it has none"):
        open_device(replay_config(tmp_path), DRIVE)


def test_a_record_of_one_block_is_played(opened: Play) -> None:
    source = opened(recorded(1000.0, 1))
    source.start()
    scans, _, gaps = played(source, 0.08)
    assert len(scans) == 1 and gaps == []


def test_a_relative_path_is_one_beside_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    write_record(tmp_path / "run", recorded(1000.0, 3))
    source = open_device(replay_config("run"), tmp_path / "drive.toml")
    assert source.seconds == pytest.approx(0.003)  # type: ignore[attr-defined]
