"""The nidaqmx source against the double: NI's own client, a real socket, a device that does what real ones do."""

import itertools
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from daq_service.acquire import Acquisition
from daq_service.devices import nidaqmx, open_device
from daq_service.devices.contract import Host
from daq_service.devices.nidaqmx import NiDevice
from daq_service.devices.nidaqmx_driver import ACTIONS, Action
from daq_service.devices.nidaqmx_settings import Settings
from sync.config.config import Config
from sync.config.extras import install_extra
from sync.errors import ConfigError, DeviceError
from tests.daq_service.conftest import Rings
from tests.daq_service.nidaqmx_double_opener import (
    ONBOARD,
    double,
    four_config,
    handle_config,
    onboard_config,
    open_ni,
    shared_clock,
)
from tests.daqmx_double.device import INDEX_STEPS, analog_index
from tests.daqmx_double.handle import Double
from tests.ports import free_port
from tests.sync.actors import PATIENCE_S

MS = 1_000_000
CODES = {what: [code for code, action in ACTIONS.items() if action is what] for what in Action}
FORCE = "source.effort={gain=1.0, limit=5.0, slew=1000.0, ao='ao1', channel='steering_torque'}"
READS = itertools.cycle(["ReadAnalogF64", "ReadCounterU32Ex", "GetReadAttributeUInt32"])


class Desk:
    """A source on the double, and everything it said and delivered."""

    def __init__(
        self, *overrides: str, bits: int = 32, machine: Callable[..., Config] = onboard_config, **configured: Any
    ):
        self.double = double(**{"start_us": 50.0, "counter_bits": bits, **configured})
        self.said: list[str] = []
        self.mask = (1 << bits) - 1
        config = machine(self.double.server, *overrides, bits=bits)
        wiring = config.source["channels"]
        self.wiring = [(wiring[c.name]["input"], wiring[c.name].get("full_counts", 32767)) for c in config.daq.channels]
        self.clock = shared_clock()
        self.source: NiDevice = open_ni(config, Host(say=self.said.append, clock=self.clock))
        self._scans, self._t_ns = np.zeros((4096, len(self.wiring)), np.int64), np.zeros(4096, np.int64)
        self.rows: list[list[int]] = []
        self.t_ns: list[int] = []
        self.gaps: list[tuple[int, int]] = []  # index of the first scan after it, how many were lost

    def begin(self) -> "Desk":
        self.source.find()
        self.source.start()
        return self

    def read(self, wait_ns: int = 5 * MS) -> int:
        count, lost = self.source.read(self._scans, self._t_ns, wait_ns)
        if lost:
            self.gaps.append((len(self.rows), lost))
        self.rows += self._scans[:count].tolist()
        self.t_ns += self._t_ns[:count].tolist()
        return count

    def take(self, more: int) -> None:
        """Read until there are so many more scans."""
        wanted, end = len(self.rows) + more, time.monotonic() + PATIENCE_S
        while len(self.rows) < wanted:
            assert time.monotonic() < end, f"{len(self.rows)} scans; said: {self.said}"
            self.read()

    def sleep(self, duration_ns: int) -> None:
        self.clock.sleep_until(self.clock.now_ns() + duration_ns)

    def tell(self, do: str, **what: Any) -> Any:
        return self.double.tell(do, **what)

    def assert_one_edge(self) -> None:
        """Every channel of a scan tells the same number of a sample; the counters go on across gaps."""
        rows = np.array(self.rows)
        first = [0, *(index for index, _ in self.gaps), len(rows)]
        for column, (source, full) in enumerate(self.wiring):
            base, place = 0, int(source.lstrip("aictr"))
            for a, b in itertools.pairwise(first):
                k = np.arange(b - a)
                if source.startswith("ai"):
                    assert (rows[a:b, column] == np.rint(analog_index(place, k) * (full / 32767))).all()
                else:
                    assert (rows[a:b, column] == ((base + INDEX_STEPS[place] * k) & self.mask)).all()
                base = rows[b - 1, column]
        assert (np.diff(self.t_ns) > 0).all() and self.t_ns[-1] <= self.clock.now_ns()
        assert self.tell("state")["refused"] == []


