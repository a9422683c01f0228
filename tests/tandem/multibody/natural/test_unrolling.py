"""Unrolled code for a GPU of kernels that walk through tables: what it computes is what the kernels compute."""

from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

from tandem.multibody.code import ptx
from tandem.multibody.natural import evaluation, unrolling
from tandem.multibody.natural.system import no_force
from tandem.multibody.natural.tables import P
from verify.multibody.problems import chain


@pytest.fixture(scope="module")
def hanging() -> tuple[Any, np.ndarray, np.ndarray]:
    """A chain that swings: its system, a state, and the work that has been looked at."""
    system = chain(3, 0.5, 0.5, 1.0, 2e-3).build().compile(h=2e-3)
    state = system.state()
    state.qd[:] = np.linspace(-1.0, 1.0, len(state.qd))
    return system, state.vector, system.work()


def computed(system: Any, name: str, **arrays: np.ndarray) -> dict[str, np.ndarray]:
    function = next(f for f in unrolling.functions(system.ints, system.reals, for_gpu=True) if f.name == name)
    assert {*arrays} == {*function.inputs} - {"reals"}  # which are constants on a GPU
    return {key: function.graph.evaluate(exprs, arrays) for key, exprs in function.outputs.items()}


def test_assembly_factor_and_solution_are_those_of_the_kernels(hanging) -> None:
    system, vector, work = hanging

    def part(which: P) -> np.ndarray:
        return work[system.span(which)]

    evaluation.evaluate(system.ints, system.reals, vector, work, no_force)
    given = {"jac": part(P.JAC).copy(), "K": part(P.PORT_K).copy(), "C": part(P.PORT_C).copy()}
    evaluation.tangent(system.ints, system.reals, vector, work, no_force, 1e-6, 1e-3)
    made = computed(system, "assemble", **given, ck=np.array([1e-6]), cc=np.array([1e-3]))
    np.testing.assert_allclose(made["L"], part(P.FACTOR), rtol=1e-14, atol=1e-12)
    right = np.linspace(1.0, 2.0, len(part(P.RHS)))
    part(P.RHS)[:] = right
    evaluation.solve_tangent(system.ints, system.reals, vector, work, no_force)
    factor = computed(system, "factorise", L=made["L"], bad=np.zeros(1))
    np.testing.assert_allclose(factor["L"], part(P.FACTOR), rtol=1e-12)
    assert factor["bad"][0] == 0.0
    found = computed(system, "solve", L=factor["L"], b=right)["b"]
    np.testing.assert_allclose(found, part(P.RHS), rtol=1e-9, atol=1e-12)


def test_constraints_and_their_rates_are_those_of_the_kernels(hanging) -> None:
    system, vector, work = hanging

    def part(which: P) -> np.ndarray:
        return (vector if P.TIME <= which < P.DIAGNOSTIC else work)[system.span(which)].copy()

    evaluation.evaluate(system.ints, system.reals, vector, work, no_force)
    at = computed(system, "positions", q=part(P.Q), inputs=part(P.INPUT))
    np.testing.assert_allclose(at["phi"], part(P.PHI), rtol=1e-13, atol=1e-15)
    rates = computed(system, "rates", qd=part(P.QD), inputs=part(P.INPUT), vu=part(P.VU))
    moving = {"v": at["v"], "vd": rates["vd"], "r": at["r"], "trig": part(P.TRIG)}
    speeds = computed(system, "velocities", **moving)
    np.testing.assert_allclose(speeds["phid"], part(P.RESIDUAL), rtol=1e-13, atol=1e-14)
    terms = computed(system, "velocity_terms", **moving, vu=rates["vu"], rd=speeds["rd"])
    np.testing.assert_allclose(terms["gamma"], part(P.SECOND), rtol=1e-13, atol=1e-14)


def test_a_pivot_that_is_not_positive_is_replaced_and_counted(hanging) -> None:
    system, _, _ = hanging
    size = int(np.diff(system.ints[2 * P.FACTOR : 2 * P.FACTOR + 2])[0])
    made = computed(system, "factorise", L=-np.ones(size), bad=np.zeros(1))
    assert made["bad"][0] > 0.0 and np.isfinite(made["L"]).all()


def test_unrolled_code_is_code_for_either_processor(hanging) -> None:
    system, _, _ = hanging
    text, names = unrolling.generated(system.ints, system.reals)
    found = llvm.parse_assembly(text.replace("llvm.sin.f64", "sin").replace("llvm.cos.f64", "cos"))
    assert all(found.get_function(name) for name in unrolling.NAMES)
    assert sorted(n for some in names.values() for n in some if not n.startswith("none")) == sorted(unrolling.NAMES)
    llvm.parse_assembly(ptx.in_own_memory(text).replace("llvm.sin.f64", "sin").replace("llvm.cos.f64", "cos"))
