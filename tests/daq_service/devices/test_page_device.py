"""The page source: what is sent becomes what the sensors of a machine would read, as fast as a hand is."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
import zmq

from daq_service.devices import open_device
from daq_service.devices.contract import Device, Host
from daq_service.devices.page import Page, decoded
from sim_service.inputs import make_inputs
from sim_service.inputs.table import rows
from sync.config.config import load
from sync.config.hand_controls import hand_controls
from sync.errors import ConfigError
from sync.ring.block_values import put_integer
from sync.transport.message import MALFORMED
from sync.virtual_clock import virtual_clock
from tandem.live.supervisor.supervise import sweep
from tandem.machines.car.vehicle import VEHICLE_INPUTS
from tests.daq_service.conftest import CONFIGS, unique

MS = 1_000_000
_PATIENCE_MS = 60_000
PAGE = CONFIGS / "page.toml"
STRAIGHT = {"steering": 0.0, "throttle": 0.0, "brake": 0.0}


class Driven:
    """A page source at 1 kHz in virtual time, and whoever drives it over a real socket."""

    def __init__(self, *overrides: str, file: Path = PAGE):
        self.said: list[str] = []
        self.clock = virtual_clock(read_ns=0)
        config = load(file, [f"name={unique()}", *overrides])
        self.config = config
        self.source: Any = open_device(config, file, Host(say=self.said.append, clock=self.clock))
        names = [c.name for c in config.daq.channels]
        self.columns = [names.index(row.channels[0]) for row in config.inputs.values()]
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
        """Counts in the order of the rows of inputs, a row a scan; `hand` is sent over and over meanwhile."""
        rows = []
        scans, t_ns = np.zeros((4096, len(self.columns)), np.int64), np.zeros(4096, np.int64)
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

    def make(*arguments: str, **others: Any) -> Driven:
        made.append(Driven(*arguments, **others))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_before_anybody_drives_the_wheel_is_straight_and_the_brake_holds(driven: Callable[..., Driven]) -> None:
    found = driven().read_for(0.1)
    assert len(found) > 50
    assert (found == [0, 0, round(10.0 / 40.0 * 32767.0)]).all()


def test_what_is_sent_is_what_is_read_and_the_wheel_is_no_faster_than_a_hand(driven: Callable[..., Driven]) -> None:
    page = driven()
    found = page.read_for(0.6, {"steering": 90.0, "throttle": 0.5, "brake": 4.0})
    assert found[-1].tolist() == [500, 210, round(4.0 / 40.0 * 32767.0)]
    # 0.4 degrees a scan are a little more than two counts
    assert np.abs(np.diff(found[:, 0])).max() <= 3
    moving = np.flatnonzero(np.diff(found[:, 0]))
    assert 215 <= moving[-1] - moving[0] <= 235  # scans for 90 degrees at 400 a second
    assert page.said == ["somebody has the controls, from a page"]


def test_a_thread_that_stands_still_makes_no_wheel_faster_than_a_hand(driven: Callable[..., Driven]) -> None:
    page = driven()
    take = page.source._held.take

    def late(*arguments: Any) -> tuple[int, int]:
        page.clock.sleep_until(page.clock.now_ns() + 7 * MS)  # between the last value that was made and the scan
        found: tuple[int, int] = take(*arguments)
        return found

    page.source._held.take = late
    found = page.read_for(0.6, {"steering": 90.0, "throttle": 0.0, "brake": 0.0})
    assert found[-1][0] == 500 and np.abs(np.diff(found[:, 0])).max() <= 3


def test_beyond_what_a_car_has_is_cut(driven: Callable[..., Driven]) -> None:
    page = driven(
        *(f"source.controls.steering.{setting}" for setting in ("rate_per_s=2000.0", "least=-180.0", "most=180.0"))
    )
    found = page.read_for(0.4, {"steering": -1e6, "throttle": 7, "brake": 1e9})
    assert found[-1].tolist() == [-1000, 420, 32767]
    found = page.read_for(0.2, {"steering": -1e6, "throttle": -7, "brake": -1})
    assert found[-1].tolist() == [-1000, 0, 0]


def test_whoever_is_not_heard_any_more_has_let_go_until_heard_again(driven: Callable[..., Driven]) -> None:
    page = driven("source.let_go_ms=150.0", "source.controls.brake.at_rest=5.0")
    hand = {"steering": 18.0, "throttle": 1.0, "brake": 0.0}
    assert page.read_for(0.3, hand)[-1].tolist() == [100, 420, 0]  # never silent for so long
    light = round(5.0 / 40.0 * 32767.0)
    assert page.read_for(0.3)[-1].tolist() == [100, 0, light]  # the wheel is kept
    assert page.read_for(0.2, hand)[-1].tolist() == [100, 420, 0]
    assert page.source.counts()["let_go"] == 1
    assert [text.split(":")[0] for text in page.said] == [
        "somebody has the controls, from a page", "nobody has the controls", "somebody has the controls, from a page",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\xc1",
        b"x" * 300,
        msgpack.packb([1, 2, 3]),
        msgpack.packb({}),
        msgpack.packb({"steering": 0.0, "throttle": 0.0}),
        msgpack.packb({**STRAIGHT, "gear": 2}),
        msgpack.packb({**STRAIGHT, "throttle": float("nan")}),
        msgpack.packb({**STRAIGHT, "throttle": float("inf")}),
        msgpack.packb({**STRAIGHT, "throttle": True}),
        msgpack.packb({**STRAIGHT, "throttle": "full"}),
        msgpack.packb({**STRAIGHT, "brake": None}),
        msgpack.packb({**STRAIGHT, "brake": {"a": 1}}),
        msgpack.packb(STRAIGHT) + b"\0",
    ],
)
def test_what_is_no_message_is_counted_and_changes_nothing(driven: Callable[..., Driven], message: bytes) -> None:
    with pytest.raises(MALFORMED):
        decoded(message, STRAIGHT)
    page = driven()
    page.read_for(0.1, {"steering": 1.8, "throttle": 0.5, "brake": 0.0})
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
    config = load(PAGE, calibration)
    given: Any = config.inputs
    layout = config.daq.layout
    block = np.zeros(layout.words, np.int64)
    by_name = dict(zip(layout.names, layout.table, strict=True))
    for control, value in zip(hand_controls(config, PAGE).values(), hand, strict=True):
        assert not put_integer(block, by_name[control.channel], control.counts(value))
    inputs = np.zeros(len(VEHICLE_INPUTS))
    make_inputs(block, 0, 0.005, rows(given, layout, VEHICLE_INPUTS, 0.005, 0.001, 100.0), inputs)
    assert np.degrees(inputs[0]) == pytest.approx(hand[0], abs=0.5 * given["steering"].per_count + 1e-9)
    assert inputs[3] == pytest.approx(hand[1], abs=0.5 / abs(given["throttle"].full_counts) + 1e-9)
    step = given["brake"].full / abs(given["brake"].full_counts)
    assert inputs[4] == pytest.approx(hand[2], abs=0.5 * step + 1e-9)


@pytest.mark.parametrize(
    "override, said",
    [
        ("source.controls.clutch={}", r"source.controls.clutch: is no row of \[inputs\]; there is steering, throttle"),
        ("source.controls.brake.least=50.0", r"source.controls.brake: least = 50 must be below most = 40"),
        ("source.controls.brake.at_rest=41.0", r"source.controls.brake: at_rest = 41 must be from 0 to 40"),
        ("source.controls.brake.keys.I={to=-1.0}", r"source.controls.brake: I.to = -1 must be from 0 to 40"),
        ("source.controls.brake.keys.I={to=0.0, by=1.0}", r"controls.brake.keys.I: must be one of \{ to = VALUE"),
        ("source.controls.brake.keys.up={by=1.0}", r"source.controls.brake.keys.up"),
        ("source.controls.brake.rate_per_s=0.0", r"source.controls.brake.rate_per_s = 0.0: must be greater than 0"),
        ("source.controls.brake.most=400.0", r"controls.brake: at 400 the channel brake would be 327670; its type"),
        ("source.controls.brake.spring=true", r"source.controls.brake.spring = True: unknown key; did you mean"),
        ("source.let_go_brake_bar=10.0", r"source.let_go_brake_bar = 10.0: unknown key"),
    ],
)  # fmt: skip
def test_wrong_controls_are_refused_before_anything_starts(override: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        open_device(load(PAGE, [override]), PAGE)


@pytest.mark.parametrize(
    "override, said",
    [
        ("inputs.handle={kind='polynomial', channel='handle', coefficients=[1.0]}",
         r"inputs: a hand needs a row of kind affine or encoder that reads a channel; there is handle"),
        ("inputs.handle={kind='encoder', channel='handle', per_count=1e-4}",
         r"source.controls.handle: inputs.handle has no limits: give least and most"),
        ("inputs.other={kind='affine', channel='handle', full_counts=100.0}",
         r"source.controls.other: moves the channel handle, as handle does; leave one out"),
    ],
)  # fmt: skip
def test_rows_that_no_hand_can_move_are_refused(override: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        open_device(load(MASS_SPRING, ["source={kind='page'}", override]), MASS_SPRING)


# ---- a machine that is no car ----------------------------------------------------------------------------------------

MASS_SPRING = CONFIGS / "mass_spring.toml"
HANDLE = "source={kind='page', controls={handle={least=-0.05, most=0.05, rate_per_s=0.5, springs_back=%s}}}"


def test_without_any_control_every_row_is_moved_within_its_limits(driven: Callable[..., Driven]) -> None:
    page = driven("source={kind='page'}", file=MASS_SPRING)
    assert set(page.read_for(0.05)[:, 0].tolist()) == {0}
    assert page.read_for(0.05, {"handle": 0.02})[-1].tolist() == [400]  # at once
    assert page.read_for(0.05, {"handle": 7.0})[-1].tolist() == [2000]  # 0.1 m, as the row has it


@pytest.mark.parametrize("springs_back", [True, False])
def test_a_handle_keeps_to_its_rate_and_springs_back_or_stays(
    driven: Callable[..., Driven], springs_back: bool
) -> None:
    page = driven(HANDLE % str(springs_back).lower(), file=MASS_SPRING)
    found = page.read_for(0.3, {"handle": 1.0})[:, 0]
    assert found[-1] == 1000 and np.diff(found).max() <= 11  # 0.5 mm a scan are ten counts
    assert np.count_nonzero(np.diff(found)) == 100
    found = page.read_for(2.0)[:, 0]
    assert found[-1] == (0 if springs_back else 1000)
    assert page.said[-1] == f"nobody has the controls: handle {'to 0 m' if springs_back else 'stays'}"


def test_a_channel_that_no_control_moves_reads_as_nothing(driven: Callable[..., Driven]) -> None:
    page = driven("source={kind='page', controls={steering={}}}", "inputs.throttle.zero_counts=1200.0")
    assert page.read_for(0.05, {"steering": 18.0})[-1].tolist() == [100, 1200, 0]
    page.send(STRAIGHT)  # rows that no hand moves here
    page.arrived()
    page.read_for(0.01)
    assert page.source.counts()["malformed"] == 1


def test_its_socket_is_its_own_and_gone_after_it(driven: Callable[..., Driven]) -> None:
    page = driven()
    path = page.config.socket("hand")
    assert path.stat().st_mode & 0o777 == 0o600
    page.source.stop()
    assert not path.exists()
    path.touch()  # as one that was killed leaves it
    assert sweep(page.config) == [str(path)] and not path.exists()


def test_the_shipped_configuration_opens() -> None:
    source: Device = open_device(load(PAGE), PAGE)
    assert isinstance(source, Page)


def test_a_long_sleep_costs_no_more_than_the_buffer(driven: Callable[..., Driven]) -> None:
    page = driven("source.buffer_blocks=4")
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
