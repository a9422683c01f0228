"""The slave, as a master meets it: what it reads, writes and measures, and what becomes of one that misbehaves."""

import contextlib
import json
import re
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from sync.config.config import Config
from tandem.bridges.xcp import protocol as xcp
from tandem.bridges.xcp import server as server_module
from tandem.bridges.xcp.a2l import description
from tandem.bridges.xcp.calibration import ECU, REFERENCE, WORKING, XCP, Calibration
from tandem.bridges.xcp.memory import PARAMETERS, Memory, memory_of
from tandem.bridges.xcp.server import Server, XcpServerError
from tandem.bridges.xcp.slave import OPTIONAL, Slave
from tandem.commands.cli import app
from tests.examples import few
from tests.sim_service.test_commands import Commanded
from tests.tandem.bridges.masters import PATIENCE_S, Master, Refused
from tests.tandem.runs import CONFIGS

SECRET = b"a secret of the test, and long enough"


class Slaved:
    """A simulation that takes commands, and a slave beside it."""

    def __init__(self, secret: bytes = b""):
        self.commanded = Commanded()
        self.world = self.commanded.world
        self.config: Config = self.world.config
        simulation = self.world.simulation
        self.memory = memory_of(self.config, simulation.model, simulation.params)
        self.server = Server(self.config, self.memory, secret, lambda port: b"text of the description", port=0)
        self.server._measure()  # the rings are found; blocks from now on
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self.server.run, args=(self._stop,))
        self._thread.start()

    @property
    def slave(self) -> Slave:
        return self.server.slave

    def master(self, kind: str = "tcp") -> Master:
        return Master(self.server.port, kind)

    def address(self, name: str) -> int:
        """Of a parameter, or of a channel."""
        names = [name for name, _ in self.memory.parameters]
        if name in names:
            return PARAMETERS + 8 * names.index(name)
        return next(c.address for event in self.memory.events for c in event.channels if c.name == name)

    def commands(self) -> int:
        return int(self.commanded.ring.head)

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        self.server.close()
        self.commanded.close()


@pytest.fixture
def slaved(monkeypatch: pytest.MonkeyPatch) -> Iterator[Slaved]:
    monkeypatch.setattr(server_module, "_TIMEOUT_S", PATIENCE_S)  # no test is about how fast a simulator answers
    made = Slaved()
    yield made
    made.close()


@pytest.fixture
def locked(monkeypatch: pytest.MonkeyPatch) -> Iterator[Slaved]:
    monkeypatch.setattr(server_module, "_TIMEOUT_S", PATIENCE_S)
    made = Slaved(SECRET)
    yield made
    made.close()


