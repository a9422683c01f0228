"""Contacts of surfaces of revolution: tracking against the general equations, impulses against closed forms."""

from math import cos, pi, sin, sqrt

import numpy as np
import pytest

from sync.compile.array_types import read_only
from tandem.multibody.contact import stepping, tracking
from tandem.multibody.contact.kinds import RING, ROLLER, ROOT, SLIDE, SPHERE, SPHEROID, TURN
from tandem.multibody.contact.surfaces import track
from tandem.multibody.contact.tracking import Body, Plane, nearest, rates, roller, spheroid

FLOOR = Body(Plane(np.array([0.0, 0.0, 1.0])))


def attitude(r: np.random.Generator, most: float) -> np.ndarray:
    """The first axis at most so steep (its third component), otherwise at random."""
    z, turn, roll = r.uniform(-most, most), r.uniform(0, 2 * pi), r.uniform(0, 2 * pi)
    a = np.array([sqrt(1 - z * z) * cos(turn), sqrt(1 - z * z) * sin(turn), z])
    b = np.cross([0.0, 0.0, 1.0], a) / sqrt(1 - z * z)
    c = np.cross(a, b)
    return np.column_stack([a, cos(roll) * b + sin(roll) * c, cos(roll) * c - sin(roll) * b])


def lowest(kind: int, data: tuple[float, ...], axis: np.ndarray) -> np.ndarray:
    arm, none = np.zeros(3), np.zeros(3)
    track(kind, read_only(np.array(data)), np.ascontiguousarray(axis), none, none, arm)
    return arm


ROLLERS = [(0.05, 0.035, cos(psi), cos(psi) * sin(pi / 4)) for psi in (0.0, 0.3, pi / 4, 1.2)]


@pytest.mark.parametrize(
    "kind, data, surface, most",
    [(SPHEROID, (0.3, 0.1), spheroid(0.3, 0.1), 0.95), (SPHEROID, (0.1, 0.2), spheroid(0.1, 0.2), 0.95)]
    + [(ROLLER, (*figures, 0.0, 0.0, 0.0), roller(*figures), 0.99 * figures[3]) for figures in ROLLERS],
)  # fmt: skip
def test_the_point_without_iteration_solves_the_general_equations(kind, data, surface, most) -> None:
    r = np.random.default_rng(1)
    for _ in range(20):
        T = attitude(r, most)
        body = Body(surface, np.array([r.normal(), r.normal(), 0.4]), T)
        found = body.at + lowest(kind, data, T[:, 0])
        guess = np.concatenate(
            [[*found[:2], 0.0] + r.normal(size=3) * 1e-3, found + r.normal(size=3) * 1e-3, [-1.0, 0.0]]
        )
        _, g, _ = body.world(found)
        guess[6], guess[7] = 1.0 / g[2], (0.0 - found[2]) / g[2]
        x = nearest(FLOOR, body, guess)
        assert np.abs(tracking.residual(FLOOR, body, x)).max() < 1e-12
        assert np.abs(x[3:6] - found).max() < 1e-9
        assert np.abs(x[:3] - [*found[:2], 0.0]).max() < 1e-9


def test_the_differential_form_follows_the_algebraic_one() -> None:
    """Two spheroids that move and turn; Runge-Kutta on eqs. 7 with 8, then eqs. 5 from scratch."""
    velocities = np.array([0.2, -0.1, 0.05]), np.array([-0.1, 0.1, -0.3])
    spins = np.array([0.4, 0.8, -0.3]), np.array([-0.5, 0.2, 0.7])
    places = np.zeros(3), np.array([0.1, 0.05, 0.9])
    r = np.random.default_rng(2)
    starts = attitude(r, 0.9), attitude(r, 0.9)

    def bodies(t: float) -> tuple[Body, Body]:
        made = []
        for k, surface in enumerate((spheroid(0.3, 0.2), spheroid(0.15, 0.25))):
            w = spins[k]
            size = float(np.linalg.norm(w))
            x, y, z = w / size
            skew = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
            R = np.eye(3) + sin(size * t) * skew + (1 - cos(size * t)) * skew @ skew
            made.append(Body(surface, places[k] + t * velocities[k], R @ starts[k], velocities[k], w))
        return made[0], made[1]

    A, B = bodies(0.0)
    x = np.array([*places[0], *places[1], 0.0, 0.0])
    x[2], x[5] = x[2] + 0.2, x[5] - 0.2
    g = B.world(x[3:6])[1]
    x[6], x[7] = A.world(x[:3])[1][2] / g[2], (x[2] - x[5]) / g[2]
    x = nearest(A, B, x)
    assert np.abs(tracking.residual(A, B, x)).max() < 1e-12 and x[7] > 0.0  # apart
    h = 0.01
    for k in range(60):
        t = k * h
        k1 = rates(*bodies(t), x)
        k2 = rates(*bodies(t + h / 2), x + h / 2 * k1)
        k3 = rates(*bodies(t + h / 2), x + h / 2 * k2)
        x = x + h / 6 * (k1 + 2 * k2 + 2 * k3 + rates(*bodies(t + h), x + h * k3))
    assert np.abs(x - nearest(*bodies(0.6), x)).max() < 1e-7


