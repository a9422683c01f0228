"""Mechanisms with every kind of joint, small enough to know what their trees must be."""

import numpy as np

from tandem.multibody.natural.mechanism import Mechanism
from tandem.multibody.natural.motions import harmonic, polynomial

INERTIA = np.array([[0.3, 0.02, -0.01], [0.02, 0.4, 0.03], [-0.01, 0.03, 0.35]])


def box(m: Mechanism, name: str, at=(0.0, 0.0, 0.0), mass=1.0):
    """A body of its own point and vectors, apart from all others."""
    nodes = [m.point(f"{name}.o", at)] + [m.vector(f"{name}.{c}", e) for c, e in zip("xyz", np.eye(3), strict=True)]
    return m.body(name, nodes, mass, np.add(at, (0.1, 0.05, -0.02)), INERTIA)


def jointed(kind: str) -> Mechanism:
    """Two bodies in a row on joints of one kind, the first on the world."""
    m = Mechanism()
    one, two = box(m, "one", (0.1, 0.2, 0.3)), box(m, "two", (1.0, 0.3, 0.2), 2.0)
    for name, a, b, at in (("first", None, one, (0.0, 0.1, 0.2)), ("second", one, two, (0.6, 0.2, 0.1))):
        axis = (0.3, -0.4, 1.0)
        if kind == "spherical":
            m.spherical(name, at if a is None else a.at(at), b.at(at))
        elif kind == "universal":
            m.universal(name, a, b, at, axis, (1.0, 0.5, 0.1))
        elif kind == "weld":
            m.weld(name, a, b, at)
        elif kind == "slider":
            m.slider(name, b.at(at), at, axis, on=a)
        elif kind == "slot":
            if a is None:
                m.revolute(name, None, b, at, axis)
            else:
                m.slider(name, a.at(at), at, axis, on=b)
        else:
            getattr(m, kind)(name, a, b, at, axis)
    m.spring("spring", (0.0, 0.0, 0.0), two.at((1.1, 0.4, 0.1)), 100.0)
    m.torque("torque", two, world=(1.0, 2.0, 3.0), own=(0.1, 0.2, 0.3))
    return m


def planar_four_bar() -> Mechanism:
    m = Mechanism(dimension=2)
    A, D = m.point("A", (0, 0), fixed=True), m.point("D", (1.0, 0.1), fixed=True)
    B, C = m.point("B", (0.1, 0.3)), m.point("C", (0.9, 0.7))
    crank = m.bar("crank", A, B, 1.0)
    m.bar("coupler", B, C, 2.0)
    m.bar("rocker", D, C, 1.5)
    angle = m.angle("crank angle", None, crank, value=0.4)
    m.torsion("spring", angle, 5.0)
    m.particle("weight", m.bodies["coupler"].at((0.5, 0.5)), 0.7)
    return m


def planar_joints() -> Mechanism:
    """A slide, a pin in a slot of a body, and an angle against the world at the end of a chain."""
    m = Mechanism(dimension=2)
    cart = m.body("cart", [m.point("c", (0, 0)), m.vector("cx", (1, 0))], 2.0, (0.1, 0.0), 0.3)
    arm = m.body("arm", [m.point("a", (0.2, 0.1)), m.point("b", (1.0, 0.4))], 1.0, (0.5, 0.2), 0.1)
    plate = m.body("plate", [m.point("p", (1.5, 0.2)), m.vector("px", (0, 1))], 1.0, (1.4, 0.3), 0.1)
    m.prismatic("guide", None, cart, (0, 0), (1.0, 0.2))
    m.revolute("pin", cart, arm, (0.2, 0.1))
    m.slider("slot", arm.at((1.0, 0.4)), (1.0, 0.4), (0.5, 1.0), on=plate)
    flag = m.body("flag", [m.point("f", (0.1, 0.5)), m.vector("fx", (1, 0))], 0.4, (0.1, 0.6), 0.02)
    m.weld("pole", cart, flag, (0.1, 0.2))
    m.angle("lean", None, arm, value=-0.3)
    m.angle("against", arm, plate, value=0.1)
    return m


