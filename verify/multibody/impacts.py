"""Impacts beside closed forms and independent solutions: `python -m verify mechanism-impacts`.

A ball that bounces (the instants of its bounces, where it comes to rest); a disc thrown at the floor that grips, and
one that slips; a rod that lands on one end; a block that slides to a stop; two balls; a double pendulum that strikes a
wall (beside Lagrange's equations in angles, integrated and stopped at the wall by themselves); a parallelogram
that turns through its singular positions and off a stop; a slider-crank whose piston pin has clearance (these three are
files of configs/mechanisms/impacts). Of each: what the form says, and the books of energy and momentum over the run.
"""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tandem.mechanism.columns import energies
from tandem.mechanism.run import load
from tandem.multibody.natural.api import Mechanism, Record, Scheme, Settings, momentum, run, start
from tandem.multibody.natural.impact_tables import (
    C_IMPACTS,
    C_LOST,
    C_MISSED,
    C_RESTED,
    E_ACROSS_1,
    E_AFTER,
    E_BEFORE,
    E_LOST,
    E_NORMAL,
    E_TIME,
    E_Y,
)
from verify.measure import Row, at_least, at_most, equal
from verify.multibody.references import chains

FOLDER = Path(__file__).resolve().parents[2] / "configs" / "mechanisms" / "impacts"
G = 9.81
EXACT, NEAR = 1e-9, 1e-6


def simulated(m: Mechanism, seconds: float, h: float, scheme: Scheme = Scheme.PROJECTION, **rates: Any) -> Record:
    state = m.compile(h=h, settings=Settings(scheme=scheme)).state()
    return run(start(state, rates=rates), seconds, strict=False)


def shipped(name: str, **chosen: Any) -> Record:
    """A file of configs/mechanisms/impacts, as it stands or with other entries of [run]."""
    described, state = load(FOLDER / f"{name}.toml", **chosen)
    return run(state, described.file.run.seconds, strict=False)


def spin_about(record: Record, k: int) -> float:
    """The moment of momentum about the origin, at a kept instant."""
    return float(momentum(record.state(k))[1][0])


def book(record: Record) -> float:
    """What is missing in the book of energy at the end, as a share of its largest change."""
    energy = energies(record)
    lost = record.counts[C_LOST] + record.counts[C_RESTED]
    return float(abs(energy[0] - energy[-1] - lost) / np.ptp(energy))


def disc(place: tuple[float, float], mass: float = 2.0, radius: float = 0.1, **impact: float) -> Mechanism:
    m = Mechanism(2)
    p, u = m.point("P", place), m.vector("u", (1.0, 0.0))
    body = m.body("disc", [p, u], mass, place, 0.5 * mass * radius**2)
    m.impact("hit", m.sphere("skin", body, place, radius), m.plane("floor", None, (0, 0), (0, 1)), **impact)
    return m


def ball() -> Iterator[Row]:
    e, fall = 0.7, 0.8
    record = simulated(disc((0.0, 0.1 + fall), restitution=e), 4.0, 5e-3)
    first, speed = math.sqrt(2.0 * fall / G), math.sqrt(2.0 * fall * G)
    n = np.arange(8)
    flights = first + 2.0 * speed / G * (e - e ** (n + 1.0)) / (1.0 - e)
    yield at_most("ball: instants of 8 bounces off by", np.abs(record.impacts[:8, E_TIME] - flights).max(), EXACT, "s")
    lost = 2.0 * G * fall * (1.0 - e**16)
    yield at_most("ball: energy lost in 8 bounces off by", abs(record.impacts[:8, E_LOST].sum() - lost), EXACT, "J")
    slow = int(np.ceil(math.log(0.01 / speed) / math.log(e)))  # the first bounce that is too slow to be one
    yield equal("ball: bounces before it lies", record.counts[C_IMPACTS], slow)
    at_rest = max(abs(record["P"][-1, 1] - 0.1), abs(record.qd[-1]).max())
    yield at_most("ball: at rest on the floor to", at_rest, NEAR, "m, m/s")
    yield at_most("ball: book of energy, of what moved", book(record), NEAR)


