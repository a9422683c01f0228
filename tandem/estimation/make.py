"""A filter from its parts: what is observed, rows of sensors, and how uncertain all of it is."""

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np

from sync.errors import ConfigError
from tandem.estimation import ekf
from tandem.estimation.contract import Observed
from tandem.estimation.description import Earned, Sensors, Walk, spread
from tandem.estimation.ekf import LIMITS, Memory, Model, Z
from tandem.estimation.factored import SCRATCH, factorise_covariance, multiply_out_covariance
from tandem.estimation.rows import COUNTED, EXACT, WIDTH
from tandem.multibody.relative.ode import LANES, PADDING


@dataclass(frozen=True)
class Tuning:
    """Standard deviations: at the start, and of what moves each state at random, per square root of a second."""

    start: np.ndarray  # of all states of the filter
    walk: np.ndarray
    rough: np.ndarray | None = None  # of the walk in rough steps (contract.py), beside the other; None: no more
    limits: np.ndarray | None = None  # a row for each estimated quantity (ekf.py); None: the machine's


def read_tuning(
    observed: Observed, sensors: Sensors, estimated: list[str], states: dict[str, Walk],
    quantities: dict[str, Earned], where: str,
) -> Tuning:  # fmt: skip
    """What [filter] says of all states, and [sensors] of biases."""
    names = [one.name for one in observed.estimable]
    for name in estimated:
        if name not in names:
            right = f"must be one of {', '.join(names)}" if names else "nothing of this machine is; leave it out"
            raise ConfigError(f"{where}: filter.estimated: {name!r}: {right}")
    parts = [spread(states, [q.name for q in observed.coordinates], f"{where}: filter.states")]
    if estimated:
        parts.append(spread(quantities, estimated, f"{where}: filter.quantities"))
    parts.append(np.array([[b.start, b.walk, 0.0] for b in sensors.biases]).reshape(-1, 3).T)
    start, walk, rough = np.hstack(parts)
    limits = _narrowed(observed, estimated, quantities, f"{where}: filter.quantities")
    return Tuning(start, walk, rough, limits)


def _limits(observed: Observed, estimated: Sequence[str]) -> np.ndarray:
    """Of each estimated quantity as the machine has them: low, high, and that nothing need excite it."""
    named = {one.name: one.parameter for one in observed.estimable}
    every = observed.machine.parameters
    of = [(every[k].low, every[k].high) if (k := named[name]) >= 0 else (-1e300, 1e300) for name in estimated]
    return np.array([[low, high, 0.0] for low, high in of]).reshape(-1, LIMITS)


def _narrowed(observed: Observed, estimated: list[str], earned: dict[str, Earned], where: str) -> np.ndarray:
    limits = _limits(observed, estimated)
    for k, name in enumerate(estimated):
        for pattern, one in earned.items():
            if fnmatchcase(name, pattern):
                low, high = max(limits[k, 0], one.low), min(limits[k, 1], one.high)
                if low >= high:
                    raise ConfigError(
                        f"{where}.{pattern}: low = {one.low:g}, high = {one.high:g}: must leave something of"
                        f" {limits[k, 0]:g} to {limits[k, 1]:g}"
                    )
                if one.earned > 0.0 and observed.excited_at < 0:
                    raise ConfigError(
                        f"{where}.{pattern}.earned = {one.earned:g}: {observed.machine.name} does not say how much"
                        f" its motion excites {name}; leave it out"
                    )
                limits[k] = low, high, one.earned
    return limits


