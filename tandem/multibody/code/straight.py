"""Kernels of natural coordinates that walk through index tables, as straight code for a GPU.

Which entry meets which is in the index tables, and they are constants of a program: so the Python source of a kernel
can be followed with expressions in place of numbers, once, and what it does to them is its code without a table, an
index or a loop. A term of a sparse product takes some fifty instructions by tables, and one or two so.

Promises
- The text that is followed is that of the kernels themselves (`multibody/natural`): nothing is written twice.
- Operations are those of the kernel in their order, but that products are fused with the sums they go into.
- `taking_place` lets the step call the straight code while it is compiled for a GPU; the CPU never sees it.

Only kernels whose branches depend on tables can be followed; where a pivot is examined, `_usable_pivot` does it.
"""

import contextlib
import math
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import types as numba_types
from numba.core import cgutils
from numba.core.dispatcher import Dispatcher
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array

from sim_service.contract.machine import Tables
from sync.compile.array_types import VECTOR
from sync.compile.jit import inner
from tandem.multibody.code.source import DeviceSource
from tandem.multibody.natural import assembly, augmented, cholesky, constraints, elements
from tandem.multibody.natural.tables import BAD_PIVOTS, P
from tandem.multibody.natural.views import part, view
from tandem.multibody.relative.calls import call
from tandem.multibody.relative.graph import Expr, Graph
from tandem.multibody.relative.llvm import Function, arguments_of, module_text, split

COMPILED_WHEN_ASKED = True  # see sync/compile/build.py
PART = 20_000  # operations of a part: most functions are one
REGISTERS = 128  # of a thread: fewer are read back from memory more often, more leave room for fewer threads


class Vector:
    """An array of expressions, or a view of one."""

    def __init__(self, graph: Graph, name: str, size: int, known: bool = True):
        self._graph, self.name, self._start, self._size = graph, name, 0, size
        self._entries: dict[int, Expr] = {}
        self._known = known  # entries that were not written are inputs; otherwise nobody reads them

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, at: int) -> Expr:
        place = self._place(at)
        if place not in self._entries:
            if not self._known:
                raise ValueError(f"{self.name}[{place}] is read before it is written")
            self._entries[place] = self._graph.input(self.name, place)
        return self._entries[place]

    def __setitem__(self, at: int, value: Expr | float) -> None:
        self._entries[self._place(at)] = self._graph.expr(value)

    def _place(self, at: int) -> int:
        if not 0 <= at < self._size:
            raise IndexError(f"{self.name}: entry {at} of {self._size}")
        return self._start + int(at)

    def window(self, start: int, stop: int) -> "Vector":
        out = Vector(self._graph, self.name, int(stop) - int(start), self._known)
        out._start, out._entries = self._start + int(start), self._entries
        return out

    def written(self) -> list[Expr]:
        """All entries as they are now."""
        return [self[i] for i in range(self._size)]


class Parts:
    """One of the four flat arrays (natural/tables.py), of which only parts are asked for."""

    def __init__(self, of: Mapping[Any, Vector]):
        self._of = of

    def part(self, which: int) -> Vector:
        return self._of[int(which)]


def _part(ints: np.ndarray, array: Any, which: int) -> Any:
    if isinstance(array, Parts):
        return array.part(which)
    return array[ints[2 * int(which)] : ints[2 * int(which) + 1]]


def _view(array: Any, start: int, stop: int) -> Any:
    return array.window(start, stop) if isinstance(array, Vector) else array[start:stop]


def _of_number(of: Callable[[float], float], name: str) -> Callable[[Any], Any]:
    return lambda x: getattr(x.graph, name)(x) if isinstance(x, Expr) else of(x)


def _usable_pivot(pivot: Expr, original: Expr) -> tuple[Expr, Expr]:
    g = pivot.graph
    least = cholesky.TINY_PIVOT * original
    other = g.max(g.max(g.abs(pivot), least), 1e-300)
    return g.select(least, pivot, pivot, other), g.select(least, pivot, 0.0, 1.0)


_REPLACED: dict[str, Any] = {
    "part": _part, "view": _view, "usable_pivot": _usable_pivot, "abs": _of_number(abs, "abs"),
    "sqrt": _of_number(math.sqrt, "sqrt"), "sin": _of_number(math.sin, "sin"), "cos": _of_number(math.cos, "cos"),
}  # fmt: skip


def followed(function: Any) -> Callable[..., Any]:
    """The Python source of a kernel, and of those it calls, for expressions."""
    source = function.py_func
    names = {name: value for name, value in source.__globals__.items() if name in source.__code__.co_names}
    for name, value in names.items():
        if isinstance(value, Dispatcher):
            names[name] = followed(value)
    names |= {name: value for name, value in _REPLACED.items() if name in source.__code__.co_names}
    return types.FunctionType(source.__code__, {"__builtins__": __builtins__, **names}, source.__name__)


