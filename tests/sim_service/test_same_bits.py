"""What the same bits on every machine rest on: portable arithmetic where things are made, and in compiled code nothing
that a compiler or a library may do in one way here and in another there."""

import ast
import math
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sync.compile.jit import kernel
from tandem.multibody.portable import arctan, dot, least_squares, norm, product, volume

ROOT = Path(__file__).resolve().parents[2]
EXACT = {"sqrt", "floor", "ceil", "fabs", "copysign", "frexp", "isnan", "isfinite", "degrees"}  # one right answer
# Of the mathematical library: where they differ between versions of it, a replay says which there are. hypot is not
# among them: libraries compute it in different ways, and sqrt(x * x + y * y) is as good where nothing overflows.
LIBRARY = {"sin", "cos", "atan", "atan2", "asin", "exp", "log"}
NUMBERS = st.floats(-1e3, 1e3)
PACKAGES = ("sim_service", "daq_service", "sync", "tandem")
COMPILED = ("kernel", "inner", "merged")


@cache
def _kernels() -> list[tuple[Path, ast.FunctionDef]]:
    return [
        (path, node)
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        if any(f"@{each}" in (text := path.read_text()) for each in COMPILED)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef) and any(_compiled(d) for d in node.decorator_list)
    ]


def _compiled(decorator: ast.expr) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return isinstance(called, ast.Name) and called.id in COMPILED


def _functions(node: ast.FunctionDef) -> Iterator[str]:
    """Of mathematics, that a function calls."""
    known = set(dir(math))
    for call in ast.walk(node):
        if not isinstance(call, ast.Call):
            continue
        of = call.func
        if isinstance(of, ast.Attribute) and isinstance(of.value, ast.Name) and of.value.id in ("math", "np"):
            if of.value.id == "math" or of.attr in known | {"arctan", "arctan2", "arcsin", "arccos", "power", "dot"}:
                yield of.attr
        elif isinstance(of, ast.Name) and of.id in known - {"dist"}:
            yield of.id


@pytest.mark.slow
def test_kernels_use_no_function_that_differs_by_machine() -> None:
    kernels = _kernels()
    assert len(kernels) > 100
    used = {(path.name, node.name, name) for path, node in kernels for name in _functions(node)}
    assert {name for *_, name in used} & LIBRARY  # the search finds something
    assert {entry for entry in used if entry[2] not in EXACT | LIBRARY} == set()


def test_kernels_multiply_no_matrices_by_a_library() -> None:
    for path, node in _kernels():
        assert not any(isinstance(n, ast.MatMult) for n in ast.walk(node)), (path, node.name)


def test_kernels_raise_to_whole_powers_alone() -> None:
    """Which the compiler multiplies out; any other is a function of the mathematical library."""
    found = [
        f"{path.name}:{power.lineno}: {ast.unparse(power)}"
        for path, node in _kernels()
        for power in ast.walk(node)
        if isinstance(power, ast.BinOp) and isinstance(power.op, ast.Pow) and not _whole(power.right)
    ]
    assert found == []


def _whole(power: ast.expr) -> bool:
    return isinstance(power, ast.Constant) and isinstance(power.value, int)


def test_no_kernel_is_compiled_with_fast_mathematics() -> None:
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            assert "fastmath" not in path.read_text(), path


@kernel("float64(float64, float64, float64)")
def _times_plus(a, b, c):
    return a * b + c


@kernel("float64(float64[::1], float64[::1])")
def _sum_of_products(a, b):
    total = 0.0
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


def test_the_compiler_neither_fuses_nor_reorders() -> None:
    # fused, the product keeps its last bits and the difference is not 0
    a = 1.0 + 2.0**-30
    assert _times_plus(a, a, -(1.0 + 2.0**-29)) == 0.0
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=1000), rng.normal(size=1000)
    assert _sum_of_products(x, y) == dot(x, y)


@given(NUMBERS)
def test_arctan_is_that_of_mathematics(x: float) -> None:
    assert math.isclose(arctan(x), math.atan(x), rel_tol=1e-15, abs_tol=1e-300)


@given(st.lists(NUMBERS, min_size=9, max_size=9), st.lists(NUMBERS, min_size=3, max_size=3))
def test_products_and_norms_are_those_of_a_library_to_rounding(entries: list[float], vector: list[float]) -> None:
    A, v = np.array(entries).reshape(3, 3), np.array(vector)
    np.testing.assert_allclose(product(A, v), A @ v, rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(product(A, A), A @ A, rtol=1e-12, atol=1e-9)
    assert math.isclose(norm(v), float(np.linalg.norm(v)), rel_tol=1e-14)


def test_least_squares_solves_what_can_be_solved_and_comes_nearest_to_the_rest() -> None:
    rng = np.random.default_rng(2)
    for size in (1, 2, 3):
        X, b = rng.normal(size=(3, size)), rng.normal(size=3)
        np.testing.assert_allclose(least_squares(X, b), np.linalg.lstsq(X, b, rcond=None)[0], rtol=1e-13)
        np.testing.assert_allclose(least_squares(X, np.eye(3)), np.linalg.pinv(X), rtol=1e-12, atol=1e-14)


def test_a_volume_is_the_root_of_gram_s_determinant_and_nothing_for_what_is_flat() -> None:
    rng = np.random.default_rng(3)
    for size in (1, 2, 3):
        A = rng.normal(size=(size, 3))
        assert math.isclose(volume(list(A)), math.sqrt(np.linalg.det(A @ A.T)), rel_tol=1e-13)
    assert volume([np.array([1.0, 0.0, 0.0]), np.array([2.0, 0.0, 0.0])]) == 0.0
