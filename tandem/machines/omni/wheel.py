"""The geometry of an omni wheel: rollers on a disk, their profile and inertia, and what cannot be built.

Axes of a wheel at angle 0: k1 its axle, j1 upwards, i1 = j1 x k1. Roller k is at the angle q_k = 2 pi k / n (0: at the
bottom). Every number is made with portable arithmetic, so that a wheel has the same bits on every machine.
"""

from dataclasses import dataclass
from math import sqrt

import numpy as np

from tandem.multibody.portable import cos_sin_turns

_INTERVALS = 400  # of Simpson's rule along half a roller


def cos_sin_deg(angle: float) -> tuple[float, float]:
    c, s = cos_sin_turns(angle / 360.0)
    return float(c), float(s)


@dataclass(frozen=True)
class Wheel:
    radius: float  # R, of the wheel
    distance: float  # R1, from its centre to that of a roller
    rollers: int
    psi_deg: float  # inclination of a roller's axis against the plane of the disk
    alpha_deg: float  # half the angle over which a roller touches
    roller_mass: float
    mirrored: bool = False  # inclined the other way
    rows: int = 1  # of rollers, beside each other: rollers belong to them in turn
    row_offset: float = 0.0  # m, of the middle of the outer rows from the middle of the wheel

    @property
    def cos_psi(self) -> float:
        return cos_sin_deg(self.psi_deg)[0]

    def profile(self, q_deg: float) -> tuple[float, float]:
        """Along the axis and across it, of the point that touches at the angle q (seed 004, explicit tracking)."""
        cq, sq = cos_sin_deg(q_deg)
        c, R, R1 = self.cos_psi, self.radius, self.distance
        height = R - R1 / cq
        return R1 * sq / (cq * c) + height * c * sq, height * sqrt(1.0 - c * c * sq * sq)

    @property
    def u_max(self) -> float:
        return self.cos_psi * cos_sin_deg(self.alpha_deg)[1]

    @property
    def length(self) -> float:
        """Of a roller with its tips cut, m."""
        return 2.0 * self.profile(self.alpha_deg)[0]

    def surface(self) -> tuple[float, ...]:
        """The figures of a ROLLER, see multibody/contact/surfaces.py."""
        s, r = self.profile(self.alpha_deg)
        return self.radius, self.distance, self.cos_psi, self.u_max, s, max(r, 0.0), 0.0

    def inertia(self) -> tuple[float, float]:
        """Of a uniform roller about its axis and across it, through its centre."""
        volume = along = across = 0.0
        s0, r0 = self.profile(0.0)
        for k in range(_INTERVALS):
            s1, r1 = self.profile(self.alpha_deg * (k + 1) / _INTERVALS)
            s, r, ds = 0.5 * (s0 + s1), 0.5 * (r0 + r1), s1 - s0
            area = r * r
            volume += area * ds
            along += 0.5 * area * area * ds
            across += (0.25 * area * area + area * s * s) * ds
            s0, r0 = s1, r1
        return self.roller_mass * along / volume, self.roller_mass * across / volume

    def placed(self, k: int, k1: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Centre of roller k from that of the wheel, its axis, and rho, with the axle along k1 (horizontal)."""
        j1 = np.array([0.0, 0.0, 1.0])
        i1 = np.array([-k1[1], k1[0], 0.0])  # j1 x k1
        c, s = cos_sin_turns(k / self.rollers)
        cp, sp = cos_sin_deg(-self.psi_deg if self.mirrored else self.psi_deg)
        rho = c * j1 - s * i1
        axis = cp * (s * j1 + c * i1) + sp * k1
        row = (k % self.rows) - 0.5 * (self.rows - 1)
        return -self.distance * rho + 2.0 * row * self.row_offset * k1, axis, rho

    def reach(self, u: float) -> float:
        """Support function of a roller, as in surfaces.py, for checks."""
        R, R1, c, u_max, s, r, _ = self.surface()
        if abs(u) <= u_max:
            return R - R1 * sqrt(1.0 - u * u / (c * c))
        return s * abs(u) + r * sqrt(max(1.0 - u * u, 0.0))

    def clearance(self) -> float:
        """The smallest gap between neighbours, in a row and of different rows, m; negative where they overlap.

        In two rows inclined rollers have other gaps to the next one than to the last one.
        """
        pairs = {(0, self.rows)} if self.rows == 1 else {(0, 1), (0, self.rows), (self.rollers - 1, 0)}
        return min(self._gap(i, j) for i, j in pairs if (i - j) % self.rollers != 0)

    def _gap(self, i: int, j: int) -> float:
        """Between two rollers.

        Half a turn about the radius between them exchanges the two. So a plane that separates them best contains that
        radius, and one angle has to be searched.
        """
        k1 = np.array([0.0, 1.0, 0.0])
        (one, a, _), (two, b, _) = self.placed(i, k1), self.placed(j, k1)
        between = one + two
        between[1] = 0.0
        size = sqrt(float(between[0] ** 2 + between[2] ** 2))
        radial = between / size if size > 1e-9 else np.array([1.0, 0.0, 0.0])
        first = np.array([-radial[2], 0.0, radial[0]])

        def gap(t: float) -> float:
            c, s = cos_sin_turns(t)
            d = c * first + s * k1
            if float(sum(d * (two - one))) < 0.0:
                d = -d
            apart = float(sum(d * (two - one)))
            return apart - self.reach(float(sum(d * a))) - self.reach(float(-sum(d * b)))

        best = max(range(720), key=lambda k: gap(k / 720.0)) / 720.0
        return max(gap(best + (k - 50) / 36000.0) for k in range(101))


def problems(wheel: Wheel, where: str) -> list[str]:
    """What is wrong with it, in words; `where` is the table it came from."""
    wrong = []
    smallest = 180.0 / wheel.rollers
    if not 0.0 <= wheel.psi_deg < 90.0:
        return [
            f"{where}.psi_deg = {wheel.psi_deg:g}: must be from 0 to less than 90: a roller whose axis is parallel to"
            " the axle never carries the wheel sideways"
        ]
    if wheel.alpha_deg < smallest * (1.0 - 1e-9):
        wrong.append(
            f"{where}.alpha_deg = {wheel.alpha_deg:g}: no roller is on the floor between two of them: {wheel.rollers} "
            f"rollers need {smallest:g} each"
        )
    limit = wheel.radius * cos_sin_deg(wheel.alpha_deg)[0]
    if not 0.0 < wheel.distance <= limit * (1.0 + 1e-9):
        wrong.append(
            f"{where}.distance = {wheel.distance:g}: must be above 0 and at most {limit:.6g}, radius cos(alpha)"
            ": beyond it a roller has no thickness at its tips"
        )
    if wheel.rollers % wheel.rows != 0:
        wrong.append(
            f"{where}.rollers = {wheel.rollers}: must be even with rows = {wheel.rows}: rollers belong to rows in turn"
        )
    if not wrong and (apart := wheel.clearance()) < -1e-6 * wheel.radius:
        rows = f"in two rows (rows, now {wheel.rows}) farther apart (row_offset, now {wheel.row_offset:g})"
        wrong.append(
            f"{where}.rollers = {wheel.rollers}: neighbours overlap by {-1e3 * apart:.3g} mm; place them farther out "
            f"(distance), {rows}, or incline them more (psi_deg)"
        )
    return wrong
