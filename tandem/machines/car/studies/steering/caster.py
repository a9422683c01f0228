"""The swerve around an obstacle with three caster trails: what is felt at the wheel, beside trail times lateral force.

Straight at 75 km/h, an obstacle appears at an instant of its seed; a driver who does not know the trail swerves left
around it and back. The trail is changed as on a bench: the ball joints and the tie rod's end lean about the wheel's
centre, so that toe, steering arm, wheel and wheelbase stay and the steering axis meets the road elsewhere.

The prediction knows hardpoints and forces, and nothing of the mechanism: the axis moves by the difference of the trails
(closed-form kinematics, `analysis/`), so the torque at the hand wheel changes by

    trail difference x lateral force of both front tyres / steering ratio

The whole torque is predicted likewise, with the aligning moments of the tyres: (trail F_y - M_z) / ratio.

That driver has his hands where he wants them. Each trail is driven once more by one whose arms give way to the torque
(`ARM`) and who corrects what he saw a reaction time ago: so path, angle and torque differ between trails, as the source
shows them. He wants the same of every car. Turning in, before what he sees can have changed that, arms of stiffness k
leave a wheel that is centred with c, N m/rad, at k / (k + c) of where they want it: that is the prediction of how the
first angles of two trails differ.
"""

from dataclasses import dataclass
from itertools import pairwise
from math import degrees

import numpy as np

from sync.errors import ConfigError
from tandem.console.terminal import Update
from tandem.machines.car.studies.iso.lanes import Lane, course
from tandem.machines.car.studies.iso.result import Panel, Result, Row
from tandem.machines.car.studies.iso.runner import Arm, Drive, H, Log, plan
from tandem.machines.car.studies.iso.vehicle import Vehicle
from tandem.machines.car.studies.vehicle.parameters import analysis_table, standing_corners
from tandem.machines.car.swerve import description as swerve
from tandem.machines.car.swerve import obstacle
from tandem.reports.html.chart import Series

SPEED = 75.0  # km/h
REACTION = 0.4  # s, of the driver; estimate
BESIDE = 0.6  # m between car and obstacle that he aims at
ARM = Arm(inertia=0.1, damping=2.0, stiffness=30.0, reaction=0.2)  # estimates: both arms, a little tense
RETURN = 40.0  # m, over which he goes back
CLOSE = 0.1  # how far the difference of two torques may be from its prediction
NEAR = 0.3  # … of two first angles: the prediction knows no inertia
_LEANING = ("UBJ", "LBJ", "TRO")
_CLOSE = 1e-6  # m, of a trail
_VALUES = {p.name: p.value for p in swerve.PARAMETERS}


@dataclass(frozen=True, eq=False)
class Swerve:
    """One drive around the obstacle."""

    trail: float
    ratio: float  # hand wheel angle per steer angle of the front wheels
    log: Log
    appeared: float  # s, in the log
    obstacle: tuple[float, float]  # its middle
    hit: bool
    clearance: float  # m, the least

    @property
    def force(self) -> np.ndarray:
        """Of the road on both front tyres, to the left."""
        found: np.ndarray = self.log["force_y_fl"] + self.log["force_y_fr"]
        return found

    @property
    def predicted(self) -> np.ndarray:
        """Torque by trail, lateral force and aligning moments."""
        aligning = self.log["aligning_fl"] + self.log["aligning_fr"]
        found: np.ndarray = (self.trail * self.force - aligning) / self.ratio
        return found


def trail_of(vehicle: Vehicle) -> float:
    return float(standing_corners(analysis_table(vehicle.values, vehicle.tyres))[0].trail)


def leaned(values: dict[str, float], lean: float) -> dict[str, float]:
    """The front ball joints and tie rod ends, moved along x in proportion to their height above the wheel's centre."""
    centre = values["front_WC_z"]
    return {f"front_{p}_x": values[f"front_{p}_x"] - lean * (values[f"front_{p}_z"] - centre) for p in _LEANING}


def lean_for(vehicle: Vehicle, trail: float) -> dict[str, float]:
    """Parameters that give the car this trail, by closed-form kinematics."""

    def found(lean: float) -> float:
        values = vehicle.values | leaned(vehicle.values, lean)
        return float(standing_corners(analysis_table(values, vehicle.tyres))[0].trail)

    a, b = 0.0, (trail - trail_of(vehicle)) / vehicle.values["front_WC_z"]
    at_a, at_b = found(a), found(b)
    for _ in range(20):
        if abs(at_b - trail) < _CLOSE or at_a == at_b:
            break
        a, b, at_a = b, b + (trail - at_b) * (b - a) / (at_b - at_a), at_b
        at_b = found(b)
    if abs(at_b - trail) > 1e-4 or abs(b) > 0.3:
        raise ConfigError(f"--trails-mm: {1e3 * trail:g} mm: this car's steering axis does not lean as far")
    return leaned(vehicle.values, b)


def instant(seed: int, number: int = 0) -> float:
    """When the obstacle appears, s after its speed was reached."""
    soonest, latest = _VALUES["obstacle_soonest"], _VALUES["obstacle_latest"]
    return soonest + (latest - soonest) * float(obstacle.draw(float(seed), float(number)))


