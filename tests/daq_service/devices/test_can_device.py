"""The can source on python-can's virtual bus: what is sent is what arrives, and nothing on a bus can end a run."""

import gzip
import itertools
import re
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import can
import cantools
import numpy as np
import pytest
from cantools.database.conversion import BaseConversion
from hypothesis import example, given, settings
from hypothesis import strategies as st

from daq_service.acquire import Acquisition
from daq_service.devices import can as can_source
from daq_service.devices import open_device, require
from daq_service.devices.can import CanDevice
from daq_service.devices.can_log import Player
from daq_service.devices.contract import Host
from daq_service.devices.dbc import Frame, bits, calibration, disagrees
from sim_service.inputs import oldest
from sim_service.inputs.table import rows as input_rows
from sync.config.config import load
from sync.config.extras import install_extra
from sync.config.input_rows import Affine, Encoder
from sync.errors import ConfigError, DeviceError
from sync.virtual_clock import virtual_clock
from tandem.machines.car.vehicle import VEHICLE_INPUTS
from tests.daq_service.can_bus import (
    BRAKE,
    CAN,
    EXAMPLE,
    MS,
    STEERING,
    THROTTLE,
    Car,
    Pluggable,
    can_config,
    encode,
    open_can_device,
)
from tests.daq_service.conftest import Rings, unique
from tests.examples import few

COLUMNS = {c.name: k for k, c in enumerate(load(CAN).daq.channels)}
NO_AGES = 'daq.channels=[{name="brake",type="i2"},{name="throttle",type="i2"},{name="steering",type="i4"}]'


MAPPED = (
    f"signals={{steering={{signal='{STEERING}.SteeringWheelAngle'}},"
    f" throttle={{signal='{THROTTLE}.ThrottlePosition'}}, brake={{signal='{BRAKE}.MasterPressure'}}}}"
)


class Bench:
    """A source that has been started, the car it listens to, and what it said."""

    def __init__(self, *overrides: str, **options: Any):
        self.channel = unique()
        self.said: list[str] = []
        self.config = can_config(self.channel, *overrides)
        self.clock = virtual_clock(read_ns=0)
        source = open_device(self.config, CAN, Host(say=self.said.append, clock=self.clock))
        assert isinstance(source, CanDevice)
        self.source = source
        self.car = Car(self.channel, self.clock, **options)
        self.driven = False  # a burst at every look
        self._scans = np.zeros((4096, len(self.config.daq.channels)), np.int64)
        self._t_ns = np.zeros(4096, np.int64)
        self.lost = 0
        source.find()
        source.start()

    def read(self, seconds: float = 0.02) -> list[dict[str, int]]:
        """All scans of this time, with their instants as t."""
        end = self.clock.now_ns() + round(seconds * 1e9)
        rows: list[dict[str, int]] = []
        while self.clock.now_ns() < end:
            if self.driven:
                self.car.burst()
            count, lost = self.source.read(self._scans, self._t_ns, 2 * MS)
            self.lost += lost
            for row, t in zip(self._scans[:count].tolist(), self._t_ns[:count].tolist(), strict=True):
                rows.append(dict(zip(self.config.daq.layout.names, row, strict=True)) | {"t": t})
        return rows

    def until(self, there: Callable[[list[dict[str, int]]], bool]) -> list[dict[str, int]]:
        rows: list[dict[str, int]] = []
        end = self.clock.now_ns() + 60_000 * MS
        while not there(rows):
            assert self.clock.now_ns() < end, (self.said, self.source.counts(), rows[-1:])
            rows += self.read(0.005)
        return rows

    def close(self) -> None:
        self.source.stop()
        self.car.close()


@pytest.fixture
def bench(request: pytest.FixtureRequest) -> Callable[..., Bench]:
    def make(*overrides: str, **options: Any) -> Bench:
        made = Bench(*overrides, **options)
        request.addfinalizer(made.close)
        return made

    return make


@pytest.fixture
def pluggable(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Pluggable]]:
    """In place of the kernel's CAN."""
    monkeypatch.setitem(can.interfaces.BACKENDS, "socketcan", (Pluggable.__module__, "Pluggable"))
    yield Pluggable
    Pluggable.unplugged.clear()


# the bits of a frame


