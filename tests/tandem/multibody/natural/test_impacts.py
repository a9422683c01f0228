"""Geometry of surfaces against a search over points, and what impacts conserve; figures: `verify mechanism-impacts`."""

import itertools
from typing import Any

import numpy as np
import pytest
from numba.core.runtime import _nrt_python, rtsys
from numpy.testing import assert_allclose

from tandem.mechanism.columns import energies
from tandem.multibody.natural.api import Mechanism, MechanismError, Scheme, Settings, run, start
from tandem.multibody.natural.impact_tables import C_IMPACTS, C_LOST, C_RESTED, E_CONTACT, E_GAP, E_TIME

FREE = ("plane", "sphere", "capsule", "box", "hole")


def drop(**impact: float) -> Mechanism:
    m = Mechanism(2)
    p = m.point("P", (0.0, 1.0))
    m.particle("ball", p, 2.0)
    m.impact("hit", m.sphere("skin", p, (), 0.1), m.plane("floor", None, (0, 0), (0, 1)), **impact)
    return m


def touched(kind: str, angle: float) -> tuple[float, np.ndarray]:
    """How long a ball that flies along x at 1 m/s takes to meet a surface, and where its centre is then."""
    m = Mechanism(3, (0, 0, 0))
    along = np.array([np.cos(angle), np.sin(angle), 0.3])
    p = m.point("P", (-2.0, 0.05, -0.02))
    m.particle("ball", p, 1.0)
    skin = m.sphere("skin", p, (), 0.1)
    if kind == "plane":
        other = m.plane("other", None, (0.3, 0, 0), -along if along[0] > 0 else along)
    elif kind == "sphere":
        other = m.sphere("other", None, (0.3, 0, 0), 0.4)
    elif kind == "capsule":
        other = m.capsule("other", None, (0.5 * along, -0.5 * along), 0.2)
    elif kind == "box":
        other = m.box("other", None, (0.2, 0.0, 0.0), (0.4, 0.6, 0.2))
    else:
        other = m.hole("other", None, (-1.9, 0, 0), 1.3)
    m.impact("hit", skin, other, 1.0)
    record = run(start(m.compile(h=1e-2).state(), rates={"P": (1.0, 0.0, 0.0)}), 3.5, strict=False)
    assert record.counts[C_IMPACTS] >= 1 and abs(record.impacts[0, E_GAP]) < 1e-9
    t = float(record.impacts[0, E_TIME])
    return t, np.array([-2.0 + t, 0.05, -0.02])


@pytest.mark.parametrize("kind", FREE)
@pytest.mark.parametrize("angle", [0.2, 1.1])
def test_a_ball_meets_a_surface_where_its_nearest_point_is_a_radius_away(kind: str, angle: float) -> None:
    _, at = touched(kind, angle)
    along = np.array([np.cos(angle), np.sin(angle), 0.3])
    if kind == "plane":
        n = along / np.linalg.norm(along)
        gap = abs(n @ (at - [0.3, 0, 0]))
    elif kind == "sphere":
        gap = np.linalg.norm(at - [0.3, 0, 0]) - 0.4
    elif kind == "capsule":
        s = np.linspace(-0.5, 0.5, 200_001)[:, None]
        gap = np.linalg.norm(at - s * along, axis=1).min() - 0.2
    elif kind == "box":
        gap = np.linalg.norm(at - np.clip(at, [0.0, -0.3, -0.1], [0.4, 0.3, 0.1]))
    else:
        gap = 1.3 - np.linalg.norm(at - [-1.9, 0, 0])
    assert gap == pytest.approx(0.1, abs=1e-9)


