"""Parameters from measurements: Gauss–Newton on the weighted difference, and what the data say about the answer.

Sensitivities are exact where the machine has a tangent (tandem/ensembles/many_tangents.py), eight parameters a run, of
those that are live; elsewhere differences of whole runs, scaled by the ranges of the parameters. Both are made in
threads. The search takes them at its begin, of differences one run a parameter, and then learns from the runs that it
makes anyhow (Broyden's rule), as long as these foretell each other; what it finds is judged by exact ones, those of
the search if they are near, or central differences, and searched on from while they promise more. The covariance is
that of residuals as they are, correlated in time (tandem/ensembles/correlated.py), of the deviation given or left over,
whichever is larger. A direction in the space of the parameters that the data confine to no better than half of a range
is named, and its parameters get no interval.

Three kinds of intervals, each of 95 %: single (±1.96 deviations: each holds its value with 95 %), simultaneous (wider,
by Bonferroni: all hold at once with at least 95 %), and the ellipsoid of all parameters, which holds them together with
95 % exactly and whose shadows on the axes are Scheffé's intervals.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim_service.contract.machine import Floats
from sync.errors import ConfigError, TandemError
from sync.files.consent import ConsentMissing
from tandem.ensembles.correlated import LEAST_TO_HALVE, Halves, Noise, Part, halves, noise_of, scatter
from tandem.ensembles.extras import needs
from tandem.ensembles.identification import Problem
from tandem.ensembles.pool import cores
from tandem.ensembles.work import Worker

Progress = Callable[[str, float], None]
_NORMAL_95 = 1.959963984540054
_LOOSE = 0.5  # of a range: a deviation beyond is none that the data give
_TAKES_PART = 0.2  # of a direction of length 1
_CLOSE = 0.95  # correlation of two parameters that is worth a word
_AT_ONCE = 8  # parameters in a run with derivatives
_FORETOLD = 0.5  # of a change of the residual: so far a learnt Jacobian may be off
_WORTH = 1e-5  # of chi-squared: a gain that is worth to search on
_SEARCHES = 3  # at most, by what these promise
_ROUGH = 1e-3  # tolerance of an answer that only the noise is found from
_ENOUGH = 1e-6  # tolerance of a search: how good it is central differences, or exact ones, say
_NEAR = 0.5  # of chi-squared: 0.7 deviations away, the same ones hold


class NotEstimated(TandemError):
    """The machine does not run at the start, or near it."""

    code = 3


@dataclass(frozen=True)
class Combination:
    """A direction that the data do not tell: names and weights, in parts of the parameters' ranges."""

    weights: dict[str, float]
    deviation: float  # of the range, by the data alone

    def __str__(self) -> str:
        parts = " ".join(f"{weight:+.2f} {name}" for name, weight in self.weights.items())
        return f"{parts} (in parts of their ranges)"


