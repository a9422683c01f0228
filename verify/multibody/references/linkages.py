"""Where the particles of some linkages of one freedom are: analytic kinematics, no iteration.

Each function returns a `Linkage` and, for comparing with other codes, a function from the freedom s to the positions of
the joints. SI units; gravity acts along −y unless stated.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from verify.multibody.references import jets
from verify.multibody.references.jets import Jet, Number
from verify.multibody.references.one_freedom import GRAVITY, Linkage, bar, rod

DOWN = np.array([0.0, -GRAVITY, 0.0])


@dataclass(frozen=True)
class Known:
    """A linkage, and its joints as a function of its freedom."""

    linkage: Linkage
    joints: Callable[[Jet], list[Jet]]  # each (…, 3)

    def joint(self, s: np.ndarray, which: int) -> np.ndarray:
        return self.joints(jets.variable(s))[which].v

    def joint_velocity(self, s: np.ndarray, rate: np.ndarray, which: int) -> np.ndarray:
        found: np.ndarray = self.joints(jets.variable(s))[which].d * np.asarray(rate)[..., None]
        return found


def _known(
    joints: Callable[[Jet], list[Jet]],
    particles: Callable[[list[Jet]], list[tuple[list[float], list[Jet]]]],
    gravity: np.ndarray = DOWN,
) -> Known:
    masses = np.array([m for group, _ in particles(joints(jets.variable(0.1))) for m in group])

    def positions(s: Jet) -> Jet:
        places = [p for _, group in particles(joints(s)) for p in group]
        return _rows(places)

    return Known(Linkage(masses, positions, gravity), joints)


def _rows(places: list[Jet]) -> Jet:
    shape = np.broadcast_shapes(*(p.v.shape for p in places))

    def beside(field: str) -> np.ndarray:
        return np.stack([np.broadcast_to(getattr(p, field), shape) for p in places], axis=-2)

    return Jet(beside("v"), beside("d"), beside("dd"))


def _point(x: Number, y: Number, z: Number = 0.0) -> Jet:
    return jets.stack([x, y, z])


def slider_crank(crank: float, conrod: float, masses: tuple[float, float, float]) -> Known:
    """Crank at the origin, slider on the x axis; s is the crank's angle. Joints: pin, slider."""

    def joints(s: Jet) -> list[Jet]:
        x, y = crank * jets.cos(s), crank * jets.sin(s)
        return [_point(x, y), _point(x + jets.sqrt(conrod**2 - y * y), 0.0)]

    def particles(at: list[Jet]) -> list[tuple[list[float], list[Jet]]]:
        origin = jets.jet(np.zeros(3))
        return [rod(origin, at[0], masses[0]), rod(at[0], at[1], masses[1]), ([masses[2]], [at[1]])]

    return _known(joints, particles)


def four_bar(base: float, crank: float, coupler: float, rocker: float, masses: tuple[float, float, float]) -> Known:
    """Crank at the origin, rocker at (base, 0), the coupler above; s is the crank's angle. Joints: B, C."""

    def joints(s: Jet) -> list[Jet]:
        bx, by = crank * jets.cos(s), crank * jets.sin(s)
        # from B towards the rocker's pivot D, then across: the meeting of two circles
        dx, dy = base - bx, -by
        gap2 = dx * dx + dy * dy
        along = 0.5 * (1.0 + (coupler**2 - rocker**2) / gap2)
        across = jets.sqrt(coupler**2 / gap2 - along * along)
        return [_point(bx, by), _point(bx + along * dx - across * dy, by + along * dy + across * dx)]

    def particles(at: list[Jet]) -> list[tuple[list[float], list[Jet]]]:
        origin, pivot = jets.jet(np.zeros(3)), jets.jet(np.array([base, 0.0, 0.0]))
        return [rod(origin, at[0], masses[0]), rod(at[0], at[1], masses[1]), rod(at[1], pivot, masses[2])]

    return _known(joints, particles)


def n_four_bar(windows: int, length: float = 1.0, mass: float = 1.0) -> Known:
    """`windows` squares in a row, hanging on windows + 1 pivots: all cranks turn alike while the branch is kept.

    s is the cranks' angle from the x axis. Joints: the lower (or upper) corners.
    """

    def joints(s: Jet) -> list[Jet]:
        x, y = length * jets.cos(s), length * jets.sin(s)
        return [_point(x + k * length, y) for k in range(windows + 1)]

    def particles(at: list[Jet]) -> list[tuple[list[float], list[Jet]]]:
        groups = []
        for k, corner in enumerate(at):
            groups.append(rod(jets.jet(np.array([k * length, 0.0, 0.0])), corner, mass))
            if k:
                groups.append(rod(at[k - 1], corner, mass))
        return groups

    return _known(joints, particles)


