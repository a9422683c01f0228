"""Integrators: coefficients against the order conditions, convergence, stiffness, exactness, and status words.

The systems are written out here with their Jacobians: a forced pendulum with a spring that yields, a free rigid body in
increments of rotation that drives a relaxing state, linear systems of any size.
"""

import functools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sync.compile.jit import kernel
from sync.compile.parts import span
from tandem.multibody.relative import coefficients, integrators, ode
from tandem.multibody.relative.ode import Part

TABLES = {"linear_euler": 1, "ros2": 2, "rodas3": 3, "rodas4": 4}
ORDERS = {**TABLES, "trapezoidal": 2, "rk4": 4}
L_STABLE = list(TABLES)


def stepper(name: str) -> Any:
    return getattr(integrators, f"{name}_step")


class System:
    """Two kernels with their arrays, and how to take steps of them."""

    def __init__(self, rates: Any, both: Any, layout: np.ndarray, reals: Any = (), **settings: Any):
        self.functions = rates, both
        self.layout, self.settings = layout, ode.make_settings(layout, **settings)
        self.context = np.zeros(0, np.int32), np.array(reals, float), np.zeros(0)
        self.scratch = ode.make_scratch(layout)

    def step(self, name: str, t: float, h: float, y: np.ndarray) -> int:
        arguments = (*self.functions, self.layout, self.settings, *self.context, t, h, y, self.scratch)
        return int(stepper(name)(*arguments))

    def __getitem__(self, name: str) -> float:
        return float(self.scratch[span(self.layout, Part.DIAGNOSTIC)][ode.DIAGNOSTICS.index(name)])

    def errors(self) -> np.ndarray:
        return self.scratch[span(self.layout, Part.ERRORS)]

    def run(
        self,
        name: str,
        y: np.ndarray,
        t: float,
        h: float,
        steps: int,
        after: Callable[[np.ndarray], None] | None = None,
    ) -> np.ndarray:
        y = y.copy()
        for i in range(steps):
            assert self.step(name, t + i * h, h, y) == ode.GOOD
            if after:
                after(y)
        return y


# a pendulum with a forced pivot and a damper behind a spring (state s): y = (angle, rate, s)


@kernel(ode.RATES)
def pendulum(ints, reals, work, t, y, f):
    x, w, s = y
    f[0] = w
    f[1] = -9.0 * math.sin(x) + 2.0 * math.cos(3.0 * t) * math.cos(x) - s - 0.1 * w * w * w
    f[2] = 4.0 * (math.sin(x) + 0.5 * w - s) / (1.0 + 0.5 * math.sin(t))


@kernel(ode.RATES_AND_JACOBIAN)
def pendulum_derived(ints, reals, work, t, y, f, J, by_time):
    pendulum(ints, reals, work, t, y, f)
    x, w, s = y
    d = 1.0 + 0.5 * math.sin(t)
    J[1] = 1.0
    J[3] = -9.0 * math.cos(x) - 2.0 * math.cos(3.0 * t) * math.sin(x)
    J[4] = -0.3 * w * w
    J[5] = -1.0
    J[6], J[7], J[8] = 4.0 * math.cos(x) / d, 2.0 / d, -4.0 / d
    by_time[1] = -6.0 * math.sin(3.0 * t) * math.cos(x)
    by_time[2] = -4.0 * (math.sin(x) + 0.5 * w - s) / (d * d) * 0.5 * math.cos(t)


# a body on a ball joint that holds a rotor-like state: y = (xi, w, s), dw/dt = I^-1 (-w x I w - c s + m(t)), and a
# slider x[3] that the state s pulls