@dataclass(frozen=True)
class Estimate:
    problem: Problem
    values: Floats
    deviations: Floats  # standard; NaN where the data do not tell
    correlation: Floats
    combinations: list[Combination]
    at_bounds: tuple[str, ...]
    sigmas: dict[str, float]  # of the noise
    before: list[dict[str, Floats]]  # predictions of every record
    after: list[dict[str, Floats]]
    influence: dict[str, dict[str, float]]  # rms of each channel, over its noise, for a tenth of a range
    noises: dict[str, Noise]  # what the residuals of each channel are like
    wider: Floats  # each standard deviation, over the one that white noise would give
    by_blocks: bool = False  # whether windows scatter more than the noise model allows
    blocks: int = 0
    halves: Halves | None = None
    iterations: int = 0
    runs: int = 0
    message: str = ""
    by_differences: tuple[str, ...] = ()  # parameters whose sensitivities are none of the steps themselves
    diverged: tuple[str, ...] = ()  # windows that were not fitted, in which the answer does not run

    @property
    def low(self) -> Floats:
        return np.asarray(self.values - _NORMAL_95 * self.deviations)

    @property
    def high(self) -> Floats:
        return np.asarray(self.values + _NORMAL_95 * self.deviations)

    @property
    def parameters(self) -> dict[str, float]:
        """What was found, by name."""
        return dict(zip(self.problem.names, self.values.tolist(), strict=True))

    def __repr__(self) -> str:
        rows = zip(self.problem.names, self.values, self.low, self.high, strict=True)
        lines = [f"  {name} = {value:.6g}, 95 % from {low:.6g} to {high:.6g}" for name, value, low, high in rows]
        return "\n".join([f"<tandem.Estimate of {self.problem.machine.name}>", *lines])

    @property
    def identifiable(self) -> NDArray[np.bool_]:
        """Which parameters have an interval."""
        return np.asarray(np.isfinite(self.deviations))

    @property
    def not_halved(self) -> str:
        """Why the halves of the data were not compared."""
        if self.combinations:
            return f"the data confine {len(self.combinations)} directions of the parameters too little"
        return (
            f"they are {self.blocks} pieces that are longer than the noise remembers, and it takes {LEAST_TO_HALVE};"
            " give more data"
        )

    @property
    def sensitivities(self) -> str:
        if not self.by_differences:
            return "exact"
        return "differences" if len(self.by_differences) == len(self.problem.names) else "exact and differences"

    @property
    def joint_factor(self) -> float:
        """How many deviations wide simultaneous intervals are: all hold at once with 95 % or more, by Bonferroni."""
        return NormalDist().inv_cdf(1.0 - 0.025 / max(int(self.identifiable.sum()), 1))

    @property
    def ellipsoid_factor(self) -> float:
        """How many deviations the ellipsoid reaches, within which all lie together with 95 %."""
        chi2 = needs("scipy.stats", "fit", "tandem identify").chi2
        return float(np.sqrt(chi2.ppf(0.95, max(int(self.identifiable.sum()), 1))))

    @property
    def joint_low(self) -> Floats:
        return np.asarray(self.values - self.joint_factor * self.deviations)

    @property
    def joint_high(self) -> Floats:
        return np.asarray(self.values + self.joint_factor * self.deviations)

    def distance(self, values: Floats) -> float:
        """How far these values are from the answer, by the covariance: chi-squared if they are the true ones."""
        identifiable = self.identifiable
        scores = ((values - self.values) / self.deviations)[identifiable]
        return float(scores @ np.linalg.solve(self.correlation[np.ix_(identifiable, identifiable)], scores))

    def correlated(self) -> list[tuple[str, str, float]]:
        names = self.problem.names
        pairs = [(a, b) for a in range(len(names)) for b in range(a)]
        found = [(names[b], names[a], float(self.correlation[a, b])) for a, b in pairs]
        return [each for each in found if abs(each[2]) > _CLOSE]


def predicted(worker: Worker, values: Floats, cases: range, workers: int) -> list[dict[str, Floats]]:
    """Simulate these windows, side by side. Raises TandemError where a run diverges."""
    numbers = values.tolist()
    if len(cases) < 2 or workers < 2 or not worker.live or worker.machine.stepping.one_at_a_time:
        return [worker.log(case, numbers).columns for case in cases]
    with ThreadPoolExecutor(workers) as pool:
        return [log.columns for log in pool.map(lambda case: worker.log(case, numbers), cases)]


def as_far_as_it_runs(
    problem: Problem,
    worker: Worker,
    values: Floats,
    cases: range,
    workers: int,
    progress: Progress = lambda *_: None,
) -> tuple[list[dict[str, Floats]], tuple[str, ...]]:
    """The same, and the windows in which the machine diverges, which are NaN."""
    found: list[dict[str, Floats]] = []
    diverged = []
    for case in cases:
        if case % 16 == 0:
            progress("windows", (case - cases.start) / len(cases))
        try:
            found += predicted(worker, values, range(case, case + 1), workers)
        except ConsentMissing:
            raise
        except TandemError:
            diverged.append(str(problem.windows[case]))
            found.append({name: np.full(len(problem.windows[case].rows), np.nan) for name in problem.channels})
    return found, tuple(diverged)


