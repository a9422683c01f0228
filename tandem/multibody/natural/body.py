"""A rigid body: every point and every vector fixed in it is a linear form of the coordinates.

A point of the body is r + c1 e1 + c2 e2 + c3 e3 with an origin r and basis vectors e that are linear forms of the
coordinates; so is every vector. In the plane e2 is e1 turned by 90 degrees, itself a linear form, so a body needs one
vector only. How a body is made of nodes, mass and inertia is in rigid.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tandem.multibody.natural.errors import MechanismError
from tandem.multibody.natural.linear import Linear
from tandem.multibody.portable import least_squares, norm, product

SAME_FORM = 1e-12  # coefficients of two forms that are one
ROUNDING = 1e-14  # relative; a component of a vector that is not there but for rounding
FITS = 1e-9  # relative; how well a mass distribution must lie in the span of fewer than three vectors


@dataclass(frozen=True)
class Body:
    name: str
    nodes: tuple[Linear, ...]
    origin: Linear
    basis: tuple[Linear, ...]
    reference_origin: np.ndarray
    reference_basis: np.ndarray  # columns as drawn
    mass: float
    centre: Linear
    inertia: np.ndarray  # about the centre of mass, as drawn
    moments: tuple[tuple[Linear, Linear, float], ...]  # kinetic energy: half the sum of factor da/dt . db/dt
    equations: tuple[str, ...]  # constraints of its own

    @property
    def metric(self) -> np.ndarray:
        """Reciprocal metric of the basis: e^k = sum_j metric[k, j] e_j."""
        inverse = components_of(self.reference_basis)
        return product(inverse, inverse.T)

    def components(self, vector: ArrayLike) -> np.ndarray:
        """Components in the basis of a vector as drawn."""
        v = np.asarray(vector, float)
        c = least_squares(self.reference_basis, v)
        size = norm(v)
        if norm(product(self.reference_basis, c) - v) > FITS * (1.0 + size):
            raise MechanismError(f"body {self.name}: {v.tolist()} is outside the span of its nodes")
        for k, e in enumerate(self.reference_basis.T):
            if abs(c[k]) * norm(e) < ROUNDING * size:  # it would be a term in every equation, and means nothing
                c[k] = 0.0
        return c

    def carries(self, form: Linear, reference: np.ndarray) -> bool:
        """Whether a vector form, `reference` as drawn, is one of those fixed in the body."""
        if len(self.basis) < len(reference):
            return False
        ours = {i for e in self.basis for i in e.terms}
        if any(i not in ours and np.abs(c).max() >= SAME_FORM for i, c in form.terms.items()):
            return False  # it moves where none of ours does; nearly all pairs of a long chain are separated here
        off = form - combination(self.components(reference), self.basis)
        return float(max([np.abs(off.const).max(), *(np.abs(c).max() for c in off.terms.values())])) < SAME_FORM

    def along(self, vector: ArrayLike) -> Linear:
        """The vector that is fixed in the body and is `vector` as drawn."""
        out = combination(self.components(vector), self.basis)
        out.kind = "vector"
        out.shares = {self.name: (out.terms, np.zeros((out.dim, out.dim)))}
        return out

    @property
    def turning(self) -> tuple[Linear, ...]:
        """The basis as what moves with this body and no other: where a torque acts."""
        out = []
        for e in self.basis:
            own = 1.0 * e
            own.shares = {self.name: (own.terms, np.zeros((own.dim, own.dim)))}
            out.append(own)
        return tuple(out)

    def at(self, point: ArrayLike) -> Linear:
        """The point that is fixed in the body and is at `point` as drawn."""
        out = self.origin + self.along(np.asarray(point, float) - self.reference_origin)
        out.shares = {self.name: (out.terms, np.eye(out.dim))}
        return out


def components_of(X: np.ndarray) -> np.ndarray:
    """The matrix that gives the components of a vector in a basis, whose vectors are the columns of X."""
    return least_squares(X, np.eye(len(X)))


def combination(components: np.ndarray, forms: Sequence[Linear]) -> Linear:
    out = Linear(np.zeros(forms[0].dim))
    for c, e in zip(components, forms, strict=True):
        if c:
            out = out + float(c) * e
    return out
