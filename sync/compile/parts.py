"""Parts of flat arrays whose sizes are known when a machine is made: start and stop of each, as index tables begin.

Parts are numbered by names (an IntEnum, or `places`), whichever array they are of; kernels reach one with
`part(ints, array, WHICH)` (tandem/multibody/natural/views.py). Entries of a part with a fixed meaning are `places`.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from typing import Any, Protocol, cast

import numpy as np


class Named(Protocol):
    @property
    def name(self) -> str: ...


class Places(Protocol):
    """An IntEnum, as a type checker has it that cannot know the names."""

    @property
    def __members__(self) -> Mapping[str, IntEnum]: ...
    def __getattr__(self, name: str, /) -> IntEnum: ...
    def __getitem__(self, name: str, /) -> IntEnum: ...
    def __iter__(self) -> Iterator[IntEnum]: ...
    def __len__(self) -> int: ...


def places(name: str, entries: Iterable[str | Named]) -> Places:
    """Positions by name, of described things or of names: constants to the compiler."""
    names = [entry if isinstance(entry, str) else entry.name for entry in entries]
    return cast(Places, IntEnum(name, [(each, position) for position, each in enumerate(names)]))


def lay_out(count: int, *arrays: tuple[int, Mapping[Any, Any]]) -> tuple[np.ndarray, list[int]]:
    """(start and stop of all `count` parts, where each array ends). Of each array: where its parts begin, and the
    parts, or their sizes, one behind the other. A part that is not there is empty."""
    spans, ends = np.zeros(2 * count, np.int64), []
    for begin, parts in arrays:
        at = begin
        for which, what in parts.items():
            size = what if isinstance(what, int) else len(what)
            spans[2 * which : 2 * which + 2] = at, at + size
            at += size
        ends.append(at)
    return spans, ends


def span(spans: np.ndarray, which: int) -> slice:
    """Where that part is in its array; `spans` are index tables, or what they begin with."""
    return slice(int(spans[2 * which]), int(spans[2 * which + 1]))


def places_in(spans: np.ndarray, which: int) -> tuple[int, ...]:
    """The places of that part."""
    return tuple(range(int(spans[2 * which]), int(spans[2 * which + 1])))


def joined(parts: Mapping[Any, Any], kind: Any) -> np.ndarray:
    """The parts of one array, one behind the other."""
    return np.concatenate([np.zeros(0, kind), *(np.asarray(values, kind) for values in parts.values())])