def spatial_slider_crank(
    centre: tuple[float, float], crank: float, conrod: float, masses: tuple[float, float, float]
) -> Known:
    """A crank turning about x at (0, centre), a rod with two ball joints, a slider on the x axis; gravity along −z.

    s is the crank's angle from y. Joints: pin, slider. The figures usual in the literature (Haug): centre (0.1, 0.12),
    crank 0.08, conrod 0.3.
    """

    def joints(s: Jet) -> list[Jet]:
        y, z = centre[0] + crank * jets.cos(s), centre[1] + crank * jets.sin(s)
        return [_point(0.0, y, z), _point(jets.sqrt(conrod**2 - y * y - z * z), 0.0, 0.0)]

    def particles(at: list[Jet]) -> list[tuple[list[float], list[Jet]]]:
        pivot = jets.jet(np.array([0.0, *centre]))
        return [rod(pivot, at[0], masses[0]), rod(at[0], at[1], masses[1]), ([masses[2]], [at[1]])]

    return _known(joints, particles, np.array([0.0, 0.0, -GRAVITY]))


def _cross(a: Jet, b: Jet) -> Jet:
    def part(field_a: np.ndarray, field_b: np.ndarray) -> np.ndarray:
        return np.cross(field_a, field_b)

    return Jet(
        part(a.v, b.v), part(a.d, b.v) + part(a.v, b.d), part(a.dd, b.v) + 2.0 * part(a.d, b.d) + part(a.v, b.dd)
    )


def _column(x: Jet) -> Jet:
    """A scalar jet that multiplies vectors."""
    return Jet(x.v[..., None], np.broadcast_to(x.d, x.v.shape)[..., None], np.broadcast_to(x.dd, x.v.shape)[..., None])


def bricard_frames(s: Jet) -> list[tuple[Jet, Jet, Jet]]:
    """(start, direction, axis at its start) of the five moving bars of Bricard's linkage with right angles.

    Six bars of 1 m in a loop, each hinge at right angles to the next: overconstrained, yet movable. The hinge angles θ
    (odd) and φ (even) obey (1 + cos θ)(1 + cos φ) = 1 (Chen, You and Tarnai 2005), that is cos((θ+φ)/2) + cos((θ−φ)/2)
    = 1, a closed curve that sin((θ+φ)/4) = −cos s/√2, sin((θ−φ)/4) = sin s/√2 runs through without a singular place.
    s = 0 is the start of the benchmark, on the edges of a cube: bar 6 is the ground, from (0, 0, 1) to the origin.
    """
    mean = -2.0 * jets.arcsin(jets.cos(s) * math.sqrt(0.5))
    difference = 2.0 * jets.arcsin(jets.sin(s) * math.sqrt(0.5))
    angles = (mean + difference, mean - difference)
    zero = np.zeros((*s.v.shape, 3))
    start = Jet(zero, zero, zero)
    direction = Jet(zero + np.array([0.0, 0.0, -1.0]), zero, zero)
    axis = Jet(zero + np.array([0.0, 1.0, 0.0]), zero, zero)
    frames = []
    for k in range(5):
        c, sn = _column(jets.cos(angles[k % 2])), _column(jets.sin(angles[k % 2]))
        direction = c * direction + sn * _cross(axis, direction)
        frames.append((start, direction, axis))
        start = start + direction
        axis = (1.0 if k % 2 == 0 else -1.0) * _cross(direction, axis)  # turned by ±90° about the bar
    return frames


def bricard(width: float = 0.1, mass: float = 1.0) -> Known:
    """Bricard's linkage of `bricard_frames`, bars of square section. Joints: the ends of the five moving bars."""

    def joints(s: Jet) -> list[Jet]:
        return [start + direction for start, direction, _ in bricard_frames(s)]

    def positions(s: Jet) -> Jet:
        places = []
        for start, direction, axis in bricard_frames(s):
            places += bar(start, (direction, axis, _cross(direction, axis)), 1.0, width, mass)[1]
        return _rows(places)

    zero = jets.jet(np.zeros(3))
    return Known(Linkage(np.array(5 * bar(zero, (zero, zero, zero), 1.0, width, mass)[0]), positions, DOWN), joints)
