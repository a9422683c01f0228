"""Where a wheel goes when its suspension moves: double wishbone and MacPherson strut, relative to a fixed chassis.

Promises
- A position is solved link by link in closed form from the angle of the lower arm; only the arm angle for a given wheel
  travel is found by Newton's method. All link lengths are kept to rounding (1e-13 m).
- Velocities per unit of travel or of rack are those of the knuckle as a rigid body held by its links: six linear
  equations, no differences.
- The knuckle stays on the branch it was drawn on. Points that make no mechanism and travels out of reach raise
  `HardpointError` with the names of the points.

Axes are those of the hardpoints, ISO 8855: x forward, y left, z up. All is computed for the left side; the right side
is its mirror image (`corner.corner` does that). `travel` is the rise of the wheel centre, `rack` the rack's movement to
the left, both from the drawn position, m.

    WC wheel centre   UBJ LBJ upper and lower ball joint   UAF UAR LAF LAR inner pivots of the arms, front and rear
    TRO TRI outer and inner end of the tie rod (toe link)  SPL SPU lower and upper end of the spring
    TOP strut mount on the chassis   CLAMP a point of the strut's axis on the knuckle

Knuckle of the MacPherson: the strut's axis, fixed in the knuckle, always runs through TOP. The distance from LBJ to TOP
is how far the strut is pushed in; what is left is a turn about the line LBJ-TOP, and the toe link takes that.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tandem.machines.car.buggy.analysis.geometry import (
    HardpointError,
    Unreachable,
    X,
    Y,
    Z,
    about,
    circle_angle,
    circle_branch,
    collinear,
    plane_side,
    three_spheres,
    triad,
)
from tandem.multibody.rotations import about_axis, cross

WISHBONE_POINTS = ("WC", "UBJ", "LBJ", "UAF", "UAR", "LAF", "LAR", "TRO", "TRI", "SPL", "SPU")
MACPHERSON_POINTS = ("WC", "LBJ", "LAF", "LAR", "TRO", "TRI", "TOP", "CLAMP", "SPL", "SPU")


@dataclass(frozen=True, eq=False)
class Suspension:
    """Drawn hardpoints of the left side, and the branches of their loci the drawing is on."""

    kind: Literal["double_wishbone", "macpherson"]
    points: Mapping[str, np.ndarray]
    axle: np.ndarray  # spin axis as drawn, unit, towards +y
    spring_on: Literal["arm", "knuckle"]
    branches: tuple[float, float]


@dataclass(frozen=True, eq=False)
class Pose:
    """A position of the left side: moved points (chassis points included), and the turn of the knuckle."""

    points: Mapping[str, np.ndarray]
    turn: np.ndarray  # rotation matrix of the knuckle from its drawn position
    axle: np.ndarray
    angle: float  # of the lower arm about LAF→LAR, from its drawn position
    rack: float


@dataclass(frozen=True, eq=False)
class Rates:
    """Of a pose: velocity of the knuckle's point at the origin, its angular velocity, turn rate of the lower arm."""

    velocity: np.ndarray
    spin: np.ndarray
    arm: float

    def at(self, point: np.ndarray) -> np.ndarray:
        """Velocity of the knuckle's point that is now at `point`."""
        moved: np.ndarray = self.velocity + cross(self.spin, point)
        return moved


def double_wishbone(
    points: Mapping[str, Sequence[float]],
    camber: float = 0.0,
    toe_in: float = 0.0,
    spring_on: Literal["arm", "knuckle"] = "arm",
) -> Suspension:
    """Left double wishbone from its hardpoints; camber and toe-in (rad) the wheel has as drawn."""
    at = _checked(points, WISHBONE_POINTS)
    _arm(at, "LAF", "LAR", "LBJ")
    _arm(at, "UAF", "UAR", "UBJ")
    if collinear(at["LBJ"], at["UBJ"], at["TRO"]):
        raise HardpointError("LBJ, UBJ, TRO: on one line, nothing holds the knuckle's steer; move TRO off the kingpin")
    bend = circle_branch(at["UBJ"], at["UAF"], _axis(at["UAF"], at["UAR"]), at["LBJ"])
    if bend == 0.0:
        raise HardpointError("UBJ: upper arm and knuckle are stretched out (dead centre); move UBJ or UAF, UAR")
    side = plane_side(at["TRO"], (at["LBJ"], at["UBJ"], at["TRI"]))
    if side == 0.0:
        raise HardpointError("TRO: tie rod in the plane of the kingpin (dead centre); move TRO forward or backward")
    return Suspension("double_wishbone", at, _reference_axle(camber, toe_in), spring_on, (bend, side))


