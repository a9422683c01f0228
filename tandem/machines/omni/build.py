"""From a file to the tables of a tree with contacts (tandem/multibody/contact), and the machine around them.

Joints: x, y, z of the whole, then yaw; of a bench tilt (locked: the servo constraint) and the wheel's own angle, of a
platform pitch, roll and an angle a wheel; then the rollers of a wheel, behind it.

Head of the integers: links, contacts, wheels, substeps, bench (1) or platform (0), then the link of each wheel (8).
Head of the numbers: settings of a step that are not parameters (3), the mass that moves, the inertia about the
vertical, then of each wheel three numbers of inverse kinematics, three that share a wrench out and six of where it is
(place, cosine and sine of its axle, tangent of its rollers' inclination, distance of its outer row), what all wheels
have (radius, distance of rollers, their number, rows), and the inertia of a roller about its axis. Links and contacts
follow, then the road, of which there is nothing where the floor is flat.
"""

from math import atan, sqrt

import numpy as np

from sync.compile.array_types import read_only
from sync.errors import ConfigError
from tandem.machines.omni.description import OmniFile
from tandem.machines.omni.wheel import Wheel, cos_sin_deg, problems
from tandem.multibody.contact.kinds import (
    LINK_WORK,
    LOCKED,
    ROLLER,
    ROLLER_EXPLICIT,
    ROLLER_IMPLICIT,
    ROOT,
    SLIDE,
    SYMMETRIC,
    TURN,
)
from tandem.multibody.contact.stepping import find_gaps
from tandem.multibody.contact.tree_tables import TreeTables, about_axis
from tandem.multibody.ground.surface import surface

MOST_WHEELS = 8
# in front of the tree's integers: links, contacts, wheels, substeps, 1 for a bench, corrections, sweeps, then the links
# of the wheels; in front of its numbers: tolerance, mass, inertia about z, then those of each wheel
LINKS_AT, WHEELS_AT, OF_WHEEL = 7, 3, 12
INT_HEAD = LINKS_AT + MOST_WHEELS
SHAPE_AT = WHEELS_AT + OF_WHEEL * MOST_WHEELS  # radius, distance, rollers, rows
FLOAT_HEAD = SHAPE_AT + 4 + 1  # last: inertia of a roller about its axis
KINDS = {"support": ROLLER, "explicit": ROLLER_EXPLICIT, "implicit": ROLLER_IMPLICIT}
X, Y, Z = np.eye(3)


def checked_wheels(file: OmniFile, where: str, uneven: bool = False) -> list[Wheel]:
    """The wheels of a file, or a ConfigError that names all that is wrong with it."""
    wrong = problems(file.wheel.wheel(), f"{where}: wheel")
    if uneven and file.tracking != "support":
        wrong.append(
            f"{where}: tracking = {file.tracking!r}: must be 'support' on a road: the paper's trackings are of a flat"
            " floor"
        )
    sound = not wrong
    if (file.platform is None) == (file.bench is None):
        wrong.append(f"{where}: there must be either a [bench] or a [platform]")
    if file.platform is not None:
        if file.tracking != "support":
            wrong.append(
                f"{where}: tracking = {file.tracking!r}: must be 'support' with a [platform]: the paper's trackings "
                "hold for an upright wheel only, and a platform pitches and rolls"
            )
        if (outside := _outside(file)) > 0.0:
            wrong.append(
                f"{where}: platform.wheels: the centre of mass is {1e3 * outside:.3g} mm outside the polygon of"
                " the points where they stand, or these are in one line; move wheels or platform.centre"
            )
        wrong += [f"{where}: platform.wheels: {text}" for text in (_overlapping(file) if sound else ())]
        if not wrong and not _steady(file):
            wrong.append(
                f"{where}: platform.wheels: the directions in which they push do not span the plane; their axles must "
                "differ, or be farther apart"
            )
    if wrong:
        raise ConfigError("\n".join(wrong))
    if file.platform is None:
        return [file.wheel.wheel()]
    return [file.wheel.wheel(placed.mirrored) for placed in file.platform.wheels]


def _outside(file: OmniFile) -> float:
    """How far the centre of mass is outside the polygon of the wheels, seen from above, m; negative inside."""
    assert file.platform is not None
    p, disk = file.platform, file.wheel
    places = np.array([placed.at for placed in p.wheels])
    carried = disk.disk_mass + disk.rollers * disk.roller_mass
    centre = (p.mass * np.array(p.centre[:2]) + carried * places.sum(axis=0)) / (p.mass + carried * len(places))
    farthest = -np.inf
    for i, one in enumerate(places):  # a side of the polygon: no wheel is to the right of it
        for two in places[i + 1 :]:
            along = two - one
            length = sqrt(float(along[0] ** 2 + along[1] ** 2))
            if length < 1e-6:
                continue
            across = np.array([along[1], -along[0]]) / length
            reach = (places - one) @ across
            for sign in (1.0, -1.0):
                if float((sign * reach).max()) < 1e-6:
                    farthest = max(farthest, float(sign * ((centre - one) @ across)))
    return float(farthest) + 1e-6 if farthest > -np.inf else 1e-3


