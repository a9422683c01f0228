"""Several parts, one run.

A recorder begins a new file every so many minutes, and after a crash another recorder continues where the file of the
first one ends (sync/record/resume.py). Joined, each topic is one sequence: no block is in it twice, whatever the parts
hold, and blocks that are missing between parts are counted. If the next part continues exactly where a part was cut
off, nothing is lost. Parts that were deleted to make room do not count as lost either: the start of the next part
states it.

Parts are joined one after the other. A caller that wants only figures gets the blocks of each part as they come and
stores nothing (`consume`); long runs that are stored are in a file without a name, not in memory.
"""

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from sync.record.heads import Head
from sync.record.rings import GONE, Account, Ring, behind
from sync.record.run import Deleted, Part, Run, RunError, Topic
from sync.record.writer import part_file
from sync.ring.block import Layout

_SUMMARY = "summary.json"
_IN_MEMORY = 256 << 20  # bytes of a topic; more lie in a file

Consume = Callable[[Topic], None]  # blocks of a topic, in order


class Joining:
    """Parts, added in order."""

    def __init__(self, files: dict[int, Path], sizes: dict[int, int], heads: dict[int, Head], consume: Consume | None):
        """`files`: all parts that exist; `heads`: those of parts that have one."""
        self._files, self._sizes = files, sizes
        self._first: Run | None = None
        self._last: Run | None = None
        self._own: list[int] = []
        self._sound: list[int] = []
        self._errors: dict[int, RunError] = {}
        self._cut: dict[int, str | None] = {}
        self._attachments: dict[str, bytes] = {}
        self._damaged: set[str] = set()
        self._invalid: list[str] = []
        self._notices: list[tuple[int, str]] = []
        self._deleted, self._begun_ns, self._unsynced = _earlier(files, heads)
        self.deleted = self._deleted.parts if self._deleted is not None else 0
        start = heads.get(self.deleted + 1)
        self._topics = _Topics(files[min(files)].parent, consume, start if self.deleted else None)

    def add(self, number: int, read: Run | RunError) -> None:
        if isinstance(read, RunError):
            self._errors[number] = read
            return
        self._sound.append(number)
        first = self._first is None
        if self._first is not None and not (read.run and read.run == self._first.run):
            return
        self._topics.add(number, read)
        goes_on = self._last is not None and bool(self._last.next)
        self._notices += read.notices
        if number > 1 and not (first and self.deleted):
            self._notices += self._taken_up(number, read, goes_on)
        self._own.append(number)
        self._cut[number] = read.cut
        self._attachments = {**read.attachments, **self._attachments}  # the first part's take precedence
        if _SUMMARY in read.attachments:  # the figures are those of the last part that has some
            self._attachments[_SUMMARY] = read.attachments[_SUMMARY]
        self._damaged |= read.damaged
        self._invalid += [f"{part_file(number)}: {text}" for text in read.invalid]
        end = read.end or (self._last.end if self._last is not None else None)
        damage = [*(self._last.damage if self._last is not None else []), *read.damage]
        # without the blocks, which are joined already
        self._last = replace(read, end=end, damage=damage, topics={}, rings={}, attachments={})
        self._first = self._first or self._last

    def _taken_up(self, number: int, run: Run, goes_on: bool) -> list[tuple[int, str]]:
        lost, gone = self._topics.lost[number], self._topics.gone[number]
        if goes_on and not lost and not gone:
            return []
        text = f"{lost} blocks were lost" if lost else "no block was lost"
        if gone:
            text = f"{text} that could be counted, but {' and '.join(gone)} had gone"
        at_ns = int(run.start.get("monotonic_ns", 0))
        return [(at_ns, f"the record was taken up again in {part_file(number)}: {text}")]

    def run(self) -> Run:
        """The joined run; raises RunError if nothing was added."""
        if self._first is None or self._last is None:
            none = RunError(f"{self._files[max(self._files)].parent}: holds no part that can be read")
            raise next(iter(self._errors.values()), none)
        topics = self._topics
        trouble = [*self._not_there(), *topics.trouble]
        trouble += [f"{_blocks(lost)} missing before {part_file(n)}" for n, lost in topics.lost.items() if lost]
        if self._last.cut:
            trouble.append(f"{part_file(self._own[-1])}: {self._last.cut}")
        return Run(
            self._files[min(self._files)],
            self._first.start,
            self._last.end,
            self._attachments,
            topics.joined(),
            sorted(self._notices, key=lambda notice: notice[0]),
            self._damaged - set(self._attachments),
            "; ".join(trouble) or None,
            sum(self._sizes.values()),
            topics.rings,
            self._first.run,
            [self._part(number) for number in self._files],
            self._last.damage,
            self._last.next,
            self._begun_ns,
            self._deleted,
            _together(self._unsynced, self._last.unsynced),
            self._invalid,
        )

    def _not_there(self) -> Iterator[str]:
        """A file that cannot be read holds nothing, or the next one says what it held."""
        before = self.deleted
        for number in sorted(number for number in self._files if before < number <= self._own[-1]):
            if number == before + 2:
                yield f"{part_file(number - 1)} is not there"
            elif number > before + 2:  # the numbers are those of the file names
                yield f"{part_file(before + 1)} to {part_file(number - 1)} are not there"
            if number in self._sound and number not in self._own:
                yield f"{part_file(number)} is of another run"
            before = number

    def _part(self, number: int) -> Part:
        path, size = self._files[number], self._sizes[number]
        if number <= self.deleted:
            return Part(path.name, size, "not read: one behind it was deleted to make room")
        if number in self._errors:
            return Part(path.name, size, f"not read: {str(self._errors[number]).removeprefix(f'{path}: ')}")
        if number not in self._own:
            return Part(path.name, size, "not read: of another run")
        return Part(path.name, size, self._cut[number], self._topics.lost[number])


