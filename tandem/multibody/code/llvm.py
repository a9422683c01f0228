"""Machine code from an expression graph, by LLVM.

Promises
- A `Function` is a list of outputs of a graph with names for its arrays; `compiled` makes machine code of some of them:
  `void name(double* in1, ..., double* out1, ..., double* work)`, in the order given. No array may overlap another; one
  that is read and written under one name is one argument, and changed in place.
- The code is straight: no loops, no allocation, no branches but those of the mathematics library. It is split into
  parts of some hundred operations, since the time to compile one grows with the square of its length; what one part
  leaves for another lies in `work`.
- No operation is contracted but what the graph has fused (`Graph.fused`), reordered or replaced by a near one: the same
  bits wherever the same library computes sine and cosine.
- Addresses are valid until the process ends: loaded code is never freed.
- Object code is kept by its contents (text, processor, version of LLVM), beside the compiled kernels (store.py), and is
  loaded from there in some milliseconds, by its key without the text (`load`); a file that was damaged is made again.
- `module_text` is that IR for any target triple.
"""

import ctypes
import functools
import hashlib
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import llvmlite
import llvmlite.binding as llvm
import numpy as np

from tandem.multibody.code import store
from tandem.multibody.code.graph import CONSTANT, FUSED, INPUT, Expr, Graph

PART = 400  # operations of one part
_CALLS = {"sqrt": "llvm.sqrt.f64", "sin": "llvm.sin.f64", "cos": "llvm.cos.f64", "exp": "llvm.exp.f64",
          "abs": "llvm.fabs.f64", "atan": "atan"}  # fmt: skip
_PLAIN = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}


Report = Callable[[int, int], None]  # parts compiled, of how many


@dataclass(frozen=True)
class Signature:
    """How a function is called: the arrays it reads, and stage by stage those it writes, with their lengths."""

    name: str
    inputs: tuple[str, ...]
    stages: tuple[Mapping[str, int], ...]

    @property
    def outputs(self) -> dict[str, int]:
        return {name: size for stage in self.stages for name, size in stage.items()}

    @property
    def entries(self) -> list[str]:
        return [self.name] if len(self.stages) == 1 else [f"{self.name}_{k}" for k in range(len(self.stages))]


@dataclass(frozen=True)
class Function:
    """Outputs of a graph, array by array; the arrays it reads, in the order of its arguments.

    With several stages each is called by itself (`entries`), with the same arguments: a later one goes on from what the
    earlier left in `work`, and may read what was put in between (forces at ports that were given out).
    """

    name: str
    graph: Graph
    inputs: tuple[str, ...]
    stages: tuple[Mapping[str, Sequence[Expr]], ...]

    @property
    def outputs(self) -> dict[str, Sequence[Expr]]:
        return {name: exprs for stage in self.stages for name, exprs in stage.items()}

    @property
    def signature(self) -> Signature:
        sizes = tuple({name: len(exprs) for name, exprs in stage.items()} for stage in self.stages)
        return Signature(self.name, self.inputs, sizes)

    @property
    def entries(self) -> list[str]:
        return self.signature.entries

    @property
    def operations(self) -> int:
        return sum(self.graph.operations([e for array in self.outputs.values() for e in array]).values())


@dataclass(frozen=True)
class Part:
    stage: int
    ids: list[int]
    reads: dict[int, int]  # values of earlier parts -> place in work
    leaves: dict[int, int]  # values for later parts -> place in work