@st.composite
def signals_in_frames(draw: st.DrawFn) -> tuple[Any, bytes]:
    """A message with one signal anywhere in it, and data."""
    size = draw(st.integers(1, 64))
    length = draw(st.integers(1, min(32, 8 * size)))
    first = draw(st.integers(0, 8 * size - length))  # of its bits, in the order of its byte order
    big = draw(st.booleans())
    signal = cantools.database.can.Signal(
        name="s",
        start=8 * (first // 8) + 7 - first % 8 if big else first,
        length=length,
        byte_order="big_endian" if big else "little_endian",
        is_signed=draw(st.booleans()),
        conversion=BaseConversion.factory(0.5, 3),
    )
    message = cantools.database.can.Message(frame_id=1, name="m", length=size, signals=[signal])
    return message, draw(st.binary(min_size=size, max_size=size))


@settings(max_examples=few(200), deadline=None, derandomize=True)
@given(signals_in_frames())
def test_raw_values_are_those_that_cantools_reads(message_and_data: tuple[Any, bytes]) -> None:
    message, data = message_and_data
    frame = Frame((message.length, message.length), ((0, bits(message, "s"), frozenset()),))
    assert frame.read(data) == [(0, message.decode(data, scaling=False, decode_choices=False)["s"])]


@settings(max_examples=few(200), deadline=None, derandomize=True)
@given(st.sampled_from(EXAMPLE.messages), st.data())
def test_every_signal_of_the_example_is_read_where_it_is_and_not_read_where_it_is_not(message: Any, d: Any) -> None:
    data = d.draw(st.binary(min_size=message.length, max_size=message.length))
    frame = Frame(
        (message.length, message.length),
        tuple((k, bits(message, s.name), frozenset()) for k, s in enumerate(message.signals)),
    )
    found = {message.signals[k].name: value for k, value in frame.read(data) or []}
    try:
        assert found == message.decode(data, scaling=False, decode_choices=False)
    except cantools.database.errors.DecodeError:  # a page that the DBC does not have: what is on every page is there
        assert found == {"Page": data[0] & 15, "Ignition": data[0] >> 4 & 3}


# through the bus


def test_blocks_carry_raw_values_with_their_ages_through_the_ring(rings: Rings) -> None:
    """A bus of 100 Hz, blocks of 1 kHz: ten blocks share a value, and say when it came."""
    config = can_config(channel := unique(), "daq.rate_hz=1000")
    clock = virtual_clock(read_ns=100)
    source = open_device(config, CAN, Host(clock=clock))
    source.find()
    writer, reader = rings.pair(config.daq.layout, config.daq.ring_blocks)
    acquisition = Acquisition(config, source, writer, None, clock=clock)
    source.start()
    car = Car(channel, clock)
    sent = []
    for k in range(40):
        car.raw = (-32767 + 1000 * k, 10 * k, 4095 - k)
        sent.append((clock.now_ns(), *car.raw))
        car.burst()
        while clock.now_ns() < sent[-1][0] + 10 * MS:
            acquisition.turn()
    source.stop()
    car.close()
    blocks, _, lost = reader.since(0, 16384)
    assert lost == 0 and acquisition.count.lost == 0 and acquisition.count.saturated == 0 and len(blocks) > 390
    assert (np.diff(blocks["t_ns"]) == MS).all() and (blocks["epoch"] == blocks["epoch"][0]).all()
    shown = set()
    for block in blocks:
        # each value was sent when its age says, to the rounding of a microsecond and of a stamp in float seconds
        for place, name in enumerate(("steering", "throttle", "brake"), 1):
            read_ns = int(block["t_ns"]) - 1000 * int(block[f"{name}_age_us"])
            row = next(row for row in sent if row[place] == block[name])
            assert abs(row[0] - read_ns) < 2000
        shown.add(int(block["steering"]))
    assert shown == {row[1] for row in sent}


@settings(max_examples=few(60), deadline=None, derandomize=True)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([0x100, 0x110, 0x120, 0x120, 0x101, 0x18FF4234, 0x7FF, 0]),
            st.booleans(),  # extended
            st.one_of(st.sampled_from([8, 8, 8, 4, 4]), st.integers(0, 8), st.sampled_from([12, 64])),
            st.sampled_from(["data", "data", "data", "data", "remote", "error"]),
            st.binary(min_size=64, max_size=64),
            st.sampled_from([None, None, 0.0, -1.0, float("nan"), float("inf"), 1e300, 4e9]),
        ),
        max_size=12,
    )
)
@example([])
def test_no_frame_ends_the_run_or_makes_a_wrong_scan(frames: list[tuple[Any, ...]]) -> None:
    """Whatever is on the bus, a scan has the last value of a frame that is what the DBC says."""
    bench = Bench()
    try:
        truth = {"steering": 1, "throttle": 2, "brake": 3}
        bench.car.raw = (1, 2, 3)
        for message in (
            encode(STEERING, SteeringWheelAngle=1),
            encode(THROTTLE, ThrottlePosition=2),
            encode(BRAKE, MasterPressure=3),
        ):
            bench.car.send(message)
        bench.until(bool)
        malformed = invalid = errors = 0
        wanted = {
            (0x100, False): ("steering", STEERING, "SteeringWheelAngle"),
            (0x110, False): ("throttle", THROTTLE, "ThrottlePosition"),
            (0x120, False): ("brake", BRAKE, "MasterPressure"),
        }
        for id_, extended, length, kind, data, stamp in frames:
            message = can.Message(
                timestamp=bench.clock.wall_ns() * 1e-9 if stamp is None else stamp,
                arbitration_id=id_,
                is_extended_id=extended or id_ > 0x7FF,
                is_remote_frame=kind == "remote",
                is_error_frame=kind == "error",
                is_fd=length > 8 and kind == "data",
                dlc=min(length, 8) if kind == "remote" else length,
                data=None if kind == "remote" else data[:length],
            )
            bench.car.bus.send(message)
            bench.read(0.001)  # one at a time: stamps that cannot be true are replaced by when they were read
            errors += kind == "error"
            place = wanted.get((id_, message.is_extended_id))
            if place is None or kind != "data":
                continue
            name, message_name, signal = place
            known = EXAMPLE.get_message_by_name(message_name)
            if length != known.length:
                malformed += 1
                continue
            value = known.decode(data[:length], scaling=False, decode_choices=False)[signal]
            if name == "steering" and value == -32768:
                invalid += 1
            else:
                truth[name] = value
        settled = bench.clock.now_ns()
        last = bench.until(lambda rows: bool(rows) and rows[-1]["t"] > settled)[-1]
        assert {name: last[name] for name in truth} == truth
        counts = bench.source.counts()
        assert (counts["malformed"], counts["invalid"], counts["error_frames"]) == (malformed, invalid, errors)
        assert bench.lost == 0 and counts["bus_errors"] == 0
    finally:
        bench.close()


