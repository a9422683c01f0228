"""A mechanism's functions and their machine code, from the cache if they are there.

Two entries of the cache lead to the object code, which is there once:

    KEY.system   by everything that was described (`digest`): the tree, numbers and layouts. Nothing is computed
                 again: no tree, no graph.
    KEY.code     by what the functions depend on (`Writer.structure`): layouts. A mechanism with other numbers (masses,
                 lengths, stiffnesses) gets its own tree and parameters, and the code that is there already.

Keys also have the contents of all sources that generate, versions of what they use, and the processor; so an entry is
right or is not found. Entries are plain data (`_CLASSES`), sealed (store.py). The graph of a system that was loaded is
written when something asks for its functions: C or CUDA text.
"""

import functools
import hashlib
import io
import pickle
import struct
import types
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numba
import numpy as np

from sync.compile import dependencies
from sync.compile.build import Progress
from tandem.multibody.code import store
from tandem.multibody.code.llvm import Compiled, Signature, compiled, load, machine_names
from tandem.multibody.natural.equations import Equations
from tandem.multibody.natural.linear import Linear
from tandem.multibody.relative.generate import Generated, Position, Writer, generate, write_functions
from tandem.multibody.relative.port_jacobian import PortBlocks
from tandem.multibody.relative.spanning import make_tree
from tandem.multibody.relative.tree import Equation, Form, Motion, Scalar, SlipEquation, Tree, TreeBody

SILENT_S = 2.0  # what is made sooner is not reported
_NUMBERS = ("tree", "at", "ports", "parameter_names", "parameters")
_STRUCTURE = tuple(f.name for f in fields(Generated) if f.name not in (*_NUMBERS, "write"))
_CLASSES = {
    f"{kind.__module__}.{kind.__name__}": kind
    for kind in (Equation, Form, Motion, Scalar, SlipEquation, Tree, TreeBody, Position, PortBlocks, Signature)
}
_ARRAYS = ("_reconstruct", "_frombuffer", "ndarray", "dtype", "scalar")


def build(
    mechanism: Equations,
    cut: Sequence[str] = (),
    tree: Tree | None = None,
    at: Position | None = None,
    folder: Path | None = None,
) -> tuple[Generated, Compiled]:
    """As `generate` and `compiled`; one process does it, others wait."""
    folder = folder or store.folder()
    key = _key(digest(mechanism, tuple(cut), tree, at))
    found = _load(folder, key, mechanism)
    if found is None:
        with store.locked(folder, key):
            found = _load(folder, key, mechanism) or _make(folder, key, mechanism, cut, tree, at)
    return found


def _make(
    folder: Path, key: str, mechanism: Equations, cut: Sequence[str], tree: Tree | None, at: Position | None
) -> tuple[Generated, Compiled]:
    progress = Progress(SILENT_S, of="equations of motion")
    one = Writer(mechanism, make_tree(mechanism, cut) if tree is None else tree, at)
    one.write_places()
    names = tuple(one.links.p.names)
    alike = _key(one.structure().encode())
    found = _with_code_of(folder, alike, one)
    if found is not None:
        generated, code = found
    else:
        progress.show("writing equations of motion")
        generated = write_functions(one)
        code = compiled(generated.functions, folder, report=progress)
        if generated.parameter_names == names:  # otherwise a parameter was found late, and structure did not know it
            store.write(folder / f"{alike}.code", alike, _packed(generated, _STRUCTURE, code))
    store.write(folder / f"{key}.system", key, _packed(generated, (*_NUMBERS, *_STRUCTURE), code))
    return generated, code


def build_like(mechanism: Equations, structure: str, generated: Generated) -> Generated | None:
    """What `build` made of a mechanism of that structure, with the numbers of one that has the same functions; None
    where it has others. Nothing is compiled, read or stored: for numbers that change while a machine runs."""
    one = Writer(mechanism, make_tree(mechanism, ()), None)
    one.write_places()
    names = tuple(one.links.p.names)
    if generated.parameter_names != names or one.structure() != structure:
        return None
    numbers = one.tree, one.at, tuple(one.ports), names, np.array(one.links.p.values)
    same = {name: getattr(generated, name) for name in _STRUCTURE}
    return _restored(one.m, dict(zip(_NUMBERS, numbers, strict=True)) | same)


def structure_of(mechanism: Equations) -> str:
    """What its functions depend on."""
    one = Writer(mechanism, make_tree(mechanism, ()), None)
    one.write_places()
    return one.structure()


def _with_code_of(folder: Path, alike: str, one: Writer) -> tuple[Generated, Compiled] | None:
    """With the code of a mechanism that differs in numbers alone, if there is one."""
    entry = _unpacked(store.read(folder / f"{alike}.code", alike))
    code = None if entry is None else load(entry["object"], entry["signatures"], entry["work_size"], folder)
    if entry is None or code is None:
        return None
    numbers = one.tree, one.at, tuple(one.ports), tuple(one.links.p.names), np.array(one.links.p.values)
    return _restored(one.m, dict(zip(_NUMBERS, numbers, strict=True)) | entry), code


