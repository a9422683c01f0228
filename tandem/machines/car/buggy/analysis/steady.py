"""Steady cornering by linear theory: how the car leans, which wheels carry it, and how much it must be steered.

Unknowns of the lean are the roll of the body φ and of the axles on their tyres ψf, ψr (ISO 8855: positive when the
right side goes down, as in a left turn, a_y > 0). Contact points stay where they are; the body turns about the roll
centres, which its axles carry, and a wheel leans by γ_i = φ + κ_i (φ − ψ_i), κ from its camber gain:

    d  roll arm   h_i  roll centre   m_i  sprung mass over the axle   u_i, r_i  unsprung mass and its height

    Σ Ks_i (φ − ψ_i)            = m_s d (a_y + g φ)       + Σ (1 + κ_i) u_i r_i (a_y + g γ_i)
    Kt_i ψ_i − Ks_i (φ − ψ_i)   = m_i h_i (a_y + g ψ_i)   − κ_i u_i r_i (a_y + g γ_i)

(the links of an independent suspension hand the overturning of its wheels to the body, but for the part camber takes;
κ = −1 is the rigid axle, which hands on nothing). The load an axle moves from its left to its right wheel is Kt_i ψ_i
over the track, also when Kt is infinite. The sum over the axles is m a_y h + m_s g d φ and what the lean of the lower
parts adds, the rule of the textbooks. Gravity's terms are those of a roll centre fixed in the axle.

Steer. With slip s (positive makes force to the left), δ − L/R = s_f − s_r less what roll steer adds. Needed slips from

    C_i s_i = m_i' a_y ± ΣM / L + Cγ_i · lean of the wheel,      M_i = CM_i s_i  the aligning moments

where m' is the axle's share of the whole car. Left out: compliance of links and column, drive forces, large angles.
"""

import math
from dataclasses import dataclass

import numpy as np

from tandem.machines.car.buggy.analysis.car import GRAVITY, Axle, Car


@dataclass(frozen=True)
class Lean:
    """At a lateral acceleration. `transfer` is the load one wheel gains and the other loses, N."""

    lateral_acceleration: float
    roll: float
    axle_roll: tuple[float, float]
    transfer: tuple[float, float]

    @property
    def suspension_roll(self) -> tuple[float, float]:
        return self.roll - self.axle_roll[0], self.roll - self.axle_roll[1]


@dataclass(frozen=True)
class Understeer:
    """Steer beyond L/R per lateral acceleration, rad s²/m, and its parts, which add up to it."""

    total: float
    tyre: float  # axle loads over cornering stiffnesses
    load_transfer: float
    roll_steer: float
    roll_camber: float
    aligning: float
    sideslip_gradient: float  # rear slip per lateral acceleration: −d(sideslip)/d(a_y) beyond the geometric part
    cornering: tuple[float, float]  # of the axles as loaded, N/rad


def lean(car: Car, lateral_acceleration: float) -> Lean:
    """Roll and load transfer in a steady turn."""
    d, m_s, a_y = car.roll_arm, car.sprung_mass, lateral_acceleration
    body = np.array([1.0, 0.0, 0.0])
    matrix, push = -m_s * GRAVITY * d * np.outer(body, body), m_s * d * body
    for i, (share, axle) in enumerate(zip(car.sprung_shares, car.axles, strict=True), start=1):
        tilt = np.eye(3)[i]
        over, wheel = body - tilt, wheel_lean(axle, body, tilt)
        low, lower = share * m_s * axle.roll_centre, axle.mass * axle.radius
        matrix += axle.roll_stiffness * np.outer(over, over)
        matrix -= GRAVITY * (low * np.outer(tilt, tilt) + lower * np.outer(wheel, wheel))
        push += low * tilt + lower * wheel
    stands = [0] + [i for i, axle in enumerate(car.axles, start=1) if math.isfinite(axle.tyre.stiffness)]
    held = matrix.copy()
    for i in stands[1:]:
        held[i, i] += tyre_roll_stiffness(car.axles[i - 1])
    angles = np.zeros(3)
    angles[stands] = np.linalg.solve(held[np.ix_(stands, stands)], push[stands] * a_y)
    # what the tyres must hold is what all else leaves over
    moments = push * a_y - matrix @ angles
    transfer = [float(moment) / axle.track for moment, axle in zip(moments[1:], car.axles, strict=True)]
    phi, front, rear = (float(angle) for angle in angles)
    return Lean(a_y, phi, (front, rear), (transfer[0], transfer[1]))


def wheel_lean(axle: Axle, body: np.ndarray, tilt: np.ndarray) -> np.ndarray:
    """The row that gives the lean of the wheels against the road, from those of the roll of body and axle."""
    row: np.ndarray = body + axle.roll_camber * (body - tilt)
    return row


def tyre_roll_stiffness(axle: Axle) -> float:
    return 0.5 * axle.tyre.stiffness * axle.track**2


def understeer(car: Car, lateral_acceleration: float = 0.0) -> Understeer:
    """The understeer gradient; at `lateral_acceleration` ≠ 0 the secant with the loads the wheels then have."""
    gradient, transfer = lean(car, 1.0), lean(car, lateral_acceleration).transfer
    L = car.wheelbase
    mass = [load / GRAVITY for load in car.loads]
    C0, C, CM, thrust, steer = [], [], [], [], []
    for i, axle in enumerate(car.axles):
        still = 0.5 * car.loads[i]
        pair = still + transfer[i], still - transfer[i]
        if min(pair) < 0.0:
            raise ValueError(f"lateral acceleration {lateral_acceleration:g} m/s²: a wheel lifts; linear theory ends")
        C0.append(2.0 * axle.tyre.cornering(still))
        C.append(sum(axle.tyre.cornering(load) for load in pair))
        CM.append(sum(axle.tyre.aligning(load) for load in pair))
        over = gradient.suspension_roll[i]
        tilt = gradient.roll + axle.roll_camber * over
        thrust.append(sum(axle.tyre.camber(load) for load in pair) * tilt)
        steer.append(axle.roll_steer * over)
    matrix = np.array([[C[0] - CM[0] / L, -CM[1] / L], [CM[0] / L, C[1] + CM[1] / L]])
    slip = np.linalg.solve(matrix, np.add(mass, thrust))
    moments = float(np.dot(CM, slip))
    tyre = mass[0] / C0[0] - mass[1] / C0[1]
    return Understeer(
        total=float(slip[0] - slip[1]) - steer[0] + steer[1],
        tyre=tyre,
        load_transfer=mass[0] / C[0] - mass[1] / C[1] - tyre,
        roll_steer=steer[1] - steer[0],
        roll_camber=thrust[0] / C[0] - thrust[1] / C[1],
        aligning=moments / L * (1.0 / C[0] + 1.0 / C[1]),
        sideslip_gradient=float(slip[1]) - steer[1],
        cornering=(C[0], C[1]),
    )


def yaw_gain(wheelbase: float, gradient: float, speed: float) -> float:
    """Steady yaw rate per road wheel angle, 1/s."""
    return speed / (wheelbase + gradient * speed**2)


def characteristic_speed(wheelbase: float, gradient: float) -> float:
    """Speed of the largest yaw gain of an understeering car; inf for a neutral or oversteering one."""
    return math.sqrt(wheelbase / gradient) if gradient > 0.0 else math.inf


def critical_speed(wheelbase: float, gradient: float) -> float:
    """Speed from which an oversteering car is unstable; inf for a neutral or understeering one."""
    return math.sqrt(-wheelbase / gradient) if gradient < 0.0 else math.inf
