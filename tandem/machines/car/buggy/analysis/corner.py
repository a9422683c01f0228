"""What the road and the spring see of a suspension: camber, toe, kingpin, roll centre, motion ratio at a position.

Signs, the same on both sides unless stated:

    camber        positive when the wheel leans outwards at its top (ISO 8855)
    steer         positive to the left; toe_in positive when the front of the wheel points inwards
    caster        positive when the kingpin leans backwards at its top
    kingpin       positive when it leans inwards at its top
    scrub         positive when the kingpin meets the road inside the contact point
    trail         positive when it meets the road ahead of the contact point
    motion_ratio  d(spring length)/d(travel): negative, for a rising wheel shortens the spring
    roll_centre   height above the road of the point of the car's middle plane about which the contact point turns
    half_track    distance of the contact point from the middle plane
    brake_path, drive_path   angle by which the point that takes the force runs forward as the wheel rises: atan dx/dz

The contact point is the lowest point of a disc of the loaded radius. Under braking, wheel and knuckle turn as one, and
the force runs along the path of the knuckle's point at the road; a drive shaft from the chassis leaves the knuckle free
of torque, and the force runs along the path of the wheel centre. A positive `brake_path` in front resists dive, a
negative one behind resists lift; a negative `drive_path` behind resists squat.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tandem.machines.car.buggy.analysis.geometry import X, Y, Z, slope
from tandem.machines.car.buggy.analysis.suspension import Pose, Rates, Suspension, at_travel, pose, rates
from tandem.multibody.rotations import cross

LOADED_RADIUS = 0.275  # m, of the drawing
Side = Literal["left", "right"]


@dataclass(frozen=True)
class Corner:
    """One wheel at one travel and rack displacement. SI, angles rad; a `_gain` is a derivative by travel, per m."""

    side: Side
    travel: float
    rack: float
    centre: tuple[float, float, float]
    axle: tuple[float, float, float]  # unit, towards +y on both sides: forward rolling is a positive turn about it
    contact: tuple[float, float, float]
    camber: float
    steer: float
    toe_in: float
    caster: float
    kingpin: float
    scrub: float
    trail: float
    spring_length: float
    motion_ratio: float
    motion_ratio_gain: float
    camber_gain: float
    toe_in_gain: float
    half_track: float
    half_track_gain: float
    forward: float  # movement of the wheel centre from its drawn position
    forward_gain: float
    roll_centre: float
    brake_path: float
    drive_path: float
    steer_per_rack: float  # rad/m at fixed travel


def corner(
    suspension: Suspension,
    travel: float = 0.0,
    rack: float = 0.0,
    side: Side = "left",
    radius: float = LOADED_RADIUS,
) -> Corner:
    """The wheel with its centre `travel` above its drawn position, and the rack `rack` to the left of its own."""
    sign = 1.0 if side == "left" else -1.0
    # the right side is the left one in a mirror, where the rack goes the other way
    at = at_travel(suspension, travel, sign * rack)
    motion, steering = rates(suspension, at), rates(suspension, at, 0.0, 1.0)
    centre, axle = at.points["WC"], at.axle
    up = _upright(axle)
    contact = centre - radius * up

    # the disc's lowest point, and the knuckle's point there: they part when the knuckle turns about the axle
    axle_rate = cross(motion.spin, axle)
    centre_rate = motion.at(centre)
    contact_rate = centre_rate - radius * _upright_rate(axle, axle_rate)
    locked_rate = motion.at(contact)

    camber, steer = -math.asin(axle[2]), math.atan2(-axle[0], axle[1])
    level = math.hypot(axle[0], axle[1])
    top = at.points["UBJ"] if suspension.kind == "double_wishbone" else at.points["TOP"]
    pin = top - at.points["LBJ"]
    meets = at.points["LBJ"] + pin * ((contact[2] - at.points["LBJ"][2]) / pin[2])
    ahead = np.array([math.cos(steer), math.sin(steer), 0.0])
    across = cross(Z, ahead)
    offset = contact - meets

    mirror = np.array([1.0, sign, 1.0])
    mirrored_axle = axle if side == "left" else np.array([-axle[0], axle[1], -axle[2]])
    return Corner(
        side=side,
        travel=travel,
        rack=rack,
        centre=_three(mirror * centre),
        axle=_three(mirrored_axle),
        contact=_three(mirror * contact),
        camber=camber,
        steer=sign * steer,
        toe_in=-steer,
        caster=math.atan2(-pin[0], pin[2]),
        kingpin=math.atan2(-pin[1], pin[2]),
        scrub=float(across @ offset),
        trail=-float(ahead @ offset),
        spring_length=spring_length(at),
        motion_ratio=spring_rate(suspension, at, motion),
        motion_ratio_gain=motion_ratio_gain(suspension, at, motion.arm),
        camber_gain=-float(axle_rate[2]) / level,
        toe_in_gain=_toe_in_rate(axle, axle_rate),
        half_track=float(contact[1]),
        half_track_gain=float(contact_rate[1]),
        forward=float(centre[0] - suspension.points["WC"][0]),
        forward_gain=float(centre_rate[0]),
        roll_centre=float(contact[1] * contact_rate[1] / contact_rate[2]),
        brake_path=math.atan2(float(locked_rate[0]), float(locked_rate[2])),
        drive_path=math.atan2(float(centre_rate[0]), float(centre_rate[2])),
        # both the mirror and the rack in it change sign: the same on both sides
        steer_per_rack=-_toe_in_rate(axle, cross(steering.spin, axle)),
    )


def motion_ratio_gain(suspension: Suspension, at: Pose, arm_rate: float, step: float = 0.012) -> float:
    """d²(spring length)/d(travel)², 1/m, by extrapolated differences of the exact motion ratio over the arm's angle."""

    def ratio(angle: float) -> np.ndarray:
        there = pose(suspension, angle, at.rack)
        return np.array(spring_rate(suspension, there, rates(suspension, there)))

    return arm_rate * float(slope(ratio, at.angle, step))


