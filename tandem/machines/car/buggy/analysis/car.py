"""The figures linear theory needs: masses, rates at the wheel, kinematic gains, tyre slopes; and how the car stands.

`build` makes them from the parameter table of the buggy and its two suspensions. The tyre enters as functions of the
load of one tyre, so any tyre model (or a number times load) can be asked.

Axes ISO 8855, x from the front axle (so the rear axle is at −wheelbase), heights above the road. `Ixz` is the element
of the inertia tensor, −∫ x z dm: negative where the rear is low and the front is high.

Unsprung lumps. A part between chassis and wheel moves with both: `share` is its rise per rise of the wheel at a
standing chassis. Wheel and knuckle have 1, the middle of an arm about ½, a strut's rod hung from the chassis 0.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tandem.machines.car.buggy.analysis.corner import Corner, corner, wheel_force, wheel_rate
from tandem.machines.car.buggy.analysis.geometry import HardpointError
from tandem.machines.car.buggy.analysis.suspension import Suspension, double_wishbone, macpherson

GRAVITY = 9.81
SHARES = {"upper_arm": 0.5, "lower_arm": 0.5, "strut_rod": 0.0}  # all else moves with the wheel

Curve = Callable[[float], float]


def none(load: float) -> float:
    """A slope that is zero at every load."""
    return 0.0


@dataclass(frozen=True)
class Tyre:
    """One tyre: slopes at zero slip as functions of its load, N; a rigid one has `stiffness` inf."""

    cornering: Curve  # lateral force per slip angle, N/rad, positive
    camber: Curve = none  # force towards the lean per inclination, N/rad
    aligning: Curve = none  # moment that reduces slip, per slip angle, N m/rad
    stiffness: float = math.inf  # vertical, N/m
    damping: float = 0.0  # vertical, N s/m
    relaxation: float = 0.0  # length over which the side force follows slip, m


@dataclass(frozen=True)
class Axle:
    """Two equal wheels. Rates and gains are of one wheel, by its travel; `unsprung` is of one side."""

    x: float
    track: float
    radius: float  # height of the wheel centres
    unsprung: tuple[tuple[float, float], ...]  # (mass, share)
    stiffness: float  # at the wheel, N/m
    damping: float  # at the wheel, N s/m
    roll_centre: float
    camber_gain: float
    toe_in_gain: float
    tyre: Tyre
    anti_roll: float = 0.0  # of a bar, N m/rad of body roll
    wheel_inertia: float = 0.0  # of one wheel about its axle
    wheel_transverse: float = 0.0  # about a diameter

    @property
    def mass(self) -> float:
        """Unsprung, both sides."""
        return 2.0 * sum(m for m, _ in self.unsprung)

    @property
    def roll_stiffness(self) -> float:
        return 0.5 * self.stiffness * self.track**2 + self.anti_roll

    @property
    def roll_damping(self) -> float:
        return 0.5 * self.damping * self.track**2

    @property
    def roll_steer(self) -> float:
        """Mean steer to the left per roll of the body over this axle: toe-in in bump steers into the turn."""
        return 0.5 * self.toe_in_gain * self.track

    @property
    def roll_camber(self) -> float:
        """Lean of the wheels over the chassis per roll of the body over this axle; −1 keeps them upright."""
        return 0.5 * self.camber_gain * self.track


@dataclass(frozen=True)
class Car:
    sprung_mass: float
    sprung_x: float
    sprung_height: float
    Ixx: float
    Iyy: float
    Izz: float
    Ixz: float
    front: Axle
    rear: Axle
    steering_ratio: float = 1.0  # hand wheel per mean road wheel angle, at the middle
    drag: float = 0.0  # ½ ρ cd A, N s²/m²
    rolling: float = 0.0  # rolling resistance per load

    @property
    def axles(self) -> tuple[Axle, Axle]:
        return self.front, self.rear

    @property
    def wheelbase(self) -> float:
        return self.front.x - self.rear.x

    @property
    def mass(self) -> float:
        return self.sprung_mass + self.front.mass + self.rear.mass

    @property
    def cg_x(self) -> float:
        return (self.sprung_mass * self.sprung_x + sum(a.mass * a.x for a in self.axles)) / self.mass

    @property
    def cg_height(self) -> float:
        return (self.sprung_mass * self.sprung_height + sum(a.mass * a.radius for a in self.axles)) / self.mass

    @property
    def sprung_shares(self) -> tuple[float, float]:
        """Parts of the sprung mass over the axles."""
        front = (self.sprung_x - self.rear.x) / self.wheelbase
        return front, 1.0 - front

    @property
    def loads(self) -> tuple[float, float]:
        """Static loads of the axles, N."""
        front = (self.cg_x - self.rear.x) / self.wheelbase
        return self.mass * GRAVITY * front, self.mass * GRAVITY * (1.0 - front)

    @property
    def roll_arm(self) -> float:
        """Height of the sprung centre of gravity over the roll axis."""
        return self.sprung_height - sum(s * a.roll_centre for s, a in zip(self.sprung_shares, self.axles, strict=True))

    @property
    def yaw_inertia(self) -> float:
        """Of the whole car about its centre of gravity."""
        total = self.Izz + self.sprung_mass * (self.sprung_x - self.cg_x) ** 2
        for a in self.axles:
            total += a.mass * ((a.x - self.cg_x) ** 2 + 0.25 * a.track**2) + 2.0 * a.wheel_transverse
        return total


@dataclass(frozen=True)
class Standing:
    """How one wheel stands: loads, and whether spring and tyre are made for them."""

    load: float  # of the tyre, N
    spring_force: float  # compression force of the spring as drawn, N
    spring_force_needed: float  # that would carry the car as drawn, N
    free_length_needed: float  # of the spring, to stand as drawn, m
    travel: float  # at which the given spring carries the car, m; 0 is as drawn
    reference_radius: float
    radius_from_load: float  # free radius less load over tyre stiffness, m


def suspensions(parameters: Mapping[str, Any]) -> tuple[Suspension, Suspension]:
    """Front and rear, from the hardpoints in the parameter table, with camber and toe-in as drawn if it has any."""
    front, rear = parameters["front_double_wishbone"], parameters["rear_macpherson"]
    alignment = parameters.get("alignment", {"front": (0.0, 0.0), "rear": (0.0, 0.0)})
    return double_wishbone(front, *alignment["front"]), macpherson(rear, *alignment["rear"])


def tyre_of(parameters: Mapping[str, Any], axle: str) -> Mapping[str, float]:
    """Radii and stiffness of an axle's own tyre; of the one for both, where there is one."""
    own: Mapping[str, float] = parameters.get(f"tyre_{axle}", parameters["tyre"])
    return own