def _overlapping(file: OmniFile) -> list[str]:
    """Which wheels are in each other's place.

    At the height of the axles a wheel fills a rectangle, as long as the circle of its rollers' centres and as wide as
    its rows, and what is within a roller's radius of it: as far as rollers reach in their middle, or a little farther.
    """
    assert file.platform is not None
    wheel = file.wheel.wheel()
    thick, half = wheel.radius - wheel.distance, (wheel.distance, wheel.row_offset if wheel.rows > 1 else 0.0)
    frames = []
    for placed in file.platform.wheels:
        c, s = cos_sin_deg(placed.axle_deg)
        frames.append((np.array(placed.at), np.array([[-s, c], [c, s]])))  # rows: along the wheel, along its axle
    texts = []
    for j, (two, of_two) in enumerate(frames):
        for i, (one, of_one) in enumerate(frames[:j]):
            # corners of one in the axes of the other, and where a corner of either is nearest to the other's rectangle
            apart, crossing = np.inf, True
            for at, axes, other, of_other in ((one, of_one, two, of_two), (two, of_two, one, of_one)):
                corners = [
                    axes @ (other + u * half[0] * of_other[0] + v * half[1] * of_other[1] - at)
                    for u in (-1.0, 1.0)
                    for v in (-1.0, 1.0)
                ]
                for corner in corners:
                    out = [max(abs(float(x)) - h, 0.0) for x, h in zip(corner, half, strict=True)]
                    apart = min(apart, sqrt(out[0] ** 2 + out[1] ** 2))
                for k, h in enumerate(half):  # a side of either that parts them
                    reach = [float(corner[k]) for corner in corners]
                    crossing &= min(reach) <= h and max(reach) >= -h
            if crossing or apart < 2.0 * thick * (1.0 - 1e-9):
                texts.append(f"wheels {i + 1} and {j + 1} overlap; place them farther apart (at)")
    return texts


def kinematics(file: OmniFile) -> list[tuple[float, float, float]]:
    """Of each wheel: its spin for a unit of speed ahead, to the left, of turning. Along its roller nothing slips."""
    rows = []
    for placed in file.platform.wheels if file.platform is not None else ():
        c, s = cos_sin_deg(placed.axle_deg)
        wheel = file.wheel.wheel(placed.mirrored)
        cp, sp = cos_sin_deg(-wheel.psi_deg if placed.mirrored else wheel.psi_deg)
        ax, ay = -s * cp + c * sp, c * cp + s * sp  # of the roller at the bottom: cos psi i1 + sin psi k1
        reach = wheel.radius * cp
        x, y = placed.at
        rows.append((-ax / reach, -ay / reach, (y * ax - x * ay) / reach))
    return rows


def _normal(rows: list[tuple[float, float, float]]) -> np.ndarray:
    return np.array([[sum(r[i] * r[j] for r in rows) for j in range(3)] for i in range(3)])


def _determinant(m: np.ndarray) -> float:
    return float(
        m[0, 0] * (m[1, 1] * m[2, 2] - m[1, 2] * m[2, 1])
        - m[0, 1] * (m[1, 0] * m[2, 2] - m[1, 2] * m[2, 0])
        + m[0, 2] * (m[1, 0] * m[2, 1] - m[1, 1] * m[2, 0])
    )


def _steady(file: OmniFile) -> bool:
    m = _normal(kinematics(file))
    return _determinant(m) > 1e-6 * float(m[0, 0] + m[1, 1]) ** 2 * max(float(m[2, 2]), 1e-12)


def shares(rows: list[tuple[float, float, float]]) -> list[tuple[float, float, float]]:
    """Of each wheel: its torque for a unit of force ahead, to the left, of torque; the smallest ones that do it."""
    m = _normal(rows)
    det = _determinant(m)
    inverse = np.empty((3, 3))
    for i in range(3):
        for j in range(3):
            a, b, c, d = (j + 1) % 3, (j + 2) % 3, (i + 1) % 3, (i + 2) % 3
            inverse[i, j] = (m[a, c] * m[b, d] - m[a, d] * m[b, c]) / det
    return [tuple(float(sum(r[i] * inverse[i, j] for i in range(3))) for j in range(3)) for r in rows]  # type: ignore[misc]


