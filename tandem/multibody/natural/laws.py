"""Inputs that follow a law of time, for compiled code."""

from math import cos, sin

from sync.compile.jit import inner
from tandem.multibody.natural.tables import HARMONIC, POLYNOMIAL, RATE, SECOND, SMOOTH_STEP, VALUE


@inner
def follow_law(kind, a, b, c, d, t, out):
    """Value, rate and second derivative at t; of an input that is set from outside, what was set."""
    if kind == POLYNOMIAL:  # a + b t + c t^2 + d t^3
        out[VALUE] = a + t * (b + t * (c + t * d))
        out[RATE] = b + t * (2.0 * c + t * 3.0 * d)
        out[SECOND] = 2.0 * c + 6.0 * d * t
    elif kind == HARMONIC:  # a + b sin(c t + d)
        out[VALUE] = a + b * sin(c * t + d)
        out[RATE] = b * c * cos(c * t + d)
        out[SECOND] = -b * c * c * sin(c * t + d)
    elif kind == SMOOTH_STEP:  # from a to b between c and d, with continuous second derivative
        x = min(max((t - c) / (d - c), 0.0), 1.0)
        out[VALUE] = a + (b - a) * x * x * x * (10.0 + x * (6.0 * x - 15.0))
        out[RATE] = (b - a) / (d - c) * 30.0 * x * x * (1.0 - x) * (1.0 - x)
        out[SECOND] = (b - a) / (d - c) ** 2 * 60.0 * x * (1.0 - x) * (1.0 - 2.0 * x)
