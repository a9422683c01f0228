"""An FMU's file, unpacked: modelDescription.xml, the code for this host, resources. Nothing else leaves the archive.

It is unpacked once, into a folder named by the hash of the file, beside compiled code: it is code, and that folder is
its owner's alone (sync/jit.py). What is no zip file, has names that lead out of the folder, links, or more than a sane
FMU would hold is refused before a byte is written.
"""

import hashlib
import os
import platform
import shutil
import stat
import tempfile
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from sync import code_dependencies
from sync.errors import ConfigError
from sync.given_files import read_given

MOST_FILE, MOST_ENTRIES, MOST_UNPACKED, MOST_XML = 512 << 20, 20_000, 1 << 30, 32 << 20
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


def cache() -> Path:
    code_dependencies.own_cache()
    return code_dependencies.cache_directory().parent / "fmu"


def unpacked(hash: str, name: str) -> Unpacked:
    """One that was unpacked before. Raises ConfigError where it was not."""
    folder = cache() / hash
    if len(hash) != 64 or set(hash) - set("0123456789abcdef") or not folder.is_dir():
        raise ConfigError(
            f"{name}: the FMU with the hash {hash[:64]!r} has not been loaded here, and a record has no code of others;"
            " load a machine of that file once (a run, or tandem.load_machine), then this works"
        )
    return Unpacked(hash, folder, (folder / DESCRIPTION).read_bytes())


def unpack(file: Path) -> Unpacked:
    """Raises ConfigError that names the file and what is wrong with it."""
    try:
        size = file.stat().st_size
        if size > MOST_FILE:
            raise ConfigError(f"{file}: {size >> 20} MiB; an FMU of more than {MOST_FILE >> 20} MiB is not read")
        content = read_given(file)
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from None
    hash = hashlib.sha256(content).hexdigest()
    folder = cache() / hash
    if not folder.is_dir():
        cache().mkdir(mode=0o700, parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=".part-", dir=cache()))
        try:
            _extract(file, part)
            try:
                part.rename(folder)
            except OSError:  # another process was faster: it has the same
                if not folder.is_dir():
                    raise
        finally:
            shutil.rmtree(part, ignore_errors=True)
    return unpacked(hash, str(file))


def _extract(file: Path, folder: Path) -> None:
    try:
        with zipfile.ZipFile(file) as archive:
            wanted = _checked(file, archive.infolist())
            left = MOST_UNPACKED
            for entry in wanted:
                target = folder / entry.filename
                target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                left -= _write(archive, entry, target, left, file)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, ValueError, OSError) as error:
        # RuntimeError: encrypted; NotImplementedError: a compression that no FMU has
        raise ConfigError(f"{file}: no readable FMU: {error or type(error).__name__}") from None
    if not (folder / DESCRIPTION).is_file():
        raise ConfigError(f"{file}: has no {DESCRIPTION}; an FMU has one")


def _checked(file: Path, entries: list[zipfile.ZipInfo]) -> list[zipfile.ZipInfo]:
    if len(entries) > MOST_ENTRIES:
        raise ConfigError(f"{file}: {len(entries)} entries; at most {MOST_ENTRIES} are read")
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


def _write(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, target: Path, most: int, file: Path) -> int:
    """As many bytes as were there, which may be more than the archive says."""
    written = 0
    with archive.open(entry) as source, open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
        while chunk := source.read(1 << 20):
            written += len(chunk)
            if written > min(entry.file_size, most):
                raise ConfigError(f"{file}: the entry {entry.filename!r} is larger than it says")
            out.write(chunk)
    return written
