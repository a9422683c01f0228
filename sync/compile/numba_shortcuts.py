"""Replacements for parts of numba that work longer than they must, or give up; the results are the same.

All use numba's internals, so all are applied only to the version they were tried with. With another everything works
as in numba itself: a start takes longer, a cache that cannot be read must be deleted by hand, and with a full disk
nothing is compiled.
"""

import contextlib
import fcntl
import functools
import importlib.util
import os
import sys
import tempfile
import time
from typing import Any

import llvmlite.binding
import numba
from numba.core import base, caching, codegen, dispatcher, environment, targetconfig, types
from numba.core.compiler_lock import global_compiler_lock
from numba.core.options import DefaultOptions
from numba.core.runtime import rtsys
from numba.core.types.functions import BaseFunction
from numba.core.typing.context import BaseContext

from sync.compile import dependencies

_TRIED = "0.68.1"
_ARRAY_FUNCTIONS = "numba.np.arraymath"


def supported() -> bool:
    """Whether this is the numba that all of this was tried with."""
    return str(numba.__version__) == _TRIED


def memory(allocates: bool) -> dict[str, bool]:
    """The option that leaves numba's memory management out, for a kernel that allocates nothing; none where numba does
    not know it: references are counted there, and what allocates is not refused."""
    return {"_nrt": allocates} if hasattr(DefaultOptions, "_nrt") else {}


def apply() -> None:
    _ignore_settings_of_the_working_folder()
    if supported():
        options = targetconfig.TargetConfig
        options.__eq__, options.__hash__ = _same, _one_hash
        codegen.JITCPUCodegen._library_class = _Library
        codegen.JITCPUCodegen.set_env = _set_env
        codegen.JITCPUCodegen.magic_tuple = _of_the_folder
        caching.Cache.load_overload, caching.Cache.save_overload = _load, _save
        dispatcher.Dispatcher.compile = _compile  # type: ignore[method-assign]
        dispatcher.Dispatcher.enable_caching = _enable_caching  # type: ignore[method-assign]
        caching.IndexDataCacheFile._load_index = _entries
        caching.IndexDataCacheFile._load_data = _entry
        environment._rebuild_env = _rebuild_env
        base.BaseContext.refresh = _refresh_target
        BaseContext.refresh = _refresh_typing
        BaseFunction.get_call_type = _get_call_type  # type: ignore[method-assign]


def _ignore_settings_of_the_working_folder() -> None:
    """numba reads `.numba_config.yaml` there when it is imported and whenever it compiles. The folder may be another
    user's, and code compiled with that user's settings would stay in our cache."""
    numba.core.config._config_fname = os.devnull
    numba.core.config.reload_config()


# ---- options: a sixth of the time to compile. numba asks some 200 000 times whether two sets of options are equal,
# ---- because all of them have one hash, and each time builds both with all their defaults. What was set tells as well.


def _same(self: Any, other: Any) -> Any:
    if type(self) is not type(other):
        return self.values() == other.values() if isinstance(other, targetconfig.TargetConfig) else NotImplemented
    one, two, known = self._values, other._values, self.options
    return one == two or all(
        one.get(name, known[name].default) == two.get(name, known[name].default) for name in one.keys() | two.keys()
    )


_hashes: dict[type, int] = {}


def _one_hash(self: Any) -> int:
    kind = type(self)
    if kind not in _hashes:
        _hashes[kind] = hash(tuple(sorted(self.options)))  # of the names alone, as numba has it
    return _hashes[kind]


# ---- declarations: a tenth of the time to compile. Before every function numba checks each of its tables for
# ---- new entries; they only grow, so comparing their lengths is enough.

_numba_refresh_target, _numba_refresh_typing = base.BaseContext.refresh, BaseContext.refresh


def _declared(*contexts: Any) -> list[int]:
    return [
        len(getattr(registry, name))
        for context in contexts
        for registry, loader in context._registries.items()
        for name in loader.registry_items
    ]


def _refresh_target(self: Any) -> None:
    if getattr(self, "_tandem_declared", None) != (found := _declared(self, self.typing_context)) or not found:
        _numba_refresh_target(self)
        self._tandem_declared = _declared(self, self.typing_context)


def _refresh_typing(self: Any) -> None:
    if getattr(self, "_tandem_declared", None) != (found := _declared(self)) or not found:
        _numba_refresh_typing(self)
        self._tandem_declared = _declared(self)


