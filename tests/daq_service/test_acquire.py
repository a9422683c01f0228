"""Take all blocks available: a scripted source, a real ring, a real wire."""

import threading
import time
from collections.abc import Callable
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daq_service.acquire import MOST_BLOCKS, Acquisition
from daq_service.devices import open_device
from daq_service.devices.contract import Device, Host
from sync.clock import REAL, Clock, now_ns
from sync.config.config import Config
from sync.errors import DeviceError
from sync.ring.ring import RingReader, RingWriter
from sync.transport.wire import Publisher, Receiver, context
from sync.virtual_clock import virtual_clock
from tests.daq_service.conftest import DRIVE, Rings, Until, drive_config
from tests.examples import few
from tests.ports import free_port

BRAKE, THROTTLE, STEERING = range(3)  # columns of configs/drive.toml
PERIOD_NS = 1_000_000

Scan = tuple[int, int, int]
Read = tuple[list[Scan], int]  # what a read finds, and how many scans were lost before


class Scripted(Device):
    """A source that finds what the script says, read by read, and nothing after its end."""

    def __init__(self, script: list[Read], clock: Clock = REAL):
        self._clock = clock
        self._script = [(list(scans), lost) for scans, lost in script]
        self.t = 0
        self.starts = self.stops = 0
        self.over = threading.Event()

    def start(self) -> None:
        self.starts += 1
        self.t = self._clock.now_ns()

    def read(self, scans: np.ndarray, t_ns: np.ndarray, wait_ns: int) -> tuple[int, int]:
        if not self._script:
            self.over.set()
            self._clock.sleep_until(self._clock.now_ns() + wait_ns)
            return 0, 0
        found, lost = self._script.pop(0)
        if len(found) > len(scans):
            self._script.insert(0, (found[len(scans) :], 0))
        self.t += lost * PERIOD_NS
        count = min(len(found), len(scans))
        for row in range(count):
            self.t += PERIOD_NS
            scans[row] = found[row]
            t_ns[row] = self.t
        return count, lost

    def stop(self) -> None:
        self.stops += 1


class Desk:
    """An acquisition on a scripted source and a real ring."""

    def __init__(
        self,
        rings: Rings,
        script: list[Read],
        *overrides: str,
        wire: bool = False,
        clock: Clock = REAL,
    ):
        self.config: Config = drive_config(*overrides)
        self.source = Scripted(script, clock)
        self.writer, self.reader = rings.pair(self.config.daq.layout, self.config.daq.ring_blocks)
        self.context = context() if wire else None
        self.publisher = None
        if self.context is not None:
            self.publisher = Publisher(self.context, self.config.endpoint("daq"), self.config.daq.layout)
        self.acquisition = Acquisition(self.config, self.source, self.writer, self.publisher, clock=clock)
        self.count = self.acquisition.count

    def turns(self, number: int) -> np.ndarray:
        for _ in range(number):
            self.acquisition.turn()
        return self.blocks()

    def blocks(self) -> np.ndarray:
        blocks, _, lost = self.reader.since(0, 16384)
        assert lost == 0
        return blocks

    def close(self) -> None:
        if self.publisher is not None and self.context is not None:
            self.publisher.close()
            self.context.destroy(0)


@pytest.fixture
def desk(rings: Rings, request: pytest.FixtureRequest) -> Callable[..., Desk]:
    def make(script: list[Read], *overrides: str, wire: bool = False, clock: Clock = REAL) -> Desk:
        made = Desk(rings, script, *overrides, wire=wire, clock=clock)
        request.addfinalizer(made.close)
        return made

    return make


def ramp(first: int, count: int) -> list[Scan]:
    """Scans whose steering register rises by one a scan."""
    return [(0, 0, k % 65536) for k in range(first, first + count)]


# the ring


