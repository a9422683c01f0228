"""Unrolled code of the parts of a step that walk through index tables (unrolled.py), for this processor or a GPU.

Which entry meets which is in the index tables, and they are constants of a structure: so the Python source of a kernel
can be traced with expressions in place of numbers, once, and what it does to them is its code without a table, an
index or a loop. A term of a sparse product takes some fifty instructions by tables, and one or two so.

Promises
- The text that is traced is that of the kernels themselves: nothing is written twice.
- Operations are those of the kernel in their order. For a GPU products are fused with the sums they go into, and the
  numbers of the tables are constants. For this processor nothing is fused and numbers are read from the tables, but for
  the 0, 1 and -1 of the geometry's coefficients: the same bits as by tables, and one code for masses and lengths of
  every size.
- Unrolled code is kept by its structure, a file a function, beside the compiled kernels (code/store.py). What is not
  there is compiled by a process of idle priority (`python -m` this module), smallest first, and taken as it comes: a
  run goes by tables until then.

Only kernels whose branches depend on tables can be traced; where a pivot is examined, `_usable_pivot` does it, and
what is switched off by its weight, `_mask`.
"""

import contextlib
import functools
import hashlib
import io
import math
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sim_service.contract.machine import Machine, Reshape, Tables, Unrolled
from sync.compile.array_types import read_only
from sync.compile.beside import be_idle, compile_beside
from sync.compile.build import Progress
from sync.compile.dependencies import stamp
from tandem.multibody.code import store
from tandem.multibody.code.calls import as_word
from tandem.multibody.code.graph import Expr, Graph
from tandem.multibody.code.llvm import (
    Compiled,
    Function,
    Signature,
    arguments_of,
    load,
    machine_names,
    object_code,
    packed,
    unpacked,
    with_own_work,
)
from tandem.multibody.code.source import DeviceSource
from tandem.multibody.code.tracing import Vector, trace, window
from tandem.multibody.natural import assembly, cholesky, constraints, elements
from tandem.multibody.natural.tables import BAD_PIVOTS, P
from tandem.multibody.natural.unrolled import NAMES

PART = 400  # operations of a part on this processor
GPU_PART = 20_000  # operations of a part: most functions are one
REGISTERS = 128  # of a thread: fewer are read back from memory more often, more allow fewer threads
# reals that belong to the geometry: where one of these is 0, 1 or -1, unrolled code has it as a constant
_GEOMETRY = (
    P.FORM_COEF, P.FORM_CONST, P.INPUT_COEF, P.TERM_COEF, P.JAC_CONST, P.JAC_COEF, P.TRIG_COEF, P.THETA_COEF,
    P.FORCE_COEF, P.TANGENT_COEF,
)  # fmt: skip
_PLAIN = (0.0, 1.0, -1.0)
SERVES = 1.0  # in front of the words: they are of the structure of the numbers before them; 0.0: of another
_TRIES = 2  # of the process that compiles beside
LARGE = ("assemble", "factorise")  # code of some hundred KiB for a car, where all others together have as much


class Parts:
    """One of the four flat arrays (natural/tables.py), of which only parts are asked for."""

    def __init__(self, of: Mapping[Any, Vector]):
        self._of = of

    def part(self, which: int) -> Vector:
        return self._of[int(which)]


class Numbers:
    """The reals as this processor's code reads them: from the tables, but for the plain ones of the geometry."""

    def __init__(self, entries: Vector, values: np.ndarray):
        self._entries, self._values = entries, values

    def part(self, ints: np.ndarray, which: int) -> "_Numbers":
        start, stop = int(ints[2 * which]), int(ints[2 * which + 1])
        return _Numbers(self._entries, self._values, start, stop, which in _GEOMETRY)


@dataclass(frozen=True)
class _Numbers:
    entries: Vector
    values: np.ndarray
    start: int
    stop: int
    geometry: bool

    def __len__(self) -> int:
        return self.stop - self.start

    def __getitem__(self, at: int) -> Expr | float:
        value = float(self.values[self.start + at])
        return value if self.geometry and value in _PLAIN else self.entries[self.start + int(at)]


def _part(ints: np.ndarray, array: Any, which: int) -> Any:
    if isinstance(array, Numbers):
        return array.part(ints, int(which))
    if isinstance(array, Parts):
        return array.part(which)
    return array[ints[2 * int(which)] : ints[2 * int(which) + 1]]