def test_extended_ids_pages_and_frames_padded_by_can_fd(bench: Callable[..., Bench], tmp_path: Path) -> None:
    """The brake from a page of a multiplexed message with an extended id; the throttle from a long frame."""
    dbc = tmp_path / "long.dbc"
    text = (CAN.parent / "can" / "example.dbc").read_text()
    long = 'BO_ 273 LONG: 22 ENGINE\n SG_ Far : 167|10@0+ (0.1,0) [0|100] "%" DAQ\n\n'
    dbc.write_text(text.replace("BO_ 288 ", long + "BO_ 288 ", 1))
    desk = bench(
        f"source.dbc='{dbc}'",
        "source.signals.brake.signal='BODY_Pages.RearPressure'",
        "source.signals.throttle.signal='LONG.Far'",
        "source.signals.steering.signal='EPS_AngleMotorola.SteeringWheelAngle'",
        "source.fd=true",
    )
    car = desk.car
    car.send(encode("EPS_AngleMotorola", SteeringWheelAngle=-777))
    data = bytearray(24)  # 22 are padded to 24
    data[20:22] = (513 << 6).to_bytes(2, "big")
    car.send(can.Message(arbitration_id=273, is_extended_id=False, is_fd=True, data=data))
    pages = EXAMPLE.get_message_by_name("BODY_Pages")
    for page in ({"Page": 0, "OutsideTemperature": 9}, {"Page": 1, "BatteryVoltage": 8}):
        sent = pages.encode({"Ignition": 0, **page}, scaling=False)
        car.send(can.Message(arbitration_id=pages.frame_id, is_extended_id=True, data=sent))
    assert desk.read(0.03) == []  # no page with the brake yet
    car.send(can.Message(arbitration_id=pages.frame_id, is_extended_id=True, data=[2, 0x34, 0x02, 0, 0, 0, 0, 0]))
    car.send(can.Message(arbitration_id=pages.frame_id, is_extended_id=True, data=[9, 0xFF, 0xFF, 0, 0, 0, 0, 0]))
    last = desk.until(bool)[-1]
    assert (last["steering"], last["throttle"], last["brake"]) == (-777, 513, 0x234)
    assert desk.source.counts()["malformed"] == 0


