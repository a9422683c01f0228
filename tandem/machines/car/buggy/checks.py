"""What the figures of a vehicle file must fulfil together, where each by itself is within its limits.

Every finding names the parameter or the point, its value, and what would be right; the caller puts the file before
it. All of it is reported before anything is built, so nothing has to be read out of a mechanism that cannot be made.
"""

import itertools
import math
from collections.abc import Iterator

import numpy as np

from tandem.machines.car.buggy.analysis.corner import corner, spring_length, spring_rate
from tandem.machines.car.buggy.analysis.geometry import HardpointError
from tandem.machines.car.buggy.analysis.suspension import Suspension, at_travel, double_wishbone, macpherson, rates
from tandem.machines.car.buggy.bodies import Points

GRAVITY = 9.81
AT_SPRING, AT_WHEEL = 1, 2  # of stops_at
_REFERENCE_HEIGHTS = 0.7, 1.1  # of the wheel centres as drawn, in radii of the tyre
_PUSHED = {  # what the spring carries of the parts between chassis and wheel, of one side; an arm is a triangle
    "front": (("front_upper_arm_mass", 2.0 / 3.0), ("front_lower_arm_mass", 2.0 / 3.0)),
    "rear": (("rear_arm_mass", 2.0 / 3.0), ("strut_rod_mass", 1.0)),
}


# what cars have, widely: of the steering axis, from LBJ to UBJ or TOP, beside the wheel as drawn
_USUAL = {
    "ahead": (-0.08, 0.08, "m", "wheel centre ahead of the steering axis at its height"),
    "beside": (-0.03, 0.2, "m", "wheel centre outside the steering axis at its height"),
    "scrub": (-0.1, 0.12, "m", "scrub radius"),
    "trail": (-0.08, 0.12, "m", "trail"),
    "caster": (-8.0, 16.0, "deg", "caster"),
    "kingpin": (-5.0, 22.0, "deg", "kingpin inclination"),
}
_MOST_LEAN = 45.0  # deg, of a steering axis


class UnusualGeometry(UserWarning):
    """Hardpoints that make a mechanism, but not what cars have."""


class Named:
    """Parameters as messages call them: by where their values come from."""

    def __init__(self, p: dict[str, float], changed: dict[str, float]):
        self.p, self.changed = p, changed

    def __call__(self, name: str) -> str:
        return f"{'sim.' * (name in self.changed)}parameters.{name} = {self.p[name]:g}"


def findings(
    p: dict[str, float], front: Points, rear: Points, radii: tuple[float, float], changed: dict[str, float]
) -> list[str]:
    """Everything that is wrong; what needs a working suspension is asked only if there is one.

    `radii` are those of the unloaded tyres, front and rear.
    """
    named = Named(p, changed)
    wrong = [*_orders(p, named), *_inertias(p, named), *_sides(front, rear), *_heights(front, rear, radii)]
    pair = {}
    for axle, points in (("front", front), ("rear", rear)):
        try:
            pair[axle] = suspension(p, axle, points)
            wrong += _steering_axis(axle, points, radii[axle == "rear"])
            _travels(p, axle, pair[axle], named)
        except HardpointError as error:
            wrong.append(hardpoint(axle, points, error))
    return wrong or [*_loads(p, front, rear, named), *_springs(p, pair, named)]


def unusual(p: dict[str, float], front: Points, rear: Points) -> list[str]:
    """What of a sound car is far from what cars have: most likely a hardpoint that was moved alone, or mistyped."""
    lines = []
    for axle, points in (("front", front), ("rear", rear)):
        at = corner(suspension(p, axle, points), radius=points["WC"][2])
        ahead, beside, _ = _off_axis(points)
        found = {
            "ahead": ahead, "beside": beside, "scrub": at.scrub, "trail": at.trail, "caster": math.degrees(at.caster),
            "kingpin": math.degrees(at.kingpin),
        }  # fmt: skip
        off = [
            f"{what} {found[name]:.3g} {unit} (usual {low:g} to {high:g})"
            for name, (low, high, unit, what) in _USUAL.items()
            if not low <= found[name] <= high
        ]
        if off:
            top = _top(points)
            ends = ", ".join(f"{axle}.{n} = {points[n].tolist()}" for n in ("WC", "LBJ", top))
            lines.append(f"{ends}: unusual for a car: {'; '.join(off)}")
    return lines


def _top(points: Points) -> str:
    return "UBJ" if "UBJ" in points else "TOP"