# ---- entries ---------------------------------------------------------------------------------------------------------


def _load(folder: Path, key: str, mechanism: Equations) -> tuple[Generated, Compiled] | None:
    entry = _unpacked(store.read(folder / f"{key}.system", key))
    if entry is None:
        return None
    code = load(entry["object"], entry["signatures"], entry["work_size"], folder)
    return None if code is None else (_restored(mechanism, entry), code)


def _restored(mechanism: Equations, entry: dict[str, Any]) -> Generated:
    tree, at = entry["tree"], entry["at"]
    fields_of = {name: entry[name] for name in (*_NUMBERS, *_STRUCTURE)}
    return Generated(**fields_of, write=lambda: generate(mechanism, tree=tree, at=at).functions)


def _packed(generated: Generated, names: Sequence[str], code: Compiled) -> bytes:
    entry = {name: getattr(generated, name) for name in names}
    return pickle.dumps(entry | {"object": code.key, "work_size": code.work_size}, 5)


class _Unpickler(pickle.Unpickler):
    """Plain data, and no other name of any module."""

    def find_class(self, module: str, name: str) -> Any:
        if module.partition(".")[0] == "numpy" and name in _ARRAYS:
            return super().find_class(module, name)
        if (kind := _CLASSES.get(f"{module}.{name}")) is None:
            raise pickle.UnpicklingError(f"{module}.{name} in an entry of the cache")
        return kind


def _unpacked(data: bytes | None) -> dict[str, Any] | None:
    if data is None:
        return None
    try:
        found = _Unpickler(io.BytesIO(data)).load()
    except Exception:  # it was sealed and still is no valid entry: the system is built again
        return None
    return found if isinstance(found, dict) else None


# ---- keys ------------------------------------------------------------------------------------------------------------


def _key(what: bytes) -> str:
    return hashlib.sha256(_circumstances() + what).hexdigest()[:32]


@functools.cache
def _circumstances() -> bytes:
    names = (generator_stamp(), numba.__version__, np.__version__, *machine_names())
    return "\0".join(names).encode() + b"\0"


def generator_stamp() -> str:
    """A digest of this file and of all that it imports."""
    return dependencies.stamp(dependencies.file_of("tandem.multibody.relative.system"))


_UNREAD = {"owner", "potential", "given", "data"}  # of no consequence for equations, or without contents to compare


def digest(*described: Any) -> bytes:
    """Of a description as it was built, to the bit; the order of what was added, and what shares an object, count."""
    out: list[bytes] = []
    seen: dict[int, int] = {}
    for one in described:
        _describe(one, out.append, seen)
    return hashlib.sha256(b"".join(out)).digest()


def _describe(value: Any, put: Callable[[bytes], Any], seen: dict[int, int]) -> None:
    kind = type(value)
    if kind is float:
        put(b"f" + struct.pack("<d", value))
    elif kind is np.ndarray:
        put(f"a{value.dtype.str}{value.shape}".encode() + value.tobytes())
    elif kind is str:
        put(f"s{len(value)} {value}".encode())
    elif kind in (int, bool, type(None)):
        put(f"i{value};".encode())
    elif kind in (tuple, list):
        put(f"t{len(value)} ".encode())
        for item in value:
            _describe(item, put, seen)
    elif kind is dict:
        put(f"d{len(value)} ".encode())
        for name, item in value.items():
            _describe(name, put, seen)
            _describe(item, put, seen)
    elif kind in (set, frozenset):
        put(f"e{len(value)} ".encode() + b"".join(sorted(digest(item) for item in value)))
    elif isinstance(value, np.generic):
        put(b"n" + value.dtype.str.encode() + value.tobytes())
    elif isinstance(value, types.FunctionType | type):
        put(f"c{value.__module__}.{value.__qualname__};".encode())
    else:
        _describe_object(value, put, seen)


def _describe_object(value: Any, put: Callable[[bytes], Any], seen: dict[int, int]) -> None:
    if id(value) in seen:
        put(b"o%d;" % seen[id(value)])
        return
    seen[id(value)] = len(seen)
    put(f"O{type(value).__qualname__};".encode())
    if isinstance(value, Linear):  # most of a description
        for terms in (value.terms, value.inputs):
            put(b"%d:" % len(terms))
            for k, c in terms.items():
                put(b"%d,%d " % (k, len(c)) + c.tobytes())
        put(b"%d " % len(value.const) + value.const.tobytes() + value.kind.encode())
        _describe(value.shares, put, seen)
        if type(value) is Linear:
            return
    for name, item in vars(value).items():
        if name not in _UNREAD:
            put(name.encode() + b"=")
            _describe(item, put, seen)
