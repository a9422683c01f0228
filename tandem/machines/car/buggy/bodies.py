"""The buggy as a mechanism: 18 rigid bodies in natural coordinates, 14 degrees of freedom and the prescribed rack.

    chassis                                     one point, three unit vectors
    front, each side   upper arm, lower arm     hinged on the chassis by two points, shared ball joints
                       knuckle                  both ball joints, tie rod end, axle vector
                       wheel                    spin angle; mass and transverse inertia ride on the knuckle
    rear, each side    arm, knuckle, wheel      as in front
                       strut rod                top mount on the chassis, along the strut axis of the knuckle
    rack                                        one point that slides in the chassis

Whatever two bodies share needs no equation: a ball joint is a shared point, the hinge of an arm two points of the
chassis, the strut rod the axis vector of the knuckle. What is left are lengths (arms, tie rods) and the strut's axis
through its mount. 73 coordinates, 59 equations.

Axes as drawn are ISO 8855 (x forward, y left, z up); the middle of the car, at its centre of gravity, stands above the
origin.
"""

import math
from dataclasses import dataclass

import numpy as np

from tandem.multibody.natural.body import Body
from tandem.multibody.natural.linear import Linear
from tandem.multibody.natural.mechanism import Mechanism
from tandem.multibody.portable import cos_sin_turns, dot, norm

Points = dict[str, np.ndarray]
BODY_POINTS = 18  # of `body_points`
WHEELS = ("fl", "fr", "rl", "rr")
# columns of the coordinates, of every car: points of bodies; of the front corners the first point, and the axle
POINTS = (0, 12, 15, 18, 21, 31, 34, 37, 47, 50, 60, 63)
FIRST, AXLES = (15, 31), (24, 40)
FRONT = ("WC", "UBJ", "LBJ", "UAF", "UAR", "LAF", "LAR", "TRO", "TRI", "SPL", "SPU")
REAR = ("WC", "LBJ", "LAF", "LAR", "TRO", "TRI", "TOP", "CLAMP", "SPL", "SPU")


@dataclass(frozen=True)
class Corner:
    """What forces act on at one wheel."""

    name: str
    knuckle: Body
    centre: Linear  # of the wheel
    axle: np.ndarray  # as drawn, to the left on both sides
    spin: Linear
    spring: Linear  # from its lower end to its upper one
    lower: Linear  # ball joint, where an anti-roll bar pulls


@dataclass(frozen=True)
class Car:
    mechanism: Mechanism
    chassis: Body
    centre: Linear  # of gravity of the whole car as drawn, fixed in the chassis
    corners: tuple[Corner, ...]
    rack_sign: float  # of the rack's way to the left per hand-wheel angle to the left
    origin: np.ndarray  # what was added to the vehicle file's points


def side(points: Points, left: bool, origin: np.ndarray) -> Points:
    """Points of one side, in the axes of the mechanism."""
    mirror = np.array([1.0, 1.0 if left else -1.0, 1.0])
    return {name: mirror * p + origin for name, p in points.items()}


def lamina(a: np.ndarray, b: np.ndarray, c: np.ndarray, mass: float) -> tuple[np.ndarray, np.ndarray]:
    """Centre and inertia of an arm: a thin triangle, whose moments are those of m/12 at its corners and 3m/4 within."""
    centre = (a + b + c) / 3.0
    inertia = np.zeros((3, 3))
    for p in (a, b, c):
        d = p - centre
        inertia += mass / 12.0 * (dot(d, d) * np.eye(3) - np.outer(d, d))
    return centre, inertia


def together(parts: list[tuple[float, np.ndarray, np.ndarray]]) -> tuple[float, np.ndarray, np.ndarray]:
    """Mass, centre and inertia of parts that move as one."""
    mass = sum(m for m, _, _ in parts)
    centre = np.asarray(sum(m * c for m, c, _ in parts) / mass)
    inertia = np.zeros((3, 3))
    for m, c, J in parts:
        d = c - centre
        inertia += J + m * (dot(d, d) * np.eye(3) - np.outer(d, d))
    return mass, centre, inertia


def centre_of_gravity(p: dict[str, float], front: Points, rear: Points) -> np.ndarray:
    """Of the whole car, in the axes of the vehicle file."""
    sprung = np.array([p["sprung_cg_x"], p["sprung_cg_y"], p["sprung_cg_z"]])
    masses = [(p["sprung_mass"], sprung)]
    for m, c in unsprung(p, front, rear):
        masses.append((2.0 * m, c * np.array([1.0, 0.0, 1.0])))
    return np.asarray(sum(m * c for m, c in masses) / sum(m for m, _ in masses))


def unsprung(p: dict[str, float], front: Points, rear: Points) -> list[tuple[float, np.ndarray]]:
    """Masses of one side and their centres, front and rear."""
    return [*_unsprung_front(p, front), *_unsprung_rear(p, rear)]