@pytest.fixture
def desk(patient_client: None) -> Iterator[Callable[..., Desk]]:
    made: list[Desk] = []

    def make(*overrides: str, **configured: Any) -> Desk:
        made.append(Desk(*overrides, **configured))
        return made[-1]

    yield make
    for one in made:
        one.source.stop()
        assert one.tell("state")["tasks"] == []  # it has let go


Make = Callable[..., Desk]


# ---- the table -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how, samples", [("status", 2), ("status", 0), ("metadata", 0)])
@pytest.mark.parametrize("call, channel", [("ReadAnalogF64", "ai0"), ("ReadCounterU32Ex", "ctr1")])
def test_a_timeout_keeps_what_was_read(desk: Make, call: str, channel: str, how: str, samples: int) -> None:
    run = desk().begin()
    run.take(20)
    run.tell("provoke", call=call, channel=channel, code=-200284, how=how, samples=samples)
    run.take(40)
    assert run.tell("state")["waiting"] == 0
    assert run.gaps == [] and run.said == []
    run.assert_one_edge()


def test_samples_that_a_server_counts_but_keeps_are_a_gap_and_no_shift(desk: Make) -> None:
    for call in ("ReadAnalogF64", "ReadCounterU32Ex"):
        run = desk().begin()
        run.take(20)
        run.tell("provoke", call=call, code=-200284, how="metadata", samples=3)
        run.take(40)
        assert len(run.gaps) == 1 and run.source.counts()["overruns"] == 1
        run.assert_one_edge()
        run.source.stop()


@pytest.mark.parametrize("code", CODES[Action.RESTART])
def test_an_overrun_restarts_all_tasks(desk: Make, code: int) -> None:
    run = desk().begin()
    run.take(20)
    run.tell("provoke", call=next(READS), code=code)
    run.tell("provoke", call="StopTask", code=code)  # a task that ended with an error says so again when it is stopped
    run.take(20)
    assert len(run.gaps) == 1 and run.gaps[0][1] >= 1
    assert run.tell("state")["starts"] == 2
    assert run.source.counts()["overruns"] == 1
    assert len(run.said) == 1 and str(code) in run.said[0]
    run.assert_one_edge()


def test_a_reader_that_sleeps_too_long_loses_scans_and_knows_how_many(desk: Make) -> None:
    run = desk("source.buffer_s=0.05").begin()
    run.take(20)
    run.sleep(200 * MS)
    run.take(20)
    ((first, lost),) = run.gaps
    assert lost == pytest.approx((run.t_ns[first] - run.t_ns[first - 1]) / MS - 1, abs=1)
    assert lost == pytest.approx(200, abs=2)
    run.assert_one_edge()


@pytest.mark.parametrize("code", CODES[Action.RATE])
def test_a_rate_too_high_is_an_error_of_the_configuration(desk: Make, code: int) -> None:
    run = desk().begin()
    run.tell("provoke", call="ReadAnalogF64", code=code)
    with pytest.raises(ConfigError, match=r"daq.rate_hz = 1000.*Dev1"):
        run.take(40)


@pytest.mark.parametrize("code", CODES[Action.RECONNECT] + CODES[Action.HELD] + CODES[Action.UNKNOWN])
def test_a_device_that_fails_within_a_run_is_tried_until_it_works(desk: Make, code: int) -> None:
    run = desk("source.back_off_first_s=0.02").begin()
    run.take(20)
    run.tell("provoke", call=next(READS), code=code)
    run.tell("provoke", call="StartTask", code=code, times=2)  # it does not come back at once
    run.take(20)
    assert len(run.gaps) == 1 and run.gaps[0][1] >= 1
    counts = run.source.counts()
    assert counts["reconnects"] == 1 and counts["refused"] == 2
    about, back = run.said  # once each, however often it was tried
    word = {Action.HELD: "is held by another process", Action.UNKNOWN: "it has Dev1"}.get(ACTIONS[code], "is gone")
    assert word in about and str(code) in about and "is back" in back
    run.assert_one_edge()