def until(condition: Callable[[], bool]) -> None:
    for _ in range(3000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it did not come")


def refusal(act: Callable[[], Any]) -> int:
    with pytest.raises(Refused) as refused:
        act()
    return refused.value.code


def start(slaved: Slaved, steps: int = 3) -> None:
    slaved.world.push()
    slaved.world.start()
    slaved.world.wait_for_steps(steps)


# ---- calibration -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["tcp", "udp"])
def test_a_written_parameter_is_a_command_like_any_other(slaved: Slaved, kind: str) -> None:
    start(slaved)
    mass = slaved.address("mass")
    with slaved.master(kind) as master:
        assert master.connect()[:5] == struct.pack("<BBBH", 0x05, 0x80, xcp.MAX_CTO, xcp.MAX_DTO)
        before = master.number(mass)
        assert before == slaved.commanded.client.ask()["parameters"]["mass"]["value"]
        master.write(mass, before * 1.25)
        slaved.world.wait_for_steps(int(slaved.world.results.head) + 3)
        place = [name for name, _ in slaved.memory.parameters].index("mass")
        assert slaved.world.simulation.params[place] == before * 1.25 == master.number(mass)
        assert slaved.commands() == 1
        assert refusal(lambda: master.write(mass, -1.0)) == xcp.OUT_OF_RANGE
        assert refusal(lambda: master.write(mass, float("nan"))) == xcp.OUT_OF_RANGE
        assert refusal(lambda: master.download(mass, b"\0" * 7)) == xcp.ACCESS_DENIED
        assert refusal(lambda: master.download(mass + 4, b"\0" * 8)) == xcp.ACCESS_DENIED
        both = struct.pack("<dd", before, -1e300)  # the second parameter is out of range: neither is written
        assert refusal(lambda: master.download(mass, both)) in (xcp.OUT_OF_RANGE, xcp.WRITE_PROTECTED)
        assert slaved.commands() == 1 and master.number(mass) == before * 1.25
        other = slaved.commanded.client.ask({"mass": before})  # somebody else changes it
        assert other["ok"]
        slaved.world.wait_for_steps(int(slaved.world.results.head) + 3)
        assert master.number(mass) == before


def test_what_cannot_change_while_it_runs_is_write_protected(slaved: Slaved) -> None:
    fixed = [name for name, p in slaved.memory.parameters if not p.live and not p.shapes]
    with slaved.master() as master:
        master.connect()
        for name in fixed[:3]:
            value = master.number(slaved.address(name))
            assert refusal(lambda n=name, v=value: master.write(slaved.address(n), v * 0.999 + 1e-6)) == (
                xcp.WRITE_PROTECTED
            )
        assert refusal(lambda: master.write(slaved.address("t_ns"), 0.0)) == xcp.WRITE_PROTECTED
        assert refusal(lambda: master.write(0x7FFF_0000, 0.0)) == xcp.ACCESS_DENIED
    assert slaved.commands() == 0


def test_pages_are_the_working_values_and_those_of_the_start(slaved: Slaved) -> None:
    start(slaved)
    mass, place = slaved.address("mass"), [name for name, _ in slaved.memory.parameters].index("mass")

    def now() -> float:
        slaved.world.wait_for_steps(int(slaved.world.results.head) + 3)
        return float(slaved.world.simulation.params[place])

    with slaved.master() as master:
        master.connect()
        first = master.number(mass)
        master.write(mass, first + 50.0)
        master.ask(xcp.SET_CAL_PAGE, XCP, 0, REFERENCE)
        assert master.number(mass) == first and now() == first + 50.0
        assert refusal(lambda: master.write(mass, first)) == xcp.WRITE_PROTECTED
        master.ask(xcp.SET_CAL_PAGE, ECU | XCP, 0, REFERENCE)
        assert now() == first and master.ask(xcp.GET_CAL_PAGE, ECU, 0)[2] == REFERENCE
        master.ask(xcp.SET_CAL_PAGE, XCP, 0, WORKING)
        assert master.number(mass) == first + 50.0
        master.write(mass, first + 80.0)  # noted, and not obeyed yet
        assert refusal(lambda: master.write(mass, -5.0)) == xcp.OUT_OF_RANGE
        assert now() == first
        master.ask(xcp.SET_CAL_PAGE, ECU, 0, WORKING)
        assert now() == first + 80.0
        master.ask(xcp.COPY_CAL_PAGE, 0, REFERENCE, 0, WORKING)
        assert now() == first == master.number(mass)
        assert refusal(lambda: master.ask(xcp.SET_CAL_PAGE, XCP, 0, 2)) == xcp.PAGE_NOT_VALID
        assert refusal(lambda: master.ask(xcp.SET_CAL_PAGE, XCP, 1, 0)) == xcp.SEGMENT_NOT_VALID
        assert refusal(lambda: master.ask(xcp.SET_CAL_PAGE, 0, 0, 0)) == xcp.MODE_NOT_VALID
        assert refusal(lambda: master.ask(xcp.COPY_CAL_PAGE, 0, 0, 0, 1)) == xcp.WRITE_PROTECTED


# ---- measurement -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["tcp", "udp"])
def test_measured_packets_are_the_blocks_to_the_bit(slaved: Slaved, kind: str) -> None:
    event = slaved.memory.events[0]
    channels = [c for c in event.channels if np.dtype(c.type).itemsize == 8][:50]
    entries = [(c.address, 8) for c in channels]
    slaved.world.push()
    slaved.world.start()
    with slaved.master(kind) as master:
        master.connect()
        master.lists([entries[:40], entries[40:]], [[(channels[0].address, 8)]])
        assert master.ask(xcp.GET_STATUS)[0] == 0x40
        slaved.world.let_pass(40 * slaved.world.h_ns)
        steps = int(slaved.world.results.head)
        assert steps >= 35
        packets = master.measure(3 * steps)
        master.ask(xcp.START_STOP_SYNCH, 0)
    outputs, _, _ = slaved.world.results.since(0, 10_000)
    whole = np.ascontiguousarray(outputs).view(np.uint8).reshape(len(outputs), -1)
    offsets = np.concatenate([np.arange(8) + c.address - event.address for c in channels])
    stamps = (outputs["t_ns"] // 1000 & 0xFFFFFFFF).astype("<u4")
    wanted = []
    for row in range(steps):
        data, stamp = whole[row][offsets].tobytes(), stamps[row].tobytes()
        wanted += [b"\0\0" + stamp + data[:320], b"\x01\0" + data[320:], b"\0\x01" + stamp + data[:8]]
    assert packets[: 3 * steps] == wanted
    assert np.all(np.diff(master.numbers) % 65536 == 1)  # no number is left out
    assert slaved.server.report()["lost"] == 0


def test_a_prescaler_leaves_blocks_out_and_scans_are_an_event_of_their_own(slaved: Slaved) -> None:
    with slaved.master() as master:
        master.connect()
        seq = slaved.address("daq_seq")
        master.lists([[(seq, 8)]], event=1, prescaler=3, mode=0)
        for _ in range(9):
            slaved.world.push()
        packets = master.measure(3)
        assert [struct.unpack("<Q", packet[2:])[0] for packet in packets] == [0, 3, 6]
        brake = slaved.address("daq_brake")
        slaved.world.push(brake=77)
        until(lambda: struct.unpack("<h", master.upload(brake, 2))[0] == 77)


def test_lists_are_checked_as_the_standard_has_it(slaved: Slaved) -> None:
    with slaved.master() as master:
        master.connect()
        time_at, scan_at = slaved.address("time"), slaved.address("daq_seq")
        ask = master.ask
        assert refusal(lambda: ask(xcp.ALLOC_ODT, 0, 0, 0, 1)) == xcp.SEQUENCE
        ask(xcp.FREE_DAQ)
        assert refusal(lambda: ask(xcp.ALLOC_DAQ, 0, b"\xff\xff")) == xcp.MEMORY_OVERFLOW
        ask(xcp.ALLOC_DAQ, 0, 1, 0)
        assert refusal(lambda: ask(xcp.ALLOC_DAQ, 0, 1, 0)) == xcp.SEQUENCE
        assert refusal(lambda: ask(xcp.ALLOC_ODT_ENTRY, 0, 0, 0, 0, 1)) == xcp.SEQUENCE
        assert refusal(lambda: ask(xcp.ALLOC_ODT, 0, 0, 0, 255)) == xcp.MEMORY_OVERFLOW
        ask(xcp.ALLOC_ODT, 0, 0, 0, 1)
        ask(xcp.ALLOC_ODT_ENTRY, 0, 0, 0, 0, 7)
        assert refusal(lambda: ask(xcp.WRITE_DAQ, 0xFF, 8, 0, struct.pack("<I", time_at))) == xcp.SEQUENCE
        ask(xcp.SET_DAQ_PTR, 0, 0, 0, 0, 0)
        assert refusal(lambda: ask(xcp.WRITE_DAQ, 0xFF, 8, 0, struct.pack("<I", 4))) == xcp.ACCESS_DENIED
        assert refusal(lambda: ask(xcp.WRITE_DAQ, 3, 1, 0, struct.pack("<I", time_at))) == xcp.OUT_OF_RANGE
        start_it = (xcp.START_STOP_DAQ_LIST, 1, 0, 0)
        assert refusal(lambda: ask(*start_it)) == xcp.DAQ_CONFIG  # nothing is in it
        ask(xcp.WRITE_DAQ, 0xFF, 8, 0, struct.pack("<I", scan_at))
        assert refusal(lambda: ask(*start_it)) == xcp.DAQ_CONFIG  # of another event
        ask(xcp.SET_DAQ_PTR, 0, 0, 0, 0, 0)
        block = slaved.memory.events[0].address
        for _ in range(6):
            ask(xcp.WRITE_DAQ, 0xFF, 248, 0, struct.pack("<I", block))
        assert refusal(lambda: ask(*start_it)) == xcp.DAQ_CONFIG  # longer than a packet
        ask(xcp.CLEAR_DAQ_LIST, 0, 0, 0)
        ask(xcp.SET_DAQ_PTR, 0, 0, 0, 0, 0)
        ask(xcp.WRITE_DAQ, 0xFF, 8, 0, struct.pack("<I", time_at))
        ask(*start_it)
        assert refusal(lambda: ask(xcp.FREE_DAQ)) == xcp.DAQ_ACTIVE
        ask(xcp.SET_DAQ_PTR, 0, 0, 0, 0, 0)
        assert ask(xcp.READ_DAQ) == struct.pack("<BBBI", 0xFF, 8, 0, time_at)
        assert refusal(lambda: ask(xcp.SET_DAQ_LIST_MODE, 0, 0, 0, 0, 0, 1, 0)) == xcp.DAQ_ACTIVE
        assert refusal(lambda: ask(xcp.START_STOP_DAQ_LIST, 9, 0, 0)) == xcp.MODE_NOT_VALID
        assert refusal(lambda: ask(xcp.START_STOP_DAQ_LIST, 1, 9, 0)) == xcp.OUT_OF_RANGE


# ---- locked ----------------------------------------------------------------------------------------------------------


def test_locked_a_master_learns_no_value_and_changes_nothing(locked: Slaved) -> None:
    mass = locked.address("mass")
    with locked.master() as master:
        master.connect()
        assert master.ask(xcp.GET_STATUS)[1] == xcp.RESOURCES
        assert refusal(lambda: master.number(mass)) == xcp.ACCESS_LOCKED
        assert refusal(lambda: master.upload(locked.address("time"), 8)) == xcp.ACCESS_LOCKED
        assert refusal(lambda: master.write(mass, 700.0)) == xcp.ACCESS_LOCKED
        assert refusal(lambda: master.ask(xcp.FREE_DAQ)) == xcp.ACCESS_LOCKED
        assert refusal(lambda: master.ask(xcp.SET_CAL_PAGE, 3, 0, 1)) == xcp.ACCESS_LOCKED
        assert struct.unpack("<I", master.ask(xcp.GET_ID, 4)[3:7])[0] == 0
        assert struct.unpack("<I", master.ask(xcp.GET_ID, 5)[3:7])[0] == len(locked.memory.epk)
        assert master.ask(xcp.UPLOAD, len(locked.memory.epk)).decode() == locked.memory.epk
        assert master.unlock(SECRET, xcp.DAQ) == xcp.CALIBRATION
        master.ask(xcp.FREE_DAQ)
        assert refusal(lambda: master.write(mass, 700.0)) == xcp.ACCESS_LOCKED
        assert master.unlock(SECRET, xcp.CALIBRATION) == 0
        master.write(mass, 700.0)
        master.connect()
        assert refusal(lambda: master.write(mass, 701.0)) == xcp.ACCESS_LOCKED  # a new session is locked again
    assert locked.commands() == 1


def test_a_wrong_key_ends_the_session_and_is_counted(locked: Slaved) -> None:
    with locked.master() as master:
        master.connect()
        assert refusal(lambda: master.ask(xcp.UNLOCK, 4, b"1234")) == xcp.SEQUENCE  # no seed was given out
        seeds = {master.ask(xcp.GET_SEED, 0, xcp.DAQ)[1:] for _ in range(4)}
        assert len(seeds) == 4
        assert refusal(lambda: master.unlock(b"another secret", xcp.DAQ)) == xcp.ACCESS_LOCKED
        assert locked.server.report()["wrong_keys"] == 1 and not locked.slave.connected
        master.connect()
        assert refusal(lambda: master.ask(xcp.FREE_DAQ)) == xcp.ACCESS_LOCKED
        key = bytes(32)
        master.ask(xcp.GET_SEED, 0, xcp.DAQ)
        assert refusal(lambda: master.ask(xcp.UNLOCK, len(key), key)) == xcp.ACCESS_LOCKED
    assert locked.server.report()["wrong_keys"] == 2


# ---- whatever comes --------------------------------------------------------------------------------------------------


def test_whatever_comes_is_answered_by_the_standard_and_takes_no_memory(slaved: Slaved) -> None:
    """Of any bytes as packets, in any order."""
    codes = st.sampled_from([xcp.CONNECT, xcp.GET_STATUS, *OPTIONAL])
    packet = st.binary(max_size=40) | st.builds(lambda code, rest: bytes((code, *rest)), codes, st.binary(max_size=12))
    client = slaved.commanded.client
    calibration = Calibration(slaved.memory, client.ask, slaved.commands)

    @settings(max_examples=few(400), deadline=None)
    @given(st.lists(packet, max_size=60))
    def come(packets: list[bytes]) -> None:
        slave = Slave(slaved.memory, calibration, lambda event: None, SECRET if len(packets) % 2 else b"")
        slave.answer(b"\xff\0")
        for each in packets:
            answer = slave.answer(each)
            assert answer is None or answer[0] in (xcp.RESPONSE, xcp.ERROR)
            assert answer is None or len(answer) <= xcp.MAX_CTO
            lists = slave.daq.lists
            assert len(lists) <= xcp.MOST_LISTS
            assert sum(len(odt) for found in lists for odt in found.odts) <= xcp.MOST_ENTRIES

    come()
    for name, p in slaved.memory.parameters:  # and nothing out of range was commanded
        value = client.ask()["parameters"][p.name]["value"]
        assert p.low <= value <= p.high, name


def test_malformed_streams_end_and_datagrams_are_counted(slaved: Slaved) -> None:
    for bad in (b"\0\0\0\0", b"\xff\xff\0\0", struct.pack("<HH", xcp.MAX_CTO + 1, 0)):
        with slaved.master() as master:
            master.connect()
            master.send_raw(bad)
            assert master.receive() == b""
    until(lambda: not slaved.slave.connected)
    assert slaved.server.report()["malformed"] == 3
    with slaved.master("udp") as master:
        master.connect()
        for bad in (b"\0", struct.pack("<HH", 9, 0) + b"\xfd", struct.pack("<HHB", 1, 0, 0xFD) * 400, bytes(1400)):
            master.send_raw(bad)
        master.ask(xcp.GET_STATUS)
        until(lambda: slaved.server.report()["malformed"] >= 6)
        assert slaved.slave.connected
        assert refusal(lambda: master.ask(0xC3)) == xcp.CMD_UNKNOWN
        assert refusal(lambda: master.ask(xcp.SET_MTA, 0)) == xcp.CMD_SYNTAX
        assert refusal(lambda: master.ask(xcp.SYNCH)) == xcp.CMD_SYNCH


def test_a_request_of_a_browser_ends_the_connection(slaved: Slaved) -> None:
    """A page of any site may post to a port of this machine: its first bytes are no length of a packet."""
    for request in (
        b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n\xff\0",
        b"GET /\xff\0 HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02",
    ):
        with slaved.master() as master:
            master.send_raw(request)
            assert master.receive() == b""
    assert slaved.server.report()["sessions"] == 0 and slaved.server.report()["malformed"] == 3


def test_a_flood_is_answered_or_counted_and_measuring_goes_on(slaved: Slaved) -> None:
    """Of commands from the master, and of datagrams from others, while blocks come."""
    with slaved.master() as master, slaved.master("udp") as other:
        master.connect()
        master.lists([[(slaved.address("daq_seq"), 8)]], event=1)
        for turn in range(200):
            for _ in range(20):
                other.send(b"\xff\0")
                master.send(bytes((turn % 256,)) * 3 if turn % 256 not in (0xFE, 0xDD, 0xD6, 0xE3) else b"\xc3")
            slaved.world.push()
        packets = master.measure(200)
        assert [struct.unpack("<Q", packet[6:])[0] for packet in packets] == list(range(200))
        until(lambda: slaved.server.report()["commands"] >= 4000)
    report = slaved.server.report()
    assert report["refused"] > 0 and report["malformed"] > 1000 and report["dropped"] == report["lost"] == 0


def test_one_master_at_a_time(slaved: Slaved) -> None:
    with slaved.master() as master:
        master.connect()
        for kind in ("tcp", "udp"):
            with slaved.master(kind) as other:
                other.send(b"\xff\0")
                with contextlib.suppress(TimeoutError):
                    assert other.receive(0.3) == b""
        master.ask(xcp.GET_STATUS)
        assert slaved.server.report()["refused"] == 2
        master.ask(xcp.DISCONNECT)
    with slaved.master("udp") as master, slaved.master("udp") as other:
        until(lambda: _connects(master))
        other.send(b"\xff\0")
        until(lambda: slaved.server.report()["refused"] == 3)
        master.ask(xcp.GET_STATUS)


def _connects(master: Master) -> bool:
    master.send(b"\xff\0")
    try:
        return master.receive(0.3)[:1] == b"\xff"
    except TimeoutError:
        return False


@pytest.mark.parametrize("kind", ["tcp", "udp"])
def test_a_master_that_vanishes_is_noticed_and_the_next_one_gets_in(slaved: Slaved, kind: str) -> None:
    master = slaved.master(kind)
    master.connect()
    master.lists([[(slaved.address("daq_seq"), 8)]], event=1)
    slaved.world.push()
    master.measure(1)
    master.close()  # without a word

    def gone() -> bool:
        slaved.world.push()
        return not slaved.slave.connected

    until(gone)
    with slaved.master("tcp" if kind == "udp" else "udp") as following:
        following.connect()
        assert following.ask(xcp.GET_DAQ_PROCESSOR_INFO)[1:3] == b"\0\0"  # no list of its predecessor


def test_a_connection_that_never_speaks_makes_room(slaved: Slaved, monkeypatch: pytest.MonkeyPatch) -> None:
    with slaved.master() as silent:
        until(lambda: slaved.server._connection is not None)
        with slaved.master() as master:
            master.connect()
        assert silent.receive() == b""
    monkeypatch.setattr(server_module, "_GREETING_S", 0.05)
    with slaved.master() as silent:
        assert silent.receive() == b""


def test_a_master_that_does_not_read_costs_bounded_memory(slaved: Slaved, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "_MOST_WAITING", 20_000)
    with slaved.master() as master:
        master._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        master.connect()
        block = slaved.memory.events[1]
        master.lists([[(block.address, min(block.size, 248))] * 1], event=1)
        for _ in range(200_000):
            slaved.world.push()
            if slaved.server.counts["dropped"]:
                break
        assert slaved.server.counts["dropped"] > 0 and len(slaved.server._waiting) < 20_000 + 2000
        while not master.events:
            master._note(master.receive())
        assert master.events[0] == bytes((xcp.EVENT, xcp.EV_DAQ_OVERLOAD))


def test_without_a_simulator_parameters_are_not_accessible_now(slaved: Slaved) -> None:
    slave = Slave(slaved.memory, Calibration(slaved.memory, _nobody, lambda: 0), lambda event: None)
    slave.answer(b"\xff\0")
    upload = bytes((xcp.SHORT_UPLOAD, 8, 0, 0)) + struct.pack("<I", PARAMETERS)
    assert slave.answer(upload) == bytes((xcp.ERROR, xcp.NOT_ACCESSIBLE_NOW))


def _nobody(values: Any = None) -> Any:
    from sim_service.commands import NoSimulator

    raise NoSimulator("nobody")


def test_it_listens_on_this_machine_alone_and_says_whose_port_is_taken(slaved: Slaved) -> None:
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", slaved.server.port), timeout=5)
    with pytest.raises(XcpServerError, match=f"--port {slaved.server.port}"):
        Server(slaved.config, slaved.memory, port=slaved.server.port)


# ---- the description -------------------------------------------------------------------------------------------------


def text_of(memory: Memory) -> str:
    return description(memory, "127.0.0.1", 5555, locked=True)


def test_the_description_is_of_the_memory_that_answers(slaved: Slaved) -> None:
    text = text_of(slaved.memory)
    stack: list[str] = []
    for word, block in re.findall(r"/(begin|end) (\w+)", text):
        if word == "begin":
            stack.append(block)
        else:
            assert stack.pop() == block
    assert not stack and text.isascii()
    found = re.findall(
        r"/begin CHARACTERISTIC (\w+) .*\nVALUE 0x([0-9A-F]+) number 0 NO_COMPU_METHOD (\S+) (\S+)", text
    )
    measured = re.findall(r"/begin MEASUREMENT (\w+) .*\n(\w+) .*\nECU_ADDRESS 0x([0-9A-F]+)", text)
    assert len(found) == len(slaved.memory.parameters)
    assert len({name for name, *_ in [*found, *measured]}) == len(found) + len(measured)
    with slaved.master() as master:
        master.connect()
        parameters = slaved.commanded.client.ask()["parameters"]
        for name, address, low, high in found:
            assert master.number(int(address, 16)) == parameters[name]["value"]
            assert (float(low), float(high)) == (parameters[name]["low"], parameters[name]["high"])
        length = struct.unpack("<I", master.ask(xcp.GET_ID, 4)[3:7])[0]
        assert master.ask(xcp.UPLOAD, length) == b"text of the description"


@pytest.mark.drill
def test_a_parser_of_others_reads_the_description(slaved: Slaved, tmp_path: Path) -> None:
    database = pytest.importorskip("pya2l", reason="pya2ldb is not installed")
    model = pytest.importorskip("pya2l.model")
    file = tmp_path / "run.a2l"
    file.write_text(text_of(slaved.memory))
    session = database.import_a2l(str(file), encoding="ascii", loglevel="ERROR", progress_bar=False)
    try:
        read = {c.name: (c.address, c.lowerLimit, c.upperLimit) for c in session.query(model.Characteristic)}
        addresses = {name: PARAMETERS + 8 * k for k, (name, _) in enumerate(slaved.memory.parameters)}
        assert read == {name: (addresses[name], p.low, p.high) for name, p in slaved.memory.parameters}
        measured = {m.name: (m.ecu_address.address, m.datatype) for m in session.query(model.Measurement)}
        assert {name: at for name, (at, _) in measured.items()} == {
            c.name: c.address for event in slaved.memory.events for c in event.channels
        }
        assert measured["time"][1] == "FLOAT64_IEEE" and measured["t_ns"][1] == "A_INT64"
        (interface,) = session.parse_ifdata(session.query(model.Module).one().if_data)
        (whole,) = interface["XCP"]
        assert whole["PROTOCOL_LAYER"][8:10] == [xcp.MAX_CTO, xcp.MAX_DTO]
        assert {getattr(xcp, name) for name in whole["PROTOCOL_LAYER"][-1]["OPTIONAL_CMD"]} == set(OPTIONAL)
        assert [event[:3] for event in whole["DAQ"][-1]["EVENT"]] == [["step", "step", 0], ["scan", "scan", 1]]
        scan = next(m for m in session.query(model.Measurement) if m.name == "daq_seq")
        assert session.parse_ifdata(scan.if_data) == [{"XCP": [{"DAQ_EVENT": {"FIXED_EVENT_LIST": {"EVENT": [1]}}}]}]
        (segment,) = session.parse_ifdata(session.query(model.MemorySegment).one().if_data)
        assert len(segment["XCP"][0]["SEGMENT"][-1]["PAGE"]) == 2
    finally:
        session.close()


def test_the_command_writes_the_description_and_ends(tmp_path: Path) -> None:
    file = tmp_path / "run.a2l"
    words = [
        "xcp",
        str(CONFIGS / "drive.toml"),
        "--set",
        "sim.machine=vehicles/buggy_single_track.toml",
        "--a2l",
        str(file),
    ]
    done = CliRunner().invoke(app, [*words, "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout.splitlines()[-1])
    text = file.read_text()
    assert f'EPK "{found["epk"]}"' in text and text.count("/begin CHARACTERISTIC") == found["characteristics"]
    assert text.count("/begin MEASUREMENT") == found["measurements"]
    assert "SEED_AND_KEY" not in text.partition("/end A2ML")[2]
