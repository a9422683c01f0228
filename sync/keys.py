"""Keys on the wire: who may connect, and to whom we connect (CURVE, ZeroMQ's own).

Each host has a key pair: `NAME.key` is public, `NAME.key_secret` stays where it was made and is readable by its owner
alone. A folder of keys holds the host's own pair and the public keys of all others it has to do with. Whoever binds a
socket lets in only those whose public key is in the folder; whoever connects presents the own key and demands the one
the other side is known by. What travels is encrypted and cannot be changed or replayed on the way.

The folder is looked into at every connection: a key copied there counts from then on.

pyzmq's own authenticator would let in and refuse as well, but it never sees those who do not get as far as showing a
key (none at all, or a wrong one expected of us), so they could not be counted; hence the few lines of ZAP here, beside
the monitors that see them all.
"""

import itertools
import os
import struct
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import zmq

from sync.errors import ConfigError, WireError

if TYPE_CHECKING:
    from sync.config import Config

PUBLIC, SECRET = ".key", ".key_secret"
_OTHERS = 0o077
_OTHERS_WRITE = 0o022
_POLL_MS = 50
_SURE = 3  # handshakes broken off without a reason: once may be chance
_DOMAIN = b"tandem"
_numbers = itertools.count()

_FAILED = (
    zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL,
    zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL,
    zmq.EVENT_HANDSHAKE_FAILED_AUTH,
)


# ---- files -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Keys:
    """What a service needs of its folder."""

    folder: Path
    own: str
    their: str
    public: bytes
    secret: bytes = field(repr=False)
    theirs: bytes


def read_keys(folder: Path, own: str, their: str) -> Keys:
    """The own pair and the other side's public key; a ConfigError that names the file if anything is wrong."""
    _need_curve()
    if not folder.is_dir():
        raise ConfigError(f"{folder}: no such folder of keys; `tandem keys {own} --folder {folder}` makes it")
    if folder.stat().st_mode & _OTHERS_WRITE:
        raise ConfigError(f"{folder}: others may write here and so let themselves in; chmod 700 {folder}")
    _need_owner(folder)
    file = folder / (own + SECRET)
    public, secret = _read(file, f"`tandem keys {own} --folder {folder}` makes it, on the host it is for")
    if file.stat().st_mode & _OTHERS:
        raise ConfigError(f"{file}: a secret key that others may read is none; chmod 600 {file}, or make another")
    _need_owner(file)
    if secret is None:
        raise ConfigError(f"{file}: holds no secret key; it must be the {own}{SECRET} that `tandem keys {own}` made")
    if zmq.curve_public(secret) != public or _public(folder, own, "beside its secret one") != public:
        raise ConfigError(f"{file}: does not belong to {own}{PUBLIC}; both must be of one `tandem keys {own}`")
    theirs = _public(folder, their, f"copy {their}{PUBLIC} from the host where `tandem keys {their}` made it")
    return Keys(folder, own, their, public, secret, theirs)


def _need_owner(path: Path) -> None:
    """Whoever owns it may change it, whatever its mode is now."""
    if path.stat().st_uid not in (os.geteuid(), 0):
        raise ConfigError(f"{path}: belongs to another user, who may change it; chown it to the one who runs tandem")


def _public(folder: Path, name: str, right: str) -> bytes:
    file = folder / (name + PUBLIC)
    public, secret = _read(file, right)
    if file.stat().st_mode & _OTHERS_WRITE:
        raise ConfigError(f"{file}: others may write it and so take its place; chmod 644 {file}")
    if secret is not None:
        raise ConfigError(f"{file}: holds a secret key; only the public one, {name}{PUBLIC}, may leave its host")
    return public


def _read(file: Path, right: str) -> tuple[bytes, bytes | None]:
    from zmq.auth import load_certificate  # brings asyncio with it

    if not file.exists():
        raise ConfigError(f"{file}: no such key; {right}")
    try:
        public, secret = load_certificate(file)
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from None
    except (ValueError, IndexError):  # no public key; a line of one that lacks its `=`
        public, secret = b"", None
    for key in (public, secret):
        if key is not None and not _sound(key):
            raise ConfigError(f"{file}: is not a key file as `tandem keys` writes it")
    return public, secret


def _sound(key: bytes) -> bool:
    from zmq.utils import z85

    try:
        return len(key) == 40 and len(z85.decode(key)) == 32
    except (ValueError, KeyError, struct.error):
        return False


def transport_keys(config: "Config", file: Path, role: str) -> Keys | None:
    """Of the `daq` or the `sim` service; None where the configuration has no keys."""
    to = config.transport
    if not to.keys:
        return None
    own, their = (to.daq_key, to.sim_key) if role == "daq" else (to.sim_key, to.daq_key)
    return read_keys(file.parent / to.keys, own, their)


def make_keys(folder: Path, name: str) -> tuple[Path, Path]:
    """A new pair; (public file, secret file). Nothing is overwritten."""
    from zmq.auth import create_certificates  # brings asyncio with it

    _need_curve()
    public, secret = folder / (name + PUBLIC), folder / (name + SECRET)
    for file in (public, secret):
        if file.exists():
            raise ConfigError(f"{file}: is there already, and stays; choose another name, or move it away yourself")
    before = os.umask(_OTHERS)  # never readable by others, not even while it is being written
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.stat().st_mode & _OTHERS_WRITE:
            raise ConfigError(f"{folder}: others may write here and so let themselves in; chmod 700 {folder}")
        create_certificates(folder, name)
        secret.chmod(0o600)
    except OSError as error:
        raise ConfigError(f"{error.filename or folder}: cannot be written: {error.strerror}") from None
    finally:
        os.umask(before)
    return public, secret