@st.composite
def scripts(draw: st.DrawFn) -> tuple[list[Read], list[Scan], list[int]]:
    """(what the reads find, the true counts of every scan, the number of the gap-free piece every scan is in)."""
    reads: list[Read] = []
    truth: list[Scan] = []
    pieces: list[int] = []
    piece, steering, throttle = 0, draw(st.integers(0, 65535)), draw(st.integers(0, 65535))
    for _ in range(draw(st.integers(1, 12))):
        lost = draw(st.sampled_from([0, 0, 0, 1, 3, 1000]))
        piece += lost > 0
        scans: list[Scan] = []
        for _ in range(draw(st.integers(0, 6))):
            steering += draw(st.integers(-9, 9))
            throttle += draw(st.integers(-400, 400))
            brake = draw(st.integers(-32768, 32767))
            scans.append((brake, throttle % 65536, steering % 65536))
            truth.append((brake, throttle, steering))
            pieces.append(piece)
        reads.append((scans, lost))
    return reads, truth, pieces


@settings(max_examples=few(60), deadline=None, derandomize=True)
@given(scripts())
def test_every_scan_becomes_one_block_in_order_and_every_loss_one_new_epoch(
    drive: tuple[list[Read], list[Scan], list[int]],
) -> None:
    script, truth, pieces = drive
    rings = Rings()
    try:
        desk = Desk(rings, script)
        desk.source.start()
        began, epoch = desk.source.t, desk.writer.epoch
        blocks = desk.turns(len(script))
    finally:
        rings.close()

    # whole, in order, counted from 0
    assert blocks["seq"].tolist() == list(range(len(truth)))
    assert blocks["brake"].tolist() == [brake for brake, _, _ in truth]
    first = truth[0] if truth else (0, 0, 0)
    assert blocks["throttle"].tolist() == [throttle - first[THROTTLE] for _, throttle, _ in truth]
    assert blocks["steering"].tolist() == [steering - first[STEERING] for _, _, steering in truth]

    # in time: a scan a period, the lost ones included
    scans_before = accumulate(lost + len(scans) for scans, lost in script)
    instants = [
        began + (end - len(scans) + 1 + k) * PERIOD_NS
        for end, (scans, _) in zip(scans_before, script, strict=True)
        for k in range(len(scans))
    ]
    assert blocks["t_ns"].tolist() == instants

    # an epoch for each gap, however many scans it cost
    assert blocks["epoch"].tolist() == [epoch + piece for piece in pieces]
    assert desk.writer.epoch == epoch + sum(lost > 0 for _, lost in script)

    # and the books
    assert desk.count.as_dict() == {
        "loops": len(script),
        "empty": sum(not scans for scans, _ in script),
        "blocks": len(truth),
        "bytes": 8 * len(truth),
        "lost": sum(lost for _, lost in script),
        "implausible": 0,
        "saturated": 0,
    }


def test_no_scan_is_a_normal_turn_and_no_block_is_invented(desk: Callable[..., Desk]) -> None:
    found = desk([([], 0), (ramp(0, 2), 0), ([], 0), ([], 0)], wire=True)
    assert len(found.turns(1)) == 0
    assert found.publisher.sent == found.publisher.repeated == 0  # nothing to repeat yet
    assert len(found.turns(3)) == 2
    assert (found.count.loops, found.count.empty, found.count.blocks) == (4, 3, 2)
    assert found.publisher.sent == 1


def test_writer_gives_a_sign_of_life_in_every_turn_also_an_empty_one(desk: Callable[..., Desk]) -> None:
    found = desk([([], 0), (ramp(0, 1), 0)])
    for _ in range(2):
        before = now_ns()
        found.acquisition.turn()
        assert found.reader.heartbeat_age_ns <= now_ns() - before


def test_backlog_longer_than_a_turn_is_taken_by_the_following_turns(desk: Callable[..., Desk]) -> None:
    found = desk([(ramp(0, MOST_BLOCKS + 10), 0)])
    assert len(found.turns(1)) == MOST_BLOCKS
    assert found.turns(1)["steering"].tolist() == list(range(MOST_BLOCKS + 10))
    assert found.count.bytes == 8 * (MOST_BLOCKS + 10)


def test_values_beyond_their_type_are_held_at_its_end_and_counted(desk: Callable[..., Desk]) -> None:
    scans = [(40_000, 0, 0), (-40_000, 0, 0), (32_767, 0, 0), (-32_768, 0, 0)]
    # the throttle counter is 16 bits wide, but its count goes on: 3 times 20000 no longer fit an int16
    scans += [(0, 20_000, 0), (0, 40_000, 0), (0, 60_000, 0)]
    found = desk([(scans, 0)])
    blocks = found.turns(1)
    assert blocks["brake"].tolist()[:4] == [32_767, -32_768, 32_767, -32_768]
    assert blocks["throttle"].tolist()[4:] == [20_000, 32_767, 32_767]
    assert found.count.saturated == 4