def throws() -> Iterator[Row]:
    """Momentum along the floor and spin: it rolls off where it grips, and takes mu (1 + e) m v where it slips."""
    e, fall, along = 0.5, 0.5, 1.5
    speed = math.sqrt(2.0 * G * fall)
    for name, friction in (("grips", 0.8), ("slips", 0.05)):
        record = simulated(disc((0.0, 0.1 + fall), restitution=e, friction=friction), 0.45, 5e-3, P=(along, 0.0))
        p = min(friction * (1.0 + e) * 2.0 * speed, 2.0 * along / 3.0)  # m v / (1 + m r^2 / I), I = m r^2 / 2
        row = record.impacts[0]
        yield at_most(f"disc that {name}: impulse along the floor off by", abs(abs(row[E_ACROSS_1]) - p), EXACT, "N s")
        spin = record["u"][-1, 0] * record.qd[-1, 3] - record["u"][-1, 1] * record.qd[-1, 2]
        yield at_most(f"disc that {name}: spin off by", abs(abs(spin) - p * 0.1 / 0.01), NEAR, "rad/s")
        yield at_most(
            f"disc that {name}: book of momentum", abs(record.qd[-1, 0] * 2.0 - (2.0 * along - p)), EXACT, "N s"
        )
        yield at_most(f"disc that {name}: book of energy, of what moved", book(record), NEAR)


def rod() -> Iterator[Row]:
    """A rod at an angle lands on one end: p = (1 + e) v / (1/m + (a cos)^2 / I)."""
    mass, long, angle, e, high = 3.0, 1.0, 0.6, 0.4, 1.0
    half = 0.5 * long * np.array([math.cos(angle), math.sin(angle)])
    m = Mechanism(2)
    a, b = m.point("A", np.array([0.0, high]) - half), m.point("B", np.array([0.0, high]) + half)
    body = m.bar("rod", a, b, mass)
    m.impact("hit", m.capsule("skin", body, (m.where(a), m.where(b)), 0.0), m.plane("floor", None, (0, 0), (0, 1)), e)
    record = simulated(m, 0.45, 2e-3)
    speed = math.sqrt(2.0 * G * (high - half[1]))
    p = (1.0 + e) * speed / (1.0 / mass + half[0] ** 2 / (mass * long**2 / 12.0))
    yield at_most("rod: impulse at the end it lands on off by", abs(record.impacts[0, E_NORMAL] - p), NEAR, "N s")
    yield at_most("rod: book of energy, of what moved", book(record), NEAR)


def block() -> Iterator[Row]:
    """A box that slides to a stop after v^2 / 2 mu g, and stands."""
    m = Mechanism(2)
    p, u = m.point("P", (0.0, 0.05)), m.vector("u", (1.0, 0.0))
    body = m.body("box", [p, u], 4.0, (0.0, 0.05), 4.0 * (0.4**2 + 0.1**2) / 12.0)
    m.impact("rub", m.box("skin", body, (0.0, 0.05), (0.4, 0.1)), m.plane("floor", None, (0, 0), (0, 1)), friction=0.3)
    speed, h = 2.0, 1e-3
    record = simulated(m, 1.0, h, Scheme.I3AL, P=(speed, 0.0), u=(0.0, 0.0))
    # the last step of sliding is cut short: the way is that of the form to half a step at the last step's speed
    yield at_most("block: way to the stop off by", abs(record["P"][-1, 0] - speed**2 / (2.0 * 0.3 * G)), speed * h, "m")
    yield at_most("block: moves at the end by", np.abs(record.qd[-1]).max(), NEAR, "m/s")
    lost = record.counts[C_LOST] + record.counts[C_RESTED]
    yield at_most("block: what friction took off by", abs(lost - 0.5 * 4.0 * speed**2), NEAR, "J")
    yield at_most("block: in the floor by", float(-(record["P"][:, 1] - 0.05).min()), NEAR, "m")


