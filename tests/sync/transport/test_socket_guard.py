"""The socket guard: who floods is counted, cut off or kept waiting, and costs neither memory nor other peers."""

import contextlib
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sync.compile.dependencies import folder_name
from sync.process import realtime
from sync.process.realtime import Warden
from sync.ring.block import Layout
from sync.ring.ring import RingWriter
from sync.transport.host_clock import Artificial, ClockServer
from sync.transport.keys import admitted, make_keys, read_keys
from sync.transport.socket_guard import SocketGuard, _received
from sync.transport.wire import Publisher, Receiver, context
from tests.ports import free_port
from tests.sync.actors import environment
from tests.sync.transport.test_wire import PATIENCE_S, block_of
from tests.sync.zmtp import dial, frame, greeting

Port = tuple[str, int]
TOO_LONG = bytes([2]) + struct.pack(">Q", 1 << 20) + bytes(1024)


class Sockets:
    """A publisher of every block with its receiver, and a clock: all at work in threads until closed."""

    def __init__(self, layout: Layout, ring_name: str, keys: Path | None = None):
        self._layout, self._end = layout, threading.Event()
        self._contexts = [context(), context()]
        self.blocks: Port = ("127.0.0.1", free_port())
        self.clock: Port = ("127.0.0.1", free_port())
        names = (("daq", "sim"), ("sim", "daq"))
        self.guard, self._other = (
            SocketGuard(made, read_keys(keys, *own) if keys else None)
            for made, own in zip(self._contexts, names, strict=True)
        )
        there = [f"tcp://{host}:{port}" for host, port in (self.blocks, self.clock)]
        self._publisher = Publisher(self._contexts[0], there[0], layout, guard=self.guard, waiting=1000)
        self.server = ClockServer(self._contexts[0], there[1], Artificial(), self.guard)
        self._ring = RingWriter(ring_name, layout, 64)
        self.receiver = Receiver(self._contexts[1], there[0], self._ring, guard=self._other, waiting=1000)
        self._threads = [threading.Thread(target=work) for work in (self._publish, self._receive, self._serve)]
        for thread in self._threads:
            thread.start()

    def _publish(self) -> None:
        seq = 0
        while not self._end.wait(0.001):
            self._publisher.publish(block_of(self._layout, 1, seq))
            seq += 1

    def _receive(self) -> None:
        self.receiver.connect()
        while not self._end.is_set():
            self.receiver.receive()

    def _serve(self) -> None:
        while not self._end.is_set():
            self.server.serve()

    def until(self, done: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE_S
        while not done():
            assert time.monotonic() < end, (self.guard.count(), self.server.count(), self.receiver.count())
            time.sleep(0.005)

    def _askers(self) -> list[Any]:
        return [*self.guard._watched[1][1]._connections.values()]

    def received(self) -> int:
        """Bytes that the kernel has of those who ask."""
        return sum(_received(connection.handle) for connection in self._askers())

    def counted(self) -> int:
        """Those of them that the guard has looked at."""
        return sum(connection.counted for connection in self._askers())

    def still_right(self) -> None:
        """Blocks still come, and all of them did."""
        before = self.receiver.count()["blocks"]
        self.until(lambda: self.receiver.count()["blocks"] > before + 20)

    def close(self) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join()
        for made in (self._publisher, self.server, self.receiver, self._ring, self.guard, self._other):
            made.close()
        for made in self._contexts:
            made.destroy(0)


@pytest.fixture
def sockets(car: Layout, ring_name: str) -> Iterator[Sockets]:
    made = Sockets(car, ring_name)
    made.still_right()
    yield made
    made.close()


def _told_until_cut(peer: socket.socket) -> int:
    """Bytes that the other side says until it hangs up."""
    told = 0
    try:
        while data := peer.recv(1 << 16):
            told += len(data)
    except OSError:
        pass
    return told


def _flood(where: Port, kind: bytes, messages: Iterable[bytes]) -> bool:
    """Whether we were cut off before all of it was said."""
    try:
        with dial(where, kind) as peer:
            for message in messages:
                peer.sendall(message)
    except OSError:
        return True
    return False


def _resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def test_a_subscriber_that_never_stops_asking_is_cut_off_and_its_topics_are_forgotten(sockets: Sockets) -> None:
    before = _resident_mb()
    assert _flood(sockets.blocks, b"SUB", (frame(b"\1%0200d" % k) for k in range(1_000_000)))
    sockets.until(lambda: sockets.guard.cut == 1)
    assert _resident_mb() - before < 100  # all of them would take gigabytes
    assert any("cut off" in text for text in sockets.guard.news())
    sockets.still_right()


def test_a_message_without_end_is_cut_off(sockets: Sockets) -> None:
    assert _flood(sockets.clock, b"REQ", (frame(bytes(2000), more=True) for _ in range(1_000_000)))
    sockets.until(lambda: sockets.guard.cut == 1)


QUESTION = frame(b"", more=True) + frame(b"\x81\xa2a0\x01")


@pytest.mark.slow
def test_who_has_asked_honestly_for_long_may_leave_no_more_unread_than_others(sockets: Sockets) -> None:
    sent, pieces = 0, frame(bytes(2000), more=True) * 32
    with dial(sockets.clock, b"REQ") as peer:
        threading.Thread(target=_told_until_cut, args=(peer,), daemon=True).start()
        for _ in range(500):
            peer.sendall(QUESTION * 100)
        sockets.until(lambda: sockets.server.requests == 50_000)
        assert sockets.server.malformed == sockets.guard.cut == 0
        asked = sockets.received()
        try:
            while sent < 64 << 20:
                peer.sendall(pieces)
                sent += len(pieces)
                sockets.until(lambda all_=asked + sent: sockets.guard.cut == 1 or sockets.counted() >= all_)
        except OSError:
            pass
    assert 512 << 10 < sent < 2 << 20
    sockets.until(lambda: sockets.guard.cut == 1)


def test_who_never_greets_makes_room_for_those_who_do(sockets: Sockets) -> None:
    silent = [socket.create_connection(sockets.clock) for _ in range(40)]
    sockets.until(lambda: sockets.guard.cut == 40 - 32)
    with dial(sockets.clock, b"REQ") as peer:
        peer.sendall(QUESTION)
        assert peer.recv(4096)
        silent += [socket.create_connection(sockets.clock) for _ in range(40)]
        sockets.until(lambda: sockets.guard.cut == 80 + 1 - 32)
        peer.sendall(QUESTION)  # it was none of them
        assert peer.recv(4096)
    for each in silent:
        each.close()


def test_every_message_that_is_too_long_ends_its_connection_and_is_counted(sockets: Sockets) -> None:
    for where, kind in ((sockets.blocks, b"SUB"), (sockets.clock, b"REQ")):
        for _ in range(20):
            with dial(where, kind) as peer:
                peer.sendall(TOO_LONG)
                _told_until_cut(peer)
    sockets.until(lambda: sockets.guard.cut == 40)
    sockets.still_right()


def test_every_question_that_is_none_is_counted_and_whoever_asks_waits(sockets: Sockets) -> None:
    with dial(sockets.clock, b"REQ") as peer:
        threading.Thread(target=_told_until_cut, args=(peer,), daemon=True).start()
        begun = time.monotonic()
        for _ in range(3000):
            peer.sendall(frame(b"", more=True) + frame(b"\xc1"))
        sockets.until(lambda: sockets.server.count() == {"asked": 3000, "malformed": 3000})
        assert time.monotonic() - begun > 3000 / 32 * 1e-3
    assert sockets.guard.count() == {"refused": 0, "cut": 0, "flooded": 0}


def test_so_many_connections_and_no_more(sockets: Sockets) -> None:
    there = [socket.create_connection(sockets.blocks) for _ in range(60)]  # and the receiver's own
    sockets.until(lambda: sockets.guard.cut == 60 + 1 - 32)
    sockets.still_right()
    for peer in there:
        peer.close()
    sockets.until(lambda: len(sockets.guard._watched[0][1]._connections) == 1)
    assert sockets.guard.cut == 29  # who leaves is not cut off


@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.0\r\n\r\n", os.urandom(200), greeting(b"SUB") + frame(b"\1")])
def test_where_there_are_keys_a_stranger_gets_a_greeting_and_nothing_else(
    said: bytes, car: Layout, ring_name: str, tmp_path: Path
) -> None:
    for name in ("daq", "sim"):
        make_keys(tmp_path / "keys", name)
    sockets = Sockets(car, ring_name, tmp_path / "keys")
    try:
        sockets.still_right()
        with socket.create_connection(sockets.blocks, PATIENCE_S) as peer:
            peer.sendall(said)
            if not said.startswith(b"\xff"):
                with contextlib.suppress(OSError):  # we were cut off already
                    peer.shutdown(socket.SHUT_WR)
            assert _told_until_cut(peer) <= 64  # the greeting, which is the same for everyone
        sockets.until(lambda: sockets.guard.refused == 1)
        assert sockets.guard.cut == 0
        sockets.still_right()
    finally:
        sockets.close()


def test_key_files_that_do_not_count_are_said(tmp_path: Path) -> None:
    make_keys(tmp_path / "keys", "daq")
    public = (tmp_path / "keys" / "daq.key").read_bytes()
    (tmp_path / "keys" / "a_long.key").write_bytes(public + b"#" * 4096)
    assert [*admitted(tmp_path / "keys")[1]] == ["a_long.key"]
    for k in range(256):
        (tmp_path / "keys" / f"k{k:03}.key").touch()
    assert [*admitted(tmp_path / "keys")[1]] == ["k254.key", "a_long.key"]


@pytest.mark.parametrize("made", [None, 0o755, 0o775, 0o1777, 0o1775, "another's"])
def test_compiled_code_is_taken_only_from_a_folder_that_nobody_else_writes(
    made: int | str | None, tmp_path: Path
) -> None:
    folder = tmp_path / folder_name()
    if made is not None:
        folder.mkdir()
        folder.chmod(made if isinstance(made, int) else 0o755)
    if isinstance(made, str):
        if os.geteuid() != 0:
            pytest.skip("only root gives away")
        os.chown(folder, 12345, -1)
    program = "from sync.compile import jit; jit.kernel()"
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment(TANDEM_CACHE=str(tmp_path)),
        stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    refused = made not in (None, 0o755)
    assert (done.returncode != 0) == refused == (f"{folder}: " in done.stderr and "TANDEM_CACHE" in done.stderr)
    assert made is not None or folder.stat().st_mode & 0o777 == 0o700


def _refuse(*_: object) -> None:
    raise PermissionError


def test_a_core_that_real_time_threads_use_up_together_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    if not realtime.permitted(1):
        pytest.skip("real-time priority is not permitted here")
    monkeypatch.setattr(realtime, "_CROWDED", 0.1)  # without stopping the machine that this runs on
    end, core = threading.Event(), max(os.sched_getaffinity(0))

    def work() -> None:
        realtime.this_thread(1, core)
        while not end.wait(0.005):
            until = time.monotonic() + 0.002
            while time.monotonic() < until:
                pass

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    warden = Warden()
    limit = time.monotonic() + PATIENCE_S
    try:
        while not warden.notices:
            assert time.monotonic() < limit
            time.sleep(0.02)
            warden.poll()
        (said,) = warden.notices
        assert f"% of core {core}" in said and "realtime.daq_core" in said
        assert warden.flooded == 0
    finally:
        end.set()
        for thread in threads:
            thread.join()


def test_a_thread_that_is_flooded_loses_its_priority_until_that_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    if not realtime.permitted(1):
        pytest.skip("real-time priority is not permitted here")
    monkeypatch.setattr(realtime, "_QUIET_NS", 200_000_000)
    spin, end = threading.Event(), threading.Event()

    def work() -> None:
        realtime.this_thread(1)
        while not end.is_set():
            if not spin.is_set():
                time.sleep(0.001)

    thread = threading.Thread(target=work)
    thread.start()
    warden = Warden()
    warden.watch(thread)
    assert thread.native_id is not None

    def until(policy: int) -> None:
        limit = time.monotonic() + PATIENCE_S
        while os.sched_getscheduler(thread.native_id or 0) != policy:
            assert time.monotonic() < limit
            time.sleep(0.02)
            warden.poll()

    try:
        until(os.SCHED_FIFO)
        spin.set()
        until(os.SCHED_OTHER)
        assert warden.flooded == 1
        spin.clear()
        with monkeypatch.context() as without_rights:
            without_rights.setattr(os, "sched_setscheduler", _refuse)
            limit = time.monotonic() + PATIENCE_S
            while not warden.notices:
                assert time.monotonic() < limit
                time.sleep(0.02)
                warden.poll()
        assert "does not get its real-time priority back" in warden.notices[0]
        until(os.SCHED_FIFO)
        assert os.sched_getparam(thread.native_id).sched_priority == 1
    finally:
        end.set()
        thread.join()
