"""A configuration under a name of its own, and rings that are gone after the test."""

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from daq_service.devices import nidaqmx_driver
from sync.config.config import Config, load
from sync.record import RunWriter
from sync.ring.block import SEQ, Layout
from sync.ring.ring import RingReader, RingWriter

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
DRIVE = CONFIGS / "drive.toml"
_NUMBER = itertools.count()


def unique() -> str:
    return f"t{os.getpid()}_{next(_NUMBER)}"


def drive_config(*overrides: str) -> Config:
    """configs/drive.toml with overrides, under a name that no other test has."""
    return load(DRIVE, [f"name={unique()}", *overrides])


class Rings:
    """Makes pairs of writer and reader, and closes them all."""

    def __init__(self) -> None:
        self._open: list[RingWriter | RingReader] = []

    def pair(self, layout: Layout, capacity: int = 16384, name: str | None = None) -> tuple[RingWriter, RingReader]:
        name = name or f"tandem.{unique()}.ring"
        writer = RingWriter(name, layout, capacity)
        self._open.append(writer)
        reader = RingReader(name, layout)
        self._open.append(reader)
        return writer, reader

    def close(self) -> None:
        for ring in reversed(self._open):
            ring.close()
        self._open.clear()


def recorded(rate_hz: float, n: int) -> np.ndarray:
    """Blocks of configs/drive.toml as they would have been recorded: a wheel that turns, feet that move."""
    layout = drive_config().daq.layout
    words = np.zeros((n, layout.words), np.int64)
    blocks = layout.view(words)
    number = np.arange(n)
    blocks["seq"], blocks["epoch"] = number, 99
    blocks["t_ns"] = 7_000_000_000_000 + round(1e9 / rate_hz) * number
    blocks["pushed_ns"] = blocks["t_ns"] + 15_000
    blocks["brake"], blocks["throttle"], blocks["steering"] = number % 3000, number % 421, 3 * number - 500
    return words


def write_record(folder: Path, words: np.ndarray, layout: Layout | None = None, topic: str = "/daq") -> Path:
    """A record of these blocks; positions in the ring are their numbers."""
    layout = layout or drive_config().daq.layout
    writer = RunWriter(folder, fsync_s=1e6)
    writer.begin({"name": "recorded"}, {}, 0)
    writer.topic(topic, layout)
    pieces = np.flatnonzero(np.diff(words[:, SEQ]) != 1) + 1
    for piece in np.split(words, pieces) if len(words) else ():
        writer.add(topic, piece, int(piece[0, SEQ]))
    assert writer.finish({"reason": "stopped"}, {}, 0)
    return folder


def replay_config(folder: Path | str, *overrides: str, again: bool = False, buffer: int = 50_000) -> Config:
    """configs/drive.toml with a record as its driver."""
    source = f"{{kind='replay', run='{folder}', again={str(again).lower()}, buffer_blocks={buffer}}}"
    return drive_config(f"source={source}", *overrides)


@pytest.fixture
def patient_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls to an NI server have a deadline in real time; one that a busy machine delays has not failed."""
    monkeypatch.setattr(nidaqmx_driver, "_DEADLINE_S", 300.0)
    monkeypatch.setattr(nidaqmx_driver, "_QUICK_DEADLINE_S", 300.0)


@pytest.fixture
def rings() -> Iterator[Rings]:
    made = Rings()
    yield made
    made.close()


@pytest.fixture
def manoeuvre_file(tmp_path: Path) -> Callable[[str], Path]:
    """Writes a manoeuvre; the head that every one needs is added."""

    def write(text: str) -> Path:
        path = tmp_path / f"{unique()}.toml"
        path.write_text(f'title = "test"\nseconds = 10.0\n{text}')
        return path

    return write


class Until:
    """In place of an event that another thread would set."""

    def __init__(self, done: Callable[[], bool]):
        self.is_set = done