def swerve_once(vehicle: Vehicle, seed: int, speed: float, arm: Arm | None = None) -> Swerve:
    """To the speed, on until the obstacle appears, around it and back; the speed is held."""
    car = vehicle.linear
    front, rear = car.front.x - car.cg_x + car.front.radius, car.cg_x - car.rear.x + car.rear.radius
    values = np.array([*_VALUES.values()])
    values[swerve.P.outline_front], values[swerve.P.outline_rear] = front, rear
    values[swerve.P.outline_width], values[swerve.P.obstacle_ahead] = vehicle.width, 2.2 * speed
    approach = Drive(vehicle)
    approach.reach(speed)
    approach.go(plan(instant(seed), speed=speed))
    x, y = (float(approach.work[approach.names[name]]) for name in ("x", "y"))
    length, width = values[swerve.P.obstacle_length], values[swerve.P.obstacle_width]
    near = x + front + values[swerve.P.obstacle_ahead]
    aside = 0.5 * (vehicle.width + width) + BESIDE

    # lanes of no width: the way of the centre of gravity, from where it is when he reacts
    turn_in, there, past = x + REACTION * speed, near - front, near + length + rear
    lanes = [Lane(0.0, turn_in - x, y, 0.0), Lane(there - x, past - x, y + aside, 0.0)]
    lanes.append(Lane(past - x + RETURN, past - x + RETURN + 20.0, y, 0.0))
    drive = approach.onward(course(vehicle, lanes, (0.0, 0.0), 0.0, speed, x), arm)
    log = drive.go(plan((lanes[-1].end + 20.0) / speed, follows=1.0, speed=speed))

    # the same obstacle that the machine `swerve` has in its step
    state, out = np.zeros(len(swerve.STATES)), np.zeros(len(swerve.OUTPUTS))
    state[swerve.S.obstacle_there] = 1.0
    state[swerve.S.obstacle_x], state[swerve.S.obstacle_y] = near + 0.5 * length, y
    clearance = np.inf
    for row in zip(log["x"], log["y"], log["yaw"], log["vx"], strict=True):
        obstacle.advance(state, values, *row, H, out)
        clearance = min(clearance, float(out[swerve.W.obstacle_room]) if out[swerve.W.obstacle_there] else np.inf)
    hit = bool(out[swerve.W.obstacle_hits] > 0.0)
    return Swerve(trail_of(vehicle), car.steering_ratio, log, 0.0, (near + 0.5 * length, y), hit, clearance)


def torque_per_force(few: Swerve, more: Swerve) -> float:
    """Least squares: how much more torque of the hand per lateral force, N m/N."""
    force = 0.5 * (few.force + more.force)
    gained = more.log["steering_torque"] - few.log["steering_torque"]
    return float(np.sum(gained * force) / np.sum(force * force))


def torque_per_angle(drive: Swerve) -> float:
    """Least squares, N m/rad at the hand wheel."""
    angle = drive.log["steering_angle"]
    return float(np.sum(drive.log["steering_torque"] * angle) / np.sum(angle * angle))


def furthest(drive: Swerve) -> int:
    """The step at which the wheel is furthest to the side the driver swerves to, before he turns back."""
    angle = drive.log["steering_angle"]
    return int(np.argmax(angle[: int(np.argmin(angle))]))


def first_angle(perfect: Swerve) -> float:
    """rad: what arms leave of the angle that the driver without them has, by how that car centres its wheel there."""
    k = furthest(perfect)
    angle = float(perfect.log["steering_angle"][k])
    centred = float(perfect.log["steering_torque"][k]) / angle
    return angle * ARM.stiffness / (ARM.stiffness + centred)


def _by_formula(drives: list[Swerve]) -> list[Row]:
    rows = []
    for drive in drives:
        name = f"trail {1e3 * drive.trail:.0f} mm"
        most = int(np.argmax(np.abs(drive.log["steering_torque"])))
        torque = abs(float(drive.log["steering_torque"][most]))
        predicted = abs(float(drive.predicted[most]))
        rows += [
            Row(f"{name}: largest torque", "N m", predicted, torque, "(trail F_y - M_z) / ratio"),
            Row(f"{name}: torque per angle", "N m/rad", None, torque_per_angle(drive)),
            Row(f"{name}: largest angle", "deg", None, degrees(float(np.abs(drive.log["steering_angle"]).max()))),
            Row(f"{name}: room to the obstacle", "m", None, drive.clearance, "counted"),
        ]
    for few, more in pairwise(drives):
        force = float(np.abs(few.force).max())
        predicted = (more.trail - few.trail) / (0.5 * (few.ratio + more.ratio)) * force
        name = f"{1e3 * few.trail:.0f} to {1e3 * more.trail:.0f} mm: more torque at {force:.0f} N"
        rows.append(
            Row(name, "N m", predicted, torque_per_force(few, more) * force, "trail difference x force / ratio")
        )
    return rows


