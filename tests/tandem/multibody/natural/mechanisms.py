"""Small mechanisms that several tests use, and one that holds every constraint and every force there is."""

import numpy as np

from sync.compile.jit import kernel
from tandem.multibody.natural.api import FORCE, Mechanism, Settings, System, harmonic, polynomial


def pendulum(h: float = 1e-3, **settings) -> System:
    """A uniform bar of 1 m and 1 kg, level, hinged at the origin."""
    m = Mechanism(dimension=2)
    m.bar("rod", m.point("A", (0, 0), fixed=True), m.point("B", (1, 0)), mass=1.0)
    return m.compile(h=h, settings=Settings(**settings))


def four_bar(h: float = 1e-3, **settings) -> System:
    m = Mechanism(dimension=2)
    D, C = m.point("D", (0, 0), fixed=True), m.point("C", (3, 0), fixed=True)
    A, B = m.point("A", (0, 1)), m.point("B", (3, 2))
    crank = m.bar("crank", D, A, mass=1.0)
    m.bar("coupler", A, B, mass=2.0)
    m.bar("rocker", B, C, mass=1.5)
    theta = m.angle("theta", None, crank, value=np.pi / 2)
    m.torsion("torsion", theta, stiffness=2.0, damping=0.1)
    m.spring("spring", A, C, stiffness=50.0, damping=1.0)
    return m.compile(h=h, settings=Settings(**settings))


def n_four_bar(loops: int, h: float = 1e-3, **settings) -> System:
    m = Mechanism(dimension=2)
    feet = [m.point(f"A{i}", (i, 0), fixed=True) for i in range(loops + 1)]
    heads = [m.point(f"B{i}", (i, 1)) for i in range(loops + 1)]
    for i in range(loops + 1):
        m.bar(f"post{i}", feet[i], heads[i], mass=1.0)
    for i in range(loops):
        m.bar(f"beam{i}", heads[i], heads[i + 1], mass=1.0)
    return m.compile(h=h, settings=Settings(**settings))


def bricard(h: float = 1e-3, dense: bool | None = None, **settings) -> System:
    """Six hinges in space whose mobility no counting of equations shows: 24 coordinates, 24 equations, one freedom."""
    m = Mechanism(dimension=3, gravity=(0, -9.81, 0))
    places = np.array([(0, 0, 0), (1, 0, 0), (1, -1, 0), (1, -1, 1), (0, -1, 1), (0, 0, 1)], float)
    axes = [(0, 1, 0), (0, 0, 1), (1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 0, 0)]
    points = [m.point(f"P{i}", p, fixed=i in (0, 5)) for i, p in enumerate(places)]
    vectors = [m.vector(f"u{i}", u, fixed=i in (0, 5)) for i, u in enumerate(axes)]
    for i in range(5):
        d = places[i + 1] - places[i]
        nodes = [points[i], points[i + 1], vectors[i], vectors[i + 1]]
        m.body(f"bar{i}", nodes, 1.0, 0.5 * (places[i] + places[i + 1]), (np.eye(3) - np.outer(d, d)) / 12)
    return m.compile(h=h, dense=dense, settings=Settings(**settings))


def chain(bodies: int, h: float = 1e-3, dense: bool | None = None, **settings) -> System:
    m = Mechanism(dimension=2)
    last = m.point("p0", (0, 0), fixed=True)
    for i in range(bodies):
        point = m.point(f"p{i + 1}", (i + 1, 0))
        m.bar(f"link{i}", last, point, mass=1.0)
        last = point
    return m.compile(h=h, dense=dense, settings=Settings(**settings))


def free_body(inertia=(1.0, 2.0, 2.5), mass=2.0, centre=(0.1, -0.2, 0.3), gravity=(0, 0, 0)) -> Mechanism:
    """A body on one point and three vectors that are not at right angles."""
    m = Mechanism(dimension=3, gravity=gravity)
    nodes = [
        m.point("r", (0.3, 0.2, -0.1)),
        m.vector("u", (1, 0.2, 0)),
        m.vector("v", (0, 1, 0.3)),
        m.vector("w", (0.1, 0, 1)),
    ]
    m.body("body", nodes, mass, centre, inertia)
    return m