def test_implausible_moves_are_counted_and_applied(desk: Callable[..., Desk]) -> None:
    steering = [10, 19, 29, 0, 65_535]  # moves of 9, 10, -29, -1; 8000 counts/s at 1 kHz allow 9
    found = desk([([(0, 0, s) for s in steering], 0)])
    assert found.turns(1)["steering"].tolist() == [0, 9, 19, -10, -11]
    assert found.count.implausible == 2


def test_blocks_in_the_ring_were_never_on_the_wire(desk: Callable[..., Desk]) -> None:
    """`sent_ns` of a block is its own or 0: that of the block before it would be a lie."""
    found = desk([(ramp(0, 2), 0), (ramp(2, 3), 0)], wire=True)
    blocks = found.turns(2)
    assert blocks["sent_ns"].tolist() == [0] * 5
    assert blocks["received_ns"].tolist() == [0] * 5


def test_push_is_stamped_after_the_turn_began_and_in_order(desk: Callable[..., Desk]) -> None:
    before = now_ns()
    pushed = desk([(ramp(0, 50), 0)]).turns(1)["pushed_ns"]
    assert before <= pushed[0] and pushed[-1] <= now_ns()
    assert (np.diff(pushed) >= 0).all()


# newest


@settings(max_examples=few(30), deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=12), st.integers(0, 65535))
def test_last_block_of_a_batch_is_always_the_newest(batches: list[int], start: int) -> None:
    """The source's own check: on a monotonic steering ramp the block after a turn has the largest count yet."""
    rings = Rings()
    try:
        desk = Desk(rings, [(ramp(start + sum(batches[:k]), n), 0) for k, n in enumerate(batches)])
        for taken in accumulate(batches):
            desk.acquisition.turn()
            newest = desk.reader.newest()
            assert newest is None if taken == 0 else newest["steering"] == desk.blocks()["steering"].max() == taken - 1
    finally:
        rings.close()


def test_newest_block_rises_with_a_ramp_while_the_source_runs(
    rings: Rings, manoeuvre_file: Callable[[str], object]
) -> None:
    """The same with the clock running and a reader that looks after every turn."""
    path = manoeuvre_file("[steering_deg]\npoints = [[0, 0], [1, 180]]")
    config = drive_config("daq.rate_hz=5000", f'source.manoeuvre="{path}"')
    writer, reader = rings.pair(config.daq.layout)
    clock = virtual_clock(read_ns=0)
    acquisition = Acquisition(config, open_device(config, DRIVE, Host(clock=clock)), writer, None, clock=clock)
    seen: list[tuple[int, int]] = []
    end = clock.now_ns() + 400_000_000

    def look() -> bool:
        block = reader.newest()
        if block is not None:
            seen.append((int(block["seq"]), int(block["steering"])))
        return clock.now_ns() >= end

    acquisition.run(Until(look))  # type: ignore[arg-type]
    blocks, _, _ = reader.since(0, 16384)
    assert all(a <= b for a, b in pairwise(blocks["steering"].tolist()))
    assert all(a <= b for a, b in pairwise(seen))
    assert all(blocks["steering"][seq] == steering for seq, steering in seen)
    assert acquisition.count.blocks == writer.head == len(blocks)
    assert acquisition.count.lost == acquisition.count.implausible == acquisition.count.saturated == 0
    assert blocks["steering"][-1] > 50  # it did turn


# the wire


def _receive(desk: Desk, receiver: Receiver, reader: RingReader, seq: int) -> None:
    """Turns without scans until the block `seq` has arrived: what ZeroMQ drops in passing is repeated."""
    end = now_ns() + 60_000_000_000
    while receiver.ring.head == 0 or reader.newest()["seq"] != seq:
        receiver.receive()
        desk.acquisition.turn()
        assert now_ns() < end, f"block {seq} never arrived"


