"""A tyre in steady rolling, and its heights: what studies and reports ask of it, one state at a time.

What is called _6 takes an inflation pressure (0: that of the vector) and is for MF 6 alone; the rest is for any file.
"""

from numba import boolean, float64, types

from sync.compile.array_types import CONSTANTS
from sync.compile.jit import kernel
from tandem.machines.car.tyres import formula
from tandem.machines.car.tyres.keys import T
from tandem.machines.car.tyres.magic_formula import OPTIONS, clip
from tandem.machines.car.tyres.magic_formula_6 import (
    departure,
    evaluate_6,
    free_radius,
    normal_load,
    peaks_6,
    relaxation_6,
    rolling_radius_6,
)

COMPILED_ON_REQUEST = True  # see sync/compile/build.py


@kernel(types.UniTuple(float64, 5)(CONSTANTS, *[float64] * 7), **OPTIONS)
def steady(p, fz, kappa, ta, gamma, mu, side, u):
    """Fx, Fy, Mx, My, Mz in steady rolling straight ahead."""
    Fx, Fy, Mx, My, Mz, _, _ = formula.evaluate(p, fz, kappa, ta, gamma, mu, side, u, p[T.TURN_SLIP] > 0.0, 0.0)
    return Fx, Fy, Mx, My, Mz


@kernel(types.UniTuple(float64, 5)(CONSTANTS, *[float64] * 8), **OPTIONS)
def steady_turning(p, fz, kappa, ta, gamma, mu, side, u, phi):
    """The same with turn slip phi = psi' / |V|, 1/m, whatever the file asks for."""
    Fx, Fy, Mx, My, Mz, _, _ = formula.evaluate(p, fz, kappa, ta, gamma, mu, side, u, True, phi)
    return Fx, Fy, Mx, My, Mz


@kernel(types.UniTuple(float64, 4)(CONSTANTS, *[float64] * 3), **OPTIONS)
def capacity(p, f, g, mu):
    """Peak forces Dx, Dy and slip stiffnesses Kx > 0, Ky < 0 at a load f within the file's range and camber g."""
    return formula.peaks(p, f, g, mu)


@kernel(types.UniTuple(float64, 2)(CONSTANTS, *[float64] * 2), **OPTIONS)
def relaxation(p, f, g):
    """Relaxation lengths at a load f within the file's range and camber g."""
    return formula.relaxation(p, f, g)


@kernel(float64(CONSTANTS, float64), **OPTIONS)
def effective_radius(p, load):
    """Rolling radius r_e = v_x / omega of the free wheel under a load, slowly."""
    return formula.rolling_radius(p, load / p[T.VERTICAL_STIFFNESS], load, 0.0)


@kernel(float64(CONSTANTS), **OPTIONS)
def stiffness(p):
    """Of the vertical spring at the nominal load, N/m."""
    return formula.stiffness(p)


@kernel(types.UniTuple(float64, 5)(CONSTANTS, *[float64] * 7, boolean, float64, float64), **OPTIONS)
def steady_6(p, fz, kappa, ta, gamma, mu, side, u, turning, phi, pressure):
    """Fx, Fy, Mx, My, Mz in steady rolling at an inflation pressure (0: the file's); with turn slip where `turning`."""
    dpi = departure(p, pressure)
    Fx, Fy, Mx, My, Mz, _, _ = evaluate_6(p, fz, kappa, ta, gamma, mu, side, u, turning, phi, dpi)
    return Fx, Fy, Mx, My, Mz


@kernel(float64(CONSTANTS, *[float64] * 6), **OPTIONS)
def load_at(p, radius, omega, gamma, Fx, Fy, pressure):
    return normal_load(p, radius, omega, gamma, Fx, Fy, departure(p, pressure))


@kernel(types.UniTuple(float64, 5)(CONSTANTS, *[float64] * 6), **OPTIONS)
def heights(p, load, omega, gamma, Fx, Fy, pressure):
    """Free, loaded and rolling radius, and both relaxation lengths, at a load."""
    dpi = departure(p, pressure)
    high = free_radius(p, omega)
    low = 0.5 * high
    for _ in range(60):
        middle = 0.5 * (low + high)
        if normal_load(p, middle, omega, gamma, Fx, Fy, dpi) > load:
            low = middle
        else:
            high = middle
    f = clip(load, p[T.LOW_LOAD], p[T.HIGH_LOAD])
    sx, sy = relaxation_6(p, f, clip(gamma, p[T.CAMMIN], p[T.CAMMAX]), dpi)
    return free_radius(p, omega), 0.5 * (low + high), rolling_radius_6(p, load, omega, dpi), sx, sy


@kernel(types.UniTuple(float64, 4)(CONSTANTS, *[float64] * 4), **OPTIONS)
def capacity_6(p, f, g, mu, pressure):
    """As `capacity` of magic_formula.py."""
    return peaks_6(p, f, g, departure(p, pressure), mu)
