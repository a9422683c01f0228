"""An expression graph says what was written, each thing once, and its tangents are the exact derivatives."""

import math

import numpy as np
import pytest

from tandem.multibody.code.graph import BINARY, OPERATIONS, UNARY, Graph
from tests.tandem.multibody.code.graphs import SIZE, inputs, plain, random_graph

STEP = 1e-30  # of the complex step: nothing is lost by making it small


@pytest.fixture
def g():
    return Graph()


# folding


def test_what_is_added_to_zero_or_multiplied_by_one_is_not_there(g):
    x = g.input("x", 0)
    for same in (x + 0.0, 0 + x, x - 0.0, x * 1.0, 1 * x, x / 1.0, g.neg(-x), -1 * -x, x**1):
        assert same == x
    for none in (x * 0.0, 0 * x, x - x, 0.0 / x, g.zero * g.sin(x)):
        assert none.value == 0.0
    assert x / x == g.one
    assert 0.0 - x == -x == x * -1.0


@pytest.mark.parametrize("what", OPERATIONS)
def test_constants_are_folded(g, what):
    a, b = 0.3, 0.7
    arguments = [a] if what in UNARY else [a, b] if what in BINARY else [a, b, 2.0, 3.0]
    found = g.operation(what, [g.constant(c) for c in arguments])
    x = g.inputs("x", 4)
    assert found.value == g.evaluate([g.operation(what, x[: len(arguments)])], {"x": arguments})[0]


def test_zero_has_one_sign(g):
    assert g.constant(-0.0) == g.zero
    assert math.copysign(1.0, (g.zero * -1.0).value) == 1.0


def test_what_is_no_number_is_refused(g):
    for value in (math.nan, math.inf):
        with pytest.raises(ValueError, match="constant"):
            g.constant(value)
    with pytest.raises(ZeroDivisionError, match="constant zero"):
        g.input("x", 0) / 0.0
    for power in (0, -1, 0.5):
        with pytest.raises(ValueError, match="whole number"):
            g.input("x", 0) ** power


def test_a_choice_between_equals_is_none(g):
    a, b, c = g.inputs("x", 3)
    assert g.select(a, b, c, c) == c
    assert g.select(1.0, 2.0, b, c) == b
    assert g.select(2.0, 2.0, b, c) == c
    assert g.min(a, a) == a == g.max(a, a)


# sharing


def test_equal_expressions_are_one_node(g):
    a, b = g.inputs("x", 2)
    count = len(g.nodes)
    assert a + b == b + a
    assert a * b == b * a
    assert g.min(a, b) == g.min(b, a)
    assert g.sin(a + b) == g.sin(b + a)
    assert len(g.nodes) == count + 4
    assert a - b != b - a
    assert a / b != b / a
    assert len({a, g.input("x", 0), b}) == 2
    assert a**4 == (a * a) * (a * a)


def test_nodes_of_two_graphs_are_different(g):
    assert g.input("x", 0) != Graph().input("x", 0)


def test_signs_move_outwards_and_vanish(g):
    a, b = g.inputs("x", 2)
    assert a + -b == a - b
    assert -a + b == b - a
    assert a - -b == a + b
    assert -a - b == -(a + b)
    assert -(a - b) == b - a
    assert (-a) * b == -(a * b) == a * -b
    assert (-a) * -b == a * b
    assert (-a) / b == -(a / b) == a / -b
    assert g.sin(-a) == -g.sin(a)
    assert g.cos(-a) == g.cos(a)
    assert g.abs(-a) == g.abs(a)


def test_the_same_calls_give_the_same_nodes():
    for seed in range(3):
        (one, first), (two, second) = random_graph(seed), random_graph(seed)
        assert one.nodes == two.nodes
        assert [e.id for e in first] == [e.id for e in second]
        seeds = [{graph.input("x", 0): 1.0, graph.input("y", 1): graph.input("x", 2)} for graph in (one, two)]
        assert [e.id for e in one.tangents(first, seeds[0])] == [e.id for e in two.tangents(second, seeds[1])]
        assert one.nodes == two.nodes


# reading


def test_needed_is_what_is_needed_operands_first(g):
    a, b, c = g.inputs("x", 3)
    wanted = g.sin(a * b) + a
    unused = g.cos(c) * wanted
    order = g.needed([wanted, a])
    assert sorted(order) == sorted({e.id for e in (a, b, a * b, g.sin(a * b), wanted)})
    assert unused.id not in order
    assert g.operations([wanted, wanted]) == {"mul": 1, "sin": 1, "add": 1}


@pytest.mark.parametrize("seed", range(5))
def test_needed_of_any_graph_has_every_node_once_behind_its_operands(seed):
    g, outputs = random_graph(seed)
    order = g.needed(outputs)
    place = {id: k for k, id in enumerate(order)}
    assert len(place) == len(order)
    assert all(place[k] < place[id] for id in order for k in g.operands(id))
    reached = {e.id for e in outputs}
    for id in reversed(order):
        assert id in reached
        reached.update(g.operands(id))


