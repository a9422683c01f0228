"""An expression graph: what is computed, once, before it is known for which machine.

Promises
- Expressions are built with plain operators. Equal ones are one node; constants are folded; what is multiplied by zero
  or one, or added to zero, is not there. What no output needs is never written out (`needed`).
- `tangents` are exact derivatives in a chosen direction, in the same graph: they share whatever they can with the
  values and with each other.
- The same calls in the same order give the same graph, and so the same code and the same bits.
- A minimum, a maximum, an absolute value and a `select` are differentiated on the side on which they are.

Code is made of a graph by llvm.py, text by languages.py; `evaluate` interprets it, slowly, with any numbers numpy has
(complex ones too, which is how tangents are checked).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Union

import numpy as np

CONSTANT, INPUT = "constant", "input"
UNARY = ("neg", "sqrt", "sin", "cos", "atan", "exp", "abs")
BINARY = ("add", "sub", "mul", "div", "min", "max")
FUSED = ("multiply_add", "multiply_subtract", "subtract_product")  # by `fused`: a b + c, a b - c, c - a b, rounded once
# select: c if a < b else d
OPERATIONS = (*UNARY, *BINARY, "select")

Number = Union[float, int, "Expr"]


class Expr:
    """A node of a graph; comparing two is comparing nodes."""

    __slots__ = ("graph", "id")

    def __init__(self, graph: "Graph", id: int) -> None:
        self.graph, self.id = graph, id

    @property
    def value(self) -> float | None:
        """The number, if it is constant."""
        node = self.graph.nodes[self.id]
        return float(node[1]) if node[0] == CONSTANT else None

    def __add__(self, other: Number) -> "Expr":
        return self.graph.add(self, self.graph.expr(other))

    def __sub__(self, other: Number) -> "Expr":
        return self.graph.sub(self, self.graph.expr(other))

    def __mul__(self, other: Number) -> "Expr":
        return self.graph.mul(self, self.graph.expr(other))

    def __truediv__(self, other: Number) -> "Expr":
        return self.graph.div(self, self.graph.expr(other))

    def __rsub__(self, other: Number) -> "Expr":
        return self.graph.sub(self.graph.expr(other), self)

    def __rtruediv__(self, other: Number) -> "Expr":
        return self.graph.div(self.graph.expr(other), self)

    def __neg__(self) -> "Expr":
        return self.graph.neg(self)

    def __pow__(self, power: int) -> "Expr":
        if not isinstance(power, int) or power < 1:
            raise ValueError(f"power {power!r}: must be a whole number from 1 on")
        half = self ** (power // 2) if power > 1 else None
        if half is None:
            return self
        return half * half * self if power % 2 else half * half

    __radd__ = __add__
    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expr) and self.graph is other.graph and self.id == other.id

    def __hash__(self) -> int:
        return self.id

    def __repr__(self) -> str:
        return f"Expr({self.graph.nodes[self.id]})"


class Graph:
    """Nodes (operation, operands or data), each once."""

    def __init__(self) -> None:
        self.nodes: list[tuple[Any, ...]] = []
        self._index: dict[tuple[Any, ...], int] = {}
        self.zero, self.one = self.constant(0.0), self.constant(1.0)

    def _node(self, *node: Any) -> Expr:
        found = self._index.get(node)
        if found is None:
            found = self._index[node] = len(self.nodes)
            self.nodes.append(node)
        return Expr(self, found)

    # what is given

    def constant(self, value: float) -> Expr:
        number = float(value) + 0.0  # one zero
        if not math.isfinite(number):
            raise ValueError(f"a constant that is {number}")
        return self._node(CONSTANT, number)

    def input(self, array: str, index: int) -> Expr:
        return self._node(INPUT, array, index)

    def inputs(self, array: str, count: int) -> list[Expr]:
        return [self.input(array, i) for i in range(count)]

    def expr(self, value: Number) -> Expr:
        return value if isinstance(value, Expr) else self.constant(value)

    # operations

    def add(self, a: Expr, b: Expr) -> Expr:
        x, y = a.value, b.value
        if x is not None and y is not None:
            return self.constant(x + y)
        if x == 0.0:
            return b
        if y == 0.0:
            return a
        if (opposite := self._of_neg(b)) is not None:
            return self.sub(a, opposite)
        if (opposite := self._of_neg(a)) is not None:
            return self.sub(b, opposite)
        return self._commuting("add", a, b)

    def sub(self, a: Expr, b: Expr) -> Expr:
        x, y = a.value, b.value
        if x is not None and y is not None:
            return self.constant(x - y)
        if y == 0.0:
            return a
        if x == 0.0:
            return self.neg(b)
        if a.id == b.id:
            return self.zero
        if (opposite := self._of_neg(b)) is not None:
            return self.add(a, opposite)
        if (opposite := self._of_neg(a)) is not None:
            return self.neg(self.add(opposite, b))
        return self._node("sub", a.id, b.id)

    def neg(self, a: Expr) -> Expr:
        if (x := a.value) is not None:
            return self.constant(-x)
        node = self.nodes[a.id]
        if node[0] == "neg":
            return Expr(self, node[1])
        if node[0] == "sub":
            return self._node("sub", node[2], node[1])
        return self._node("neg", a.id)

    def mul(self, a: Expr, b: Expr) -> Expr:
        x, y = a.value, b.value
        if x is not None and y is not None:
            return self.constant(x * y)
        if x == 0.0 or y == 0.0:
            return self.zero
        if x is not None:
            a, b, x, y = b, a, y, x
        if y == 1.0:
            return a
        if y == -1.0:
            return self.neg(a)
        if (opposite := self._of_neg(a)) is not None:
            return self.neg(self.mul(opposite, b))
        if (opposite := self._of_neg(b)) is not None:
            return self.neg(self.mul(a, opposite))
        return self._commuting("mul", a, b)

    def div(self, a: Expr, b: Expr) -> Expr:
        x, y = a.value, b.value
        if y == 0.0:
            raise ZeroDivisionError("division by a constant zero")
        if x == 0.0:
            return self.zero
        if y is not None:
            return self.constant(x / y) if x is not None else self.mul(a, self.constant(1.0 / y))
        if a.id == b.id:
            return self.one
        if (opposite := self._of_neg(a)) is not None:
            return self.neg(self.div(opposite, b))
        if (opposite := self._of_neg(b)) is not None:
            return self.neg(self.div(a, opposite))
        return self._node("div", a.id, b.id)

    def sqrt(self, a: Expr) -> Expr:
        return self._function("sqrt", math.sqrt, a)

    def sin(self, a: Expr) -> Expr:
        if (opposite := self._of_neg(a)) is not None:
            return -self.sin(opposite)
        return self._function("sin", math.sin, a)

    def cos(self, a: Expr) -> Expr:
        if (opposite := self._of_neg(a)) is not None:
            return self.cos(opposite)
        return self._function("cos", math.cos, a)

    def atan(self, a: Expr) -> Expr:
        return self._function("atan", math.atan, a)

    def exp(self, a: Expr) -> Expr:
        return self._function("exp", math.exp, a)

    def abs(self, a: Expr) -> Expr:
        if (opposite := self._of_neg(a)) is not None:
            return self.abs(opposite)
        return self._function("abs", abs, a)

    def min(self, a: Number, b: Number) -> Expr:
        return self._extreme("min", min, self.expr(a), self.expr(b))

    def max(self, a: Number, b: Number) -> Expr:
        return self._extreme("max", max, self.expr(a), self.expr(b))

    def select(self, a: Number, b: Number, below: Number, otherwise: Number) -> Expr:
        """`below` if a < b, else `otherwise`."""
        a, b, below, otherwise = self.expr(a), self.expr(b), self.expr(below), self.expr(otherwise)
        if below.id == otherwise.id:
            return below
        if (x := a.value) is not None and (y := b.value) is not None:
            return below if x < y else otherwise
        return self._node("select", a.id, b.id, below.id, otherwise.id)

    def operation(self, what: str, args: Sequence[Expr]) -> Expr:
        """One by its name."""
        found: Expr = getattr(self, what)(*args)
        return found

    def sum(self, terms: Iterable[Number]) -> Expr:
        out = self.zero
        for term in terms:
            out = out + term
        return out

    def _of_neg(self, a: Expr) -> Expr | None:
        node = self.nodes[a.id]
        return Expr(self, node[1]) if node[0] == "neg" else None

    def _commuting(self, what: str, a: Expr, b: Expr) -> Expr:
        return self._node(what, *((a.id, b.id) if a.id <= b.id else (b.id, a.id)))

    def _function(self, what: str, of: Any, a: Expr) -> Expr:
        if (x := a.value) is not None:
            return self.constant(of(x))
        return self._node(what, a.id)

    def _extreme(self, what: str, of: Any, a: Expr, b: Expr) -> Expr:
        x, y = a.value, b.value
        if x is not None and y is not None:
            return self.constant(of(x, y))
        return a if a.id == b.id else self._commuting(what, a, b)

    # reading

    def operands(self, id: int) -> tuple[int, ...]:
        node = self.nodes[id]
        return () if node[0] in (CONSTANT, INPUT) else node[1:]

    def needed(self, outputs: Iterable[Expr], known: Iterable[int] = ()) -> list[int]:
        """Nodes that the outputs need, operands first, each as late as the depth-first way to its first use allows.

        So values are used soon after they are made, and few of them live at a time. What is `known`, and what only
        that needs, is left out.
        """
        seen = set(known)
        order: list[int] = []
        for output in outputs:
            stack = [(output.id, False)]
            while stack:
                id, done = stack.pop()
                if done:
                    order.append(id)
                elif id not in seen:
                    seen.add(id)
                    stack.append((id, True))
                    stack.extend((k, False) for k in reversed(self.operands(id)) if k not in seen)
        return order

    def operations(self, outputs: Iterable[Expr]) -> dict[str, int]:
        """How many of each operation the outputs take."""
        count: dict[str, int] = {}
        for id in self.needed(outputs):
            what = self.nodes[id][0]
            if what not in (CONSTANT, INPUT):
                count[what] = count.get(what, 0) + 1
        return count

    # derivatives

    def tangents(self, outputs: Sequence[Expr], seeds: Mapping[Expr, Number]) -> list[Expr]:
        """Derivatives of the outputs in the direction in which the seeded nodes change by what is given.

        A seeded node need not be an input: what it is made of then does not count (partial derivatives by what is found
        in between: an acceleration, a force).
        """
        d: dict[int, Expr] = {e.id: self.expr(v) for e, v in seeds.items()}
        for id in self.needed(outputs, d):
            d[id] = self._tangent(id, d)
        return [d[e.id] for e in outputs]

    def _tangent(self, id: int, d: dict[int, Expr]) -> Expr:
        what, *args = self.nodes[id]
        if what in (CONSTANT, INPUT) or all(d[k].value == 0.0 for k in args):
            return self.zero
        a = Expr(self, args[0])
        da = d[args[0]]
        if what == "neg":
            return -da
        if what == "sqrt":
            return da / (2.0 * Expr(self, id))
        if what == "sin":
            return da * self.cos(a)
        if what == "cos":
            return -da * self.sin(a)
        if what == "atan":
            return da / (1.0 + a * a)
        if what == "exp":
            return da * Expr(self, id)
        if what == "abs":
            return self.select(a, self.zero, -da, da)
        b, db = Expr(self, args[1]), d[args[1]]
        if what == "add":
            return da + db
        if what == "sub":
            return da - db
        if what == "mul":
            return da * b + a * db
        if what == "div":
            return (da - Expr(self, id) * db) / b
        if what == "min":
            return self.select(a, b, da, db)
        if what == "max":
            return self.select(a, b, db, da)
        if what in FUSED:
            product, dc = da * b + a * db, d[args[2]]
            return product + dc if what == "multiply_add" else product - dc if what == FUSED[1] else dc - product
        return self.select(a, b, d[args[2]], d[args[3]])

    def fused(self, outputs: Sequence[Expr]) -> tuple["Graph", list[Expr]]:
        """The outputs with products that are only added or subtracted fused into that: one rounding, one instruction.

        What is fused is decided here, once, and not by a compiler: the bits are the same wherever it is computed.
        """
        order = self.needed(outputs)
        uses: dict[int, int] = {}
        elsewhere = {e.id for e in outputs}  # products that must be there in any case
        for id in order:
            what = self.nodes[id][0]
            for k in self.operands(id):
                uses[k] = uses.get(k, 0) + 1
                if what not in ("add", "sub"):
                    elsewhere.add(k)

        def product(id: int) -> bool:
            return self.nodes[id][0] == "mul" and id not in elsewhere

        out = Graph()
        at: dict[int, Expr] = {}
        for id in order:
            what, *args = self.nodes[id]
            if what == CONSTANT:
                at[id] = out.constant(args[0])
            elif what == INPUT:
                at[id] = out.input(*args)
            elif what in ("add", "sub") and any(product(k) for k in args):
                # of two products that which nothing else needs
                first = product(args[0]) and (not product(args[1]) or uses[args[0]] <= uses[args[1]])
                of, other = args if first else args[::-1]
                kind = "multiply_add" if what == "add" else "multiply_subtract" if first else "subtract_product"
                factors = [at[k].id for k in self.operands(of)]
                at[id] = out._node(kind, *factors, at[other].id)
            else:
                at[id] = out._node(what, *(at[k].id for k in args))
        return out, [at[e.id] for e in outputs]

    # interpretation

    def evaluate(self, outputs: Sequence[Expr], inputs: Mapping[str, Any]) -> np.ndarray:
        """Values of the outputs by numpy, for arrays of inputs by name; complex where one of them is."""
        v: dict[int, Any] = {}
        for id in self.needed(outputs):
            what, *args = self.nodes[id]
            if what == CONSTANT:
                v[id] = args[0]
            elif what == INPUT:
                v[id] = inputs[args[0]][args[1]]
            else:
                v[id] = _NUMPY[what](*(v[k] for k in args))
        return np.array([v[e.id] for e in outputs])


def _side(a: Any) -> Any:
    return np.real(a)


_NUMPY: dict[str, Any] = {
    "neg": lambda a: -a, "sqrt": np.sqrt, "sin": np.sin, "cos": np.cos, "atan": np.arctan, "exp": np.exp,
    "abs": lambda a: -a if _side(a) < 0.0 else a,
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "div": lambda a, b: a / b,
    "min": lambda a, b: a if _side(a) < _side(b) else b, "max": lambda a, b: b if _side(a) < _side(b) else a,
    "multiply_add": lambda a, b, c: a * b + c, "multiply_subtract": lambda a, b, c: a * b - c,
    "subtract_product": lambda a, b, c: c - a * b,
    "select": lambda a, b, c, d: c if _side(a) < _side(b) else d,
}  # fmt: skip