def split(function: Function, size: int = PART) -> tuple[list[Part], int]:
    """Its operations in parts, at least one for every stage, and how much `work` they need."""
    graph = function.graph
    seen: set[int] = set()
    pieces: list[tuple[int, list[int]]] = []
    for stage, outputs in enumerate(function.stages):
        wanted = [e for array in outputs.values() for e in array]
        order = [i for i in graph.needed(wanted) if graph.nodes[i][0] not in (CONSTANT, INPUT) and i not in seen]
        seen.update(order)
        pieces += [(stage, order[k : k + size]) for k in range(0, max(len(order), 1), size)]
    of = {id: k for k, (_, ids) in enumerate(pieces) for id in ids}
    last: dict[int, int] = {}
    for id, k in of.items():
        for operand in graph.operands(id):
            if operand in of:
                last[operand] = max(last.get(operand, 0), k)
    for stage, outputs in enumerate(function.stages):  # an output that an earlier stage has made already
        end = max(k for k, (s, _) in enumerate(pieces) if s == stage)
        for array in outputs.values():
            for e in array:
                if e.id in of:
                    last[e.id] = max(last.get(e.id, 0), end if pieces[of[e.id]][0] < stage else of[e.id])
    put = _put_in_place(function, pieces)
    for id, part in put.values():
        if id in of:
            last[id] = max(last.get(id, 0), part)
    free: list[int] = []
    place: dict[int, int] = {}
    ends: dict[int, list[int]] = {}
    most = 0
    parts = []
    for part, (stage, ids) in enumerate(pieces):
        mine = set(ids)
        reads = {k: place[k] for id in ids for k in graph.operands(id) if k in of and k not in mine}
        leaves = {}
        for id in ids:
            if last.get(id, part) > part:
                if not free:
                    free.append(most)
                    most += 1
                place[id] = leaves[id] = free.pop()
                ends.setdefault(last[id], []).append(place[id])
        free.extend(ends.pop(part, []))
        reads |= {id: place[id] for id, at in put.values() if at == part and id in of and id not in mine}
        parts.append(Part(stage, ids, reads | _late_reads(function, pieces, part, of, place), leaves))
    return parts, most


def _put_in_place(
    function: Function, pieces: Sequence[tuple[int, list[int]]]
) -> dict[tuple[str, int], tuple[int, int]]:
    """Entries of arrays that are changed in place: the value of each, and the part that puts it there, which is the
    last that still reads what was there before, or the one that makes it."""
    changed = {*function.inputs} & {*function.outputs}
    if not changed:
        return {}
    if len(function.stages) > 1:
        raise ValueError(f"{function.name}: {', '.join(sorted(changed))}: only one stage may change an array in place")
    graph, read = function.graph, dict[tuple[str, int], int]()
    part_of = {id: part for part, (_, ids) in enumerate(pieces) for id in ids}
    for id, part in part_of.items():
        for operand in graph.operands(id):
            what, *where = graph.nodes[operand]
            if what == INPUT and where[0] in changed:
                read[where[0], where[1]] = max(read.get((where[0], where[1]), 0), part)
    out = {}
    for name in changed:
        for place, e in enumerate(function.outputs[name]):
            node = graph.nodes[e.id]
            if node == (INPUT, name, place):
                continue  # it stays as it is
            if node[0] == INPUT and node[1] in changed:
                raise ValueError(f"{function.name}: {name}[{place}] = {node[1]}[{node[2]}], which is changed as well")
            end = part_of.get(e.id, len(pieces) - 1)  # constants and others' entries at the very end
            out[name, place] = e.id, max(end, read.get((name, place), 0))
    return out


def _late_reads(
    function: Function, pieces: list[tuple[int, list[int]]], part: int, of: dict[int, int], place: dict[int, int]
) -> dict[int, int]:
    """Values of earlier stages that the last part of a stage only gives out."""
    stage = pieces[part][0]
    if part + 1 < len(pieces) and pieces[part + 1][0] == stage:
        return {}
    exprs = [e for array in function.stages[stage].values() for e in array]
    return {e.id: place[e.id] for e in exprs if e.id in of and pieces[of[e.id]][0] < stage}


def arguments_of(function: Function) -> list[str]:
    """Its arrays in the order of its arguments."""
    names = [*function.inputs, *(name for name in function.outputs if name not in function.inputs), "work"]
    if len(set(names)) != len(names):
        raise ValueError(f"{function.name}: arrays {names}: each needs a name of its own")
    return names


def stores_of(function: Function, parts: Sequence[Part]) -> dict[int, list[tuple[str, int, int]]]:
    """What each part gives out: (array, place, value)."""
    computed_in = {id: k for k, part in enumerate(parts) for id in part.ids}
    ends = {part.stage: k for k, part in enumerate(parts)}
    put = _put_in_place(function, [(part.stage, part.ids) for part in parts])
    stores: dict[int, list[tuple[str, int, int]]] = {}
    for (array, place), (id, at) in put.items():
        stores.setdefault(at, []).append((array, place, id))
    for stage, outputs in enumerate(function.stages):
        for array, exprs in outputs.items():
            if array in function.inputs:
                continue
            for place, e in enumerate(exprs):
                computed = computed_in.get(e.id, -1)
                at = computed if computed >= 0 and parts[computed].stage == stage else ends[stage]
                stores.setdefault(at, []).append((array, place, e.id))
    return stores