def _earlier(files: dict[int, Path], heads: dict[int, Head]) -> tuple[Deleted | None, int | None, list[str]]:
    """What the starts of this run's parts say: what was deleted, when the run began, which syncs failed. Parts that
    were to be deleted but still exist are read."""
    run = heads[min(heads)].run if heads else ""
    known = [
        head.earlier
        for number, head in heads.items()
        if head.run == run and head.earlier is not None and head.earlier.deleted < number
    ]
    if not known:
        return None, None, []
    last = max(known, key=lambda earlier: earlier.at_ns)
    gone = next((number for number in range(last.deleted, 0, -1) if number not in files), 0)
    deleted = None
    if gone:
        next_earlier = heads[gone + 1].earlier if gone + 1 in heads else None
        rows = (
            {name: left.account.rows for name, left in next_earlier.topics.items()} if next_earlier is not None else {}
        )
        deleted = Deleted(gone, last.deleted_bytes, next_earlier.at_ns if next_earlier is not None else 0, rows)
    return deleted, last.begun_ns or None, last.unsynced


def _together(some: list[str], others: list[str]) -> list[str]:
    """All sentences; of two about the same file the later one."""
    return list({text.split(":")[0]: text for text in (*some, *others)}.values())


def _blocks(number: int) -> str:
    return "1 block is" if number == 1 else f"{number} blocks are"


class _Stored:
    """Rows of a topic, in memory or, if they are many, in a file without a name."""

    def __init__(self, layout: Layout, folder: Path):
        self.layout, self._folder = layout, folder
        self._rows: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        self._files: tuple[tempfile._TemporaryFileWrapper[bytes], ...] | None = None
        self._bytes = 0

    def add(self, topic: Topic) -> None:
        self._rows.append((topic.words, topic.positions, topic.logged_ns))
        self._bytes += topic.words.nbytes
        if self._bytes > _IN_MEMORY:
            self._spill()

    def _spill(self) -> None:
        if self._files is None:
            self._files = (self._file(), self._file(), self._file())
        for rows in self._rows:
            for array, file in zip(rows, self._files, strict=True):
                file.write(np.ascontiguousarray(array, np.int64).data)
        self._rows, self._bytes = [], _IN_MEMORY

    def _file(self) -> "tempfile._TemporaryFileWrapper[bytes]":
        """A file beside the record, where there is room: a folder for temporary files is often in memory."""
        try:
            return tempfile.TemporaryFile(dir=self._folder)  # type: ignore[return-value]
        except OSError:
            return tempfile.TemporaryFile()  # type: ignore[return-value]

    def topic(self, name: str, rings: tuple[Ring, ...], missing: int) -> Topic:
        if self._files is not None:
            self._spill()
            words, positions, logged = (_mapped(file) for file in self._files)
        elif self._rows:
            words, positions, logged = (np.concatenate(column) for column in zip(*self._rows, strict=True))
        else:
            words, positions, logged = (np.zeros(0, np.int64) for _ in range(3))
        return Topic(name, self.layout, words.reshape(-1, self.layout.words), positions, logged, rings, missing)