def balls() -> Iterator[Row]:
    """Two balls in space, not head on: momentum and energy along the line of their centres."""
    m = Mechanism(3, (0.0, 0.0, 0.0))
    a, b = m.point("A", (0.0, 0.0, 0.0)), m.point("B", (1.0, 0.15, 0.05))
    m.particle("a", a, 1.0)
    m.particle("b", b, 3.0)
    m.impact("hit", m.sphere("sa", a, (), 0.1), m.sphere("sb", b, (), 0.2), 0.6)
    record = simulated(m, 1.0, 1e-2, A=(2.0, 0.0, 0.0), B=(0.0, 0.0, 0.0))
    away = np.array([1.0, 0.15, 0.05])
    t = (1.0 - math.sqrt(0.3**2 - 0.15**2 - 0.05**2)) / 2.0
    n = (away - np.array([2.0 * t, 0.0, 0.0])) / 0.3
    p = (1.0 + 0.6) * 2.0 * n[0] / (1.0 + 1.0 / 3.0)
    wanted = np.concatenate([np.array([2.0, 0.0, 0.0]) - p * n, p * n / 3.0])
    yield at_most("two balls: instant off by", abs(record.impacts[0, E_TIME] - t), EXACT, "s")
    yield at_most("two balls: velocities afterwards off by", np.abs(record.qd[-1] - wanted).max(), EXACT, "m/s")


def double_pendulum() -> Iterator[Row]:
    """The tip strikes a wall: beside Lagrange's equations in angles, with M^-1 g by hand."""
    length, mass, wall, e = 0.5, 1.0, 0.3, 0.6
    phi, rate = np.array([-2.4, -2.0]), np.zeros(2)
    record = shipped("double_pendulum")
    yield at_least("double pendulum: impacts", record.counts[C_IMPACTS], 2)
    t, instants, after = 0.0, [], []
    for _ in range(2):
        t, phi, rate = _to_the_wall(t, phi, rate, length, mass, wall)
        instants.append(t)
        gradient = length * np.array([np.sin(phi[0]), np.sin(phi[1])])  # of the gap, wall - x
        M = mass * length**2 * np.array([[4.0 / 3.0, 0.5 * np.cos(phi[0] - phi[1])], [0.0, 1.0 / 3.0]])
        M[1, 0] = M[0, 1]
        y = np.linalg.solve(M, gradient)
        rate = rate - (1.0 + e) * (gradient @ rate) / (gradient @ y) * y
        after.append(gradient @ rate)
    yield at_most(
        "double pendulum: two instants off by", np.abs(record.impacts[:2, E_TIME] - instants).max(), NEAR, "s"
    )
    yield at_most(
        "double pendulum: speeds off the wall by", np.abs(record.impacts[:2, E_AFTER] - after).max(), NEAR, "m/s"
    )
    missed = np.abs(record.impacts[:, E_AFTER] + e * record.impacts[:, E_BEFORE]).max()
    yield at_most("double pendulum: restitution off by", missed, EXACT, "m/s")
    yield at_most("double pendulum: book of energy, of what moved", book(record), NEAR)
    # moment of momentum about the hinge: of the weights, and of what the wall gives
    arms = np.array([record.values(body.centre)[:, 0] for body in record.system.mechanism.bodies.values()])
    weight = -mass * G * arms.sum(axis=0)
    impulses = -record.impacts[:, E_NORMAL] * -record.impacts[:, E_Y]
    left = spin_about(record, -1) - spin_about(record, 0) - np.trapezoid(weight, record.t) - impulses.sum()
    yield at_most("double pendulum: book of the moment of momentum", abs(left), 1e-5, "N m s")
    i3al = shipped("double_pendulum", scheme="i3al")
    yield at_most(
        "double pendulum: i3al, two instants off by", np.abs(i3al.impacts[:2, E_TIME] - instants).max(), 1e-3, "s"
    )


def _to_the_wall(
    t: float, phi: np.ndarray, rate: np.ndarray, length: float, mass: float, wall: float
) -> tuple[float, np.ndarray, np.ndarray]:
    """On to where the tip is at the wall: strides, then the secant rule."""

    def after(seconds: float) -> tuple[np.ndarray, np.ndarray, float]:
        p, w = chains.motion(phi, rate, np.array([0.0, seconds]), length, mass)
        return p[-1], w[-1], wall - float(chains.joints(p[-1], length)[-1, 0])

    low, high = 1e-3, 2e-3
    while after(high)[2] > 0.0:
        low, high = high, high + 2e-3
    f, g = after(low)[2], after(high)[2]
    for _ in range(60):
        s = high - g * (high - low) / (g - f)
        low, f, high, g = high, g, s, after(s)[2]
        if abs(g) < 1e-14 or g == f:
            break
    p, w, _ = after(high)
    return t + high, p, w