_DECLARED = [
    *(f"declare double @{name}(double)" for name in _CALLS.values()),
    "declare double @llvm.fma.f64(double, double, double)",
]


def module_text(functions: Sequence[Function], part: int = PART) -> str:
    """LLVM IR of the functions, for whatever target it is compiled."""
    stages = [lines for function in functions for lines, _ in _texts(function, part)[0]]
    return "\n".join([*_DECLARED, *(line for lines in stages for line in lines)]) + "\n"


def with_own_work(functions: Sequence[Function], size: int) -> str:
    """LLVM IR of functions whose `work` is their own instead of an argument."""
    sizes = {f.name: max(split(f, size)[1], 1) for f in functions}
    lines = []
    for line in module_text(functions, size).splitlines():
        if line.startswith("define void @"):
            name = line.removeprefix("define void @").split("(")[0]
            lines += [line.replace(", ptr noalias %work)", ")"), f"  %work = alloca [{sizes[name]} x double], align 16"]
        else:
            lines.append(line)
    return "\n".join(lines) + "\n"


def _texts(function: Function, size: int) -> tuple[list[tuple[list[str], int]], int]:
    """Of every stage: its text, which needs nothing of the others, and how many parts it has; and the size of work."""
    graph = function.graph
    names = arguments_of(function)
    writable = {*function.outputs, "work"}
    arguments = ", ".join(f"ptr noalias {'' if n in writable else 'readonly '}%{n}" for n in names)
    parts, work_size = split(function, size)
    stores = stores_of(function, parts)
    passed = ", ".join(f"ptr %{n}" for n in names)
    out = []
    for stage, entry in enumerate(function.entries):
        lines: list[str] = []
        own = [k for k, part in enumerate(parts) if part.stage == stage]
        for k in own:
            lines.append(f"define internal void @{function.name}.{k}({arguments}) noinline nounwind {{")
            lines += _body(graph, parts[k], stores.get(k, []))
            lines += ["  ret void", "}"]
        lines.append(f"define void @{entry}({arguments}) nounwind {{")
        lines += [f"  call void @{function.name}.{k}({passed})" for k in own]
        lines += ["  ret void", "}"]
        out.append((lines, len(own)))
    return out, work_size


def _body(graph: Graph, part: Part, stores: list[tuple[str, int, int]]) -> list[str]:
    lines: list[str] = []
    loaded: set[int] = set()

    def load(id: int, array: str, place: int) -> None:
        lines.append(f"  %p{id} = getelementptr double, ptr %{array}, i64 {place}")
        lines.append(f"  %v{id} = load double, ptr %p{id}")
        loaded.add(id)

    def use(id: int) -> str:
        node = graph.nodes[id]
        if node[0] == CONSTANT:
            return _literal(node[1])
        if id not in loaded:
            if node[0] == INPUT:
                load(id, node[1], node[2])
            elif id in part.reads:
                load(id, "work", part.reads[id])
        return f"%v{id}"

    def store(id: int, array: str, place: int, tag: str) -> None:
        value = use(id)
        lines.append(f"  %s{tag} = getelementptr double, ptr %{array}, i64 {place}")
        lines.append(f"  store double {value}, ptr %s{tag}")

    ready: dict[int, list[tuple[str, int]]] = {}
    late = []
    when = {id: k for k, id in enumerate(part.ids)}
    last_read: dict[tuple[str, int], int] = {}
    for k, id in enumerate(part.ids):
        for operand in graph.operands(id):
            if graph.nodes[operand][0] == INPUT:
                last_read[graph.nodes[operand][1:]] = k
    for array, place, id in stores:
        if when.get(id, -1) >= last_read.get((array, place), -1) and id in when:
            ready.setdefault(id, []).append((array, place))
        else:
            late.append((array, place, id))
    for id in part.ids:
        what, *args = graph.nodes[id]
        operands = [use(k) for k in args]
        if what in _PLAIN:
            lines.append(f"  %v{id} = {_PLAIN[what]} double {operands[0]}, {operands[1]}")
        elif what == "neg":
            lines.append(f"  %v{id} = fneg double {operands[0]}")
        elif what in FUSED:
            # negation is part of the processor's instruction
            a, b, c = operands
            if what == "multiply_subtract":
                lines.append(f"  %n{id} = fneg double {c}")
                c = f"%n{id}"
            elif what == "subtract_product":
                lines.append(f"  %n{id} = fneg double {a}")
                a = f"%n{id}"
            lines.append(f"  %v{id} = call double @llvm.fma.f64(double {a}, double {b}, double {c})")
        elif what in _CALLS:
            lines.append(f"  %v{id} = call double @{_CALLS[what]}(double {operands[0]})")
        else:
            # min: a < b ? a : b, max: a < b ? b : a, as `Graph.evaluate` has them, for numbers that are none too
            a, b = operands[:2]
            c, d = {"min": (a, b), "max": (b, a)}.get(what, tuple(operands[2:]))
            lines.append(f"  %c{id} = fcmp olt double {a}, {b}")
            lines.append(f"  %v{id} = select i1 %c{id}, double {c}, double {d}")
        if id in part.leaves:
            store(id, "work", part.leaves[id], f"w{id}")
        for array, place in ready.get(id, ()):
            store(id, array, place, f"{array}{place}")
    for _, _, id in late:
        use(id)  # before anything is changed
    for array, place, id in late:
        store(id, array, place, f"{array}{place}")
    return lines