@pytest.mark.parametrize("code", CODES[Action.RECONNECT] + CODES[Action.HELD] + CODES[Action.UNKNOWN])
def test_before_a_run_the_same_is_a_refusal(desk: Make, code: int) -> None:
    run = desk()
    run.tell("provoke", call="TaskControl", code=code)
    with pytest.raises(DeviceError, match="Dev1") as refusal:
        run.source.find()
    word = {Action.HELD: "held by another process", Action.UNKNOWN: "it has Dev1"}.get(ACTIONS[code], "plugged in")
    assert word in str(refusal.value)


def test_whatever_else_the_driver_says_ends_the_run_in_its_words(desk: Make) -> None:
    run = desk().begin()
    run.take(10)
    run.tell("provoke", call="ReadCounterU32Ex", code=-200452)
    with pytest.raises(DeviceError, match=r"Dev1.*-200452"):
        run.take(40)


# ---- loss and return -------------------------------------------------------------------------------------------------


def test_a_device_that_is_unplugged_is_taken_again_soon_after_its_return(desk: Make) -> None:
    run = desk().begin()
    run.take(20)
    run.tell("lose")
    turns = 0
    while turns < 50 or run.clock.now_ns() < run.t_ns[-1] + 1200 * MS:
        run.read()  # a turn is a turn, device or not
        turns += 1
    have = len(run.rows)
    run.tell("return")
    run.take(21)
    first, lost = run.gaps[0]
    assert len(run.gaps) == 1 and first == have
    assert lost == pytest.approx((run.t_ns[first] - run.t_ns[first - 1]) / MS - 1, abs=1) and lost > 1000
    run.assert_one_edge()


def test_a_server_that_dies_and_is_started_again_is_found_again(patient_client: None) -> None:
    said: list[str] = []
    first = Double(free_port())  # the second is to get it, too
    source = open_ni(onboard_config(first.server), Host(say=said.append))
    scans, t_ns = np.zeros((4096, 3), np.int64), np.zeros(4096, np.int64)

    def wait_for_scans() -> int:
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            count, lost = source.read(scans, t_ns, 5 * MS)
            if count:
                return lost
        raise AssertionError(said)

    second = None
    try:
        source.find()
        source.start()
        assert wait_for_scans() == 0
        first.kill()
        end = time.monotonic() + PATIENCE_S
        while source.read(scans, t_ns, 5 * MS)[0]:
            assert time.monotonic() < end, said
        assert "Dev1 is gone" in said[0]
        second = Double(first.port)
        assert wait_for_scans() > 0
    finally:
        source.stop()
        for process in (first, second):
            if process is not None:
                process.close()


@pytest.mark.parametrize("force", [[], [FORCE]], ids=["inputs", "with an output"])
def test_a_server_that_hangs_keeps_neither_a_read_nor_the_end(force: list[str]) -> None:
    said: list[str] = []
    server = Double()
    source = open_ni(onboard_config(server.server, *force), Host(say=said.append))
    scans, t_ns = np.zeros((4096, 3), np.int64), np.zeros(4096, np.int64)

    def read() -> int:
        source.put(1.0)
        count, _ = source.read(scans, t_ns, 5 * MS)  # returns, whatever the server does
        return count

    def wait_for_scans() -> None:
        end = time.monotonic() + PATIENCE_S
        while not read():
            assert time.monotonic() < end, said

    try:
        source.find()
        source.start()
        wait_for_scans()
        server.pause()
        end = time.monotonic() + PATIENCE_S
        while not said:
            read()
            assert time.monotonic() < end
        read()
        assert "Dev1 is gone" in said[0]
        server.go_on()
        wait_for_scans()  # what it held for us meanwhile is let go of
        assert len(server.tell("state")["tasks"]) == 3 + len(force)
        server.pause()
        source.stop()  # ends, although it gets no answer
        assert source.read(scans, t_ns, MS) == (0, 0)
    finally:
        source.stop()
        server.kill()


