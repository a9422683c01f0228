"""Files that belong to one user and are still there after a power cut.

What a run leaves (records, reports, exports) is readable by the user who made it and by nobody else: every program sets
its umask at its start (`only_for_this_user`), and folders and records are made with these modes whatever the umask is.

A file whose bytes were synced is found after a power cut only if the entry in its folder was synced too, and so on for
the folders above it. Names that must survive are made, renamed and removed with the functions here.
"""

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

FILE_MODE = 0o600
FOLDER_MODE = 0o700
_UMASK = 0o077


def only_for_this_user() -> None:
    """For the entry of a program: whatever it makes from here on, and whatever its forks make, is this user's alone."""
    os.umask(_UMASK)


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk; raises OSError if the disk fails."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def make_folder(folder: Path, exist_ok: bool = True) -> None:
    """Also those above it that are not there; each is this user's alone, and its name is on the disk."""
    missing = [folder]
    while not missing[-1].parent.exists():
        missing.append(missing[-1].parent)
    for path in reversed(missing):
        try:
            path.mkdir(FOLDER_MODE)
        except FileExistsError:
            if path == folder and not (exist_ok and path.is_dir()):
                raise
        else:
            _sync_quietly([path.parent])


def rename(part: Path, target: Path) -> None:
    """A file or a folder of files gets its name once its content is on the disk: it is there whole, or not at all."""
    files = sorted(part.rglob("*")) if part.is_dir() else [part]
    for file in files:
        if file.is_file():
            fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
    _sync_quietly(path for path in [part, *files] if path.is_dir())
    os.rename(part, target)
    _sync_quietly({part.parent, target.parent})


def rewrite(path: Path, content: bytes) -> None:
    """A file with this content instead of whatever has its name: a link that somebody put there is replaced, and what
    it leads to stays as it is; raises OSError."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    part.unlink(missing_ok=True)
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE)
    try:
        with open(fd, "wb") as stream:
            stream.write(content)
        os.replace(part, path)
    except OSError:
        part.unlink(missing_ok=True)
        raise


def _sync_quietly(folders: Iterable[Path]) -> None:
    for folder in folders:
        with contextlib.suppress(OSError):  # some file systems have no such thing for folders
            sync_folder(folder)
