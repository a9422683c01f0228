"""Geometry and numbers of the grand action, G1 of the digest: the phase model's, and where they hold the multibody's.

Symbols are the source's: q1 key, q2 hammer, q3 repetition lever, q5 whippen, q6 jack, q7 and q9 its sliders. What is a
reconstruction: docs/piano.md.
"""

import math

# pose at rest, rad and m (table 3.5)
Q1, Q2, Q3, Q5, Q6 = -0.03473, -0.35622, -0.38572, -0.03684, -0.389557
Q7, Q9 = 0.06223, 0.01649
STOP = Q6 - Q5  # of the jack on the whippen
# lengths, m (table 3.3, by size)
FRONT, CAPSTAN, CAPSTAN_HEIGHT = 0.2286, 0.126, 0.0262
WHIPPEN, JACK, TOE, KNUCKLE, SHANK = 0.0988, 0.0508, 0.0508, 0.0117, 0.0922
# reconstructed, m
KEY_GYRATION, KEY_CENTRE = 0.06, 0.084
LEVER_BACK, LEVER_HEIGHT, LEVER, LEVER_BED, LEVER_OFFSET = 0.05, 0.03, 0.05, 0.05, 0.0067249
BUTTON = 0.0466488
GRAVITY = 9.81


def _ground() -> tuple[complex, complex]:
    """Pivots of whippen and hammer, by the loops at rest."""
    i, e = 1j, lambda a: complex(math.cos(a), math.sin(a))
    whippen = (CAPSTAN + i * CAPSTAN_HEIGHT) * e(Q1) + Q7 * e(Q5)
    joint = whippen - WHIPPEN * e(Q5)
    return whippen, joint + i * JACK * e(Q6) + i * KNUCKLE * e(Q2) - Q9 * e(Q2)


_P2, _P3 = _ground()
P2X, P2Y, P3X, P3Y = _P2.real, _P2.imag, _P3.real, _P3.imag
REST_SPREAD = Q3 - Q5  # of lever and whippen

# what it is made of, name, unit, value, low, high, text: parameters of the machine, in this order
PARAMETERS = (
    ("coupler_stiffness", "N m/rad", 200.0, 0.0, 1e4, "k1, from the measured key to the virtual one"),
    ("coupler_damping", "N m s/rad", 0.82, 0.0, 10.0, "b1, likewise"),
    ("bed_stiffness", "N m/rad", 80.0, 0.0, 1e4, "k2, of both ends of the key's travel"),
    ("lever_contact", "N/m", 600.0, 0.0, 1e5, "k3, between repetition lever and hammer"),
    ("jack_contact", "N/m", 2000.0, 0.0, 1e5, "k4, between jack and knuckle"),
    ("lever_spring", "N m/rad", 0.35, 0.0, 10.0, "k5, the repetition spring"),
    ("lever_bed", "N/m", 600.0, 0.0, 1e5, "k6, of the stop of the repetition lever"),
    ("jack_damping", "N s/m", 0.2, 0.0, 100.0, "b4, between jack and knuckle"),
    ("lever_damping", "N m s/rad", 0.06, 0.0, 1.0, "b5, of the repetition lever"),
    ("hammer_damping", "N m s/rad", 0.001, 0.0, 1.0, "b7, of the hammer's pivot"),
    ("knuckle_damping", "N s/m", 8.0, 0.0, 1e3, "b8, of the jack's head along the knuckle"),
    ("hammer_mass", "kg", 0.014, 0.001, 0.1, "m1"),
    ("key_mass", "kg", 0.12, 0.01, 1.0, "m2"),
    ("lever_mass", "kg", 0.01, 0.002, 0.1, "m3"),
    ("jack_mass", "kg", 0.05, 0.002, 0.5, "m4"),
    ("spring_preload", "N m", 0.03, 0.0, 0.5, "of the repetition spring"),
    ("let_off", "m", 0.0, -2e-3, 2e-3, "how much higher than usual the let-off button is"),
    ("knuckle_edge", "m", 0.011, 0.0, 0.05, "q9 at which the jack's head is off the knuckle"),
    ("reset_tolerance", "m", 2e-4, 1e-6, 2e-3, "of q4, within which the jack is below the knuckle again"),
    ("key_up", "rad", -0.035, -0.05, 0.0, "where the key's travel ends above"),
    ("key_down", "rad", 0.0, -0.03, 0.02, "where it ends below"),
    ("restitution", "1", 1.0, 0.0, 1.0, "of the string"),
    ("repair", "1", 1.0, 0.0, 1.0, "1: the two ways that the source's table leaves out are there"),
)