def _of_number(of: Callable[[float], float], name: str) -> Callable[[Any], Any]:
    return lambda x: getattr(x.graph, name)(x) if isinstance(x, Expr) else of(x)


def _usable_pivot(pivot: Expr, original: Expr) -> tuple[Expr, Expr]:
    g = pivot.graph
    least = cholesky.TINY_PIVOT * original
    other = g.max(g.max(g.abs(pivot), least), 1e-300)
    return g.select(least, pivot, pivot, other), g.select(least, pivot, 0.0, 1.0)


def _mask(ints: np.ndarray, reals: Any, r: Vector) -> None:
    """As in assembly.py: weights are never negative."""
    weight = _part(ints, reals, P.WEIGHT)
    for k in range(len(r)):
        w = weight[k]
        r[k] = r[k] if not isinstance(w, Expr) and w != 0.0 else r[k].graph.select(0.0, w, r[k], 0.0)


_REPLACED: dict[str, Any] = {
    "part": _part, "view": window, "mask": _mask, "usable_pivot": _usable_pivot, "abs": _of_number(abs, "abs"),
    "sqrt": _of_number(math.sqrt, "sqrt"), "sin": _of_number(math.sin, "sin"), "cos": _of_number(math.cos, "cos"),
}  # fmt: skip


_traced: dict[Any, Callable[..., Any]] = {}


def traced(kernel: Any) -> Callable[..., Any]:
    """The Python source of a kernel, and of those it calls, for expressions."""
    return trace(kernel, _REPLACED, _traced)


# ---- the kernels -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Kernel:
    """A kernel with the arrays it reads, and those it writes (by the same name where it changes them)."""

    name: str
    reads: Mapping[str, int]  # with their sizes
    writes: Mapping[str, int]
    run: Callable[[Mapping[str, Vector]], None]

    def function(self, fused: bool) -> Function:
        graph = Graph()
        sizes = {**self.writes, **self.reads}
        arrays = {name: Vector(graph, name, size, name in self.reads) for name, size in sizes.items()}
        self.run(arrays)
        of: dict[str, Sequence[Expr]] = {
            name: [arrays[name][i] for i in range(size)] for name, size in self.writes.items()
        }
        if fused:
            graph, exprs = graph.fused([e for entries in of.values() for e in entries])
            found = iter(exprs)
            of = {name: [next(found) for _ in entries] for name, entries in of.items()}
        return Function(self.name, graph, tuple(self.reads), (of,))


