"""Two formulations, one mechanism: at any state both say the same, and derivatives are those of the complex step.

`python -m verify formulations` asks the same of many more states.
"""

import numpy as np
import pytest

from tandem.machines.car.buggy.relative_dynamics import car_rates_and_jacobian
from tandem.multibody.natural.linearise import linearise
from tandem.multibody.relative.conversion import to_natural
from tandem.multibody.relative.kinematics import tree_pose
from tandem.multibody.relative.port_jacobian import jacobian
from tests.examples import thorough
from tests.tandem.machines.car.buggy.test_relative_forces import instant
from tests.tandem.multibody.relative import complex_car
from tests.tandem.multibody.relative.both import At, Both, apart, both, worst
from tests.tandem.multibody.relative.buggy_states import buggy
from tests.tandem.multibody.relative.test_tree import FILES, KINDS, OWN

LONG = "chain"  # by its own recursion (verify/multibody/chain.py)
SMALL = [name for name in (*FILES, *OWN, *KINDS) if name != LONG]
ALL = [*SMALL, "buggy"]
AGREE = 1e-9
DERIVATIVES = {"crane": 1e-10}  # a load of 800 kg on links of 1.2 kg
LIMITS = {"position": 1e-10, "velocity": 1e-10, "effort as solved": 1e-8}  # the penalty's rounding is in the last


def made(name: str) -> Both:
    return buggy() if name == "buggy" else both(name)


def states(name: str, count: int, seed: int = 1) -> list[At]:
    rng = np.random.default_rng(seed)
    return [made(name).state(rng) for _ in range(count)]


@pytest.mark.parametrize("name", SMALL)
def test_both_formulations_say_the_same_at_any_state(name):
    found = worst(both(name), states(name, 8))
    assert {what: size for what, size in found.items() if not size <= LIMITS.get(what, AGREE)} == {}


def test_both_formulations_of_the_buggy_say_the_same_with_all_forces():
    one, rng, count, loaded = buggy(), np.random.default_rng(7), 0, 0
    for _ in range(20 if thorough() else 6):
        at = one.state(rng)
        found = one.differences(at)
        assert {what: size for what, size in found.items() if not size <= LIMITS.get(what, AGREE)} == {}
        assert {"acceleration", "effort", "port forces", "kinetic", "reactions"} <= set(found)
        loads = one.forces(at)[[2, 15, 28, 41]]
        count, loaded = count + 4, loaded + int(np.sum(loads > 100.0))
    assert 0.2 * count < loaded < count  # wheels on the road and in the air


@pytest.mark.parametrize("name", ALL)
def test_places_are_those_of_the_drawing_moved(name):
    """By the plain kinematics of the tree, which has no code in common with the generated one."""
    one = made(name)
    for at in states(name, 3, seed=2):
        references = {k: at.ref[4 * i : 4 * i + 4] for i, k in enumerate(one.balls)}
        q, _ = to_natural(one.tree, tree_pose(one.tree, at.x, at.u[0::3], references))
        np.testing.assert_allclose(one.places(at, np.zeros(one.tree.n))[0], q, rtol=0, atol=1e-13 * (1 + abs(q).max()))


@pytest.mark.parametrize("name", ALL)
def test_rates_are_derivatives_in_time(name):
    """Of the coordinates along the motion, and of their rates, by the complex step."""
    one = made(name)
    for at in states(name, 2, seed=3):
        f = one.forces(at)
        motion = one.motion(at, f)
        _, qd, qdd = one.places(at, motion["full"])
        inputs = np.zeros_like(at.u)
        inputs[0::3], inputs[1::3] = at.u[1::3], at.u[2::3]
        along = one.moved(at, f, motion["xdot"], motion["acceleration"], inputs)
        assert apart(along["q"], qd) < 1e-12
        assert apart(along["qd"], qdd) < 1e-12


@pytest.mark.drill
@pytest.mark.parametrize("name", ALL)
def test_the_jacobian_is_that_of_the_complex_step_far_from_the_drawing(name):
    """Balls turned, speeds high; forces of a model with blocks that are random, each joined to its own ports."""
    one = made(name)
    (at,) = states(name, 1, seed=4)
    n, blocks, rng = len(one.independent), one.made.blocks, np.random.default_rng(4)
    f = one.forces(at)
    K, C = (rng.uniform(-1.0, 1.0, sum(size * size for size in blocks.sizes)) for _ in range(2))
    out = one.evaluated("derivatives", x=at.x, ref=at.ref, w=at.w, u=at.u, f=f)
    J = np.zeros((2 * n, 2 * n))
    derivatives = (out[key] for key in ("port_derivatives", "rate_derivatives", "derivatives", "turns", "factor"))
    jacobian(blocks.table, K, C, *derivatives, np.zeros(blocks.work_size), J.ravel(), 2 * n)
    for k in range(2 * n):
        way = np.eye(2 * n)[k]
        moved = one.moved(at, f, way[:n], way[n:])
        if len(f):
            df, place = np.zeros(len(f)), 0
            for first, size in zip(blocks.first, blocks.sizes, strict=True):
                here, block = slice(first, first + size), slice(place, place + size * size)
                for A, rates in ((K, moved["ports"]), (C, moved["rates"])):
                    df[here] -= A[block].reshape(size, size) @ rates[here]
                place += size * size
            moved = one.moved(at, f, way[:n], way[n:], None, df)
        exact = np.concatenate([moved["xdot"], moved["acceleration"]])
        assert np.abs(J[:, k] - exact).max() < DERIVATIVES.get(name, 1e-12) * max(np.abs(J).max(), 1.0)


@pytest.mark.parametrize("name", [name for name in SMALL if name not in ("coin", "sleigh")])  # whose modes are none
def test_derivatives_are_those_of_the_natural_formulation(name):
    """Which has them by central differences, in directions of its own: zdd = -K z - D zd, z = N^T q."""
    one = both(name)
    count = len(one.independent)
    (at,) = states(name, 1, seed=5)
    f = one.forces(at)
    q, qd, _ = one.places(at, one.motion(at, f)["full"])
    near = linearise(one.natural(at, q, qd))
    N, K, D = near.basis.T, near.stiffness, near.damping
    assert len(N) == count
    for k in range(2 * count):
        way = np.eye(2 * count)[k]
        moved = one.moved(at, f, way[:count], way[count:])
        expected = -K @ (N @ moved["q"]) - D @ (N @ moved["qd"])
        assert np.abs(N @ moved["qdd"] - expected).max() < 1e-5 * max(np.abs(expected).max(), np.abs(K).max(), 1.0)


def test_tangents_of_the_whole_car_are_those_of_the_complex_step():
    """Tyres, springs, driveline, brakes and closed loops together: all columns of its Jacobian, and by time."""
    one, made = instant(""), buggy().made
    N = len(one.y)
    J, rates, by_time = np.zeros(N * N), np.zeros(N), np.zeros(N)
    car_rates_and_jacobian(one.ints, one.reals, one.room, one.t, one.y, rates, J, by_time)
    y, t = np.tile(one.y[:, None], (1, N + 1)).astype(complex), np.full(N + 1, one.t, complex)
    y[:, :N] += 1j * complex_car.TINY * np.eye(N)
    t[N] += 1j * complex_car.TINY
    found = complex_car.rates(made, one, y, t)
    assert apart(found[:, 0].real, rates) < 1e-11
    exact = np.hstack([J.reshape(N, N), by_time[:, None]])
    wanted = found.imag / complex_car.TINY
    for row, expected in zip(exact, wanted, strict=True):
        assert np.abs(row - expected).max() <= 1e-12 * np.abs(expected).max()