def _unsprung_front(p: dict[str, float], at: Points) -> list[tuple[float, np.ndarray]]:
    return [
        (p["wheel_mass"], at["WC"]),
        (p["front_knuckle_mass"], (at["UBJ"] + at["LBJ"] + at["WC"]) / 3.0),
        (p["front_upper_arm_mass"], (at["UAF"] + at["UAR"] + at["UBJ"]) / 3.0),
        (p["front_lower_arm_mass"], (at["LAF"] + at["LAR"] + at["LBJ"]) / 3.0),
    ]


def _unsprung_rear(p: dict[str, float], at: Points) -> list[tuple[float, np.ndarray]]:
    return [
        (p["wheel_mass"], at["WC"]),
        (p["rear_knuckle_mass"], (at["LBJ"] + at["CLAMP"] + at["WC"]) / 3.0),
        (p["rear_arm_mass"], (at["LAF"] + at["LAR"] + at["LBJ"]) / 3.0),
        (p["strut_rod_mass"], _rod_centre(at)),
    ]


def _rod_centre(at: Points) -> np.ndarray:
    """The strut rod reaches from its mount as far down as the spring, along the strut."""
    along = (at["TOP"] - at["CLAMP"]) / norm(at["TOP"] - at["CLAMP"])
    return np.asarray(at["TOP"] - 0.5 * norm(at["TOP"] - at["SPL"]) * along)


def build(p: dict[str, float], front: Points, rear: Points) -> Car:
    """The mechanism of the parameters `p` and of the hardpoints of the left side; forces are added by the caller."""
    m = Mechanism()
    cg = centre_of_gravity(p, front, rear)
    origin = np.array([-cg[0], 0.0, 0.0])
    up, ahead, left = np.eye(3)[2], np.eye(3)[0], np.eye(3)[1]

    # chassis, without the rack it carries
    sprung = np.array([p["sprung_cg_x"], p["sprung_cg_y"], p["sprung_cg_z"]]) + origin
    rack_centre = side(front, True, origin)["TRI"] * np.array([1.0, 0.0, 1.0])
    inertia = np.diag([p["sprung_ixx"], p["sprung_iyy"], p["sprung_izz"]])
    inertia[0, 2] = inertia[2, 0] = p["sprung_ixz"]
    d = rack_centre - sprung
    own = p["sprung_mass"] - p["rack_mass"]
    centre = (p["sprung_mass"] * sprung - p["rack_mass"] * rack_centre) / own
    for mass, arm in ((p["rack_mass"], d), (own, centre - sprung)):
        inertia -= mass * (dot(arm, arm) * np.eye(3) - np.outer(arm, arm))
    nodes = [m.point("chassis", sprung), m.vector("ahead", ahead), m.vector("left", left), m.vector("up", up)]
    chassis = m.body("chassis", nodes, own, centre, inertia)

    # rack
    rack = m.point("rack", rack_centre)
    m.particle("rack", rack, p["rack_mass"])
    travel = m.input("rack")
    m.rack("rack", rack, rack_centre, left, travel.form, on=chassis)

    corners = []
    for name in WHEELS:
        is_left, is_front = name[1] == "l", name[0] == "f"
        at = side(front if is_front else rear, is_left, origin)
        axle = _axle(p, is_front, is_left)
        make = _front_corner if is_front else _rear_corner
        corners.append(make(m, p, name, at, axle, chassis, rack, rack_centre))
    kingpin_x = 0.5 * (front["UBJ"] + front["LBJ"])[0]
    sign = 1.0 if front["TRO"][0] > kingpin_x else -1.0
    return Car(m, chassis, chassis.at(cg + origin), tuple(corners), sign, origin)


def body_points(front: Points, rear: Points) -> list[np.ndarray]:
    """Where body and roll cage meet the ground if the car rolls over: as they are drawn (scene.py), an estimate."""
    w, floor, axle = 0.64 * front["WC"][1], min(front["LAF"][2], rear["LAF"][2]), rear["WC"][0]
    mid, back = 0.245 * axle, 0.735 * axle
    nose, tail = front["LAF"][0] + 0.28, rear["LAR"][0] - 0.2
    left = [
        (nose, 0.6 * front["LAF"][1], floor + 0.05),
        (mid, w, floor),
        (back, w, floor),
        (tail, rear["LAR"][1], floor + 0.06),
        (mid, w, 0.62),
        (mid - 0.42, 0.82 * w, 1.24),
        (back, 0.84 * w, 1.28),
        tuple(rear["TOP"]),
        (tail, rear["LAR"][1], 0.46),
    ]
    return [np.array(at) * (1.0, sign, 1.0) for at in left for sign in (1.0, -1.0)]