def test_two_capsules_meet_where_their_segments_are_two_radii_apart() -> None:
    m = Mechanism(3, (0, 0, 0))
    nodes = [m.point("P", (0, 0, 1.0)), *(m.vector(n, e) for n, e in zip("uvw", np.eye(3), strict=True))]
    body = m.body("bar", nodes, 1.0, (0, 0, 1.0), (0.1, 0.1, 0.1))
    ends = np.array([[-0.6, -0.2, 1.0], [0.5, 0.3, 1.1]]), np.array([[0.2, -0.5, 0.0], [-0.1, 0.6, 0.1]])
    m.impact(
        "hit", m.capsule("a", body, tuple(ends[0]), 0.1), m.capsule("b", None, tuple(ends[1]), 0.05), 0.5, friction=0.3
    )
    begin = start(m.compile(h=1e-2).state(), rates={"P": (0.1, 0.0, -1.0), "u": (0.0, 0.3, 0.0), "v": (-0.3, 0.0, 0.0)})
    record = run(begin, 1.2, strict=False)
    assert record.counts[C_IMPACTS] >= 1
    row = record.impacts[0]
    angle, down = 0.3 * row[E_TIME], np.array([0.1, 0.0, -1.0]) * row[E_TIME]
    turned = np.array([[np.cos(angle), -np.sin(angle), 0.0], [np.sin(angle), np.cos(angle), 0.0], [0.0, 0.0, 1.0]])
    mine = (ends[0] - [0, 0, 1.0]) @ turned.T + [0, 0, 1.0] + down
    s = np.linspace(0.0, 1.0, 1001)[:, None]
    points = [a[0] + s * (a[1] - a[0]) for a in (mine, ends[1])]
    gap = np.linalg.norm(points[0][:, None] - points[1][None], axis=2).min()
    assert gap == pytest.approx(0.15, abs=1e-5)
    lost = record.counts[C_LOST] + record.counts[C_RESTED]
    assert lost > 0.0 and energies(record)[0] - energies(record)[-1] == pytest.approx(lost, abs=1e-7)


@pytest.mark.parametrize(
    "ends",
    [
        ([-0.6, 0.05, 1.0], [0.5, 0.02, 1.05]),
        ([0.05, 0.02, 0.5], [0.3, 0.1, 1.0]),
        ([-0.1, -0.6, 0.7], [0.9, 0.7, 0.8]),
    ],
    ids=["across", "end", "over an edge"],
)  # fmt: skip
def test_a_capsule_meets_a_box_where_they_are_a_radius_apart(ends: tuple[list[float], list[float]]) -> None:
    m = Mechanism(3, (0, 0, 0))
    nodes = [m.point("P", (0, 0, 1.0)), *(m.vector(n, e) for n, e in zip("uvw", np.eye(3), strict=True))]
    body = m.body("bar", nodes, 1.0, (0, 0, 1.0), (0.1, 0.1, 0.1))
    half = np.array([0.25, 0.15, 0.2])
    m.impact("hit", m.box("block", None, (0, 0, 0), 2 * half), m.capsule("bar", body, ends, 0.05), 0.5, friction=0.2)
    record = run(start(m.compile(h=1e-2).state(), rates={"P": (0.02, 0.0, -1.0)}), 1.0, strict=False)
    assert record.counts[C_IMPACTS] >= 1
    a, b = (np.array(end) + np.array([0.02, 0.0, -1.0]) * record.impacts[0, E_TIME] for end in ends)
    points = a + np.linspace(0.0, 1.0, 20_001)[:, None] * (b - a)
    gap = np.linalg.norm(points - np.clip(points, -half, half), axis=1).min()
    assert gap == pytest.approx(0.05, abs=1e-7)
    lost = record.counts[C_LOST] + record.counts[C_RESTED]
    assert lost > 0.0 and energies(record)[0] - energies(record)[-1] == pytest.approx(lost, abs=1e-6)


def test_a_capsule_comes_to_lie_across_a_box() -> None:
    m = Mechanism(3)
    nodes = [m.point("P", (0, 0, 0.4)), *(m.vector(n, e) for n, e in zip("uvw", np.eye(3), strict=True))]
    body = m.body("bar", nodes, 1.0, (0, 0, 0.4), (1e-3, 0.05, 0.05))
    block = m.box("block", None, (0, 0, 0), (0.4, 0.6, 0.4))
    m.impact("hit", m.capsule("bar", body, ([-0.5, 0, 0.4], [0.5, 0, 0.4]), 0.05), block, 0.2, friction=0.5)
    record = run(
        start(m.compile(h=2e-3).state(), rates={"P": (0, 0, 0), "w": (-0.2, 0, 0), "u": (0, 0, 0.2)}), 2.0, strict=False
    )
    assert record["P"][-1, 2] == pytest.approx(0.25, abs=1e-6) and np.abs(record.qd[-1]).max() < 1e-6