# stamps


def test_stamps_are_believed_unless_they_cannot_be_true(bench: Callable[..., Bench]) -> None:
    desk = bench()
    began = desk.clock.now_ns()
    wall = desk.clock.wall_ns() * 1e-9

    def send(message: can.Message, stamp: float) -> None:
        message.timestamp = stamp
        desk.car.bus.send(message)

    send(encode(STEERING, SteeringWheelAngle=1), wall)
    send(encode(BRAKE, MasterPressure=1), wall)
    send(encode(THROTTLE, ThrottlePosition=1), wall)
    first = desk.until(bool)[0]
    read_ns = first["t"] - 1000 * first["steering_age_us"]
    assert abs(read_ns - began) < 2000 and desk.source.counts()["undated"] == 0
    for number, stamp in enumerate((0.0, wall - 3600.0, wall + 3600.0), 2):
        sent = desk.clock.now_ns()
        send(encode(STEERING, SteeringWheelAngle=number), stamp)
        row = desk.until(lambda rows, n=number: bool(rows) and rows[-1]["steering"] == n)[-1]  # type: ignore[misc]
        assert row["t"] - 1000 * row["steering_age_us"] >= sent
        assert desk.source.counts()["undated"] == number - 1
    assert len([text for text in desk.said if "time stamps" in text]) == 1


# signals that no longer come


def test_a_signal_that_stops_is_said_once_and_its_age_grows(bench: Callable[..., Bench]) -> None:
    desk = bench("source.signals.steering.stale_ms=60", "source.stale_ms=5000")
    desk.car.raw = (5, 6, 7)
    desk.car.burst()
    desk.until(bool)
    rows: list[dict[str, int]] = []
    while not (rows and rows[-1]["steering_age_us"] > 150_000):  # the others go on
        desk.car.send(encode(THROTTLE, ThrottlePosition=6))
        desk.car.send(encode(BRAKE, MasterPressure=7))
        rows += desk.read(0.005)
    assert desk.said == ["steering: no frame for 60 ms"] and desk.source.counts()["stale"] == 1
    assert desk.lost == 0 and rows[-1]["steering"] == 5 and rows[-1]["throttle_age_us"] <= 7000
    # what the simulator makes of it
    layout = desk.config.daq.layout
    block = np.zeros(1, layout.dtype)
    for name in layout.names:
        block[name] = rows[-1][name]
    table = input_rows(desk.config.inputs, layout, VEHICLE_INPUTS, 5e-3, 1e-3, 100.0)
    assert oldest(block.view(np.int64), table) == (0, 1000 * rows[-1]["steering_age_us"])
    assert rows[-1]["steering_age_us"] > desk.config.sim.stale_after_ms * 1e3
    desk.car.steer(8)
    desk.until(lambda rows: bool(rows) and rows[-1]["steering"] == 8)
    assert desk.said[1:] == ["steering: there again"] and desk.lost == 0


def test_without_a_channel_for_its_age_blocks_stop_with_the_signal(bench: Callable[..., Bench]) -> None:
    desk = bench(NO_AGES, "source.signals.steering.stale_ms=60", "source.stale_ms=5000")
    desk.car.burst()
    desk.until(bool)
    desk.until(lambda _: len(desk.said) > 0)
    assert "no blocks until it is back" in desk.said[0] and "steering_age_us" in desk.said[0]
    assert desk.read(0.03) == []
    desk.car.steer(9)
    rows = desk.until(bool)
    assert rows[0]["steering"] == 9 and desk.lost >= 20 and desk.said[1:] == ["steering: there again"]


