"""The tree of a mechanism says the same as the mechanism: freedoms, positions, ports and kinetic energy."""

import functools
from pathlib import Path

import numpy as np
import pytest

from sim_service.registry import gather
from tandem.machines.car.buggy.build import assemble
from tandem.multibody.description.mechanism_file import read_mechanism
from tandem.multibody.natural.errors import MechanismError
from tandem.multibody.natural.mechanism import Mechanism
from tandem.multibody.relative.conversion import from_natural, to_natural
from tandem.multibody.relative.generate import generate
from tandem.multibody.relative.kinematics import (
    close_loops,
    gradient,
    residuals,
    tree_pose,
    value,
)
from tandem.multibody.relative.spanning import make_tree
from tandem.multibody.relative.tree import WORLD, Tree
from tandem.multibody.rotations import skew
from tests.tandem.multibody.relative import mechanisms

CONFIGS = Path(__file__).resolve().parents[4] / "configs"
FILES = sorted(path.stem for path in (CONFIGS / "mechanisms").glob("*.toml"))
KINDS = ("revolute", "cylindrical", "prismatic", "universal", "spherical", "weld", "slider", "slot")
OWN = (
    "planar_four_bar",
    "planar_joints",
    "driven_arm",
    "gyroscope",
    "particles",
    "line_bodies",
    "hinges_of_places",
    "link_on_a_rack",
    "drawn_apart",
    "five_bar_in_space",
    "pushed_piston",
)
ALL = (*FILES, *OWN, *KINDS, "buggy")


@functools.cache
def mechanism(name: str) -> Mechanism:
    if name in FILES:
        return read_mechanism(CONFIGS / "mechanisms" / f"{name}.toml").mechanism
    if name == "buggy":
        sources = gather(CONFIGS / "vehicles" / "buggy.toml")
        return assemble(sources.toml(), sources, {}).car.mechanism
    return mechanisms.jointed(name) if name in KINDS else getattr(mechanisms, name)()


@functools.cache
def tree(name: str) -> Tree:
    return make_tree(mechanism(name))


def positions(t: Tree, count: int = 3) -> list[tuple[np.ndarray, np.ndarray]]:
    """Coordinates and inputs with the loops closed, around the drawing."""
    random = np.random.default_rng(5)
    out = []
    for _ in range(10 * count):
        u = t.start + random.uniform(-0.03, 0.03, len(t.start))
        x, left = close_loops(t, t.assembled + random.uniform(-0.15, 0.15, t.n), u)
        if left < 1e-11:
            out.append((x, u))
        if len(out) == count:
            return out
    raise AssertionError("loops do not close near the drawing")


def natural_jacobian(m: Mechanism, q: np.ndarray, u: np.ndarray) -> np.ndarray:
    def slope(products):
        return sum(
            (
                c * (b.value(q, u)[0] * a.jacobian(m.n)[0] + a.value(q, u)[0] * b.jacobian(m.n)[0])
                for c, a, b in products
            ),
            np.zeros(m.n),
        )

    rows = []
    for c in m.constraints.values():
        if c.theta is None:
            rows.append(slope(c.residual.products))
            continue
        theta = c.theta.value(q, u)[0]
        turning = c.residual.value(q, u) * np.cos(theta) + c.cosine.value(q, u) * np.sin(theta)
        both = np.sin(theta) * slope(c.residual.products) - np.cos(theta) * slope(c.cosine.products)
        rows.append(both + turning * c.theta.jacobian(m.n)[0])
    return np.array(rows).reshape(len(rows), m.n)


@pytest.mark.parametrize("name", ALL)
def test_freedoms_are_those_of_the_mechanism(name):
    m, t = mechanism(name), tree(name)
    x, u = positions(t)[0]
    at = tree_pose(t, x, u)
    J = natural_jacobian(m, np.array([value(c, at) for c in t.columns]), u)
    rank = np.linalg.matrix_rank(J, 1e-9) if len(J) else 0
    assert t.freedoms == m.n - rank
    assert len(t.dependent) == len(t.loops)
    assert len({*t.dependent, *t.driven}) == len(t.loops) + len(t.driven)
    assert sorted(k for group in t.groups for k in group) == list(range(len(t.loops)))
    assert [body.parent < k for k, body in enumerate(t.bodies)] == [True] * len(t.bodies)
    assert len(t.reference) == len(t.velocities) == len(set(t.velocities)) == t.first[-1] + len(t.scalars)


