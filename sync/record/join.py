"""Several parts, one run.

A recorder that died is followed by another, which goes on where the file of the first one ends (sync/record/resume.py).
Joined, each topic is one sequence: no block twice, whatever the parts hold, and a number for what is missing between
them. The end of a part that was cut off is no loss if the next one goes on there.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from sync.record.rings import GONE, Account, Ring, behind
from sync.record.run import Part, Run, RunError, Topic
from sync.record.writer import part_file

_SUMMARY = "summary.json"


def join(files: dict[int, Path], sizes: dict[int, int], read: dict[int, Run | RunError]) -> Run:
    """What was read of each file, in order; an error if that is nothing."""
    sound = {number: run for number, run in read.items() if isinstance(run, Run)}
    for error in read.values() if not sound else ():
        assert isinstance(error, RunError)
        raise error
    first = sound[min(sound)]
    own = {number: run for number, run in sound.items() if run is first or (run.run and run.run == first.run)}
    topics = _Topics()
    for number, run in own.items():
        topics.add(number, run)
    trouble = [*_not_there(files, sound, own), *topics.trouble]
    trouble += [f"{_blocks(lost)} missing before {part_file(number)}" for number, lost in topics.lost.items() if lost]
    last = own[max(own)]
    if last.cut:
        trouble.append(f"{part_file(max(own))}: {last.cut}")
    ends = [run.end for run in own.values() if run.end is not None]
    told = [part for run in own.values() for part in run.said]
    attachments, damaged = _attachments(list(own.values()))
    return Run(
        files[min(files)],
        first.start,
        ends[-1] if ends else None,
        attachments,
        topics.joined(),
        sorted(told + _taken_up(own, topics), key=lambda said: said[0]),
        damaged,
        "; ".join(trouble) or None,
        sum(sizes.values()),
        topics.rings,
        first.run,
        [_part(number, files, sizes, read, number in own, topics) for number in files],
        [damage for run in own.values() for damage in run.damage],
    )


def _blocks(number: int) -> str:
    return "1 block is" if number == 1 else f"{number} blocks are"


def _not_there(files: dict[int, Path], sound: dict[int, Run], own: dict[int, Run]) -> Iterator[str]:
    """A file that cannot be read holds nothing, or the next one says what it held."""
    for number in range(1, max(own)):
        if number not in files:
            yield f"{part_file(number)} is not there"
        elif number in sound and number not in own:
            yield f"{part_file(number)} is of another run"


def _attachments(own: list[Run]) -> tuple[dict[str, bytes], set[str]]:
    """Those of the first, what is damaged there from another; the figures from the last that has some."""
    found: dict[str, bytes] = {}
    for run in own:
        found = {**run.attachments, **found}
    for run in own:
        if _SUMMARY in run.attachments:
            found[_SUMMARY] = run.attachments[_SUMMARY]
    return found, {name for run in own for name in run.damaged} - set(found)


def _taken_up(own: dict[int, Run], topics: "_Topics") -> list[tuple[int, str]]:
    said = []
    for number, run in own.items():
        if number == 1:
            continue
        lost = f"{topics.lost[number]} blocks were lost" if topics.lost[number] else "no block was lost"
        if topics.gone[number]:
            lost = f"{lost} that could be counted, but {' and '.join(topics.gone[number])} had gone"
        at = run.start.get("monotonic_ns", "")
        said.append((int(at) if at.isdecimal() else 0, f"the record was taken up again in {part_file(number)}: {lost}"))
    return said


def _part(
    number: int, files: dict[int, Path], sizes: dict[int, int], read: dict[int, Run | RunError], own: bool,
    topics: "_Topics",
) -> Part:  # fmt: skip
    run, name = read[number], files[number].name
    if isinstance(run, RunError):
        return Part(name, sizes[number], f"not read: {str(run).removeprefix(f'{files[number]}: ')}")
    if not own:
        return Part(name, sizes[number], "not read: of another run")
    return Part(name, sizes[number], run.cut, topics.lost[number])


@dataclass
class _Sequence:
    """A topic, as far as it has been joined."""

    account: Account = field(default_factory=Account)
    kept: list[Topic] = field(default_factory=list)
    rings: list[Ring] = field(default_factory=list)


class _Topics:
    def __init__(self) -> None:
        self._found: dict[str, _Sequence] = {}
        self.lost: dict[int, int] = {}  # before each part
        self.gone: dict[int, list[str]] = {}
        self.trouble: list[str] = []

    def add(self, number: int, run: Run) -> None:
        self.lost[number], self.gone[number] = 0, []
        for name in {**run.topics, **run.rings}:
            topic, before = run.topics.get(name), self._found.get(name, _Sequence()).kept
            if topic is not None and before and topic.layout != before[0].layout:
                self.trouble.append(f"{part_file(number)}: {name} has another layout; left out")
                continue
            self._add(number, name, topic, run.rings.get(name, []))

    def _add(self, number: int, name: str, topic: Topic | None, rings: list[Ring]) -> None:
        sequence = self._found.setdefault(name, _Sequence())
        account, missing, begun = sequence.account, sequence.account.missing, False
        later = number > 1
        rows = len(topic) if topic is not None else 0
        if topic is not None and (not rings or rings[0].row > 0):  # of somebody who leaves no notes
            self._keep(sequence, topic, 0, rings[0].row if rings else rows)
        for ring, end in zip(rings, [*(ring.row for ring in rings[1:]), rows], strict=True):
            account.note(ring)
            first = ring.row
            if topic is not None and later:
                while first < end and behind(int(topic.positions[first]), account.position):
                    first += 1  # a part before this one has it
            sequence.rings.append(replace(ring, row=sum(len(kept) for kept in sequence.kept)))
            if ring.state == GONE:
                self.gone[number].append(name)
                self.trouble.append(
                    f"the ring of {name} had gone before {part_file(number)} was begun: nobody knows how much of it is"
                    " missing"
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
        part = slice(first, end)
        kept = Topic(topic.name, topic.layout, topic.words[part], topic.positions[part], topic.logged_ns[part])
        sequence.kept.append(kept)

    @property
    def rings(self) -> dict[str, list[Ring]]:
        return {name: sequence.rings for name, sequence in self._found.items()}

    def joined(self) -> dict[str, Topic]:
        return {
            name: Topic(
                name,
                sequence.kept[0].layout,
                np.concatenate([kept.words for kept in sequence.kept]),
                np.concatenate([kept.positions for kept in sequence.kept]),
                np.concatenate([kept.logged_ns for kept in sequence.kept]),
                tuple(sequence.rings),
            )
            for name, sequence in self._found.items()
            if sequence.kept
        }
