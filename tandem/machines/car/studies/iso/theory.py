"""A steady turn by linear theory, with what a car near neutral steer cannot do without.

`analysis.steady` gives the understeer gradient of a car without drag, rolling resistance and spinning wheels. It is the
difference of two slips that are nearly equal here, so effects of one per cent of a slip are a third of it. `turn`
solves the same balance, and adds

    gyroscope      a wheel that spins at Ω and yaws at r leans its knuckle outwards with J Ω r
    overturning    M_x of the tyre, from its side force and its camber
    rolling        the resistance of the loaded outer wheels turns the car outwards: f t ΔF
    camber moment  M_z of a tyre that leans
    toe, camber    of the standing car: the outer wheel, loaded more, pushes more than the inner one
    air, rolling   move load from the front to the rear axle: (D h + Σ M_y) / L

Slips stay linear, with the stiffness of each tyre at the load it then has. Unknowns: roll φ of the body, ψ of the axles
on their tyres, slips s of the axles; see `analysis.steady` for the rest. Left turns, a_y > 0.
"""

from dataclasses import dataclass

import numpy as np

from tandem.machines.car.buggy.analysis.car import GRAVITY
from tandem.machines.car.buggy.analysis.steady import tyre_roll_stiffness, wheel_lean
from tandem.machines.car.studies.iso.vehicle import Vehicle
from tandem.machines.car.tyres.steady import steady

_SMALL = 1e-5
_ROUNDS = 8  # loads, lean and side forces depend on each other; each round gains two digits


@dataclass(frozen=True)
class Turn:
    steer: float  # mean road wheel angle, rad
    roll: float
    sideslip: float
    slips: tuple[float, float]
    transfer: tuple[float, float]  # load one wheel of the axle gains and the other loses, N
    loads: tuple[float, float]  # of the axles, N


@dataclass(frozen=True)
class Stiffnesses:
    """Of one tyre at a load: per slip (positive makes force to the left) and per lean to the right."""

    side_slip: float
    side_lean: float
    aligning_slip: float
    aligning_lean: float
    overturning_slip: float
    overturning_lean: float


def stiffnesses(vehicle: Vehicle, axle: int, load: float, speed: float) -> Stiffnesses:
    p, grip = vehicle.tyres[axle], vehicle.values["grip"]

    def forces(slip: float, lean: float) -> np.ndarray:
        return np.array(steady(p, load, 0.0, -slip, lean, grip, 1.0, speed))

    by_slip = (forces(_SMALL, 0.0) - forces(-_SMALL, 0.0)) / (2.0 * _SMALL)
    by_lean = (forces(0.0, _SMALL) - forces(0.0, -_SMALL)) / (2.0 * _SMALL)
    return Stiffnesses(by_slip[1], by_lean[1], by_slip[4], by_lean[4], by_slip[2], by_lean[2])


def rolling_moment(vehicle: Vehicle, axle: int, load: float, speed: float) -> float:
    """M_y of one tyre, N m, positive against rolling."""
    return -vehicle.steady_forces(axle, load, 0.0, speed)[3]


def axle_loads(vehicle: Vehicle, speed: float, acceleration: float = 0.0) -> tuple[float, float]:
    """Loads of the axles while driving straight, N: m a h / L, and what air and rolling resistance move."""
    car = vehicle.linear
    moved = car.mass * acceleration * car.cg_height + car.drag * speed**2 * car.cg_height
    for i, load in enumerate(car.loads):
        moved += 2.0 * rolling_moment(vehicle, i, 0.5 * load, speed)
    return car.loads[0] - moved / car.wheelbase, car.loads[1] + moved / car.wheelbase