def macpherson(
    points: Mapping[str, Sequence[float]],
    camber: float = 0.0,
    toe_in: float = 0.0,
    spring_on: Literal["arm", "knuckle"] = "knuckle",
) -> Suspension:
    """Left MacPherson strut from its hardpoints; camber and toe-in (rad) the wheel has as drawn."""
    at = _checked(points, MACPHERSON_POINTS)
    _arm(at, "LAF", "LAR", "LBJ")
    if math.dist(at["CLAMP"], at["TOP"]) < 1e-6:
        raise HardpointError("CLAMP: coincides with TOP; it must be another point of the strut's axis")
    if collinear(at["LBJ"], at["TOP"], at["TRO"]):
        raise HardpointError("LBJ, TOP, TRO: on one line, nothing holds the knuckle's steer; move TRO off the kingpin")
    bend = circle_branch(at["TRO"], at["LBJ"], _axis(at["LBJ"], at["TOP"]), at["TRI"])
    if bend == 0.0:
        raise HardpointError("TRO: toe link in the plane of the kingpin (dead centre); move TRO forward or backward")
    # the strut's length is the larger root while TOP lies beyond the foot of the perpendicular from LBJ
    along = _axis(at["CLAMP"], at["TOP"])
    reach = float(along @ (at["TOP"] - at["LBJ"]))
    if abs(reach) < 1e-6:
        raise HardpointError("TOP: level with LBJ along the strut (dead centre); move TOP up or LBJ down")
    return Suspension("macpherson", at, _reference_axle(camber, toe_in), spring_on, (bend, math.copysign(1.0, reach)))


def pose(suspension: Suspension, angle: float, rack: float = 0.0) -> Pose:
    """The position at an angle of the lower arm; `Unreachable` or `HardpointError` if the links do not meet."""
    reference = suspension.points
    at = dict(reference)
    hinge = _axis(reference["LAF"], reference["LAR"])
    at["LBJ"] = about(reference["LBJ"], reference["LAF"], hinge, angle)
    at["TRI"] = reference["TRI"] + rack * Y
    place = _wishbone_knuckle if suspension.kind == "double_wishbone" else _strut_knuckle
    rotation = place(suspension, at)
    for name in ("WC", "CLAMP"):
        if name in reference:
            at[name] = at["LBJ"] + rotation @ (reference[name] - reference["LBJ"])
    if suspension.spring_on == "arm":
        at["SPL"] = about(reference["SPL"], reference["LAF"], hinge, angle)
    else:
        at["SPL"] = at["LBJ"] + rotation @ (reference["SPL"] - reference["LBJ"])
    return Pose(at, rotation, rotation @ suspension.axle, angle, rack)


def rates(suspension: Suspension, at: Pose, travel_rate: float = 1.0, rack_rate: float = 0.0) -> Rates:
    """Motion of the knuckle when the wheel centre rises and the rack moves left at the given rates."""
    p = at.points
    matrix = np.empty((6, 6))
    right = np.zeros(6)
    links = [("LBJ", "LAF"), ("LBJ", "LAR"), ("TRO", "TRI")]
    if suspension.kind == "double_wishbone":
        links += [("UBJ", "UAF"), ("UBJ", "UAR")]
    for row, (outer, inner) in enumerate(links):
        matrix[row] = _row(p[outer], _axis(p[inner], p[outer]))
    right[2] = rack_rate * float(_axis(p["TRI"], p["TRO"]) @ Y)
    if suspension.kind == "macpherson":
        # the knuckle's point at TOP can only slide along the strut
        along = _axis(p["CLAMP"], p["TOP"])
        first = cross(along, X)
        first = first / np.linalg.norm(first)
        matrix[3], matrix[4] = _row(p["TOP"], first), _row(p["TOP"], cross(along, first))
    matrix[5], right[5] = _row(p["WC"], Z), travel_rate
    try:
        found = np.linalg.solve(matrix, right)
    except np.linalg.LinAlgError:
        raise HardpointError("WC: the wheel cannot move up and down here; the links lock it") from None
    velocity, spin = found[:3], found[3:]
    lever = cross(_axis(p["LAF"], p["LAR"]), p["LBJ"] - p["LAF"])
    arm = float(lever @ (velocity + cross(spin, p["LBJ"])) / (lever @ lever))
    return Rates(velocity, spin, arm)