@pytest.mark.parametrize("name", ALL)
def test_all_constraints_hold_where_the_loops_are_closed(name):
    m, t = mechanism(name), tree(name)
    for x, u in positions(t):
        at = tree_pose(t, x, u)
        q = np.array([value(c, at) for c in t.columns])
        off = {c.name: c.value(q, u) for c in m.constraints.values()}
        assert max(map(abs, off.values()), default=0.0) < 1e-10, off


@pytest.mark.parametrize("name", ALL)
def test_the_drawing_is_where_all_joints_are_zero(name):
    m, t = mechanism(name), tree(name)
    at = tree_pose(t, t.reference)
    # aliases follow the joints, where a drawing may say something else
    names = {i: node for node in m.nodes.values() for i in node.columns}
    for i, form in enumerate(t.columns):
        if names[i].name not in t.aliases:
            assert value(form, at) == pytest.approx(m.q0[i], abs=1e-12)


@pytest.mark.parametrize("name", ALL)
def test_ports_are_those_of_the_mechanism_and_move_alike(name):
    m, t = mechanism(name), tree(name)
    for x, u in positions(t, 2):
        at = tree_pose(t, x, u)
        q = np.array([value(c, at) for c in t.columns])
        moves = np.array([gradient(c, at) for c in t.columns])
        w = consistent(t, at)
        for element in m.elements.values():
            for port, form in zip(element.ports, t.ports[element.name], strict=True):
                assert value(form, at) == pytest.approx(port.value(q, u)[0], abs=1e-10)
                assert gradient(form, at) @ w == pytest.approx(port.jacobian(m.n)[0] @ moves @ w, abs=1e-9)


def consistent(t: Tree, at) -> np.ndarray:
    """Velocities that keep the loops closed; driven coordinates move as they like."""
    _, J = residuals(t.loops, at)
    w = np.random.default_rng(6).uniform(-1.0, 1.0, t.n)
    return w - np.linalg.pinv(J, 1e-9) @ (J @ w) if len(J) else w


@pytest.mark.parametrize("name", ALL)
def test_kinetic_energy_and_gravity_are_those_of_the_mechanism(name):
    m, t = mechanism(name), tree(name)
    M = np.zeros((m.n, m.n))
    for (i, j), v in m.inertia.items():
        M[i, j] = M[j, i] = v
    for x, u in positions(t, 2):
        at = tree_pose(t, x, u)
        w = consistent(t, at)
        qd = np.array([gradient(c, at) for c in t.columns]) @ w
        power = 0.0  # of gravity
        energy = 0.5 * sum(s.inertia * w[t.first[-1] + k] ** 2 for k, s in enumerate(t.scalars))
        for k, body in enumerate(t.bodies):
            omega, R = at.Jw[k] @ w, at.R[k]
            v = at.Jp[k] @ w + skew(omega) @ R @ (body.centre - body.at)
            energy += 0.5 * body.mass * v @ v + 0.5 * omega @ R @ body.inertia @ R.T @ omega
            power += body.mass * t.gravity @ v
        assert energy == pytest.approx(0.5 * qd @ M @ qd, rel=1e-9, abs=1e-12)
        assert power == pytest.approx(sum(f * qd[i] for i, f in m.weight.items()), rel=1e-9, abs=1e-10)


@pytest.mark.parametrize("name", ALL)
def test_velocities_are_the_rates_of_coordinates(name):
    t = tree(name)
    random = np.random.default_rng(7)
    x, w = t.reference + random.uniform(-0.5, 0.5, t.n), random.uniform(-1.0, 1.0, t.n)
    at = tree_pose(t, x)
    step = 1e-6
    ahead, behind = (tree_pose(t, x + s * step * at.rates @ w) for s in (1.0, -1.0))
    for form in t.columns:
        assert gradient(form, at) @ w == pytest.approx(
            (value(form, ahead) - value(form, behind)) / (2 * step), abs=1e-7
        )
    _, J = residuals(t.loops, at)
    difference = (residuals(t.loops, ahead)[0] - residuals(t.loops, behind)[0]) / (2 * step)
    assert np.allclose(J @ w, difference, atol=1e-7)


