"""A disk that loses power: from what a program did to its files, what may be left of them.

Only what was synced is sure. Of the writes to a file since its last sync any may be there, in any order, or torn at a
page; of the names made, changed or removed in a folder since the folder was synced, too. That is all POSIX promises,
and less than most file systems keep.
"""

import random
from dataclasses import dataclass, field
from pathlib import Path

OPEN, WRITE, FSYNC, CLOSE, RENAME, UNLINK, MKDIR, WRITE_AT, TRUNCATE = range(1, 10)
_PAGE = 4096


@dataclass(frozen=True)
class Op:
    kind: int
    t_ns: int
    fd: int = -1
    path: str = ""  # of a write that is not at the end, its place
    data: bytes = b""  # of a write; the new name of a rename


@dataclass
class File:
    sure: bytes = b""
    # since the last sync: where, what; None: cut off there
    since: list[tuple[int, bytes | None]] = field(default_factory=list)
    size: int = 0

    def left(self, chance: random.Random) -> bytes:
        """What is there after a power cut."""
        keep = chance.choice((0.0, 0.5, 0.9, 1.0))
        content = bytearray(self.sure)
        for at, data in self.since:
            if data is None:
                del content[at if chance.random() < keep else len(content) :]
                continue
            place = at
            while place < at + len(data):  # page by page
                end = min((place // _PAGE + 1) * _PAGE, at + len(data))
                if chance.random() < keep:
                    content.extend(bytes(max(end - len(content), 0)))
                    content[place:end] = data[place - at : end - at]
                place = end
        return bytes(content)


@dataclass
class Folder:
    sure: dict[str, "File | Folder"] = field(default_factory=dict)
    since: list[tuple[str, "File | Folder | None"]] = field(default_factory=list)  # None: the name was removed

    def names(self) -> dict[str, "File | Folder"]:
        """As the program sees them."""
        return _applied(self.sure, self.since)

    def sync(self) -> None:
        self.sure, self.since = self.names(), []

    def left(self, chance: random.Random) -> dict[str, "File | Folder"]:
        keep = chance.choice((0.0, 0.5, 1.0))
        return _applied(self.sure, [change for change in self.since if chance.random() < keep])


def _applied(
    names: dict[str, File | Folder], changes: list[tuple[str, File | Folder | None]]
) -> dict[str, File | Folder]:
    found = dict(names)
    for name, what in changes:
        found.pop(name, None)
        if what is not None:
            found[name] = what
    return found


class Disk:
    """A folder that is there, and what is done below it."""

    def __init__(self, root: Path):
        self.root, self.top = root, Folder()
        self._open: dict[int, File | Folder] = {}

    def _at(self, path: str) -> tuple[Folder, str]:
        *above, name = Path(path).relative_to(self.root).parts
        folder = self.top
        for part in above:
            found = folder.names()[part]
            assert isinstance(found, Folder)
            folder = found
        return folder, name

    def do(self, op: Op) -> None:
        if op.kind == OPEN:
            if Path(op.path) == self.root:
                self._open[op.fd] = self.top
                return
            folder, name = self._at(op.path)
            if name not in folder.names():
                folder.since.append((name, File()))
            self._open[op.fd] = folder.names()[name]
        elif op.kind == CLOSE:
            self._open.pop(op.fd, None)
        elif op.kind == MKDIR:
            folder, name = self._at(op.path)
            folder.since.append((name, Folder()))
        elif op.kind == UNLINK:
            folder, name = self._at(op.path)
            folder.since.append((name, None))
        elif op.kind == RENAME:
            folder, name = self._at(op.path)
            to, new = self._at(op.data.decode())
            to.since.append((new, folder.names()[name]))
            folder.since.append((name, None))
        elif op.kind in (WRITE, WRITE_AT, TRUNCATE, FSYNC):
            self._write_or_sync(op)

    def _write_or_sync(self, op: Op) -> None:
        what = self._open[op.fd]
        if isinstance(what, Folder):
            what.sync()
        elif op.kind == FSYNC:
            sure = bytearray(what.sure)
            for at, data in what.since:
                if data is None:
                    del sure[at:]
                else:
                    sure[at : at + len(data)] = data
            what.sure, what.since = bytes(sure), []
        elif op.kind == TRUNCATE:
            what.since.append((int(op.path), None))
            what.size = min(what.size, int(op.path))
        else:
            at = int(op.path) if op.kind == WRITE_AT else what.size
            what.since.append((at, op.data))
            what.size = max(what.size, at + len(op.data))

    def sure_files(self) -> dict[str, bytes]:
        """Files that are there in any case, with what is in them in any case."""
        return _sure(self.top, "")

    def left(self, into: Path, chance: random.Random) -> None:
        """A state that a power cut now may leave."""
        _write(self.top, into, chance)


def _sure(folder: Folder, above: str) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    gone = {name for name, what in folder.since if what is None}
    for name, what in folder.sure.items():
        if name in gone:
            continue
        if isinstance(what, Folder):
            found |= _sure(what, f"{above}{name}/")
        else:
            found[above + name] = what.sure
    return found


def _write(folder: Folder, into: Path, chance: random.Random) -> None:
    for name, what in folder.left(chance).items():
        if isinstance(what, Folder):
            (into / name).mkdir()
            _write(what, into / name, chance)
        else:
            (into / name).write_bytes(what.left(chance))
