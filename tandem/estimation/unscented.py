"""The same filter without derivatives: statistics of points instead of F and H. Offline, for comparison.

Of N states 2 N points at +-sqrt(N) standard deviations (the cubature points, an unscented transform with kappa = 0) go
through the machine's step and its sensors. Transition and sensors are the regression over them, what these leave of the
covariance is added as noise, and the correction is carried over the step as in ekf.py, so that one set of points serves
both. Some N steps of the machine a step: nothing for a loop.
"""

import numpy as np

from tandem.estimation.experiment import Estimates, Truth
from tandem.estimation.make import Filter, noise
from tandem.estimation.rows import COUNTS, WIDTH, Count, R


class Unscented:
    """An estimate and its points; readings come in order."""

    def __init__(self, start: Filter, walk: np.ndarray):
        self.filter, self.observed, self.h = start, start.observed, start.h
        self.n, self.order = len(start.observed.coordinates), start.order
        self.state, self.extra = start.state.copy(), start.extra.copy()
        self.P = start.covariance()
        self.Q = noise(self.observed, walk, self.h).reshape(self.order, self.order)
        self.rows, self.counts = start.model.rows.reshape(-1, WIDTH), start.model.counts.reshape(-1, COUNTS)
        self.q = len(start.which)
        self.parameters = [self.observed.estimable[k].parameter for k in start.which]
        self.which = start.which.copy()
        self.which.flags.writeable = False
        self.params = start.params.copy()
        machine = self.observed.machine
        self._work, self._H = np.zeros(machine.work_size), np.zeros(self.order)
        self._F = np.zeros(self.n * (self.n + self.q + 1))
        self.outputs = np.zeros(len(machine.outputs))

    def _go(self, error: np.ndarray, inputs: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The state after the step from a point, and what its sensors read before it."""
        observed, n, q = self.observed, self.n, self.q
        tables = observed.machine.tables
        state, params, extra = self.state.copy(), self.params.copy(), self.extra + error[n:]
        for k, parameter in enumerate(self.parameters):
            if parameter >= 0:
                params[parameter] = extra[k]
        if error[:n].any():
            observed.correct(state, params, tables, self._work, np.ascontiguousarray(error[:n]))
        at, F = np.zeros(observed.at_size), self._F
        observed.linearise(state, inputs.copy(), params, tables, self._work, self.h, self.which, extra, F, at)
        self.outputs[:] = self._work[: len(self.outputs)]
        force = F[n * (n + q) :]
        if force.any():
            observed.correct(state, params, tables, self._work, force.copy())
        read = np.zeros(len(wanted))
        for k, i in enumerate(wanted):
            row, signal, bias = self.rows[i], int(self.counts[i, Count.SIGNAL]), int(self.counts[i, Count.BIAS])
            read[k] = observed.measure(signal, row, 0.0, at, tables, self._work, self.which, self._H)
            if bias >= 0:
                read[k] += extra[q + bias]
        return state, read

    def step(self, inputs: np.ndarray, readings: np.ndarray, factors: np.ndarray) -> None:
        N, n = self.order, self.n
        wanted = np.flatnonzero(~np.isnan(readings))
        centre, _ = self._go(np.zeros(N), inputs, wanted)
        outputs = self.outputs.copy()
        L = np.sqrt(N) * np.linalg.cholesky(self.P)
        points, after, reads = np.vstack([L.T, -L.T]), np.zeros((2 * N, N)), np.zeros((2 * N, len(wanted)))
        machine = self.observed.machine
        for i, point in enumerate(points):
            state, reads[i] = self._go(point, inputs, wanted)
            after[i, :n], after[i, n:] = self.observed.difference(state, centre, machine), point[n:]
        mean, seen = after.mean(axis=0), reads.mean(axis=0)
        inverse = np.linalg.inv(self.P)
        F = (after - mean).T @ points / (2 * N) @ inverse
        left = np.cov(after.T, bias=True) - F @ self.P @ F.T
        dx = np.zeros(N)
        if len(wanted):
            S = np.atleast_2d(np.cov(reads.T, bias=True)) + np.diag((self.rows[wanted, R.NOISE] * factors[wanted]) ** 2)
            C = points.T @ (reads - seen) / (2 * N)
            K = np.linalg.solve(S, C.T).T
            dx = K @ (readings[wanted] - seen)
            self.P = self.P - K @ S @ K.T
        self.P = F @ self.P @ F.T + left + self.Q
        self.P = 0.5 * (self.P + self.P.T)
        moved = mean + F @ dx
        self.observed.correct(centre, self.params, machine.tables, self._work, np.ascontiguousarray(moved[:n]))
        self.state, self.outputs = centre, outputs
        self.extra = self.extra + dx[n:]
        for k, parameter in enumerate(self.parameters):
            if parameter >= 0:
                self.params[parameter] = self.extra[k]


def replay_unscented(start: Filter, truth: Truth, walk: np.ndarray) -> Estimates:
    """What it makes of a truth's readings, each at its instant; kept as a filter of ekf.py keeps its estimates."""
    one, steps, every = Unscented(start, walk), len(truth.inputs), truth.every
    outputs, sampled = np.zeros((steps, len(one.outputs))), np.zeros((-(-steps // every), len(start.memory.estimate)))
    for k in range(steps):
        if k % every == 0:
            start.put(one.state, one.params, one.extra, one.P)
            sampled[k // every] = start.memory.estimate
        one.step(truth.inputs[k], truth.seen.readings[k], truth.seen.factors[k])
        outputs[k] = one.outputs
    start.put(one.state, one.params, one.extra, one.P)
    return Estimates(sampled, outputs, np.full((steps, 2 * len(one.rows)), np.nan))
