"""The page source: what is sent becomes what the sensors of such a car would read, as fast as a hand is."""

from collections.abc import Callable, Iterator
from typing import Any

import msgpack
import numpy as np
import pytest
import zmq

from daq_service.sources import Host, Source, open_source
from daq_service.sources.page import Page, counts, understood
from sim_service.inputs import make_inputs
from sim_service.inputs.table import rows
from sim_service.machines.car.vehicle import VEHICLE_INPUTS
from sync.block_values import put_integer
from sync.config import load
from sync.errors import ConfigError
from sync.message import MALFORMED
from sync.virtual_clock import virtual_clock
from tandem.supervise import sweep

from .conftest import CONFIGS, DRIVE, drive_config

MS = 1_000_000
_PATIENCE_MS = 60_000
STRAIGHT = {"steering_deg": 0.0, "throttle": 0.0, "brake_bar": 0.0}


class Driven:
    """A page source at 1 kHz in virtual time, and whoever drives it over a real socket."""

    def __init__(self, settings: str = "", *overrides: str):
        self.said: list[str] = []
        self.clock = virtual_clock(look_ns=0)
        config = drive_config(f"source={{kind='page'{settings}}}", *overrides)
        self.config = config
        self.source: Any = open_source(config, DRIVE, Host(say=self.said.append, clock=self.clock))
        self.columns = [[c.name for c in config.daq.channels].index(n) for n in ("steering", "throttle", "brake")]
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(zmq.PUSH)
        self._socket.set(zmq.LINGER, 0)
        self.source.start()
        self._socket.connect(f"ipc://{config.socket('hand')}")

    def send(self, message: Any) -> None:
        self._socket.send(message if isinstance(message, bytes) else msgpack.packb(message))

    def arrived(self) -> None:
        """Wait, in real time, until what was sent can be read; virtual time stands still meanwhile."""
        assert self.source._socket.poll(_PATIENCE_MS), "nothing came over the socket"

    def read_for(self, seconds: float, hand: Any = None) -> np.ndarray:
        """(steering, throttle, brake) in counts, a row a scan; `hand` is sent over and over meanwhile."""
        rows = []
        scans, t_ns = np.zeros((4096, 3), np.int64), np.zeros(4096, np.int64)
        end, due = self.clock.now_ns() + seconds * 1e9, 0
        while self.clock.now_ns() < end:
            if hand is not None and self.clock.now_ns() >= due:
                self.send(hand)
                self.arrived()
                due = self.clock.now_ns() + 20 * MS
            count, lost = self.source.read(scans, t_ns, 5 * MS)
            assert lost == 0
            rows.append(scans[:count][:, self.columns].copy())
        return np.concatenate(rows)

    def close(self) -> None:
        self.source.stop()
        self._socket.close()
        self._context.destroy(0)


@pytest.fixture
def driven() -> Iterator[Callable[..., Driven]]:
    made: list[Driven] = []

    def make(*arguments: str) -> Driven:
        made.append(Driven(*arguments))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_before_anybody_drives_the_wheel_is_straight_and_the_brake_holds(driven: Callable[..., Driven]) -> None:
    found = driven(", let_go_brake_bar=10.0").read_for(0.1)
    assert len(found) > 50
    assert (found == [0, 0, round(10.0 / 40.0 * 32767.0)]).all()


def test_what_is_sent_is_what_is_read_and_the_wheel_is_no_faster_than_a_hand(driven: Callable[..., Driven]) -> None:
    page = driven(", wheel_deg_per_s=400.0")
    found = page.read_for(0.6, {"steering_deg": 90.0, "throttle": 0.5, "brake_bar": 4.0})
    assert found[-1].tolist() == [500, 210, round(4.0 / 40.0 * 32767.0)]
    # 0.4 degrees a scan are a little more than two counts
    assert np.abs(np.diff(found[:, 0])).max() <= 3
    moving = np.flatnonzero(np.diff(found[:, 0]))
    assert 215 <= moving[-1] - moving[0] <= 235  # scans for 90 degrees at 400 a second
    assert page.said == ["somebody drives from a page"]


def test_beyond_what_a_car_has_is_cut(driven: Callable[..., Driven]) -> None:
    page = driven(", wheel_deg_per_s=2000.0, steering_limit_deg=180.0")
    found = page.read_for(0.4, {"steering_deg": -1e6, "throttle": 7, "brake_bar": 1e9})
    assert found[-1].tolist() == [-1000, 420, 32767]
    found = page.read_for(0.2, {"steering_deg": -1e6, "throttle": -7, "brake_bar": -1})
    assert found[-1].tolist() == [-1000, 0, 0]