def test_a_thread_that_comes_late_does_not_open_the_device_again(desk: Make) -> None:
    run = desk("source.back_off_first_s=0.02").begin()
    run.take(10)
    run.tell("lose")
    while not run.said:
        run.read()
    run.tell("return")
    run.source.stop()
    run.source._running = True  # as a read saw it that is at work still
    for _ in range(20):
        assert run.read() == 0
    assert run.tell("state")["tasks"] == []


@pytest.mark.parametrize("code", [*CODES[Action.RESTART][:1], *CODES[Action.KEEP], -200452])
@pytest.mark.parametrize("call", ["CreateTask", "StartTask"])
def test_whatever_a_device_says_while_it_comes_back_it_is_tried_again(desk: Make, call: str, code: int) -> None:
    run = desk("source.back_off_first_s=0.02").begin()
    run.take(20)
    run.tell("provoke", call="ReadAnalogF64", code=CODES[Action.RECONNECT][0])
    run.tell("provoke", call=call, code=code, times=2)
    run.take(20)
    assert len(run.said) == 2 and "is gone" in run.said[0] and "is back" in run.said[1]
    assert run.source.counts()["refused"] == 2
    run.assert_one_edge()


def test_a_device_is_held_by_one_and_free_when_it_stops(desk: Make) -> None:
    run = desk().begin()
    other = open_ni(onboard_config(run.double.server))
    with pytest.raises(DeviceError, match="Dev1 is held by another process"):
        other.find()
    run.source.stop()
    other.find()
    other.stop()


# ---- scans -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [16, 24, 32])
def test_counters_of_any_width_wrap_without_anyone_noticing(desk: Make, rings: Rings, bits: int) -> None:
    top = (1 << bits) - 1
    run = desk(bits=bits, starts=[top - 100, 50, 0, 0])
    run.source.find()
    config = onboard_config(run.double.server, bits=bits)
    writer, reader = rings.pair(config.daq.layout)
    acquisition = Acquisition(config, run.source, writer, None, clock=run.clock)
    run.source.start()
    while acquisition.count.blocks < 150:
        acquisition.turn()
    blocks = reader.since(0, 150)[0]
    k = np.arange(150)
    assert (blocks["steering"] == 3 * k).all() and (blocks["throttle"] == -2 * k).all() and (blocks["brake"] == k).all()
    assert acquisition.count.implausible == acquisition.count.saturated == acquisition.count.lost == 0


MACHINES = pytest.mark.parametrize("machine", [onboard_config, handle_config, four_config])


@MACHINES
def test_reads_that_end_early_never_shift_one_task_against_another(desk: Make, machine: Callable[..., Config]) -> None:
    run = desk(machine=machine).begin()
    chance = np.random.default_rng(7)
    tasks = [("ReadAnalogF64", "ai0"), *(("ReadCounterU32Ex", name) for name, _ in run.wiring if name[0] == "c")]
    for _ in range(60):
        call, channel = tasks[chance.integers(len(tasks))]
        # with the timeout's status, or simply fewer than asked
        code = int(chance.choice([-200284, 0]))
        run.tell("provoke", call=call, channel=channel, code=code, how="status", samples=int(chance.integers(0, 4)))
        run.read()
    run.take(100)
    assert run.tell("state")["waiting"] == 0
    assert run.source.counts()["partial"] > 5 and run.gaps == []
    run.assert_one_edge()


@MACHINES
def test_any_machine_goes_on_after_overruns_and_losses(desk: Make, machine: Callable[..., Config]) -> None:
    run = desk("source.back_off_first_s=0.02", machine=machine, ai_ranges=[-5.0, 5.0]).begin()
    run.take(20)
    run.tell(
        "provoke", call="ReadAnalogF64", code=-200284, how="metadata", samples=3
    )  # counted, and kept by the server
    run.take(20)
    run.sleep(20_000 * MS)  # longer than source.buffer_s
    run.take(20)
    run.tell("lose")
    while len(run.said) < 3:
        run.read()
    run.tell("return")
    run.take(20)
    counts = run.source.counts()
    assert len(run.gaps) == 3 and (counts["overruns"], counts["reconnects"]) == (2, 1)
    run.assert_one_edge()