def turn(vehicle: Vehicle, speed: float, lateral_acceleration: float) -> Turn:
    """At a speed, m/s; the radius is that of the centre of gravity, speed² / lateral acceleration."""
    car, a_y = vehicle.linear, lateral_acceleration
    L, yaw_rate = car.wheelbase, a_y / speed
    loads = axle_loads(vehicle, speed)
    ahead = [axle.x - car.cg_x for axle in car.axles]
    transfer, slips, tilts, angles = [0.0, 0.0], np.zeros(2), [0.0, 0.0], np.zeros(3)
    body = np.eye(3)[0]
    for _ in range(_ROUNDS):
        pairs = [(0.5 * load - moved, 0.5 * load + moved) for load, moved in zip(loads, transfer, strict=True)]
        each = [[stiffnesses(vehicle, i, load, speed) for load in pair] for i, pair in enumerate(pairs)]

        # lean
        matrix = -car.sprung_mass * GRAVITY * car.roll_arm * np.outer(body, body)
        push = car.sprung_mass * car.roll_arm * a_y * body
        for i, (share, axle) in enumerate(zip(car.sprung_shares, car.axles, strict=True)):
            tilt = np.eye(3)[1 + i]
            over, wheel = body - tilt, wheel_lean(axle, body, tilt)
            low, lower = share * car.sprung_mass * axle.roll_centre, axle.mass * axle.radius
            matrix += axle.roll_stiffness * np.outer(over, over)
            matrix -= GRAVITY * (low * np.outer(tilt, tilt) + lower * np.outer(wheel, wheel))
            push += a_y * (low * tilt + lower * wheel)
            spin = speed / vehicle.rolling_radius(i, 0.5 * loads[i])
            twist = 2.0 * axle.wheel_inertia * spin * yaw_rate
            twist += sum(s.overturning_slip * slips[i] + s.overturning_lean * tilts[i] for s in each[i])
            push += twist * wheel
        held = matrix + np.diag([0.0, *(tyre_roll_stiffness(axle) for axle in car.axles)])
        angles = np.linalg.solve(held, push)
        moments = push - matrix @ angles
        transfer = [float(moment) / axle.track for moment, axle in zip(moments[1:], car.axles, strict=True)]
        tilts = [float(wheel_lean(axle, body, np.eye(3)[1 + i]) @ angles) for i, axle in enumerate(car.axles)]

        # slips: side forces and moments about the vertical
        A, b = np.zeros((2, 2)), np.array([car.mass * a_y, 0.0])
        for i, axle in enumerate(car.axles):
            C, G = sum(s.side_slip for s in each[i]), sum(s.side_lean for s in each[i])
            A[0, i] += C
            A[1, i] += ahead[i] * C + sum(s.aligning_slip for s in each[i])
            b[0] -= G * tilts[i]
            b[1] -= (ahead[i] * G + sum(s.aligning_lean for s in each[i])) * tilts[i]
            inner, outer = (rolling_moment(vehicle, i, load, speed) / vehicle.arm(i, load) for load in pairs[i])
            b[1] += 0.5 * axle.track * (outer - inner)
            # wheels that toe in or lean: the outer one, loaded more, pushes more
            left, right = each[i]
            toe, camber = vehicle.toe_in[i], vehicle.camber[i]
            push_y = toe * (right.side_slip - left.side_slip) + camber * (right.side_lean - left.side_lean)
            turn_z = toe * (right.aligning_slip - left.aligning_slip)
            turn_z += camber * (right.aligning_lean - left.aligning_lean)
            b[0] -= push_y
            b[1] -= ahead[i] * push_y + turn_z
        slips = np.linalg.solve(A, b)
    steers = [axle.roll_steer * float(angles[0] - angles[1 + i]) for i, axle in enumerate(car.axles)]
    steer = L * yaw_rate / speed + float(slips[0] - slips[1]) - steers[0] + steers[1]
    # the rear axle's own sideslip is its steer less its slip
    sideslip = steers[1] - float(slips[1]) - ahead[1] * yaw_rate / speed
    return Turn(
        steer, float(angles[0]), sideslip, (float(slips[0]), float(slips[1])), (transfer[0], transfer[1]), loads
    )
