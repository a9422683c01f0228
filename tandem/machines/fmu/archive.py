"""An FMU's file, unpacked: modelDescription.xml, the code for this host, resources. Nothing else leaves the archive.

Consent comes first (sync/files/consent.py): without it a file is looked into in memory (`inspect`), and nothing of it
is written anywhere. With it, it is unpacked once, into a folder named by the hash of the file, beside compiled code: it
is code, and that folder is its owner's alone (sync/compile/dependencies.py). What is no zip file, has names that lead
out of the folder, links, or more than a sane FMU would hold is refused before a byte is written.
"""

import hashlib
import io
import os
import platform
import shlex
import shutil
import stat
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from sync.compile import dependencies
from sync.errors import ConfigError
from sync.files import consent
from sync.files.regular import read_regular
from sync.visible import on_one_line
from tandem.machines.fmu.variables import MOST_XML

MOST_FILE, MOST_ENTRIES, MOST_UNPACKED = 512 << 20, 20_000, 1 << 30
_ENTRY = b"PK\x01\x02"  # begins what the directory of a zip file has of an entry
_RATIO = 1200  # deflate makes no more of a byte than 1032
DESCRIPTION = "modelDescription.xml"
_MACHINE = {"AMD64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())
# as FMI 3.0 calls this platform, and FMI 2.0
PLATFORMS = {3: f"{_MACHINE}-linux", 2: {"x86_64": "linux64", "i686": "linux32"}.get(_MACHINE, f"{_MACHINE}-linux")}


@dataclass(frozen=True)
class Unpacked:
    hash: str
    folder: Path
    xml: bytes


@dataclass(frozen=True)
class Inspected:
    """What a file holds, as it says; nothing of it has been written or run."""

    hash: str
    size: int  # bytes
    platforms: tuple[str, ...]  # that it has code for
    xml: bytes


def cache() -> Path:
    folder = dependencies.cache_directory().parent / "fmu"
    dependencies.own_folder(folder)
    return folder


def consent_command(file: str) -> str:
    return on_one_line(f"tandem fmu {shlex.quote(file)} --allow")


def unpacked(hash: str, name: str) -> Unpacked:
    """One that was unpacked before. Raises ConsentMissing, and ConfigError where it was not."""
    if len(hash) != 64 or set(hash) - set("0123456789abcdef"):
        raise ConfigError(f"{name}: {hash[:64]!r} is no hash of an FMU; 64 hexadecimal digits are expected")
    command = consent_command("FILE.fmu")
    consent.need(hash, name, command)
    folder = cache() / hash
    if not folder.is_dir():
        raise ConfigError(
            f"{name}: the FMU with the hash {hash} is not here, and a record has no code of others; `{command}` of that"
            " file brings it, then this works"
        )
    return Unpacked(hash, folder, (folder / DESCRIPTION).read_bytes())


def inspect(file: Path) -> Inspected:
    """Raises ConfigError that names the file and what is wrong with it."""
    content, hash = _read(file)
    with _archive(file, content) as archive:
        wanted = _checked(file, archive.infolist())
        platforms = {PurePosixPath(name).parts[1:2] for name in archive.namelist() if name.startswith("binaries/")}
        found = [entry for entry in wanted if entry.filename == DESCRIPTION]
        xml = b"".join(part for entry in found for part in _content(archive, entry, MOST_XML, file))
    if not xml:
        raise ConfigError(f"{file}: has no {DESCRIPTION}; an FMU has one")
    return Inspected(hash, len(content), tuple(sorted(part for parts in platforms for part in parts)), xml)


def unpack(file: Path) -> Unpacked:
    """Raises ConsentMissing before anything of it is written; ConfigError that names what is wrong with the file."""
    content, hash = _read(file)
    consent.need(hash, str(file), consent_command(str(file)))
    folder = cache() / hash
    if not folder.is_dir():
        part = Path(tempfile.mkdtemp(prefix=".part-", dir=cache()))
        try:
            _extract(file, content, part)
            try:
                part.rename(folder)
            except OSError:  # another process was faster: it has the same
                if not folder.is_dir():
                    raise
        finally:
            shutil.rmtree(part, ignore_errors=True)
    return unpacked(hash, str(file))


def forget(hash: str) -> None:
    """Remove what was unpacked of it."""
    shutil.rmtree(cache() / hash, ignore_errors=True)


def _read(file: Path) -> tuple[bytes, str]:
    """The content and its hash: what was consented to is what is unpacked, whatever becomes of the file meanwhile."""
    try:
        size = file.stat().st_size
        if size > MOST_FILE:
            raise ConfigError(f"{file}: {size >> 20} MiB; an FMU of more than {MOST_FILE >> 20} MiB is not read")
        content = read_regular(file)
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from None
    return content, hashlib.sha256(content).hexdigest()


@contextmanager
def _archive(file: Path, content: bytes) -> Iterator[zipfile.ZipFile]:
    if (entries := content.count(_ENTRY)) > MOST_ENTRIES:  # before zipfile makes an object of each
        raise ConfigError(f"{file}: {entries} entries; at most {MOST_ENTRIES} are read")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            yield archive
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, ValueError, OSError) as error:
        # RuntimeError: encrypted; NotImplementedError: a compression that no FMU has
        raise ConfigError(f"{file}: no readable FMU: {error or type(error).__name__}") from None


def _extract(file: Path, content: bytes, folder: Path) -> None:
    with _archive(file, content) as archive:
        left = MOST_UNPACKED
        for entry in _checked(file, archive.infolist()):
            target = folder / entry.filename
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
                for chunk in _content(archive, entry, left, file):
                    left -= len(chunk)
                    out.write(chunk)
    if not (folder / DESCRIPTION).is_file():
        raise ConfigError(f"{file}: has no {DESCRIPTION}; an FMU has one")


def _checked(file: Path, entries: list[zipfile.ZipInfo]) -> list[zipfile.ZipInfo]:
    wanted, seen, total = [], set(), 0
    for entry in entries:
        name, path = entry.filename, PurePosixPath(entry.filename)
        if path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name or ":" in name.partition("/")[0]:
            raise ConfigError(f"{file}: the entry {name!r} leads out of the archive")
        if stat.S_ISLNK(entry.external_attr >> 16):
            raise ConfigError(f"{file}: the entry {name!r} is a link")
        if entry.is_dir() or not _needed(path):
            continue
        if str(path) in seen:
            raise ConfigError(f"{file}: the entry {name!r} is there twice")
        seen.add(str(path))
        total += entry.file_size
        most = MOST_XML if name == DESCRIPTION else MOST_UNPACKED
        if total > MOST_UNPACKED or entry.file_size > min(most, _RATIO * max(entry.compress_size, 1)):
            raise ConfigError(f"{file}: the entry {name!r} would be {entry.file_size} bytes; that is no FMU")
        wanted.append(entry)
    return wanted


def _needed(path: PurePosixPath) -> bool:
    own = path.parts[:1] == ("binaries",) and path.parts[1:2] and path.parts[1] in PLATFORMS.values()
    return bool(str(path) == DESCRIPTION or path.parts[:1] == ("resources",) or own)


def _content(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, most: int, file: Path) -> Iterator[bytes]:
    """Refuses more bytes than the archive says, or than `most`."""
    found = 0
    with archive.open(entry) as source:
        while chunk := source.read(1 << 20):
            found += len(chunk)
            if found > min(entry.file_size, most):
                raise ConfigError(f"{file}: the entry {entry.filename!r} is larger than it says")
            yield chunk
