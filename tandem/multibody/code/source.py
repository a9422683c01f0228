"""What a machine gives to be compiled for a GPU (compile.py). Nothing here is compiled when it is imported."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class DeviceSource:
    """`advance(state, inputs, params, tables, work, h, shown)`, nopython: a step, and whether it was made; outputs at
    the beginning of `work` where `shown`. Tables as it reads them there."""

    advance: Any
    ints: np.ndarray
    floats: np.ndarray
    generated: Callable[[], str] = str  # LLVM IR of functions it calls by name
    names: dict[int, list[str]] = field(default_factory=dict)  # of these, see `by_name` of calls.py
    meanwhile: Callable[[], AbstractContextManager[None]] = nullcontext  # around the compilation of `advance`
    # see ptx.py
    inline: bool | None = None
    registers: int = 255
    together: tuple[str, ...] = ()


Replaced = tuple[tuple[Any, Any], ...]  # a module, and what takes the place of its function of the same name


@contextmanager
def in_place_of(places: Replaced) -> Iterator[None]:
    """What is compiled meanwhile calls these functions where it would call those of their names in their modules."""
    before = [(module, one.__name__, getattr(module, one.__name__)) for module, one in places]
    try:
        for module, one in places:
            setattr(module, one.__name__, one)
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)