def test_inputs_of_one_converter_are_one_task_and_every_counter_is_one(desk: Make) -> None:
    run = desk(machine=four_config).begin()
    assert [task["channel"] for task in run.tell("state")["tasks"]] == ["Dev1/ai2, Dev1/ai0, Dev1/ai1", "Dev1/ctr1"]
    run.take(200)
    assert run.rows[100] == [300, -200 & 0xFFFFFFFF, 100, round(-200 * 4000 / 32767)]
    run.assert_one_edge()


def test_one_encoder_is_sampled_on_the_clock_of_an_input_that_nobody_reads(desk: Make, rings: Rings) -> None:
    """Of any range: what is converted does not matter. Its counter wraps without anyone noticing."""
    run = desk(machine=handle_config, ai_ranges=[-0.2, 0.2], starts=[2**32 - 50, 0, 0, 0])
    run.source.find()
    assert [task["channel"] for task in run.tell("state")["tasks"]] == ["Dev1/ai0", "Dev1/ctr0"]
    config = handle_config(run.double.server)
    writer, reader = rings.pair(config.daq.layout)
    acquisition = Acquisition(config, run.source, writer, None, clock=run.clock)
    run.source.start()
    while acquisition.count.blocks < 150:
        acquisition.turn()
    assert (reader.since(0, 150)[0]["handle"] == 3 * np.arange(150)).all()
    assert acquisition.count.implausible == acquisition.count.saturated == acquisition.count.lost == 0
    assert run.tell("state")["refused"] == []


def test_a_machine_may_have_no_encoder(desk: Make) -> None:
    names, inputs = ("force", "current"), ("ai3", "ai1")
    channels = ", ".join(f"{{name='{name}', type='i2'}}" for name in names)
    wiring = ", ".join(f"{name}={{input='{one}'}}" for name, one in zip(names, inputs, strict=True))
    overrides = (f"daq.channels=[{channels}]", f"source.channels={{{wiring}}}", "inputs={}")
    run = desk(*overrides, machine=four_config, counters=0).begin()
    run.take(100)
    run.sleep(20_000 * MS)
    run.take(100)
    assert len(run.gaps) == 1
    run.assert_one_edge()


def test_instants_are_those_of_the_devices_own_clock(desk: Make) -> None:
    run = desk(ppm=90.0).begin()
    run.take(2000)
    state = run.tell("state")
    true = state["ai_start_ns"] + np.arange(len(run.t_ns)) * state["period_ns"]
    off = (np.array(run.t_ns) - true)[500:]
    assert off.min() > -1 * MS and np.median(off) < 5 * MS


# ---- what a device cannot do -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "machine, configured, words",
    [
        (handle_config, {"ai": 0}, ["source.clock_input = 'ai0'", "no analog input at all"]),
        (handle_config, {"counters": 0}, ["source.channels.handle.input = 'ctr0'", "no counter at all"]),
        (handle_config, {"counter_bits": 24}, ["handle.counter_bits = 32", "set counter_bits = 24"]),
        (four_config, {"ai": 2}, ["source.channels.force.input = 'ai2'", "it has ai0, ai1"]),
        (four_config, {"ai_max_together": 2400.0}, ["daq.rate_hz = 1000", "at most 800 Hz of 3 inputs, 2400 in all"]),
        (four_config, {"ai_max_rate": 900.0, "simultaneous": True}, ["at most 900 Hz"]),
        (four_config, {"ai_max_together": 2400.0, "simultaneous": True}, []),
        (four_config, {"ai_max_together": 3000.0}, []),
        (handle_config, {"ai_max_together": 900.0}, []),
    ],
)
def test_what_a_device_cannot_do_for_another_machine_is_refused_by_name(
    machine: Callable[..., Config], configured: dict[str, Any], words: list[str]
) -> None:
    """Without words it is not refused: the rate is shared only by inputs that are several, and share a converter."""
    source = open_ni(machine(double(**configured).server))
    if words:
        with pytest.raises(DeviceError) as refusal:
            source.find()
        assert all(word in str(refusal.value) for word in ["Dev1", *words])
    else:
        source.find()
        source.start()
    source.stop()