def test_whoever_is_not_heard_any_more_has_let_go_until_heard_again(driven: Callable[..., Driven]) -> None:
    page = driven(", let_go_ms=150.0, let_go_brake_bar=5.0")
    hand = {"steering_deg": 18.0, "throttle": 1.0, "brake_bar": 0.0}
    assert page.read_for(0.3, hand)[-1].tolist() == [100, 420, 0]  # never silent for so long
    light = round(5.0 / 40.0 * 32767.0)
    assert page.read_for(0.3)[-1].tolist() == [100, 0, light]  # the wheel is kept
    assert page.read_for(0.2, hand)[-1].tolist() == [100, 420, 0]
    assert page.source.counts()["let_go"] == 1
    assert [text.split(":")[0] for text in page.said] == [
        "somebody drives from a page", "nobody drives", "somebody drives from a page",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\xc1",
        b"x" * 300,
        msgpack.packb([1, 2, 3]),
        msgpack.packb({}),
        msgpack.packb({"steering_deg": 0.0, "throttle": 0.0}),
        msgpack.packb({**STRAIGHT, "gear": 2}),
        msgpack.packb({**STRAIGHT, "throttle": float("nan")}),
        msgpack.packb({**STRAIGHT, "throttle": float("inf")}),
        msgpack.packb({**STRAIGHT, "throttle": True}),
        msgpack.packb({**STRAIGHT, "throttle": "full"}),
        msgpack.packb({**STRAIGHT, "brake_bar": None}),
        msgpack.packb({**STRAIGHT, "brake_bar": {"a": 1}}),
        msgpack.packb(STRAIGHT) + b"\0",
    ],
)
def test_what_is_no_message_is_counted_and_changes_nothing(driven: Callable[..., Driven], message: bytes) -> None:
    with pytest.raises(MALFORMED):
        understood(message)
    page = driven()
    page.read_for(0.1, {"steering_deg": 1.8, "throttle": 0.5, "brake_bar": 0.0})
    page.send(message)
    page.arrived()
    found = page.read_for(0.1)
    assert found[-1].tolist() == [10, 210, 0]
    assert page.source.counts()["malformed"] == 1
    assert page.source.counts()["messages"] >= 2


def test_a_flood_is_read_a_little_at_a_time(driven: Callable[..., Driven]) -> None:
    page = driven()
    for _ in range(60):
        page.send(STRAIGHT)
    while page.source.counts()["messages"] < 60:
        page.arrived()
        before = page.source.counts()["messages"]
        page.read_for(0.001)
        assert page.source.counts()["messages"] <= before + 2 * 16
    assert page.source.counts()["messages"] == 60


CALIBRATIONS = [
    [],
    ["inputs.steering.sign=-1", "inputs.steering.zero_counts=37.5", "inputs.steering.per_count=0.09"],
    ["inputs.throttle.full_counts=-900.0", "inputs.throttle.zero_counts=1200.0"],
    ["inputs.brake.full_counts=-3000.0", "inputs.brake.zero_counts=-40.0", "inputs.brake.full=60.0"],
]


@pytest.mark.parametrize("calibration", CALIBRATIONS)
@pytest.mark.parametrize("hand", [(0.0, 0.0, 0.0), (123.0, 0.25, 7.5), (-480.0, 1.0, 40.0)])
def test_counts_are_the_inverse_of_the_rows(calibration: list[str], hand: tuple[float, float, float]) -> None:
    config = drive_config()
    given: Any = load(DRIVE, calibration).inputs
    layout = config.daq.layout
    block = np.zeros(layout.words, np.int64)
    by_name = dict(zip(layout.names, layout.table, strict=True))
    for name, value in counts(given, *hand).items():
        assert not put_integer(block, by_name[name], value)
    inputs = np.zeros(6)
    make_inputs(block, 0, 0.005, rows(given, layout, VEHICLE_INPUTS, 0.005, 0.001, 100.0), inputs)
    assert np.degrees(inputs[0]) == pytest.approx(hand[0], abs=0.5 * given["steering"].per_count + 1e-9)
    assert inputs[3] == pytest.approx(hand[1], abs=0.5 / abs(given["throttle"].full_counts) + 1e-9)
    step = given["brake"].full / abs(given["brake"].full_counts)
    assert inputs[4] == pytest.approx(hand[2], abs=0.5 * step + 1e-9)


def test_a_page_without_its_rows_is_refused_before_it_starts() -> None:
    with pytest.raises(ConfigError, match="affine with unit = 'bar' for the channel brake"):
        open_source(load(CONFIGS / "page.toml", ["inputs.brake.unit=Pa"]), CONFIGS / "page.toml")


def test_its_socket_is_its_own_and_gone_after_it(driven: Callable[..., Driven]) -> None:
    page = driven()
    path = page.config.socket("hand")
    assert path.stat().st_mode & 0o777 == 0o600
    page.source.stop()
    assert not path.exists()
    path.touch()  # as one that was killed leaves it
    assert sweep(page.config) == [str(path)] and not path.exists()


def test_the_shipped_configuration_opens() -> None:
    file = CONFIGS / "page.toml"
    source: Source = open_source(load(file), file)
    assert isinstance(source, Page)
    with pytest.raises(ConfigError, match="wheel_deg_per_s"):
        open_source(load(file, ["source.wheel_deg_per_s=0"]), file)


def test_a_long_sleep_costs_no_more_than_the_buffer(driven: Callable[..., Driven]) -> None:
    page = driven(", buffer_blocks=4")
    page.clock.sleep_until(page.clock.now_ns() + 100 * MS)
    scans, t_ns = np.zeros((64, 3), np.int64), np.zeros(64, np.int64)
    count, lost = page.source.read(scans, t_ns, 0)
    assert count == 4 and lost >= 90


def test_without_a_socket_a_read_waits_as_long_as_it_may(driven: Callable[..., Driven]) -> None:
    page = driven()
    page.source.stop()
    began = page.clock.now_ns()
    assert page.source.read(np.zeros((8, 3), np.int64), np.zeros(8, np.int64), 20_000_000) == (0, 0)
    assert page.clock.now_ns() - began == 20_000_000