# ---- the kernels -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Kernel:
    """A kernel with the arrays it reads, and those it writes (by the same name where it changes them)."""

    name: str
    reads: Mapping[str, int]  # with their sizes
    writes: Mapping[str, int]
    run: Callable[[Mapping[str, Vector]], None]

    def function(self) -> Function:
        graph = Graph()
        sizes = {**self.writes, **self.reads}
        arrays = {name: Vector(graph, name, size, name in self.reads) for name, size in sizes.items()}
        self.run(arrays)
        outputs = [(name, arrays[name].written()) for name in self.writes]
        plain, exprs = graph.fused([e for _, entries in outputs for e in entries])
        of: dict[str, Sequence[Expr]] = {}
        at = 0
        for name, entries in outputs:
            of[f"new_{name}"] = exprs[at : at + len(entries)]
            at += len(entries)
        return Function(self.name, plain, tuple(self.reads), (of,))


# long: a table of what is replaced, each in a few lines
def _kernels(ints: np.ndarray, reals: np.ndarray) -> list[_Kernel]:
    def size(which: int) -> int:
        return int(ints[2 * which + 1] - ints[2 * which])

    def of_work(**places: int) -> Callable[[Mapping[str, Vector]], Parts]:
        return lambda a: Parts({which: a[name] for name, which in places.items()})

    coordinates, constraints_, inputs = size(P.Q), size(P.PHI), size(P.INPUT)
    entries, forms, rows, trig = size(P.JAC), size(P.V), size(P.R), size(P.TRIG)
    factor = {"L": size(P.FACTOR)}
    motion = {"q": coordinates, "inputs": inputs}
    rates = {"qd": coordinates, "inputs": inputs}
    of_rates = {"vd": forms, "vu": forms}
    kernels = []

    def add(name: str, reads: Mapping[str, int], writes: Mapping[str, int], run: Any) -> None:
        kernels.append(_Kernel(name, reads, writes, run))

    work = of_work(L=P.FACTOR, scratch=P.UPDATE, bad=P.DIAGNOSTIC)

    def run_factorise(a: Mapping[str, Vector]) -> None:
        scratch = Vector(a["L"]._graph, "scratch", size(P.UPDATE), False)
        more: dict[str, Any] = {"scratch": scratch, "bad": _Offset(a["bad"])}
        followed(cholesky.factorise)(ints, work({**a, **more}))

    add("factorise", {**factor, "bad": 1}, {**factor, "bad": 1}, run_factorise)

    def run_solve(a: Mapping[str, Vector]) -> None:
        y = Vector(a["L"]._graph, "y", coordinates, False)
        followed(cholesky.solve)(ints, Parts({P.FACTOR: a["L"], P.SOLVE: y}), a["b"])

    add("solve", {**factor, "b": coordinates}, {"b": coordinates}, run_solve)

    def run_assemble(a: Mapping[str, Vector]) -> None:
        of = {P.JAC: a["jac"], P.JAC_FACTOR: a["kept"], P.FACTOR: a["L"], P.PORT_K: a["K"], P.PORT_C: a["C"]}
        followed(assembly.assemble)(ints, reals, Parts(of), a["ck"][0], a["cc"][0])

    add(
        "assemble", {"jac": entries, "K": size(P.PORT_K), "C": size(P.PORT_C), "ck": 1, "cc": 1},
        {"kept": entries, **factor}, run_assemble,
    )  # fmt: skip

    jac = of_work(v=P.V, trig=P.TRIG, r=P.R, jac=P.JAC)
    add("jacobian", {"v": forms, "trig": trig, "r": rows}, {"jac": entries},
        lambda a: followed(constraints.jacobian)(ints, reals, jac(a)))  # fmt: skip

    def run_positions(a: Mapping[str, Vector]) -> None:
        of = Parts({P.V: a["v"], P.R: a["r"], P.TRIG: a["trig"], P.PHI: a["phi"]})
        followed(constraints.evaluate_forms)(ints, reals, of, a["q"], a["inputs"])
        followed(constraints.positions)(ints, reals, of, a["phi"])
        followed(assembly.mask)(ints, reals, a["phi"])

    add("positions", motion, {"v": forms, "r": rows, "trig": trig, "phi": constraints_}, run_positions)

    vd = of_work(vd=P.VD, vu=P.VU)
    add("rates", {**rates, "vu": forms}, of_rates,
        lambda a: followed(constraints.evaluate_rates)(ints, reals, vd(a), a["qd"], a["inputs"]))  # fmt: skip
    of_velocity = of_work(v=P.V, vd=P.VD, vu=P.VU, r=P.R, rd=P.RD, trig=P.TRIG)

    def run_velocities(a: Mapping[str, Vector]) -> None:
        more = {"vu": a["vd"]}
        followed(constraints.velocities)(ints, reals, of_velocity({**a, **more}), a["phid"])

    add("velocities", {"v": forms, "vd": forms, "r": rows, "trig": trig}, {"rd": rows, "phid": constraints_},
        run_velocities)  # fmt: skip
    add(
        "velocity_terms", {"v": forms, "vd": forms, "vu": forms, "r": rows, "rd": rows, "trig": trig},
        {"gamma": constraints_},
        lambda a: followed(constraints.velocity_terms)(ints, reals, of_velocity(a), a["gamma"]),
    )  # fmt: skip
    add("times_jacobian", {"jac": entries, "x": coordinates, "out": constraints_}, {"out": constraints_},
        lambda a: followed(constraints.times_jacobian)(ints, a["jac"], a["x"], a["out"]))  # fmt: skip
    add(
        "add_transposed", {"jac": entries, "y": constraints_, "scale": 1, "out": coordinates}, {"out": coordinates},
        lambda a: followed(constraints.add_transposed)(ints, a["jac"], a["y"], a["scale"][0], a["out"]),
    )  # fmt: skip
    add("add_mass_times", {"x": coordinates, "scale": 1, "out": coordinates}, {"out": coordinates},
        lambda a: followed(assembly.add_mass_times)(ints, reals, a["x"], a["scale"][0], a["out"]))  # fmt: skip

    def run_energy(a: Mapping[str, Vector]) -> None:
        a["energy"][0] = followed(assembly.kinetic_energy)(ints, reals, a["qd"])

    add("kinetic_energy", {"qd": coordinates}, {"energy": 1}, run_energy)
    force = of_work(Q=P.FORCE, f=P.PORT_FORCE)
    add("generalised_forces", {"f": size(P.PORT_FORCE)}, {"Q": coordinates},
        lambda a: followed(elements.generalised_forces)(ints, reals, force(a)))  # fmt: skip
    return kernels


