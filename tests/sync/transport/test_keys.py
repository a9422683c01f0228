"""Keys: who has the right one gets blocks, who has not gets nothing and is counted; wrong files are told before."""

import os
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
import zmq

from sync.config.config import Config
from sync.config.toml import check, read_toml
from sync.errors import ConfigError
from sync.ring.block import Layout
from sync.ring.ring import RingWriter
from sync.transport.host_clock import Artificial, ClockClient, ClockServer
from sync.transport.keys import Keys, make_keys, read_keys, transport_keys
from sync.transport.socket_guard import SocketGuard
from sync.transport.wire import Context, Publisher, Receiver, context
from tests.ports import free_port
from tests.sync.config.test_config import DRIVE
from tests.sync.transport.test_wire import PATIENCE_S, block_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of both hosts at once, and of a stranger who is not in it."""
    for name in ("daq", "sim"):
        make_keys(tmp_path / "keys", name)
    make_keys(tmp_path / "elsewhere", "sim")
    make_keys(tmp_path / "elsewhere", "daq")
    return tmp_path / "keys"


# ---- files -----------------------------------------------------------------------------------------------------------


def test_a_pair_is_made_for_its_owner_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        public, secret = make_keys(tmp_path / "new" / "keys", "daq")
    finally:
        os.umask(before)
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert stat.S_IMODE(public.parent.stat().st_mode) == 0o700
    assert "secret-key" in secret.read_text() and "secret-key" not in public.read_text()


@pytest.mark.parametrize("there", ["daq.key", "daq.key_secret"])
def test_nothing_is_overwritten(tmp_path: Path, there: str) -> None:
    tmp_path.chmod(0o700)
    (tmp_path / there).write_text("precious")
    with pytest.raises(ConfigError, match=f"{there}: is there already"):
        make_keys(tmp_path, "daq")
    assert [p.name for p in tmp_path.iterdir()] == [there]
    assert (tmp_path / there).read_text() == "precious"


def test_both_roles_read_their_own_pair_and_the_other_s_public_key(folder: Path) -> None:
    daq, sim = read_keys(folder, "daq", "sim"), read_keys(folder, "sim", "daq")
    assert daq.public == sim.theirs and sim.public == daq.theirs and daq.secret != sim.secret
    assert daq.secret.decode() not in repr(daq)
    (folder / "sim.key_secret").unlink()  # as on the DAQ's own host
    assert read_keys(folder, "daq", "sim") == daq


WRONG: dict[str, tuple[Callable[[Path], object], str]] = {
    "no secret key": (lambda f: (f / "daq.key_secret").unlink(), r"daq.key_secret: no such key; .*tandem keys daq"),
    "no public key": (lambda f: (f / "daq.key").unlink(), r"daq.key: no such key"),
    "not copied": (lambda f: (f / "sim.key").unlink(), r"sim.key: no such key; copy sim.key from the host"),
    "group may read": (lambda f: (f / "daq.key_secret").chmod(0o640), r"daq.key_secret: .*others may read.*chmod 600"),
    "others may read": (lambda f: (f / "daq.key_secret").chmod(0o604), r"daq.key_secret: .*others may read"),
    "others may write": (lambda f: f.chmod(0o777), r"keys: others may write here.*chmod 700"),
    "others may change it": (lambda f: (f / "sim.key").chmod(0o664), r"sim.key: others may write it.*chmod 644"),
    "empty": (lambda f: (f / "sim.key").write_text(""), r"sim.key: is not a key file"),
    "binary": (lambda f: (f / "sim.key").write_bytes(bytes(range(256))), r"sim.key: is not a key file"),
    "short": (lambda f: (f / "sim.key").write_text('public-key = "abc"'), r"sim.key: is not a key file"),
    "not z85": (lambda f: (f / "sim.key").write_text(f'public-key = "{"~" * 40}"'), r"sim.key: is not a key file"),
    "no =": (lambda f: (f / "sim.key").write_text('public-key "abc"'), r"sim.key: is not a key file"),
    "a folder": (lambda f: ((f / "sim.key").unlink(), (f / "sim.key").mkdir()), r"sim.key: cannot be read"),
    "secret one copied": (lambda f: (f / "sim.key_secret").replace(f / "sim.key"), r"sim.key: holds a secret key"),
    "public one renamed": (
        lambda f: ((f / "daq.key_secret").write_text((f / "daq.key").read_text())),
        r"daq.key_secret: holds no secret key",
    ),
    "not a pair": (
        lambda f: (f.parent / "elsewhere" / "daq.key_secret").replace(f / "daq.key_secret"),
        r"daq.key_secret: does not belong to daq.key",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_file_is_named_with_what_would_be_right(folder: Path, what: str) -> None:
    spoil, said = WRONG[what]
    spoil(folder)
    with pytest.raises(ConfigError, match=said):
        read_keys(folder, "daq", "sim")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("what", ["", "daq.key_secret"])
def test_what_belongs_to_somebody_else_is_not_trusted(folder: Path, what: str) -> None:
    os.chown(folder / what, 12345, -1)
    with pytest.raises(ConfigError, match=r"belongs to another user.*chown"):
        read_keys(folder, "daq", "sim")


def test_a_folder_that_is_not_there_is_told_with_what_makes_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere: no such folder of keys; `tandem keys daq --folder .*nowhere`"):
        read_keys(tmp_path / "nowhere", "daq", "sim")


def _configured(**transport: object) -> Config:
    data = read_toml(DRIVE)
    data["transport"].update(transport)
    return check(Config, data, "run.toml")


def test_with_keys_the_network_needs_no_trust_and_the_folder_is_beside_the_file(folder: Path) -> None:
    config = _configured(kind="tcp", daq_host="192.0.2.1", sim_host="192.0.2.2", keys="keys")
    keys = transport_keys(config, folder.parent / "run.toml", "sim")
    assert keys == read_keys(folder, "sim", "daq")
    assert transport_keys(_configured(kind="tcp"), folder.parent / "run.toml", "sim") is None


# ---- sockets ---------------------------------------------------------------------------------------------------------


Made = TypeVar("Made")


class Host:
    """A context of its own with these keys, or none."""

    def __init__(self, keys: Keys | None):
        self.context: Context = context()
        self.guard = SocketGuard(self.context, keys) if keys else None
        self._open: list[Any] = []

    def keep(self, made: Made) -> Made:
        self._open.append(made)
        return made

    def close(self) -> None:
        for made in self._open:
            made.close()
        if self.guard is not None:
            self.guard.close()
        self.context.destroy(0)


@pytest.fixture
def host() -> Iterator[Callable[[Keys | None], Host]]:
    made: list[Host] = []

    def make(keys: Keys | None) -> Host:
        made.append(Host(keys))
        return made[-1]

    yield make
    for each in made:
        each.close()


def connected(daq: Host, sim: Host, car: Layout, ring_name: str, waiting: int = 0) -> tuple[Publisher, Receiver]:
    """A publisher there, and a receiver here that asks to be let in."""
    endpoint = f"tcp://127.0.0.1:{free_port()}"
    publisher = daq.keep(Publisher(daq.context, endpoint, car, guard=daq.guard, waiting=waiting))
    ring = sim.keep(RingWriter(ring_name, car, 4096))
    receiver = sim.keep(Receiver(sim.context, endpoint, ring, guard=sim.guard, waiting=waiting))
    receiver.connect()
    return publisher, receiver


def _got(receiver: Receiver, publisher: Publisher, layout: Layout, until: Callable[[], bool]) -> int:
    """Publish and receive until it is so; how many blocks came."""
    seq, end = 0, time.monotonic() + PATIENCE_S
    while not until():
        assert time.monotonic() < end, receiver.count()
        publisher.publish(block_of(layout, 1, seq))
        seq += 1
        receiver.receive()
    return receiver.count()["blocks"]


@pytest.mark.parametrize("waiting", [0, 1000], ids=["newest", "every"])
def test_the_right_key_gets_blocks(
    folder: Path, host: Callable[..., Host], car: Layout, ring_name: str, waiting: int
) -> None:
    daq, sim = host(read_keys(folder, "daq", "sim")), host(read_keys(folder, "sim", "daq"))
    publisher, receiver = connected(daq, sim, car, ring_name, waiting)
    assert _got(receiver, publisher, car, lambda: receiver.count()["blocks"] > 20) > 20
    assert daq.guard is not None and sim.guard is not None
    assert (daq.guard.refused, daq.guard.news(), sim.guard.shut_out) == (0, [], 0)


@pytest.mark.parametrize("who", ["unknown client", "no key", "wrong server key"])
def test_whoever_has_not_the_right_key_gets_nothing_and_is_counted(
    folder: Path, host: Callable[..., Host], car: Layout, ring_name: str, who: str
) -> None:
    daq, elsewhere = host(read_keys(folder, "daq", "sim")), folder.parent / "elsewhere"
    known, stranger = read_keys(folder, "sim", "daq"), read_keys(elsewhere, "sim", "daq")
    asker = host(
        {
            "unknown client": Keys(elsewhere, "sim", "daq", stranger.public, stranger.secret, known.theirs),
            "no key": None,
            "wrong server key": Keys(folder, "sim", "daq", known.public, known.secret, stranger.theirs),
        }[who]
    )
    assert daq.guard is not None
    guard = daq.guard
    publisher, receiver = connected(daq, asker, car, ring_name)
    assert _got(receiver, publisher, car, lambda: guard.refused > 0) == 0
    # and the clock is as closed
    before, where = guard.refused, f"tcp://127.0.0.1:{free_port()}"
    daq.keep(ClockServer(daq.context, where, Artificial(), guard))
    client = asker.keep(ClockClient(asker.context, where, guard=asker.guard))
    client.connect()
    assert client.exchange() is None
    assert _got(receiver, publisher, car, lambda: guard.refused > before) == 0
    (said,) = guard.news()
    assert str(folder) in said and "refused" in said
    assert guard.news() == []  # once is enough
    if asker.guard is not None:
        asked = asker.guard
        assert _got(receiver, publisher, car, lambda: asked.shut_out >= 3) == 0
        assert "we are not let in" in asked.news()[0]


def test_a_server_that_has_no_keys_is_not_believed(
    folder: Path, host: Callable[..., Host], car: Layout, ring_name: str
) -> None:
    daq, sim = host(None), host(read_keys(folder, "sim", "daq"))
    publisher, receiver = connected(daq, sim, car, ring_name)
    assert sim.guard is not None
    guard = sim.guard
    assert _got(receiver, publisher, car, lambda: guard.shut_out > 0) == 0


def test_a_key_copied_into_the_folder_counts_from_then_on(
    folder: Path, host: Callable[..., Host], car: Layout, ring_name: str
) -> None:
    sim = host(read_keys(folder, "sim", "daq"))
    daq = host(read_keys(folder, "daq", "sim"))
    away = (folder / "sim.key").rename(folder / "sim.later")
    assert daq.guard is not None
    guard = daq.guard
    publisher, receiver = connected(daq, sim, car, ring_name)
    assert _got(receiver, publisher, car, lambda: guard.refused > 0) == 0
    away.rename(folder / "sim.key")
    assert _got(receiver, publisher, car, lambda: receiver.count()["blocks"] > 0) > 0


def test_without_its_gate_a_socket_lets_nobody_in(
    folder: Path, host: Callable[..., Host], car: Layout, ring_name: str
) -> None:
    daq, sim = host(read_keys(folder, "daq", "sim")), host(read_keys(folder, "sim", "daq"))
    endpoint = f"tcp://127.0.0.1:{free_port()}"
    assert daq.guard is not None
    publisher = daq.keep(Publisher(daq.context, endpoint, car, guard=daq.guard))
    daq.guard.close()
    ring = sim.keep(RingWriter(ring_name, car, 4096))
    receiver = sim.keep(Receiver(sim.context, endpoint, ring, guard=sim.guard))
    receiver.connect()
    end = time.monotonic() + 0.5
    assert _got(receiver, publisher, car, lambda: time.monotonic() > end) == 0


def test_what_travels_cannot_be_read(folder: Path, host: Callable[..., Host], car: Layout, ring_name: str) -> None:
    """Somebody in the middle, who passes everything on and looks at it."""
    import socket
    import threading

    daq, sim = host(read_keys(folder, "daq", "sim")), host(read_keys(folder, "sim", "daq"))
    port, middle = free_port(), free_port()
    publisher = daq.keep(Publisher(daq.context, f"tcp://127.0.0.1:{port}", car, guard=daq.guard))
    seen = bytearray()
    listener = socket.create_server(("127.0.0.1", middle))

    def pass_on(source: socket.socket, to: socket.socket) -> None:
        while data := source.recv(65536):
            seen.extend(data)
            to.sendall(data)

    def serve() -> None:
        near, _ = listener.accept()
        far = socket.create_connection(("127.0.0.1", port))
        with near, far:
            back = threading.Thread(target=pass_on, args=(near, far), daemon=True)
            back.start()
            pass_on(far, near)
            near.shutdown(socket.SHUT_RDWR)
            back.join()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    ring = sim.keep(RingWriter(ring_name, car, 4096))
    receiver = sim.keep(Receiver(sim.context, f"tcp://127.0.0.1:{middle}", ring, guard=sim.guard))
    receiver.connect()
    assert _got(receiver, publisher, car, lambda: receiver.count()["blocks"] > 20) > 20
    assert len(seen) > 2000
    assert b"CURVE" in seen and b"steering" not in seen and b"t_ns" not in seen
    publisher.close()
    receiver.close()
    thread.join(PATIENCE_S)
    listener.close()
    assert not thread.is_alive()


def test_curve_is_there() -> None:
    assert zmq.has("curve")


def test_a_key_that_others_may_write_lets_nobody_in_and_is_said(folder: Path) -> None:
    zmq_context = context()
    guard = SocketGuard(zmq_context, read_keys(folder, "daq", "sim"))
    try:
        public = (folder / "sim.key").read_bytes()
        (folder / "new.key").write_bytes(public)
        (folder / "new.key").chmod(0o666)
        (folder / "sim.key").unlink()
        (folder / "broken.key").write_text("public-key")  # no key: it must not end the guard for the others
        assert guard._admitted() == {guard.keys.public}
        assert any("new.key: others may write it" in text for text in guard.news()) and guard.news() == []
    finally:
        guard.close()
        zmq_context.destroy(0)


def test_a_gate_that_fails_says_so(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError("no more files")

    zmq_context = context()
    monkeypatch.setattr(SocketGuard, "_admitted", fail)
    keys = read_keys(folder, "daq", "sim")
    guard = SocketGuard(zmq_context, keys)
    try:
        knocking = zmq_context.socket(zmq.REQ)
        knocking.connect("inproc://zeromq.zap.01")
        knocking.send_multipart([b"1.0", b"1", b"tandem", b"", b"", b"CURVE", bytes(32)])
        end = time.monotonic() + PATIENCE_S
        while not (said := guard.news()):
            assert time.monotonic() < end
            time.sleep(0.01)
        assert "nobody else is let in: OSError: no more files" in said[0]
        knocking.close(0)
    finally:
        guard.close()
        zmq_context.destroy(0)