def _mapped(file: "tempfile._TemporaryFileWrapper[bytes]") -> np.ndarray:
    with file:
        file.flush()
        return np.memmap(file, np.int64, "r+")


@dataclass
class _Sequence:
    """A topic, as far as it has been joined."""

    account: Account = field(default_factory=Account)
    stored: _Stored | None = None
    rows: int = 0
    rings: list[Ring] = field(default_factory=list)


class _Topics:
    def __init__(self, folder: Path, consume: Consume | None, start: Head | None):
        """`start`: the head of the first part that is left, if those before it were deleted."""
        self._folder, self._consume = folder, consume
        self._found: dict[str, _Sequence] = {}
        if start is not None and start.earlier is not None:
            self._found = {name: _Sequence(replace(left.account)) for name, left in start.earlier.topics.items()}
        self.lost: dict[int, int] = {}  # before each part
        self.gone: dict[int, list[str]] = {}
        self.trouble: list[str] = []

    def add(self, number: int, run: Run) -> None:
        self.lost[number], self.gone[number] = 0, []
        for name in {**run.topics, **run.rings}:
            topic, before = run.topics.get(name), self._found.get(name, _Sequence()).stored
            if topic is not None and before is not None and topic.layout != before.layout:
                self.trouble.append(f"{part_file(number)}: {name} has another layout; left out")
                continue
            self._add(number, name, topic, run.rings.get(name, []))

    def _add(self, number: int, name: str, topic: Topic | None, rings: list[Ring]) -> None:
        sequence = self._found.setdefault(name, _Sequence())
        account, missing, begun = sequence.account, sequence.account.missing, False
        later = number > 1
        rows = len(topic) if topic is not None else 0
        if topic is not None and (not rings or rings[0].row > 0):  # from a writer that leaves no notes
            self._keep(sequence, topic, 0, rings[0].row if rings else rows)
            account.missing += topic.missing if not rings else 0
        for ring, end in zip(rings, [*(ring.row for ring in rings[1:]), rows], strict=False):
            account.note(ring)
            first = ring.row
            if topic is not None and later:
                while first < end and behind(int(topic.positions[first]), account.position):
                    first += 1  # an earlier part has it
            sequence.rings.append(replace(ring, row=sequence.rows))
            if ring.state == GONE:
                self.gone[number].append(name)
                self.trouble.append(
                    f"the ring of {name} had gone before {part_file(number)} was begun: it is not known how much of it"
                    " is missing"
                )
            if topic is None or first == end:
                continue
            account.add(1, int(topic.positions[first]))
            if later and not begun:
                self.lost[number] += account.missing - missing
            begun = True
            if end - first > 1:
                account.add(end - first - 1, int(topic.positions[end - 1]))
            self._keep(sequence, topic, first, end)
        if later and not begun:
            self.lost[number] += account.missing - missing

    def _keep(self, sequence: _Sequence, topic: Topic, first: int, end: int) -> None:
        if sequence.stored is None:
            sequence.stored = _Stored(topic.layout, self._folder)
        part = slice(first, end)
        rows = Topic(topic.name, topic.layout, topic.words[part], topic.positions[part], topic.logged_ns[part])
        sequence.rows += len(rows)
        if self._consume is not None:
            self._consume(rows)
        else:
            sequence.stored.add(rows)

    @property
    def rings(self) -> dict[str, list[Ring]]:
        return {name: sequence.rings for name, sequence in self._found.items()}

    def joined(self) -> dict[str, Topic]:
        return {
            name: sequence.stored.topic(name, tuple(sequence.rings), sequence.account.missing)
            for name, sequence in self._found.items()
            if sequence.stored is not None
        }
