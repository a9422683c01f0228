"""The one list of mechanisms all integrators are tried on, each with a reference that is independent of them.

A problem says how to build the mechanism, how it starts, which node is watched, and where the reference has that node
at any instants. All positions and velocities at the start come from the reference, so nothing depends on how the start
is computed. `bars` describes the same mechanism for other codes, where they can have it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from tandem.multibody.natural.body import Body
from tandem.multibody.natural.mechanism import Mechanism
from verify.multibody.other_codes import Bars
from verify.multibody.references import chains, closed_form, jets, linkages, one_freedom, rigid_body
from verify.multibody.references.one_freedom import GRAVITY

Z = np.array([0.0, 0.0, 1.0])
DOWN = np.array([0.0, -GRAVITY, 0.0])
THIN = 1e-5  # section of a "slender" bar for codes that want a body


@dataclass(frozen=True, eq=False)
class Problem:
    key: str
    build: Callable[[], Mechanism]
    watched: str  # a node
    reference: Callable[[np.ndarray], np.ndarray]  # instants → where it is, a row each
    seconds: float
    h: float  # the coarsest step tried, s
    rates: dict[str, np.ndarray] = field(default_factory=dict)  # of nodes at the start; the others rest
    conservative: bool = True
    smooth: bool = True  # the order can be observed
    exact: bool = False  # the trapezoidal rule makes no error at all
    bars: Bars | None = None
    bars_watched: int = 0  # the bar whose end is watched
    relative: bool = True  # some choice of independent coordinates serves wherever it goes


def pendulum() -> Problem:
    def build() -> Mechanism:
        m = Mechanism(2)
        m.bar("rod", m.point("A", [0, 0], fixed=True), m.point("B", [1, 0]), 1.0)
        return m

    def reference(t: np.ndarray) -> np.ndarray:
        angle, _ = closed_form.pendulum(t, math.pi / 2, 0.0, math.sqrt(1.5 * GRAVITY))
        return np.stack([np.sin(angle), -np.cos(angle)], axis=1)

    bars = Bars(np.array([[0, 0, 0], [1.0, 0, 0]]), np.array([Z]), (1.0,), THIN, DOWN, 10.0)
    return Problem("pendulum", build, "B", reference, 10.0, 4e-3, bars=bars)


def chain(count: int, length: float, mass: float, seconds: float, h: float) -> Problem:
    def build() -> Mechanism:
        m = Mechanism(2)
        last = m.point("P0", [0, 0], fixed=True)
        for k in range(1, count + 1):
            here = m.point(f"P{k}", [k * length, 0])
            m.bar(f"rod{k}", last, here, mass)
            last = here
        return m

    def reference(t: np.ndarray) -> np.ndarray:
        phi, _ = chains.motion(np.zeros(count), np.zeros(count), t, length, mass)
        return chains.joints(phi, length)[:, -1]

    points = np.array([[k * length, 0, 0] for k in range(count + 1)])
    bars = Bars(points, np.array([Z] * count), (mass,) * count, THIN, DOWN, seconds)
    key = "double pendulum" if count == 2 else f"chain of {count}"
    return Problem(key, build, f"P{count}", reference, seconds, h, bars=bars, bars_watched=count - 1)


SLIDER_CRANK = (0.3, 0.9)  # crank, connecting rod


def slider_crank() -> Problem:
    (crank, conrod), masses, s0, rate0 = SLIDER_CRANK, (1.0, 2.0, 3.0), 0.2, 12.0
    known = linkages.slider_crank(crank, conrod, masses)
    (pin, slider), (pin_v, slider_v) = _start(known, s0, rate0)

    def build() -> Mechanism:
        m = Mechanism(2)
        o, b, c = m.point("O", [0, 0], fixed=True), m.point("pin", pin[:2]), m.point("slider", slider[:2])
        m.bar("crank", o, b, masses[0])
        m.bar("conrod", b, c, masses[1])
        m.particle("piston", c, masses[2])
        m.slider("cylinder", c, [0, 0], [1, 0])
        return m

    swing = _turn(slider - pin, slider_v - pin_v)
    bars = Bars(
        np.array([np.zeros(3), pin, slider]), np.array([Z, Z, Z]), masses[:2], THIN, DOWN, 5.0, "slider", True,
        masses[2], (rate0, swing - rate0),
    )  # fmt: skip
    return Problem(
        "slider-crank", build, "slider", _follow(known, s0, rate0, 1, 2), 5.0, 4e-3,
        {"pin": pin_v[:2], "slider": slider_v[:2]}, bars=bars, bars_watched=1,
    )  # fmt: skip


def four_bar() -> Problem:
    lengths, masses, s0, rate0 = (1.0, 0.3, 0.9, 0.8), (1.0, 2.0, 2.0), 0.4, 15.0
    known = linkages.four_bar(*lengths, masses)
    (b, c), (b_v, c_v) = _start(known, s0, rate0)
    d = np.array([1.0, 0.0, 0.0])

    def build() -> Mechanism:
        m = Mechanism(2)
        pa, pd = m.point("A", [0, 0], fixed=True), m.point("D", [1, 0], fixed=True)
        pb, pc = m.point("B", b[:2]), m.point("C", c[:2])
        m.bar("crank", pa, pb, masses[0])
        m.bar("coupler", pb, pc, masses[1])
        m.bar("rocker", pd, pc, masses[2])
        return m

    turns = [rate0, _turn(c - b, c_v - b_v), _turn(d - c, -c_v)]
    relative = tuple(np.diff([0.0, *turns]).tolist())
    points = np.array([np.zeros(3), b, c, d])
    bars = Bars(points, np.array([Z] * 4), masses, THIN, DOWN, 2.0, "hinge", True, 0.0, relative)
    return Problem(
        "four-bar", build, "C", _follow(known, s0, rate0, 1, 2), 2.0, 2e-3, {"B": b_v[:2], "C": c_v[:2]}, bars=bars,
        bars_watched=1,
    )  # fmt: skip


def n_four_bar(windows: int, seconds: float, h: float) -> Problem:
    """Starts upright with 1 m/s, as the benchmark has it, and lies flat (singular) twice in every turn."""
    known = linkages.n_four_bar(windows)
    places, speeds = _start(known, math.pi / 2, -1.0)

    def build() -> Mechanism:
        m = Mechanism(2)
        top = [m.point(f"B{k}", p[:2]) for k, p in enumerate(places)]
        for k, corner in enumerate(top):
            m.bar(f"crank{k}", m.point(f"A{k}", [k, 0], fixed=True), corner, 1.0)
            if k:
                m.bar(f"coupler{k}", top[k - 1], corner, 1.0)
        return m

    rates = {f"B{k}": v[:2] for k, v in enumerate(speeds)}
    follow = _follow(known, math.pi / 2, -1.0, windows, 2)
    return Problem(f"{windows}-four-bar", build, f"B{windows}", follow, seconds, h, rates, smooth=False, relative=False)


def spatial_slider_crank() -> Problem:
    masses, s0, rate0, pivot = (0.12, 0.5, 2.0), math.pi / 2, 6.0, np.array([0.0, 0.1, 0.12])
    known = linkages.spatial_slider_crank((0.1, 0.12), 0.08, 0.3, masses)
    (pin, slider), (pin_v, slider_v) = _start(known, s0, rate0)

    def build() -> Mechanism:
        m = Mechanism(3)
        o, axis = m.point("O", pivot, fixed=True), m.vector("axis", [1, 0, 0], fixed=True)
        b, c = m.point("pin", pin), m.point("slider", slider)
        along = pin - pivot
        slender = masses[0] / 12 * (along @ along * np.eye(3) - np.outer(along, along))
        m.body("crank", [o, b, axis], masses[0], pivot + 0.5 * along, slender)
        m.bar("conrod", b, c, masses[1])
        m.particle("piston", c, masses[2])
        m.slider("cylinder", c, [0, 0, 0], [1, 0, 0])
        return m

    rates = {"pin": pin_v, "slider": slider_v}
    return Problem(
        "spatial slider-crank", build, "slider", _follow(known, s0, rate0, 1, 3), 1.0, 2e-3, rates
    )  # fmt: skip


BRICARD = np.array([[0, 0, 0], [1, 0, 0], [1, -1, 0], [1, -1, 1], [0, -1, 1], [0, 0, 1]], float)
BRICARD_AXES = np.array([[0, 1, 0], [0, 0, 1], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 0]], float)


def bricard() -> Problem:
    width = 0.1
    known = linkages.bricard(width)

    def build() -> Mechanism:
        m = Mechanism(3, [0, -GRAVITY, 0])
        points = [m.point(f"P{k}", p, fixed=k in (0, 5)) for k, p in enumerate(BRICARD)]
        axes = [m.vector(f"u{k}", u, fixed=k in (0, 5)) for k, u in enumerate(BRICARD_AXES)]
        for k in range(5):
            along = BRICARD[k + 1] - BRICARD[k]
            slender, about = (1 + width**2) / 12, width**2 / 6
            inertia = slender * np.eye(3) + (about - slender) * np.outer(along, along)
            nodes = [points[k], points[k + 1], axes[k], axes[k + 1]]
            m.body(f"bar{k + 1}", nodes, 1.0, 0.5 * (BRICARD[k] + BRICARD[k + 1]), inertia)
        return m

    bars = Bars(BRICARD, BRICARD_AXES, (1.0,) * 5, width, DOWN, 5.0, "hinge", False)
    return Problem("bricard", build, "P3", _follow(known, 0.0, 0.0, 2, 3), 5.0, 5e-3, bars=bars, bars_watched=2)


def free_body() -> Problem:
    inertia, spin = np.array([1.0, 2.0, 3.0]), np.array([0.4, 3.0, 0.5])

    def build() -> Mechanism:
        m = Mechanism(3, [0, 0, 0])
        nodes = [m.point("G", [0, 0, 0]), *(m.vector(f"e{k}", np.eye(3)[k]) for k in range(3))]
        m.body("body", nodes, 2.0, [0, 0, 0], inertia)
        return m

    rates = {f"e{k}": np.cross(spin, np.eye(3)[k]) for k in range(3)}
    return Problem(
        "free body", build, "e0", lambda t: rigid_body.motion(inertia, spin, t)[0][:, :, 0], 4.0, 4e-3, rates
    )


# a symmetric top on its tip, its axis tilted by 0.5 rad at the start
TOP_MASS, TOP_HEIGHT, TOP_ACROSS, TOP_ABOUT = 2.0, 0.3, 0.25, 0.02  # moments about the tip
TOP_AXES = np.array([[1, 0, 0], [0, math.cos(0.5), -math.sin(0.5)], [0, math.sin(0.5), math.cos(0.5)]])  # rows


def _top_body(m: Mechanism, about: float) -> Body:
    nodes = [m.point("O", [0, 0, 0], fixed=True), *(m.vector(n, a) for n, a in zip("abw", TOP_AXES, strict=True))]
    side = TOP_ACROSS - TOP_MASS * TOP_HEIGHT**2
    tensor = TOP_AXES.T @ np.diag([side, side, about]) @ TOP_AXES
    return m.body("top", nodes, TOP_MASS, TOP_HEIGHT * TOP_AXES[2], tensor)


def _top_reference(spin: float) -> Callable[[np.ndarray], np.ndarray]:
    def reference(t: np.ndarray) -> np.ndarray:
        # the reference starts aligned with its axes: gravity is tilted instead
        inertia, rate = np.array([TOP_ACROSS, TOP_ACROSS, TOP_ABOUT]), np.array([0.0, 0.0, spin])
        centre, down = np.array([0.0, 0.0, TOP_HEIGHT]), TOP_AXES @ np.array([0.0, 0.0, -1.0])
        rotations, _ = rigid_body.motion(inertia, rate, t, TOP_MASS, centre, down=down)
        return np.asarray(rotations[:, :, 2] @ TOP_AXES)

    return reference


def top() -> Problem:
    """Spin carried by the vectors of the body."""
    spin = 15.0

    def build() -> Mechanism:
        m = Mechanism(3)
        _top_body(m, TOP_ABOUT)
        return m

    rates = {name: np.cross(spin * TOP_AXES[2], axis) for name, axis in zip("abw", TOP_AXES, strict=True)}
    return Problem("heavy top", build, "w", _top_reference(spin), 1.0, 2e-3, rates)


def gyroscope() -> Problem:
    """Spin carried by a scalar coordinate, which may be fast: only the axis is carried by vectors."""
    spin = 100.0

    def build() -> Mechanism:
        m = Mechanism(3)
        carrier = _top_body(m, 0.01)  # its own bit about the axis rests, in its bearings
        m.rotor("rotor", carrier, TOP_AXES[2], m.scalar("spin"), TOP_ABOUT)
        return m

    return Problem("gyroscope", build, "w", _top_reference(spin), 2.0, 2e-3, {"spin": np.array([spin])})


def oscillator() -> Problem:
    def build() -> Mechanism:
        m = Mechanism(2, [0, 0])
        o, p = m.point("O", [0, 0], fixed=True), m.point("P", [1.3, 0])
        m.particle("mass", p, 2.0)
        m.slider("rail", p, [0, 0], [1, 0])
        m.spring("spring", o, p, 50.0, 1.5, 1.0)
        return m

    def reference(t: np.ndarray) -> np.ndarray:
        x, _ = closed_form.oscillator(t, 0.3, -1.0, 2.0, 50.0, 1.5)
        return np.stack([1.0 + x, np.zeros_like(x)], axis=1)

    rates = {"P": np.array([-1.0, 0.0])}
    return Problem("damped oscillator", build, "P", reference, 5.0, 1e-2, rates, conservative=False)


def rotor() -> Problem:
    def build() -> Mechanism:
        m = Mechanism(3)
        m.torque("motor", m.scalar("spin", inertia=0.6), [30.0])
        return m

    def reference(t: np.ndarray) -> np.ndarray:
        return closed_form.rotor(t, 100.0, 0.6, 30.0)[0]

    rates = {"spin": np.array([100.0])}
    return Problem("rotor", build, "spin", reference, 2.0, 5e-3, rates, conservative=False, smooth=False, exact=True)


def everything() -> list[Problem]:
    return [
        pendulum(),
        chain(2, 1.0, 1.0, 2.0, 2e-3),
        chain(10, 0.2, 0.2, 1.0, 2e-3),
        slider_crank(),
        four_bar(),
        n_four_bar(2, 10.0, 2e-3),
        n_four_bar(40, 10.0, 2e-3),
        spatial_slider_crank(),
        bricard(),
        free_body(),
        top(),
        gyroscope(),
        oscillator(),
        rotor(),
    ]


def _start(known: linkages.Known, s0: float, rate0: float) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Places and velocities of all joints."""
    s, rate = np.array(s0), np.array(rate0)
    count = len(known.joints(jets.variable(s)))
    return [known.joint(s, k) for k in range(count)], [known.joint_velocity(s, rate, k) for k in range(count)]


def _follow(
    known: linkages.Known, s0: float, rate0: float, which: int, dimension: int
) -> Callable[[np.ndarray], np.ndarray]:
    def reference(t: np.ndarray) -> np.ndarray:
        s, _ = one_freedom.motion(known.linkage, s0, rate0, t)
        return known.joint(s, which)[:, :dimension]

    return reference


def _turn(arm: np.ndarray, velocity: np.ndarray) -> float:
    """How fast an arm in the plane turns."""
    return float((arm[0] * velocity[1] - arm[1] * velocity[0]) / (arm @ arm))