@pytest.mark.parametrize(
    "name, coordinates, loops",
    [
        ("bricard", 5, 4),
        ("chain", 20, 0),
        ("double_pendulum", 2, 0),
        ("four_bar", 3, 2),
        ("pendulum", 1, 0),
        ("slider_crank", 2, 1),
        ("spatial_slider_crank", 3, 2),
        ("spindle", 2, 0),
        ("revolute", 2, 0),
        ("cylindrical", 4, 0),
        ("prismatic", 2, 0),
        ("universal", 4, 0),
        ("spherical", 6, 0),
        ("weld", 0, 0),
        ("slider", 8, 0),
        ("slot", 5, 0),
        ("planar_four_bar", 3, 2),
        ("planar_joints", 4, 0),
        ("gyroscope", 4, 0),
        ("line_bodies", 9, 0),
        ("hinges_of_places", 11, 4),
        ("link_on_a_rack", 10, 3),
        ("drawn_apart", 10, 5),
        ("five_bar_in_space", 10, 2),
        ("pushed_piston", 2, 2),
    ],
)
def test_joints_are_found(name, coordinates, loops):
    t = tree(name)
    assert (t.n, len(t.loops)) == (coordinates, loops)


def test_the_buggy_has_four_corners():
    t = tree("buggy")
    assert [body.name for body in t.bodies if body.parent == WORLD] == ["chassis"]
    assert t.bodies[0].freedoms == 6
    assert t.n - 6 == 25
    assert [t.velocities[k] for k in t.driven] == ["rack slide"]
    (follows,) = t.driven.values()
    assert (follows.const, follows.inputs) == (0.0, {0: 1.0})
    assert t.groups == tuple(tuple(range(4 * k, 4 * k + 4)) for k in range(4))
    assert t.anchors == (0, 0, 0, 0)
    assert t.freedoms == 14
    assert [s.inertia > 0.0 for s in t.scalars] == [True] * 4
    # each group is closed by coordinates of its own corner
    position = iter(t.dependent)
    for corner in ("fl", "fr", "rl", "rr"):
        assert {t.velocities[next(position)][:2] for _ in range(4)} == {corner}


def test_angles_about_joints_are_aliases():
    t = tree("driven_arm")
    assert {name: form.coordinates for name, form in t.aliases.items()} == {
        "shoulder angle": {t.velocities.index("one turn"): 1.0},
        "elbow angle": {t.velocities.index("two turn"): 1.0},
        "x": {t.velocities.index("slide slide"): 1.0},
    }
    assert t.aliases["shoulder angle"].const == 0.2
    assert t.driven[0].const == -0.2
    assert [s.name for s in t.scalars] == ["flywheel"]
    assert {t.velocities[k]: name for k, name in t.drives.items()} == {"one turn": "hand", "slide slide": "push"}
    assert [e.name for e in t.loops] == ["gear"]
    lean = tree("planar_joints").aliases["lean"]
    assert list(lean.coordinates.values()) == [1.0]


def test_what_is_cut_is_no_joint():
    m = mechanism("four_bar")
    t = make_tree(m, cut=["B"])
    assert {e.name.split(": ")[1][0] for e in t.loops} == {"B"}
    assert next(b for b in t.bodies if b.name == "coupler").parent == [b.name for b in t.bodies].index("rocker")
    t = make_tree(m, cut=["crank"])
    assert all(b.parent == WORLD or t.bodies[b.parent].name != "crank" for b in t.bodies)
    t = make_tree(mechanism("five_bar_in_space"), cut=["hinge0"])
    assert {e.name.split(".")[0] for e in t.loops} == {"hinge0"}
    with pytest.raises(MechanismError, match="no joint, node or body"):
        make_tree(m, cut=["nothing"])


