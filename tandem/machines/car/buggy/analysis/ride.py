"""Heave, pitch, roll and wheel hop: the body on four wheels on four tyres, seven freedoms, linear.

Coordinates: rise of the sprung centre of gravity z, pitch θ (positive nose down), roll φ (positive left side up), rise
of the four wheels in the order front left, front right, rear left, rear right. M, C and K are sums of m BᵀB, c BᵀB,
k BᵀB with B the row that gives a velocity or a stretch.

Left and right are alike, so symmetric motions (z, θ, wheels in step) and antisymmetric ones (φ, wheels in turn) do not
meet; each group is solved by itself, which also names the modes.

`held` says whether the road holds the contact points sideways, as it does a standing car: then the body rolls about its
roll axis, its sideways motion weighs in, and gravity works against the springs. A car free to slide rolls about its
centre of gravity. Springs across the car's length (anti-dive) are left out.
"""

import math
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from tandem.machines.car.buggy.analysis.car import GRAVITY, Car
from tandem.machines.car.buggy.analysis.steady import wheel_lean

NAMES = ("heave", "pitch", "roll", "front_left", "front_right", "rear_left", "rear_right")


@dataclass(frozen=True, eq=False)
class Ride:
    M: np.ndarray
    C: np.ndarray
    K: np.ndarray


@dataclass(frozen=True)
class RideMode:
    """`undamped_hz` without dampers; `frequency_hz` = |λ|/2π and `damping` = −Re λ/|λ| with them."""

    name: str
    undamped_hz: float
    frequency_hz: float
    damping: float
    shape: tuple[float, ...]  # undamped, largest entry 1, in the order of NAMES


def ride(car: Car, held: bool = True) -> Ride:
    """The matrices; tyres must be elastic."""
    M, C, K = np.zeros((7, 7)), np.zeros((7, 7)), np.zeros((7, 7))
    M[0, 0], M[1, 1], M[2, 2] = car.sprung_mass, car.Iyy, car.Ixx
    sway = np.zeros(7)  # sideways motion of the sprung centre of gravity
    sway[2] = -car.roll_arm
    for i, (axle, share) in enumerate(zip(car.axles, car.sprung_shares, strict=True)):
        if not math.isfinite(axle.tyre.stiffness):
            raise ValueError("ride: rigid tyres do not hop; give Tyre.stiffness in N/m")
        tilt = np.zeros(7)  # of the axle, positive left side up
        for side, sign in enumerate((1.0, -1.0)):
            wheel, body = np.zeros(7), np.zeros(7)
            wheel[3 + 2 * i + side] = 1.0
            body[:3] = 1.0, -(axle.x - car.sprung_x), 0.5 * sign * axle.track
            for mass, part in axle.unsprung:
                moving = part * wheel + (1.0 - part) * body
                M += mass * np.outer(moving, moving)
            stretch = wheel - body
            K += axle.stiffness * np.outer(stretch, stretch) + axle.tyre.stiffness * np.outer(wheel, wheel)
            C += axle.damping * np.outer(stretch, stretch) + axle.tyre.damping * np.outer(wheel, wheel)
            tilt += sign / axle.track * wheel
        twist = -tilt
        twist[2] += 1.0
        K += axle.anti_roll * np.outer(twist, twist)
        sway -= share * axle.roll_centre * tilt
        if held:
            lean = wheel_lean(axle, np.eye(7)[2], tilt)
            M += (axle.mass * axle.radius**2 + 2.0 * axle.wheel_transverse) * np.outer(lean, lean)
            K -= GRAVITY * axle.mass * axle.radius * np.outer(lean, lean)
            K -= GRAVITY * car.sprung_mass * share * axle.roll_centre * np.outer(tilt, tilt)
    if held:
        M += car.sprung_mass * np.outer(sway, sway)
        K[2, 2] -= car.sprung_mass * GRAVITY * car.roll_arm
    return Ride(M, C, K)