# ---- operators and functions of math on plain numbers: a tenth of the time to compile. For each `+` numba
# ---- tries all declarations until one takes two float64. The result is remembered; a new declaration makes a new type.

_numba_get_call_type = BaseFunction.get_call_type
_numbers = (types.Float, types.Integer, types.Boolean, types.IntegerLiteral)


def _get_call_type(self: Any, context: Any, args: Any, kws: Any) -> Any:
    if getattr(self.typing_key, "__module__", None) not in ("_operator", "math") or kws:
        return _numba_get_call_type(self, context, args, kws)
    if not all(isinstance(each, _numbers) for each in args):
        return _numba_get_call_type(self, context, args, kws)
    known = self.__dict__.setdefault("_tandem_known", {})
    if (found := known.get((context, args))) is None:
        found = known[context, args] = _numba_get_call_type(self, context, args, kws)
    return found


# ---- loading: a fifth of the time to start. A cached kernel is kept as object code and, for kernels that inline it, as
# ---- bitcode. numba parses that whenever it loads one; a run inlines nothing any more. Here: when needed.
# ----
# ---- inner functions (sync/compile/jit.py): most of the time to compile. A function without wrappers
# ---- is only called by kernels. numba makes machine code of it all the same, and of everything it calls, and again for
# ---- each caller. Here that waits until a kernel with wrappers links it.


class _Library(codegen.JITCodeLibrary):  # type: ignore[misc]  # numba has no types
    _bitcode: bytes | None = None  # not parsed yet
    _inner = False
    _linking_libraries: list[Any]

    def finalize(self) -> None:
        if not self._inner:
            self._linking_libraries = _with_inner(self._linking_libraries)
            super().finalize()
            return
        self._raise_if_finalized()
        self._finalize_dynamic_globals()
        self._finalized = True

    @classmethod
    def _unserialize(cls, generator: Any, state: tuple[str, str, Any]) -> Any:
        name, kind, data = state
        if kind != "object":
            return super()._unserialize(generator, state)
        library = generator.create_library(name)
        library.enable_object_caching()
        object_code, library._bitcode = data
        library._set_compiled_object(object_code)
        library._finalize_final_module()
        return library

    def _optimize_final_module(self) -> None:
        if any(function.name.startswith("NRT_") for function in self._final_module.functions):
            super()._optimize_final_module()
            return
        # the first of numba's two rounds brings references together that the second takes away: here are none
        manager, builder = self._codegen._module_pass_manager()
        manager.run(self._final_module, builder)

    def _get_module_for_linking(self) -> Any:
        if self._bitcode is not None:
            self._shared_module, self._bitcode = llvmlite.binding.parse_bitcode(self._bitcode), None
            self._codegen._engine._load_defined_symbols(self._shared_module)
        return super()._get_module_for_linking()

    def get_pointer_to_function(self, name: str) -> int:
        if not self._finalized and not _defines(self._final_module, name):
            self._inner = True
        if self._bitcode is None:
            return int(super().get_pointer_to_function(name))
        return int(self._codegen._engine.get_function_address(name))


def _defines(module: Any, name: str) -> bool:
    try:
        return not module.get_function(name).is_declaration
    except NameError:
        return False


def _with_inner(libraries: list[Any]) -> list[Any]:
    """These, and what inner ones among them call."""
    found = dict.fromkeys(libraries)
    waiting = list(found)
    while waiting:
        library = waiting.pop()
        for each in library._linking_libraries if getattr(library, "_inner", False) else ():
            if each not in found:
                found[each] = None
                waiting.append(each)
    return list(found)


_numba_set_env = codegen.JITCPUCodegen.set_env


def _set_env(self: Any, env_name: str, env: Any) -> None:
    if self._engine.get_global_value_address(env_name):  # an inner function has none
        _numba_set_env(self, env_name, env)


def _of_the_folder(self: Any) -> tuple[str, ...]:
    """The folder's name says which processor code is for (sync/compile/dependencies.py). So code that was compiled
    elsewhere, for a processor that this one can stand in for, is found as well (sync/compile/shipped.py)."""
    return ("folder",)