def _need_curve() -> None:
    if not zmq.has("curve"):
        raise WireError(
            "this ZeroMQ was built without CURVE, so it knows no keys; `pip install pyzmq` brings one that does"
        )


# ---- sockets ---------------------------------------------------------------------------------------------------------


class Gate:
    """Keys at work in one ZeroMQ context. Made before its sockets, closed after them."""

    def __init__(self, zmq_context: "zmq.Context[zmq.Socket[bytes]]", keys: Keys):
        self.keys = keys
        self.refused = 0  # connections to us that did not get in
        self.shut_out = 0  # connections of ours that did not get in there
        self._context = zmq_context
        self._monitors: list[tuple[zmq.Socket[bytes], bool]] = []
        self._said: set[str] = set()
        self._sure = False
        self._skipped: set[str] = set()  # files that others may write
        self._failed = ""
        self._stop = threading.Event()
        self._zap = zmq_context.socket(zmq.REP)
        self._zap.set(zmq.LINGER, 0)
        self._zap.bind("inproc://zeromq.zap.01")
        self._thread = threading.Thread(target=self._run, name="keys", daemon=True)
        self._thread.start()

    def serve(self, socket: "zmq.Socket[bytes]") -> None:
        """For a socket that will be bound."""
        socket.set(zmq.CURVE_SERVER, 1)
        socket.set(zmq.CURVE_PUBLICKEY, self.keys.public)
        socket.set(zmq.CURVE_SECRETKEY, self.keys.secret)
        socket.set(zmq.ZAP_DOMAIN, _DOMAIN)
        socket.set(zmq.ZAP_ENFORCE_DOMAIN, 1)  # without a gate nobody gets in, instead of everybody
        self._watch(socket, True)

    def present(self, socket: "zmq.Socket[bytes]") -> None:
        """For a socket that will connect."""
        socket.set(zmq.CURVE_SERVERKEY, self.keys.theirs)
        socket.set(zmq.CURVE_PUBLICKEY, self.keys.public)
        socket.set(zmq.CURVE_SECRETKEY, self.keys.secret)
        self._watch(socket, False)

    def _watch(self, socket: "zmq.Socket[bytes]", bound: bool) -> None:
        endpoint = f"inproc://tandem.gate.{next(_numbers)}"
        socket.monitor(endpoint, sum(_FAILED))
        monitor = self._context.socket(zmq.PAIR)
        monitor.set(zmq.LINGER, 0)
        monitor.connect(endpoint)
        self._monitors.append((monitor, bound))

    def news(self) -> list[str]:
        """What a person should read, each sentence once."""
        found = []
        if self.refused:
            found.append(
                f"somebody was refused who has no key in {self.keys.folder}, or does not know ours ({self.keys.own}"
                f"{PUBLIC}); counted"
            )
        if self._sure or self.shut_out >= _SURE:
            found.append(
                f"we are not let in: the other host must have our {self.keys.own}{PUBLIC} in its folder of keys, be"
                f" configured with keys, and be the owner of our {self.keys.their}{PUBLIC}"
            )
        for name in sorted(self._skipped):
            found.append(f"{self.keys.folder / name}: others may write it, so it lets nobody in; chmod 644 it")
        if self._failed:
            found.append(f"keys are not looked at any more, and nobody else is let in: {self._failed}")
        new = [text for text in found if text not in self._said]
        self._said.update(new)
        return new

    def _run(self) -> None:
        from zmq.utils.monitor import parse_monitor_message

        try:
            while not self._stop.is_set():
                watched = list(self._monitors)
                poller = zmq.Poller()
                poller.register(self._zap, zmq.POLLIN)
                for monitor, _ in watched:
                    poller.register(monitor, zmq.POLLIN)
                ready = dict(poller.poll(_POLL_MS))
                if self._zap in ready:
                    self._answer(self._zap.recv_multipart())
                for monitor, bound in watched:
                    if monitor in ready:
                        self._note(parse_monitor_message(monitor.recv_multipart())["event"], bound)
        except zmq.ContextTerminated:
            pass  # the end
        except Exception as error:
            self._failed = f"{type(error).__name__}: {error}"
        finally:
            self._zap.close()
            for monitor, _ in self._monitors:
                monitor.close()

    def _note(self, event: int, bound: bool) -> None:
        if event not in _FAILED:
            return
        if bound:
            self.refused += 1
        else:
            self.shut_out += 1
            self._sure = self._sure or event != zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL

    def _answer(self, request: list[bytes]) -> None:
        """ZAP 1.0: version, request, domain, address, identity, mechanism, credentials."""
        from zmq.utils import z85

        known = len(request) == 7 and request[5] == b"CURVE" and z85.encode(request[6]) in self._admitted()
        number = request[1] if len(request) > 1 else b""
        verdict = [b"200", b"OK", b"known"] if known else [b"400", b"no such key here", b""]
        self._zap.send_multipart([b"1.0", number, *verdict, b""])

    def _admitted(self) -> set[bytes]:
        from zmq.auth import load_certificate  # brings asyncio with it

        found = set()
        for file in self.keys.folder.glob(f"*{PUBLIC}"):
            try:
                if file.stat().st_mode & _OTHERS_WRITE:
                    self._skipped = self._skipped | {file.name}
                    continue
                found.add(load_certificate(file)[0])
            except (OSError, ValueError, IndexError):
                continue  # not a key
        return found

    def close(self) -> None:
        self._stop.set()
        self._thread.join(2.0)
