"""Keys on the wire: who may connect, and to whom we connect (CURVE, ZeroMQ's own).

Each host has a key pair: `NAME.key` is public, `NAME.key_secret` stays where it was made and is readable by its owner
alone. A folder of keys holds the host's own pair and the public keys of all its peers. A bound socket admits only
peers whose public key is in the folder; a connecting socket presents its own key and accepts only a peer that proves to
have the other side's. Messages are encrypted and cannot be changed or replayed on the way.

The folder is read at every connection: a key copied there is admitted from then on. Connections are checked against
these keys in sync/transport/socket_guard.py.
"""

import os
import stat
import struct
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import zmq

from sync.config.extras import install
from sync.errors import ConfigError, WireError
from sync.files.private import written
from sync.files.regular import open_regular

if TYPE_CHECKING:
    from sync.config.config import Config

PUBLIC, SECRET = ".key", ".key_secret"
_OTHERS = 0o077
_OTHERS_WRITE = 0o022
_MOST_BYTES = 4096  # of a key file
_MOST_FILES = 256


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
        raise ConfigError(f"{file}: a secret key that others may read is not used; chmod 600 {file}, or make another")
    _need_owner(file)
    if secret is None:
        raise ConfigError(f"{file}: holds no secret key; it must be the {own}{SECRET} that `tandem keys {own}` made")
    if zmq.curve_public(secret) != public or _public(folder, own, "beside its secret one") != public:
        raise ConfigError(f"{file}: does not belong to {own}{PUBLIC}; both must be of one `tandem keys {own}`")
    theirs = _public(folder, their, f"copy {their}{PUBLIC} from the host where `tandem keys {their}` made it")
    return Keys(folder, own, their, public, secret, theirs)


def _need_owner(path: Path) -> None:
    """Raises ConfigError if another user owns it (root may): an owner may change it, whatever its mode is now."""
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
        open_regular(file).close()
        public, secret = load_certificate(file) if file.stat().st_size <= _MOST_BYTES or file.is_dir() else (b"", None)
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from None
    except (ValueError, IndexError):  # no public key, or a line without its `=`
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
    """Keys of the `daq` or the `sim` service; None where the configuration has no keys."""
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
        if os.path.lexists(file):
            raise ConfigError(f"{file}: is there already, and stays; choose another name, or move it away yourself")
    before = os.umask(_OTHERS)  # never readable by others, not even while it is being written
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.stat().st_mode & _OTHERS_WRITE:
            raise ConfigError(f"{folder}: others may write here and so let themselves in; chmod 700 {folder}")
        with tempfile.TemporaryDirectory() as scratch:
            create_certificates(scratch, name)
            for file in (public, secret):
                with written(file) as part:
                    part.write_bytes((Path(scratch) / file.name).read_bytes())
    except OSError as error:
        raise ConfigError(f"{error.filename or folder}: cannot be written: {error.strerror}") from None
    finally:
        os.umask(before)
    return public, secret


def _need_curve() -> None:
    if not zmq.has("curve"):
        raise WireError(
            f"this ZeroMQ was built without CURVE, so it knows no keys; `{install('pyzmq')}` brings one that does"
        )


_Signature = tuple[tuple[str, int, int, int], ...]
_known: dict[Path, tuple[_Signature, set[bytes]]] = {}


def admitted(folder: Path) -> tuple[set[bytes], dict[str, str]]:
    """(public keys of all peers that may connect, names of files that are not used, and why).

    This is called at every connection, so the files are read again only when one of them has changed.
    """
    from zmq.auth import load_certificate  # brings asyncio with it

    files = []
    skipped = {}
    there = sorted(folder.glob(f"*{PUBLIC}"))
    if len(there) > _MOST_FILES:
        skipped[there[_MOST_FILES].name] = f"only {_MOST_FILES} files count, so it and those after it let nobody in"
    for file in there[:_MOST_FILES]:
        try:
            info = file.stat()
        except OSError:
            continue
        if info.st_mode & _OTHERS_WRITE:
            skipped[file.name] = "others may write it, so it lets nobody in; chmod 644 it"
        elif not stat.S_ISREG(info.st_mode):
            skipped[file.name] = "is no file, so it lets nobody in"
        elif info.st_size > _MOST_BYTES:
            skipped[file.name] = f"longer than {_MOST_BYTES} bytes, so it is no key and lets nobody in"
        else:
            files.append((file.name, info.st_mtime_ns, info.st_ctime_ns, info.st_ino))
    signature = tuple(files)
    known = _known.get(folder)
    if known is None or known[0] != signature:
        found = set()
        for name, *_ in files:
            try:
                found.add(load_certificate(folder / name)[0])
            except (OSError, ValueError, IndexError):
                continue  # not a key
        known = _known[folder] = signature, found
    return known[1], skipped