def test_a_capsule_in_the_plane_meets_corners_of_a_box() -> None:
    m = Mechanism(2)
    nodes = [m.point("P", (0.0, 1.0)), m.vector("u", (1.0, 0.0)), m.vector("v", (0.0, 1.0))]
    body = m.body("bar", nodes, 1.0, (0.0, 1.0), 0.1)
    block = m.box("block", None, (0.3, 0.0), (0.4, 0.4))
    m.impact("hit", m.capsule("bar", body, ([-0.6, 0.9], [0.6, 1.1]), 0.05), block, 0.0)
    record = run(start(m.compile(h=2e-3).state()), 0.45, strict=False)
    down = 0.5 * 9.81 * record.impacts[0, E_TIME] ** 2
    way = np.array([1.2, 0.2]) / np.hypot(1.2, 0.2)
    corner = np.array([0.1, 0.2]) - np.array([-0.6, 0.9 - down])
    assert abs(way[0] * corner[1] - way[1] * corner[0]) == pytest.approx(0.05, abs=1e-7)


def boxed(at: tuple[float, float, float], turn: np.ndarray, size: tuple[float, float, float]) -> Mechanism:
    """A box over another of half its height that lies on the ground, free to fall, turned as given."""
    m = Mechanism(3)
    nodes = [m.point("P", at), *(m.vector(n, e) for n, e in zip("uvw", np.eye(3), strict=True))]
    body = m.body("box", nodes, 2.0, at, 2.0 / 12 * np.array([0.08, 0.13, 0.13]))
    skin = m.box("skin", body, at, size)
    m.impact("hit", skin, m.box("block", None, (0, 0, 0), (0.4, 0.4, 0.2)), 0.2, friction=0.5)
    return m


@pytest.mark.drill
def test_a_box_comes_to_stand_on_a_box() -> None:
    m = boxed((0.05, 0.02, 0.3), np.zeros(3), (0.3, 0.2, 0.2))
    turn = np.array([0.5, 0.7, 0.3])
    rates = {n: np.cross(turn, e) for n, e in zip("uvw", np.eye(3), strict=True)}
    record = run(start(m.compile(h=2e-3).state(), rates=rates), 3.0, strict=False)
    assert record["P"][-1, 2] == pytest.approx(0.2, abs=1e-6) and np.abs(record.qd[-1]).max() < 1e-6
    lost = record.counts[C_LOST] + record.counts[C_RESTED]
    assert energies(record)[0] - energies(record)[-1] == pytest.approx(lost, rel=1e-3)


def test_boxes_meet_edge_on_edge() -> None:
    """The upper one turns by 45 degrees about a level axis first, and so comes down on an edge, across one below."""
    m = Mechanism(3, (0, 0, 0))
    nodes = [m.point("P", (0.2, 0, 0.6)), *(m.vector(n, e) for n, e in zip("uvw", np.eye(3), strict=True))]
    body = m.body("box", nodes, 2.0, (0.2, 0, 0.6), (0.02, 0.02, 0.02))
    skin = m.box("skin", body, (0.2, 0, 0.6), (0.6, 0.2, 0.2))
    m.impact("hit", skin, m.box("block", None, (0, 0, 0), (0.4, 0.4, 0.2)), 0.0)
    spin, down, far = np.pi / 4, 0.3, 0.6 - 0.1 - 0.1 * np.sqrt(2.0)
    rates = {"P": (0, 0, -down)} | {
        n: np.cross((spin * down / far, 0, 0), e) for n, e in zip("uvw", np.eye(3), strict=True)
    }
    record = run(start(m.compile(h=2e-3).state(), rates=rates), 1.3, strict=False)
    # rounded by 2 mm: its edge is where that of a sharp one is but for (sqrt 2 - 1) of that
    sharp = 0.6 - down * record.impacts[0, E_TIME] - 0.1 * np.sqrt(2.0) - 0.1
    assert sharp == pytest.approx(-(np.sqrt(2.0) - 1.0) * 2e-3, abs=2e-4)
    assert abs(record.impacts[0, E_GAP]) < 1e-9


