"""What a compiled function is made of: a digest of its code, of every function it calls, and of every constant it uses.

numba freezes the globals and closure cells that a function names when it is compiled. They are traced here from the
function object itself, through all calls, so that an edit changes the stamps of only those kernels that it changes: a
comment, a text, or another kernel or constant in the same file changes none. Two kinds of code cannot be traced by
name, and their files count instead (sync/compile/dependencies.py): lowerings and overloads, which numba finds by types
(for every function whose file imports one that registers some), and objects that this module does not know.
"""

import builtins
import contextlib
import dis
import enum
import functools
import hashlib
import inspect
import json
import re
import types as python_types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import llvmlite.ir
import numba
import numpy as np

from sync.compile import dependencies
from sync.files.private import rewrite

_FOREIGN = frozenset(("numba", "llvmlite", "numpy", "builtins", "math", "operator", "typing", "enum", "collections"))
_PLAIN = (int, float, complex, str, bytes, bool, type(None), type(Ellipsis), np.generic, np.dtype)
_EXTENDS = re.compile(r"\blower_builtin\(|\blower_cast\(|@overload\b|@overload_|\btype_callable\(|\binfer_global\(")
OPTIONS = "compiled_with"  # attribute of a function that `kernel` compiles; others' options stand in their files
_found: dict[Path, dict[str, str]] = {}  # in this process: of each file the stamps of its kernels


def remembered(function: Callable[..., Any], file: Path) -> str:
    """The stamp of a function. While no file that its file imports has changed, it is the one noted at its compilation;
    functions that other functions make are traced each time."""
    name = function.__qualname__
    noted = _noted(file) if "<locals>" not in name else {}
    _found.setdefault(file, {})[name] = noted.get(name) or stamp(function)
    return _found[file][name]


@functools.cache
def _noted(file: Path) -> dict[str, str]:
    with contextlib.suppress(OSError, ValueError):
        note = json.loads(dependencies.compiled_note(file).read_text())
        return note if isinstance(note, dict) else {}
    return {}


def note_compiled(file: Path) -> None:
    """All kernels of a file are compiled: it has been imported."""
    own = {name: each for name, each in _found.get(file, {}).items() if "<locals>" not in name}
    rewrite(dependencies.compiled_note(file), json.dumps(own).encode())


class _NotYet(Exception):
    """A function names a global that its module has not defined yet."""


def stamp(function: Callable[..., Any]) -> str:
    """Of a function that is about to be compiled; where it names what is not there yet, its whole file counts."""
    digest = hashlib.sha256(_compiler() + getattr(function, OPTIONS, dependencies.digest(_file(function))))
    try:
        for name, content in sorted(_reached(function)):
            digest.update(name.encode() + b"\0" + content)
    except _NotYet:
        digest.update(dependencies.stamp(_file(function)).encode())
    return digest.hexdigest()


@functools.cache
def _compiler() -> bytes:
    return b"".join(dependencies.digest(Path(__file__).with_name(name)) for name in ("jit.py", "stamps.py"))


def _options(compiled: Any) -> bytes:
    return repr(sorted(getattr(compiled, "targetoptions", {}).items())).encode()


def _reached(first: Callable[..., Any]) -> set[tuple[str, bytes]]:
    """Name and digest of every function that the first one leads to, itself included, and of files that count whole."""
    found: set[tuple[str, bytes]] = set()
    seen, waiting = {first}, [first]
    while waiting:
        function = waiting.pop()
        content, others, files = _content(function)
        found.add((_name(function), content))
        found |= {(str(dependencies.module_name(file)), dependencies.digest(file)) for file in files}
        for other in others:
            if other not in seen:
                seen.add(other)
                waiting.append(other)
    return found


_known: dict[Any, tuple[bytes, frozenset[Any], frozenset[Path]]] = {}


def _content(function: Any) -> tuple[bytes, frozenset[Any], frozenset[Path]]:
    """Of one function: the digest of its code and constants, functions that it names, files that count whole."""
    if function in _known:
        return _known[function]
    digest, others, files = hashlib.sha256(), set(), set(_extending(_file(function)))
    for name, named in _named(function):
        digest.update(name.encode() + b"=")
        waiting = [named]
        while waiting:
            value = waiting.pop()
            callee = _function_in(value)
            if callee is not None:
                if _ours(callee):
                    others.add(callee)
                digest.update(_name(callee).encode() + _options(value))
            elif isinstance(value, dict):
                digest.update(f"dict of {len(value)}:".encode())
                waiting += value.items()
            elif isinstance(value, (tuple, list, frozenset, set)) and not isinstance(value, enum.Enum):
                digest.update(f"{type(value).__name__} of {len(value)}:".encode())
                waiting += value if isinstance(value, (tuple, list)) else sorted(value, key=repr)
            elif (text := _text(value)) is not None:
                digest.update(text)
            else:
                files |= dependencies.dependencies(_file(function))
    _known[function] = digest.digest(), frozenset(others), frozenset(files)
    return _known[function]