@kernel(ode.RATES)
def body(ints, reals, work, t, y, f):
    A, B, C, c = reals[0], reals[1], reals[2], reals[3]
    a, b, d = y[0], y[1], y[2]
    p, q, r = y[4], y[5], y[6]
    s, u = y[8], y[9]
    along = 0.25 * (a * p + b * q + d * r)
    f[0] = p + 0.5 * (b * r - d * q) + a * along
    f[1] = q + 0.5 * (d * p - a * r) + b * along
    f[2] = r + 0.5 * (a * q - b * p) + d * along
    f[3] = y[7]
    f[4] = ((B - C) * q * r - c * s + math.sin(2.0 * t)) / A
    f[5] = ((C - A) * r * p - c * u) / B
    f[6] = (A - B) * p * q / C
    f[7] = s * p - 2.0 * y[3] - 0.2 * y[7]
    f[8] = 3.0 * (p - s) + y[3]
    f[9] = 2.0 * (q * math.cos(t) - u)


@kernel(ode.RATES_AND_JACOBIAN)
def body_derived(ints, reals, work, t, y, f, J, by_time):
    body(ints, reals, work, t, y, f)
    A, B, C, c = reals[0], reals[1], reals[2], reals[3]
    a, b, d = y[0], y[1], y[2]
    p, q, r = y[4], y[5], y[6]
    along = 0.25 * (a * p + b * q + d * r)
    J[0], J[1], J[2] = along + 0.25 * a * p, 0.5 * r + 0.25 * a * q, -0.5 * q + 0.25 * a * r
    J[10], J[11], J[12] = -0.5 * r + 0.25 * b * p, along + 0.25 * b * q, 0.5 * p + 0.25 * b * r
    J[20], J[21], J[22] = 0.5 * q + 0.25 * d * p, -0.5 * p + 0.25 * d * q, along + 0.25 * d * r
    J[4], J[5], J[6] = 1.0 + 0.25 * a * a, -0.5 * d + 0.25 * a * b, 0.5 * b + 0.25 * a * d
    J[14], J[15], J[16] = 0.5 * d + 0.25 * a * b, 1.0 + 0.25 * b * b, -0.5 * a + 0.25 * b * d
    J[24], J[25], J[26] = -0.5 * b + 0.25 * a * d, 0.5 * a + 0.25 * b * d, 1.0 + 0.25 * d * d
    J[37] = 1.0
    J[45], J[46], J[48] = (B - C) * r / A, (B - C) * q / A, -c / A
    J[54], J[56], J[59] = (C - A) * r / B, (C - A) * p / B, -c / B
    J[64], J[65] = (A - B) * q / C, (A - B) * p / C
    J[73], J[74], J[77], J[78] = -2.0, y[8], -0.2, p
    J[83], J[84], J[88] = 1.0, 3.0, -3.0
    J[95], J[99] = 2.0 * math.cos(t), -2.0
    by_time[4] = 2.0 * math.cos(2.0 * t) / A
    by_time[9] = -2.0 * q * math.sin(t)


# linear: dy/dt = L y + g t^power, L and g in reals behind the power


@kernel(ode.RATES)
def linear(ints, reals, work, t, y, f):
    N = len(y)
    for i in range(N):
        f[i] = reals[1 + N * N + i] * t ** reals[0]
        for j in range(N):
            f[i] += reals[1 + i * N + j] * y[j]


@kernel(ode.RATES_AND_JACOBIAN)
def linear_derived(ints, reals, work, t, y, f, J, by_time):
    linear(ints, reals, work, t, y, f)
    N = len(y)
    for i in range(N * N):
        J[i] = reals[1 + i]
    for i in range(N):
        by_time[i] = reals[1 + N * N + i] * reals[0] * t ** (reals[0] - 1.0) if reals[0] > 0.0 else 0.0


# dy/dt = -sqrt(y): not a number for negative y; and a jump that Newton does not settle at


@kernel(ode.RATES)
def root(ints, reals, work, t, y, f):
    f[0] = -math.sqrt(y[0])


@kernel(ode.RATES_AND_JACOBIAN)
def root_derived(ints, reals, work, t, y, f, J, by_time):
    root(ints, reals, work, t, y, f)
    J[0] = -0.5 / math.sqrt(y[0])


@kernel(ode.RATES)
def jump(ints, reals, work, t, y, f):
    f[0] = 1.0 if y[0] < 0.0 else -1.0