def test_a_box_lands_on_its_corners_and_stands() -> None:
    m = Mechanism(3)
    nodes = [m.point("P", (0, 0, 0.3)), *(m.vector(n, e) for n, e in zip("uvw", np.eye(3), strict=True))]
    body = m.body("box", nodes, 2.0, (0, 0, 0.3), 2.0 / 12 * np.array([0.08, 0.13, 0.13]))
    floor = m.plane("floor", None, (0, 0, 0), (0, 0, 1))
    m.impact("hit", m.box("skin", body, (0, 0, 0.3), (0.3, 0.2, 0.2)), floor, 0.3, friction=0.5)
    turn = np.array([0.4, 1.1, 0.2])
    rates = {"P": (0.3, 0.0, 0.0)} | {n: np.cross(turn, e) for n, e in zip("uvw", np.eye(3), strict=True)}
    record = run(start(m.compile(h=2e-3).state(), rates=rates), 3.0, strict=False)
    assert len(set(record.impacts[:, E_CONTACT])) > 2
    assert record["P"][-1, 2] == pytest.approx(0.1, abs=1e-6) and np.abs(record.qd[-1]).max() < 1e-6
    lost = record.counts[C_LOST] + record.counts[C_RESTED]
    assert energies(record)[0] - energies(record)[-1] == pytest.approx(lost, rel=1e-3)


@pytest.mark.parametrize("scheme", list(Scheme), ids=lambda s: s.name)
def test_every_scheme_locates_impacts(scheme: Scheme) -> None:
    record = run(
        start(drop(restitution=0.5).compile(h=5e-3, settings=Settings(scheme=scheme)).state()), 0.6, strict=False
    )
    first = np.sqrt(2 * 0.9 / 9.81)
    assert record.impacts[0, E_TIME] == pytest.approx(first, abs=5e-3 if scheme == Scheme.LINEAR_IMPLICIT else 1e-9)


def test_what_meets_and_parts_within_a_step_is_found() -> None:
    m = Mechanism(2, (0, 0))
    p = m.point("P", (-1.0, 0.2))
    m.particle("ball", p, 1.0)
    q = m.point("Q", (-1.0, 0.2 + 1e-3))
    m.particle("held", q, 1.0)
    m.spring("spring", p, (-1.0, 0.8), stiffness=4000.0, length=0.6)
    m.impact("hit", m.sphere("skin", p, (), 0.0), m.plane("floor", None, (0, 0.0), (0, 1)), 1.0)
    # swings down by 0.2002 m in a quarter of 0.1 s: it is below the floor for 1.4 ms only
    record = run(start(m.compile(h=5e-3).state(), rates={"P": (0.0, -0.2002 * np.sqrt(4000.0))}), 0.05, strict=False)
    assert record.counts[C_IMPACTS] == 1


def test_impacts_are_the_same_bits_twice_and_allocate_nothing() -> None:
    found = [run(start(drop(restitution=0.7).compile(h=5e-3).state()), 2.0).states.tobytes() for _ in range(2)]
    assert found[0] == found[1]
    state = start(drop(restitution=0.7).compile(h=5e-3).state())
    _nrt_python.memsys_enable_stats()
    try:
        counts = []
        for seconds in (0.1, 1.0):
            before = rtsys.get_allocation_stats().alloc
            run(state, seconds)
            counts.append(rtsys.get_allocation_stats().alloc - before)
    finally:
        _nrt_python.memsys_disable_stats()
    assert counts[0] == counts[1]


def test_a_run_in_pieces_is_the_run() -> None:
    whole, parts = (start(drop(restitution=0.7).compile(h=5e-3).state()) for _ in range(2))
    run(whole, 1.0)
    for _ in range(10):
        run(parts, 0.1)
    assert_allclose(parts.vector, whole.vector, rtol=0, atol=0)


def surface(m: Mechanism, kind: str, name: str, body: Any) -> Any:
    if kind == "capsule":
        return m.capsule(name, body, ((0, 0, 0), (1, 0, 0)), 0.1)
    return m.box(name, body, (0, 0, 1.0), (1, 1, 1)) if kind == "box" else m.hole(name, body, (0, 0, 0), 1.0)


def test_pairs_that_are_none_are_refused_by_name() -> None:
    for first, second in itertools.product(("box", "capsule"), ("hole",)):
        m = Mechanism(3)
        nodes = [m.point("P", (0, 0, 1.0)), *(m.vector(n, e) for n, e in zip("uvw", np.eye(3), strict=True))]
        body = m.body("b", nodes, 1.0, (0, 0, 1.0), (0.1, 0.1, 0.1))
        with pytest.raises(MechanismError, match="are no pair; there are sphere and plane"):
            m.impact("hit", surface(m, first, "one", body), surface(m, second, "two", None))
