"""The resistance of fluids beside closed forms: `python -m verify drag`.

A ball that falls in air reaches v = V tanh(g t / V), V^2 = 2 m g / (c A rho), after V^2 / g log cosh(g t / V); one in
oil V (1 - exp(-g t / V)), V = m g / linear; one thrown level without weight goes m / k log(1 + k v t / m); and one that
falls with both laws at once passes between, at the root of its speed's quadratic. In both formulations.
"""

import math
from collections.abc import Iterator

import numpy as np

from tandem.multibody.natural.api import Mechanism
from verify.measure import Row, at_most
from verify.multibody.references.one_freedom import GRAVITY
from verify.multibody.rolling import WAYS, simulated

MASS, LIMITS = 0.15, {"i3al": 1e-4, "projection": 1e-7, "rodas4": 1e-9, "rk4": 1e-9}
AIR = {"coefficient": 0.47, "area": math.pi * 0.037**2, "density": 1.204}
GROWTH = 0.5 * AIR["coefficient"] * AIR["area"] * AIR["density"]


def falling(weight: float = GRAVITY, **options: float) -> Mechanism:
    m = Mechanism(2, (0.0, -weight))
    body = m.body("ball", [m.point("P", (0, 0)), m.vector("u", (1, 0))], MASS, (0.0, 0.0), 0.4 * MASS * 0.037**2)
    m.drag("fluid", body, **options)
    return m


def drag() -> Iterator[Row]:
    V = math.sqrt(MASS * GRAVITY / GROWTH)
    for way in WAYS:
        record = simulated(falling(**AIR), way, 10.0, 1e-2)
        s = GRAVITY * record.t / V
        speed = np.abs(-record.qd[:, 1] - V * np.tanh(s)).max()
        yield at_most(f"ball in air, {way}: speed off by", speed, LIMITS[way], "m/s")
        way_down = np.abs(-record["P"][:, 1] - V**2 / GRAVITY * np.log(np.cosh(s))).max()
        yield at_most(f"ball in air, {way}: way off by", way_down, 10.0 * LIMITS[way], "m")
    record, k = simulated(falling(linear=0.6), "rodas4", 2.0, 1e-2), 0.6
    V = MASS * GRAVITY / k
    speed = np.abs(-record.qd[:, 1] - V * (1.0 - np.exp(-GRAVITY * record.t / V))).max()
    yield at_most("ball in oil, rodas4: speed off by", speed, 1e-8, "m/s")
    record = simulated(falling(weight=0.0, **AIR), "rodas4", 5.0, 1e-2, P=(24.0, 18.0), u=(0.0, 0.0))
    far = MASS / GROWTH * np.log1p(GROWTH * 30.0 * record.t / MASS)
    off = np.abs(record["P"] - far[:, None] * [0.8, 0.6]).max()
    yield at_most("ball thrown without weight, rodas4: place off by", off, 1e-8, "m")
    record = simulated(falling(linear=0.05, **AIR), "rodas4", 90.0, 1e-2)
    both = (-0.05 + math.sqrt(0.05**2 + 4.0 * GROWTH * MASS * GRAVITY)) / (2.0 * GROWTH)
    yield at_most("both laws, rodas4: last speed off by", abs(-record.qd[-1, 1] - both), 1e-9, "m/s")