@dataclass
class _Model:
    problem: Problem
    workers: int
    sigmas: dict[str, float] = field(default_factory=dict)
    runs: int = 0
    _last: tuple[bytes, list[dict[str, Floats]]] = (b"", [])  # values, and what they give

    def __post_init__(self) -> None:
        self._worker = Worker(self.problem.job)
        self.range = self.problem.high - self.problem.low
        method, names = self.problem.study.solver.sensitivities, self.problem.names
        self.exact = [] if method == "differences" else self._worker.exact
        if method == "exact" and len(self.exact) < len(names):
            raise ConfigError(
                f"{self.problem.job.where}: solver.sensitivities = 'exact': {self.problem.machine.name} has none by"
                f" {', '.join(self.by_differences)}; 'auto' and 'differences' work"
            )

    @property
    def by_differences(self) -> tuple[str, ...]:
        return tuple(name for k, name in enumerate(self.problem.names) if k not in self.exact)

    def predict(self, values: Floats) -> list[dict[str, Floats]]:
        """Simulate every fitted window. Raises TandemError where a run diverges."""
        self.runs += self.problem.fitted
        return predicted(self._worker, values, range(self.problem.fitted), self.workers)

    def predict_once(self, values: Floats) -> list[dict[str, Floats]]:
        """The same of one thread, which may ask for what it had last again."""
        if values.tobytes() != self._last[0]:
            self._last = values.tobytes(), self.predict(values)
        return list(self._last[1])

    def unused(self, values: Floats) -> tuple[list[dict[str, Floats]], tuple[str, ...]]:
        cases = range(self.problem.fitted, len(self.problem.windows))
        return as_far_as_it_runs(self.problem, self._worker, values, cases, self.workers)

    def residual(self, predicted: list[dict[str, Floats]], values: Floats) -> Floats:
        parts = [
            (predicted[case][name] - found[name]) / self.sigmas[name]
            for case, found in enumerate(self.problem.measured[: self.problem.fitted])
            for name in self.problem.channels
        ]
        return np.concatenate([*parts, self._priors(values)])

    def _priors(self, values: Floats) -> Floats:
        parameters = self.problem.study.parameters.values()
        pairs = [(v, p.prior, p.prior_sigma) for v, p in zip(values, parameters, strict=True)]
        return np.array([(v - mean) / sigma for v, mean, sigma in pairs if mean is not None and sigma is not None])

    def jacobian(self, values: Floats, here: Floats | None = None) -> Floats:
        """The Jacobian of the residual by the values, in parts of their ranges. With the residual `here`, differences
        take one run for each parameter."""
        found = np.empty((len(self.residual(self.problem.measured, values)), len(values)))
        if self.exact:
            found[:, self.exact] = self._by_tangents(values)
            if not np.isfinite(found[:, self.exact]).all():  # a corner of a law that has no slope there
                self.exact = []
        rest = [k for k in range(len(values)) if k not in self.exact]
        if rest:
            found[:, rest] = self._by_differences(values, rest, here)
        return found

    def _by_tangents(self, values: Floats) -> Floats:
        """A run for every eight parameters of every record, all at once."""
        n, cases = len(self.exact), range(self.problem.fitted)
        groups = [self.exact[k : k + _AT_ONCE] for k in range(0, n, _AT_ONCE)]
        jobs = [(case, group) for case in cases for group in groups]
        self.runs += len(jobs)
        with ThreadPoolExecutor(self.workers) as pool:
            results = list(pool.map(lambda each: self._worker.derivatives(each[0], values.tolist(), each[1]), jobs))
        parts = []
        for case in cases:
            of_case = results[case * len(groups) : (case + 1) * len(groups)]
            parts += [np.hstack([m[name] for m in of_case]) / self.sigmas[name] for name in self.problem.channels]
        params = list(self.problem.study.parameters.values())
        priors = [np.eye(len(params))[k] / p.prior_sigma for k, p in enumerate(params) if p.prior_sigma is not None]
        priors = [row[self.exact] for row in priors]
        return np.asarray(np.vstack([*parts, *priors]) * self.range[self.exact])

    def _by_differences(self, values: Floats, which: list[int], here: Floats | None) -> Floats:
        """Two runs a parameter of these, or one, all at once."""
        problem = self.problem
        step, each = problem.study.solver.step, 2 if here is None else 1
        sides = np.tile(values, (each * len(which), 1))
        for at, k in enumerate(which):
            up = min(values[k] + step * self.range[k], problem.high[k])
            down = max(values[k] - step * self.range[k], problem.low[k])
            inwards = down if problem.high[k] - values[k] < step * self.range[k] else up
            sides[each * at : each * (at + 1), k] = (up, down) if here is None else (inwards,)
        with ThreadPoolExecutor(self.workers) as pool:
            found = list(pool.map(self._try, sides))
        columns = []
        for at, k in enumerate(which):
            part = slice(each * at, each * (at + 1))
            ends = [(side[k], r) for side, r in zip(sides[part], found[part], strict=True)]
            good = [(end, r) for end, r in ends if r is not None]
            if len(good) < 2:  # one side diverges: the other, and here
                here = self._try(values) if here is None else here
                if here is None or not good:
                    raise NotEstimated(f"{problem.names[k]}: the machine diverges on both sides of {values[k]:g}")
                good = [*good, (values[k], here)]
            (a, ra), (b, rb) = good
            columns.append((ra - rb) / (a - b) * self.range[k])
        return np.column_stack(columns)

    def _try(self, values: Floats) -> Floats | None:
        try:
            return self.residual(self.predict(values), values)
        except TandemError:
            return None

    def try_once(self, values: Floats) -> Floats | None:
        """The residual; None where a run diverges."""
        try:
            return self.residual(self.predict_once(values), values)
        except TandemError:
            return None