def _named(function: Any) -> Iterator[tuple[str, Any]]:
    """Everything that is part of a function, under a name: its code, defaults, closure, and the globals it uses."""
    names: set[str] = set()
    codes = [function.__code__]
    for code in codes:
        yield "code", code.co_code
        yield "exceptions", getattr(code, "co_exceptiontable", b"")
        yield "variables", (code.co_varnames, code.co_names, code.co_freevars, code.co_argcount, code.co_flags)
        described = code is function.__code__ and function.__doc__ is not None and code.co_consts[0] == function.__doc__
        for constant in code.co_consts[int(described) :]:
            if isinstance(constant, python_types.CodeType):
                codes.append(constant)
            else:
                yield "constant", constant
        names.update(code.co_names)
    yield "defaults", (function.__defaults__, sorted((function.__kwdefaults__ or {}).items()))
    found = dict(
        zip(function.__code__.co_freevars, (cell.cell_contents for cell in function.__closure__ or ()), strict=True)
    )
    there = function.__globals__
    if any(name not in there and not hasattr(builtins, name) for name in names):
        for code in codes:
            loads = {each.argval for each in dis.get_instructions(code) if each.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
            if any(name not in there and not hasattr(builtins, name) for name in loads):
                raise _NotYet
    found |= {name: there[name] for name in sorted(names & there.keys())}
    for name, value in found.items():
        yield from _parts(name, value, sorted(names), ())


def _parts(name: str, value: Any, names: list[str], above: tuple[Any, ...]) -> Iterator[tuple[str, Any]]:
    """A value or, of a module of ours, whatever in it has one of these names: kernels say `module.constant`."""
    if not isinstance(value, python_types.ModuleType):
        yield name, value
    elif value.__name__.partition(".")[0] not in _FOREIGN and value not in above:
        for each in names:
            if hasattr(value, each):
                yield from _parts(f"{name}.{each}", getattr(value, each), names, (*above, value))


def _function_in(value: Any) -> Any:
    """The Python function behind what numba compiles: a dispatcher, a callback, an intrinsic; or itself."""
    # where numba calls these otherwise, what is behind them is not known, and counts by its file
    for behind in ("_defn", "py_func", "_pyfunc"):
        value = getattr(value, behind, value)
    return inspect.unwrap(value) if isinstance(value, python_types.FunctionType) else None


def _text(value: Any) -> bytes | None:
    """What a constant is to compiled code; None: not known."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{value.shape}".encode() + value.tobytes()
    if isinstance(value, (enum.Enum, *_PLAIN)):
        return f"{type(value).__name__} {value!r}".encode()
    if isinstance(value, (numba.types.Type, numba.core.typing.Signature)):
        return f"{value!r}".encode()
    if isinstance(value, type):
        if issubclass(value, enum.Enum):
            return repr([(each.name, each.value) for each in value]).encode()
        if issubclass(value, tuple) and hasattr(value, "_fields"):
            return f"{value.__qualname__}{value._fields}".encode()
        return None if _ours(value) else f"{value.__module__}.{value.__qualname__}".encode()
    if isinstance(value, (llvmlite.ir.Type, llvmlite.ir.Value)):
        return f"{value}".encode()
    if isinstance(value, (python_types.BuiltinFunctionType, np.ufunc)) or (callable(value) and not _ours(value)):
        return f"{getattr(value, '__module__', '')}.{getattr(value, '__name__', repr(type(value)))}".encode()
    return None


def _ours(value: Any) -> bool:
    module = getattr(value, "__module__", None) or type(value).__module__
    return module.partition(".")[0] not in _FOREIGN


def _name(function: Any) -> str:
    return f"{function.__module__}.{function.__qualname__}"


def _file(function: Any) -> Path:
    return Path(function.__code__.co_filename).resolve()


@functools.cache
def _registers(file: Path) -> bool:
    return _EXTENDS.search(file.read_text()) is not None


@functools.cache
def _extending(file: Path) -> frozenset[Path]:
    """Files that register lowerings or overloads with numba, among those that this one imports."""
    found = set(filter(_registers, dependencies.dependencies(file)))
    return frozenset(found.union(*(dependencies.dependencies(each) for each in found)))
