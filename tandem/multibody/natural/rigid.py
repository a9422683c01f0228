"""Making a rigid body: its basis, its share of the mass matrix, and the equations that keep it rigid.

With r and e as in body.py, c_G the components of the centre of mass, X = [e1 e2 e3] as drawn, and Pi the second moments
of mass about r, the kinetic energy is that of

    S = [ m  m c_G^T ; m c_G  X^-1 Pi X^-T ],    M = sum_ij S_ij D_i^T D_j,    D_0 the form of r, D_k that of e_k
"""

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from tandem.multibody.natural.body import FITS, Body, combination, components_of
from tandem.multibody.natural.equations import Equations
from tandem.multibody.natural.errors import MechanismError
from tandem.multibody.natural.limits import MASS, number, numbers
from tandem.multibody.natural.linear import Linear, linear
from tandem.multibody.portable import dot, norm, product, volume

FLAT = 1e-6  # smallest volume of a basis of unit vectors


def make_body(
    m: Equations, name: str, nodes: Sequence[Linear], mass: float, centre: ArrayLike, inertia: ArrayLike
) -> Body:
    mass = number(f"body {name}: mass", mass, MASS)
    m.own(f"body {name}: nodes", *nodes, dimension=m.dimension)
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
    if not isinstance(centre, Linear):
        centre = numbers(f"body {name}: centre", centre, m.dimension)
    G = np.asarray(m.where(linear(centre)), float)
    J = _tensor(m.dimension, name, inertia)
    Pi = _second_moments(m.dimension, J) + mass * np.outer(G - r, G - r)
    inverse = components_of(X)
    c_G, Z = product(inverse, G - r), product(product(inverse, Pi), inverse.T)
    size = np.abs(Pi).max() + 1e-300
    if norm(product(X, c_G) - (G - r)) > FITS * (1.0 + norm(G)) or (
        np.abs(product(product(X, Z), X.T) - Pi).max() > FITS * size
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
    body = Body(
        name, tuple(nodes), origin, tuple(basis), r, X, mass, combination(np.r_[1.0, c_G], forms), J, tuple(pairs), ()
    )
    m.masses.append((body.centre, mass))
    m.moments.extend(pairs)
    for i, c in body.centre.terms.items():
        m.weight[i] = m.weight.get(i, 0.0) + mass * dot(c, m.g)

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


def _basis(m: Equations, name: str, candidates: Sequence[Linear]) -> tuple[int, ...]:
    """The best spread set of directions: as many as there are, at most the dimension (one in the plane)."""
    reference = [m.where(c) for c in candidates]
    if not reference or any(norm(d) == 0.0 for d in reference):
        raise MechanismError(f"body {name}: needs a direction: another point, apart from the first, or a vector")
    for candidate, d in zip(candidates, reference, strict=True):
        if candidate.kind != "vector":
            m.apart(f"body {name}", norm(d))
    unit = [d / norm(d) for d in reference]
    for count in (1,) if m.dimension == 2 else (3, 2, 1):
        best: tuple[int, ...] = ()
        spread = FLAT
        for trial in combinations(range(len(unit)), count):
            found = volume([unit[k] for k in trial])
            if found > spread * (1.0 + 1e-9):  # the first of equals
                best, spread = trial, found
        if best:
            return best
    raise MechanismError(f"body {name}: no direction")


def _keep_rigid(m: Equations, name: str, basis: Sequence[Linear]) -> None:
    for i, a in enumerate(basis):
        for j, b in enumerate(basis[: i + 1]):
            if i == j and a.kind == "vector":
                continue  # a unit vector keeps its own length
            va, vb = m.where(a), m.where(b)
            residual = a @ b - dot(va, vb)
            # in metres: |a| for lengths, and for angles the arm times the angle
            scale = 1.0 / (math.sqrt(norm(va) * norm(vb)) * (2.0 if i == j else 1.0))
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
    if dimension == 2:
        return np.asarray(number(f"body {name}: inertia (in the plane one number)", inertia, MASS))
    try:
        J = np.asarray(inertia, float)
        J = np.diag(np.broadcast_to(J, 3)) if J.ndim < 2 else J
    except (TypeError, ValueError):
        J = np.zeros(0)
    if not np.all(np.isfinite(J)):
        raise MechanismError(f"body {name}: inertia = {J.tolist()}: must be finite")
    if J.shape != (3, 3) or not np.allclose(J, J.T, atol=1e-12 * float(np.abs(J).max())):
        raise MechanismError(f"body {name}: the inertia must be symmetric, 3 x 3 or its diagonal")
    moments = np.linalg.eigvalsh(J)
    small = 1e-9 * float(np.abs(moments).max())  # of its own size: a watch has moments of 1e-12 kg m2
    if moments[0] < -small or moments[2] > moments[0] + moments[1] + small:
        raise MechanismError(
            f"body {name}: principal moments {moments.tolist()}: none may exceed the sum of the others"
        )
    return J


def _second_moments(dimension: int, J: np.ndarray) -> np.ndarray:
    if dimension == 2:
        return 0.5 * float(J) * np.eye(2)  # only the trace matters, as e2 is e1 turned
    return np.asarray(0.5 * np.trace(J) * np.eye(3) - J)
