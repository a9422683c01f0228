"""The grand action as a plane tree of links with felt between them: geometry, masses, contacts.

Which figure is from where: docs/piano_multibody.md.

Axes: x away from the player, z up, angles from x to z, the key's pivot at the origin. Link by link: key (it
follows what is measured) and whippen on the ground, jack and repetition lever on the whippen, hammer and damper on the
ground. At q = 0 every link lies along x; angles of jack and lever are against the whippen.
Rest is table 3.5 of seed 002.
"""

from math import cos, sin, sqrt

import numpy as np

from tandem.machines.piano import geometry
from tandem.multibody.contact.felt import CAPSULE, FELT_REALS, GROUND, STOP
from tandem.multibody.contact.kinds import LINK_REALS, TURN

LINKS = ("key", "whippen", "jack", "lever", "hammer", "damper")
KEY, WHIPPEN, JACK, LEVER, HAMMER, DAMPER = range(6)
PARENTS = (-1, -1, WHIPPEN, WHIPPEN, -1, -1)

# the phase model's geometry, G1 of the digest (specs/piano.md 2.7 and 2.8): one place for both
REST = (
    geometry.Q1,
    geometry.Q5,
    geometry.STOP,
    geometry.REST_SPREAD,
    geometry.Q2,
    0.0,
)  # rad, of the six joints
TIP = geometry.FRONT  # m, from the key's pivot to where the finger is
CAPSTAN = (geometry.CAPSTAN, geometry.CAPSTAN_HEIGHT)
P2, P3 = (geometry.P2X, geometry.P2Y), (geometry.P3X, geometry.P3Y)
A, HEAD, TOE, KNUCKLE, HAMMER_REACH = (
    geometry.WHIPPEN,
    geometry.JACK,
    geometry.TOE,
    geometry.KNUCKLE,
    geometry.SHANK,
)
LEVER_PIVOT, KNUCKLE_AT = (-geometry.LEVER_BACK, geometry.LEVER_HEIGHT), geometry.Q9

# estimates: masses of real parts (kg), centres in the axes of the link (m), inertias about them (kg m2)
BODIES = (
    (0.120, (0.012, 0.005), 1.8e-3),
    (0.018, (-0.055, 0.012), 1.5e-5),
    (0.006, (-0.006, 0.020), 2.5e-6),
    (0.007, (-0.020, 0.004), 3.0e-6),
    (0.014, (HAMMER_REACH, 0.0), 2.0e-6),
    (0.040, (-0.090, 0.010), 2.0e-5),
)
DAMPER_PIVOT = (0.33, 0.0)
TAIL = (0.21, 0.0)  # of the key, where it meets the damper
CHECKED = 0.0068  # rad: the key's angle at which the back-check is drawn
DAMPER_SKIN = 0.004  # m
KNUCKLE_RADIUS = 0.002  # m, of its edge
# the back-check, as it stands in the world at CHECKED: its face leans by 68 degrees, meets the way of the hammer's tail
# where the hammer is 5 mm below the string, and ends 2 mm below where the tail is then. So steep it is nearly along
# that way: a tail that rises late, while the key is down already, is braked and passes, and one that falls is held
TAIL_END = (0.1022, -0.020)  # m, of the hammer, where the check holds it
CHECK_SKIN, CHECK_LEAN, CHECK_BOTTOM, CHECK_TOP = 0.004, 0.40403, 0.046, 0.0705  # m; tangent of 22 degrees; heights, m


def _check() -> tuple[tuple[float, float], tuple[float, float]]:
    """Both ends of its segment: the face is its skin away, and at the tail's end where the hammer is level."""
    x, z, long = P3[0] + TAIL_END[0], P3[1] + TAIL_END[1], sqrt(1.0 + CHECK_LEAN * CHECK_LEAN)
    x, z = x + CHECK_SKIN / long, z - CHECK_SKIN * CHECK_LEAN / long
    return (x + (CHECK_BOTTOM - z) * CHECK_LEAN, CHECK_BOTTOM), (x + (CHECK_TOP - z) * CHECK_LEAN, CHECK_TOP)


CHECK = _check()

# of the force, most that is lost: felt gives back 0.18 of what was put in, and a ball would leave it with 0.42. Two are
# by a Kawai (docs/piano_multibody.md): a hammer leaves its string with 0.70 of its speed, and hardly hops as it lands
FELT_LOSS, LANDING_LOSS, STRING_LOSS = 0.7, 0.9, 0.35
MOST_LOST = {"string": STRING_LOSS, "capstan": LANDING_LOSS, "head": LANDING_LOSS, "lever_felt": LANDING_LOSS}
CONTACTS = (
    "capstan", "head", "toe", "lever_felt", "jack_stop", "lever_stop", "drop_screw", "back_check", "string",
    "hammer_rest", "damper_felt", "damper_stop", "front_rail", "back_rail", "knuckle_side",
)  # fmt: skip


def rotated(angle: float, x: float, z: float) -> tuple[float, float]:
    """A point of the world in the axes of a link at the origin that has turned by an angle."""
    c, s = cos(angle), sin(angle)
    return c * x + s * z, c * z - s * x


def tree() -> tuple[list[int], list[float]]:
    """Tables of the links, as joint_tree.py reads them."""
    places = ((0.0, 0.0), P2, (-A, 0.0), LEVER_PIVOT, P3, DAMPER_PIVOT)
    ints: list[int] = []
    reals: list[float] = []
    for parent, (x, z), (mass, (cx, cz), inertia) in zip(PARENTS, places, BODIES, strict=True):
        ints += [parent, TURN, 0]
        reals += [0.0, -1.0, 0.0, x, 0.0, z, mass, cx, 0.0, cz, inertia, inertia, inertia, 0.0, 0.0, 0.0, 0.0]
    assert len(reals) == len(LINKS) * LINK_REALS
    return ints, reals