def estimate(
    problem: Problem, only_sensitivity: bool = False, workers: int = 0, progress: Progress = lambda *_: None
) -> Estimate:
    model = _Model(problem, workers or cores())
    optimize: Any = needs("scipy.optimize", "fit", "tandem identify")
    try:
        before = model.predict_once(problem.start)
    except ConsentMissing:
        raise
    except TandemError as error:
        raise NotEstimated(f"{problem.job.where}: at the start: {error}") from None
    sigmas = {name: each.sigma for name, each in problem.study.measured.items()}
    model.sigmas = {name: sigma or _left_over(problem, before, name) for name, sigma in sigmas.items()}
    values, message, after = problem.start, "not fitted: sensitivities at the start", list(before)
    search = _Search(optimize, model, progress)
    tolerance = max(problem.study.solver.tolerance, _ENOUGH)
    if not only_sensitivity:
        rounds = 1 if all(sigmas.values()) else 3  # noise that is not given is found again with the answer
        for k in range(rounds):
            rough = tolerance if k == rounds - 1 else max(_ROUGH, tolerance)
            values, message = search.from_here(values, rough)
            after = model.predict_once(values)
            search.weigh({name: sigma or _left_over(problem, after, name) for name, sigma in sigmas.items()})
    near = search.near((values - problem.low) / model.range)
    jacobian = model.jacobian(values) if near is None else near
    for _ in range(0 if only_sensitivity or near is not None else _SEARCHES):
        if not _promises_more(jacobian, model.residual(after, values), (values - problem.low) / model.range):
            break
        begun = (values - problem.low) / model.range
        search.learnt = begun, model.residual(after, values), jacobian
        values, message = search.from_here(values, tolerance)
        after = model.predict_once(values)
        if np.sum((jacobian @ ((values - problem.low) / model.range - begun)) ** 2) < _NEAR:
            break
        jacobian = model.jacobian(values)
    iterations = search.iterations
    before += model.unused(problem.start)[0]
    beyond, diverged = model.unused(values)
    found = _judged(problem, model, values, jacobian, before, after + beyond, iterations, message)
    return replace(found, diverged=diverged)


def _left_over(problem: Problem, predicted: list[dict[str, Floats]], name: str) -> float:
    pairs = zip(predicted, problem.measured[: problem.fitted], strict=True)
    error = np.concatenate([p[name] - m[name] for p, m in pairs])
    return max(float(np.sqrt(np.mean(error * error))), 1e-12)