def driven_arm() -> Mechanism:
    """Two hinged bodies; an angle follows a law, another is geared to a flywheel, a rack is driven from outside."""
    m = Mechanism()
    one, two = box(m, "one"), box(m, "two", (1.0, 0.0, 0.0))
    m.revolute("shoulder", None, one, (0.0, 0.0, 0.0), (0.0, 0.0, 1.0))
    m.revolute("elbow", one, two, (0.5, 0.0, 0.0), (0.0, 1.0, 0.2))
    shoulder = m.angle("shoulder angle", None, one, (0.0, 0.0, 1.0), value=0.2)
    elbow = m.angle("elbow angle", one, two, (0.0, 1.0, 0.2))
    m.drive("hand", shoulder, harmonic(0.1, 2.0, 0.3, 0.2))
    m.gear("gear", m.scalar("flywheel", 0.5, inertia=0.02), elbow, 7.0)
    slide = m.point("slide", (1.2, 0.3, 0.1))
    m.particle("slide", slide, 0.5)
    m.rack("rack", slide, (1.1, 0.3, 0.1), (1.0, 0.0, 0.0), m.scalar("x", 0.1), on=two)
    m.drive("push", m.nodes["x"], polynomial(0.1, 0.2))
    m.friction("rub", elbow, 1.0, 0.1)
    return m


def gyroscope() -> Mechanism:
    """A rotor on a body that hangs on a ball joint."""
    m = Mechanism()
    frame = m.body(
        "frame",
        [m.point("pivot", (0, 0, 0), fixed=True)] + [m.vector(c, e) for c, e in zip("xyz", np.eye(3), strict=True)],
        1.0,
        (0.2, 0.0, 0.0),
        np.diag([0.01, 0.02, 0.02]),
    )
    spin = m.scalar("spin", 0.0)
    m.rotor("wheel", frame, (1.0, 0.2, 0.0), spin, 0.05)
    m.torque("motor", spin, world=0.3)
    return m


def particles() -> Mechanism:
    """Masses on rods and springs, one of them on a slider; a massless point between."""
    m = Mechanism()
    a, b, c = m.point("a", (1.0, 0.0, 0.1)), m.point("b", (1.5, 0.4, -0.2)), m.point("c", (0.0, 1.0, 0.0))
    for name, at in (("a", a), ("b", b), ("c", c)):
        m.particle(name, at, 0.5)
    m.rod("first", (0.0, 0.0, 0.0), a)
    m.rod("second", a, b)
    m.slider("line", c, (0.0, 1.0, 0.0), (1.0, 1.0, 0.0))
    m.rod("third", c, b, m.scalar("length", 1.7))
    m.spring("spring", b, c, 10.0)
    return m


def line_bodies() -> Mechanism:
    """Bars in space that cannot turn about themselves: a free one, one on its end, one on another."""
    m = Mechanism()
    a, b, c = m.point("a", (0.3, 0.2, 0.1)), m.point("b", (1.0, 0.5, 0.4)), m.point("c", (1.5, 0.4, 1.0))
    m.bar("first", a, b, 1.0)
    m.bar("second", b, c, 0.5)
    m.bar("third", m.point("o", (0, 0, 0), fixed=True), m.point("d", (0.5, -0.5, 0.2)), 0.7)
    m.spring("spring", c, m.nodes["d"], 10.0)
    return m


def hinges_of_places() -> Mechanism:
    """An arm on two places of a carriage that stands on its own vectors, turned about the arm that closes a loop."""
    m = Mechanism()
    car = box(m, "car", (0.2, 0.1, 0.5), 5.0)
    tip = m.point("tip", (0.5, 1.0, 0.4))
    hinge = [car.at((0.0, 0.3, 0.4)), car.at((0.9, 0.3, 0.45))]
    m.body("lower", [*hinge, tip], 1.0, np.mean([m.where(p) for p in (*hinge, tip)], axis=0))
    upper = [car.at((0.1, 0.3, 0.8)), car.at((0.8, 0.3, 0.8))]
    top = m.point("top", (0.5, 0.9, 0.8))
    m.body("upper", [*upper, top], 0.5, np.mean([m.where(p) for p in (*upper, top)], axis=0))
    end = m.point("end", (0.3, 0.95, 0.5))
    m.body("knuckle", [tip, top, end, m.vector("axle", (0, 1, 0))], 2.0, (0.5, 1.0, 0.6), INERTIA)
    m.rod("link", car.at((0.3, 0.3, 0.5)), end)
    return m


