"""What the buggy looks like: its suspension as it is, on a frame that follows from where the suspension is mounted.

Arms, knuckles, tie rods, rack, struts, springs and wheels are where the mechanism has them. Frame, skin, hand wheel and
pedals are drawn from the hardpoints and the wheelbase; they were not measured, and no step reads them.
"""

from dataclasses import dataclass

import numpy as np

from sim_service.contract.scene import Arrow, Bar, Lever, Point, PushPoints, Scene, Solid, Wheel, skin, usual_cameras
from tandem.machines.car.buggy.bodies import WHEELS, Car, Points, side
from tandem.multibody.natural.linear import Linear
from tandem.multibody.natural.scene import LinearFrames, place_of
from tandem.multibody.natural.system import System
from tandem.multibody.natural.tables import P

_G = 9.81
_FULL_BAR = 40.0  # a brake pedal that is down
_PEDAL = 0.45  # rad, from released to down


def scene(
    car: Car, system: System, p: dict[str, float], front: Points, rear: Points, radii: tuple[float, float], width: float
) -> "tuple[Scene, Frames]":
    """`radii` of the unloaded tyres, in front and behind, and their width."""
    frames = LinearFrames()
    bars: list[Bar] = []
    wheels, spins = [], []
    chassis = _chassis(car, system, front, rear, frames)
    for corner in car.corners:
        is_front = corner.name[0] == "f"
        at = side(front if is_front else rear, corner.name[1] == "l", car.origin)
        bars += (_front if is_front else _rear)(car, system, corner.name, at, frames)
        axle = place_of(system, corner.knuckle.along(corner.axle))
        frame = frames.add(place_of(system, corner.centre), None, axle)
        spins.append((frame, system.span(P.Q).start + system.column(f"{corner.name}.spin")))
        wheels.append(Wheel(corner.name, Point(frame), radii[0] if is_front else radii[1], width))
    wheelbase = front["WC"][0] - rear["WC"][0]
    unsprung = sum(p[f"{part}_mass"] for part in ("front_knuckle", "front_upper_arm", "front_lower_arm"))
    unsprung += sum(p[f"{part}_mass"] for part in ("rear_knuckle", "rear_arm", "strut_rod"))
    mass = p["sprung_mass"] + 4.0 * p["wheel_mass"] + 2.0 * unsprung
    points = {name: _own(car, at) for name, at in _COCKPIT.items()}
    column = np.array([-np.cos(0.45), 0.0, np.sin(0.45)])  # towards the driver
    found = Scene(
        frames=frames.count,
        bars=tuple(bars),
        wheels=tuple(wheels),
        solids=(chassis,),
        levers=(
            Lever("hand wheel", "wheel", points["hand wheel"], column, 0.175, "steering_angle", 1.0),
            Lever("throttle", "pedal", points["throttle"], np.array([0.0, -1.0, 0.0]), 0.2, "throttle", _PEDAL),
            Lever(
                "brake", "pedal", points["brake"], np.array([0.0, -1.0, 0.0]), 0.2, "brake_pressure_bar",
                _PEDAL / _FULL_BAR,
            ),
        ),
        arrows=tuple(Arrow(k, f"force_x_{w}", f"force_y_{w}", f"load_{w}") for k, w in enumerate(WHEELS)),
        size=float(wheelbase),
        cameras=usual_cameras(float(wheelbase), points["eye"]),
        load=mass * _G / 4.0,
        push=PushPoints(
            ((chassis.name, Point(chassis.frame)), *((f"wheel {wheel.name}", wheel.centre) for wheel in wheels)),
            "push_body", ("push_x", "push_y", "push_z"), ("push_roll", "push_pitch", "push_yaw"),
            "on the chassis: roll, pitch, yaw",
        ),
        ground="road",
    )  # fmt: skip
    return found, Frames(frames.pack(), chassis.frame, tuple(spins))