def ride_modes(car: Car, held: bool = True) -> tuple[RideMode, ...]:
    """Seven modes: heave, pitch, roll, and for each axle its wheels in step (`hop`) and in turn (`tramp`)."""
    system = ride(car, held)
    even, odd = np.zeros((7, 4)), np.zeros((7, 3))
    even[0, 0] = even[1, 1] = even[3, 2] = even[4, 2] = even[5, 3] = even[6, 3] = 1.0
    odd[2, 0] = odd[3, 1] = odd[5, 2] = 1.0
    odd[4, 1] = odd[6, 2] = -1.0
    out = []
    for basis, wheels in ((even, (2, 3)), (odd, (1, 2))):
        M, C, K = (basis.T @ matrix @ basis for matrix in (system.M, system.C, system.K))
        squares, modes = _undamped(M, K)
        pairs = _pairs(M, C, K, modes)
        names = _named(modes, wheels, car.wheelbase)
        for name, square, shape, (size, damping) in zip(names, squares, modes.T, pairs, strict=True):
            full = basis @ shape
            full = full / full[np.argmax(np.abs(full))]
            out.append(
                RideMode(
                    name,
                    math.sqrt(square) / (2.0 * math.pi),
                    size / (2.0 * math.pi),
                    damping,
                    tuple(float(v) for v in full),
                )
            )
    order = ("heave", "pitch", "roll", "front_hop", "rear_hop", "front_tramp", "rear_tramp")
    return tuple(sorted(out, key=lambda mode: order.index(mode.name)))


def _undamped(M: np.ndarray, K: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    root = np.linalg.inv(np.linalg.cholesky(M))
    squares, vectors = np.linalg.eigh(root @ K @ root.T)
    if squares[0] <= 0.0:
        raise ValueError("ride: the car falls over; springs are too soft for the height of its centre of gravity")
    return squares, root.T @ vectors


def _pairs(M: np.ndarray, C: np.ndarray, K: np.ndarray, modes: np.ndarray) -> list[tuple[float, float]]:
    """|λ| and damping of the eigenvalue pair that belongs to each undamped shape, by similarity of the shapes.

    Two real eigenvalues, neighbours in size, make a pair with damping above 1.
    """
    n = len(M)
    first = np.zeros((2 * n, 2 * n))
    first[:n, n:] = np.eye(n)
    first[n:, :n], first[n:, n:] = -np.linalg.solve(M, K), -np.linalg.solve(M, C)
    values, vectors = np.linalg.eig(first)
    found: list[tuple[float, float, np.ndarray]] = []
    real = []
    for value, vector in zip(values, vectors.T, strict=True):
        overlap = np.abs(modes.T @ M @ vector[:n]) ** 2
        overlap = overlap / overlap.sum()
        if value.imag > 1e-9 * abs(value):
            found.append((float(abs(value)), float(-value.real / abs(value)), overlap))
        elif abs(value.imag) <= 1e-9 * abs(value):
            real.append((float(value.real), overlap))
    real.sort(key=lambda entry: abs(entry[0]))
    for (slow, one), (fast, other) in zip(real[::2], real[1::2], strict=True):
        size = math.sqrt(slow * fast)
        found.append((size, -0.5 * (slow + fast) / size, 0.5 * (one + other)))
    best = max(permutations(range(n)), key=lambda order: sum(found[k][2][i] for i, k in enumerate(order)))
    return [found[k][:2] for k in best]


def _named(modes: np.ndarray, wheels: tuple[int, int], wheelbase: float) -> list[str]:
    """Names for the columns of `shapes`, slowest first: body modes, then those of the wheels."""
    suffix, bodies = ("tramp", ["roll"]) if wheels == (1, 2) else ("hop", ["heave", "pitch"])
    if len(bodies) == 2 and abs(modes[0, 0]) < abs(0.5 * wheelbase * modes[1, 0]):
        bodies = ["pitch", "heave"]
    last = modes[:, len(bodies) :]
    front_first = abs(last[wheels[0], 0]) > abs(last[wheels[1], 0])
    ends = ("front", "rear") if front_first else ("rear", "front")
    return bodies + [f"{end}_{suffix}" for end in ends]