def _literal(value: float) -> str:
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


# ---- compiling ------------------------------------------------------------------------------------------------------


_engines: dict[bytes, Any] = {}


def _engine(objects: Sequence[bytes]) -> Any:
    """Object code in memory, once for the same contents, until the process ends.

    Addresses of it lie as numbers in tables, of which kernels and other threads have views and copies: nothing tells
    when the last of these is gone, and a call of code that was freed ends the process. What is never freed is one copy
    of the code of each structure, some hundred KiB for a large mechanism; other masses or lengths share it.
    """
    digest = hashlib.sha256()
    for code in objects:
        digest.update(struct.pack("<Q", len(code)) + code)
    found = _engines.get(digest.digest())
    if found is None:
        found = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine())
        for code in objects:
            found.add_object_file(llvm.ObjectFileRef.from_data(code))
        found.finalize_object()
        found = _engines.setdefault(digest.digest(), found)
    return found


class Compiled:
    """Functions in memory: their addresses, for kernels (calls.py) and, for tests, as Python functions.

    The code stays when this is gone (`_engine`).
    """

    def __init__(
        self, signatures: Sequence[Signature], objects: Sequence[bytes], work_size: int, key: str = ""
    ) -> None:
        engine = _engine(objects)
        self.functions = {f.name: f for f in signatures}
        self.address = {e: int(engine.get_function_address(e)) for f in signatures for e in f.entries}
        self.work_size = work_size
        self.code_size = sum(len(code) for code in objects)
        self.key = key  # by which the cache has it

    def call(self, name: str, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        """The outputs of all stages for inputs in the order of the function's; slow, with arrays of its own."""
        function = self.functions[name]
        if len(arrays) != len(function.inputs):
            raise ValueError(f"{name}: takes {', '.join(function.inputs)}; {len(arrays)} arrays were given")
        of = {key: np.array(a, float) for key, a in zip(function.inputs, arrays, strict=True)}
        of |= {key: np.zeros(size) for key, size in function.outputs.items() if key not in of}
        of["work"] = np.zeros(max(self.work_size, 1))
        pointers = [a.ctypes.data_as(ctypes.c_void_p) for a in of.values()]
        for entry in function.entries:
            ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(pointers))(self.address[entry])(*pointers)
        return tuple(of[key] for key in function.outputs)


def compiled(
    functions: Sequence[Function], folder: Path | None = None, part: int = PART, report: Report | None = None
) -> Compiled:
    """Machine code of the functions, from the cache if it is there; an object file for every stage."""
    folder = folder or store.folder()
    texts: list[tuple[str, int]] = []
    work_size = 0
    for function in functions:
        stages, size = _texts(function, part)
        texts += [("\n".join([*_DECLARED, *lines]) + "\n", count) for lines, count in stages]
        work_size = max(work_size, size)
    key = _key("\0".join(text for text, _ in texts))
    signatures = [f.signature for f in functions]
    found = load(key, signatures, work_size, folder)
    if found is not None:
        return found
    objects, total, done = [], sum(count for _, count in texts), 0
    for text, count in texts:
        if report is not None:
            report(done, total)
        objects.append(object_code(text))
        done += count
    if report is not None:
        report(done, total)
    store.write(folder / f"{key}.o", key, packed(objects))
    return Compiled(signatures, objects, work_size, key)


