"""The factorisation against numpy, on patterns of all kinds; and that its pattern is worth having."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem.multibody.natural import evaluation
from tandem.multibody.natural.api import Mechanism
from tandem.multibody.natural.pattern import make_pattern
from tandem.multibody.natural.tables import BAD_PIVOTS, P
from tests.examples import few
from tests.tandem.multibody.natural.mechanisms import bricard, chain


@pytest.mark.parametrize("dense", [True, False])
@given(seed=st.integers(0, 2**32 - 1), size=st.integers(1, 40), links=st.integers(0, 60))
@settings(max_examples=few(15), deadline=None)
def test_solutions_are_those_of_numpy(dense: bool, seed: int, size: int, links: int) -> None:
    """A net of scalars: any sparse matrix is the tangent of springs between scalars."""
    rng = np.random.default_rng(seed)
    m = Mechanism(dimension=2)
    nodes = [m.scalar(f"s{i}", 0.0, inertia=rng.uniform(0.5, 2.0)) for i in range(size)]
    for k in range(links):
        a, b = rng.integers(0, size, 2)
        m.torsion(f"k{k}", nodes[a] - nodes[b], rng.uniform(0.1, 5.0))
    system = m.compile(dense=dense)
    work, state = system.work(), system.state()
    evaluation.tangent(system.ints, system.reals, state.vector, work, system.hook, 1.0, 0.0)
    A = system.pattern.matrix(system.part(P.FACTOR, work))
    b = rng.normal(size=size)
    x = system.part(P.RHS, work)
    x[:] = b
    evaluation.solve_tangent(system.ints, system.reals, state.vector, work, system.hook)
    np.testing.assert_allclose(x, np.linalg.solve(A, b), rtol=1e-11, atol=1e-12)
    assert system.part(P.DIAGNOSTIC, work)[BAD_PIVOTS] == 0


def test_a_pivot_that_is_not_positive_is_counted_and_survived() -> None:
    m = Mechanism(dimension=2)
    s = m.scalar("s", 0.0, inertia=1.0)
    m.torsion("away", s, stiffness=-5.0)
    system = m.compile()
    work, state = system.work(), system.state()
    evaluation.tangent(system.ints, system.reals, state.vector, work, system.hook, 1.0, 0.0)
    x = system.part(P.RHS, work)
    x[:] = 1.0
    evaluation.solve_tangent(system.ints, system.reals, state.vector, work, system.hook)
    assert system.part(P.DIAGNOSTIC, work)[BAD_PIVOTS] == 1
    assert x[0] == pytest.approx(0.25)


def test_the_factor_of_a_chain_grows_with_its_length_and_no_more() -> None:
    sizes = [chain(n).pattern.size for n in (20, 40, 80)]
    assert sizes[1] <= 2.1 * sizes[0] and sizes[2] <= 2.1 * sizes[1]


def test_small_systems_are_dense_and_large_ones_sparse() -> None:
    assert chain(3).pattern.dense
    assert not chain(40).pattern.dense
    assert chain(40, dense=True).pattern.dense


def test_every_entry_of_a_clique_has_a_place_and_fill_is_closed() -> None:
    rng = np.random.default_rng(3)
    cliques = [rng.choice(60, size=rng.integers(1, 7), replace=False).tolist() for _ in range(40)]
    cliques += [[i] for i in range(60)]
    pattern = make_pattern(60, cliques, dense=False)
    places = {pattern.entry(i, j) for c in cliques for i in c for j in c}
    assert max(places) < pattern.size
    assert sorted(pattern.order.tolist()) == list(range(60))
    assert (pattern.update_dst >= 0).all() and (pattern.update_dst < pattern.size).all()


def test_dense_and_sparse_make_the_same_motion() -> None:
    from tandem.multibody.natural.api import run, start

    ends = [run(start(bricard(h=2e-3, dense=d).state()), 0.5).q[-1] for d in (True, False)]
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-8)