def link_on_a_rack() -> Mechanism:
    """A bar whose end is no node but a form of two: a sliding point, and a vector of the body it slides in."""
    m = Mechanism()
    car = box(m, "car", (0.2, 0.1, 0.5), 5.0)
    rack = m.point("rack", (0.5, 0.0, 0.4))
    m.particle("rack", rack, 0.8)
    m.rack("guide", rack, (0.5, 0.0, 0.4), (0.0, 1.0, 0.0), m.scalar("travel"), on=car)
    end = m.point("end", (0.5, 0.8, 0.3))
    m.bar("link", rack + car.along((0.0, 0.3, 0.0)), end, 0.4)
    arm = [car.at((0.2, 0.7, 0.2)), car.at((0.2, 0.7, 0.6)), end]
    m.body("arm", [*arm, m.vector("across", (0.1, 1.0, 0.0))], 1.0, (0.3, 0.75, 0.35), INERTIA)
    m.particle("lamp", car.at((1.0, 0.2, 0.6)), 0.3)
    return m


def drawn_apart() -> Mechanism:
    """A loop that is only roughly assembled, and a motor whose angle has an inertia of its own."""
    m = Mechanism()
    one, two = box(m, "one"), box(m, "two", (1.0, 0.0, 0.0))
    m.revolute("left", None, one, (0.0, 0.0, 0.0), (0.0, 0.0, 1.0))
    m.universal("right", None, two, (1.5, 0.1, 0.0), (0.0, 0.0, 1.0), (0.0, 1.0, 0.0))
    m.rod("rod", one.at((0.0, 0.5, 0.0)), two.at((1.4, 0.6, 0.0)), length=1.45)
    m.angle("motor", None, one, (0.0, 0.0, 1.0), theta=m.scalar("rotor", 0.3, inertia=0.2))
    loose = box(m, "loose", (0.5, 0.5, 0.5))
    m.spherical("ball", one.at((0.3, 0.3, 0.3)), loose.at((0.31, 0.28, 0.3)))
    return m


def five_bar_in_space() -> Mechanism:
    """A planar loop of hinges in space, on a base that is free: three of its equations are too many."""
    m = Mechanism(gravity=(0.0, 0.0, 0.0))
    base = box(m, "base", (0.1, 0.1, 0.1), 3.0)
    axis = np.array([0.2, 0.1, 1.0])
    axis /= np.linalg.norm(axis)
    e1 = np.cross(axis, (0.0, 1.0, 0.0))
    e1 /= np.linalg.norm(e1)
    e2 = np.cross(axis, e1)
    corners = [0.3 * axis + x * e1 + y * e2 for x, y in ((0, 0), (0.2, 0.8), (1.0, 1.2), (1.6, 0.7), (1.5, -0.1))]
    before = base
    for k in range(4):
        middle = 0.5 * (corners[k] + corners[k + 1])
        after = box(m, f"bar{k}", middle, 1.0)
        m.revolute(f"hinge{k}", before, after, corners[k], axis)
        before = after
    m.revolute("last", before, base, corners[4], axis)
    return m


def pushed_piston() -> Mechanism:
    """A slider-crank whose piston follows an input: a loop that depends on it, and no freedom left."""
    m = Mechanism(dimension=2)
    pin, piston = m.point("pin", (0.2, 0.2)), m.point("piston", (1.1, 0.0))
    m.bar("crank", m.point("O", (0, 0), fixed=True), pin, 1.0)
    m.bar("conrod", pin, piston, 2.0)
    m.particle("piston", piston, 3.0)
    m.rack("cylinder", piston, (1.0, 0.0), (1.0, 0.0), m.input("push", law=(0.1,)).form)
    return m


def folded() -> Mechanism:
    """A parallelogram drawn on a line, where it can move two ways."""
    m = Mechanism(dimension=2)
    A, D = m.point("A", (0, 0), fixed=True), m.point("D", (2.0, 0.0), fixed=True)
    B, C = m.point("B", (1.0, 0.0)), m.point("C", (3.0, 0.0))
    for name, ends in (("crank", (A, B)), ("coupler", (B, C)), ("rocker", (D, C))):
        m.bar(name, *ends, 1.0)
    return m