# ---- loading: 0.3 s of a processor in every process. Before numba looks into its cache it gets ready to compile: all
# ---- of Python and numpy that it knows is entered into tables. It does so before it compiles, too; here only what
# ---- loaded code needs is made ready: the memory management of arrays, and C callbacks as arguments.


def _load(self: Any, sig: Any, target_context: Any) -> Any:
    import numba.experimental.function_type  # noqa: F401

    rtsys.initialize(target_context)
    with self._guard_against_spurious_io_errors():
        found = self._load_overload(sig, target_context)
        if found is None and self._enabled and _compiled and _wait_for_others(self._impl.locator.get_cache_path()):
            found = self._load_overload(sig, target_context)
        return found
    return None


# ---- several processes that need the same kernel: one compiles it, others wait and load it. numba has each compile it.

_PATIENCE_S = 60.0  # with a process that was stopped while it compiles; then it is compiled twice
_numba_compile = dispatcher.Dispatcher.compile
_compiled: list[contextlib.ExitStack] = []  # by calls of `_compile`, one inside the other: what each has locked


def _compile(self: Any, sig: Any) -> Any:
    with global_compiler_lock, contextlib.ExitStack() as locked:
        _compiled.append(locked)
        try:
            return _numba_compile(self, sig)
        finally:
            _compiled.pop()


def _wait_for_others(folder: str) -> bool:
    """Whether another process may have compiled it meanwhile. The lock is held until the compiled code is stored. Who
    compiles at idle priority takes none: others would wait for a process that may get no time."""
    if os.sched_getscheduler(0) == os.SCHED_IDLE:
        return False
    waited = False
    with contextlib.suppress(OSError):  # the folder was deleted, or its file system knows no locks: then nobody waits
        file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        _compiled[-1].callback(os.close, file)
        end = time.monotonic() + _PATIENCE_S
        while time.monotonic() < end:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return waited
            waited = True
            time.sleep(0.02)
    return waited


# ---- loading: 0.3 s more where scipy is installed. Code that was made with numba's array functions imports their
# ---- module, which asks whether there is a BLAS and imports scipy's linear algebra for the answer. Code that calls one
# ---- asks for itself.

_numba_rebuild_env = environment._rebuild_env


@functools.wraps(_numba_rebuild_env)  # so that cached code still names numba's
def _rebuild_env(modname: str, consts: Any, env_name: str) -> Any:
    if modname == _ARRAY_FUNCTIONS and modname not in sys.modules:
        from numba.np import linalg

        ensure_blas, linalg.ensure_blas = linalg.ensure_blas, _is_there
        try:
            importlib.import_module(modname)
        finally:
            linalg.ensure_blas = ensure_blas
    return _numba_rebuild_env(modname, consts, env_name)


def _is_there() -> None:
    if importlib.util.find_spec("scipy") is None:
        raise ImportError("scipy is required for linear algebra")


# ---- a cache that cannot be read is one without entries: compiled once more. A kernel without a signature is cached by
# ---- the types it was called with, and these may be of a module that is gone since (numba: ModuleNotFoundError, for
# ---- every call); a machine that lost its power leaves files that are empty.

_load_index = caching.IndexDataCacheFile._load_index
_load_data = caching.IndexDataCacheFile._load_data


def _entries(self: Any) -> dict[Any, str]:
    try:
        return dict(_load_index(self))
    except OSError:
        raise
    except Exception:  # reading a pickle may raise anything
        return {}


def _entry(self: Any, name: str) -> Any:
    try:
        return _load_data(self, name)
    except OSError:
        raise
    except Exception as error:
        raise FileNotFoundError(name) from error  # as if the file had been removed: compiled again


# ---- a disk that is full: what was compiled is used, and not kept. The folder of a kernel is made before it is
# ---- compiled, and numba knows no place where that failed.

_numba_save, _numba_enable = caching.Cache.save_overload, dispatcher.Dispatcher.enable_caching


def _save(self: Any, sig: Any, data: Any) -> None:
    try:
        _numba_save(self, sig, data)
    except OSError as error:
        dependencies.report_unstored(dependencies.cache_directory(), error)


def _enable_caching(self: Any) -> None:
    try:
        _numba_enable(self)
    except RuntimeError:
        folder = dependencies.cache_directory()
        try:
            os.rmdir(tempfile.mkdtemp(dir=folder))
        except OSError as error:
            dependencies.report_unstored(folder, error)
        else:
            raise