def test_only_the_newest_block_of_a_turn_is_published(desk: Callable[..., Desk], rings: Rings) -> None:
    batches = [1, 5, 1, 17, 3, 2]
    # the script ends after the first batch; the others are added one by one
    found = desk([(ramp(0, batches[0]), 0)], "daq.idle_repeat_ms=1", "daq.read_wait_ms=1", wire=True)
    received, reader = rings.pair(found.config.daq.layout)
    receiver = Receiver(found.context, found.config.endpoint("daq"), received)
    try:
        receiver.connect()
        done = 0
        for batch in batches:
            if done:
                found.source._script.append((ramp(done, batch), 0))
            found.acquisition.turn()
            done += batch
            _receive(found, receiver, reader, done - 1)
    finally:
        receiver.close()
    blocks, _, _ = reader.since(0)
    original = found.blocks()
    assert blocks["seq"].tolist() == [end - 1 for end in accumulate(batches)]
    for name in ("steering", "throttle", "brake", "epoch", "t_ns", "pushed_ns"):
        assert blocks[name].tolist() == original[name][blocks["seq"]].tolist()
    assert (blocks["sent_ns"] >= blocks["pushed_ns"]).all()
    assert (blocks["received_ns"] >= blocks["sent_ns"]).all()
    assert found.publisher.sent == len(batches)
    assert receiver.count()["superseded"] == sum(batches) - len(batches)


def test_newest_block_is_repeated_while_nothing_comes_and_no_oftener_than_asked(desk: Callable[..., Desk]) -> None:
    clock = virtual_clock(read_ns=0)
    found = desk([(ramp(0, 3), 0)], "daq.idle_repeat_ms=5", "daq.read_wait_ms=1", wire=True, clock=clock)
    began = clock.now_ns()
    while found.publisher.repeated < 5:
        found.acquisition.turn()
    assert found.publisher.sent == 1
    assert clock.now_ns() - began == 5 * 6_000_000  # the first turn of a millisecond after more than five
    assert found.count.blocks == 3 and found.writer.head == 3  # a repeat is no new block
    assert found.count.empty == found.count.loops - 1


def test_last_block_is_sent_again_as_a_farewell(desk: Callable[..., Desk], rings: Rings) -> None:
    """Also to a subscriber that heard nothing else: it comes when the last scan is long taken."""
    found = desk([(ramp(0, 4), 0), (ramp(4, 3), 0)], "daq.idle_repeat_ms=1000", wire=True)
    received, reader = rings.pair(found.config.daq.layout)
    receiver = Receiver(found.context, found.config.endpoint("daq"), received)
    stop = threading.Event()
    thread = threading.Thread(target=found.acquisition.run, args=(stop,))
    try:
        thread.start()
        assert found.source.over.wait(60)
        repeated = found.publisher.repeated
        receiver.connect()
        stop.set()
        thread.join(10)
        while receiver.receive():
            pass
    finally:
        stop.set()
        receiver.close()
    assert (found.source.starts, found.source.stops) == (1, 1)
    assert found.publisher.sent == 2
    assert found.publisher.repeated > repeated
    assert received.head == 1 and reader.newest()["seq"] == 6 and reader.newest()["steering"] == 6


def test_no_farewell_without_a_block(desk: Callable[..., Desk]) -> None:
    found = desk([], wire=True)
    stop = threading.Event()
    stop.set()
    found.acquisition.run(stop)
    assert found.publisher.sent == found.publisher.repeated == 0
    assert (found.source.starts, found.source.stops) == (1, 1)


def test_source_is_stopped_also_when_it_fails(rings: Rings) -> None:
    class Failing(Scripted):
        def read(self, scans: np.ndarray, t_ns: np.ndarray, wait_ns: int) -> tuple[int, int]:
            raise OSError("the cable is out")

    config = drive_config()
    writer: RingWriter = rings.pair(config.daq.layout)[0]
    source = Failing([])
    with pytest.raises(OSError, match="the cable is out"):
        Acquisition(config, source, writer, None).run(threading.Event())
    assert source.stops == 1