def _off_axis(points: Points) -> tuple[float, float, float]:
    """How far the wheel centre is ahead of the steering axis and outside it, at its own height; and from it."""
    low, pin = points["LBJ"], points[_top(points)] - points["LBJ"]
    off = points["WC"] - low
    at_height = off - pin * (off[2] / pin[2]) if pin[2] else off
    distance = float(np.linalg.norm(np.cross(off, pin)) / max(float(np.linalg.norm(pin)), 1e-9))
    return float(at_height[0]), float(at_height[1]), distance


def _steering_axis(axle: str, points: Points, radius: float) -> Iterator[str]:
    """Of a wheel that no hub can hold."""
    top = _top(points)
    ends = f"{axle}.LBJ = {points['LBJ'].tolist()}, {axle}.{top} = {points[top].tolist()}"
    pin = points[top] - points["LBJ"]
    lean = math.degrees(math.atan2(math.hypot(pin[0], pin[1]), pin[2]))
    if lean > _MOST_LEAN:
        yield f"{ends}: the steering axis leans by {lean:.0f} deg; it must be within {_MOST_LEAN:g} deg of upright"
    elif (distance := _off_axis(points)[2]) > radius:
        yield (
            f"{axle}.WC = {points['WC'].tolist()}: the wheel centre is {distance:.3f} m from the steering axis"
            f" ({ends}); it must be within the radius of the tyre, {radius:g} m"
        )


def suspension(p: dict[str, float], axle: str, points: Points) -> Suspension:
    make = double_wishbone if axle == "front" else macpherson
    return make({k: v.tolist() for k, v in points.items()}, p[f"{axle}_camber"], p[f"{axle}_toe"])


def stop_travels(p: dict[str, float], of: Suspension) -> tuple[float, float]:
    """Wheel travel, up and down, where the stops begin."""
    travel = p["stop_travel"]
    if round(p["stops_at"]) != AT_SPRING:
        return travel, -travel
    reference, out = spring_length(at_travel(of, 0.0)), []
    for pressed in (travel, -travel):
        wheel = pressed
        for _ in range(20):
            at = at_travel(of, wheel)
            off = (reference - pressed - spring_length(at)) / spring_rate(of, at, rates(of, at))
            wheel += off
            if abs(off) < 1e-12:
                break
        out.append(wheel)
    return out[0], out[1]


def hardpoint(axle: str, points: Points, error: HardpointError) -> str:
    """The error with the axle and the coordinates of the points it begins with."""
    names, _, problem = str(error).partition(": ")
    if not all(name in points for name in names.split(", ")):
        return f"{axle}: {error}"
    return f"{', '.join(f'{axle}.{n} = {points[n].tolist()}' for n in names.split(', '))}: {problem}"


def _inertias(p: dict[str, float], named: Named) -> Iterator[str]:
    tensor = np.diag([p["sprung_ixx"], p["sprung_iyy"], p["sprung_izz"]])
    tensor[0, 2] = tensor[2, 0] = p["sprung_ixz"]
    low, middle, high = np.linalg.eigvalsh(tensor)
    moments = ", ".join(named(f"sprung_{i}") for i in ("ixx", "iyy", "izz", "ixz"))
    if low <= 0.0:
        most = np.sqrt(p["sprung_ixx"] * p["sprung_izz"])
        yield f"{moments}: no mass has a principal moment of {low:.4g} kg m2; sprung_ixz must be within ±{most:.4g}"
    elif high > low + middle:
        yield (
            f"{moments}: no mass has principal moments {low:.4g}, {middle:.4g} and {high:.4g} kg m2;"
            f" the largest must not exceed the sum of the others, {low + middle:.4g}"
        )
    if p["wheel_spin_inertia"] > 2.0 * p["wheel_transverse_inertia"]:
        yield (
            f"{named('wheel_spin_inertia')}: no wheel has more about its axle than twice that about a diameter;"
            f" with wheel_transverse_inertia = {p['wheel_transverse_inertia']:g} it must be at most"
            f" {2.0 * p['wheel_transverse_inertia']:g} kg m2"
        )


def _orders(p: dict[str, float], named: Named) -> Iterator[str]:
    """Figures that must follow one another."""
    chains = (
        ("gear_third", "gear_second", "gear_first"),
        ("abs_slip_low", "abs_slip_high"),
        ("shift_down_released_rpm", "shift_up_released_rpm"),
        ("shift_down_full_rpm", "shift_up_full_rpm"),
    )
    for low, high in (pair for chain in chains for pair in itertools.pairwise(chain)):
        if p[low] >= p[high]:
            yield f"{named(low)}: must be below {named(high)}"