def lumps(bodies: Mapping[str, Mapping[str, float]]) -> tuple[tuple[float, float], ...]:
    """(mass, share) of each; a body that knows its own `share` goes before `SHARES`."""
    return tuple((float(body["m"]), body.get("share", SHARES.get(name, 1.0))) for name, body in bodies.items())


def standing(parameters: Mapping[str, Any]) -> tuple[Standing, Standing]:
    """One front and one rear wheel of the car at rest on a level road."""
    base, sprung = parameters["wheelbase"], parameters["masses"]
    shares = 1.0 + sprung["sprung_cg"][0] / base, -sprung["sprung_cg"][0] / base
    out = []
    for suspension, share, name in zip(suspensions(parameters), shares, ("front", "rear"), strict=True):
        parts = lumps(parameters[f"corner_bodies_{name}"])
        carried = 0.5 * sprung["sprung"] * share * GRAVITY
        load = carried + sum(m for m, _ in parts) * GRAVITY
        # what hangs between chassis and wheel is carried by the spring as far as it does not move with the wheel
        at_wheel = carried + sum(m * (1.0 - s) for m, s in parts) * GRAVITY
        spring, tyre = parameters["spring_damper"][name], tyre_of(parameters, name)
        reference = corner(suspension, radius=tyre["loaded_radius_design"])
        force = at_wheel / -reference.motion_ratio
        out.append(
            Standing(
                load=load,
                spring_force=spring["k"] * (spring["free_length"] - reference.spring_length),
                spring_force_needed=force,
                free_length_needed=reference.spring_length + force / spring["k"],
                travel=_settle(suspension, spring["k"], spring["free_length"], at_wheel),
                reference_radius=float(suspension.points["WC"][2]),
                radius_from_load=tyre["free_radius"] - load / tyre["vertical_stiffness"],
            )
        )
    return out[0], out[1]


