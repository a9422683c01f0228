"""Speeds that stay 0 beside closed forms: `python -m verify rolling`.

Chaplygin's sleigh; a disc that rolls in a circle with constant lean; the same disc thrown so that it wobbles, beside
its equations in seven variables; a sphere that spins on a slope; a disc of the plane on a slope. In natural coordinates
(I3AL and projection) and in relative ones (Rosenbrock and Runge-Kutta).
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from tandem.mechanism.columns import energies
from tandem.multibody.natural.api import Mechanism, Record, Scheme, Settings, run, start
from tandem.multibody.relative.run import Runner
from verify.measure import Row, at_least, at_most
from verify.multibody.references.one_freedom import GRAVITY
from verify.multibody.references.rolling import Disc, sleigh

WAYS = ("i3al", "projection", "rodas4", "rk4")
COIN = Disc(mass=0.3, radius=0.1, across=0.25 * 0.3 * 0.1**2, axle=0.5 * 0.3 * 0.1**2)
LEAN, TURN = math.radians(70.0), 4.0  # of the axle to the normal; rad/s about it


def simulated(m: Mechanism, way: str, seconds: float, h: float, **rates: Any) -> Record:
    natural = {"i3al": Scheme.I3AL, "projection": Scheme.PROJECTION}
    state = start(m.compile(h=h, settings=Settings(scheme=natural.get(way, Scheme.I3AL))).state(), rates=rates)
    return run(state, seconds, strict=False) if way in natural else Runner(state, way).run(seconds, h)


def sledge() -> Mechanism:
    m = Mechanism(2, (0.0, 0.0))
    body = m.body("sleigh", [m.point("P", (0, 0)), m.vector("u", (1, 0))], 2.0, (0.25, 0.0), 0.15)
    m.knife_edge("edge", body, (0.0, 0.0), (0.0, 1.0))
    return m


def coin(lean: float) -> Mechanism:
    """On its edge, the middle above the origin; e1 of the reference is -u, e2 is -v, e3 is w."""
    s, c = math.sin(lean), math.cos(lean)
    m = Mechanism(3)
    at = np.array([0.0, 0.0, COIN.radius * s])
    w, v = np.array([0.0, s, c]), np.array([0.0, c, -s])
    nodes = [m.point("P", at), m.vector("u", (1, 0, 0)), m.vector("v", v), m.vector("w", w)]
    J = COIN.across * np.eye(3) + (COIN.axle - COIN.across) * np.outer(w, w)
    m.rolling("floor", m.body("coin", nodes, COIN.mass, at, J), at, COIN.radius, (0, 0, 0), (0, 0, 1), w)
    return m


def turning(m: Mechanism, omega: np.ndarray) -> dict[str, np.ndarray]:
    return {name: np.cross(omega, m.where(m.nodes[name])) for name in "uvw"}


def of_coin(lean: float, b: float, turn: float, n: float) -> np.ndarray:
    """Angular velocity b e1 + turn sin(lean) e2 + n e3."""
    s, c = math.sin(lean), math.cos(lean)
    return np.array([-b, turn * s * -c + n * s, turn * s * s + n * c])


def chaplygin() -> Iterator[Row]:
    k, v, w, seconds = math.sqrt(0.15 / 2.0 + 0.25**2), 0.1, 2.0, 4.0
    limits = {"i3al": 2e-5, "projection": 1e-9, "rodas4": 1e-9, "rk4": 1e-9}
    for way in WAYS:
        record = simulated(sledge(), way, seconds, 2e-3, P=(v, 0.0), u=(0.0, w))
        speed, rate, heading, place = sleigh(0.25, k, v, w, record.t)
        off = np.abs(record["P"] - place).max()
        yield at_most(f"sleigh, {way}: place off by, in {seconds:g} s", off, limits[way], "m")
        found = np.arctan2(record["u"][-1, 1], record["u"][-1, 0])
        yield at_most(f"sleigh, {way}: heading off by", abs(np.angle(np.exp(1j * (found - heading[-1])))), limits[way])
        if way == "i3al":
            # what keeps the edge: m times the acceleration of the middle across, m (dw/dt a + v w)
            force = 2.0 * (-0.25 * speed * rate / k**2 * 0.25 + speed * rate)
            held = -record.lam[:, record.system.rows("edge")[0]]
            yield at_most("sleigh, i3al: force on the edge off by", np.abs(held - force).max(), 1e-4, "N")
            coarse = simulated(sledge(), way, seconds, 4e-3, P=(v, 0.0), u=(0.0, w))
            twice = np.abs(coarse["P"] - place[::2]).max()
            yield at_least("sleigh, i3al: order of the steps", math.log2(twice / off), 1.9)


def circle() -> Iterator[Row]:
    n = COIN.spin_of_circle(LEAN, TURN)
    radius, limits = abs(n) * COIN.radius / TURN, {"i3al": 2e-4, "projection": 1e-7, "rodas4": 1e-8, "rk4": 1e-8}
    for way in WAYS:
        m = coin(LEAN)
        record = simulated(m, way, 2.0 * math.pi / TURN, 1e-3, **turning(m, of_coin(LEAN, 0.0, TURN, n)))
        lean = np.degrees(np.arccos(record["w"][:, 2]) - LEAN)
        yield at_most(f"coin in a circle, {way}: lean changes by", np.abs(lean).max(), 10.0 * limits[way], "deg")
        # v = -n R e1 = n R (cos, sin) of the heading: a circle about (0, n R / turn)
        psi = TURN * record.t
        place = n * COIN.radius / TURN * np.stack([np.sin(psi), 1.0 - np.cos(psi)], axis=1)
        off = np.linalg.norm(record["P"][:, :2] - place, axis=1).max() / radius
        yield at_most(f"coin in a circle, {way}: off the circle by, of its radius", off, limits[way])


def wobble() -> Iterator[Row]:
    b, turn, n, seconds = 0.8, 2.0, -12.0, 2.0
    limits = {"i3al": 1e-4, "projection": 1e-6, "rodas4": 1e-6, "rk4": 1e-6}
    for way in WAYS:
        m = coin(LEAN)
        record = simulated(m, way, seconds, 1e-3, **turning(m, of_coin(LEAN, b, turn, n)))
        reference = COIN.motion(LEAN, b, turn, n, record.t)
        off = np.abs(record["P"][:, :2] - reference[:, 5:]).max()
        yield at_most(f"coin that wobbles, {way}: place off by", off, limits[way], "m")
        lean = np.abs(np.arccos(record["w"][:, 2]) - reference[:, 0]).max()
        yield at_most(f"coin that wobbles, {way}: lean off by", lean, 5.0 * limits[way])
        energy = energies(record)
        share = np.abs(energy - energy[0]).max() / energy[0]
        yield at_most(f"coin that wobbles, {way}: energy off by, of all", share, limits[way])


def slopes() -> Iterator[Row]:
    """A sphere rolls down at 5/7, a disc at 2/3 of what slides; a spin about the normal stays."""
    angle, R, h = math.radians(20.0), 0.05, 2e-3
    up3 = (-math.sin(angle), 0.0, math.cos(angle))
    for way in WAYS:
        m = Mechanism(3)
        at = R * np.array(up3)
        nodes = [m.point("P", at), *(m.vector(n, e) for n, e in zip("uvw", np.eye(3), strict=True))]
        ball = m.body("ball", nodes, 0.5, at, np.full(3, 0.4 * 0.5 * R**2))
        m.rolling("slope", ball, at, R, (0, 0, 0), up3)
        record = simulated(m, way, 1.0, h, **turning(m, 8.0 * np.array(up3)))
        down = -np.array([math.cos(angle), 0.0, math.sin(angle)])
        way_down = (record["P"] - at) @ down
        wanted = 0.5 * 5.0 / 7.0 * GRAVITY * math.sin(angle) * record.t**2
        limit = {"i3al": 1e-3, "projection": 1e-6}.get(way, 1e-9)
        yield at_most(f"spinning sphere on a slope, {way}: way off by", np.abs(way_down - wanted).max(), limit, "m")
    m = Mechanism(2)
    up2 = np.array([math.sin(angle), math.cos(angle)])
    body = m.body("disc", [m.point("P", R * up2), m.vector("u", (1, 0))], 0.5, R * up2, 0.5 * 0.5 * R**2)
    m.rolling("slope", body, R * up2, R, (0, 0), up2)
    record = simulated(m, "i3al", 1.0, h)
    way_down = (record["P"] - R * up2) @ np.array([math.cos(angle), -math.sin(angle)])
    wanted = GRAVITY * math.sin(angle) / 3.0 * record.t**2
    yield at_most("disc on a slope, i3al: way off by", np.abs(way_down - wanted).max(), 1e-3, "m")
    friction = record.lam[1:, record.system.rows("slope.slip1")[0]]
    off = np.abs(np.abs(friction) - 0.5 * GRAVITY * math.sin(angle) / 3.0).max()
    yield at_most("disc on a slope, i3al: friction off by", off, 1e-4, "N")


def rolling() -> Iterator[Row]:
    for example in (chaplygin, circle, wobble, slopes):
        yield from example()