@dataclass
class _Search:
    """Gauss–Newton from where it is put, with what it has learnt on its way."""

    optimize: Any
    model: _Model
    progress: Progress
    iterations: int = 0  # iterations
    # place in parts of the ranges, residual and Jacobian there
    learnt: tuple[Floats, Floats, Floats] | None = None
    exact: tuple[Floats, Floats] | None = None  # place, and Jacobian there, as the steps have it

    def from_here(self, begin: Floats, tolerance: float) -> tuple[Floats, str]:
        model, problem, solver = self.model, self.model.problem, self.model.problem.study.solver
        seen: dict[bytes, Floats] = {}

        def residual(x: Floats) -> Floats:
            found = model.try_once(problem.low + x * model.range)
            # a trial that diverges is no step: the solver takes a shorter one
            found = np.full(size, np.inf) if found is None else found
            seen[x.tobytes()] = found
            return found

        def jacobian(x: Floats) -> Floats:
            self.iterations += 1
            self.progress(f"iteration {self.iterations}", min(self.iterations / solver.iterations, 0.99))
            found = self._jacobian(x, seen[x.tobytes()])
            seen.clear()
            return found

        inside = np.clip((begin - problem.low) / model.range, 1e-6, 1.0 - 1e-6)
        size = len(model.residual(model.predict_once(begin), begin))
        found = self.optimize.least_squares(
            residual, inside, jac=jacobian, bounds=(0.0, 1.0), method="trf", x_scale=1.0,
            loss="linear" if solver.loss == "squares" else "huber",
            ftol=tolerance, xtol=tolerance, gtol=1e-10, max_nfev=2 * solver.iterations,
        )  # fmt: skip
        return problem.low + found.x * model.range, str(found.message)

    def weigh(self, sigmas: dict[str, float]) -> None:
        """Other deviations of the noise: what was learnt holds with these."""
        model, before = self.model, dict(self.model.sigmas)
        model.sigmas = sigmas
        if self.learnt is None:
            return
        (x, r, J), exact = self.learnt, self.exact
        counts = [len(found[n]) for found in model.problem.measured[: model.problem.fitted] for n in sigmas]
        shares = [before[n] / sigmas[n] for _ in range(model.problem.fitted) for n in sigmas]
        share = np.ones(len(r))
        share[: sum(counts)] = np.repeat(shares, counts)
        self.learnt = x, share * r, share[:, None] * J
        self.exact = None if exact is None else (exact[0], share[:, None] * exact[1])

    def near(self, x: Floats) -> Floats | None:
        """An exact Jacobian from so near that the search would gain nothing more after a step by it; None if there is
        none."""
        if self.exact is None:
            return None
        place, jacobian = self.exact
        return jacobian if 0.0 < np.sum((jacobian @ (x - place)) ** 2) < _NEAR else None

    def _jacobian(self, x: Floats, r: Floats) -> Floats:
        model = self.model
        values = model.problem.low + x * model.range
        if self.learnt is not None:
            before, residual, found = self.learnt
            dx, change = x - before, r - residual
            off = change - found @ dx
            if off @ off <= _FORETOLD**2 * (change @ change):
                J = found + np.outer(off, dx) / max(float(dx @ dx), 1e-300)
                self.learnt = x.copy(), r, J
                return J
        self.learnt = x.copy(), r, model.jacobian(values, r)
        if not model.by_differences:
            self.exact = x.copy(), self.learnt[2]
        return self.learnt[2]


def _promises_more(jacobian: Floats, residual: Floats, share: Floats) -> bool:
    """Whether a step within the bounds, by this Jacobian, makes the sum of squares less by what matters."""
    if not np.isfinite(jacobian).all():
        return False
    step = np.linalg.lstsq(jacobian, -residual, rcond=1e-10)[0]
    step = np.clip(share + step, 0.0, 1.0) - share
    gain = residual @ residual - float(np.sum((residual + jacobian @ step) ** 2))
    return bool(gain > max(_WORTH, 1e-9 * float(residual @ residual)))


