"""Cut loops as expressions: their values, derivatives and second derivatives, in the axes of what carries them.

Slips (speeds that stay 0, a knife edge or a wheel that rolls) alike, but for values, which they have none of.
"""

from collections.abc import Callable

from tandem.multibody.code.graph import Expr
from tandem.multibody.relative.equations import RATE, Equations
from tandem.multibody.relative.tree import Equation, Form, Products, SlipEquation
from tandem.multibody.relative.vectors import Vector


class Loop:
    """One loop equation as expressions."""

    def __init__(self, eq: Equations, loop: Equation, base: int) -> None:
        self.eq, self.loop, self.base, self.g = eq, loop, base, eq.g

    def _value(self, products: Products) -> Expr:
        out = self.g.zero
        for c, a, b in products:
            term = self.eq.value(a, self.base)
            out = out + (term if b is None else term * self.eq.value(b, self.base)) * c
        return out

    def _columns(self, products: Products) -> dict[int, Expr]:
        out: dict[int, Expr] = {}
        for c, a, b in products:
            for one, other in ((a, b), (b, a)):
                if one is None:
                    continue
                factor = self.g.one if other is None else self.eq.value(other, self.base)
                for k, e in self.eq.columns(one, self.base).items():
                    out[k] = out.get(k, self.g.zero) + e * factor * c
        return out

    def _rate(self, products: Products, rate: Callable[[Form], Expr]) -> Expr:
        out = self.g.zero
        for c, a, b in products:
            for one, other in ((a, b), (b, a)):
                if one is None:
                    continue
                factor = self.g.one if other is None else self.eq.value(other, self.base)
                out = out + rate(one) * factor * c
        return out

    def _bias(self, products: Products) -> Expr:
        out = self._rate(products, lambda form: self.eq.bias(form, self.base))
        for c, a, b in products:
            if b is not None:
                out = out + self.eq.rate(a, self.base) * self.eq.rate(b, self.base) * (2.0 * c)
        return out

    @property
    def value(self) -> Expr:
        if self.loop.theta is None:
            return self._value(self.loop.products)
        s, c = self._angle()
        return self._value(self.loop.products) * s - self._value(self.loop.cosine) * c

    def _angle(self) -> tuple[Expr, Expr]:
        assert self.loop.theta is not None
        theta = self.eq.value(self.loop.theta, self.base)
        return self.g.sin(theta), self.g.cos(theta)

    def columns(self) -> dict[int, Expr]:
        """Derivative of the rate by each velocity."""
        if self.loop.theta is None:
            return self._columns(self.loop.products)
        s, c = self._angle()
        out = {k: e * s for k, e in self._columns(self.loop.products).items()}
        for k, e in self._columns(self.loop.cosine).items():
            out[k] = out.get(k, self.g.zero) - e * c
        turn = self._value(self.loop.products) * c + self._value(self.loop.cosine) * s
        for k, e in self.eq.columns(self.loop.theta, self.base).items():
            out[k] = out.get(k, self.g.zero) + e * turn
        return out

    def of_inputs(self) -> Expr:
        """What moving inputs alone add to the rate."""

        def rate(form: Form) -> Expr:
            return self.g.sum(self.g.input("u", 3 * k + RATE) * c for k, c in form.inputs.items())

        if self.loop.theta is None:
            return self._rate(self.loop.products, rate)
        s, c = self._angle()
        turn = self._value(self.loop.products) * c + self._value(self.loop.cosine) * s
        out = self._rate(self.loop.products, rate) * s - self._rate(self.loop.cosine, rate) * c
        return out + turn * rate(self.loop.theta)

    def bias(self) -> Expr:
        """Second derivative with no velocity changing."""
        if self.loop.theta is None:
            return self._bias(self.loop.products)
        s, c = self._angle()
        eq, base, theta = self.eq, self.base, self.loop.theta
        A, B = self._value(self.loop.products), self._value(self.loop.cosine)

        def rate(form: Form) -> Expr:
            return eq.rate(form, base)

        Ad, Bd = self._rate(self.loop.products, rate), self._rate(self.loop.cosine, rate)
        t, tdd = eq.rate(theta, base), eq.bias(theta, base)
        out = self._bias(self.loop.products) * s - self._bias(self.loop.cosine) * c
        return out + (Ad * c + Bd * s) * t * 2.0 + (B * c - A * s) * t * t + (A * c + B * s) * tdd


class SlipRow:
    """A slip as expressions, in the world."""

    def __init__(self, eq: Equations, slip: SlipEquation) -> None:
        self.eq, self.slip = eq, slip

    def columns(self) -> dict[int, Expr]:
        """Derivative of the speed by each velocity."""
        out: dict[int, Expr] = {}
        for c, a, b in self.slip.products:
            factor = self.eq.value(a) * c
            for k, e in self.eq.columns(b).items():
                out[k] = out.get(k, self.eq.g.zero) + e * factor
        return out

    def change(self, dw: Vector) -> Expr:
        """How the speed changes while velocities change at dw."""
        eq, out = self.eq, self.eq.g.zero
        for c, a, b in self.slip.products:
            out = out + (eq.rate(a) * eq.rate(b) + eq.value(a) * eq.second(b, dw)) * c
        return out