def _axle(p: dict[str, float], is_front: bool, is_left: bool) -> np.ndarray:
    """Axle as drawn, to the left, from static camber (top outwards positive) and toe (in positive)."""
    axle = "front" if is_front else "rear"
    outwards = 1.0 if is_left else -1.0
    camber, toe = outwards * p[f"{axle}_camber"], -outwards * p[f"{axle}_toe"]
    (cos_camber, sin_camber), (cos_toe, sin_toe) = (cos_sin_turns(angle / (2.0 * math.pi)) for angle in (camber, toe))
    a = np.array([-sin_toe * cos_camber, cos_toe * cos_camber, -sin_camber])
    return np.asarray(a / norm(a))


def _carried(p: dict[str, float], own: float, size: float, at: np.ndarray, wheel: np.ndarray, axle: np.ndarray):  # type: ignore[no-untyped-def]
    """Knuckle and wheel as one: the wheel's inertia about its axle belongs to its spin."""
    across = p["wheel_transverse_inertia"] * (np.eye(3) - np.outer(axle, axle))
    return together([(own, at, size * np.eye(3)), (p["wheel_mass"], wheel, across)])


def _front_corner(m, p, name, at, axle, chassis, rack, rack_centre) -> Corner:  # type: ignore[no-untyped-def]
    upper = m.point(f"{name}.UBJ", at["UBJ"])
    lower = m.point(f"{name}.LBJ", at["LBJ"])
    end = m.point(f"{name}.TRO", at["TRO"])
    w = m.vector(f"{name}.axle", axle)
    normal = m.vector(f"{name}.normal", np.cross(at["LAR"] - at["LAF"], at["LBJ"] - at["LAF"]))
    for which, ball, points, mass in (
        ("upper arm", upper, ("UAF", "UAR", "UBJ"), p["front_upper_arm_mass"]),
        ("lower arm", lower, ("LAF", "LAR", "LBJ"), p["front_lower_arm_mass"]),
    ):
        extra = [normal] if ball is lower else []
        centre, inertia = lamina(at[points[0]], at[points[1]], at[points[2]], mass)
        m.body(
            f"{name} {which}",
            [chassis.at(at[points[0]]), chassis.at(at[points[1]]), ball, *extra],
            mass,
            centre,
            inertia,
        )
    own = (at["UBJ"] + at["LBJ"] + at["WC"]) / 3.0
    carried = _carried(p, p["front_knuckle_mass"], p["front_knuckle_inertia"], own, at["WC"], axle)
    knuckle = m.body(f"{name} knuckle", [lower, upper, end, w], *carried)
    m.rod(f"{name} tie rod", rack + chassis.along(at["TRI"] - rack_centre), end)
    spin = m.scalar(f"{name}.spin")
    m.rotor(f"{name} wheel", knuckle, axle, spin, p["wheel_spin_inertia"])
    spring = chassis.at(at["SPU"]) - m.bodies[f"{name} lower arm"].at(at["SPL"])
    return Corner(name, knuckle, knuckle.at(at["WC"]), axle, spin, spring, lower)


def _rear_corner(m, p, name, at, axle, chassis, rack, rack_centre) -> Corner:  # type: ignore[no-untyped-def]
    lower = m.point(f"{name}.LBJ", at["LBJ"])
    end = m.point(f"{name}.TRO", at["TRO"])
    strut = m.vector(f"{name}.strut", at["TOP"] - at["CLAMP"])
    w = m.vector(f"{name}.axle", axle)
    centre, inertia = lamina(at["LAF"], at["LAR"], at["LBJ"], p["rear_arm_mass"])
    m.body(f"{name} arm", [chassis.at(at["LAF"]), chassis.at(at["LAR"]), lower], p["rear_arm_mass"], centre, inertia)
    own = (at["LBJ"] + at["CLAMP"] + at["WC"]) / 3.0
    carried = _carried(p, p["rear_knuckle_mass"], p["rear_knuckle_inertia"], own, at["WC"], axle)
    knuckle = m.body(f"{name} knuckle", [lower, end, strut, w], *carried)
    top = chassis.at(at["TOP"])
    along = (at["TOP"] - at["CLAMP"]) / norm(at["TOP"] - at["CLAMP"])
    length = norm(at["TOP"] - at["SPL"])
    rod = p["strut_rod_mass"] * length**2 / 12.0 * (np.eye(3) - np.outer(along, along))
    m.body(f"{name} strut rod", [top, strut], p["strut_rod_mass"], _rod_centre(at), rod)
    m.slider(f"{name} strut", top, at["CLAMP"], along, on=knuckle)
    m.rod(f"{name} toe link", chassis.at(at["TRI"]), end)
    spin = m.scalar(f"{name}.spin")
    m.rotor(f"{name} wheel", knuckle, axle, spin, p["wheel_spin_inertia"])
    spring = chassis.at(at["SPU"]) - knuckle.at(at["SPL"])
    return Corner(name, knuckle, knuckle.at(at["WC"]), axle, spin, spring, lower)