@pytest.mark.parametrize("name", ["buggy", "hinges_of_places", "five_bar_in_space", "link_on_a_rack"])
def test_the_base_may_turn_over_without_losing_a_loop(name):
    t = tree(name)
    assert set(t.anchors) == {0}
    random = np.random.default_rng(8)
    for _ in range(5):
        x = t.assembled.copy()
        x[:6] = random.uniform(-3.0, 3.0, 6)
        x, left = close_loops(t, x)
        _, J = residuals(t.loops, tree_pose(t, x))
        assert left < 1e-12
        assert np.abs(J[:, :6]).max() < 1e-9
        for group in t.groups:
            columns = [t.dependent[k] for k in group]
            here = np.linalg.svd(J[np.ix_(group, columns)])[1]
            _, J0 = residuals(t.loops, tree_pose(t, t.assembled))
            assert np.allclose(here, np.linalg.svd(J0[np.ix_(group, columns)])[1])


def test_contradicting_drives_are_refused():
    m = mechanisms.driven_arm()
    m.drive("again", m.nodes["shoulder angle"], None)
    with pytest.raises(MechanismError, match="again"):
        make_tree(m)


def test_a_vector_without_a_body_is_refused():
    m = Mechanism()
    m.vector("loose", (1.0, 0.0, 0.0))
    with pytest.raises(MechanismError, match="loose: no body is built on it"):
        make_tree(m)


def test_a_freedom_without_a_mass_is_refused():
    m = Mechanism(2)
    m.point("A", (0.0, 0.0), fixed=True)
    m.point("B", (1.0, 0.0))
    with pytest.raises(MechanismError, match=r"B.*: moves nothing that has a mass"):
        generate(m)


def test_a_singular_drawing_is_refused():
    with pytest.raises(MechanismError, match="singular position"):
        make_tree(mechanisms.folded())


def test_loops_that_cannot_close_are_refused():
    m = mechanisms.planar_four_bar()
    m.rod("too short", m.nodes["A"], m.nodes["C"], 0.01)
    with pytest.raises(MechanismError, match="closed as well as they can be"):
        make_tree(m)


def test_inertia_that_is_no_bodys_is_refused():
    m = mechanisms.planar_four_bar()
    m.add_inertia(m.nodes["B"], m.nodes["C"], 0.1)
    with pytest.raises(MechanismError, match="no place for it"):
        make_tree(m)


def test_a_mass_between_two_bodies_is_refused():
    m = mechanisms.planar_four_bar()
    m.particle("between", 0.5 * m.nodes["B"] + 0.5 * m.bodies["rocker"].at((1.0, 0.5)), 0.1)
    with pytest.raises(MechanismError, match="more than one body"):
        make_tree(m)


def test_the_same_mechanism_has_the_same_tree():
    first, second = (make_tree(mechanisms.hinges_of_places()) for _ in range(2))
    assert repr(first) == repr(second)


def rates_of(t, at, qd):
    """Velocities with these rates of the natural coordinates and with the loops staying closed."""
    _, J = residuals(t.loops, at)
    derivatives = np.vstack([*(gradient(form, at) for form in t.columns), J])
    return np.linalg.lstsq(derivatives, np.concatenate([qd, np.zeros(len(J))]), rcond=1e-12)[0]


@pytest.mark.parametrize("name", ALL)
def test_natural_coordinates_lead_back_to_the_tree(name):
    t = tree(name)
    random = np.random.default_rng(9)
    floating = bool(t.balls) and t.bodies[0].freedoms == 6
    for x, u in positions(t, 2):
        turned = random.normal(size=4)
        references = {t.balls[0]: turned / np.linalg.norm(turned)} if floating else {}  # a free base, any way round
        at = tree_pose(t, x, u, references)
        if set(t.anchors) - {0}:  # loops that turn away from what they are closed with
            at = tree_pose(t, x, u)
        w = consistent(t, at)
        q, qd = to_natural(t, at, w)
        there = tree_pose(t, *((found := from_natural(t, q, u))[0], u, found[1]))
        again, rates = to_natural(t, there, rates_of(t, there, qd))
        assert np.allclose(q, again, atol=1e-10)
        assert np.allclose(qd, rates, atol=1e-8)
        assert np.allclose(at.R @ np.ones(3), there.R @ np.ones(3), atol=1e-8)
        assert np.abs(residuals(t.loops, there)[0]).max(initial=0.0) < 1e-10