# long: a table of what is replaced, each in a few lines
def _kernels(ints: np.ndarray, values: np.ndarray, for_gpu: bool) -> list[_Kernel]:
    def size(which: int) -> int:
        return int(ints[2 * which + 1] - ints[2 * which])

    def of_work(**places: int) -> Callable[[Mapping[str, Vector]], Parts]:
        return lambda a: Parts({which: a[name] for name, which in places.items()})

    coordinates, constraints_, inputs = size(P.Q), size(P.PHI), size(P.INPUT)
    entries, forms, rows, trig = size(P.JAC), size(P.V), size(P.R), size(P.TRIG)
    factor = {"L": size(P.FACTOR)}
    motion = {"q": coordinates, "inputs": inputs, "reals": len(values)}
    rates = {"qd": coordinates, "inputs": inputs}
    of_rates = {"vd": forms, "vu": forms}
    numbers = {"reals": len(values)}
    kernels = []

    def reals(a: Mapping[str, Vector]) -> Any:
        return values if for_gpu else Numbers(a["reals"], values)

    def add(name: str, reads: Mapping[str, int], writes: Mapping[str, int], run: Any) -> None:
        kernels.append(_Kernel(name, reads, writes, run))

    work = of_work(L=P.FACTOR, scratch=P.UPDATE, bad=P.DIAGNOSTIC)

    def run_factorise(a: Mapping[str, Vector]) -> None:
        scratch = Vector(a["L"].graph, "scratch", size(P.UPDATE), False)
        more: dict[str, Any] = {"scratch": scratch, "bad": _Offset(a["bad"])}
        traced(cholesky.factorise)(ints, work({**a, **more}))

    add("factorise", {**factor, "bad": 1}, {**factor, "bad": 1}, run_factorise)

    def run_solve(a: Mapping[str, Vector]) -> None:
        y = Vector(a["L"].graph, "y", coordinates, False)
        traced(cholesky.solve)(ints, Parts({P.FACTOR: a["L"], P.SOLVE: y}), a["b"])

    add("solve", {**factor, "b": coordinates}, {"b": coordinates}, run_solve)

    def run_assemble(a: Mapping[str, Vector]) -> None:
        of = {P.JAC: a["jac"], P.JAC_FACTOR: a["kept"], P.FACTOR: a["L"], P.PORT_K: a["K"], P.PORT_C: a["C"]}
        traced(assembly.assemble)(ints, reals(a), Parts(of), a["ck"][0], a["cc"][0])

    add(
        "assemble", {"jac": entries, "K": size(P.PORT_K), "C": size(P.PORT_C), "ck": 1, "cc": 1, **numbers},
        {"kept": entries, **factor}, run_assemble,
    )  # fmt: skip

    jac = of_work(v=P.V, trig=P.TRIG, r=P.R, jac=P.JAC)
    add("jacobian", {"v": forms, "trig": trig, "r": rows, **numbers}, {"jac": entries},
        lambda a: traced(constraints.jacobian)(ints, reals(a), jac(a)))  # fmt: skip

    def run_positions(a: Mapping[str, Vector]) -> None:
        of = Parts({P.V: a["v"], P.R: a["r"], P.TRIG: a["trig"], P.PHI: a["phi"]})
        traced(constraints.evaluate_forms)(ints, reals(a), of, a["q"], a["inputs"])
        traced(constraints.positions)(ints, reals(a), of, a["phi"])
        _mask(ints, reals(a), a["phi"])

    add("positions", motion, {"v": forms, "r": rows, "trig": trig, "phi": constraints_}, run_positions)

    vd = of_work(vd=P.VD, vu=P.VU)
    add("rates", {**rates, "vu": forms, **numbers}, of_rates,
        lambda a: traced(constraints.evaluate_rates)(ints, reals(a), vd(a), a["qd"], a["inputs"]))  # fmt: skip
    of_velocity = of_work(v=P.V, vd=P.VD, vu=P.VU, r=P.R, rd=P.RD, trig=P.TRIG)

    def run_velocities(a: Mapping[str, Vector]) -> None:
        more = {"vu": a["vd"]}
        traced(constraints.velocities)(ints, reals(a), of_velocity({**a, **more}), a["phid"])

    add("velocities", {"v": forms, "vd": forms, "r": rows, "trig": trig, **numbers}, {"rd": rows, "phid": constraints_},
        run_velocities)  # fmt: skip
    add(
        "velocity_terms", {"v": forms, "vd": forms, "vu": forms, "r": rows, "rd": rows, "trig": trig, **numbers},
        {"gamma": constraints_},
        lambda a: traced(constraints.velocity_terms)(ints, reals(a), of_velocity(a), a["gamma"]),
    )  # fmt: skip
    add("times_jacobian", {"jac": entries, "x": coordinates, "out": constraints_}, {"out": constraints_},
        lambda a: traced(constraints.times_jacobian)(ints, a["jac"], a["x"], a["out"]))  # fmt: skip
    add(
        "add_transposed", {"jac": entries, "y": constraints_, "scale": 1, "out": coordinates}, {"out": coordinates},
        lambda a: traced(constraints.add_transposed)(ints, a["jac"], a["y"], a["scale"][0], a["out"]),
    )  # fmt: skip
    add("add_mass_times", {"x": coordinates, "scale": 1, "out": coordinates, **numbers}, {"out": coordinates},
        lambda a: traced(assembly.add_mass_times)(ints, reals(a), a["x"], a["scale"][0], a["out"]))  # fmt: skip

    def run_energy(a: Mapping[str, Vector]) -> None:
        a["energy"][0] = traced(assembly.kinetic_energy)(ints, reals(a), a["qd"])

    add("kinetic_energy", {"qd": coordinates, **numbers}, {"energy": 1}, run_energy)
    force = of_work(Q=P.FORCE, f=P.PORT_FORCE)
    add("generalised_forces", {"f": size(P.PORT_FORCE), **numbers}, {"Q": coordinates},
        lambda a: traced(elements.generalised_forces)(ints, reals(a), force(a)))  # fmt: skip
    return kernels