@kernel(ode.RATES_AND_JACOBIAN)
def jump_derived(ints, reals, work, t, y, f, J, by_time):
    jump(ints, reals, work, t, y, f)
    J[0] = 0.0


def the_pendulum(dense: bool = False) -> System:
    return System(pendulum, pendulum_derived, ode.make_layout(1, 1, dense=dense), tolerance=1e-13)


def the_body(dense: bool = False) -> System:
    layout = ode.make_layout(4, 2, balls=[0], dense=dense)
    return System(body, body_derived, layout, [1.0, 2.0, 2.7, 0.6], tolerance=1e-13)


def the_linear(L: np.ndarray, g: Any = None, power: float = 0.0, positions: int = 0, **layout: Any) -> System:
    N = len(L)
    g = np.zeros(N) if g is None else np.asarray(g)
    sizes = ode.make_layout(positions, N - 2 * positions, **layout)
    return System(linear, linear_derived, sizes, np.concatenate([[power], L.ravel(), g]), tolerance=1e-13)


PENDULUM = np.array([0.4, 1.0, 0.2])
BODY = np.array([0.0, 0.0, 0.0, 0.1, 1.0, 0.3, -2.0, 0.5, 0.2, -0.1])


# coefficients


def exact(name: str) -> tuple[list, list, list, list, Fraction]:
    """alpha_ij, gamma_ij, b and b of the embedded solution of a table, as fractions."""
    table = getattr(coefficients, name.upper())
    s, gamma = int(table[coefficients.STAGES]), Fraction(table[coefficients.GAMMA])
    values = [Fraction(v) for v in table[coefficients.FIRST :]]
    rows = coefficients.ROW_BLOCKS * s
    a = [values[rows + i * s : rows + (i + 1) * s] for i in range(s)]
    c = [values[rows + s * s + i * s : rows + s * s + (i + 1) * s] for i in range(s)]
    m, e = (values[k * s : (k + 1) * s] for k in (coefficients.M, coefficients.E))
    G = [[Fraction(0)] * s for _ in range(s)]
    for i in range(s):
        G[i][i] = gamma
        for j in range(i):
            G[i][j] = gamma * sum(c[i][k] * G[k][j] for k in range(j, i))
    alpha = [[sum(a[i][k] * G[k][j] for k in range(i)) for j in range(s)] for i in range(s)]
    b = [sum(m[k] * G[k][j] for k in range(s)) for j in range(s)]
    embedded = [sum((m[k] - e[k]) * G[k][j] for k in range(s)) for j in range(s)]
    return alpha, G, b, embedded, gamma


def order_conditions(alpha: list, G: list, b: list) -> dict[int, list[float]]:
    """What is left of the conditions of each order (Hairer and Wanner, IV.7), with beta = alpha + gamma."""
    stages = range(len(b))
    beta = [[alpha[i][j] + G[i][j] for j in stages] for i in stages]

    def times(matrix: list, v: list) -> list:
        return [sum(matrix[i][j] * v[j] for j in stages) for i in stages]

    def total(v: list) -> Fraction:
        return sum((b[i] * v[i] for i in stages), Fraction(0))

    A, B = ([sum(row) for row in of] for of in (alpha, beta))
    squares = [x * x for x in A]
    conditions = {
        1: [total([1] * len(b)) - 1],
        2: [total(B) - Fraction(1, 2)],
        3: [total(squares) - Fraction(1, 3), total(times(beta, B)) - Fraction(1, 6)],
        4: [
            total([x**3 for x in A]) - Fraction(1, 4),
            total([x * v for x, v in zip(A, times(alpha, B), strict=True)]) - Fraction(1, 8),
            total(times(beta, squares)) - Fraction(1, 12),
            total(times(beta, times(beta, B))) - Fraction(1, 24),
        ],
    }
    return {order: [abs(float(v)) for v in values] for order, values in conditions.items()}


