"""Texts to take away compute what the graph says in every language, and what the equations of motion are."""

import re

import numpy as np
import pytest

from tandem.multibody.code.languages import LANGUAGES, Formula, Read, Written, written_in
from tandem.multibody.natural.errors import MechanismError
from tandem.multibody.natural.mechanism import Mechanism
from tandem.multibody.relative.formulas import QUANTITIES, formulas
from tandem.multibody.relative.generate import Writer
from tandem.multibody.relative.spanning import make_tree
from tests.tandem.multibody.code.graphs import SIZE, inputs, random_graph
from tests.tandem.multibody.relative.both import both
from tests.tandem.multibody.relative.mechanisms import folded, pushed_piston
from tests.tandem.multibody.relative.test_tree import mechanism
from verify.multibody.formula_texts import (
    COMPILER,
    OCTAVE,
    against_natural,
    apart,
    by_graph,
    in_c,
    in_matlab,
    in_python,
    random_mechanism,
    states,
)

# a loop, a ball with a rotor, inputs and friction, a free body with bars, every joint of the plane, a loop in space
NAMES = ("four_bar", "gyroscope", "driven_arm", "line_bodies", "planar_joints", "spatial_slider_crank")


def arguments(name, count=3):
    """Of closed states, with accelerations and forces of a model besides."""
    one, rng = both(name), np.random.default_rng(7)
    out = []
    for _ in range(count):
        at = one.state(rng, reach=0.3)
        a = rng.uniform(-5.0, 5.0, len(one.independent))
        out.append({"x": at.x, "ref": at.ref, "w": at.w, "u": at.u, "a": a, "f": np.zeros(len(one.made.ports))})
    return out


def random_formula(seed):
    g, outputs = random_graph(seed)
    names = tuple(f"number {k}" for k in range(SIZE))
    reads = Read("x", "some", names), Read("y", "others", names)
    return Formula(
        f"formula{seed}", "of operations of every kind", g, reads, (Written("z", "", (len(outputs),), outputs),)
    )


def in_language(language, functions, given, folder):
    if language == "c":
        if COMPILER is None:
            pytest.skip("no C compiler")
        return in_c(functions, given, folder)
    if language == "matlab":
        if OCTAVE is None:
            pytest.skip("no Octave: its distribution has it as octave or octave-cli")
        return in_matlab([(f, given) for f in functions], folder)
    return in_python(functions, given)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_text_computes_what_the_graph_says(language, tmp_path):
    for name in NAMES:
        functions, given = formulas(mechanism(name), name, tuple(QUANTITIES)), arguments(name)
        assert len(functions) == 4
        folder = tmp_path / name
        folder.mkdir()
        assert apart(in_language(language, functions, given, folder), by_graph(functions, given)) < 1e-12


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_operation_has_its_text(language, tmp_path):
    functions = [random_formula(seed) for seed in range(5)]
    given = [inputs(np.random.default_rng(seed)) for seed in range(5)]
    assert apart(in_language(language, functions, given, tmp_path), by_graph(functions, given)) < 1e-12


@pytest.mark.skipif(OCTAVE is None, reason="no Octave")
def test_a_fault_in_one_of_many_texts_is_found(tmp_path, monkeypatch):
    functions, given = [random_formula(seed) for seed in range(3)], [inputs(np.random.default_rng(0))]

    def written(one, language):
        return written_in(one, language).replace("z(1) = ", f"z(1) = {1e-6 if one is functions[1] else 0.0} + ", 1)

    monkeypatch.setattr("verify.multibody.formula_texts.written_in", written)
    found, expected = in_matlab([(f, given) for f in functions], tmp_path), by_graph(functions, given)
    off = [apart({name: found[name]}, {name: runs}) > 1e-9 for name, runs in expected.items()]
    assert off == [False, True, False]


@pytest.mark.parametrize("name", NAMES)
def test_texts_are_the_equations_of_motion(name):
    """Solved, they give the accelerations and efforts that the machine code finds, which natural coordinates confirm
    (test_cross_checks.py); inverse dynamics of these is nothing on the independent velocities."""
    one, functions = both(name), formulas(mechanism(name), name, tuple(QUANTITIES))
    for given in arguments(name):
        motion = one.called("motion", **{k: given[k] for k in ("x", "ref", "w", "u", "f")})
        (M,), (F,), (J,) = (in_python([functions[k]], [given])[functions[k].name] for k in range(3))
        np.testing.assert_allclose(np.linalg.solve(M["M"], F["F"]), motion["acceleration"], rtol=1e-9, atol=1e-9)
        (e,) = in_python([functions[3]], [given | {"a": motion["acceleration"]}])[functions[3].name]
        free = len(one.independent)
        np.testing.assert_allclose(e["e"][:free], 0.0, atol=1e-9 * (1.0 + np.abs(F["F"]).max()))
        np.testing.assert_allclose(e["e"][free:], motion["effort"], rtol=1e-9, atol=1e-9)
        if "h" in J:
            assert np.abs(J["h"]).max() < 1e-10
            every = one.called("velocities", **{k: given[k] for k in ("x", "ref", "w", "u")})["every"]
            still = {"u": np.where(np.arange(len(given["u"])) % 3 == 0, given["u"], 0.0)}
            at_rest = one.called("velocities", **{k: (given | still)[k] for k in ("x", "ref", "w", "u")})["every"]
            np.testing.assert_allclose(J["J"] @ at_rest, 0.0, atol=1e-9 * (1.0 + np.abs(every).max()))
            np.testing.assert_allclose(J["closed"], given["x"][one.dependent], atol=1e-9)