class _Offset:
    """The diagnostics, of which there is one entry."""

    def __init__(self, of: Vector):
        self._of = of

    def __getitem__(self, at: int) -> Expr:
        assert at == BAD_PIVOTS
        found: Expr = self._of[0]
        return found

    def __setitem__(self, at: int, value: Expr) -> None:
        assert at == BAD_PIVOTS
        self._of[0] = value


def functions(ints: np.ndarray, reals: np.ndarray, for_gpu: bool) -> list[Function]:
    """All of them, in the order of NAMES."""
    found = [kernel.function(for_gpu) for kernel in _kernels(ints, reals, for_gpu)]
    assert tuple(f.name for f in found) == NAMES
    return found


def with_code(constants: Tables, first: int, words: np.ndarray) -> Tables:
    """Tables whose core begins at `first` of the ints, with a number that says that these words serve and the words
    themselves behind the floats, and an option that says where.

    The options are the last of the core's ints, and the core the last of the machine's."""
    ints, floats = np.array(constants.ints), np.array(constants.floats)
    assert ints[first + 2 * P.OPTION + 1] == len(ints) - first, "options are not the last"
    ints[first + 2 * P.OPTION + 1] += 1
    return Tables(
        read_only(np.append(ints, np.int32(len(floats)))), read_only(np.concatenate([floats, [SERVES], words]))
    )


def generated(ints: np.ndarray, reals: np.ndarray) -> tuple[str, dict[int, list[str]]]:
    """LLVM IR for a GPU, and its functions by how many arrays they are given (calls.py); numbers begin with 1."""
    found = functions(ints, reals, True)
    sizes = {f.name: len(arguments_of(f)) - 1 for f in found}
    names = {k: [name if sizes.get(name) == k else f"none_{k}" for name in ("", *NAMES)] for k in set(sizes.values())}
    return with_own_work(found, GPU_PART), names


def source(advance: Any, constants: Tables, first: int) -> DeviceSource:
    """Of a machine whose step is natural coordinates', their tables from `first` on."""
    text, names = generated(np.array(constants.ints[first:]), np.array(constants.floats))
    ints, floats = with_code(constants, first, np.arange(1.0, len(NAMES) + 1.0))
    return DeviceSource(advance, ints, floats, lambda: text, names, inline=False, registers=REGISTERS)


def structure(ints: np.ndarray, reals: np.ndarray) -> str:
    """A hash of what unrolled code depends on: index tables, and which coefficients of the geometry are plain."""
    of = hashlib.sha256(np.ascontiguousarray(ints[: ints[2 * P.OPTION]], np.int32).tobytes())
    for which in _GEOMETRY:
        found = reals[ints[2 * which] : ints[2 * which + 1]]
        of.update(np.select([found == value for value in _PLAIN], [1, 2, 3], 0).astype(np.int8).tobytes())
    return of.hexdigest()


# ---- for this processor ----------------------------------------------------------------------------------------------


def _keys(ints: np.ndarray, reals: np.ndarray) -> dict[str, str]:
    """Of each function, by which the cache has it."""
    of = (structure(ints, reals), stamp(Path(__file__)), str(PART), *machine_names())
    return {name: hashlib.sha256("\0".join((name, *of)).encode()).hexdigest()[:32] for name in NAMES}


def _signatures(name: str) -> list[Signature]:
    return [Signature(name, (), ({},))]


def compile_functions(ints: np.ndarray, reals: np.ndarray) -> Iterator[tuple[str, bytes]]:
    """Names and object code, packed, the smallest first. What is missing is compiled, and kept where there is room."""
    keys, folder = _keys(ints, reals), store.folder()
    kernels = {kernel.name: kernel for kernel in _kernels(ints, reals, False)}
    for name in sorted(NAMES, key=lambda name: name in LARGE):
        with store.locked(folder, keys[name]):
            found = store.read(folder / f"{keys[name]}.o", keys[name])
            if found is None:
                found = packed([object_code(with_own_work([kernels[name].function(False)], PART))])
                store.write(folder / f"{keys[name]}.o", keys[name], found)
        yield name, found