def test_a_value_that_says_there_is_none_is_none(bench: Callable[..., Bench]) -> None:
    desk = bench("source.signals.steering.stale_ms=60", "source.stale_ms=5000")
    desk.car.burst()
    desk.until(bool)
    desk.car.steer(-32768)
    desk.until(lambda _: len(desk.said) > 0)
    assert desk.read()[-1]["steering"] == 0 and desk.source.counts()["invalid"] == 1


# a bus that fails


def test_a_bus_that_is_gone_is_tried_again_and_comes_back_as_a_gap(
    bench: Callable[..., Bench], pluggable: type[Pluggable]
) -> None:
    desk = bench("source.interface=socketcan")
    # what is asked of the kernel: our frames, and no others
    ours = {(0x100, False), (0x110, False), (0x120, False)}
    probe = can.Bus(interface="virtual", channel=unique(), can_filters=pluggable.filters_asked)
    for id_, extended in itertools.product(range(0, 0x800, 16), (False, True)):
        passes = probe._matches_filters(can.Message(arbitration_id=id_, is_extended_id=extended))
        assert passes == ((id_, extended) in ours)
    probe.shutdown()
    desk.driven = True
    before = desk.until(bool)
    pluggable.unplugged.add(desk.channel)
    gone = desk.clock.now_ns()
    before += desk.until(lambda _: len(desk.said) > 0)
    assert "socketcan" in desk.said[0] and desk.channel in desk.said[0]
    assert f"ip link set {desk.channel} up type can bitrate 500000" in desk.said[0]
    while desk.source.counts()["bus_errors"] < 3 or desk.clock.now_ns() < gone + 200 * MS:  # it is tried now and then
        assert desk.clock.now_ns() < gone + 10_000 * MS and desk.read(0.02) == []
    assert desk.source.counts()["bus_errors"] <= 2 + (desk.clock.now_ns() - gone) // (100 * MS)
    pluggable.unplugged.clear()
    after = desk.until(bool)
    away = (after[0]["t"] - before[-1]["t"]) // MS
    assert desk.lost == away - 1 >= 100 and after[0]["t"] > gone
    # nothing of before the gap is in what comes after
    assert all(row["t"] - 1000 * row["steering_age_us"] > gone for row in after)
    assert desk.source.counts()["reconnects"] == 1 and len(desk.said) == 2 and "again" in desk.said[1]


def test_bus_off_is_said_with_what_helps(bench: Callable[..., Bench], pluggable: type[Pluggable]) -> None:
    desk = bench("source.interface=socketcan")
    desk.car.burst()
    desk.until(bool)
    desk.car.send(can.Message(arbitration_id=0x40, is_extended_id=False, is_error_frame=True, data=bytes(8)))
    desk.until(lambda _: len(desk.said) > 0)
    assert "bus-off" in desk.said[0] and "restart-ms" in desk.said[0]
    desk.driven = True
    desk.until(bool)
    assert desk.lost >= 1 and desk.source.counts()["error_frames"] == 1


# a log in place of the bus


@pytest.mark.parametrize("suffix", ["log", "asc", "blf"])
def test_a_log_plays_in_its_own_time(suffix: str, tmp_path: Path) -> None:
    file = tmp_path / f"drive.{suffix}"
    with can.Logger(str(file)) as log:
        for k in range(30):
            messages = (
                encode(STEERING, SteeringWheelAngle=k),
                encode(THROTTLE, ThrottlePosition=2 * k),
                encode(BRAKE, MasterPressure=3 * k),
                can.Message(arbitration_id=0x333, is_extended_id=False, data=[k]),
            )
            for message in messages:
                message.timestamp = 1_700_000_000.0 + 0.01 * k
                log.on_message_received(message)
    clock = virtual_clock(read_ns=100)
    config = load(CAN, [f"source={{kind='can', replay='{file}', lead_ms=0, dbc='can/example.dbc', {MAPPED}}}"])
    source = open_device(config, CAN, Host(clock=clock))
    assert source.seconds == pytest.approx(0.29, abs=1e-3)  # type: ignore[attr-defined]
    source.find()
    scans, t_ns = np.zeros((4096, len(COLUMNS)), np.int64), np.zeros(4096, np.int64)
    began = clock.now_ns()
    source.start()
    seen: dict[int, int] = {}  # steering, when it was read
    while len(seen) < 30:
        assert clock.now_ns() - began < 1000 * MS
        count, lost = source.read(scans, t_ns, 5 * MS)
        assert lost == 0
        for row, t in zip(scans[:count].tolist(), t_ns[:count].tolist(), strict=True):
            steering = row[COLUMNS["steering"]]
            assert (row[COLUMNS["throttle"]], row[COLUMNS["brake"]]) == (2 * steering, 3 * steering)
            seen.setdefault(steering, t - 1000 * row[COLUMNS["steering_age_us"]])
    source.stop()
    assert list(seen) == list(range(30))
    assert all(abs(seen[k] - seen[0] - 10 * MS * k) < MS for k in seen)