def _sides(front: Points, rear: Points) -> Iterator[str]:
    for axle, points in (("front", front), ("rear", rear)):
        wheel, hinge = points["WC"], max(points["LAF"][1], points["LAR"][1])
        if wheel[1] <= hinge:
            yield (
                f"{axle}.WC = {wheel.tolist()}: the wheel must be outside its arm, with y above {hinge:g} m"
                " of LAF and LAR"
            )
    joints = (("front", front, "UAF", "UBJ"), ("front", front, "UAR", "UBJ"), ("front", front, "TRI", "TRO"),
              ("rear", rear, "TRI", "TRO"))  # fmt: skip
    for axle, points, inner, outer in joints:
        if points[inner][1] >= points[outer][1]:
            yield (
                f"{axle}.{inner} = {points[inner].tolist()}: must be inside {outer}, with y below"
                f" {points[outer][1]:g} m"
            )
    if rear["WC"][0] >= front["WC"][0]:
        yield (
            f"rear.WC = {rear['WC'].tolist()}: the rear wheels must be behind the front ones,"
            f" with x below {front['WC'][0]:g} m of front.WC"
        )


def _heights(front: Points, rear: Points, radii: tuple[float, float]) -> Iterator[str]:
    for axle, points, radius in (("front", front, radii[0]), ("rear", rear, radii[1])):
        low, high = (share * radius for share in _REFERENCE_HEIGHTS)
        if not low <= points["WC"][2] <= high:
            yield (
                f"{axle}.WC = {points['WC'].tolist()}: z must be the height of the wheel centre above the ground, for"
                f" tyre_{axle} of radius {radius:g} m from {low:.3f} to {high:.3f} m"
            )


def _travels(p: dict[str, float], axle: str, of: Suspension, named: Named) -> None:
    """Whether the wheel reaches its stops, at every rack it can meet there."""
    limit = p["rack_limit"] if axle == "front" else 0.0
    for rack in sorted({0.0, limit, -limit}, key=abs):
        for which in range(2):
            try:
                at_travel(of, stop_travels(p, of)[which], rack)
            except HardpointError as error:
                keys = named("stop_travel") + (f", {named('rack_limit')}" if rack else "")
                raise HardpointError(f"{error} (asked for by {keys})") from None


def _loads(p: dict[str, float], front: Points, rear: Points, named: Named) -> Iterator[str]:
    ends = rear["WC"][0], front["WC"][0]
    if not ends[0] < p["sprung_cg_x"] < ends[1]:
        lifted = "rear" if p["sprung_cg_x"] >= ends[1] else "front"
        yield (
            f"{named('sprung_cg_x')}: the {lifted} springs would carry nothing; it must be between the axles,"
            f" {ends[0]:g} to {ends[1]:g} m"
        )
    half = min(front["WC"][1], rear["WC"][1])
    if abs(p["sprung_cg_y"]) >= half:
        yield f"{named('sprung_cg_y')}: the car would fall over; it must be between the wheels, within ±{half:g} m"


def carried(p: dict[str, float], axle: str, share: float) -> float:
    """N at one wheel, of what its spring carries; `share` of the sprung mass is on the front axle."""
    mass = 0.5 * p["sprung_mass"] * (share if axle == "front" else 1.0 - share)
    return GRAVITY * (mass + sum(part * p[name] for name, part in _PUSHED[axle]))


def _springs(p: dict[str, float], pair: dict[str, Suspension], named: Named) -> Iterator[str]:
    """Whether each spring carries the car somewhere between its stops."""
    x = {axle: float(of.points["WC"][0]) for axle, of in pair.items()}
    share = (p["sprung_cg_x"] - x["rear"]) / (x["front"] - x["rear"])
    if not 0.0 < share < 1.0:
        return
    for axle, of in pair.items():
        needed = carried(p, axle, share)
        rate, free = p[f"{axle}_spring_rate"], p[f"{axle}_spring_length"]
        pushes, lengths = [], []
        for travel in stop_travels(p, of):
            at = at_travel(of, travel)
            ratio, length = spring_rate(of, at, rates(of, at)), spring_length(at)
            if ratio >= 0.0:
                ends = ", ".join(f"{axle}.{n} = {of.points[n].tolist()}" for n in ("SPL", "SPU"))
                yield f"{ends}: the spring must get shorter as the wheel rises; at {travel:+g} m it gets longer"
                break
            pushes.append(-ratio * rate * (free - length))
            lengths.append(length - needed / (ratio * rate))
        else:
            if not pushes[1] <= needed <= pushes[0]:
                yield (
                    f"{named(f'{axle}_spring_length')}: the car would rest on its stops: {needed:.0f} N at the wheel"
                    f" carry it, the spring gives {pushes[1]:.0f} N at the lower stop and {pushes[0]:.0f} N at the"
                    f" upper one; with {named(f'{axle}_spring_rate')} N/m a free length of {lengths[0]:.4f} to"
                    f" {lengths[1]:.4f} m is right"
                )
