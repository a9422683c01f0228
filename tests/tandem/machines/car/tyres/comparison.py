"""Kernels and publication side by side, over all coefficient sets: for the tests and for `python -m verify tyres`."""

import math

import numpy as np

from tandem.machines.car.tyres.steady import steady, steady_turning
from tandem.machines.car.tyres.tir import parse_tir, read_tir, tyre_vector
from tests.tandem.machines.car.tyres.published import mirrored, published
from tests.tandem.machines.car.tyres.samples import FULL, LEAST, SHIPPED, WIDE, written

CAMBER = ("PKY3", "PHY3", "PVY3", "PVY4", "QDZ8", "QDZ9", "QHZ3", "QHZ4", "SSZ3")
SHIFTS = (
    "PHX1",
    "PHX2",
    "PVX1",
    "PVX2",
    "PHY1",
    "PHY2",
    "PVY1",
    "PVY2",
    "RHX1",
    "RHY1",
    "RHY2",
    "QHZ1",
    "QHZ2",
    "QDZ6",
)


def coefficient_set(values, side="LEFT", mode=""):
    return tyre_vector(parse_tir(written(values, side, mode), "set")), dict(parse_tir(written(values), "set").values)


# all coefficient sets: the vector that kernels read, the coefficients, and whether it is measured on the other side
SETS = {
    "shipped": (tyre_vector(read_tir(SHIPPED)), dict(read_tir(SHIPPED).values), False),
    "every coefficient": (*coefficient_set(FULL), False),
    "the needed coefficients alone": (*coefficient_set(LEAST), False),
    "combined slip far outside the ellipse": (*coefficient_set(WIDE), False),
    "measured on the right": (*coefficient_set(FULL, "RIGHT"), True),
    "mirrored by USE_MODE -14": (*coefficient_set(FULL, mode="-14"), True),
    "mirrored twice": (*coefficient_set(WIDE, "RIGHT", "-4"), False),
    "without camber in PKY3, PHY3, PVY3, QDZ8": (*coefficient_set(FULL | dict.fromkeys(CAMBER, 0.0)), False),
    "without shifts": (*coefficient_set(FULL | dict.fromkeys(SHIFTS, 0.0)), False),
    "without relaxation": (*coefficient_set(FULL | {"PTX1": 0.0, "PTY1": 0.0}, mode="4"), False),
}


def second(name, *state, **more):
    _, c, other_side = SETS[name]
    return (mirrored if other_side else published)(c, *state, **more)


def worst(found, expected, fz):
    """The largest difference, as a share of the load (moments: at a third of a metre)."""
    scales = (fz, fz, 0.3 * fz, 0.3 * fz, 0.3 * fz)
    return max(abs(a - b) / scale for a, b, scale in zip(found, expected, scales, strict=True))


def grid(c):
    """4725 states: load, kappa, tan(alpha), camber."""
    for fz in np.array([0.4, 0.8, 1.0, 1.5, 1.9]) * c["FNOMIN"]:
        for kappa in np.linspace(-0.5, 0.5, 21):
            for alpha in np.linspace(-0.35, 0.35, 15):
                for gamma in (-0.1, 0.0, 0.1):
                    yield float(fz), float(kappa), math.tan(alpha), gamma


def over_the_grid(name, turning=False):
    """Worst difference over the grid, and how many states were outside the ellipse."""
    p, c, _ = SETS[name]
    outside, most = 0, 0.0
    for n, (fz, kappa, ta, gamma) in enumerate(grid(c)):
        u = (20.0, -20.0)[n % 7 == 0]
        phi = (-3.0, -0.1, 0.004, 0.5, 40.0)[n % 5] if turning else None
        *expected, inside = second(name, fz, kappa, ta, gamma, direction=math.copysign(1.0, u), speed=abs(u), phi_t=phi)
        state = (fz, kappa, ta, gamma, 1.0, 1.0, u)
        found = steady_turning(p, *state, phi) if turning else steady(p, *state)
        most = max(most, worst(found, expected, fz))
        outside += not inside
    return most, outside


TURNING = [name for name in SETS if "needed" not in name and "PKY3" not in name]  # QDZ8 < 0