class _Offset:
    """The diagnostics, of which there is one entry."""

    def __init__(self, of: Vector):
        self._of = of

    def __getitem__(self, at: int) -> Expr:
        assert at == BAD_PIVOTS
        return self._of[0]

    def __setitem__(self, at: int, value: Expr) -> None:
        assert at == BAD_PIVOTS
        self._of[0] = value


# ---- in place of them ------------------------------------------------------------------------------------------------

_NAMES = (
    "factorise", "solve", "assemble", "jacobian", "positions", "rates", "velocities", "velocity_terms",
    "times_jacobian", "add_transposed", "add_mass_times", "kinetic_energy", "generalised_forces",
)  # fmt: skip
(
    _FACTORISE, _SOLVE, _ASSEMBLE, _JACOBIAN, _POSITIONS, _RATES, _VELOCITIES, _VELOCITY_TERMS, _TIMES_JACOBIAN,
    _ADD_TRANSPOSED, _ADD_MASS_TIMES, _KINETIC_ENERGY, _GENERALISED_FORCES,
) = (float(k) for k in range(len(_NAMES)))  # fmt: skip


@intrinsic
def number_in_memory(typingctx, value):
    """A vector of this number alone, which lives as long as the function that asks for it."""

    def codegen(context, builder, signature, args):
        out = make_array(VECTOR)(context, builder)
        place = cgutils.alloca_once_value(builder, args[0])
        width = context.get_constant(numba_types.intp, 8)
        one = context.get_constant(numba_types.intp, 1)
        populate_array(out, data=place, shape=(one,), strides=(width,), itemsize=width, meminfo=None)
        builder.store(args[0], place)
        return out._getvalue()

    return VECTOR(value), codegen


@inner
def factorise(ints, work):
    L, bad = part(ints, work, P.FACTOR), view(part(ints, work, P.DIAGNOSTIC), BAD_PIVOTS, BAD_PIVOTS + 1)
    call(_FACTORISE, (L, bad, L, bad))


@inner
def solve(ints, work, b):
    call(_SOLVE, (part(ints, work, P.FACTOR), b, b))


@inner
def assemble(ints, reals, work, ck, cc):
    K, C = part(ints, work, P.PORT_K), part(ints, work, P.PORT_C)
    call(
        _ASSEMBLE,
        (
            part(ints, work, P.JAC), K, C, number_in_memory(ck), number_in_memory(cc), part(ints, work, P.JAC_FACTOR),
            part(ints, work, P.FACTOR),
        ),
    )  # fmt: skip


