"""The swerve around an obstacle with three caster trails: what is felt at the wheel, beside trail times lateral force.

Straight at 75 km/h, an obstacle appears at an instant of its seed; a driver who does not know the trail swerves left
around it and back. The trail is changed as on a bench: the ball joints and the tie rod's end lean about the wheel's
centre, so that toe, steering arm, wheel and wheelbase stay and the steering axis meets the road elsewhere.

The prediction knows hardpoints and forces, and nothing of the mechanism: the axis moves by the difference of the trails
(closed-form kinematics, `analysis/`), so the torque at the hand wheel changes by

    trail difference x lateral force of both front tyres / steering ratio

The whole torque is predicted likewise, with the aligning moments of the tyres: (trail F_y - M_z) / ratio.
"""

from dataclasses import dataclass
from itertools import pairwise
from math import degrees

import numpy as np

from sync.errors import ConfigError
from tandem.console.terminal import Update
from tandem.machines.car.studies.iso.lanes import Lane, course
from tandem.machines.car.studies.iso.result import Panel, Result, Row
from tandem.machines.car.studies.iso.runner import Drive, H, Log, plan
from tandem.machines.car.studies.iso.vehicle import Vehicle
from tandem.machines.car.studies.vehicle.parameters import analysis_table, standing_corners
from tandem.machines.car.swerve import description as swerve
from tandem.machines.car.swerve import obstacle
from tandem.reports.html.chart import Series

SPEED = 75.0  # km/h
REACTION = 0.4  # s, of the driver; estimate
BESIDE = 0.6  # m between car and obstacle that he aims at
RETURN = 40.0  # m, over which he goes back
CLOSE = 0.1  # how far the difference of two torques may be from its prediction
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
    room: float  # m, the least

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


def swerve_once(vehicle: Vehicle, seed: int, speed: float) -> Swerve:
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
    drive = approach.onward(course(vehicle, lanes, (0.0, 0.0), 0.0, speed, x))
    log = drive.go(plan((lanes[-1].end + 20.0) / speed, follows=1.0, speed=speed))

    # the same obstacle that the machine `swerve` has in its step
    state, out = np.zeros(len(swerve.STATES)), np.zeros(len(swerve.OUTPUTS))
    state[swerve.S.obstacle_there] = 1.0
    state[swerve.S.obstacle_x], state[swerve.S.obstacle_y] = near + 0.5 * length, y
    room = np.inf
    for row in zip(log["x"], log["y"], log["yaw"], log["vx"], strict=True):
        obstacle.advance(state, values, *row, H, out)
        room = min(room, float(out[swerve.W.obstacle_room]) if out[swerve.W.obstacle_there] else np.inf)
    hit = bool(out[swerve.W.obstacle_hits] > 0.0)
    return Swerve(trail_of(vehicle), car.steering_ratio, log, 0.0, (near + 0.5 * length, y), hit, room)


def torque_per_force(few: Swerve, more: Swerve) -> float:
    """Least squares: how much more torque of the hand per lateral force, N m/N."""
    force = 0.5 * (few.force + more.force)
    gained = more.log["steering_torque"] - few.log["steering_torque"]
    return float(np.sum(gained * force) / np.sum(force * force))


def torque_per_angle(drive: Swerve) -> float:
    """Least squares, N m/rad at the hand wheel."""
    angle = drive.log["steering_angle"]
    return float(np.sum(drive.log["steering_torque"] * angle) / np.sum(angle * angle))


def caster(vehicle: Vehicle, trails: tuple[float, ...], seed: int, speed: float, update: Update) -> Result:
    drives: list[Swerve] = []
    for k, trail in enumerate(trails):
        update(f"trail {1e3 * trail:.0f} mm", k / len(trails))
        drives.append(swerve_once(vehicle.altered(lean_for(vehicle, trail)), seed, speed / 3.6))
    rows = []
    for drive in drives:
        name = f"trail {1e3 * drive.trail:.0f} mm"
        most = int(np.argmax(np.abs(drive.log["steering_torque"])))
        torque = abs(float(drive.log["steering_torque"][most]))
        rows += [
            Row(
                f"{name}: largest torque", "N m", abs(float(drive.predicted[most])), torque, "(trail F_y - M_z) / ratio"
            ),
            Row(f"{name}: torque per angle", "N m/rad", None, torque_per_angle(drive)),
            Row(f"{name}: largest angle", "deg", None, degrees(float(np.abs(drive.log["steering_angle"]).max()))),
            Row(f"{name}: room to the obstacle", "m", None, drive.room, "counted"),
        ]
    for few, more in pairwise(drives):
        force = float(np.abs(few.force).max())
        predicted = (more.trail - few.trail) / (0.5 * (few.ratio + more.ratio)) * force
        name = f"{1e3 * few.trail:.0f} to {1e3 * more.trail:.0f} mm: more torque at {force:.0f} N"
        rows.append(
            Row(name, "N m", predicted, torque_per_force(few, more) * force, "trail difference x force / ratio")
        )
    per_angle = [torque_per_angle(drive) for drive in drives]
    grows = all(a < b for a, b in pairwise(per_angle))
    t = drives[0].log.t
    x0 = float(drives[0].log["x"][0])
    names = [f"{1e3 * drive.trail:.0f} mm" for drive in drives]
    box = np.array([-0.5, 0.5, 0.5, -0.5, -0.5]), np.array([-0.5, -0.5, 0.5, 0.5, -0.5])
    where = drives[0].obstacle
    block = Series(
        "obstacle",
        where[0] - x0 + _VALUES["obstacle_length"] * box[0],
        where[1] + _VALUES["obstacle_width"] * box[1],
    )
    pairs = list(zip(names, drives, strict=True))
    return Result(
        "caster",
        "Swerve around an obstacle with other caster trails",
        f"{speed:.0f} km/h, seed {seed}: the obstacle appears {instant(seed):.2f} s after the speed is reached;"
        f" {'hit' if any(d.hit for d in drives) else 'not hit'}; a larger trail gives a larger torque:"
        f" {'yes' if grows else 'no'}",
        rows,
        [
            Panel("path, m", [*(Series(n, d.log["x"] - x0, d.log["y"]) for n, d in pairs), block], plane=True),
            Panel("hand wheel angle, deg", [Series(n, t, np.degrees(d.log["steering_angle"])) for n, d in pairs]),
            Panel(
                "torque of the hand, N m",
                [
                    *(Series(n, t, d.log["steering_torque"]) for n, d in pairs),
                    *(Series(f"{n} by trail and force", t, d.predicted) for n, d in pairs),
                ],
            ),
            Panel(
                "torque of the hand, N m, over hand wheel angle, deg",
                [Series(n, np.degrees(d.log["steering_angle"]), d.log["steering_torque"]) for n, d in pairs],
                x_label="deg",
            ),
        ],
        [f"steering ratio {drives[0].ratio:.2f} to {drives[-1].ratio:.2f}"],
        sum(len(d.log) for d in drives) * H,
        sum(d.log.capped for d in drives),
    )


def complaints(result: Result) -> list[str]:
    """What the study did not show: torque that grows with the trail, by as much as predicted."""
    found = [
        f"{row.quantity}: {row.simulated:.3g} {row.unit}, predicted {row.predicted:.3g}"
        for row in result.rows
        if "more torque" in row.quantity and (row.difference is None or abs(row.difference) > CLOSE)
    ]
    per_angle = [row.simulated for row in result.rows if row.quantity.endswith("torque per angle")]
    if per_angle != sorted(set(per_angle)):
        found.append("a larger trail does not give a larger torque at the same angle")
    return found
