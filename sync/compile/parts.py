"""Parts of flat arrays whose sizes are known when a machine is made: start and stop of each, as index tables begin.

Parts are numbered by names (an IntEnum, or `places`), whichever array they are of; kernels reach one with
`part(ints, array, WHICH)` (tandem/multibody/natural/views.py). Entries of a part with a fixed meaning are `places`.
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any

import numpy as np


def places(name: str, entries: Iterable[Any]) -> Any:
    """Positions by name, of described things or of names: constants to the compiler (Any to the type checker)."""
    return IntEnum(name, [(getattr(e, "name", e), position) for position, e in enumerate(entries)])


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