@pytest.mark.parametrize(
    "kind, data", [(SPHERE, (0.2,)), (RING, (0.2, 0.03)), (ROLLER, (0.05, 0.035, 0.9, 0.5, 0.03, 0.01, 0.0))]
)
def test_nothing_of_a_surface_is_lower_than_its_point(kind, data) -> None:
    """Beyond its tips too: a support function is convex, so no point that it gives reaches farther than it says."""
    r = np.random.default_rng(3)
    if kind == ROLLER:  # an edge that fits
        figures = roller(*data[:4]).profile(data[3])
        data = (*data[:4], *figures, 0.0)
    down = np.array([0.0, 0.0, -1.0])
    axes = [attitude(r, 0.9)[:, 0] for _ in range(40)]
    for axis in axes:
        reach = -lowest(kind, data, axis)[2]
        for other in axes:  # the same body, looked at from elsewhere: its point there, turned back
            turned = lowest(kind, data, other)
            along, side = float(turned @ other), turned - float(turned @ other) * other
            across = down - float(down @ axis) * axis
            point = along * axis + float(np.linalg.norm(side)) * across / np.linalg.norm(across)
            assert float(point @ down) <= reach + 1e-12


# ---- impulses --------------------------------------------------------------------------------------------------------


class Ball:
    """A sphere that slides along x and z and turns about y, over the floor."""

    radius, mass = 0.1, 2.0

    def __init__(
        self, friction: float, restitution: float = 0.0, compliance: float = 0.0, spin_reach: float = 0.0
    ) -> None:
        inertia = 0.4 * self.mass * self.radius**2
        none, zero = [0.0] * 6, [0.0] * 3
        rows = [
            [1.0, 0.0, 0.0, *zero, 0.0, *zero, *none, 0.0],
            [0.0, 0.0, 1.0, *zero, 0.0, *zero, *none, 0.0],
            [0.0, 1.0, 0.0, *zero, self.mass, *zero, *[inertia] * 3, *zero, 0.0],
        ]
        surface = [0.0, 0.0, 0.0, 0.0, 1.0, 0.0, *none, self.radius, *none]
        self.tree = stepping.Tree(
            read_only(np.array([-1, SLIDE, ROOT, 0, SLIDE, ROOT, 1, TURN, 0], np.int32)),
            read_only(np.ravel(rows)),
            read_only(np.array([2, 2, SPHERE], np.int32)),
            read_only(np.array(surface)),
            read_only(np.zeros(0)),
            2,
            100,
        )
        self.settings = np.array([0.0, 0.0, -9.81, friction, restitution, compliance, 1e-13, spin_reach])
        self.q, self.v = np.array([0.0, self.radius, 0.0]), np.zeros(3)
        self.joints = stepping.Joints(self.q, self.v, *np.zeros((4, 3)))
        self.work = np.zeros(stepping.work_size(3, 1))
        self.report = np.zeros(stepping.REPORT + stepping.CONTACT_ROW)
        self.lost = 0.0

    def step(self, h: float) -> None:
        stepping.advance_tree(self.tree, self.settings, self.joints, self.work, self.report, h)
        self.lost += float(self.report[stepping.FRICTION_LOSS] + self.report[stepping.IMPACT_LOSS])

    @property
    def energy(self) -> float:
        return float(self.report[stepping.KINETIC] + self.report[stepping.POTENTIAL])


def test_a_sliding_ball_comes_to_roll_with_five_sevenths_of_its_speed() -> None:
    ball = Ball(friction=0.2)
    ball.v[0] = 1.0
    slides = 2.0 / 7.0 / (0.2 * 9.81)  # s
    before = 0.5 * ball.mass
    while ball.report[stepping.KINETIC] == 0.0 or abs(ball.v[0] - ball.v[2] * ball.radius) > 1e-9:
        ball.step(1e-4)
        assert ball.report[stepping.REPORT + stepping.C_FORCE + 2] == pytest.approx(2.0 * 9.81, rel=1e-9)
        slides -= 1e-4
    assert ball.v[0] == pytest.approx(5.0 / 7.0, rel=1e-9)
    assert slides == pytest.approx(0.0, abs=2e-4)
    assert ball.lost == pytest.approx(2.0 / 7.0 * before, rel=1e-9)
    for _ in range(1000):  # and so it stays
        ball.step(1e-3)
    assert ball.v[0] == pytest.approx(5.0 / 7.0, rel=1e-9) and ball.q[1] == pytest.approx(ball.radius, abs=1e-12)


def test_a_ball_bounces_with_its_restitution_and_the_books_close() -> None:
    ball = Ball(friction=0.0, restitution=0.8)
    ball.q[1] += 0.2
    start = ball.mass * 9.81 * ball.q[1]
    tops = []
    rising = False
    for _ in range(8000):
        ball.step(1e-4)
        if rising and ball.v[1] <= 0.0:
            tops.append(ball.q[1] - ball.radius)
        rising = ball.v[1] > 0.0
        assert ball.energy + ball.lost == pytest.approx(start, rel=1e-9)
    assert tops[0] == pytest.approx(0.8**2 * 0.2, rel=5e-3) and tops[1] == pytest.approx(0.8**4 * 0.2, rel=5e-3)


def test_without_restitution_it_lands_and_stays() -> None:
    ball = Ball(friction=0.3)
    ball.q[1] += 0.05
    ball.v[0] = 0.3
    for _ in range(400):
        ball.step(2.5e-3)
    assert ball.q[1] == pytest.approx(ball.radius, abs=1e-12) and abs(ball.v[1]) < 1e-12
    assert ball.v[0] == pytest.approx(0.3 * 5.0 / 7.0, rel=1e-6)


def test_a_compliant_contact_sinks_by_its_load() -> None:
    ball = Ball(friction=0.0, compliance=1e-6)
    for _ in range(100):
        ball.step(1e-3)
    assert ball.q[1] == pytest.approx(ball.radius - 1e-6 * 2.0 * 9.81, abs=1e-12)
