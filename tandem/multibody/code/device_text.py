"""LLVM IR of kernels, as numba writes it for the CPU, before anything is optimised for one.

Promises
- `text_of` compiles a nopython function and all it calls, and gives its IR and its name there. Nothing is made
  executable; kernels that were loaded from the cache are compiled once more, since only their machine code is there.
- Calls by address (multibody/code/calls.py) become calls by name, of functions that are linked later.
- What it does to numba is undone when it ends, but compiled functions it has met stay unusable in this process: it is
  for a process of its own (compile.py).
"""

import contextlib
import inspect
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

from numba.core import caching, codegen
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher

from tandem.multibody.code import calls

_met: dict[int, Any] = {}  # compiled functions that have been here before: their IR serves again


def reached(functions: list[Any]) -> list[Any]:
    """All compiled functions that these call, themselves included."""
    seen: dict[int, Any] = {}
    waiting = list(functions)
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen[id(one)] = one
        code, found = one.py_func.__code__, inspect.getclosurevars(one.py_func)
        for value in (*found.globals.values(), *found.nonlocals.values()):
            members = [getattr(value, name, None) for name in code.co_names] if isinstance(value, ModuleType) else []
            waiting += [v for v in (value, *members) if isinstance(v, Dispatcher)]
    return list(seen.values())


@contextlib.contextmanager
def unoptimised(functions: list[Any], names: Mapping[int, list[str]]) -> Iterator[None]:
    """numba leaves the IR of what it compiles as it is, and makes no machine code; see the head of this file."""
    library, codegen_class = codegen.JITCPUCodegen._library_class, codegen.JITCPUCodegen
    changed = [
        (library, "_optimize_final_module", lambda self: None),
        (library, "_finalize_final_module", lambda self: setattr(self, "_finalized", True)),
        (library, "get_pointer_to_function", lambda self, name: 1),
        (codegen_class, "set_env", lambda self, name, env: None),
    ]
    before = [(of, name, of.__dict__.get(name)) for of, name, _ in changed]
    for one in reached(functions):
        if id(one) not in _met:
            one.overloads.clear()
            one._can_compile, one._cache = True, caching.NullCache()
            _met[id(one)] = one
    try:
        for of, name, what in changed:
            setattr(of, name, what)
        with calls.by_name(names):
            yield
    finally:
        for of, name, what in before:
            if what is None:
                delattr(of, name)
            else:
                setattr(of, name, what)


def text_of(function: Any, signature: Any) -> tuple[str, str]:
    """The IR of a function that is compiled for this signature, and its name in it."""
    function.compile(signature)
    compiled = function.overloads[tuple(signature.args)]
    with global_compiler_lock:
        compiled.library._ensure_finalized()
    return compiled.library.get_llvm_str(), compiled.fndesc.llvm_func_name