@pytest.mark.parametrize("seed", range(10))
def test_what_is_evaluated_is_what_was_written(seed):
    g, outputs = random_graph(seed)
    given = inputs(np.random.default_rng(seed))
    np.testing.assert_allclose(g.evaluate(outputs, given), plain(g, outputs, given), rtol=1e-12, atol=1e-13)


# tangents


def complex_tangents(g, outputs, given, seeds):
    moved = {name: np.array(values, complex) for name, values in given.items()}
    for (name, k), rate in seeds.items():
        moved[name][k] += 1j * STEP * rate
    return np.imag(g.evaluate(outputs, moved)) / STEP


@pytest.mark.parametrize("what", OPERATIONS)
def test_the_tangent_of_every_operation_is_its_derivative(g, what):
    rng = np.random.default_rng(3)
    x = g.inputs("x", 4)
    f = g.operation(what, x[: 1 if what in UNARY else 2 if what in BINARY else 4])
    for _ in range(20):
        at = rng.uniform(0.1, 2.0, 4) if what == "sqrt" else rng.uniform(-2.0, 2.0, 4)
        rates = rng.uniform(-1.0, 1.0, 4)
        (tangent,) = g.tangents([f], {e: g.input("dx", k) for k, e in enumerate(x)})
        (exact,) = complex_tangents(g, [f], {"x": at}, {("x", k): rates[k] for k in range(4)})
        (found,) = g.evaluate([tangent], {"x": at, "dx": rates})
        assert found == pytest.approx(exact, rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("seed", range(20))
def test_tangents_of_any_graph_are_those_of_the_complex_step(seed):
    g, outputs = random_graph(seed)
    rng = np.random.default_rng(100 + seed)
    given = inputs(rng)
    for name in ("x", "y"):
        for k in range(SIZE):
            exact = complex_tangents(g, outputs, given, {(name, k): 1.0})
            found = g.evaluate(g.tangents(outputs, {g.input(name, k): 1.0}), given)
            np.testing.assert_allclose(found, exact, rtol=1e-12, atol=1e-12 * max(1.0, np.abs(exact).max()))


def test_second_derivatives_are_tangents_of_tangents():
    g, outputs = random_graph(4, 60)
    given = inputs(np.random.default_rng(8))
    first = g.tangents(outputs, {g.input("x", 0): 1.0})
    second = g.tangents(first, {g.input("y", 2): 1.0})
    exact = complex_tangents(g, first, given, {("y", 2): 1.0})
    np.testing.assert_allclose(g.evaluate(second, given), exact, rtol=1e-12, atol=1e-12 * np.abs(exact).max())


def test_branches_are_differentiated_on_the_side_on_which_they_are(g):
    a, b = g.inputs("x", 2)
    outputs = [g.min(a, b), g.max(a, b), g.abs(a), g.select(a, b, a * a, b * b)]
    derivatives = g.tangents(outputs, {a: 1.0})
    assert g.evaluate(derivatives, {"x": [-1.0, 2.0]}).tolist() == [1.0, 0.0, -1.0, -2.0]
    assert g.evaluate(derivatives, {"x": [3.0, 2.0]}).tolist() == [0.0, 1.0, 1.0, 0.0]


def test_what_does_not_change_has_no_tangent(g):
    a, b = g.inputs("x", 2)
    f = g.sin(b) * g.exp(b) + g.max(b, 1.0)
    assert [e.value for e in g.tangents([f, b, g.one], {a: 1.0})] == [0.0, 0.0, 0.0]


def test_a_seeded_node_is_a_variable_of_its_own(g):
    a, b = g.inputs("x", 2)
    between = a * a * b
    f = between * a
    (slope,) = g.tangents([f], {between: 1.0})
    assert slope == a
    (slope,) = g.tangents([f], {a: 1.0, between: 0.0})
    assert slope == between


def test_two_names_of_one_node_are_one_seed(g):
    a = g.input("x", 0)
    seeds = {a: 1.0, g.input("x", 0): 2.0}
    assert len(seeds) == 1
    assert g.tangents([a * a], seeds) == [a * 2.0 + a * 2.0]


def test_products_are_fused_where_nothing_else_needs_them():
    g = Graph()
    a, b, c, d = g.inputs("x", 4)
    ab = a * b
    outputs = [ab + c * d, a * c - d, d - b * c, ab * c, (a * d) + (a * d) * b]
    fused, same = g.fused(outputs)
    x = {"x": np.array([1.5, -0.5, 2.25, 3.0])}
    assert np.array_equal(fused.evaluate(same, x), g.evaluate(outputs, x))  # numbers that no rounding changes
    assert fused.operations(same) == {"mul": 3, "multiply_add": 2, "multiply_subtract": 1, "subtract_product": 1}
    for k in range(4):
        plain, quick = (one.tangents(of, {one.input("x", k): 1.0}) for one, of in ((g, outputs), (fused, same)))
        assert np.array_equal(g.evaluate(plain, x), fused.evaluate(quick, x))