def packed(objects: Sequence[bytes]) -> bytes:
    """As `load` reads them."""
    return struct.pack(f"<{len(objects) + 1}Q", len(objects), *map(len, objects)) + b"".join(objects)


def load(key: str, signatures: Sequence[Signature], work_size: int, folder: Path) -> Compiled | None:
    """Machine code by its key, if the cache has it."""
    data = store.read(folder / f"{key}.o", key)
    return None if data is None else Compiled(signatures, unpacked(data), work_size, key)


def unpacked(data: bytes) -> list[bytes]:
    """Object files as `packed` has them."""
    (count,) = struct.unpack_from("<Q", data)
    objects, at = [], 8 * (count + 1)
    for size in struct.unpack_from(f"<{count}Q", data, 8):
        objects.append(data[at : at + size])
        at += size
    return objects


def library_objects(code: Compiled, write: Callable[[], Sequence[Function]], entries: Sequence[str]) -> list[bytes]:
    """Object files of these entries of code that `compiled` made of what `write` gives, to be linked into a library for
    this processor: the same operations, found by what a linker serves. Kept beside the others."""
    folder = store.folder()
    whole = store.read(folder / f"{code.key}.o", code.key)
    if _relocation() == "pic" and whole is not None:
        return [each for name, each in zip(code.address, unpacked(whole), strict=True) if name in entries]
    key = _key("\0".join(("library", code.key, *entries)))
    found = store.read(folder / f"{key}.o", key)
    if found is None:
        functions = write()
        named = {
            name: "\n".join([*_DECLARED, *lines]) + "\n"
            for function in functions
            for name, (lines, _) in zip(function.entries, _texts(function, PART)[0], strict=True)
        }
        if _key("\0".join(named.values())) != code.key:
            raise ValueError("what was compiled cannot be written again")
        found = packed([object_code(text, library=True) for name, text in named.items() if name in entries])
        store.write(folder / f"{key}.o", key, found)
    return unpacked(found)


def object_code(text: str, triple: str | None = None, library: bool = False) -> bytes:
    """The object file for a target, or for this machine, in this process or in a library."""
    _initialise()
    module = llvm.parse_assembly(text)
    module.verify()
    machine = _machine(triple, library)
    module.triple = machine.triple
    # unrolled code gains nothing from more: a large mechanism's is as quick with all passes, which take 16 s, not 9
    options = llvm.create_pipeline_tuning_options(speed_level=1)
    options.slp_vectorization = False
    passes = llvm.create_pass_builder(machine, options)
    passes.getModulePassManager().run(module, passes)
    return bytes(machine.emit_object(module))


def _relocation() -> str:
    """On x86, code from several object files finds its neighbours by whole addresses alone: the loader does not serve
    their offset tables, and calls then go to the middle of other functions."""
    return "static" if llvm.Target.from_default_triple().name.startswith("x86") else "pic"


def _machine(triple: str | None = None, library: bool = False) -> Any:
    _initialise()
    if triple is None:
        target = llvm.Target.from_default_triple()
        features = llvm.get_host_cpu_features().flatten()
        reloc = "pic" if library else _relocation()
        return target.create_target_machine(
            cpu=llvm.get_host_cpu_name(),
            features=features,
            opt=2,
            reloc=reloc,
            codemodel="default" if library else "jitdefault",
            jit=reloc == "static",
        )
    return llvm.Target.from_triple(triple).create_target_machine(opt=2, reloc="pic")


@functools.cache
def _initialise() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


def _key(text: str) -> str:
    return hashlib.sha256("\0".join((text, *machine_names())).encode()).hexdigest()[:32]


@functools.cache
def machine_names() -> tuple[str, ...]:
    """What object code depends on beside its text: processor, its features, version of LLVM, how it is placed."""
    _initialise()
    features = llvm.get_host_cpu_features().flatten()
    return llvm.get_default_triple(), llvm.get_host_cpu_name(), features, llvmlite.__version__, _relocation()