def wheel_rate(corner: Corner, stiffness: float, force: float) -> float:
    """Stiffness at the wheel, N/m: spring rate through the motion ratio, and the spring's push times its change.

    `force` is the spring's compression force, N; with U = ½ k (l − l0)², d²U/dz² = k l'² + k (l − l0) l''.
    """
    return stiffness * corner.motion_ratio**2 - force * corner.motion_ratio_gain


def wheel_force(corner: Corner, spring_force: float) -> float:
    """Vertical force at the wheel centre that holds a spring compressed by `spring_force`, N (virtual work)."""
    return -spring_force * corner.motion_ratio


def spring_rate(suspension: Suspension, at: Pose, motion: Rates) -> float:
    """Rate of the spring's length in a motion."""
    lower = at.points["SPL"]
    if suspension.spring_on == "arm":
        hinge = at.points["LAR"] - at.points["LAF"]
        velocity = motion.arm * cross(hinge / np.linalg.norm(hinge), lower - at.points["LAF"])
    else:
        velocity = motion.at(lower)
    return float((lower - at.points["SPU"]) @ velocity) / spring_length(at)


def spring_length(at: Pose) -> float:
    return math.dist(at.points["SPL"], at.points["SPU"])


def _upright(axle: np.ndarray) -> np.ndarray:
    """Unit vector in the wheel's plane towards its highest point."""
    up = Z - axle[2] * axle
    direction: np.ndarray = up / np.linalg.norm(up)
    return direction


def _upright_rate(axle: np.ndarray, axle_rate: np.ndarray) -> np.ndarray:
    size = math.sqrt(1.0 - axle[2] ** 2)
    up = (Z - axle[2] * axle) / size
    raw = -axle_rate[2] * axle - axle[2] * axle_rate
    rate: np.ndarray = (raw - up * (up @ raw)) / size
    return rate


def _toe_in_rate(axle: np.ndarray, axle_rate: np.ndarray) -> float:
    """Of atan2(a_x, a_y), the left wheel's turn to the right."""
    return float((axle[1] * (axle_rate @ X) - axle[0] * (axle_rate @ Y)) / (axle[0] ** 2 + axle[1] ** 2))


def _three(vector: np.ndarray) -> tuple[float, float, float]:
    return float(vector[0]), float(vector[1]), float(vector[2])
