"""Kernels traced: their Python source runs once with expressions in place of numbers, and what it writes is its graph.

`trace` makes a function of a kernel's source in which some names stand for others: `view` for a window of a `Vector`,
`sqrt` for a node of the graph. What the numbers are is the caller's: plain expressions (natural/unrolling.py), or such
with derivatives (traced_numbers.py).
"""

import copy
import operator
import types
from collections.abc import Callable, Mapping
from typing import Any, Self

from numba.core.dispatcher import Dispatcher

from tandem.multibody.code.graph import Expr, Graph


class Vector:
    """An array of expressions, or a window of one."""

    def __init__(self, graph: Graph, name: str, size: int, known: bool = True):
        self.graph, self.name, self._start, self._size = graph, name, 0, size
        self._entries: dict[int, Expr] = {}
        self._known = known  # entries that were not written are inputs; otherwise nobody reads them

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, at: int) -> Any:
        place = self._place(at)
        if place not in self._entries:
            if not self._known:
                raise ValueError(f"{self.name}[{place}] is read before it is written")
            self._entries[place] = self.graph.input(self.name, place)
        return self._entries[place]

    def __setitem__(self, at: int, value: Any) -> None:
        self._entries[self._place(at)] = self.graph.expr(value)

    def _place(self, at: int) -> int:
        if not 0 <= at < self._size:
            raise IndexError(f"{self.name}: entry {at} of {self._size}")
        return self._start + int(at)

    def window(self, start: int, stop: int) -> Self:
        out = copy.copy(self)
        out._start, out._size = self._start + int(start), int(stop) - int(start)
        return out

    def written(self) -> dict[int, Expr]:
        """Entries that were written, or read as inputs."""
        return self._entries


def window(array: Any, start: int, stop: int) -> Any:
    """`view` of a vector, or of a table."""
    return array.window(start, stop) if isinstance(array, Vector) else array[start:stop]


def trace(kernel: Any, names: Mapping[str, Any], traced: dict[Any, Callable[..., Any]]) -> Callable[..., Any]:
    """The Python source of a kernel, and of those it calls, with these names; `traced` has those that are made."""
    if kernel not in traced:
        source = kernel.py_func
        known: dict[str, Any] = {"__builtins__": __builtins__}
        traced[kernel] = types.FunctionType(source.__code__, known, source.__name__, source.__defaults__)
        for name in source.__code__.co_names:
            if name in names:
                known[name] = names[name]
            elif name in source.__globals__:
                known[name] = _traced(source.__globals__[name], names, traced)
    return traced[kernel]


def _traced(value: Any, names: Mapping[str, Any], traced: dict[Any, Callable[..., Any]]) -> Any:
    if isinstance(value, Dispatcher):
        return trace(value, names, traced)
    return _Module(value, names, traced) if isinstance(value, types.ModuleType) else value


class _Module:
    def __init__(self, module: types.ModuleType, names: Mapping[str, Any], traced: dict[Any, Callable[..., Any]]):
        self._module, self._names, self._traced = module, names, traced

    def __getattr__(self, name: str) -> Any:
        return _traced(operator.attrgetter(name)(self._module), self._names, self._traced)