def parallelogram() -> Iterator[Row]:
    """Without weight it turns at a constant rate, also through the positions in which it lies flat; a stop turns it
    back, and it passes them again."""
    rate, long = 5.0, 0.4
    record = shipped("four_bar")  # the stop is met from above after 110 degrees, by a pin on the crank
    t = record.t
    turn = math.radians(110.0) / rate
    angle = np.where(t < turn, 0.5 * math.pi + rate * t, 0.5 * math.pi + rate * (2.0 * turn - t))
    wanted = long * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    yield equal("parallelogram: impacts", record.counts[C_IMPACTS], 1)
    yield at_most("parallelogram: instant of the stop off by", abs(record.impacts[0, E_TIME] - turn), 1e-5, "s")
    yield at_most("parallelogram: corner off by, twice through the flat", np.abs(record["A"] - wanted).max(), 1e-4, "m")
    yield at_most(
        "parallelogram: the other corner alike", np.abs(record["B"] - record["A"] - [1.0, 0.0]).max(), NEAR, "m"
    )
    # crank and rocker turn, the coupler follows: (1/3 + 1/3 + 2) m l^2, turned back by p l
    impulse = 2.0 * (8.0 / 3.0) * long * rate
    yield at_most("parallelogram: impulse of the stop off by", abs(record.impacts[0, E_NORMAL] - impulse), 1e-4, "N s")
    energy = energies(record)
    yield at_most("parallelogram: energy changes by, of all", np.abs(energy / energy[0] - 1.0).max(), 1e-4)


def clearance() -> Iterator[Row]:
    """A slider-crank, its piston pin loose in its bore by 0.1 mm to each side; and the same without clearance."""
    loose, crank, conrod, speed, e = 1e-4, 0.1, 0.3, 20.0, 0.4
    m = Mechanism(2, (0.0, 0.0))
    o, a = m.point("O", (0, 0), fixed=True), m.point("A", (0.0, crank))
    b = m.point("B", (math.sqrt(conrod**2 - crank**2), 0.0))
    m.bar("crank", o, a, 1.0)
    m.bar("conrod", a, b, 0.5)
    m.particle("piston", b, 0.8)
    m.slider("cylinder", b, (0, 0), (1, 0))
    ideal = simulated(m, 1.0, 2e-4, Scheme.I3AL, A=(-crank * speed, 0.0))
    record = shipped("slider_crank")
    off = np.linalg.norm(record["B"] - record["C"], axis=1)
    yield at_least("clearance: impacts in the bearing", record.counts[C_IMPACTS], 4)
    yield equal("clearance: impacts that were not located", record.counts[C_MISSED], 0)
    yield at_most("clearance: pin beyond its bore by", float(off.max() - loose), 0.01 * loose, "m")
    yield at_most("clearance: book of energy, of what there is", _of_all(record), 1e-4)
    # an impulse p that turns the approach v into e v takes p (1 - e) v / 2
    hard = record.impacts[record.impacts[:, E_BEFORE] < -0.01]
    off = np.abs(hard[:, E_LOST] + 0.5 * hard[:, E_NORMAL] * (1.0 - e) * hard[:, E_BEFORE]).max()
    yield at_most("clearance: what each impact loses, by its impulse, off by", off, EXACT, "J")
    angles = [np.unwrap(np.arctan2(r["A"][:, 1], r["A"][:, 0])) for r in (record, ideal)]
    # what it loses in the bearing slows it by no more than that share
    slack = 1.0 - math.sqrt(1.0 - (record.counts[C_LOST] + record.counts[C_RESTED]) / energies(record)[0])
    behind = abs(angles[0][-1] - angles[1][-1]) / (angles[1][-1] - angles[1][0])
    yield at_most("clearance: crank behind one without, of its way", behind, 1.2 * slack + 2.0 * loose / crank)


def _of_all(record: Record) -> float:
    energy = energies(record)
    return float(abs(energy[0] - energy[-1] - record.counts[C_LOST] - record.counts[C_RESTED]) / energy[0])


def impacts() -> Iterator[Row]:
    for example in (ball, throws, rod, block, balls, double_pendulum, parallelogram, clearance):
        yield from example()