def contacts() -> tuple[list[int], list[float]]:
    """Tables of the contacts, as felt.py reads them; what is regulated is put in before every step."""
    deep, low = 0.01, KNUCKLE_RADIUS - KNUCKLE
    # capsules of radius `deep` have their surface on one side of a segment: above, or below it
    lower, upper = (rotated(CHECKED, x, z) for x, z in CHECK)
    rows = (
        # point, capsule, twice the exponent; point; segment; radius; stiffness, damping, friction, slip
        (KEY, WHIPPEN, 5, CAPSTAN, (-0.11, deep), (-0.02, deep), deep, 1.2e9, 25.0, 0.20),
        (JACK, HAMMER, 5, (0.0, HEAD), (0.011, low), (0.024, low), KNUCKLE_RADIUS, 1.2e9, 25.0, 0.20),
        (JACK, GROUND, 3, (-TOE, 0.0), (0.02, deep), (0.08, deep), deep, 6e5, 0.6, 0.15),
        (HAMMER, LEVER, 3, (KNUCKLE_AT, -KNUCKLE), (-0.06, -deep), (-0.01, -deep), deep, 1.5e5, 0.6, 0.15),
        (JACK, GROUND, 3, (REST[JACK], 1.0), (0.03, 0.0), (1.0, 0.0), 0.0, 6e5, 1.0, 0.0),
        (LEVER, GROUND, 3, (REST[LEVER], 1.0), (0.05, 0.0), (1.0, 0.0), 0.0, 6e5, 1.0, 0.0),
        (LEVER, GROUND, 3, (-0.05, 0.0067), (0.05, deep), (0.12, deep), deep, 6e5, 1.0, 0.15),
        (HAMMER, KEY, 3, TAIL_END, lower, upper, CHECK_SKIN, 2e5, 3.0, 0.50),
        (HAMMER, GROUND, 5, (HAMMER_REACH, 0.0), (0.12, deep), (0.24, deep), deep, 7e8, 3.0, 0.10),
        (HAMMER, GROUND, 3, (-0.40, 1.0), (0.05, 0.0), (1.0, 0.0), 0.0, 2e5, 2.0, 0.0),
        (KEY, DAMPER, 3, TAIL, (-0.16, DAMPER_SKIN), (-0.08, DAMPER_SKIN), DAMPER_SKIN, 4e5, 1.0, 0.15),
        (DAMPER, GROUND, 3, (0.0, -1.0), (0.12, 0.0), (1.0, 0.0), 0.0, 2e5, 2.0, 0.0),
        (KEY, GROUND, 3, (0.0, -1.0), (TIP, 0.0), (1.0, 0.0), 0.0, 2e6, 1.0, 0.0),
        (KEY, GROUND, 3, (0.0, 1.0), (TIP, 0.0), (1.0, 0.0), 0.0, 2e6, 1.0, 0.0),
        (JACK, HAMMER, 5, (0.0, HEAD), (0.011, low + KNUCKLE_RADIUS), (0.011, 0.0), KNUCKLE_RADIUS, 1.2e9, 25.0, 0.20),
    )  # fmt: skip
    stops = ("jack_stop", "lever_stop", "hammer_rest", "damper_stop", "front_rail", "back_rail")
    ints: list[int] = []
    reals: list[float] = []
    for name, row in zip(CONTACTS, rows, strict=True):
        point, capsule, twice, at, start, end, radius, stiffness, damping, friction = row
        ints += [point, capsule, twice, STOP if name in stops else CAPSULE]
        reals += [*at, *start, *end, radius, stiffness, damping, friction, 1e-3, MOST_LOST.get(name, FELT_LOSS)]
    assert len(reals) == len(CONTACTS) * FELT_REALS
    return ints, reals


def joints() -> list[float]:
    """Springs and friction of the pivots, as felt.py reads them: stiffness, rest, preload, damping, level, speed."""
    rows = (
        (0.0, 0.0, 0.0, 0.0, 0.008, 2e-3),
        (0.0, 0.0, 0.0, 2e-5, 1.0e-3, 5e-3),
        (0.02, REST[JACK], 0.006, 1e-5, 1.0e-4, 0.02),
        (0.35, REST[LEVER], 0.03, 5e-4, 5.0e-4, 0.01),
        (0.0, 0.0, 0.0, 2e-5, 6.0e-4, 0.02),
        (0.0, 0.0, -0.02, 1e-4, 1.0e-3, 0.01),
    )
    return [value for row in rows for value in row]


def poses(q: np.ndarray) -> list[tuple[float, float, float]]:
    """Place of the pivot and absolute angle of every link: for drawing and for checks."""
    out: list[tuple[float, float, float]] = []
    places = ((0.0, 0.0), P2, (-A, 0.0), LEVER_PIVOT, P3, DAMPER_PIVOT)
    for k, (parent, (x, z)) in enumerate(zip(PARENTS, places, strict=True)):
        angle = float(q[k])
        if parent >= 0:
            px, pz, turn = out[parent]
            c, s = cos(turn), sin(turn)
            out.append((px + c * x - s * z, pz + s * x + c * z, angle + turn))
        else:
            out.append((x, z, angle))
    return out