@pytest.mark.parametrize(
    "configured, overrides, words",
    [
        ({"ai": 0}, (), ["source.channels.brake.input = 'ai0'", "no analog input at all"]),
        ({"ai": 2}, ("source.channels.brake.input=ai7",), ["source.channels.brake.input = 'ai7'", "ai0, ai1"]),
        ({"counters": 1}, (), ["source.channels.throttle.input = 'ctr1'", "ctr0"]),
        ({"ai_max_rate": 500.0}, (), ["daq.rate_hz = 1000", "at most 500 Hz"]),
        ({"ai_ranges": [-1.0, 1.0]}, (), ["brake: -5 to 5 V", "-1 to 1 V"]),
        ({"counter_types": [10125]}, (), ["cannot measure angular position"]),
        ({"counter_clock": False}, (), ["no sample clock"]),
        ({"counter_bits": 24}, (), ["counter_bits = 32", "set counter_bits = 24"]),
        (
            {"ao": 0},
            ("source.effort={channel='steering_torque', gain=1.0, limit=5.0, slew=50.0}",),
            ["source.effort.ao = 'ao0'", "no analog output"],
        ),
        (
            {"ao_ranges": [0.0, 5.0]},
            ("source.effort={channel='steering_torque', gain=1.0, limit=5.0, slew=50.0}",),
            ["-5 to 5 V", "0 to 5 V"],
        ),
        ({"name": "cDAQ1Mod1"}, (), ["source.device = 'Dev1'", "it has cDAQ1Mod1"]),
    ],
)
def test_what_a_device_cannot_do_is_refused_by_name(
    configured: dict[str, Any], overrides: tuple[str, ...], words: list[str]
) -> None:
    server = double(**configured).server
    source = open_ni(onboard_config(server, *overrides))
    with pytest.raises(DeviceError) as refusal:
        source.find()
    source.stop()
    assert all(word in str(refusal.value) for word in ["Dev1", *words])


BRAKE = "brake={input='ai0'}"
BRAKES = "{name='brake', type='i2'}"
THROTTLE, STEERING = (f"{{name='{name}', type='i4', counter_bits=32}}" for name in ("throttle", "steering"))


