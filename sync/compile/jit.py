"""Compiled code: one decorator, one cache that cannot go stale, one compiler at a time.

Promises
- `kernel` makes a nopython function that holds no GIL and is cached on disk. Entry points give it an explicit
  signature, so they are compiled (or loaded) when their module is imported and never inside a run.
- numba invalidates a cached function when its own file changes, but not when a function it inlines from another file
  does. Compiled code is therefore kept in a folder named after what the function is made of, with all it calls and all
  constants it uses (sync/compile/stamps.py): an edit recompiles what it changes and nothing else, going back to an
  earlier version recompiles nothing, and folders of code long gone are swept away.
- Processes that started together do not compile together: `compiling` is a lock between them. What is compiled is
  loaded without it. What is missing is compiled on all cores (sync/compile/build.py).
- What is in the cache is run. It is made for its owner alone, and one that others could have written to is refused.
"""

import contextlib
import fcntl
import functools
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ParamSpec, Protocol, TypeVar

import numba

from sync.compile import dependencies, numba_shortcuts, stamps

_KEEP_S = 7 * 24 * 3600
_USED_S = 24 * 3600

CACHE = dependencies.cache_directory()
P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


def keep_compiled_code(config: Any) -> None:
    """Set numba's cache: by a locator of ours or, for a numba that takes none (before 0.62), in one folder for all
    sources together, where an edit compiles everything again, but nothing is ever stale.

    Set in the environment, too: numba reads that again whenever it has changed."""
    if hasattr(config, "CACHE_LOCATOR_CLASSES"):
        folder, locator = CACHE, "sync.compile.jit.KernelLocator"
        os.environ["NUMBA_CACHE_LOCATOR_CLASSES"] = config.CACHE_LOCATOR_CLASSES = locator
    else:
        folder = CACHE / f"all-{dependencies.fingerprint()}"
    os.environ["NUMBA_CACHE_DIR"] = config.CACHE_DIR = str(folder)


class KernelLocator:
    """Where numba finds the compiled code of a function: by what it is made of."""

    def __init__(self, function: Callable[..., Any], file: Path):
        self._py_file = str(file)  # numba names it in a warning
        name = f"{dependencies.module_name(file)}.{function.__qualname__}"
        self._stamp = stamps.remembered(function, file)
        self._folder = CACHE / f"{name.replace('<locals>', '')}-{self._stamp[:16]}"

    def ensure_cache_path(self) -> None:
        _make(self._folder)

    def get_cache_path(self) -> str:
        return str(self._folder)

    def get_source_stamp(self) -> str:
        return self._stamp

    def get_disambiguator(self) -> str:
        return ""  # the folder is this function's alone; its line in the file does not matter

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], py_file: str) -> "KernelLocator | None":
        file = Path(py_file).resolve()
        if not file.is_file():  # typed in by hand, or generated
            return None
        found = cls(py_func, file)
        try:
            _make(found._folder)
        except OSError:
            return None
        return found


numba_shortcuts.apply()
keep_compiled_code(numba.config)


@functools.cache
def _make(folder: Path) -> None:
    """A folder that is still used keeps its date fresh, so that it is not swept away."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if _age_s(folder) > _USED_S:
        os.utime(folder)


class Kernel(Protocol[P, R_co]):
    """A compiled function: it takes and gives what the one it was made of does."""

    @property
    def py_func(self) -> Callable[P, R_co]: ...

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...


def kernel(signature: object = None, **options: object) -> Callable[[Callable[P, R]], Kernel[P, R]]:
    """numba.njit with the options every hot function of ours has.

    Unless given `allocates=True`, it is compiled without numba's memory management: what would allocate (also
    `a[:] = b`, see sync/compile/array_copy.py) is an error when it is compiled, and no reference is counted. Counting
    them made the loop half as long again.
    """
    dependencies.own_cache()
    options = {"cache": True, "nogil": True, **numba_shortcuts.memory(bool(options.pop("allocates", False))), **options}
    decorator: Any = numba.njit(**options) if signature is None else numba.njit(signature, **options)

    def compiled(function: Callable[P, R]) -> Kernel[P, R]:
        if "<locals>" in function.__qualname__:
            function.__qualname__ += f"_{_closure_digest(function)}"
        setattr(function, stamps.OPTIONS, repr(sorted(options.items())).encode())
        dispatcher: Kernel[P, R] = decorator(function)
        return dispatcher

    return compiled


def inner(function: Callable[..., Any], **options: object) -> Any:
    """A function that only other kernels call: without wrappers for Python it compiles in two thirds of the time."""
    options = {"cache": False, "error_model": "numpy", **options}
    if not numba_shortcuts.supported():
        return kernel(**options)(function)
    dispatcher: Any = kernel(**options, no_cpython_wrapper=True, no_cfunc_wrapper=True)(function)

    def keep(compiled: Any) -> None:
        dispatcher.overloads[tuple(compiled.signature.args)] = compiled

    def refuse(*_: Any, **__: Any) -> None:
        raise TypeError(
            f"{function.__module__}.{function.__qualname__} has no wrapper for Python: only kernels call it"
        )

    # numba would take the code for something Python can call, and end the process
    dispatcher.add_overload, dispatcher._compile_for_args = keep, refuse
    return dispatcher


def merged(function: Callable[..., Any]) -> Any:
    """An inner function that becomes part of each of its callers: loops over sizes that are constants there unroll."""
    return inner(function, forceinline=True)


def _closure_digest(function: Callable[..., Any]) -> str:
    """A digest of what a function made by another closes over, for its name.

    Machine code from the cache knows its functions by names, and numba counts namesakes process by process: of two that
    were compiled in two processes, both called `advance` number 5, a third process would take one for the other.
    """
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    named = [
        f"{each.__module__}.{each.__qualname__}" if hasattr(each, "__qualname__") else repr(each) for each in cells
    ]
    return hashlib.sha256("\0".join(named).encode()).hexdigest()[:12]


@contextlib.contextmanager
def compiling(what: str) -> Iterator[None]:
    """Import modules with kernels inside: alone while `what` is not in the cache yet, beside others once it is.

    What is in the cache loads at once: a run that replaces a process must not wait for another checkout that compiles.
    """
    dependencies.own_cache()
    CACHE.mkdir(parents=True, exist_ok=True)
    cached = dependencies.marker(what)
    with open(CACHE / "lock", "w") as lock:
        if not cached.exists():
            fcntl.flock(lock, fcntl.LOCK_EX)
        _sweep()
        yield
        cached.touch()


def _age_s(path: Path) -> float:
    return time.time() - path.stat().st_mtime  # noqa: TID251  (time of day is right here: it is about files)


def _sweep() -> None:
    """Remove what was compiled from sources that have not been run for a week; once a day, for there are thousands."""
    swept = CACHE / "swept"
    with contextlib.suppress(FileNotFoundError):
        if _age_s(swept) < _USED_S:
            return
    with contextlib.suppress(OSError):  # a full disk: then it is done at every start
        swept.touch()
    for old in CACHE.iterdir():
        with contextlib.suppress(FileNotFoundError):  # another process sweeps too
            if old.name != "lock" and _age_s(old) > _KEEP_S:
                shutil.rmtree(old, ignore_errors=True) if old.is_dir() else old.unlink()