def build(
    file: OmniFile, wheels: list[Wheel], road: np.ndarray | None = None
) -> tuple[TreeTables, np.ndarray, np.ndarray]:
    """The tree, and all integers and numbers of the machine's tables."""
    tree = TreeTables()
    parent = -1
    for name, axis in (("x", X), ("y", Y), ("z", Z)):
        parent = tree.link(name, parent, SLIDE, axis, ROOT)
    parent = tree.link("yaw", parent, TURN, Z)
    disk, kind = file.wheel, KINDS[file.tracking]
    links = []
    mass = 0.0
    turning = 0.0
    if file.platform is None:
        parent = tree.link("tilt", parent, TURN, X, LOCKED)
        places = [(np.zeros(3), Y, parent)]
    else:
        p = file.platform
        parent = tree.link("pitch", parent, TURN, Y)
        inertia = np.diag(np.array(p.inertia))
        parent = tree.link("roll", parent, TURN, X, mass=p.mass, centre=np.array(p.centre), inertia=inertia)
        places = []
        mass, turning = p.mass, p.inertia[2] + p.mass * (p.centre[0] ** 2 + p.centre[1] ** 2)
        for placed in p.wheels:
            c, s = cos_sin_deg(placed.axle_deg)
            places.append((np.array([*placed.at, 0.0]), np.array([c, s, 0.0]), parent))
    for k, (wheel, (at, k1, held)) in enumerate(zip(wheels, places, strict=True)):
        name = "" if file.platform is None else f"wheel{k + 1}_"
        of_disk = about_axis(k1, disk.disk_inertia_axle, disk.disk_inertia_across)
        link = tree.link(
            f"{name}angle", held, TURN, k1, at=at, mass=disk.disk_mass, inertia=of_disk, damping=disk.axle_damping
        )
        links.append(link)
        along, across = wheel.inertia()
        carried = disk.disk_mass + wheel.rollers * wheel.roller_mass
        mass, turning = mass + carried, turning + carried * float(at[0] ** 2 + at[1] ** 2)
        for r in range(wheel.rollers):
            centre, axis, rho = wheel.placed(r, k1)
            roller = tree.link(
                f"{name}roller{r + 1}_angle", link, TURN, axis, SYMMETRIC, at=centre, mass=wheel.roller_mass,
                inertia=about_axis(axis, along, across), damping=disk.roller_damping,
            )  # fmt: skip
            tree.contacts.append((roller, link, kind))
            tree.surfaces.append([float(v) for v in (0.0, 0.0, 0.0, *axis, *rho, *k1, *wheel.surface())])
    ints = np.zeros(INT_HEAD, np.int32)
    ints[:5] = len(tree.links), len(tree.contacts), len(wheels), file.substeps, int(file.platform is None)
    ints[5:LINKS_AT] = file.corrections, file.sweeps
    ints[LINKS_AT : LINKS_AT + len(links)] = links
    floats = np.zeros(FLOAT_HEAD)
    floats[:WHEELS_AT] = 1e-11, mass, turning
    floats[-1] = wheels[0].inertia()[0]
    if file.platform is not None:
        rows = kinematics(file)
        for k, (row, share, placed) in enumerate(zip(rows, shares(rows), file.platform.wheels, strict=True)):
            cp, sp = cos_sin_deg(wheels[k].psi_deg)
            inclined, offset = (-sp if placed.mirrored else sp) / cp, wheels[k].row_offset
            place = (*placed.at, *cos_sin_deg(placed.axle_deg), inclined, offset)
            floats[WHEELS_AT + OF_WHEEL * k : WHEELS_AT + OF_WHEEL * (k + 1)] = (*row, *share, *place)
    one = wheels[0]
    floats[SHAPE_AT : SHAPE_AT + 4] = one.radius, one.distance, one.rollers, one.rows
    all_ints = np.concatenate([ints, np.array(tree.links, np.int32).ravel(), np.array(tree.contacts, np.int32).ravel()])
    ground = np.zeros(0) if road is None else road
    return tree, all_ints, np.concatenate([floats, np.ravel(tree.numbers), np.ravel(tree.surfaces), ground])


class Ground:
    """A tree over its ground: how far every roller is from it, and where it is nearest."""

    def __init__(self, tree: TreeTables, road: np.ndarray | None) -> None:
        self.tables = (
            read_only(np.ravel(np.array(tree.links, np.int32))),
            read_only(np.ravel(tree.numbers)),
            read_only(np.ravel(np.array(tree.contacts, np.int32))),
            read_only(np.ravel(tree.surfaces)),
            read_only(np.zeros(0) if road is None else road),
        )
        self.n = len(tree.links)
        self.work, self.found = np.zeros(LINK_WORK * self.n + 37), np.zeros((len(tree.contacts), 4))

    def nearest(self, q: np.ndarray) -> np.ndarray:
        """Of every roller its gap, and its point: a row each, valid until the next call."""
        find_gaps(*self.tables, np.ascontiguousarray(q[: self.n]), self.work, self.found.ravel())
        return self.found

    def stand(self, file: OmniFile, q: np.ndarray) -> None:
        """Lift the machine onto the ground below it; a platform as inclined as the ground at its wheels is."""
        road = self.tables[-1]
        if len(road) == 0:
            return
        if file.platform is not None:
            at = np.array([placed.at for placed in file.platform.wheels])
            z = [surface(road, float(q[0] + x), float(q[1] + y))[0] for x, y in at]
            q[2], along, across = np.linalg.lstsq(np.column_stack([np.ones(len(at)), at]), np.array(z), rcond=None)[0]
            q[4], q[5] = -atan(along), atan(across / sqrt(1.0 + along * along))
            q[2] += file.wheel.radius
        else:
            q[2] += surface(road, float(q[0]), float(q[1]))[0]
        for _ in range(20):
            q[2] -= float(self.nearest(q)[:, 0].min())