@pytest.mark.parametrize("name, order", TABLES.items())
def test_coefficients_fulfil_the_order_conditions(name: str, order: int) -> None:
    alpha, G, b, embedded, _ = exact(name)
    left = order_conditions(alpha, G, b)
    assert all(value < 1e-14 for p in range(1, order + 1) for value in left[p])
    assert order == 4 or max(left[order + 1]) > 1e-3
    if name != "linear_euler":
        left = order_conditions(alpha, G, embedded)
        assert all(value < 1e-14 for p in range(1, order) for value in left[p])
        assert max(left[order]) > 1e-3


@pytest.mark.parametrize("name", TABLES)
def test_sums_of_rows_are_those_of_the_published_matrices(name: str) -> None:
    """They are what makes a system with laws of time the same as one with time as a state."""
    alpha, G, *_ = exact(name)
    table = getattr(coefficients, name.upper())
    s = len(G)
    per_stage = table[coefficients.FIRST :]
    for matrix, block in ((alpha, coefficients.ALPHA), (G, coefficients.GAMMA_SUM)):
        np.testing.assert_allclose(
            per_stage[block * s : (block + 1) * s], [float(sum(row)) for row in matrix], atol=2e-15
        )


@pytest.mark.parametrize("name", TABLES)
def test_stability_functions_vanish_at_infinity_and_are_below_one_on_the_imaginary_axis(name: str) -> None:
    alpha, G, b, _, _ = exact(name)
    beta, weights = np.array(alpha, float) + np.array(G, float), np.array(b, float)
    one = np.ones(len(b))
    assert abs(1.0 - weights @ np.linalg.solve(beta, one)) < 1e-13
    for frequency in np.geomspace(1e-3, 1e6, 300):
        z = 1j * frequency
        assert abs(1.0 + z * weights @ np.linalg.solve(np.eye(len(b)) - z * beta, one)) <= 1.0 + 1e-12


@pytest.mark.parametrize("name", ["rodas3", "rodas4"])
def test_the_last_stage_is_the_solution(name: str) -> None:
    """Stiffly accurate: b is the last row of beta, at the end of the step."""
    alpha, G, b, _, _ = exact(name)
    np.testing.assert_allclose([float(x + y) for x, y in zip(alpha[-1], G[-1], strict=True)], [*map(float, b)])
    assert abs(float(sum(alpha[-1])) - 1.0) < 2e-15


# Jacobians written above, so that they may be relied on below


@pytest.mark.parametrize("make, y", [(the_pendulum, PENDULUM), (the_body, BODY)])
def test_jacobians_of_the_systems_here_are_derivatives(make: Callable[[], System], y: np.ndarray) -> None:
    system, t, d = make(), 0.3, 1e-6
    y = y + 0.1
    N = len(y)
    f, J, by_time = np.zeros(N), np.zeros(N * N), np.zeros(N)
    rates, both = system.functions
    both(*system.context, t, y, f, J, by_time)
    ahead, back = np.zeros(N), np.zeros(N)
    for j in range(N):
        e = np.zeros(N)
        e[j] = d
        rates(*system.context, t, y + e, ahead)
        rates(*system.context, t, y - e, back)
        np.testing.assert_allclose(J.reshape(N, N)[:, j], (ahead - back) / (2 * d), atol=1e-8)
    rates(*system.context, t + d, y, ahead)
    rates(*system.context, t - d, y, back)
    np.testing.assert_allclose(by_time, (ahead - back) / (2 * d), atol=1e-8)


# convergence


def observed_order(errors: list[float]) -> float:
    return math.log2(errors[-2] / errors[-1])


@functools.cache
def pendulum_reference() -> np.ndarray:
    return the_pendulum().run("rk4", PENDULUM, 0.0, 2.0 / 4096, 4096)


@pytest.mark.parametrize("name, order", ORDERS.items())
def test_error_of_a_forced_pendulum_shrinks_with_the_order(name: str, order: int) -> None:
    system, reference = the_pendulum(), pendulum_reference()
    errors = [float(np.abs(system.run(name, PENDULUM, 0.0, 2.0 / n, n) - reference).max()) for n in (64, 128, 256)]
    assert abs(observed_order(errors) - order) < 0.2, errors