@pytest.mark.parametrize(
    "override, words",
    [
        ("source.server=nowhere", "source.server"),
        ("source.scans_per_read=4000", "source.buffer_s"),
        ("source.effort={channel='steering_torque', gain=1.0, limit=5.0}", "source.effort.slew"),
        ("source.channels.brake.min_v=6.0", r"source.channels.brake: min_v = 6 must be below max_v = 5"),
        ("source.channels.brake.input=ao0", r"brake.input = 'ao0': must be an analog input, such as \"ai0\", or the"),
        ("source.channels.brake='ai0'", r"source.channels.brake = 'ai0': must be a valid dictionary"),
        ("source.channels={}", r"brake: source.channels has no brake; give \[source.channels.brake\] with input = an"),
        ("source.channels.brake={min_v=0.0}", r"brake.input = '': must be an analog input"),
        ("source.channels.brake.pulses_per_rev=9", r"brake: pulses_per_rev is for the counter of .* has min_v, max_v"),
        (
            "source.channels.throttle.min_v=0.0",
            r"throttle: min_v is for an analog input; .*'ctr1' has decoding, pulses",
        ),
        ("source.channels.throttle.pulse=9", r"throttle.pulse = 9: unknown key"),
        ("source.channels.throttle.input=ctr0", r"throttle and channels.steering both have input = 'ctr0'"),
        ("source.channels.handle={input='ctr3'}", r"source.channels.handle: daq.channels has no handle; it has brake,"),
        (
            f"source.channels={{{BRAKE}}}",
            r"throttle: source.channels has no throttle; give \[source.channels.throttle\]",
        ),
        ("source.clock_input=ai1", r"clock_input = 'ai1': .*clock is that of ai0 \(brake\): leave clock_input out"),
        ("source.channels.brake={input='ctr2'}", r"clock_input: is missing: .*clock_input = \"ai0\""),
        (f"daq.channels=[{BRAKES}, {{name='throttle', type='i2'}}, {STEERING}]", r"throttle.counter_bits = None: ctr1"),
        (
            f"daq.channels=[{BRAKES[:-1]}, counter_bits=16}}, {THROTTLE}, {STEERING}]",
            r"brake.counter_bits = 16: ai0 is",
        ),
        (
            f"daq.channels=[{BRAKES}, {THROTTLE}, {STEERING}, {{name='brake_age_us', type='u4', unit='us'}}]",
            "brake_age_us: the nidaqmx source has no ages",
        ),
    ],
)
def test_what_makes_no_sense_is_said_without_a_device(override: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        open_ni(onboard_config("127.0.0.1:1", "source.buffer_s=1.0", override))


@pytest.mark.parametrize(
    "keys, tables",
    [
        (
            {"brake": "ai3", "brake_min_v": -1.0, "steering": "ctr0", "steering_a": "/Dev1/PFI8", "throttle": "ctr1",
             "throttle_a": "", "decoding": "x2", "pulses_per_rev": 1000},
            ['[source.channels.brake] with input = "ai3", min_v = -1.0;',
             '[source.channels.steering] with input = "ctr0", a = "/Dev1/PFI8", decoding = "x2", pulses_per_rev = 1000',
             '[source.channels.throttle] with input = "ctr1", decoding = "x2", pulses_per_rev = 1000 (docs'],
        ),
        ({"brake_full_counts": 4095.0}, ['[source.channels.brake] with input = "ai0", full_counts = 4095.0']),
        ({"steering_b": "/Dev1/PFI9"}, ['[source.channels.steering] with input = "ctr0", b = "/Dev1/PFI9"']),
        ({"decoding": "x1"}, ['[source.channels.NAME] with input = "ctr0", decoding = "x1"']),
    ],
)  # fmt: skip
def test_a_configuration_of_before_is_refused_with_what_it_is_now(keys: dict[str, Any], tables: list[str]) -> None:
    config = onboard_config("127.0.0.1:1")
    config.source.pop("channels")
    config.source.update(keys)
    with pytest.raises(ConfigError, match=r"onboard.toml: source: every channel has a table of its own") as refusal:
        open_device(config, ONBOARD)
    assert all(table in str(refusal.value) for table in tables)


def test_the_tables_of_the_documentation_are_settings() -> None:
    blocks = re.findall(r"```toml\n(.*?)```", (ONBOARD.parents[1] / "docs" / "nidaqmx.md").read_text(), re.DOTALL)
    tables = [Settings(**{"kind": "nidaqmx"} | tomllib.loads(block)["source"]) for block in blocks]
    assert [list(table.channels) for table in tables] == [["brake", "steering"], ["handle"]]


def test_a_server_that_is_not_there_is_a_refusal() -> None:
    with pytest.raises(DeviceError, match=r"server at 127.0.0.1:1 does not answer"):
        open_ni(onboard_config("127.0.0.1:1")).find()


def test_missing_software_is_said_at_once_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        Settings(kind="nidaqmx").require()
    except DeviceError as error:
        assert "ni.com/downloads" in str(error) and "source.server" in str(error)  # noqa: PT017 (or there is a driver)
    Settings(kind="nidaqmx", server="elsewhere:31763", server_unencrypted=True).require()
    monkeypatch.setitem(sys.modules, "nidaqmx", None)
    with pytest.raises(DeviceError, match=re.escape(install_extra("ni"))):
        Settings(kind="nidaqmx").require()


def test_a_drive_without_the_driver_ends_at_once_and_says_what_to_install() -> None:
    try:
        Settings(kind="nidaqmx").require()
    except DeviceError:
        command = [sys.executable, "-m", "tandem", "daq", str(ONBOARD)]
        run = subprocess.run(command, cwd=ONBOARD.parents[1], capture_output=True, text=True, check=False)
        assert run.returncode == DeviceError.code and "ni.com/downloads" in run.stderr and run.stdout == ""
    else:
        pytest.skip("this machine has the driver")


@pytest.mark.parametrize(
    "more, said",
    [
        ({}, "is not the loopback: give server_ca"),
        ({"server_ca": "ca.pem", "server_key": "k.pem"}, "give both or neither"),
        ({"server_certificate": "c.pem", "server_key": "k.pem"}, "server_key without server_ca"),
        ({"server_ca": "no.pem"}, "no.pem: cannot be read"),
        ({"server_ca": "text.pem"}, "is no PEM file"),
    ],
)
def test_beyond_the_loopback_a_server_is_asked_with_tls_or_on_purpose_without(
    more: dict[str, str], said: str, tmp_path: Path
) -> None:
    (tmp_path / "text.pem").write_text("hello")
    config = onboard_config("192.0.2.7:31763", *(f"source.{key}={value}" for key, value in more.items()))
    with pytest.raises(ConfigError, match=said):
        open_device(config, tmp_path / "x.toml")


def test_with_a_certificate_the_channel_is_a_secure_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import grpc

    secured: list[str] = []

    def secure(server: str, *more: Any) -> Any:
        secured.append(server)
        return grpc.insecure_channel(server)

    monkeypatch.setattr(grpc, "secure_channel", secure)
    (tmp_path / "ca.pem").write_text("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n")
    link = nidaqmx.linked("192.0.2.7:31763", ("ca.pem", "", ""), tmp_path)
    assert link.options() is not None and secured == ["192.0.2.7:31763"]
    link.close()


def test_devices_are_listed_with_what_they_can() -> None:
    (line,) = nidaqmx.devices(double(ai_max_rate=250_000.0).server)
    assert line.startswith("Dev1: ") and "250000 Hz" in line and "counters of 32 bits" in line


# ---- the way back ----------------------------------------------------------------------------------------------------


def test_a_force_is_written_and_zero_in_the_end(desk: Make) -> None:
    run = desk(FORCE).begin()
    assert run.source.wants == ("steering_torque",)
    run.take(10)
    run.sleep(10 * MS)
    for value in (1.0, -4.5, 5.0):
        run.source.put(value)
    run.source.put(99.0)  # beyond what the output was set up for: refused by the driver, and not raised
    run.source.stop()
    values = [v for _, v in run.tell("written")]
    assert values == [1.0, -4.5, 5.0, 0.0]
    assert run.source.counts()["unwritten"] == 1
    run.source.put(3.0)
    assert len(run.tell("written")) == 4  # there is no device any more


def test_an_output_that_comes_back_begins_at_zero(desk: Make) -> None:
    run = desk(FORCE.replace("slew=1000.0", "slew=2.0"), "source.back_off_first_s=0.02").begin()
    run.take(10)
    end = time.monotonic() + PATIENCE_S

    def until_said(text: str) -> None:
        while text not in "".join(run.said):
            assert time.monotonic() < end, run.said
            run.read()
            run.source.put(4.0)

    run.tell("lose")
    until_said("gone")
    run.tell("return")
    before = len(run.tell("written"))
    until_said("Dev1 is back")
    for _ in range(20):
        run.source.put(4.0)
        run.sleep(5 * MS)
    written = run.tell("written")[before:]
    since = written[0][0]
    assert abs(written[0][1]) < 2.0 and written[-1][1] > written[0][1]
    assert all(v <= written[0][1] + 2.0 * (t - since) * 1e-9 + 0.02 for t, v in written)


def test_an_output_that_fails_alone_is_said_once_and_made_anew(desk: Make) -> None:
    run = desk(FORCE, "source.back_off_first_s=0.02", "source.back_off_most_s=0.1").begin()
    run.take(10)
    run.tell("provoke", call="WriteAnalogScalarF64", code=-200452, times=60)
    end = time.monotonic() + PATIENCE_S
    while "is back" not in "".join(run.said):
        assert time.monotonic() < end, run.said
        run.source.put(1.0)
        run.read()
    failed, back = run.said
    assert "Dev1/ao1 does not take the effort" in failed and "-200452" in failed and "Dev1/ao1 is back" in back
    assert run.gaps == [] and run.source.counts()["unwritten"] == 60
    assert len(run.tell("state")["tasks"]) == 4
    run.source.put(1.0)
    assert run.tell("written")[-1][1] > 0
    run.assert_one_edge()
