"""C from an expression graph: the functions that llvm.py compiles, as text for people and for other compilers.

Promises
- The same functions with the same arguments in the same parts as llvm.py; operation by operation in the same order.
- Constants are written to the last bit (hexadecimal), so that text and machine code compute the same numbers, where the
  compiler contracts nothing of its own (-ffp-contract=off) and the same library computes sine and cosine.
- The text is C99 and needs nothing but the mathematics library; each call has `work` of its own (`work_sizes`).
"""

from collections.abc import Sequence

from tandem.multibody.code.graph import CONSTANT, FUSED, INPUT, Graph
from tandem.multibody.code.llvm import PART, Function, Part, arguments_of, split, stores_of

_CALLS = {"sqrt": "sqrt", "sin": "sin", "cos": "cos", "atan": "atan", "exp": "exp", "abs": "fabs"}
_SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/"}


def c_header(functions: Sequence[Function]) -> str:
    """Declarations of what `c_text` defines, for the C code that calls it."""
    lines = [f"void {entry}({_arguments(f)});" for f in functions for entry in f.entries]
    return "\n".join(lines) + "\n"


def work_sizes(functions: Sequence[Function], part: int = PART) -> dict[str, int]:
    """Numbers in `work` that each function needs."""
    return {f.name: split(f, part)[1] for f in functions}


def _arguments(function: Function) -> str:
    written = {*function.outputs, "work"}
    return ", ".join(f"{'' if name in written else 'const '}double *restrict {name}" for name in arguments_of(function))


def c_text(functions: Sequence[Function], part: int = PART) -> str:
    """C99 of the functions; compile it with -ffp-contract=off."""
    lines = ["#include <math.h>", ""]
    for function in functions:
        for name in (function.name, *arguments_of(function)):
            if not (name.isascii() and name.isidentifier()):
                raise ValueError(f"{name}: must be letters, digits and underscores, to be a name in C")
        arguments = _arguments(function)
        parts, _ = split(function, part)
        stores = stores_of(function, parts)
        for k, one in enumerate(parts):
            lines.append(f"static void {function.name}_part{k}({arguments})")
            lines += ["{", *_body(function.graph, one, stores.get(k, [])), "}", ""]
        passed = ", ".join(arguments_of(function))
        for stage, entry in enumerate(function.entries):
            lines += [f"void {entry}({arguments})", "{"]
            lines += [f"    {function.name}_part{k}({passed});" for k, p in enumerate(parts) if p.stage == stage]
            lines += ["}", ""]
    return "\n".join(lines)


def _body(graph: Graph, part: Part, stores: list[tuple[str, int, int]]) -> list[str]:
    mine = set(part.ids)
    ready: dict[int, list[str]] = {}
    late = []

    def use(id: int) -> str:
        what, *args = graph.nodes[id]
        if what == CONSTANT:
            return _literal(args[0])
        if what == INPUT:
            return f"{args[0]}[{args[1]}]"
        return f"v{id}" if id in mine else f"work[{part.reads[id]}]"

    for array, place, id in stores:
        text = f"    {array}[{place}] = {use(id)};"
        if id in mine:
            ready.setdefault(id, []).append(text)
        else:
            late.append(text)
    lines = []
    for id in part.ids:
        what, *args = graph.nodes[id]
        operands = [use(k) for k in args]
        lines.append(f"    const double v{id} = {_operation(what, operands)};")
        lines += ready.get(id, [])
    lines += [f"    work[{place}] = v{id};" for id, place in part.leaves.items()]
    return [*lines, *late]


def _operation(what: str, operands: list[str]) -> str:
    if what in _SIGNS:
        return f"{operands[0]} {_SIGNS[what]} {operands[1]}"
    if what == "neg":
        return f"-{operands[0]}"
    if what in FUSED:
        x, y, z = operands
        return {
            "multiply_add": f"fma({x}, {y}, {z})", "multiply_subtract": f"fma({x}, {y}, -{z})",
            "subtract_product": f"fma(-{x}, {y}, {z})",
        }[what]  # fmt: skip
    if what in _CALLS:
        return f"{_CALLS[what]}({operands[0]})"
    a, b = operands[:2]
    c, d = {"min": (a, b), "max": (b, a)}.get(what, tuple(operands[2:]))
    return f"{a} < {b} ? {c} : {d}"


def _literal(value: float) -> str:
    text = float(value).hex()
    return f"({text})" if value < 0.0 else text