def times(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """The product of two quaternions, the scalar first."""
    return np.array([p[0] * q[0] - p[1:] @ q[1:], *(p[0] * q[1:] + q[0] * p[1:] + np.cross(p[1:], q[1:]))])


def turned(system: System, name: str, h: float, steps: int) -> np.ndarray:
    """Rotation and other states of the body after so many steps; the increment is begun anew after each."""
    rotation = np.array([1.0, 0.0, 0.0, 0.0])

    def renew(y: np.ndarray) -> None:
        q = times(rotation, np.array([1.0, *(0.5 * y[:3])]))
        rotation[:] = q / np.sqrt(q @ q)
        y[:3] = 0.0

    y = system.run(name, BODY, 0.0, h, steps, renew)
    return np.concatenate([rotation, y[3:]])


@functools.cache
def body_reference() -> np.ndarray:
    return turned(the_body(), "rk4", 1.5 / 3072, 3072)


@pytest.mark.parametrize("name, order", ORDERS.items())
def test_error_of_a_turning_body_shrinks_with_the_order(name: str, order: int) -> None:
    system, reference = the_body(), body_reference()
    errors = [float(np.abs(turned(system, name, 1.5 / n, n) - reference).max()) for n in (48, 96, 192)]
    assert abs(observed_order(errors) - order) < 0.25, errors


def test_increments_renewed_or_not_are_the_same_rotation() -> None:
    system = the_body()
    y = system.run("rk4", BODY, 0.0, 1e-3, 400)
    q = np.array([1.0, *(0.5 * y[:3])])
    np.testing.assert_allclose(turned(system, "rk4", 1e-3, 400)[:4], q / np.sqrt(q @ q), atol=1e-11)


@pytest.mark.parametrize("name, order", [("ros2", 2), ("rodas3", 3), ("rodas4", 4)])
def test_the_error_estimate_is_that_of_the_embedded_solution(name: str, order: int) -> None:
    """It shrinks with h to the order, since the embedded solution has a local error of h^order."""
    system, found = the_pendulum(), []
    for h in (0.02, 0.01):
        y = PENDULUM.copy()
        system.step(name, 0.3, h, y)
        exact_end = the_pendulum().run("rk4", PENDULUM, 0.3, h / 64, 64)
        assert np.abs(y - exact_end).max() < np.abs(system.errors()).max()
        assert system["error"] == np.abs(system.errors()).max()
        found.append(system["error"])
    assert abs(math.log2(found[0] / found[1]) - order) < 0.35


@pytest.mark.parametrize("name", ["linear_euler", "trapezoidal", "rk4"])
def test_methods_without_an_estimate_report_nan(name: str) -> None:
    system = the_pendulum()
    system.step(name, 0.0, 0.01, PENDULUM.copy())
    assert math.isnan(system["error"]) and np.isnan(system.errors()).all()


# stiffness and exactness


@pytest.mark.parametrize("name", L_STABLE)
def test_stiff_parts_are_gone_after_a_step(name: str) -> None:
    stiff = the_linear(np.array([[-1e6, 0.0], [1.0, -1.0]]))
    y = np.array([1.0, 0.0])
    assert stiff.step(name, 0.0, 1.0, y) == ode.GOOD
    assert abs(y[0]) < 2e-5


def test_the_trapezoidal_rule_keeps_stiff_parts_and_turns_their_sign() -> None:
    stiff = the_linear(np.array([[-1e6]]))
    y = np.array([1.0])
    stiff.step("trapezoidal", 0.0, 1.0, y)
    assert y[0] == pytest.approx((1 - 0.5e6) / (1 + 0.5e6))


@pytest.mark.parametrize("name", L_STABLE)
def test_a_stiff_state_follows_a_slow_one(name: str) -> None:
    """Prothero and Robinson: ds/dt = -1e6 (s - t) + 1 has the solution s = t, and keeps to it at any step."""
    system = the_linear(np.array([[-1e6]]), [1e6], power=1.0)  # ds/dt = -1e6 s + 1e6 t: s = t - 1e-6 (1 - ...)
    y = np.array([0.5 - 1e-6])
    assert system.step(name, 0.5, 0.1, y) == ode.GOOD
    assert y[0] == pytest.approx(0.6 - 1e-6, abs=1e-12)


@pytest.mark.parametrize("name, order", ORDERS.items())
def test_polynomials_of_time_are_integrated_exactly(name: str, order: int) -> None:
    power = order - 1
    system = the_linear(np.zeros((1, 1)), [1.0], power=float(power))
    y = np.array([0.0])
    system.step(name, 0.25, 0.5, y)
    assert y[0] == pytest.approx((0.75**order - 0.25**order) / order, rel=1e-14)


def test_linear_euler_is_implicit_euler_on_a_linear_system() -> None:
    L = np.random.default_rng(1).normal(size=(4, 4))
    system, y, h = the_linear(L), np.arange(1.0, 5.0), 0.3
    expected = np.linalg.solve(np.eye(4) - h * L, y)
    system.step("linear_euler", 0.0, h, y)
    np.testing.assert_allclose(y, expected, rtol=1e-13)


def test_the_trapezoidal_rule_keeps_the_energy_of_an_oscillator() -> None:
    system = the_linear(np.array([[0.0, 1.0], [-50.0, 0.0]]), positions=1)
    y = system.run("trapezoidal", np.array([1.0, 0.0]), 0.0, 0.1, 1000)
    assert 50.0 * y[0] ** 2 + y[1] ** 2 == pytest.approx(50.0, rel=1e-10)


def test_the_trapezoidal_rule_solves_its_equation() -> None:
    system, h, t = the_body(), 0.05, 0.2
    y, before, after = BODY.copy(), np.zeros(10), np.zeros(10)
    assert system.step("trapezoidal", t, h, y) == ode.GOOD
    rates, _ = system.functions
    rates(*system.context, t, BODY, before)
    rates(*system.context, t + h, y, after)
    np.testing.assert_allclose(y, BODY + 0.5 * h * (before + after), atol=1e-13)
    assert system["evaluations"] == system["iterations"] + 1 and system["correction"] <= 1e-13


# elimination of x


@pytest.mark.parametrize(
    "n, k, balls", [(1, 0, []), (1, 1, []), (3, 0, [0]), (5, 2, [1]), (7, 3, [4, 0]), (14, 12, [3])]
)
def test_eliminating_x_and_factorising_all_give_one_solution(n: int, k: int, balls: list[int]) -> None:
    rng = np.random.default_rng(n)
    N, sigma = 2 * n + k, 7.0
    J = rng.normal(size=(N, N))
    J[:n] = 0.0
    J[:n, n : 2 * n] = np.eye(n)
    for b in balls:
        J[b : b + 3, b : b + 3] = rng.normal(size=(3, 3))
        J[b : b + 3, n + b : n + b + 3] = rng.normal(size=(3, 3))
    right = rng.normal(size=N)
    expected = np.linalg.solve(sigma * np.eye(N) - J, right)
    for dense in (False, True):
        layout = ode.make_layout(n, k, balls, dense)
        scratch, u = ode.make_scratch(layout), right.copy()
        scratch[span(layout, Part.JACOBIAN)] = J.ravel()
        integrators.factorise_shifted(layout, scratch, sigma)
        integrators.solve_shifted(layout, scratch, sigma, u)
        np.testing.assert_allclose(u, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8, 13, 26, 31])
