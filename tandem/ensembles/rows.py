"""What is done of a study, on disk: a line for every run, by the content of what it depends on.

A file belongs to one machine, manoeuvre, set of figures and version of the program; a run in it is known by its values.
A study that is changed elsewhere, or made longer, takes what is there. Lines are appended chunk by chunk: what a crash
cuts off is the last line, which is made again.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from sync.errors import TandemError
from sync.files.private import FILE_MODE, make_folder
from tandem.ensembles.table import NotWritten
from tandem.ensembles.work import Row


class Results:
    """Rows of all runs, in their order, as columns; a run that is not done has the status ""."""

    def __init__(self, keys: list[str], units: dict[str, str]):
        self.places: dict[str, list[int]] = {}
        for place, key in enumerate(keys):
            self.places.setdefault(key, []).append(place)
        self.keys = keys
        self.status = [""] * len(keys)
        self.errors: dict[int, str] = {}
        self.steps = np.zeros(len(keys), np.int64)
        self.figures: dict[str, np.ndarray] = {name: np.full(len(keys), np.nan) for name in units}
        self.units = dict(units)
        self.done = 0

    def take(self, row: Row) -> bool:
        """Whether it is a row of this study that was not there."""
        places = self.places.get(row["key"], [])
        if not places or self.status[places[0]]:
            return False
        self.units |= row.get("units", {})
        for place in places:
            self.status[place] = row["status"]
            self.steps[place] = row["steps"]
            if "error" in row:
                self.errors[place] = row["error"]
            for name, value in row.get("figures", {}).items():
                if name not in self.figures:
                    self.figures[name] = np.full(len(self.keys), np.nan)
                self.figures[name][place] = np.nan if value is None else value
        self.done += len(places)
        return True

    def missing(self) -> list[int]:
        """A place of every run that is to be made; of several with the same values the first."""
        return [places[0] for places in self.places.values() if not self.status[places[0]]]

    def counts(self) -> dict[str, int]:
        return {status: self.status.count(status) for status in dict.fromkeys(self.status)}


class RowFile:
    def __init__(self, stream: TextIO):
        self._stream = stream

    def read(self, results: Results) -> None:
        """Take what is there; a last line that was cut off is removed."""
        self._stream.seek(0)
        good = 0
        while line := self._stream.readline():
            try:
                row = json.loads(line)
            except ValueError:
                break
            if not line.endswith("\n") or not isinstance(row, dict):
                break
            good = self._stream.tell()
            if "key" in row:
                results.take(row)
        self._stream.seek(good)
        self._stream.truncate()

    def append(self, rows: list[Row]) -> None:
        # strict JSON: NaN and infinity become null
        lines = [json.dumps(_finite(row), allow_nan=False) + "\n" for row in rows if not row.get("again")]
        try:
            self._stream.write("".join(lines))
            self._stream.flush()
            os.fsync(self._stream.fileno())
        except OSError as error:  # a line that was cut off is made again
            raise NotWritten(
                f"{self._stream.name}: {error.strerror}; what is done is kept, and the same command goes on"
                " once there is room"
            ) from None


def _finite(row: Row) -> dict[str, Any]:
    figures = row.get("figures")
    if figures is None:
        return row
    return {**row, "figures": {name: value if np.isfinite(value) else None for name, value in figures.items()}}


@contextmanager
def _closing(stream: TextIO) -> Iterator[TextIO]:
    """Closed without a second error where the disk is full: what is still to be written is made again."""
    try:
        yield stream
    finally:
        with suppress(OSError):
            stream.close()


def _over_no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, FILE_MODE)


@contextmanager
def row_file(folder: Path, base: str) -> Iterator[RowFile]:
    """The row file of this folder, for one process at a time."""
    try:
        make_folder(folder)
        place = folder / f"rows-{base[:16]}.jsonl"
        opened = open(place, "a+", encoding="utf-8", opener=_over_no_link)  # noqa: SIM115  (closed below)
    except OSError as error:
        raise NotWritten(f"{folder}: {error.strerror}; --out names a folder for the table and what is done") from None
    with _closing(opened) as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TandemError(f"{folder}: another process works on this study; wait for it or stop it") from None
        yield RowFile(stream)