class Filter:
    """An observer of one machine; `observe` is one step. Its arrays are in `model` and `memory`."""

    # long: what a filter is made of, part by part
    def __init__(
        self,
        observed: Observed,
        params: np.ndarray,
        state: np.ndarray,
        sensors: Sensors,
        estimated: Sequence[str],
        tuning: Tuning,
        h: float,
        history: int = 64,
        most: int = 8,
        form: int = EXACT,
    ):
        self.observed, self.h = observed, h
        machine, n = observed.machine, len(observed.coordinates)
        rows, biases = sensors.rows, len(sensors.biases)
        names = [one.name for one in observed.estimable]
        self.which = np.array([names.index(name) for name in estimated], np.int32)
        chosen = [observed.estimable[k] for k in self.which]
        q, self.order = len(chosen), n + len(chosen) + biases
        N = self.order
        rates = [ekf.RELAXES if i in observed.relaxing else rate for i, rate in enumerate(observed.rates)]
        sizes = np.zeros(ekf.SIZES, np.int32)
        for which, value in (
            (Z.STATE, len(machine.states)), (Z.PARAMETERS, len(machine.parameters)), (Z.ERRORS, n), (Z.ESTIMATED, q),
            (Z.BIASES, biases), (Z.ROWS, len(rows)), (Z.INPUTS, len(machine.inputs)), (Z.HISTORY, history),
            (Z.MOST, most), (Z.FORM, form), (Z.AT, observed.at_size), (Z.OUTPUTS, len(machine.outputs)),
            (Z.EXCITED, observed.excited_at),
        ):  # fmt: skip
            sizes[which] = value
        integers = np.concatenate([sizes, rates, self.which, [one.parameter for one in chosen]]).astype(np.int32)
        limits = (_limits(observed, estimated) if tuning.limits is None else tuning.limits).ravel()
        extra = np.zeros(q + biases)
        for k, one in enumerate(chosen):
            extra[k] = params[one.parameter] if one.parameter >= 0 else 0.0
        Q = noise(observed, tuning.walk, h)
        start = np.asarray(tuning.start, float) ** 2
        rough = np.zeros(N) if tuning.rough is None else np.asarray(tuning.rough, float) ** 2 * h
        for array in (integers, limits, Q, start, rough):
            array.flags.writeable = False
        flat, counts = rows.ravel().copy(), sensors.counts.ravel().copy()
        flat.flags.writeable = counts.flags.writeable = False
        self.model = Model(integers, flat, counts, Q, limits, start, rough, machine.tables)
        size = len(state) + len(params) + q + biases + N + N * N + len(rows) + len(machine.outputs)
        self._state, self._params = slice(0, len(state)), slice(len(state), len(state) + len(params))
        at = len(state) + len(params)
        self._extra, self._d = slice(at, at + q + biases), slice(at + q + biases, at + q + biases + N)
        self._u = slice(at + q + biases + N, at + q + biases + N + N * N)
        assert len(rows) + len(machine.outputs) >= PADDING  # they stand behind U
        saved = size - N * (N - 1) // 2  # see ekf.saved_size
        estimate = np.zeros(size)
        estimate[self._state], estimate[self._params], estimate[self._extra] = state, params, extra
        estimate[self._d] = start
        estimate[self._u] = np.eye(N).ravel()
        stride = -(-N // LANES) * LANES
        scratch = n * (n + q + 1) + (N + SCRATCH + 7) * stride + observed.at_size + len(machine.inputs)
        self.memory = Memory(
            estimate, np.zeros(size), np.zeros(history * saved), np.zeros(history * len(machine.inputs)),
            np.full(history * len(rows) * ekf.READING, ekf.ABSENT), np.zeros(scratch), np.zeros(machine.work_size),
            np.zeros(len(ekf.NOTES)), np.zeros(len(rows) * COUNTED),
            np.zeros(len(machine.inputs)), np.full(2 * len(rows), np.nan),
        )  # fmt: skip
        assert flat.size == WIDTH * len(rows)

    def take(self, row: int, step: int, value: float, tau: float = 0.0, factor: float = 1.0) -> bool:
        return bool(ekf.take_reading(self.model, self.memory, row, step, tau, value, factor))

    def observe(self, inputs: np.ndarray) -> None:
        observed = self.observed
        ekf.observe(self.model, self.memory, inputs, self.h, observed.linearise, observed.measure, observed.correct)

    @property
    def counters(self) -> np.ndarray:
        """Rows of readings by COUNTERS (rows.py)."""
        return self.memory.counters.reshape(-1, COUNTED)

    @property
    def state(self) -> np.ndarray:
        return self.memory.estimate[self._state]

    @property
    def params(self) -> np.ndarray:
        return self.memory.estimate[self._params]

    @property
    def extra(self) -> np.ndarray:
        """Estimated quantities, then biases."""
        return self.memory.estimate[self._extra]

    @property
    def outputs(self) -> np.ndarray:
        """Of the machine."""
        return self.memory.estimate[len(self.memory.estimate) - len(self.observed.machine.outputs) :]

    def covariance(self) -> np.ndarray:
        N = self.order
        P = np.zeros(N * N)
        multiply_out_covariance(self.memory.estimate[self._u], self.memory.estimate[self._d], P)
        upper = np.triu(P.reshape(N, N).T)
        return np.asarray(upper + np.triu(upper, 1).T)

    def put(self, state: np.ndarray, params: np.ndarray, extra: np.ndarray, P: np.ndarray) -> None:
        """Another estimate in its place."""
        U, d = np.zeros(self.order**2), np.zeros(self.order)
        factorise_covariance(np.ascontiguousarray(P.T).ravel().copy(), U, d)
        estimate = self.memory.estimate
        estimate[self._state], estimate[self._params], estimate[self._extra] = state, params, extra
        estimate[self._u], estimate[self._d] = U, d

    def seen_at(self) -> np.ndarray:
        """What the last step left for measurements (contract.py)."""
        first = len(self.memory.scratch) - len(self.memory.step_inputs) - self.observed.at_size
        return self.memory.scratch[first : first + self.observed.at_size]


def noise(observed: Observed, walk: np.ndarray, h: float) -> np.ndarray:
    """Q of a step: white noise on every state; on a rate it moves the coordinate too (Van Loan's double integrator)."""
    N = len(walk)
    Q = np.diag(walk**2 * h)
    for i, rate in enumerate(observed.rates):
        if rate >= 0:
            Q[i, i] += walk[rate] ** 2 * h**3 / 3.0
            Q[i, rate] = Q[rate, i] = walk[rate] ** 2 * h**2 / 2.0
    assert Q.shape == (N, N)
    return np.ascontiguousarray(Q).ravel()