def at_travel(suspension: Suspension, travel: float, rack: float = 0.0) -> Pose:
    """The position at which the wheel centre has risen by `travel`, m, with the rack `rack` to the left."""
    target = float(suspension.points["WC"][2]) + travel
    angle, step = 0.0, math.inf
    try:
        now = pose(suspension, 0.0, rack)
        arm = way = rates(suspension, now).arm
    except (Unreachable, HardpointError):
        raise HardpointError(
            f"TRI: the tie rod cannot follow the rack to {rack:+.4f} m; a shorter way is right"
        ) from None
    for _ in range(60):
        error = target - float(now.points["WC"][2])
        arm = rates(suspension, now).arm
        last, step = abs(step), error * arm
        # at the end Newton only stirs the last digits: stop when it gains nothing more
        if abs(error) < 1e-16 or (abs(error) < 1e-13 and abs(step) >= 0.5 * last):
            break
        step = max(-0.2, min(0.2, step))
        for _ in range(40):
            try:
                now = pose(suspension, angle + step, rack)
                break
            except Unreachable:
                step *= 0.5
        else:
            raise _out_of_reach(suspension, travel, rack)
        angle += step
    if abs(target - float(now.points["WC"][2])) > 1e-12 or arm * way <= 0.0:
        raise _out_of_reach(suspension, travel, rack)
    return now


def reach(suspension: Suspension, rack: float = 0.0) -> tuple[float, float]:
    """Lowest and highest wheel travel the links allow, found by turning the arm in steps of 0.005 rad."""
    reference = float(suspension.points["WC"][2])
    ends = []
    for step in (-0.005, 0.005):
        angle, heights = 0.0, [float(pose(suspension, 0.0, rack).points["WC"][2])]
        while abs(angle) < math.pi:
            angle += step
            try:
                heights.append(float(pose(suspension, angle, rack).points["WC"][2]))
            except Unreachable:
                break
            if len(heights) > 2 and (heights[-1] - heights[-2]) * (heights[1] - heights[0]) <= 0.0:
                break
        ends += [max(heights) - reference, min(heights) - reference]
    return min(ends), max(ends)


def _wishbone_knuckle(suspension: Suspension, at: dict[str, np.ndarray]) -> np.ndarray:
    """Finds UBJ and TRO for the moved LBJ and TRI; the turn of the knuckle."""
    points = suspension.points
    bend, side = suspension.branches
    hinge = _axis(points["UAF"], points["UAR"])
    kingpin = math.dist(points["UBJ"], points["LBJ"])
    psi = circle_angle(points["UBJ"], points["UAF"], hinge, at["LBJ"], kingpin, bend)
    at["UBJ"] = about(points["UBJ"], points["UAF"], hinge, psi)
    radii = tuple(math.dist(points["TRO"], points[name]) for name in ("LBJ", "UBJ", "TRI"))
    at["TRO"] = three_spheres((at["LBJ"], at["UBJ"], at["TRI"]), radii, side)
    rotation: np.ndarray = triad(at["LBJ"], at["UBJ"], at["TRO"]) @ triad(points["LBJ"], points["UBJ"], points["TRO"]).T
    return rotation