def test_before_a_log_its_first_frames_are_sent_until_a_simulator_has_found_its_rhythm() -> None:
    log = [encode(STEERING, SteeringWheelAngle=k) for k in range(4)] + [encode(THROTTLE, ThrottlePosition=9)]
    for k, message in enumerate(log):
        message.timestamp = 50.0 + 0.01 * k
    now = [1000 * MS]
    player = Player(log, lambda: now[0], 100 * MS)
    heard = []
    for _ in range(200):
        while (message := player.recv(0)) is not None:
            heard.append((round(message.timestamp * 1e3) - 1000, message.arbitration_id, bytes(message.data)))
        now[0] += MS
    first = [log[0], log[4]]
    assert sorted(heard[:20]) == sorted((10 * k, m.arbitration_id, bytes(m.data)) for k in range(10) for m in first)
    assert heard[20:] == [(100 + 10 * k, m.arbitration_id, bytes(m.data)) for k, m in enumerate(log)]  # all of it


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # python-can leaves a broken one open
def test_a_log_that_unpacks_to_more_than_is_allowed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "bomb.log"
    log.write_bytes(b"(0.000000) can1 123#00\n" * 20_000)
    monkeypatch.setenv("TANDEM_DECODE_LIMIT_MB", "1")
    with pytest.raises(ConfigError, match=r"source\.replay: .*bomb\.log: its frames would take"):
        open_can_device("can1", f"source.replay='{log}'")


def test_a_log_that_unpacks_to_lines_without_end_or_holds_queries_is_not_opened(tmp_path: Path) -> None:
    packed = tmp_path / "bomb.log.gz"
    packed.write_bytes(gzip.compress(b"\n" * 1_000_000))
    with pytest.raises(ConfigError, match=r"bomb\.log\.gz: cannot be read: must be one of .*unpack it first"):
        open_can_device("can1", f"source.replay='{packed}'")
    endless = tmp_path / "endless.db"
    with closing(sqlite3.connect(endless)) as database:
        database.execute(
            "CREATE VIEW messages AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)"
            " SELECT x, x, 0, 0, 0, 0, 0, x FROM n WHERE x < 0"
        )
    with pytest.raises(ConfigError, match=r"endless\.db: cannot be read: must be one of \.asc, \.blf, \.csv, \.log"):
        open_can_device("can1", f"source.replay='{endless}'")


def test_a_log_without_our_frames_or_not_of_our_bus_is_a_wrong_setting(tmp_path: Path) -> None:
    file = tmp_path / "other.log"
    with can.Logger(str(file)) as log:
        log.on_message_received(can.Message(timestamp=1.0, arbitration_id=1, data=[1], channel="vcan3"))
    with pytest.raises(ConfigError, match=r"source\.replay: .*none of our frames.*'vcan3'"):
        open_can_device("can0", f"source.replay='{file}'")
    two = tmp_path / "two.log"
    with can.Logger(str(two)) as log:
        for bus, value in (("can0", 5), ("can1", 7)):
            message = encode(STEERING, SteeringWheelAngle=value)
            message.timestamp, message.channel = 1.0, bus
            log.on_message_received(message)
    with pytest.raises(ConfigError, match=r"source\.channel = 'can2', the log has 'can0', 'can1'"):
        open_can_device("can2", f"source.replay='{two}'")
    open_can_device("can1", f"source.replay='{two}'")
    (broken := tmp_path / "broken.blf").write_bytes(b"no log")
    for wrong in ("nothing.asc", str(broken), "drive.toml"):
        with pytest.raises(ConfigError, match=r"source\.replay: .*(no such file|cannot be read)"):
            open_can_device("can0", f"source.replay='{wrong}'")


