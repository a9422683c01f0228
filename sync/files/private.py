"""Files that belong to one user and are still there after a power cut.

What a run leaves (records, reports, exports) is readable by the user who made it and by nobody else: every program sets
its umask at its start (`only_for_this_user`), and folders and records are made with these modes whatever the umask is.

A file whose bytes were synced is found after a power cut only if the entry in its folder was synced too, and so on for
the folders above it. Names that must survive are made, renamed and removed with the functions here.
"""

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from sync.errors import ConfigError

FILE_MODE = 0o600
FOLDER_MODE = 0o700
_UMASK = 0o077
OTHERS_WRITE = 0o022


def only_for_this_user() -> None:
    """Called when a program starts: all files that it and its forks make from here on are this user's alone."""
    os.umask(_UMASK)


def others_change(found: os.stat_result, sticky_is_enough: bool = False) -> str:
    """How somebody other than this user and root could change a file or folder, in words; "" if nobody can. In a sticky
    folder others can add files, but not replace ours."""
    if found.st_uid not in (os.geteuid(), 0):
        return "belongs to another user"
    if found.st_mode & OTHERS_WRITE and not (sticky_is_enough and found.st_mode & stat.S_ISVTX):
        return "others may write it"
    return ""


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk; raises OSError if the disk fails."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def make_folder(folder: Path, exist_ok: bool = True) -> None:
    """Make a folder, and those above it that do not exist; each is this user's alone, and its name is on the disk."""
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
    """Rename a file, or a folder of files, once its content is on the disk: it is there whole, or not at all."""
    _sync_content(part)
    os.rename(part, target)
    _sync_quietly({part.parent, target.parent})


@contextlib.contextmanager
def written(target: Path, replace: bool = False) -> Iterator[Path]:
    """A place for a file or a folder, which becomes `target` at the end: for this user alone, whole or not at all.
    Raises OSError; FileExistsError where something has that name already, unless it is to be replaced.

    The folder of `target` may belong to another user, who puts links there and exchanges files while we write. So the
    place has a random name, in a folder that is made for it and is reached by its descriptor: nothing that is opened
    can be a link of that user, and `target` replaces a link instead of following it.
    """
    if not replace and os.path.lexists(target) and not _is_empty_folder(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
    above = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    scratch, own = f".tandem-{os.urandom(8).hex()}", -1
    try:
        os.mkdir(scratch, FOLDER_MODE, dir_fd=above)
        own = os.open(scratch, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
        if os.fstat(own).st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, "what is made there belongs to another user", str(target))
        # keeps the suffix: some libraries need theirs
        part = Path(f"/proc/self/fd/{own}") / f"part{target.suffix}"
        yield part
        _only_for_its_owner(part)
        _sync_content(part)
        _give_name(part.name, own, target.name, above, replace)
        _sync_quietly([target.parent])
    finally:
        if own >= 0:
            _empty(own)
            os.close(own)
        with contextlib.suppress(OSError):
            os.rmdir(scratch, dir_fd=above)
        os.close(above)


def rewrite(path: Path, content: bytes) -> None:
    """Write a file with this content in place of whatever has its name: a link is replaced, and its target stays as it
    is; raises OSError."""
    with written(path, replace=True) as part:
        part.write_bytes(content)


def by_default(path: Path) -> Path:
    """`path` for a file whose place nobody has named: beside a record, or in the working folder. Raises ConfigError if
    that folder is another user's, root excepted, or if another user's link leads there."""
    owners = {os.geteuid(), 0}
    if os.geteuid() == 0 and os.environ.get("SUDO_UID", "").isdigit():
        owners.add(int(os.environ["SUDO_UID"]))
    folder = path.absolute().parent
    while not os.path.lexists(folder):
        folder = folder.parent
    links = [each for each in (folder, *folder.parents) if each.is_symlink()]
    try:
        found = [(folder, folder.stat()), *((link, link.lstat()) for link in links)]
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror}") from None
    for each, about in found:
        if about.st_uid not in owners:
            raise ConfigError(
                f"{path}: not written: {each} belongs to another user; to write there name the place yourself"
                " (--out, or --runs for a run)"
            )
    return path


def _is_empty_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink() and not any(path.iterdir())


def _below(part: Path) -> list[Path]:
    return [part, *(sorted(part.rglob("*")) if part.is_dir() else [])]


def _only_for_its_owner(part: Path) -> None:
    for path in _below(part):
        path.chmod(FOLDER_MODE if path.is_dir() else FILE_MODE)


def _sync_content(part: Path) -> None:
    found = _below(part)
    for file in found:
        if file.is_file():
            fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
    _sync_quietly(path for path in found if path.is_dir())


def _give_name(part: str, own: int, name: str, above: int, replace: bool) -> None:
    """A file that is to replace nothing gets a second link, which fails where the name is taken; a folder replaces
    nothing but an empty folder anyway."""
    if not replace and stat.S_ISREG(os.stat(part, dir_fd=own, follow_symlinks=False).st_mode):
        try:
            os.link(part, name, src_dir_fd=own, dst_dir_fd=above, follow_symlinks=False)
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS):  # these: the disk has no hard links
                raise
        else:
            return
    os.rename(part, name, src_dir_fd=own, dst_dir_fd=above)


def _empty(folder: int) -> None:
    for name in os.listdir(folder):
        with contextlib.suppress(OSError):
            if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                shutil.rmtree(name, ignore_errors=True, dir_fd=folder)
            else:
                os.unlink(name, dir_fd=folder)


def _sync_quietly(folders: Iterable[Path]) -> None:
    for folder in folders:
        with contextlib.suppress(OSError):  # some file systems cannot sync folders
            sync_folder(folder)
