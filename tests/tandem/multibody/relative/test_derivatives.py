"""The exact Jacobian of the reduced equations against complex steps through the graph, forces of the model included."""

import functools

import numpy as np
import pytest

from tandem.multibody.relative.generate import Generated, generate
from tandem.multibody.relative.port_jacobian import jacobian, time_derivatives
from tests.examples import thorough
from tests.tandem.multibody.relative.test_tree import ALL, mechanism

TINY = 1e-30
# the large one is compared far from its drawing too (test_cross_checks.py)
NAMES = [name for name in ALL if name != "chain" and (thorough() or name != "buggy")]


@functools.cache
def made(name: str) -> Generated:
    return generate(mechanism(name))


class Case:
    """A mechanism somewhere near its drawing with its loops closed, and linear forces at the ports of its model."""

    def __init__(self, name: str) -> None:
        g = self.generated = made(name)
        self.functions = {f.name: f for f in g.functions}
        random = np.random.default_rng(3)
        self.tree, self.u0 = g.tree, np.array(g.independent, int)
        n = len(g.ports)
        self.f0, sizes = random.uniform(-1.0, 1.0, n), g.blocks.sizes
        self.K, self.C = (random.uniform(-1.0, 1.0, sum(s * s for s in sizes)) for _ in range(2))
        self.at: tuple[np.ndarray, np.ndarray] = np.zeros(n), np.zeros(n)
        self.ref = np.tile([1.0, 0.0, 0.0, 0.0], len(g.balls))
        self.d = np.zeros(g.prepared)
        self.d = self.evaluate("prepare", p=g.parameters)["d"]
        self.u = random.uniform(-0.5, 0.5, (len(self.tree.start), 3))
        self.u[:, 0] = self.tree.start + random.uniform(-0.02, 0.02, len(self.tree.start))
        for _ in range(100):
            x = self.tree.assembled.copy()
            x[self.u0] += random.uniform(-0.1, 0.1, len(self.u0))
            self.x, left = self.closed(x)
            if left < 1e-11:
                break
        else:
            raise AssertionError(f"{name}: loops do not close near the drawing")
        self.w = np.zeros(self.tree.n)
        self.w[self.u0] = random.uniform(-1.0, 1.0, len(self.u0))
        if n:
            out = self.evaluate("motion", x=self.x, w=self.w, u=self.u.ravel())
            self.at = out["ports"], out["rates"]

    def evaluate(self, name: str, **given: np.ndarray) -> dict[str, np.ndarray]:
        """By the interpreter, with any numbers."""
        function = self.functions[name]
        out = {}
        arrays = {"ref": self.ref, "d": self.d, "f": self.f0, **given}
        for stage in function.stages:
            exprs = [e for array in stage.values() for e in array]
            flat = function.graph.evaluate(exprs, arrays)
            at = 0
            for array, of in stage.items():
                out[array] = flat[at : at + len(of)]
                at += len(of)
            if "ports" in stage:
                arrays["f"] = self.forces(out["ports"], out["rates"])
        return out

    def forces(self, x: np.ndarray, xd: np.ndarray) -> np.ndarray:
        out = self.f0.astype(x.dtype)
        at = 0
        blocks = self.generated.blocks
        for first, n in zip(blocks.first, blocks.sizes, strict=True):
            here = slice(first, first + n)
            K, C = (A[at : at + n * n].reshape(n, n) for A in (self.K, self.C))
            out[here] -= K @ (x - self.at[0])[here] + C @ (xd - self.at[1])[here]
            at += n * n
        return out

    def closed(self, x: np.ndarray, u: np.ndarray | None = None) -> tuple[np.ndarray, float]:
        u = self.u if u is None else u
        x = x.astype(np.result_type(x, u))
        left = 0.0
        for k, form in self.tree.driven.items():
            x[k] = form.const + sum(c * u[i, 0] for i, c in form.inputs.items())
        for _ in range(25):
            if not self.generated.dependent:
                break
            out = self.evaluate("close", x=x, u=u.ravel())
            new, left = out["new"], float(np.abs(out["h"].real).max())
            turned = np.abs((new - x[list(self.generated.dependent)]).imag)
            done = left < 1e-14 and turned.max() <= 1e-15 * TINY
            x[list(self.generated.dependent)] = new
            if done:
                break
        return x, left

    def rates(self, x: np.ndarray, w: np.ndarray, u: np.ndarray) -> np.ndarray:
        out = self.evaluate("motion", x=self.closed(x, u)[0], w=w, u=u.ravel())
        return np.concatenate([out["xdot"], out["acceleration"]])

    def derivatives(self) -> dict[str, np.ndarray]:
        return self.evaluate("derivatives", x=self.x, w=self.w, u=self.u.ravel())


@pytest.mark.parametrize("name", NAMES)
def test_jacobian_is_exact(name):
    case = Case(name)
    blocks, n = case.generated.blocks, len(case.u0)
    out = case.derivatives()
    extra = 2  # further columns
    J, found = np.zeros((2 * n, 2 * n + extra)), np.zeros(2 * n)
    J[n:, 2 * n :] = more = np.random.default_rng(4).uniform(-1.0, 1.0, (n, extra))
    common = blocks.table, case.K, case.C, out["port_derivatives"]
    work, stride = np.zeros(blocks.work_size), 2 * n + extra
    jacobian(*common, out["rate_derivatives"], out["derivatives"], out["turns"], out["factor"], work, J.ravel(), stride)
    drifts = out["port_drift"], out["rate_drift"], out["drift"]
    time_derivatives(*common, *drifts, out["factor"], J.ravel(), stride, found)
    expected = np.zeros((2 * n, 2 * n))
    for j in range(2 * n):
        x, w = case.x.astype(complex), case.w.astype(complex)
        (x if j < n else w)[case.u0[j % n]] += 1j * TINY
        expected[:, j] = case.rates(x, w, case.u).imag / TINY
    scale = max(np.abs(expected).max(initial=0.0), 1.0)
    assert np.abs(J[:, : 2 * n] - expected).max(initial=0.0) < 5e-12 * scale
    u = case.u.astype(complex)
    u[:, :2] += 1j * TINY * case.u[:, 1:]
    in_time = case.rates(case.x.astype(complex), case.w.astype(complex), u).imag / TINY
    assert np.abs(found - in_time).max(initial=0.0) < 1e-12 * max(np.abs(in_time).max(initial=0.0), 1.0)
    factor = out["factor"].reshape(n, n)
    L, D = np.eye(n) - np.tril(factor, -1), np.diag(1.0 / np.diag(factor))
    M = (L @ D @ L.T)[::-1, ::-1]
    assert np.allclose(M @ J[n:, 2 * n :], more, rtol=1e-9, atol=1e-9)


def test_derivatives_moves_as_motion_does():
    case = Case("buggy" if thorough() else "bricard")
    out = case.derivatives()
    motion = case.evaluate("motion", x=case.x, w=case.w, u=case.u.ravel())
    for array, values in motion.items():
        assert np.array_equal(values, out[array]), array


@pytest.mark.drill
def test_blocks_see_only_the_columns_that_move_them():
    generated = made("buggy")
    blocks = generated.blocks
    assert max(blocks.filled) <= 8 < blocks.freedoms
    assert sum(blocks.sizes) == len(generated.ports)