def test_places_move_as_their_derivatives_say():
    """By differences along a motion, with the loops closed by the text's own corrections."""
    one, (f,) = both("four_bar"), formulas(mechanism("four_bar"), "four_bar", ("jacobian",))

    def at(x):
        for _ in range(6):
            (found,) = in_python([f], [{"x": x}])[f.name]
            x = x.copy()
            x[one.dependent] = found["closed"]
        return found

    x, h = arguments("four_bar")[0]["x"], 1e-6
    moved = np.zeros(len(x))
    moved[one.independent] = h
    difference = (at(x + moved)["q"] - at(x - moved)["q"]) / (2.0 * h)
    np.testing.assert_allclose(at(x)["Jq"][:, 0], difference, atol=1e-8)


def test_a_head_says_how_to_call_what_numbers_are_and_what_it_costs():
    (f,) = formulas(mechanism("four_bar"), "four_bar", ("forces",))
    assert sum(f.operations.values()) == sum(f.graph.operations([e for out in f.writes for e in out.values]).values())
    c, python, matlab = (written_in(f, language) for language in LANGUAGES)
    assert "void four_bar_forces(const double *x, const double *w, const double *p, double *F)" in c
    assert "F = four_bar_forces(x, w, p=P)" in python and "[F] = four_bar_forces(x, w, p)" in matlab
    assert "x[2]  x_coupler_turn, rad, independent" in c and "x(3)  x_coupler_turn, rad, independent" in matlab
    for text in (c, python, matlab):
        assert f"operations: {sum(f.operations.values())} (" in text
        assert "p_crank_mass" in text and "usually 9.81" not in text and "usually -9.81" in text
    # each sine once
    calls = re.findall(r"math\.(?:sin|cos)\(\w+\)", python)
    assert len(calls) == len(set(calls)) == 6


def named(first, second="second"):
    """Two bodies of these names in the plane."""
    m = Mechanism(dimension=2)
    a, b = m.point("a", (1.0, 0.0)), m.point("b", (2.0, 0.5))
    m.bar(first, m.point("o", (0.0, 0.0), fixed=True), a, 1.0)
    m.bar(second, a, b, 1.0)
    return m


def test_words_of_a_language_and_of_its_library_are_names_like_others(tmp_path):
    functions = formulas(named("for", "math"), "end", tuple(QUANTITIES))
    given = [{"x": np.array([0.3, -0.2]), "w": np.array([1.0, 2.0]), "a": np.array([0.5, 0.1])}]
    expected = by_graph(functions, given)
    for language in LANGUAGES:
        if (language, None) not in (("c", COMPILER), ("matlab", OCTAVE)):
            assert apart(in_language(language, functions, given, tmp_path), expected) < 1e-12


@pytest.mark.parametrize(
    ("m", "words"),
    [
        (lambda: named("größe"), "größe turn: can be no name in"),
        (lambda: named('x"""\nimport os'), "can be no name in"),
        (lambda: named("a.b", "a b"), "would be x_a_b_turn in .*, as a.b turn would"),
        (folded, "singular"),
        (pushed_piston, "no freedom is left"),
    ],
)
def test_what_cannot_be_written_is_one_sentence(m, words):
    def write():
        return [written_in(f, language) for f in formulas(m(), "some", tuple(QUANTITIES)) for language in LANGUAGES]

    with pytest.raises(MechanismError, match=words):
        write()


def test_matlab_takes_names_of_63_letters():
    (f,) = formulas(named("a" * 70), "some", ("mass",))
    assert "a" * 70 in written_in(f, "c")
    with pytest.raises(MechanismError, match="MATLAB takes at most 63"):
        written_in(f, "matlab")


def test_a_mechanism_without_freedom_has_places_alone():
    (f,) = formulas(pushed_piston(), "pushed", ("jacobian",))
    assert [out.name for out in f.writes] == ["h", "J", "closed", "q"]
    with pytest.raises(MechanismError, match="nothing moves"):
        formulas(pushed_piston(), "pushed", ("inverse",))


def test_random_mechanisms_agree_with_natural_coordinates():
    for seed in (0, 1):
        m = random_mechanism(seed)
        functions = formulas(m, "random", ("mass", "forces"))
        one = Writer(m, make_tree(m), None)
        one.write_places()
        given = states(one, np.random.default_rng(seed), 2)
        assert against_natural(m, one, given, in_python(functions, given)) < 1e-7