@inner
def jacobian(ints, reals, work):
    v, trig, r = part(ints, work, P.V), part(ints, work, P.TRIG), part(ints, work, P.R)
    call(_JACOBIAN, (v, trig, r, part(ints, work, P.JAC)))


@inner
def look_within(ints, reals, state, work, q, qd):
    inputs, v, r = part(ints, state, P.INPUT), part(ints, work, P.V), part(ints, work, P.R)
    call(_POSITIONS, (q, inputs, v, r, part(ints, work, P.TRIG), part(ints, work, P.PHI)))
    if len(part(ints, ints, P.PORT_FORM)) > 0:
        evaluate_rates(ints, reals, work, qd, inputs)


@inner
def evaluate_rates(ints, reals, work, qd, inputs):
    vd, vu = part(ints, work, P.VD), part(ints, work, P.VU)
    call(_RATES, (qd, inputs, vu, vd, vu))


@inner
def velocities(ints, reals, work, phid):
    v, vd, r = part(ints, work, P.V), part(ints, work, P.VD), part(ints, work, P.R)
    call(_VELOCITIES, (v, vd, r, part(ints, work, P.TRIG), part(ints, work, P.RD), phid))


@inner
def velocity_terms(ints, reals, work, gamma):
    v, vd, vu = part(ints, work, P.V), part(ints, work, P.VD), part(ints, work, P.VU)
    r, rd, trig = part(ints, work, P.R), part(ints, work, P.RD), part(ints, work, P.TRIG)
    call(_VELOCITY_TERMS, (v, vd, vu, r, rd, trig, gamma))


@inner
def times_jacobian(ints, jac, x, out):
    call(_TIMES_JACOBIAN, (jac, x, out, out))


@inner
def add_transposed(ints, jac, y, factor, out):
    call(_ADD_TRANSPOSED, (jac, y, number_in_memory(factor), out, out))


@inner
def add_mass_times(ints, reals, x, factor, out):
    call(_ADD_MASS_TIMES, (x, number_in_memory(factor), out, out))


@inner
def kinetic_energy(ints, reals, qd):
    energy = number_in_memory(0.0)
    call(_KINETIC_ENERGY, (qd, energy))
    return energy[0]


@inner
def generalised_forces(ints, reals, work):
    call(_GENERALISED_FORCES, (part(ints, work, P.PORT_FORCE), part(ints, work, P.FORCE)))


Replaced = tuple[tuple[Any, Any], ...]  # a module, and what takes the place of its function of the same name

_PLACES: Replaced = (
    (augmented, factorise), (augmented, solve), (augmented, assemble), (augmented, jacobian), (augmented, look_within),
    (augmented, evaluate_rates), (augmented, velocities), (augmented, velocity_terms), (augmented, times_jacobian),
    (augmented, add_transposed), (augmented, add_mass_times), (augmented, kinetic_energy),
    (assembly, generalised_forces),
)  # fmt: skip


@contextlib.contextmanager
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


def taking_place() -> contextlib.AbstractContextManager[None]:
    """What is compiled meanwhile calls the straight code."""
    return in_place_of(_PLACES)


def in_own_room(functions: Sequence[Function], size: int = PART) -> str:
    """LLVM IR of functions whose `work` is their own instead of an argument."""
    room = {f.name: max(split(f, size)[1], 1) for f in functions}
    lines = []
    for line in module_text(functions, size).splitlines():
        if line.startswith("define void @"):
            name = line.removeprefix("define void @").split("(")[0]
            lines += [line.replace(", ptr noalias %work)", ")"), f"  %work = alloca [{room[name]} x double], align 16"]
        else:
            lines.append(line)
    return "\n".join(lines) + "\n"


def generated(ints: np.ndarray, reals: np.ndarray) -> tuple[str, dict[int, list[str]]]:
    """LLVM IR of the straight code of a mechanism, and its functions by how many arrays they are given (calls.py)."""
    functions = [kernel.function() for kernel in _kernels(ints, reals)]
    assert tuple(f.name for f in functions) == _NAMES
    sizes = {f.name: len(arguments_of(f)) - 1 for f in functions}
    names = {k: [name if sizes[name] == k else f"none_{k}" for name in _NAMES] for k in set(sizes.values())}
    return in_own_room(functions), names


def source(advance: Any, constants: Tables, first: int) -> DeviceSource:
    """Of a machine whose step is natural coordinates', their tables from `first` on."""
    ints, floats = np.array(constants.ints), np.array(constants.floats)
    text, names = generated(ints[first:], floats)
    return DeviceSource(advance, ints, floats, lambda: text, names, taking_place, inline=False, registers=REGISTERS)
