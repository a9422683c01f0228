"""Force laws traced with expressions: numbers with derivatives (multibody/relative/dual.py) in a graph.

`Number` is to the Python source of a law what dual.py's is to its compiled code: the value and up to eight derivatives
are expressions, of which those that are zero are not there. A law is traced once; a comparison of numbers in an `if`
is taken to be true and kept in `assumed`, and the code then says whether it was. What may be false at any time has to
be in a function of its own, of which the caller gives another text that chooses (`replaced`).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tandem.multibody.code.graph import Expr, Graph
from tandem.multibody.code.tracing import Vector, trace, window

LANES = 8
Derivatives = dict[int, Expr]


class Flag:
    """Whether a < b, or not a < b."""

    def __init__(self, of: "Law", a: Expr, b: Expr, otherwise: bool = False):
        self.of, self.a, self.b, self.otherwise = of, a, b, otherwise

    def __bool__(self) -> bool:
        self.of.assumed.append(self)
        return True

    def expr(self) -> Expr:
        yes, no = (0.0, 1.0) if self.otherwise else (1.0, 0.0)
        return self.of.graph.select(self.a, self.b, yes, no)


class Number:
    __slots__ = ("d", "law", "v")

    def __init__(self, law: "Law", v: Expr, d: Derivatives | None = None):
        self.law, self.v, self.d = law, v, {k: e for k, e in (d or {}).items() if e.value != 0.0}

    def _with(self, v: Expr, *terms: tuple[Expr | None, Derivatives]) -> "Number":
        """v with the sum of factors times derivatives."""
        out: Derivatives = {}
        for factor, d in terms:
            for k, e in d.items():
                term = e if factor is None else factor * e
                out[k] = out[k] + term if k in out else term
        return Number(self.law, v, out)

    def __add__(self, other: Any) -> "Number":
        b = self.law.number(other)
        return self._with(self.v + b.v, (None, self.d), (None, b.d))

    def __neg__(self) -> "Number":
        return Number(self.law, -self.v, {k: -e for k, e in self.d.items()})

    def __sub__(self, other: Any) -> "Number":
        return self + (-self.law.number(other))

    def __rsub__(self, other: Any) -> "Number":
        return self.law.number(other) - self

    def __mul__(self, other: Any) -> "Number":
        b = self.law.number(other)
        return self._with(self.v * b.v, (b.v, self.d), (self.v, b.d))

    def __truediv__(self, other: Any) -> "Number":
        b = self.law.number(other)
        v = self.v / b.v
        if not self.d and not b.d:
            return Number(self.law, v)
        inverse = self.law.graph.one / b.v
        return self._with(v, (inverse, self.d), (-(v * inverse), b.d))

    def __rtruediv__(self, other: Any) -> "Number":
        return self.law.number(other) / self

    def __pow__(self, power: int) -> "Number":
        assert power == 2
        return self * self

    __radd__ = __add__
    __rmul__ = __mul__

    def __lt__(self, other: Any) -> Flag:
        return Flag(self.law, self.v, self.law.number(other).v)

    def __gt__(self, other: Any) -> Flag:
        return Flag(self.law, self.law.number(other).v, self.v)

    def __ge__(self, other: Any) -> Flag:
        return Flag(self.law, self.v, self.law.number(other).v, otherwise=True)

    def __le__(self, other: Any) -> Flag:
        return Flag(self.law, self.law.number(other).v, self.v, otherwise=True)

    def __eq__(self, other: object) -> bool:
        return self.v.value is not None and self.v.value == self.law.number(other).v.value

    __hash__ = None  # type: ignore[assignment]


class Array(Vector):
    """An array of numbers without derivatives: what was not written is an input, unless it is new."""

    def __init__(self, law: "Law", name: str, size: int, new: bool = False, zeros: Sequence[int] = ()):
        super().__init__(law.graph, name, size, not new)
        self.law = law
        self._entries.update(dict.fromkeys(zeros, law.graph.zero))

    def __getitem__(self, at: int) -> Number:
        return Number(self.law, super().__getitem__(at))

    def __setitem__(self, at: int, value: Any) -> None:
        number = self.law.number(value)
        assert not number.d, "only values are stored"
        super().__setitem__(at, number.v)


class Law:
    """A graph, and the functions of a law's source for its numbers."""

    def __init__(self, replaced: Mapping[str, Any]):
        self.graph = Graph()
        self.assumed: list[Flag] = []
        self._traced: dict[Any, Callable[..., Any]] = {}
        self._replaced: dict[str, Any] = {
            "view": window,
            "number": lambda v, array, at: self.number(v)._with(
                self.number(v).v, (None, {k: array[at + k].v for k in range(LANES)})
            ),
            "along": lambda v, lane: Number(self, self.number(v).v, {lane: self.graph.one}),
            "value_of": lambda a: Number(self, self.number(a).v),
            "derivative_of": lambda a, lane: Number(self, a.d.get(lane, self.graph.zero)),
            "add_derivatives": self._add_derivatives, "chain": self._chain, "min": self._min, "max": self._max,
            "abs": self._abs, "sqrt": self._sqrt, "exp": self._exp, "sin": self._sin, "cos": self._cos,
            "atan": self._atan, "atan2": lambda y, x: self._atan(y / x), "copysign": self._copysign,
            "int": lambda a: a if isinstance(a, Number) else int(a), **replaced,
        }  # fmt: skip

    def number(self, value: Any) -> Number:
        return value if isinstance(value, Number) else Number(self, self.graph.constant(float(value)))

    def follow(self, function: Any) -> Callable[..., Any]:
        """The Python source of a compiled function, and of those it calls."""
        return trace(function, self._replaced, self._traced)

    def fits(self) -> Expr:
        """1 if all that was assumed is so, 0 otherwise."""
        out = self.graph.one
        for one in {(f.a.id, f.b.id, f.otherwise): f for f in self.assumed}.values():
            out = self.graph.min(out, one.expr())
        return out

    # ---- functions ---------------------------------------------------------------------------------------------------

    def choose(self, a: Any, b: Any, below: Any, otherwise: Any) -> Number:
        """below if a < b, otherwise the other, with their derivatives."""
        a, b, x, y = (self.number(k) for k in (a, b, below, otherwise))
        g = self.graph
        keys = sorted({*x.d, *y.d})
        derivatives = {k: g.select(a.v, b.v, x.d.get(k, g.zero), y.d.get(k, g.zero)) for k in keys}
        return Number(self, g.select(a.v, b.v, x.v, y.v), derivatives)

    def _min(self, a: Any, b: Any) -> Any:
        if not isinstance(a, Number) and not isinstance(b, Number):
            return min(a, b)
        return self.choose(a, b, a, b)

    def _max(self, a: Any, b: Any) -> Any:
        if not isinstance(a, Number) and not isinstance(b, Number):
            return max(a, b)
        return self.choose(b, a, a, b)

    def _abs(self, a: Any) -> Any:
        return self.choose(a, 0.0, -a, a) if isinstance(a, Number) else abs(a)

    def _copysign(self, a: Any, b: Any) -> Any:
        """Of a that is not negative."""
        return self.choose(b, 0.0, -a, a)

    def _add_derivatives(self, a: Any, factor: Any, array: Array, at: int) -> None:
        for k, e in self.number(a).d.items():
            array[at + k] = array[at + k] + self.number(factor) * Number(self, e)

    def _chain(self, a: Number, inner: Sequence[Any]) -> Number:
        terms = [(a.d[k], self.number(x).d) for k, x in enumerate(inner) if k in a.d]
        return a._with(a.v, *terms)

    def _of(self, of: Callable[[float], float], a: Any, value: Callable[[Expr], Expr], slope: Any) -> Any:
        if not isinstance(a, Number):
            return of(a)
        v = value(a.v)
        return a._with(v, (slope(a.v, v), a.d)) if a.d else Number(self, v)

    def _sqrt(self, a: Any) -> Any:
        g = self.graph
        # of 0, which has no slope, 0: as dual.py has it
        return self._of(math.sqrt, a, g.sqrt, lambda x, v: g.select(0.0, v, g.constant(0.5) / v, 0.0))

    def _exp(self, a: Any) -> Any:
        return self._of(math.exp, a, self.graph.exp, lambda x, v: v)

    def _sin(self, a: Any) -> Any:
        return self._of(math.sin, a, self.graph.sin, lambda x, v: self.graph.cos(x))

    def _cos(self, a: Any) -> Any:
        return self._of(math.cos, a, self.graph.cos, lambda x, v: -self.graph.sin(x))

    def _atan(self, a: Any) -> Any:
        return self._of(math.atan, a, self.graph.atan, lambda x, v: self.graph.one / (x * x + 1.0))
