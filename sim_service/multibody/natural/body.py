"""Rigid bodies: a basis chosen from the nodes, the equations that keep it rigid, and a constant mass matrix.

Every point of a body is r + c1 e1 + c2 e2 + c3 e3 with an origin r and basis vectors e that are linear forms of the
coordinates; so is every vector. With c_G the components of the centre of mass, X = [e1 e2 e3] as drawn, and Pi the
second moments of mass about r, the kinetic energy is that of

    S = [ m  m c_G^T ; m c_G  X^-1 Pi X^-T ],    M = sum_ij S_ij D_i^T D_j,    D_0 the form of r, D_k that of e_k

In the plane e2 is e1 turned by 90 degrees, itself a linear form, so a body needs one vector only.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from sim_service.multibody.natural.errors import MechanismError
from sim_service.multibody.natural.linear import Linear, linear

if TYPE_CHECKING:
    from sim_service.multibody.natural.mechanism import Mechanism

FLAT = 1e-6  # smallest volume of a basis of unit vectors
SAME_FORM = 1e-12  # coefficients of two forms that are one
FITS = 1e-9  # relative; how well a mass distribution must lie in the span of fewer than three vectors


@dataclass(frozen=True)
class Body:
    name: str
    nodes: tuple[Linear, ...]
    origin: Linear
    basis: tuple[Linear, ...]
    drawn_origin: np.ndarray
    drawn_basis: np.ndarray  # columns as drawn
    mass: float
    centre: Linear
    inertia: np.ndarray  # about the centre of mass, as drawn
    moments: tuple[tuple[Linear, Linear, float], ...]  # kinetic energy: half the sum of factor da/dt . db/dt
    equations: tuple[str, ...]  # constraints of its own

    @property
    def metric(self) -> np.ndarray:
        """Reciprocal metric of the basis: e^k = sum_j metric[k, j] e_j."""
        return np.linalg.inv(self.drawn_basis.T @ self.drawn_basis)

    def mass_matrix(self, n: int) -> np.ndarray:
        """Its share of the mass matrix of n coordinates."""
        return np.asarray(sum(f * a.jacobian(n).T @ b.jacobian(n) for a, b, f in self.moments))

    def components(self, vector: ArrayLike) -> np.ndarray:
        """Components in the basis of a vector as drawn."""
        v = np.asarray(vector, float)
        c = np.linalg.lstsq(self.drawn_basis, v, rcond=None)[0]
        if np.linalg.norm(self.drawn_basis @ c - v) > FITS * (1.0 + np.linalg.norm(v)):
            raise MechanismError(f"body {self.name}: {v.tolist()} is outside the span of its nodes")
        return np.asarray(c)

    def carries(self, form: Linear, drawn: np.ndarray) -> bool:
        """Whether a vector form, `drawn` as drawn, is one of those fixed in the body."""
        if len(self.basis) < len(drawn):
            return False
        ours = {i for e in self.basis for i in e.terms}
        if any(i not in ours and np.abs(c).max() >= SAME_FORM for i, c in form.terms.items()):
            return False  # it moves where none of ours does; nearly all pairs of a long chain are told apart here
        off = form - _sum(self.components(drawn), self.basis)
        return float(max([np.abs(off.const).max(), *(np.abs(c).max() for c in off.terms.values())])) < SAME_FORM

    def along(self, vector: ArrayLike) -> Linear:
        """The vector that is fixed in the body and is `vector` as drawn."""
        out = _sum(self.components(vector), self.basis)
        out.kind = "vector"
        return out

    def at(self, point: ArrayLike) -> Linear:
        """The point that is fixed in the body and is at `point` as drawn."""
        return self.origin + self.along(np.asarray(point, float) - self.drawn_origin)


def _sum(components: np.ndarray, forms: Sequence[Linear]) -> Linear:
    out = Linear(np.zeros(forms[0].dim))
    for c, e in zip(components, forms, strict=True):
        if c:
            out = out + float(c) * e
    return out


def make_body(
    m: "Mechanism", name: str, nodes: Sequence[Linear], mass: float, centre: ArrayLike, inertia: ArrayLike
) -> Body:
    if not (mass >= 0.0 and np.isfinite(mass)):
        raise MechanismError(f"body {name}: mass = {mass:g}: must be finite and not negative")
    points = [p for p in nodes if p.kind == "point"]
    vectors = [v for v in nodes if v.kind == "vector"]
    if not points:
        raise MechanismError(f"body {name}: needs at least one point")
    origin = points[0]
    candidates = [p - origin for p in points[1:]] + vectors
    chosen = _basis(m, name, candidates)
    basis = [candidates[k] for k in chosen]
    if m.dimension == 2:
        basis = [basis[0], basis[0].perp()]
    r, X = m.where(origin), np.array([m.where(e) for e in basis]).T

    # mass
    G = np.asarray(m.where(linear(centre)), float)
    J = _tensor(m.dimension, name, inertia)
    Pi = _second_moments(m.dimension, J) + mass * np.outer(G - r, G - r)
    inverse = np.linalg.pinv(X)
    c_G, Z = inverse @ (G - r), inverse @ Pi @ inverse.T
    size = np.abs(Pi).max() + 1e-300
    if np.linalg.norm(X @ c_G - (G - r)) > FITS * (1.0 + np.linalg.norm(G)) or np.abs(X @ Z @ X.T - Pi).max() > (
        FITS * size
    ):
        raise MechanismError(
            f"body {name}: mass lies outside the span of its nodes; give it more points or vectors "
            f"({m.dimension} independent directions are always enough)"
        )
    forms = [origin, *basis]
    S = np.block([[np.array([[mass]]), mass * c_G[None, :]], [mass * c_G[:, None], Z]])
    pairs = [(a, b, float(S[i, j])) for i, a in enumerate(forms) for j, b in enumerate(forms) if S[i, j]]
    for a, b, factor in pairs:
        m.add_inertia(a, b, factor)
    body = Body(name, tuple(nodes), origin, tuple(basis), r, X, mass, _sum(np.r_[1.0, c_G], forms), J, tuple(pairs), ())
    m.masses.append((body.centre, mass))
    m.moments.extend(pairs)
    for i, c in body.centre.terms.items():
        m.weight[i] = m.weight.get(i, 0.0) + mass * float(c @ m.g)

    # rigidity: the metric of the basis, then the remaining nodes as linear forms of it
    before = set(m.constraints)
    _keep_rigid(m, name, [candidates[k] for k in chosen])
    for k, extra in enumerate(candidates):
        if k not in chosen:
            follows = body.along(m.where(extra))
            for axis, residual in enumerate(extra - follows):
                m.constrain(f"{name}.node{k}.{axis}", residual)
    own = tuple(c for c in m.constraints if c not in before)
    return Body(**{**body.__dict__, "equations": own})


def _basis(m: "Mechanism", name: str, candidates: Sequence[Linear]) -> tuple[int, ...]:
    """The best spread set of directions: as many as there are, at most the dimension (one in the plane)."""
    drawn = [m.where(c) for c in candidates]
    if not drawn or any(np.linalg.norm(d) == 0.0 for d in drawn):
        raise MechanismError(f"body {name}: needs a direction: another point, apart from the first, or a vector")
    unit = [d / np.linalg.norm(d) for d in drawn]
    for count in (1,) if m.dimension == 2 else (3, 2, 1):
        best: tuple[int, ...] = ()
        spread = FLAT
        for trial in combinations(range(len(unit)), count):
            A = np.array([unit[k] for k in trial])
            volume = float(np.sqrt(max(np.linalg.det(A @ A.T), 0.0)))
            if volume > spread * (1.0 + 1e-9):  # the first of equals
                best, spread = trial, volume
        if best:
            return best
    raise MechanismError(f"body {name}: no direction")


def _keep_rigid(m: "Mechanism", name: str, basis: Sequence[Linear]) -> None:
    for i, a in enumerate(basis):
        for j, b in enumerate(basis[: i + 1]):
            if i == j and a.kind == "vector":
                continue  # a unit vector keeps its own length
            va, vb = m.where(a), m.where(b)
            residual = a @ b - float(va @ vb)
            # in metres: |a| for lengths, and for angles the arm times the angle
            scale = 1.0 / (np.sqrt(np.linalg.norm(va) * np.linalg.norm(vb)) * (2.0 if i == j else 1.0))
            if any(other.carries(a, va) and other.carries(b, vb) for other in m.bodies.values()):
                continue  # both are fixed in a body that is rigid already, such as a hinge in what carries it
            key = frozenset({_key(a), _key(b)})
            if key in m.rigid:  # two bodies that share both nodes share the equation
                continue
            m.rigid.add(key)
            m.constrain(f"{name}.rigid{i}{j}", scale * residual)


def _key(form: Linear) -> tuple:
    """The same for a form and its negative."""
    items = tuple(sorted((i, tuple(np.round(c, 12))) for i, c in form.terms.items() if np.any(c)))
    flipped = tuple(sorted((i, tuple(np.round(-c, 12) + 0.0)) for i, c in form.terms.items() if np.any(c)))
    both = sorted([(items, tuple(form.const)), (flipped, tuple(-form.const + 0.0))])
    return tuple(both)


def _tensor(dimension: int, name: str, inertia: ArrayLike) -> np.ndarray:
    J = np.asarray(inertia, float)
    if dimension == 2:
        if J.size != 1:
            raise MechanismError(f"body {name}: in the plane the inertia is one number")
        return J.reshape(())
    J = np.diag(np.broadcast_to(J, 3)) if J.ndim < 2 else J
    if J.shape != (3, 3) or not np.allclose(J, J.T):
        raise MechanismError(f"body {name}: the inertia must be symmetric, 3 x 3 or its diagonal")
    moments = np.linalg.eigvalsh(J)
    if moments[0] < -1e-12 or moments[2] > (moments[0] + moments[1]) * (1.0 + 1e-9) + 1e-12:
        raise MechanismError(
            f"body {name}: principal moments {moments.tolist()}: none may exceed the sum of the others"
        )
    return J


def _second_moments(dimension: int, J: np.ndarray) -> np.ndarray:
    if dimension == 2:
        return 0.5 * float(J) * np.eye(2)  # only the trace matters, as e2 is e1 turned
    return np.asarray(0.5 * np.trace(J) * np.eye(3) - J)