def build(
    parameters: Mapping[str, Any],
    front_tyre: Tyre,
    rear_tyre: Tyre,
    settled: bool = False,
) -> Car:
    """The car as drawn, or `settled` on its springs and tyres as the given free lengths and radii have it stand."""
    masses, steering, aero = parameters["masses"], parameters["steering"], parameters["aero"]
    rest = standing(parameters)
    pair = suspensions(parameters)
    found: list[tuple[Axle, Corner]] = []
    for suspension, stand, name, tyre in zip(pair, rest, ("front", "rear"), (front_tyre, rear_tyre), strict=True):
        radius = stand.radius_from_load if settled else stand.reference_radius
        at = corner(suspension, travel=stand.travel if settled else 0.0, radius=radius)
        spring = parameters["spring_damper"][name]
        force = spring["k"] * (spring["free_length"] - at.spring_length)
        wheel = parameters[f"corner_bodies_{name}"]["wheel+hub+disc"]
        axle = Axle(
            x=float(suspension.points["WC"][0]) + at.forward,
            track=2.0 * at.half_track,
            radius=radius,
            unsprung=lumps(parameters[f"corner_bodies_{name}"]),
            stiffness=wheel_rate(at, spring["k"], force),
            damping=spring["c"] * at.motion_ratio**2,
            roll_centre=at.roll_centre,
            camber_gain=at.camber_gain,
            toe_in_gain=at.toe_in_gain,
            tyre=tyre,
            wheel_inertia=wheel["Iyy"],
            wheel_transverse=wheel["Ixx=Izz"],
        )
        found.append((axle, at))
    (front, front_corner), (rear, _) = found
    inertia = masses["sprung_inertia"]
    # body height over its wheels: how far they have sunk into their arches, and how much the tyres are pressed
    rise = 0.0
    if settled:
        ends = [stand.radius_from_load - stand.reference_radius - stand.travel for stand in rest]
        share = 1.0 + masses["sprung_cg"][0] / parameters["wheelbase"]
        rise = ends[0] * share + ends[1] * (1.0 - share)
    return Car(
        sprung_mass=masses["sprung"],
        sprung_x=masses["sprung_cg"][0],
        sprung_height=masses["sprung_cg"][2] + rise,
        Ixx=inertia["Ixx"],
        Iyy=inertia["Iyy"],
        Izz=inertia["Izz"],
        Ixz=inertia["Ixz"],
        front=front,
        rear=rear,
        steering_ratio=2.0 * math.pi / (steering["rack_travel_per_rev"] * abs(front_corner.steer_per_rack)),
        drag=0.5 * aero["rho"] * aero["CdA"],
        rolling=parameters["rolling_resistance"],
    )


def _settle(suspension: Suspension, stiffness: float, free_length: float, at_wheel: float) -> float:
    """Travel at which the spring pushes the wheel down with `at_wheel`, N."""
    travel = 0.0
    for _ in range(50):
        at = corner(suspension, travel=travel)
        force = stiffness * (free_length - at.spring_length)
        step = (at_wheel - wheel_force(at, force)) / wheel_rate(at, stiffness, force)
        travel += max(-0.02, min(0.02, step))
        if abs(step) < 1e-13:
            return travel
    raise HardpointError(f"SPL: the spring (free length {free_length:g} m) never carries {at_wheel:.0f} N at the wheel")