@kernel(FORCE)
def cubic_hook(t, h, x, xd, inputs, live, params, states, after, f, K, C):
    """Per force: six ports, two parameters, one state. f = -a (x + x^3) - b xd s with a state that follows x[0]."""
    for e in range(len(x) // 6):
        a, b = params[2 * e], params[2 * e + 1]
        after[e] = states[e] + h * (x[6 * e] - states[e])
        for i in range(6):
            p = 6 * e + i
            f[p] = -a * (x[p] + x[p] ** 3) - b * xd[p] * (1.0 + x[p] ** 2)
            K[36 * e + 7 * i] = a * (1.0 + 3.0 * x[p] ** 2) + 2.0 * b * xd[p] * x[p]
            C[36 * e + 7 * i] = b * (1.0 + x[p] ** 2)


def everything() -> System:
    """Two bodies in space with every constraint and every force: not a machine, a table of contents."""
    m = Mechanism(dimension=3)
    one = m.body(
        "one",
        [
            m.point("r1", (0, 0, 0)),
            m.point("s1", (1.1, 0.1, 0)),
            m.vector("u1", (0, 1, 0.2)),
            m.vector("v1", (0, 0.1, 1)),
        ],
        2.0,
        (0.3, 0.1, 0.2),
        (0.3, 0.4, 0.5),
    )
    two = m.body(
        "two",
        [m.point("r2", (0.5, 1, 0)), m.point("s2", (1, 1.5, 0.3)), m.point("t2", (0.2, 1, 1)),
         m.point("w2", (1, 0.4, 0.2)), m.point("x2", (0.7, 0.7, 0.7))],
        1.0,
        (0.6, 1, 0.4),
        (0.2, 0.3, 0.25),
    )  # fmt: skip
    at, axis = (0.4, 0.3, 0.2), (1, 2, 0.5)
    s, a, b = m.scalar("s", 1.3), m.scalar("a", 0.4, inertia=0.1), m.scalar("b", -0.7)
    m.spherical("ball", one.at(at), two.at(at))
    m.revolute("hinge", one, two, at, axis)
    m.universal("cross", one, two, at, (1, 0, 0), (0, 1, 0))
    m.cylindrical("cylinder", one, two, at, axis)
    m.prismatic("slide", None, two, at, axis)
    m.weld("weld", one, two, at)
    m.rod("rod", one.at((1, 1, 1)), two.at((0, 0, 1)))
    m.rod("strut", m.nodes["s1"], m.nodes["s2"], length=s)
    m.slider("slider", m.nodes["r2"], (0, 0, 0), axis, on=one)
    m.rack("rack", m.nodes["t2"], (0.1, 0.2, 0), axis, s, on=one)
    m.rack("fixed_rack", m.nodes["t2"], (0.1, 0.2, 0), axis, b)
    m.gear("gear", a, b, -2.5)
    theta = m.angle("theta", one, two, axis, value=0.3)
    m.angle("phi", None, one, (0, 0, 1), theta=a)
    drive = m.drive("drive", a, harmonic(0.3, 5.0, 0.2))
    m.drive("ramp", b, polynomial(0.1, 0.2, 0.3, 0.4))
    m.rack("driven_rack", m.nodes["s2"], (0, 0, 0), (1, 1, 0), m.inputs["ramp"].form, on=one)
    load = m.input("load")

    m.spring("spring", m.nodes["r1"], two.at((1, 0, 0)), 100.0, 5.0, 0.4, preload=3.0)
    m.drag("drag", two.at((0.3, 0.2, 0.1)), 2.0, 1.1, 0.4, 1.2)
    m.torsion("torsion", theta, 10.0, 1.0, 0.2, 4.0)
    m.force("push", one.at((1, 1, 0)), (1, 2, 3), scale=load)
    m.torque("turn", one, world=(1, -2, 0.5), own=(0.3, 0.2, 1), scale=load)
    m.torque("twist", theta, 2.0)
    m.friction("rub", b, 3.0, 0.5, 0.2)
    m.limit("stop", s, 1.0, 1.2, 200.0, 0.3)
    m.contact("floor", two.at((1, 0, 0)), (0, 0, 0.2), (0.1, 0.2, 1), 300.0, 0.2)
    m.contact("rough floor", two.at((1, 0, 0)), (0, 0, 0.2), (0.1, 0.2, 1), 300.0, 0.2, 0.7, 0.4)
    m.rotor("rotor", two, (0, 0.3, 1), m.scalar("spin", 0.2), 0.7)
    m.model_force("model", [m.nodes["r1"], two.at((0, 0, 1))], {"a": 3.0, "b": 0.4}, states=1)
    m.model_force("model2", [m.nodes["r2"], one.at((0, 0, 1)) - m.nodes["s2"]], {"a": 2.0, "b": 0.1}, states=1)
    del drive
    return m.compile(hook=cubic_hook)