def _strut_knuckle(suspension: Suspension, at: dict[str, np.ndarray]) -> np.ndarray:
    """Finds TRO for the moved LBJ and TRI; the turn of the knuckle."""
    points = suspension.points
    bend, beyond = suspension.branches
    along = _axis(points["CLAMP"], points["TOP"])
    clamp = points["CLAMP"] - points["LBJ"]
    # |clamp + s along| = |TOP − LBJ|: s along the strut's axis, in the knuckle
    half = float(along @ clamp)
    root = half**2 - float(clamp @ clamp) + math.dist(at["TOP"], at["LBJ"]) ** 2
    if root < 0.0:
        raise Unreachable(-root / float(clamp @ clamp))
    arm = clamp + (beyond * math.sqrt(root) - half) * along
    # first bring the line from LBJ to the strut's point at TOP into its place by the shortest turn, then about it
    old, new = arm / np.linalg.norm(arm), _axis(at["LBJ"], at["TOP"])
    normal = cross(old, new)
    sine = float(np.linalg.norm(normal))
    first = about_axis(normal / sine, math.atan2(sine, float(old @ new))) if sine > 0.0 else np.eye(3)
    start = at["LBJ"] + first @ (points["TRO"] - points["LBJ"])
    rod = math.dist(points["TRO"], points["TRI"])
    psi = circle_angle(start, at["LBJ"], new, at["TRI"], rod, bend)
    rotation: np.ndarray = about_axis(new, psi) @ first
    at["TRO"] = at["LBJ"] + rotation @ (points["TRO"] - points["LBJ"])
    return rotation


def _row(point: np.ndarray, normal: np.ndarray) -> np.ndarray:
    """Coefficients of (velocity, spin) in the speed of the knuckle's point along `normal`."""
    return np.concatenate([normal, cross(point, normal)])


def _axis(start: np.ndarray, end: np.ndarray) -> np.ndarray:
    direction: np.ndarray = (end - start) / math.dist(start, end)
    return direction


def _reference_axle(camber: float, toe_in: float) -> np.ndarray:
    """Left spin axis with the top leaning outwards by `camber` and the front turned inwards by `toe_in`."""
    axle: np.ndarray = about_axis(Z, -toe_in) @ np.array([0.0, math.cos(camber), -math.sin(camber)])
    return axle


def _checked(points: Mapping[str, Sequence[float]], names: tuple[str, ...]) -> dict[str, np.ndarray]:
    missing = [name for name in names if name not in points]
    if missing:
        raise HardpointError(f"{', '.join(missing)}: missing; needed are {', '.join(names)}")
    at = {}
    for name in names:
        value = np.array(points[name], float)
        if value.shape != (3,) or not np.all(np.isfinite(value)):
            raise HardpointError(f"{name}: {points[name]!r}; right are three finite numbers x, y, z in m")
        at[name] = value
    if math.dist(at["SPL"], at["SPU"]) < 1e-6:
        raise HardpointError("SPL: coincides with SPU; the spring needs a length")
    if math.dist(at["TRO"], at["TRI"]) < 1e-6:
        raise HardpointError("TRO: coincides with TRI; the tie rod needs a length")
    if at["WC"][1] <= 0.0:
        raise HardpointError(f"WC: y = {at['WC'][1]:g} m; hardpoints are of the left side, y > 0")
    return at


def _arm(at: Mapping[str, np.ndarray], front: str, rear: str, ball: str) -> None:
    if math.dist(at[front], at[rear]) < 1e-6:
        raise HardpointError(f"{front}: coincides with {rear}; the arm's hinge needs two points")
    if collinear(at[front], at[rear], at[ball]) or math.dist(at[front], at[ball]) < 1e-6:
        raise HardpointError(f"{ball}: on the line {front}-{rear}, the arm cannot move it; it must lie off its hinge")


def _out_of_reach(suspension: Suspension, travel: float, rack: float) -> HardpointError:
    low, high = reach(suspension, rack)
    held = "UBJ, TRO" if suspension.kind == "double_wishbone" else "TRO, TOP"
    return HardpointError(
        f"WC: travel {travel:+.4f} m is out of reach of LBJ, {held}; the links allow {low:+.4f} to {high:+.4f} m"
    )