class Words:
    """The addresses of a structure's unrolled code, in every array that follows them, as soon as each is there."""

    def __init__(self, ints: np.ndarray, reals: np.ndarray):
        self._ints, self._reals = np.array(ints), np.array(reals)
        self._keys = _keys(self._ints, self._reals)  # of what is not there yet
        self.structure = structure(self._ints, self._reals)
        self.values = np.zeros(len(NAMES))
        self._arrays = [self.values]
        self._lock = threading.Lock()
        self._running, self._tries = False, _TRIES
        self._take()

    @property
    def complete(self) -> bool:
        return not self._keys

    def follow(self, tail: np.ndarray) -> None:
        with self._lock:
            tail[:] = self.values
            if self._keys:
                self._arrays.append(tail)

    def _take(self) -> None:
        for name, key in list(self._keys.items()):
            if (found := load(key, _signatures(name), 0, store.folder())) is not None:
                self._put(name, found)

    def _put(self, name: str, code: Compiled) -> None:
        with self._lock:
            for array in self._arrays:  # a step that is being made sees all of a word or nothing
                array[NAMES.index(name)] = as_word(code.address[name])
            self._keys.pop(name, None)

    def compile(self) -> None:
        """What is not there, now; it need not be kept."""
        progress = Progress(of="unrolled code")
        for done, (name, data) in enumerate(compile_functions(self._ints, self._reals), 1):
            if name in self._keys:
                self._put(name, Compiled(_signatures(name), unpacked(data), 0))
            progress(done, len(NAMES))

    def compile_beside(self) -> None:
        """The same in an idle process; nothing waits for it. One that failed is tried again by the next who asks."""
        with self._lock:
            if self.complete or self._running or not self._tries:
                return
            self._running, self._tries = True, self._tries - 1
        text = io.BytesIO()
        for array in (self._ints, self._reals):
            np.save(text, array, allow_pickle=False)
        compile_beside("tandem.multibody.natural.unrolling", text.getvalue(), lambda _: self._take(), self._ended)

    def _ended(self, error_text: str) -> None:
        self._running = False
        if not self.complete:
            _note(error_text or "it is not in the cache")


@functools.cache
def _note(why: str) -> None:
    """Once: a process makes the same machine many times."""
    print(f"tandem: no unrolled code, steps go by index tables: {why}", file=sys.stderr, flush=True)


_words: dict[str, Words] = {}  # by structure: a study makes one machine after the other


def unrolled(machine: Machine, first: int, wait: bool) -> Machine:
    """A machine of natural coordinates, their tables from `first` of its ints on, with unrolled code; `wait` until it
    is all there."""
    ints, reals = machine.tables.ints[first:], machine.tables.floats
    key = structure(ints, reals)
    words = _words.get(key) or _words.setdefault(key, Words(ints, reals))
    if wait and not words.complete:
        words.compile()
    words.compile_beside()
    return with_words(machine, first, words)


def with_words(machine: Machine, first: int, words: Words) -> Machine:
    """The same machine with these behind the floats of its tables, and of those of any other shape they serve."""
    base = machine.tables
    ints, numbers = with_code(base, first, words.values)
    floats, size = numbers.copy(), len(NAMES)
    words.follow(floats[-size:])
    places = range(len(floats) - size, len(floats))
    unrolled = replace(machine, tables=Tables(ints, read_only(floats))).having(
        replace(machine.placed, addresses=(*machine.placed.addresses, *places)), Unrolled(size, words.follow)
    )
    reshape = machine.of(Reshape)
    if reshape is None:
        return unrolled
    make = reshape.make

    def other(params: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        numbers, reference = make(params)
        same = structure(base.ints[first:], numbers) == words.structure
        if not same:
            _note("a shape whose plain coefficients are others")
        return np.concatenate([numbers, [SERVES if same else 0.0], words.values]), reference

    return unrolled.having(replace(reshape, make=other))


def main() -> int:
    """Compile what is missing of the structure whose ints and reals come from standard input, and say what is there."""
    be_idle()
    data = io.BytesIO(sys.stdin.buffer.read())
    ints, reals = (np.load(data, allow_pickle=False) for _ in range(2))
    for name, _ in compile_functions(ints, reals):
        print(name, flush=True)
    return 0


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):  # nobody waits for it any more
        sys.exit(main())
