"""How the car stands, leans, dives and squats under steady accelerations, with the exact geometry of its suspensions.

Where linear theory stops (moving roll centres, jacking, progressive rates, gravity's second-order terms) this goes on:
the seven unknowns are rise, pitch and roll of the chassis and the angle of each lower arm; the seven equations say that
the forces do no work in any virtual motion of them (d'Alembert's forces included). Large angles are exact.

Forces. Gravity and −m a on all masses; springs; each tyre a linear spring along its own plane from the road, pushing
upwards where the disc is lowest; side forces as the balance of the whole car shares them between the axles, on an axle
in proportion to load. A brake turns knuckle and wheel as one, so its force works on the knuckle's point at the road; a
drive shaft's torque comes from the chassis, so the drive force works on the wheel centre.

An unsprung lump of share s counts s times at the wheel centre, the rest on the chassis where the wheel centre is drawn.
Left out: bump stops, links' compliance, rolling resistance, air, steer from slip angles (wheels are as the rack has
them). World axes: z up from the road, x and y along and across the car; pitch positive nose down, roll right side down.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tandem.machines.car.buggy.analysis.car import GRAVITY, lumps, suspensions, tyre_of
from tandem.machines.car.buggy.analysis.corner import spring_length, spring_rate
from tandem.machines.car.buggy.analysis.geometry import HardpointError, Unreachable, X, Y, Z
from tandem.machines.car.buggy.analysis.suspension import Suspension, pose, rates
from tandem.multibody.rotations import about_axis, cross

WHEELS = ("front_left", "front_right", "rear_left", "rear_right")
Four = tuple[float, float, float, float]


@dataclass(frozen=True)
class Attitude:
    """Steady state. Fours are in the order of WHEELS; camber against the road, positive leaning outwards."""

    lateral_acceleration: float
    longitudinal_acceleration: float
    rise: float  # of the chassis at the origin of the hardpoints, from the drawing
    pitch: float
    roll: float
    travel: Four
    load: Four
    camber: Four
    steer: Four  # against the car's long axis, positive to the left
    contact_y: Four  # across the car, from the middle plane of the drawing as it stands now


@dataclass(frozen=True, eq=False)
class _Wheel:
    centre: np.ndarray  # world
    axle: np.ndarray
    contact: np.ndarray
    load: float
    contact_rate: np.ndarray  # of the knuckle's point at the road per travel, world
    centre_rate: np.ndarray
    spring: float  # push on the wheel against its travel, N
    travel: float


def attitude(
    parameters: Mapping[str, Any],
    lateral_acceleration: float = 0.0,
    longitudinal_acceleration: float = 0.0,
) -> Attitude:
    """Equilibrium under the accelerations; forward ones are driven by the rear wheels, backward ones braked by all."""
    brakes = parameters["brakes"]
    front_share = brakes["front_Nm_per_bar"] / (brakes["front_Nm_per_bar"] + brakes["rear_Nm_per_bar"])
    a = np.array([longitudinal_acceleration, lateral_acceleration, 0.0])
    q = np.zeros(7)
    pair = suspensions(parameters)
    try:
        for _ in range(25):
            residual = _residual(parameters, pair, q, a, front_share)
            jacobian = np.empty((7, 7))
            for j in range(7):
                h = np.zeros(7)
                h[j] = 1e-6
                ahead = _residual(parameters, pair, q + h, a, front_share)
                jacobian[:, j] = (ahead - _residual(parameters, pair, q - h, a, front_share)) / 2e-6
            step = np.linalg.solve(jacobian, -residual)
            q = q + step * min(1.0, 0.1 / float(np.abs(step).max()))
            if float(np.abs(step).max()) < 1e-11:
                break
        else:
            raise HardpointError(f"accelerations {a[:2].tolist()} m/s²: the car finds no rest; smaller ones are right")
    except Unreachable:
        raise HardpointError(f"accelerations {a[:2].tolist()} m/s²: a suspension runs out of travel") from None
    wheels = _wheels(parameters, pair, q)
    if min(w.load for w in wheels) < 0.0:
        lifted = ", ".join(name for name, w in zip(WHEELS, wheels, strict=True) if w.load < 0.0)
        raise HardpointError(f"accelerations {a[:2].tolist()} m/s²: {lifted} off the road; smaller ones are right")
    sides = (1.0, -1.0, 1.0, -1.0)
    return Attitude(
        lateral_acceleration,
        longitudinal_acceleration,
        rise=float(q[0]),
        pitch=float(q[1]),
        roll=float(q[2]),
        travel=_four([w.travel for w in wheels]),
        load=_four([w.load for w in wheels]),
        camber=_four([-side * math.asin(w.axle[2]) for side, w in zip(sides, wheels, strict=True)]),
        steer=_four([math.atan2(-w.axle[0], w.axle[1]) for w in wheels]),
        contact_y=_four([float(w.contact[1]) for w in wheels]),
    )


def _residual(
    parameters: Mapping[str, Any],
    pair: tuple[Suspension, Suspension],
    q: np.ndarray,
    a: np.ndarray,
    front_share: float,
) -> np.ndarray:
    """Virtual work per unit of rise, pitch, roll and of each wheel's travel."""
    rotation, origin = _frame(q)
    wheels = _wheels(parameters, pair, q)
    push = -a - GRAVITY * Z  # per mass
    pitch_axis, roll_axis = Y, about_axis(Y, q[1]) @ X
    out = np.zeros(7)
    moment, force = np.zeros(3), np.zeros(3)  # of all forces on the whole car, about the chassis origin
    masses = parameters["masses"]
    sprung = rotation @ np.array(masses["sprung_cg"], float)
    force += masses["sprung"] * push
    moment += cross(sprung, masses["sprung"] * push)
    first = masses["sprung"] * sprung[0]
    total = masses["sprung"]
    centres = [s.points["WC"] for s in pair]
    for i, wheel in enumerate(wheels):
        parts = lumps(parameters[f"corner_bodies_{('front', 'rear')[i // 2]}"])
        moving, fixed = sum(m * s for m, s in parts), sum(m * (1.0 - s) for m, s in parts)
        hung = rotation @ (centres[i // 2] * np.array([1.0, 1.0 if i % 2 == 0 else -1.0, 1.0]))
        at = wheel.centre - origin
        force += (moving + fixed) * push
        moment += cross(at, moving * push) + cross(hung, fixed * push)
        out[3 + i] += moving * float(push @ wheel.centre_rate) - wheel.spring
        first += moving * at[0] + fixed * hung[0]
        total += moving + fixed
    # the road's side: side forces share the car's as a beam between the axles
    axle_x = [0.5 * (wheels[k].contact[0] + wheels[k + 1].contact[0]) for k in (0, 2)]
    front = (first / total - axle_x[1]) / (axle_x[0] - axle_x[1])
    side = total * a[1] * np.array([front, 1.0 - front])
    driven = a[0] > 0.0
    along = total * a[0] * np.array([0.0, 1.0] if driven else [front_share, 1.0 - front_share])
    for i, wheel in enumerate(wheels):
        axle = i // 2
        both = wheels[2 * axle].load + wheels[2 * axle + 1].load
        across = np.array([0.0, side[axle] * wheel.load / both, wheel.load])
        forward = 0.5 * along[axle] * X
        force += across + forward
        moment += cross(wheel.contact - origin, across + forward)
        out[3 + i] += float(across @ wheel.contact_rate)
        out[3 + i] += float(forward @ (wheel.centre_rate if driven else wheel.contact_rate))
    out[0], out[1], out[2] = force[2], pitch_axis @ moment, roll_axis @ moment
    return out


def _wheels(parameters: Mapping[str, Any], pair: tuple[Suspension, Suspension], q: np.ndarray) -> list[_Wheel]:
    rotation, origin = _frame(q)
    tyres = [tyre_of(parameters, name) for name in ("front", "rear")]
    out = []
    for i in range(4):
        suspension, tyre = pair[i // 2], tyres[i // 2]
        spring = parameters["spring_damper"][("front", "rear")[i // 2]]
        side = 1.0 if i % 2 == 0 else -1.0
        mirror = np.array([1.0, side, 1.0])
        at = pose(suspension, float(q[3 + i]), 0.0)
        motion = rates(suspension, at)
        centre = origin + rotation @ (mirror * at.points["WC"])
        axle = rotation @ (side * mirror * at.axle)
        up = (Z - axle[2] * axle) / math.sqrt(1.0 - axle[2] ** 2)
        radius = centre[2] / up[2]
        contact = centre - radius * up
        # back in the left side's chassis axes, where the knuckle's motion is known
        there = mirror * (rotation.T @ (contact - origin))
        push = spring["k"] * (spring["free_length"] - spring_length(at))
        out.append(
            _Wheel(
                centre,
                axle,
                contact,
                load=tyre["vertical_stiffness"] * (tyre["free_radius"] - radius),
                contact_rate=rotation @ (mirror * motion.at(there)),
                centre_rate=rotation @ (mirror * motion.at(at.points["WC"])),
                spring=-push * spring_rate(suspension, at, motion),
                travel=float(at.points["WC"][2] - suspension.points["WC"][2]),
            )
        )
    return out


def _frame(q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    rotation: np.ndarray = about_axis(Y, float(q[1])) @ about_axis(X, float(q[2]))
    return rotation, q[0] * Z


def _four(values: list[float]) -> Four:
    return float(values[0]), float(values[1]), float(values[2]), float(values[3])
