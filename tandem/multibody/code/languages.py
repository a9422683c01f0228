"""One function as a text of its own in C, Python or MATLAB: for people, and for programs that know nothing of tandem.

Promises
- A text needs its language alone (C99 and its mathematics library; Python with numpy; MATLAB or Octave). It says in its
  head how it is called, what every number is, and how many operations it takes.
- What is read has the name that it has in the mechanism: `x_crank_turn`, `p_crank_mass`. Blanks and points of a name
  become underscores; a name that is no identifier then, or that another one has too, is refused. As each begins with
  the letter of its array, none is a word of a language.
- What is computed once is written once; what is used once stands where it is used, in parentheses.
- Decimals are written so that they are read as the same number. The order of sums is that of the graph, but compilers
  may contract a product and a sum: texts agree to rounding, not to the bit.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from tandem.multibody.code.graph import CONSTANT, INPUT, Expr, Graph
from tandem.multibody.natural.errors import MechanismError

Language = Literal["c", "python", "matlab"]
LANGUAGES: tuple[Language, ...] = get_args(Language)
SUFFIXES: Mapping[Language, str] = {"c": ".c", "python": ".py", "matlab": ".m"}
LONGEST: Mapping[Language, int] = {"c": 255, "python": 255, "matlab": 63}  # letters of a name
_SPOKEN: Mapping[Language, str] = {"c": "C", "python": "Python", "matlab": "MATLAB"}
_INLINE = 60  # letters of an expression that stands where it is used

_SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
_CALLS: Mapping[Language, Mapping[str, str]] = {
    "c": {"sqrt": "sqrt", "sin": "sin", "cos": "cos", "atan": "atan", "exp": "exp", "abs": "fabs"},
    "python": {name: f"math.{name}" for name in ("sqrt", "sin", "cos", "atan", "exp")} | {"abs": "abs"},
    "matlab": {name: name for name in ("sqrt", "sin", "cos", "atan", "exp", "abs")},
}
_COUNTED = {
    "additions": ("add", "sub"), "multiplications": ("mul",), "divisions": ("div",), "square roots": ("sqrt",),
    "sines and cosines": ("sin", "cos"), "other functions": ("atan", "exp"),
    "signs and choices": ("neg", "abs", "min", "max", "select"),
}  # fmt: skip


@dataclass(frozen=True)
class Read:
    """An array that a function reads."""

    name: str
    meaning: str
    entries: tuple[str, ...]  # names of its numbers
    notes: tuple[str, ...] = ()  # of every number, for the head
    usual: tuple[float, ...] = ()  # taken where the array is not given


@dataclass(frozen=True)
class Written:
    """An array that a function gives: row by row if it has two dimensions."""

    name: str
    meaning: str
    shape: tuple[int, ...]
    values: Sequence[Expr]
    entries: tuple[str, ...] = ()  # names of its rows, for the head


@dataclass(frozen=True)
class Formula:
    """A function of a graph, with names for all that it reads and gives."""

    name: str
    meaning: str
    graph: Graph
    reads: tuple[Read, ...]
    writes: tuple[Written, ...]

    @property
    def operations(self) -> dict[str, int]:
        """How many, by what people call them."""
        found = self.graph.operations([e for array in self.writes for e in array.values])
        counted = {name: sum(found.get(kind, 0) for kind in kinds) for name, kinds in _COUNTED.items()}
        return {name: count for name, count in counted.items() if count}


def identifiers(array: Read, language: Language) -> tuple[str, ...]:
    """A name in that language for each number of an array."""
    found: dict[str, str] = {}
    for entry in array.entries:
        plain = re.sub(r"[ .]", "_", _without_signs(entry))
        name = f"{array.name}_{plain}"
        if not re.fullmatch(r"[A-Za-z0-9_]+", plain):
            raise MechanismError(
                f"{entry}: can be no name in {_SPOKEN[language]}; take letters without accents, digits, underscores,"
                " points and blanks"
            )
        if len(name) > LONGEST[language]:
            raise MechanismError(
                f"{entry}: makes the name {name}, of {len(name)} letters; {_SPOKEN[language]} takes at most"
                f" {LONGEST[language]}: give it a shorter one"
            )
        if name in found:
            raise MechanismError(
                f"{entry}: would be {name} in {_SPOKEN[language]}, as {found[name]} would; give one another name"
            )
        found[name] = entry
    return tuple(found)


def _without_signs(entry: str) -> str:
    """Of a parameter that has its value in its name (a share of a body's motion)."""
    before, share, value = entry.partition(".share.")
    return before + share + (value.replace("-", "m").replace("+", "") if share else "")


def written_in(formula: Formula, language: Language) -> str:
    """The whole text."""
    return "\n".join(_WRITERS[language](formula)) + "\n"


# ---- what languages share --------------------------------------------------------------------------------------------


def _head(formula: Formula, language: Language, call: str) -> list[str]:
    lines = [f"{formula.name}: {formula.meaning}", "", f"    {call}", ""]
    for array in formula.reads:
        names = identifiers(array, language)
        default = "; its usual values if not given" if array.usual else ""
        lines.append(f"reads {array.name} ({len(names)}): {array.meaning}{default}")
        for k, name in enumerate(names):
            says = [array.notes[k]] if array.notes else []
            says += [f"usually {array.usual[k]!r}"] if array.usual else []
            lines.append(f"    {_at(array.name, (k,), language)}  {name}" + "".join(f", {one}" for one in says))
    for out in formula.writes:
        size = " x ".join(map(str, out.shape))
        lines.append(f"gives {out.name} ({size}): {out.meaning}")
        for k, entry in enumerate(out.entries):
            name = re.sub(r"[^\w .+-]", "_", entry, flags=re.ASCII)
            lines.append(f"    {'row' if len(out.shape) == 2 else 'number'} {k + (language == 'matlab')}  {name}")
    counted = ", ".join(f"{count} {name}" for name, count in formula.operations.items()) or "none"
    return [*lines, f"operations: {sum(formula.operations.values())} ({counted})"]


def _at(array: str, place: tuple[int, ...], language: Language, shape: tuple[int, ...] = ()) -> str:
    if language == "matlab":
        return f"{array}({', '.join(str(k + 1) for k in place)})"
    if language == "c" and len(place) == 2:
        place = (place[0] * shape[1] + place[1],)
    return f"{array}[{', '.join(map(str, place))}]"


def _places(out: Written) -> Iterator[tuple[tuple[int, ...], Expr]]:
    for k, e in enumerate(out.values):
        yield ((k,) if len(out.shape) == 1 else divmod(k, out.shape[1])), e


class _Body:
    """Statements of a function: what it reads by name, what it computes, what it gives."""

    def __init__(self, formula: Formula, language: Language) -> None:
        self.graph, self.language, self.formula = formula.graph, language, formula
        outputs = [e for out in formula.writes for e in out.values]
        self.order = formula.graph.needed(outputs)
        self.names = {(a.name, k): name for a in formula.reads for k, name in enumerate(identifiers(a, language))}
        self.uses: dict[int, int] = {}
        for used in (*(k for id in self.order for k in self.graph.operands(id)), *{e.id for e in outputs}):
            self.uses[used] = self.uses.get(used, 0) + 1
        self.outputs = {e.id for e in outputs}
        self.text: dict[int, str] = {}

    def statements(self) -> Iterator[tuple[str, str]]:
        """Names and what they are."""
        inputs = sorted(id for id in self.order if self.graph.nodes[id][0] == INPUT)
        for id in sorted(inputs, key=lambda id: self.graph.nodes[id][1:]):
            _, array, place = self.graph.nodes[id]
            self.text[id] = self.names[array, place]
            yield self.text[id], _at(array, (place,), self.language)
        for id in self.order:
            what, *args = self.graph.nodes[id]
            if what == CONSTANT:
                self.text[id] = repr(args[0]) if args[0] >= 0.0 else f"({args[0]!r})"
            elif what != INPUT:
                expression = _operation(what, [self.text[k] for k in args], self.language)
                once = self.uses[id] == 1 and id not in self.outputs and not expression.startswith("if ")
                if once and len(expression) <= _INLINE:
                    self.text[id] = expression if what in _CALLS[self.language] else f"({expression})"
                else:
                    self.text[id] = f"v{id}"
                    yield self.text[id], expression

    def stores(self, zeros: bool) -> Iterator[tuple[str, str]]:
        """Places of what is given, and what goes there."""
        for out in self.formula.writes:
            for place, e in _places(out):
                if zeros or e.value != 0.0:
                    yield _at(out.name, place, self.language, out.shape), self.text[e.id]


def _operation(what: str, operands: list[str], language: Language) -> str:
    """In MATLAB a choice is a statement, and has @ where its name goes."""
    if what in _SIGNS:
        return f"{operands[0]} {_SIGNS[what]} {operands[1]}"
    if what == "neg":
        return f"-{operands[0]}"
    if what in _CALLS[language]:
        inside = operands[0]
        inside = inside[1:-1] if _is_enclosed(inside) else inside
        return f"{_CALLS[language][what]}({inside})"
    a, b = operands[:2]
    c, d = {"min": (a, b), "max": (b, a)}.get(what, tuple(operands[2:]))
    return {
        "c": f"{a} < {b} ? {c} : {d}", "python": f"{c} if {a} < {b} else {d}",
        "matlab": f"if {a} < {b}, @ = {c}; else, @ = {d}; end",
    }[language]  # fmt: skip


def _is_enclosed(text: str) -> bool:
    """Whether one pair of parentheses holds all of it."""
    if not (text.startswith("(") and text.endswith(")")):
        return False
    depth = 0
    for k, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return k == len(text) - 1
    return False


# ---- each language ---------------------------------------------------------------------------------------------------


def _c(formula: Formula) -> list[str]:
    arguments = [f"const double *{a.name}" for a in formula.reads] + [f"double *{a.name}" for a in formula.writes]
    call = f"void {formula.name}({', '.join(arguments)})"
    usual = {a.name: a.usual for a in formula.reads if a.usual}
    says = [f"{name} may be 0 (no array): then it is {formula.name}_{name}." for name in usual]
    says += ["Matrices lie row by row. Nothing is allocated; arrays that are given must not overlap others."]
    lines = ["/*", *(f" * {line}".rstrip() for line in [*_head(formula, "c", call), *says]), " */", "#include <math.h>"]
    for name, values in usual.items():
        lines += ["", f"const double {formula.name}_{name}[{len(values)}] = {{", *_wrapped(values), "};"]
    lines += ["", call, "{"]
    lines += [f"    if (!{name}) {name} = {formula.name}_{name};" for name in usual]
    body = _Body(formula, "c")
    lines += [f"    const double {name} = {value};" for name, value in body.statements()]
    lines += [f"    {place} = {value};" for place, value in body.stores(zeros=True)]
    return [*lines, "}"]


def _python(formula: Formula) -> list[str]:
    usual = {a.name: a.usual for a in formula.reads if a.usual}
    arguments = [f"{a.name}={a.name.upper()}" if a.usual else a.name for a in formula.reads]
    call = f"{formula.name}({', '.join(arguments)})"
    results = ", ".join(out.name for out in formula.writes)
    lines = ['"""' + _head(formula, "python", f"{results} = {call}")[0]]
    lines += [*_head(formula, "python", f"{results} = {call}")[1:], '"""', "", "import math", "", "import numpy as np"]
    for name, values in usual.items():
        lines += ["", f"{name.upper()} = (", *_wrapped(values), ")"]
    lines += ["", "", f"def {call}:"]
    body = _Body(formula, "python")
    lines += [f"    {name} = {value}" for name, value in body.statements()]
    lines += [f"    {out.name} = np.zeros({out.shape})" for out in formula.writes]
    lines += [f"    {place} = {value}" for place, value in body.stores(zeros=False)]
    return [*lines, f"    return {results}"]


def _matlab(formula: Formula) -> list[str]:
    results = ", ".join(out.name for out in formula.writes)
    call = f"[{results}] = {formula.name}({', '.join(a.name for a in formula.reads)})"
    lines = [f"function {call}", *(f"% {line}".rstrip() for line in _head(formula, "matlab", call)), ""]
    for a in formula.reads:
        if a.usual:
            lines += [f"if ~exist('{a.name}', 'var'), {a.name} = [ ...", *_wrapped(a.usual, " ..."), "]; end"]
    body = _Body(formula, "matlab")
    for name, value in body.statements():
        lines.append(value.replace("@", name) if value.startswith("if ") else f"{name} = {value};")
    for out in formula.writes:
        lines.append(f"{out.name} = zeros({', '.join(map(str, (*out.shape, 1)[:2]))});")
    lines += [f"{place} = {value};" for place, value in body.stores(zeros=False)]
    return [*lines, "end"]


def _wrapped(values: Sequence[float], end: str = "") -> list[str]:
    """Numbers with commas behind them, six in a row."""
    if not all(math.isfinite(value) for value in values):
        raise ValueError("a number that is not finite")
    rows = [values[k : k + 6] for k in range(0, len(values), 6)]
    return [f"    {', '.join(map(repr, row))},{end}" for row in rows]


_WRITERS = {"c": _c, "python": _python, "matlab": _matlab}