@dataclass(frozen=True)
class Frames:
    """Where everything is: points by the mechanism, wheels turned by their spin."""

    linear: LinearFrames
    chassis: int
    spins: tuple[tuple[int, int], ...]  # of each wheel: its frame, and where its angle is in the state

    def __call__(self, state: np.ndarray, params: np.ndarray, out: np.ndarray) -> None:
        self.linear(state, params, out)
        for frame, column in self.spins:
            left = out[frame, 2] / max(float(np.linalg.norm(out[frame, 2])), 1e-9)
            ahead = np.cross(left, out[self.chassis, 3])
            ahead /= max(float(np.linalg.norm(ahead)), 1e-9)
            up = np.cross(ahead, left)
            c, s = np.cos(state[column]), np.sin(state[column])
            out[frame, 1:] = c * ahead - s * up, left, s * ahead + c * up


_SEAT = 0.19  # m, left of the middle
_COCKPIT = {  # axes of the vehicle file
    "hand wheel": np.array([-0.82, _SEAT, 0.66]),
    "throttle": np.array([-0.42, _SEAT - 0.1, 0.42]),  # pedals hang
    "brake": np.array([-0.42, _SEAT + 0.04, 0.42]),
    "eye": np.array([-1.36, _SEAT, 1.06]),
}


def _own(car: Car, at: np.ndarray) -> np.ndarray:
    """A point in the axes of the vehicle file, in those of the chassis (as drawn they are parallel)."""
    return np.asarray(at + car.origin - car.chassis.reference_origin)


def _front(car: Car, system: System, name: str, at: Points, frames: LinearFrames) -> list[Bar]:
    def place(form: Linear) -> Point:
        return frames.point(place_of(system, form))

    def chassis(point: str) -> Point:
        return place(car.chassis.at(at[point]))

    body = car.mechanism.bodies
    nodes = car.mechanism.nodes
    upper, lower, end = (place(nodes[f"{name}.{n}"]) for n in ("UBJ", "LBJ", "TRO"))
    centre = place(body[f"{name} knuckle"].at(at["WC"]))
    seat = place(body[f"{name} lower arm"].at(at["SPL"]))
    middle = at["TRI"] * np.array([1.0, 0.0, 1.0])  # of the rack, as drawn
    inner = place(nodes["rack"] + car.chassis.along(at["TRI"] - middle))
    bars = [Bar(f"{name} upper arm", chassis(point), upper, "arm", 0.012) for point in ("UAF", "UAR")]
    bars += [Bar(f"{name} lower arm", chassis(point), lower, "arm", 0.015) for point in ("LAF", "LAR")]
    return [
        *bars,
        *_upright(name, (upper, lower, centre), end, lower),
        Bar(f"{name} tie rod", inner, end, "link", 0.009),
        Bar("rack", place(nodes["rack"]), inner, "rack", 0.014),
        Bar(f"{name} damper", seat, chassis("SPU"), "strut", 0.013),
        Bar(f"{name} spring", seat, chassis("SPU"), "spring", 0.042),
    ]


def _rear(car: Car, system: System, name: str, at: Points, frames: LinearFrames) -> list[Bar]:
    def place(form: Linear) -> Point:
        return frames.point(place_of(system, form))

    def chassis(point: str) -> Point:
        return place(car.chassis.at(at[point]))

    knuckle = car.mechanism.bodies[f"{name} knuckle"]
    nodes = car.mechanism.nodes
    lower, end = (place(nodes[f"{name}.{n}"]) for n in ("LBJ", "TRO"))
    centre, clamp, seat = (place(knuckle.at(at[n])) for n in ("WC", "CLAMP", "SPL"))
    return [
        *(Bar(f"{name} arm", chassis(point), lower, "arm", 0.015) for point in ("LAF", "LAR")),
        *_upright(name, (clamp, lower, centre), end, lower),
        Bar(f"{name} toe link", chassis("TRI"), end, "link", 0.009),
        Bar(f"{name} strut tube", clamp, seat, "upright", 0.024),
        Bar(f"{name} strut rod", seat, chassis("TOP"), "strut", 0.011),
        Bar(f"{name} spring", seat, chassis("SPU"), "spring", 0.05),
    ]


