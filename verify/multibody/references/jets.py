"""A value with its first and second derivative by one variable, carried through arithmetic (no differences).

`Jet` holds arrays of any shape; operations broadcast as numpy's do.
"""

from typing import Union

import numpy as np

Number = Union["Jet", float, np.ndarray]


class Jet:
    __array_ufunc__ = None  # numpy leaves array * Jet to us
    __slots__ = ("d", "dd", "v")

    def __init__(self, v: np.ndarray | float, d: np.ndarray | float = 0.0, dd: np.ndarray | float = 0.0) -> None:
        self.v, self.d, self.dd = np.asarray(v, float), np.asarray(d, float), np.asarray(dd, float)

    def __add__(self, other: Number) -> "Jet":
        o = jet(other)
        return Jet(self.v + o.v, self.d + o.d, self.dd + o.dd)

    __radd__ = __add__

    def __neg__(self) -> "Jet":
        return Jet(-self.v, -self.d, -self.dd)

    def __sub__(self, other: Number) -> "Jet":
        return self + (-jet(other))

    def __rsub__(self, other: Number) -> "Jet":
        return jet(other) + (-self)

    def __mul__(self, other: Number) -> "Jet":
        o = jet(other)
        return Jet(self.v * o.v, self.d * o.v + self.v * o.d, self.dd * o.v + 2.0 * self.d * o.d + self.v * o.dd)

    __rmul__ = __mul__

    def __truediv__(self, other: Number) -> "Jet":
        o = jet(other)
        return self * chain(o, 1.0 / o.v, -1.0 / o.v**2, 2.0 / o.v**3)

    def __rtruediv__(self, other: Number) -> "Jet":
        return jet(other) / self


def jet(value: Number) -> Jet:
    return value if isinstance(value, Jet) else Jet(value)


def variable(value: np.ndarray | float) -> Jet:
    return Jet(value, np.ones_like(np.asarray(value, float)))


def chain(x: Jet, f: np.ndarray, df: np.ndarray, ddf: np.ndarray) -> Jet:
    """f(x) from f, f', f'' at x.v."""
    return Jet(f, df * x.d, ddf * x.d**2 + df * x.dd)


def sin(x: Jet) -> Jet:
    return chain(x, np.sin(x.v), np.cos(x.v), -np.sin(x.v))


def cos(x: Jet) -> Jet:
    return chain(x, np.cos(x.v), -np.sin(x.v), -np.cos(x.v))


def sqrt(x: Jet) -> Jet:
    root = np.sqrt(x.v)
    return chain(x, root, 0.5 / root, -0.25 / (root * x.v))


def arcsin(x: Jet) -> Jet:
    free = 1.0 - x.v**2
    return chain(x, np.arcsin(x.v), free**-0.5, x.v * free**-1.5)


def stack(parts: list[Number]) -> Jet:
    """Jets (or numbers) of one shape side by side along a new last axis."""
    whole = [jet(p) for p in parts]
    shape = np.broadcast_shapes(*(w.v.shape for w in whole))

    def beside(field: str) -> np.ndarray:
        return np.stack([np.broadcast_to(getattr(w, field), shape) for w in whole], axis=-1)

    return Jet(beside("v"), beside("d"), beside("dd"))
