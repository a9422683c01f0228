"""A configuration under a name of its own, and rings that are gone after the test."""

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sync.block import Layout
from sync.config import Config, load
from sync.ring import RingReader, RingWriter

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