def _judged(
    problem: Problem,
    model: _Model,
    values: Floats,
    jacobian: Floats,
    before: list[dict[str, Floats]],
    after: list[dict[str, Floats]],
    iterations: int,
    message: str,
) -> Estimate:
    n = len(values)
    share = (values - problem.low) / model.range
    held = [k for k in range(n) if share[k] < 1e-4 or share[k] > 1.0 - 1e-4]
    rows = [len(next(iter(found.values()))) for found in problem.measured[: problem.fitted]]
    windows, residual = _parts(problem, rows), model.residual(after[: problem.fitted], values)
    data = sum(rows) * len(problem.channels)
    priors = jacobian[data:].T @ jacobian[data:]
    noises = _noises(problem, windows, residual)
    _, singular, directions = np.linalg.svd(jacobian, full_matrices=False)
    white = (directions.T * np.minimum(1.0 / np.maximum(singular, 1e-300), 1e6) ** 2) @ directions
    # in the directions that the data tell: the others have no interval anyhow
    width = 1.0 / np.maximum(singular, 1e-300)
    sure = width <= _LOOSE
    basis = directions[sure].T
    found = scatter(jacobian[:data] @ basis, residual[:data], windows, noises, basis.T @ priors @ basis)
    covariance = white - basis @ (basis.T @ white @ basis) @ basis.T + basis @ found.covariance @ basis.T
    combinations, unknown = [], np.zeros(n, bool)
    spread, axes = np.linalg.eigh(covariance)
    for direction, size in zip(axes.T, np.sqrt(np.maximum(spread, 0.0)), strict=True):
        if size <= _LOOSE:
            continue
        part = np.abs(direction) > _TAKES_PART
        unknown |= part
        sign = np.sign(direction[np.argmax(np.abs(direction))])
        weights = {problem.names[k]: float(sign * direction[k]) for k in np.flatnonzero(part)}
        combinations.append(Combination(weights, float(size)))
    root = np.sqrt(np.diag(covariance))
    deviations = np.where(unknown, np.nan, root * model.range)
    both = halves(jacobian[:data] @ basis, residual[:data], windows, noises) if sure.all() else None
    if both is not None:
        both = both.of(basis, model.range)
    influence = {
        name: dict(zip(problem.channels, _by_channel(problem, 0.1 * jacobian[:, k]), strict=True))
        for k, name in enumerate(problem.names)
    }
    return Estimate(
        problem, values, deviations, covariance / np.outer(root, root), combinations,
        tuple(problem.names[k] for k in held), dict(model.sigmas), before, after, influence, noises,
        root / np.sqrt(np.diag(white)), found.by_blocks, found.blocks, both, iterations, model.runs, message,
        model.by_differences,
    )  # fmt: skip


def _parts(problem: Problem, rows: list[int]) -> list[list[Part]]:
    """Where each channel of each window stands in the residual."""
    at, found = 0, []
    for count in rows:
        found.append([Part(name, at + k * count, at + (k + 1) * count) for k, name in enumerate(problem.channels)])
        at += count * len(problem.channels)
    return found


def _noises(problem: Problem, windows: list[list[Part]], residual: Floats) -> dict[str, Noise]:
    """No channel has less noise than was given for it."""
    found = {}
    for k, name in enumerate(problem.channels):
        noise = noise_of([residual[window[k].first : window[k].end] for window in windows])
        least = 0.0 if problem.study.measured[name].sigma is None else 1.0
        found[name] = noise if noise.variance >= least else replace(noise, variance=least)
    return found


def _by_channel(problem: Problem, column: Floats) -> list[float]:
    """The root mean square of the parts of a column of the residual that belong to each channel."""
    squares, counts, at = dict.fromkeys(problem.channels, 0.0), dict.fromkeys(problem.channels, 0), 0
    for found in problem.measured[: problem.fitted]:
        for name in problem.channels:
            part = column[at : at + len(found[name])]
            squares[name] += float(part @ part)
            counts[name] += len(part)
            at += len(found[name])
    return [float(np.sqrt(squares[name] / max(counts[name], 1))) for name in problem.channels]
