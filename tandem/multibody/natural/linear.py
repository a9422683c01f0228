"""Linear and quadratic expressions of the coordinates, from which every constraint and every force port is made.

Promises
- Nodes (points, unit vectors, scalars) and everything that hangs on a rigid body are `Linear`: a vector whose
  components are linear forms of the coordinates q and of the inputs u(t), plus a constant.
- A product of two scalar forms, or `a @ b` of two vectors, is a `Quadratic`: the residual of a constraint. Joints are
  therefore written as in a paper: `(p_b - p_a) @ n - s`.
- Expressions are values: no operation changes its operands.
- A form made of places of a body knows which part of it moves with that body (`shares`): so a force on a place is one
  on the body, though the nodes that carry it are those of others too.
- A form knows the mechanism whose coordinates it counts (`owner`); forms of two mechanisms do not mix.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tandem.multibody.natural.errors import MechanismError
from tandem.multibody.portable import product

Terms = dict[int, np.ndarray]  # coordinate (or input) -> one coefficient per component
Shares = dict[str, tuple["Terms", np.ndarray]]  # body -> terms that move with it; how it moves when the body is shifted


def _shared(a: Shares, b: Shares, factor: float) -> Shares:
    out = dict(a)
    for body, (terms, shift) in b.items():
        before, moved = out.get(body, ({}, 0.0 * shift))
        out[body] = _merged(before, terms, factor), moved + factor * shift
    return out


def _merged(a: Terms, b: Terms, factor: float) -> Terms:
    out = dict(a)
    for i, coefficients in b.items():
        out[i] = out[i] + factor * coefficients if i in out else factor * coefficients
    return out


class Linear:
    """A vector of linear forms: `const + sum_i terms[i] q_i + sum_j inputs[j] u_j`, component by component."""

    kind = "point"  # what a body takes it for: a point or a vector
    __array_ufunc__ = None  # numpy leaves `array - linear` and `array @ linear` to us

    def __init__(
        self, const: ArrayLike, terms: Terms | None = None, inputs: Terms | None = None, owner: Any = None
    ) -> None:
        self.const = np.atleast_1d(np.asarray(const, float))
        self.terms = terms or {}
        self.inputs = inputs or {}
        self.owner = owner  # the mechanism, or None for plain numbers
        self.shares: Shares = {}

    def _with(self, shares: Shares) -> "Linear":
        self.shares = shares
        return self

    @property
    def dim(self) -> int:
        return len(self.const)

    @property
    def constant(self) -> bool:
        return not any(np.any(c) for c in (*self.terms.values(), *self.inputs.values()))

    def value(self, q: np.ndarray, u: np.ndarray | None = None) -> np.ndarray:
        """The vector at coordinates `q` and input values `u`."""
        out = self.const.copy()
        for i, c in self.terms.items():
            out += c * q[i]
        for j, c in self.inputs.items():
            out += c * (0.0 if u is None else u[j])
        return out

    def rate(self, qd: np.ndarray, ud: np.ndarray | None = None) -> np.ndarray:
        """The time derivative for velocities `qd` and input rates `ud`."""
        return np.asarray(self.value(qd, ud) - self.const)

    def jacobian(self, n: int) -> np.ndarray:
        """Derivative with respect to the n coordinates, dim x n."""
        out = np.zeros((self.dim, n))
        for i, c in self.terms.items():
            out[:, i] += c
        return out

    def map(self, matrix: ArrayLike) -> "Linear":
        """The form multiplied by a constant matrix from the left."""
        A = np.atleast_2d(np.asarray(matrix, float))
        return Linear(
            product(A, self.const),
            {i: product(A, c) for i, c in self.terms.items()},
            {j: product(A, c) for j, c in self.inputs.items()},
            self.owner,
        )._with(
            {
                body: ({i: product(A, c) for i, c in terms.items()}, product(A, shift))
                for body, (terms, shift) in self.shares.items()
            }
        )

    def perp(self) -> "Linear":
        """A planar vector turned by +90 degrees."""
        return self.map([[0.0, -1.0], [1.0, 0.0]])

    def __getitem__(self, i: int) -> "Linear":
        part = slice(i, i + 1)
        return Linear(
            self.const[part],
            {k: c[part] for k, c in self.terms.items()},
            {j: c[part] for j, c in self.inputs.items()},
            self.owner,
        )._with({b: ({k: c[part] for k, c in terms.items()}, s[part]) for b, (terms, s) in self.shares.items()})

    def __iter__(self) -> Iterator["Linear"]:
        return (self[i] for i in range(self.dim))

    def __add__(self, other: "Linear | ArrayLike") -> "Linear":
        if isinstance(other, Quadratic):
            return NotImplemented
        b = linear(other)
        if b.dim not in (self.dim, 1):
            raise MechanismError(f"sum of {self.dim} and {b.dim} components")
        return Linear(
            self.const + b.const,
            _merged(self.terms, b.terms, 1.0),
            _merged(self.inputs, b.inputs, 1.0),
            one_owner(self, b),
        )._with(_shared(self.shares, b.shares, 1.0))

    def __sub__(self, other: "Linear | ArrayLike") -> "Linear":
        if isinstance(other, Quadratic):
            return NotImplemented
        return self + -1.0 * linear(other)

    def __rsub__(self, other: ArrayLike) -> "Linear":
        return -1.0 * self + other

    def __mul__(self, factor: float) -> "Linear":
        f = float(factor)
        out = Linear(
            f * self.const,
            {i: f * c for i, c in self.terms.items()},
            {j: f * c for j, c in self.inputs.items()},
            self.owner,
        )
        out.kind = self.kind  # a vector the other way round is a vector
        out.shares = _shared({}, self.shares, f)
        return out

    def __neg__(self) -> "Linear":
        return -1.0 * self

    __radd__ = __add__
    __rmul__ = __mul__

    def __matmul__(self, other: "Linear | ArrayLike") -> "Quadratic":
        """Dot product."""
        b = linear(other)
        if self.dim != b.dim:
            raise MechanismError(f"dot product of {self.dim} and {b.dim} components")
        one_owner(self, b)
        return Quadratic([(1.0, x, y) for x, y in zip(self, b, strict=True)])

    __rmatmul__ = __matmul__


class Quadratic:
    """A scalar `sum_t c_t a_t b_t` of products of scalar linear forms."""

    def __init__(self, products: list[tuple[float, Linear, Linear]]) -> None:
        self.products = products

    def value(self, q: np.ndarray, u: np.ndarray | None = None) -> float:
        return float(sum(c * a.value(q, u)[0] * b.value(q, u)[0] for c, a, b in self.products))

    def __add__(self, other: "Quadratic | Linear | float") -> "Quadratic":
        return Quadratic(self.products + quadratic(other).products)

    def __mul__(self, factor: float) -> "Quadratic":
        return Quadratic([(factor * c, a, b) for c, a, b in self.products])

    def __neg__(self) -> "Quadratic":
        return -1.0 * self

    def __sub__(self, other: "Quadratic | Linear | float") -> "Quadratic":
        return self + -1.0 * quadratic(other)

    def __rsub__(self, other: "Linear | float") -> "Quadratic":
        return -1.0 * self + other

    __radd__ = __add__
    __rmul__ = __mul__


ONE = Linear([1.0])


def one_owner(*forms: Linear) -> Any:
    """The mechanism that all of these belong to; coordinates of two are not to be counted together."""
    owner: Any = None
    for form in forms:
        if owner is None:
            owner = form.owner
        elif form.owner is not None and form.owner is not owner:
            raise MechanismError("nodes of two mechanisms in one expression; every mechanism has nodes of its own")
    return owner


def linear(value: "Linear | ArrayLike") -> Linear:
    """A form from a form or from numbers."""
    return value if isinstance(value, Linear) else Linear(value)


def quadratic(value: "Quadratic | Linear | float") -> Quadratic:
    """A quadratic from a quadratic, a scalar form or a number."""
    if isinstance(value, Quadratic):
        return value
    form = linear(value)
    if form.dim != 1:
        raise MechanismError(f"a scalar is needed here, not {form.dim} components")
    return Quadratic([(1.0, form, ONE)])


def square(form: Linear) -> Quadratic:
    """form . form"""
    return form @ form
