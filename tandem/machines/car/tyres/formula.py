"""The Magic Formula that a tyre's file asks for: MF 5.2 and PAC2002 (magic_formula.py), or MF 6.1 and 6.2
(magic_formula_6.py), at the inflation pressure in its vector.

Functions are those of magic_formula.py by name. What a car in relative coordinates does, whose laws have derivatives,
knows MF 5.2 alone.
"""

from sync.compile.jit import inner
from tandem.machines.car.tyres import magic_formula as five
from tandem.machines.car.tyres import magic_formula_6 as six
from tandem.machines.car.tyres.keys import T


@inner
def evaluate(p, fz, kappa, ta, gamma, mu, side, u, turning, phi):
    if p[T.VERSION] > 0.0:
        return six.evaluate_6(p, fz, kappa, ta, gamma, mu, side, u, turning, phi, six.departure(p, 0.0))
    return five.evaluate(p, fz, kappa, ta, gamma, mu, side, u, turning, phi)


@inner
def peaks(p, f, g, mu):
    if p[T.VERSION] > 0.0:
        return six.peaks_6(p, f, g, six.departure(p, 0.0), mu)
    return five.peaks(p, f, g, mu)


@inner
def relaxation(p, f, g):
    if p[T.VERSION] > 0.0:
        return six.relaxation_6(p, f, g, six.departure(p, 0.0))
    return five.relaxation(p, f, g)


@inner
def free_radius(p, omega):
    """Of the tyre that touches nothing."""
    return six.free_radius(p, omega) if p[T.VERSION] > 0.0 else p[T.UNLOADED_RADIUS]


@inner
def rolling_radius(p, deflection, load, omega):
    """r_e = v_x / omega of the free wheel: by its deflection, or as MF 6 has it by its load."""
    if p[T.VERSION] > 0.0:
        return six.rolling_radius_6(p, load, omega, six.departure(p, 0.0))
    return five.rolling_radius(p, deflection)


@inner
def stiffness(p):
    """Of the vertical spring at the nominal load."""
    if p[T.VERSION] > 0.0:
        return p[T.VERTICAL_STIFFNESS] * max(1.0 + p[T.PFZ1] * six.departure(p, 0.0), five.LEAST_FACTOR)
    return p[T.VERTICAL_STIFFNESS]


@inner
def spring(p, deflection, omega):
    """Force of the vertical spring, its stiffness and the energy in it; a stretched one of MF 5.2 pulls."""
    if p[T.VERSION] > 0.0:
        return six.pressed(p, deflection, omega, six.departure(p, 0.0))
    k, d = p[T.VERTICAL_STIFFNESS], max(deflection, 0.0)
    return k * deflection, k, 0.5 * k * d * d
