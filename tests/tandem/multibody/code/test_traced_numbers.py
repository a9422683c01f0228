"""Laws followed with expressions: the values and derivatives of the law, and whether what was assumed is so."""

from math import atan, exp, sqrt
from types import SimpleNamespace

import numpy as np
import pytest

from sync.compile.jit import inner
from tandem.machines.car.buggy import relative_matrix
from tandem.multibody.code.graph import Graph
from tandem.multibody.code.traced_numbers import Array, Law


@inner
def softened(x, most):
    return min(max(x, -most), most) * exp(-x * x)


@inner
def small_law(p, a, b, out):
    """Of p, a table of constants, and two numbers."""
    force = p[0] * atan(a / b) + softened(a * b, 0.3) - abs(a - b) / sqrt(1.0 + b * b)
    if not b > 0.1:
        return False
    out[0] = force
    return force < 10.0


def value(a: float, b: float) -> float:
    return (
        2.0 * np.arctan(a / b) + np.clip(a * b, -0.3, 0.3) * np.exp(-((a * b) ** 2)) - abs(a - b) / np.sqrt(1 + b * b)
    )


@pytest.mark.parametrize(("a", "b"), [(0.4, 0.5), (-2.0, 0.7), (1.5, 1.2)])
def test_a_followed_law_is_the_law(a: float, b: float) -> None:
    law = Law({})
    x, out = Array(law, "x", 2), Array(law, "out", 1, new=True)
    assert bool(law.follow(small_law)([2.0], x[0], x[1], out))
    found = law.graph.evaluate([out.written()[0], law.fits()], {"x": np.array([a, b])})
    assert found[0] == pytest.approx(value(a, b), rel=1e-14) and found[1] == 1.0
    assert law.graph.evaluate([law.fits()], {"x": np.array([a, 0.05])})[0] == 0.0


def test_its_derivatives_are_those_of_the_law() -> None:
    law = Law({})
    x, out = Array(law, "x", 2), []

    class Kept:
        def __setitem__(self, at, value):
            out.append(value)

    along = law._replaced["along"]
    law.follow(small_law)([2.0], along(x[0], 0), along(x[1], 3), Kept())
    a, b, h = 1.5, 1.2, 1e-6
    found = law.graph.evaluate([out[0].d[0], out[0].d[3]], {"x": np.array([a, b])})
    wanted = (value(a + h, b) - value(a - h, b)) / (2 * h), (value(a, b + h) - value(a, b - h)) / (2 * h)
    np.testing.assert_allclose(found, wanted, rtol=1e-8)


def test_the_straight_equations_of_a_stage_give_the_solution_of_the_full_ones() -> None:
    g, n = Graph(), 14
    some = g.input("some", 0)
    corners = [(0, 1, 2, 3, 4, 5, 6 + w, 10 + w) for w in range(4)]
    factor = [some if i == j or (i >= 4 and j >= 4 and max(i, j) >= 8) else g.zero for i in range(n) for j in range(n)]
    turns = [some if j % n in (3, 4, 5) else g.zero for _ in range(3) for j in range(2 * n)]
    derivatives = [some if i < 10 and 3 <= j < 10 else g.zero for i in range(n) for j in range(2 * n)]
    outputs = {"derivatives": derivatives, "factor": factor, "turns": turns, "drift": [some] * n + [g.zero] * 6}
    made = SimpleNamespace(
        functions=[SimpleNamespace(name="derivatives", outputs=outputs)], independent=range(n),
        blocks=SimpleNamespace(ball_rows=(3, 4, 5), columns=[c for corner in corners for c in (corner, ())]),
    )  # fmt: skip
    of_S = {(i, j): [] for c in corners for i in c for j in (*c[2:7], *(n + k for k in c))}
    of_J = {}
    for w, c in enumerate(corners):
        for e in (2 * n + 2 * w, 2 * n + 2 * w + 1):
            of_J |= dict.fromkeys([(e, j) for j in (*c[3:7], *(n + i for i in c), 2 * n + 2 * w, 2 * n + 2 * w + 1)])
            of_J |= dict.fromkeys([(n + i, e) for i in c])
    more = iter(range(1000))
    own = SimpleNamespace(
        derivatives={k: [next(more)] for k in of_S}, J={k: next(more) for k in of_J}, in_time={0: [next(more)]}
    )
    s = relative_matrix.Structure(made, own)
    keep, in_time, matrix, solution = relative_matrix.functions(s)

    rng, N = np.random.default_rng(1), s.N
    L = np.eye(n)
    for i, j in s.factor:
        L[i, j] = rng.normal() if i > j else L[i, j]
    D = np.exp(rng.normal(size=n))
    M = (L @ np.diag(D) @ L.T)[::-1, ::-1]
    lower = -np.tril(L, -1)
    given = {
        "derivatives": rng.normal(size=2 * n * n), "by_force": rng.normal(size=2 * n * n),
        "more": rng.normal(size=1000), "turns": rng.normal(size=6 * n),
        "factor": (lower + lower.T + np.diag(1.0 / D)).ravel(),
    }  # fmt: skip
    J = rng.normal(size=N * N)
    kept = keep.graph.evaluate(keep.outputs["J"], given)
    J[: len(kept)] = kept
    S, full = np.zeros((n, 2 * n)), np.zeros((N, N))
    for i, j in s.derivatives:
        S[i, j] += given["derivatives"][2 * n * i + j] if (i, j) in s.generated else 0.0
        S[i, j] += given["by_force"][2 * n * i + j] if (i, j) in s.rest else 0.0
        S[i, j] += sum(given["more"][at] for at in own.derivatives.get((i, j), []))
    full[:n, n : 2 * n] = np.eye(n)
    for a, b in enumerate(s.ball):
        full[b] = 0.0
        for k, j in s.turns:
            full[b, j] = given["turns"][2 * n * a + j] if k == a else full[b, j]
    for i, j in s.states:
        full[i, j] = given["more"][own.J[i, j]] if (i, j) in own.J else J[N * i + j]
    full[n : 2 * n, : 2 * n] = S
    full[n : 2 * n] = np.linalg.solve(M, full[n : 2 * n])
    sigma, r = np.array([60.0]), rng.normal(size=N)
    lu = matrix.graph.evaluate(matrix.outputs["lu"], {"J": J, "sigma": sigma})
    u = solution.graph.evaluate(solution.outputs["u"], {"J": J, "lu": lu, "sigma": sigma, "r": r})
    np.testing.assert_allclose(u, np.linalg.solve(sigma * np.eye(N) - full, r), rtol=1e-9, atol=1e-12)
    time = {"drift": rng.normal(size=20), "by_time": rng.normal(size=n), "more": given["more"], "J": J}
    out = in_time.graph.evaluate(in_time.outputs["out"], time)
    wanted = time["drift"][:n] + time["by_time"]
    wanted[0] += given["more"][own.in_time[0][0]]
    np.testing.assert_allclose(out[n:], np.linalg.solve(M, wanted), rtol=1e-8)