def test_rows_are_exchanged_where_pivots_are_small(size: int) -> None:
    rng = np.random.default_rng(size)
    A = rng.normal(size=(size, size)) + 5.0 * np.roll(np.eye(size), size // 2 + 1, axis=1)
    layout, right = ode.make_layout(0, size), rng.normal(size=size)
    scratch, u = ode.make_scratch(layout), right.copy()
    scratch[span(layout, Part.JACOBIAN)] = (3.0 * np.eye(size) - A).ravel()
    integrators.factorise_shifted(layout, scratch, 3.0)
    integrators.solve_shifted(layout, scratch, 3.0, u)
    np.testing.assert_allclose(A @ u, right, atol=1e-11)


@pytest.mark.parametrize("name", ORDERS)
def test_steps_are_the_same_with_x_eliminated_or_not(name: str) -> None:
    ends = [the_body(dense).run(name, BODY, 0.0, 0.02, 20) for dense in (False, True)]
    np.testing.assert_allclose(*ends, rtol=1e-11, atol=1e-12)


# costs and status words


@pytest.mark.parametrize(
    "name, evaluations, factorisations",
    [("linear_euler", 1, 1), ("ros2", 2, 1), ("rodas3", 3, 1), ("rodas4", 6, 1), ("rk4", 4, 0)],
)
def test_a_step_costs_what_it_promises(name: str, evaluations: int, factorisations: int) -> None:
    system = the_body()
    system.step(name, 0.0, 0.01, BODY.copy())
    assert (system["evaluations"], system["factorisations"]) == (evaluations, factorisations)


@pytest.mark.parametrize("name", ORDERS)
def test_a_step_that_is_not_finite_leaves_y_alone(name: str) -> None:
    system = System(root, root_derived, ode.make_layout(0, 1))
    y = np.array([-1.0])
    assert system.step(name, 0.0, 0.1, y) == ode.NOT_FINITE
    assert y[0] == -1.0 and system["status"] == ode.NOT_FINITE


@pytest.mark.parametrize("name", L_STABLE)
def test_a_singular_matrix_is_not_finite(name: str) -> None:
    """sigma - J = 0 for the gamma of the method."""
    h, gamma = 0.5, getattr(coefficients, name.upper())[coefficients.GAMMA]
    system, y = the_linear(np.array([[1.0 / (h * gamma)]])), np.array([1.0])
    assert system.step(name, 0.0, h, y) == ode.NOT_FINITE
    assert y[0] == 1.0


def test_an_iteration_that_does_not_settle_is_capped() -> None:
    system = System(jump, jump_derived, ode.make_layout(0, 1, cap=5))
    y = np.array([0.1])
    # the equation is y = 0.1 - 0.5 + 0.5 sign: it has no solution
    assert system.step("trapezoidal", 0.0, 1.0, y) == ode.CAPPED
    assert system["iterations"] == 5 and system["status"] == ode.CAPPED and math.isfinite(y[0])


def test_a_slow_iteration_gets_a_new_jacobian_and_a_quick_one_does_not() -> None:
    slow, quick = System(root, root_derived, ode.make_layout(0, 1), tolerance=1e-12), the_pendulum()
    y = np.array([1.0])
    assert slow.step("trapezoidal", 0.0, 1.2, y) == ode.GOOD  # its slope grows 2.5 times within the step
    assert slow["factorisations"] > 1
    assert y[0] == pytest.approx(0.16, rel=1e-10)
    quick.step("trapezoidal", 0.0, 0.001, PENDULUM.copy())
    assert quick["factorisations"] == 1


# refusals


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"positions": -1}, "neither may be negative"),
        ({"positions": 0, "states": 0}, "nor both zero"),
        ({"positions": 4, "balls": [2]}, "each takes three of its own"),
        ({"positions": 6, "balls": [0, 2]}, "each takes three of its own"),
        ({"positions": 1, "cap": 0}, "must be at least 1"),
    ],
)
def test_layouts_that_cannot_be_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ode.make_layout(**arguments)


@pytest.mark.parametrize(
    "arguments", [{"tolerance": 0.0}, {"refresh": -1.0}, {"sizes": np.ones(2)}, {"sizes": np.zeros(3)}]
)
def test_settings_that_cannot_be_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        ode.make_settings(ode.make_layout(1, 1), **arguments)