# what is said before anything starts


def test_an_interface_that_is_not_there_is_named_with_what_would_bring_it_up(pluggable: type[Pluggable]) -> None:
    pluggable.unplugged.add("can7")
    with pytest.raises(DeviceError, match=r"socketcan can7: .*No such device.*`ip -br link`") as error:
        open_can_device("can7", "source.interface=socketcan").find()
    assert error.value.code == 7


def test_the_kernels_own_can_is_missing_or_down_or_not_there() -> None:
    with pytest.raises(DeviceError, match=r"socketcan nocan0: .*(modprobe|ip )"):
        open_can_device("nocan0", "source.interface=socketcan").find()


@pytest.mark.parametrize("package", ["can", "cantools"])
def test_a_missing_package_is_named_with_how_to_install_it(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(DeviceError, match=re.escape(install_extra("can"))):
        require(can_config("x"), CAN)


WRONG = {
    "source.interface=sockcan": r"source\.interface = 'sockcan': unknown; did you mean .*socketcan",
    "source.dbc='can/exmple.dbc'": r"source\.dbc: .*exmple\.dbc: no such file; beside it: example\.dbc",
    "source.dbc='can.toml'": r"source\.dbc: .*can\.toml: cannot be read",
    "source.signals.brake.signal='BRAKE_Pressure.Master'": r"no message BRAKE_Pressure; did you mean BRAKES_Pressure",
    "source.signals.brake.signal='X.MasterPressure'": r"no message X; did you mean BRAKES_Pressure\.MasterPressure\?",
    "source.signals.brake.signal='BRAKES_Pressure.MasterPresure'": r"no signal MasterPresure; did you mean Master",
    "source.signals.brake.signal='MasterPressure'": r"source\.signals\.brake\.signal = 'MasterPressure'",
    f"source={{kind='can', interface='virtual', dbc='x.dbc', {MAPPED}}}": r"source: interface and channel must be",
    "source.signals.brke.signal='A.B'": r"source\.signals\.brke: daq\.channels has none .*did you mean brake\?",
    "source.signals={}": r"source\.signals\.brake: is missing",
    "source.signals.steering.invalid=['SNB']": r"steering\.invalid = 'SNB': no value of .*did you mean SNA\?",
    "source.signals.brake.stale_ms=0.0": r"stale_ms = 0\.0: must be greater than 0",
    "source.chanel='can0'": r"source\.chanel = 'can0': unknown key; did you mean channel\?",
    NO_AGES.replace('"i4"', '"u2"'): r"steering\.type = 'u2': .* 16 bits, signed: must be i2 or i4",
    NO_AGES.replace('"i4"', '"i4",counter_bits=12'): r"steering\.counter_bits = 12: .* has 16 bits",
}


@pytest.mark.parametrize("override", WRONG)
def test_what_is_wrong_is_said_with_what_would_be_right(override: str) -> None:
    with pytest.raises(ConfigError, match=WRONG[override]) as error:
        open_can_device("x", override)
    assert str(CAN) in str(error.value)


def test_an_option_that_cannot_be_one_is_a_wrong_setting() -> None:
    with pytest.raises(ConfigError, match=r"source\.options: interface 'virtual'"):
        open_can_device("x", "source.options={channel='y'}").find()


def test_shipped_calibration_is_that_of_the_shipped_dbc() -> None:
    said: list[str] = []
    open_can_device("x", host=Host(say=said.append)).find()
    assert said == []


@pytest.mark.parametrize(
    "override, expected",
    [
        ("inputs.steering.per_count=0.18", "inputs.steering.per_count = 0.1, zero_counts = 0 (it has"),
        ("inputs.throttle.full_counts=420.0", "inputs.throttle.full_counts = 1000, zero_counts = 0 (it has 420"),
        ("inputs.brake.full=60.0", "inputs.brake.full_counts = 1200, zero_counts = 100 (it has 800, 100"),
        ("inputs.brake.zero_counts=0.0", "inputs.brake.full_counts = 800, zero_counts = 100 (it has 800, 0"),
    ],
)  # fmt: skip
def test_a_calibration_that_is_not_the_dbcs_is_said(override: str, expected: str) -> None:
    said: list[str] = []
    open_can_device("x", override, host=Host(say=said.append)).find()
    assert len(said) == 1 and expected in said[0]


def test_a_factor_below_zero_turns_the_sign(tmp_path: Path) -> None:
    text = (CAN.parent / "can" / "example.dbc").read_text()
    (tmp_path / "turned.dbc").write_text(text.replace("(0.1,0) [-3276.7", "(-0.1,0) [-3276.7"))
    said: list[str] = []
    turned = f"source.dbc='{tmp_path / 'turned.dbc'}'"
    open_can_device("x", turned, "inputs.steering.sign=1", host=Host(say=said.append)).find()
    assert len(said) == 1 and "sign = -1" in said[0]
    open_can_device("x", turned, "inputs.steering.sign=-1", host=Host(say=said.append)).find()
    assert len(said) == 1


def test_a_log_of_one_instant_ends(tmp_path: Path) -> None:
    file = tmp_path / "one.log"
    with can.Logger(str(file)) as log:
        message = encode(STEERING, SteeringWheelAngle=1)
        message.timestamp = 1.0
        log.on_message_received(message)
    clock = virtual_clock(read_ns=100)
    config = load(CAN, [f"source={{kind='can', replay='{file}', dbc='can/example.dbc', {MAPPED}}}"])
    source = open_device(config, CAN, Host(clock=clock))
    assert source.seconds > 0  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("sound", "huge", "expected"),
    [
        ("7|16@0-", "4000000000|16@0-", "a signal at bit 4000000000 with 16 bits: at most 14280"),
        ("7|16@0-", f"7 | 1{'0' * 5000} @0-", "with 10000000000000000000... bits"),
        ("EPS_AngleMotorola: 4", "EPS_AngleMotorola: 400000000", "a frame of 400000000 bytes: at most 1785"),
    ],
)
def test_places_beyond_any_frame_are_refused_before_room_is_made_for_them(
    sound: str, huge: str, expected: str, tmp_path: Path
) -> None:
    text = (CAN.parent / "can" / "example.dbc").read_text()
    assert sound in text
    (tmp_path / "huge.dbc").write_text(text.replace(sound, huge, 1))
    with pytest.raises(ConfigError, match=f"huge.dbc: cannot be read: .*{expected}"):
        open_can_device(unique(), f"source.dbc='{tmp_path / 'huge.dbc'}'")