def _by_arms(drives: list[Swerve], perfect: list[Swerve]) -> list[Row]:
    """What a driver whose arms give way does with each trail, and by how much it differs."""
    rows, angles, predicted = [], [], []
    for drive, other in zip(drives, perfect, strict=True):
        name = f"arms, trail {1e3 * drive.trail:.0f} mm"
        k = furthest(drive)
        angles.append(degrees(float(drive.log["steering_angle"][k])))
        predicted.append(degrees(first_angle(other)))
        y = drive.log["y"]
        rows += [
            Row(f"{name}: first angle", "deg", predicted[-1], angles[-1], "k / (k + c) of the wanted one"),
            Row(f"{name}: torque there", "N m", None, float(drive.log["steering_torque"][k])),
            Row(f"{name}: room to the obstacle", "m", None, drive.clearance, "counted"),
            Row(f"{name}: swings back to", "m", None, float(y.min() - y[0]), "beyond the way he came"),
        ]
    for k, (few, more) in enumerate(pairwise(drives)):
        name = f"arms, {1e3 * few.trail:.0f} to {1e3 * more.trail:.0f} mm"
        less = Row(f"{name}: less first angle", "deg", predicted[k] - predicted[k + 1], angles[k] - angles[k + 1])
        count = min(len(few.log), len(more.log))
        apart = float(np.abs(few.log["y"][:count] - more.log["y"][:count]).max())
        rows += [less, Row(f"{name}: paths apart by up to", "m", None, apart)]
    return rows


def caster(vehicle: Vehicle, trails: tuple[float, ...], seed: int, speed: float, update: Update) -> Result:
    perfect: list[Swerve] = []
    drives: list[Swerve] = []
    for k, trail in enumerate(trails):
        update(f"trail {1e3 * trail:.0f} mm", k / len(trails))
        car = vehicle.altered(lean_for(vehicle, trail))
        perfect.append(swerve_once(car, seed, speed / 3.6))
        drives.append(swerve_once(car, seed, speed / 3.6, ARM))
    rows = [*_by_formula(perfect), *_by_arms(drives, perfect)]
    per_angle = [torque_per_angle(drive) for drive in perfect]
    grows = all(a < b for a, b in pairwise(per_angle))
    return Result(
        "caster",
        "Swerve around an obstacle with other caster trails",
        f"{speed:.0f} km/h, seed {seed}: the obstacle appears {instant(seed):.2f} s after the speed is reached;"
        f" {'hit' if any(d.hit for d in (*perfect, *drives)) else 'not hit'}; a larger trail gives a larger torque:"
        f" {'yes' if grows else 'no'}",
        rows,
        _pictures(perfect, drives),
        [f"steering ratio {perfect[0].ratio:.2f} to {perfect[-1].ratio:.2f}"],
        sum(len(d.log) for d in (*perfect, *drives)) * H,
        sum(d.log.capped for d in (*perfect, *drives)),
    )


def _pictures(perfect: list[Swerve], drives: list[Swerve]) -> list[Panel]:
    t = drives[0].log.t
    x0 = float(drives[0].log["x"][0])
    pairs = [(f"{1e3 * drive.trail:.0f} mm", drive) for drive in drives]
    known = [(f"{1e3 * drive.trail:.0f} mm", drive) for drive in perfect]
    box = np.array([-0.5, 0.5, 0.5, -0.5, -0.5]), np.array([-0.5, -0.5, 0.5, 0.5, -0.5])
    where = drives[0].obstacle
    block = Series(
        "obstacle",
        where[0] - x0 + _VALUES["obstacle_length"] * box[0],
        where[1] + _VALUES["obstacle_width"] * box[1],
    )
    return [
        Panel("path, m, with arms", [*(Series(n, d.log["x"] - x0, d.log["y"]) for n, d in pairs), block], plane=True),
        Panel(
            "hand wheel angle, deg, with arms", [Series(n, t, np.degrees(d.log["steering_angle"])) for n, d in pairs]
        ),
        Panel("torque of the hand, N m, with arms", [Series(n, t, d.log["steering_torque"]) for n, d in pairs]),
        Panel(
            "torque of the hand, N m, hands where they are wanted",
            [
                *(Series(n, d.log.t, d.log["steering_torque"]) for n, d in known),
                *(Series(f"{n} by trail and force", d.log.t, d.predicted) for n, d in known),
            ],
        ),
        Panel(
            "torque of the hand, N m, over hand wheel angle, deg",
            [Series(n, np.degrees(d.log["steering_angle"]), d.log["steering_torque"]) for n, d in known],
            x_label="deg",
        ),
    ]


def complaints(result: Result) -> list[str]:
    """What the study did not show: torque that grows with the trail as predicted, and arms that give way."""
    found = [
        f"{row.quantity}: {row.simulated:.3g} {row.unit}, predicted {row.predicted:.3g}"
        for row in result.rows
        for what, close in (("more torque", CLOSE), ("less first angle", NEAR))
        if what in row.quantity and (row.difference is None or abs(row.difference) > close)
    ]
    per_angle = [row.simulated for row in result.rows if row.quantity.endswith("torque per angle")]
    if per_angle != sorted(set(per_angle)):
        found.append("a larger trail does not give a larger torque at the same angle")
    return found