def _upright(name: str, triangle: tuple[Point, Point, Point], end: Point, lower: Point) -> list[Bar]:
    a, b, c = triangle
    pairs = ((a, b), (a, c), (b, c), (end, c), (end, lower))
    return [Bar(f"{name} knuckle", s, e, "upright", 0.013) for s, e in pairs]


def _chassis(car: Car, system: System, front: Points, rear: Points, frames: LinearFrames) -> Solid:
    w = 0.64 * front["WC"][1]  # half the width of the cockpit
    floor = min(front["LAF"][2], rear["LAF"][2])
    axle = rear["WC"][0]
    mid, back = 0.245 * axle, 0.735 * axle  # where the cockpit begins and ends
    nose, tail = front["LAF"][0] + 0.28, rear["LAR"][0] - 0.2
    points: Points = {
        "nose": np.array([nose, 0.6 * front["LAF"][1], floor + 0.05]),
        "nose top": np.array([nose, 0.6 * front["LAF"][1], front["UAF"][2] - 0.02]),
        "a": front["LAF"], "b": front["LAR"], "a top": front["UAF"], "b top": front["UAR"], "tower": front["SPU"],
        "c": np.array([mid, w, floor]), "c top": np.array([mid, w, 0.62]),
        "d": np.array([back, w, floor]), "d top": np.array([back, w, 0.58]),
        "screen": np.array([mid - 0.42, 0.82 * w, 1.24]), "hoop": np.array([back, 0.84 * w, 1.28]),
        "e": rear["LAF"], "f": rear["LAR"], "mount": rear["TOP"],
        "tail": np.array([tail, rear["LAR"][1], floor + 0.06]), "tail top": np.array([tail, rear["LAR"][1], 0.46]),
    }  # fmt: skip
    along = (
        ("nose", "a"), ("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("e", "f"), ("f", "tail"),
        ("nose top", "a top"), ("a top", "b top"), ("b top", "c top"), ("c top", "d top"), ("d top", "mount"),
        ("mount", "tail top"), ("nose", "nose top"), ("a", "a top"), ("b", "b top"), ("c", "c top"), ("d", "d top"),
        ("tail", "tail top"), ("tower", "a top"), ("tower", "b top"), ("tower", "c top"), ("c top", "screen"),
        ("screen", "hoop"), ("hoop", "d top"), ("hoop", "mount"), ("e", "mount"), ("f", "mount"),
    )  # fmt: skip
    across = (
        "nose", "nose top", "a", "b", "tower", "c", "c top", "d", "d top", "screen", "hoop", "mount", "e", "f", "tail",
        "tail top",
    )  # fmt: skip
    mirror = np.array([1.0, -1.0, 1.0])
    tubes = [[s * points[a], s * points[b]] for a, b in along for s in (np.ones(3), mirror)]
    tubes += [[points[a], mirror * points[a]] for a in across]
    shell, faces = skin(
        [
            (nose + 0.06, 0.55 * front["LAF"][1], floor + 0.07, front["UAF"][2] - 0.05),
            (0.0, 0.8 * front["LAF"][1], floor + 0.01, front["UAF"][2] + 0.08),
            (mid, 0.97 * w, floor, 0.61),
            (mid - 0.3, 0.97 * w, floor, 0.56),
            (back, 0.97 * w, floor, 0.56),
            (axle, 0.95 * rear["LAF"][1], floor + 0.02, 0.56),
            (tail - 0.02, 0.9 * rear["LAR"][1], floor + 0.08, 0.45),
        ]
    )
    own = [_own(car, part) for part in (np.array(tubes), shell)]
    ahead, left, up = (place_of(system, car.mechanism.nodes[n]) for n in ("ahead", "left", "up"))
    low, high = own[0].min(axis=(0, 1)), own[0].max(axis=(0, 1))
    frame = frames.add(place_of(system, car.chassis.origin), ahead, left, up)
    return Solid("chassis", frame, low, high, own[0], 0.016, own[1], faces)