OTHER_CLOCKS = {
    "the time of day": (lambda t: time.time_ns(), "it is the time of day"),
    "nothing filled in": (lambda t: 0, "has left it as it was"),
    "its own since it was switched on": (lambda t: t - 3_600_000_000_000, "the clock of the device"),
    "the future": (lambda t: t + 5_000_000_000, "ahead of now"),
}


@pytest.mark.parametrize("instant,said", OTHER_CLOCKS.values(), ids=OTHER_CLOCKS)
def test_an_instant_of_another_clock_is_refused_and_not_an_age(
    rings: Rings, instant: Callable[[int], int], said: str
) -> None:
    class Elsewhere(Scripted):
        def read(self, scans: np.ndarray, t_ns: np.ndarray, wait_ns: int) -> tuple[int, int]:
            count, lost = super().read(scans, t_ns, wait_ns)
            t_ns[count - 1] = instant(int(t_ns[count - 1]))  # the last of three, the others are right
            return count, lost

    virtual = virtual_clock(start_ns=7_200_000_000_000)
    config = drive_config()
    writer: RingWriter = rings.pair(config.daq.layout)[0]
    acquisition = Acquisition(config, Elsewhere([([(1, 2, 3)] * 3, 0)], virtual), writer, None, clock=virtual)
    with pytest.raises(DeviceError, match=rf"source\.kind = 'virtual': .*{said}.*time\.monotonic_ns\(\)"):
        acquisition.run(threading.Event())
    assert writer.head == 0


@pytest.mark.parametrize("found", [(4097, 0), (-1, 0), (2, -1), None, 3, (1.0, 0), (1, None), (1, 2, 3)], ids=repr)
def test_what_read_must_not_return_is_refused_before_compiled_code_reads_it(rings: Rings, found: Any) -> None:
    """More scans than there is room for are rows of whatever lies behind it."""

    class Wrong(Scripted):
        def read(self, scans: np.ndarray, t_ns: np.ndarray, wait_ns: int) -> Any:
            t_ns[:] = self.t
            return found

    config = drive_config()
    writer: RingWriter = rings.pair(config.daq.layout)[0]
    acquisition = Acquisition(config, Wrong([]), writer, None)
    expected = f"source.kind = 'virtual': read() returned {found!r}; right are two integers, .* to len(scans) = 4096, "
    with pytest.raises(DeviceError, match=expected.replace("(", r"\(").replace(")", r"\)")):
        acquisition.run(threading.Event())
    assert writer.head == 0


@pytest.mark.parametrize("ring_blocks", [16, 16384])
def test_every_block_goes_out_in_order_where_somebody_asked(rings: Rings, ring_blocks: int) -> None:
    """Also of turns longer than the ring; and while nothing new comes the last one again, known as such."""
    config = drive_config(f"daq.ring_blocks={ring_blocks}", "daq.idle_repeat_ms=1")
    writer, _ = rings.pair(config.daq.layout, ring_blocks)
    received, reader = rings.pair(config.daq.layout)
    wire = context()
    endpoint = f"tcp://127.0.0.1:{free_port()}"
    every = Publisher(wire, endpoint, config.daq.layout, waiting=1000)
    receiver = Receiver(wire, endpoint, received, waiting=1000)
    try:
        source = Scripted([(ramp(0, 1), 0), *[([], 0)] * 100, (ramp(1, 100), 0), (ramp(101, 3), 5), ([], 0)])
        acquisition = Acquisition(config, source, writer, None, every)
        receiver.connect()
        deadline = time.monotonic() + 60
        while reader.head == 0:  # the first one is repeated until we are connected
            assert time.monotonic() < deadline
            acquisition.turn() if acquisition.count.loops < 90 else acquisition._repeat()
            receiver.receive()
        while not source.over.is_set():
            acquisition.turn()
        while reader.head < 104:
            assert time.monotonic() < deadline
            receiver.receive()
    finally:
        receiver.close()
        every.close()
        wire.destroy(0)
    blocks, _, _ = reader.since(0)
    assert blocks["steering"].tolist() == list(range(104))
    assert blocks["seq"].tolist() == list(range(104))
    assert (np.diff(blocks["epoch"].astype(np.int64)) != 0).nonzero()[0].tolist() == [100]
    assert every.sent == 104 and receiver.count()["superseded"] == 0