NUMBERS = st.one_of(st.integers(-(10**400), 10**400), st.floats())


@given(st.sampled_from(["steering", "throttle", "brake"]), NUMBERS, NUMBERS, st.sampled_from(["deg", "%", "bar", "?"]))
@example("steering", 1e-320, 0, "rad")
@example("throttle", 1e-320, 0, "%")
@example("brake", 1, 10**400, "bar")
def test_whatever_numbers_a_dbc_holds_they_say_something_or_nothing(
    channel: str, scale: float, offset: float, unit: str
) -> None:
    row = load(CAN).inputs[channel]
    assert isinstance(row, Affine | Encoder)
    found = calibration(row, SimpleNamespace(scale=scale, offset=offset, unit=unit))
    assert np.isfinite(list(found.values())).all()
    disagrees(found, row)


def test_a_calibrated_zero_is_no_disagreement() -> None:
    said: list[str] = []
    open_can_device("x", "inputs.steering.zero_counts=-31.5", host=Host(say=said.append)).find()
    assert said == []


def test_buses_are_listed_by_the_kernel_and_without_any_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """python-can asks `ip`, and logs a traceback where there is none."""
    for name, kind, flags in (("can0", 280, "0x40081"), ("can1", 280, "0x40080"), ("eth0", 1, "0x1003")):
        (tmp_path / "net" / name).mkdir(parents=True)
        (tmp_path / "net" / name / "type").write_text(f"{kind}\n")
        (tmp_path / "net" / name / "flags").write_text(f"{flags}\n")
    (tmp_path / "net" / "bonding_masters").write_text("")
    monkeypatch.setattr(can_source, "_NETWORK", tmp_path / "net")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert can_source.devices() == ["socketcan can0"]  # can1 is down
    assert caplog.text == ""
