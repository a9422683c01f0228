"""From a state to a prediction: a copy of the machine stepped ahead, and what that comes to.

The steps are the machine's own, with `look_ahead.step_ms`; with the step of the loop and inputs that are held they are
bit-identical to those that the loop would make. Inputs that are rates of what a hand holds (`Display.still`) are zero
in the held future; in the moving one an input whose rate is known (`StabilityMonitor.rates`) goes on at that rate for
`moving_s`. Inputs that are optional and come from no row of the configuration are left to the machine (NaN).

In the future along a path (`look_ahead.path`) a hand aims at a place on the path some way ahead of the copy (pure
pursuit), no faster than a hand can move; all other inputs are held.

For an observer, the machine that it estimates is stepped, with the estimated parameters (`StabilityMonitor.of`); for
any other composite, the machine inside: there are no measurements of the future. Estimated forces are no parameters,
and are left out.

The copy stops where control is lost: a path beyond that predicts nothing.

Only the held future warns. A moving hand seldom goes on for long: its future shows what the machine is heading for.
"""

import math
from typing import Any

import numpy as np
from numba import float64, int64, types

from sim_service.bounds import SOUND, step_within
from sim_service.contract.machine import STEP, TABLES, Machine, index
from sim_service.contract.stability import GROWTH, JUDGE, JUDGED, LOSS, USE, stability_monitor
from sim_service.look_ahead import record
from sim_service.many_steps import MANY, for_many_steps
from sync.compile.array_types import CONSTANTS, MATRIX, VECTOR, WORDS, read_only
from sync.compile.jit import kernel
from sync.config.config import AheadPath, Config
from sync.errors import ConfigError

SPACING = 0.5  # m, of places on a path
MOST_PLACES = 200_000


# long: a machine as flat arrays; a kernel takes no object
@kernel(
    int64(
        types.FunctionType(STEP), types.FunctionType(JUDGE), VECTOR, VECTOR, VECTOR, TABLES, VECTOR, float64,
        MATRIX, int64, float64, CONSTANTS, int64, int64, MATRIX, MATRIX,
    )
)  # fmt: skip
def step_ahead(
    step, judge, state, inputs, params, tables, work, h, rows, outputs, bound, numbers, at_x, at_y, judged, path
):
    """A step for each row of inputs, until control is lost; how many were made, negative if the last one diverged."""
    for k in range(rows.shape[0]):
        for i in range(inputs.size):
            inputs[i] = rows[k, i]
        if step_within(step, state, inputs, params, tables, work, h, outputs, bound) != SOUND:
            return -k - 1
        judge(work, params, tables, numbers, judged[k])
        path[k, 0], path[k, 1] = work[at_x], work[at_y]
        if judged[k, LOSS] >= 1.0:
            return k + 1
    return rows.shape[0]


@kernel()
def nearest(way, guess, before, behind, x, y, closed):
    """The place of the way nearest to (x, y), from `before` places before the guess to `behind` places behind it."""
    n = way.shape[0]
    best, least = guess, math.inf
    for k in range(-before, behind):
        i = (guess + k) % n if closed else min(max(guess + k, 0), n - 1)
        d = (way[i, 0] - x) ** 2 + (way[i, 1] - y) ** 2
        if d < least:
            best, least = i, d
    return best


# long: a machine as flat arrays; a kernel takes no object
@kernel(
    int64(
        types.FunctionType(STEP), types.FunctionType(JUDGE), VECTOR, VECTOR, VECTOR, TABLES, VECTOR, float64,
        MATRIX, int64, float64, CONSTANTS, int64, int64, MATRIX, MATRIX, MATRIX, CONSTANTS, WORDS, VECTOR,
    )
)  # fmt: skip
def step_along(
    step, judge, state, inputs, params, tables, work, h, rows, outputs, bound, numbers, at_x, at_y, judged, path, way,
    follow, places, pose,
):  # fmt: skip
    """As step_ahead, with a hand on one input that follows the way. `pose`: x, y, yaw, speed at the beginning."""
    gain, more, preview_s, preview_m, most, closed = follow
    at_input, at_rate, at_yaw, at_speed = places
    n = way.shape[0]
    here = nearest(way, 0, 0, n, pose[0], pose[1], closed > 0.0)
    hand = rows[0, at_input]
    for k in range(rows.shape[0]):
        for i in range(inputs.size):
            inputs[i] = rows[k, i]
        x, y, yaw, v = pose[0], pose[1], pose[2], pose[3]
        here = nearest(way, here, 4, 60, x, y, closed > 0.0)
        at = here + int(max(preview_m, preview_s * abs(v)) / SPACING)
        at = at % n if closed > 0.0 else min(at, n - 1)
        dx, dy = way[at, 0] - x, way[at, 1] - y
        curvature = 2.0 * (math.cos(yaw) * dy - math.sin(yaw) * dx) / max(dx * dx + dy * dy, 1.0)
        before = hand
        hand += min(max((gain + more * v * v) * curvature - hand, -most * h), most * h)
        inputs[at_input] = hand
        if at_rate >= 0:
            inputs[at_rate] = (hand - before) / h
        if step_within(step, state, inputs, params, tables, work, h, outputs, bound) != SOUND:
            return -k - 1
        judge(work, params, tables, numbers, judged[k])
        path[k, 0], path[k, 1] = work[at_x], work[at_y]
        pose[0], pose[1], pose[2], pose[3] = work[at_x], work[at_y], work[at_yaw], work[at_speed]
        if judged[k, LOSS] >= 1.0:
            return k + 1
    return rows.shape[0]


def way_of(path: AheadPath) -> np.ndarray:
    """Places on the path, SPACING apart."""
    points = np.array([*path.points, *([path.points[0]] if path.closed else [])], float)
    points = points[np.concatenate([[True], (np.diff(points, axis=0) != 0.0).any(axis=1)])]
    along = np.concatenate([[0.0], np.cumsum(np.sqrt((np.diff(points, axis=0) ** 2).sum(axis=1)))])
    count = max(round(along[-1] / SPACING) + (not path.closed), 2)
    if count > MOST_PLACES:
        raise ConfigError(
            f"look_ahead.path.points: are {along[-1]:.0f} m long; at most {MOST_PLACES * SPACING:g} m are allowed"
        )
    even = np.linspace(0.0, along[-1], count, endpoint=not path.closed)
    return np.ascontiguousarray(np.stack([np.interp(even, along, points[:, i]) for i in range(2)], axis=1))


class Predictor:
    """Scratch and constants for the predictions of one machine. For one thread."""

    def __init__(self, config: Config, machine: Machine, params: np.ndarray, file: str = ""):
        self.machine, self._settings = machine, config.look_ahead
        self.monitor = stability_monitor(machine, params, file)
        copy = self._copy = self.monitor.of or machine  # what is stepped
        ahead = config.look_ahead
        self.h, self.steps = 1e-3 * ahead.step_ms, ahead.steps
        names = [q.name for q in copy.inputs]
        written = {name for row in config.inputs.values() for name in row.to}
        self._unknown = [i for i, q in enumerate(copy.inputs) if q.optional and q.name not in written]
        self._still = [names.index(name) for name in copy.shown.display.still if name in names]
        self._rates = [(names.index(value), names.index(rate)) for value, rate in self.monitor.rates]
        self._place = [index(copy.outputs, name) for name in self.monitor.place]
        self._state, self._work = np.zeros(len(copy.states)), np.zeros(copy.work_size)
        self._params = params[: len(copy.parameters)].copy()
        self._inputs = np.zeros(len(names))
        self.rows = np.zeros((self.steps, len(names)))
        self.judged, self.path = np.zeros((self.steps, JUDGED)), np.zeros((self.steps, 2))
        self._now = np.zeros(JUDGED)
        self._times = self.h * np.arange(1, self.steps + 1)
        # the last step by each place's time
        self._points = np.maximum((np.arange(1, record.POINTS + 1) * self.steps) // record.POINTS - 1, 0)
        self.kinds = [record.HELD, *([record.MOVING] if self._rates else [])]
        if ahead.path.points:
            self._follow_path(ahead.path, names, file)

    def unroll(self) -> None:
        """Step with unrolled code, as far as there is any, and more as another process compiles it: the same bits."""
        self._copy = for_many_steps(self._copy, MANY)

    def _follow_path(self, path: AheadPath, names: list[str], file: str) -> None:
        follow, copy = self.monitor.follow, self._copy
        if follow is None:
            raise ConfigError(
                f"{file}: look_ahead.path: {copy.name} does not say how it is guided along a path (its stability"
                " monitor's `follow`, docs/look_ahead.md); leave the path out, or take another machine"
            )
        self.kinds.append(record.PATH)
        self.way = way_of(path)
        numbers = (follow.per_curvature, follow.per_acceleration, path.preview_s, path.preview_m, path.hand_rate)
        self._follow = read_only(np.array([*numbers, float(path.closed)]))
        rate = names.index(follow.rate) if follow.rate else -1
        seen = [index(copy.outputs, name) for name in (follow.yaw, follow.speed)]
        self._places = np.array([names.index(follow.input), rate, *seen], np.int64)

    def _future(self, kind: int, inputs: np.ndarray) -> None:
        """The inputs of every step."""
        rows = self.rows
        rows[:] = inputs
        rows[:, self._still] = 0.0
        if kind == record.MOVING:
            moving_s = self._settings.moving_s
            for value, rate in self._rates:
                rows[:, value] += inputs[rate] * np.minimum(self._times, moving_s)
                rows[self._times <= moving_s, rate] = inputs[rate]
        rows[:, self._unknown] = np.nan

    def judge(self, outputs: np.ndarray, params: np.ndarray) -> np.ndarray:
        """Use, growth and loss (contract/stability.py) of a step's outputs; overwritten by the next call. For a
        composite the parameters are those of the last prediction."""
        count = len(self._copy.outputs)
        self._work[:count] = outputs[:count]
        own = params if self.monitor.of is None else self._params
        self.monitor.judge(self._work, own, self._copy.tables, self.monitor.numbers, self._now)
        return self._now

    def predict(
        self, kind: int, state: np.ndarray, inputs: np.ndarray, outputs: np.ndarray, params: np.ndarray, block: Any
    ) -> None:
        """Predict from the state after a step, its inputs and outputs; fills what is computed of its block."""
        copy, settings, monitor = self._copy, self._settings, self.monitor
        if monitor.of is not None:
            source, at = (params, 0) if monitor.params_at is None else (state, monitor.params_at)
            self._params[:] = source[at : at + len(self._params)]
            params = self._params
        now = self.judge(outputs, params).copy()
        self._future(kind, inputs[: len(self._inputs)])
        self._state[:] = state[: len(self._state)]
        self._work[:] = 0.0
        at_x, at_y = self._place
        common = (
            copy.step, monitor.judge, self._state, self._inputs, params, copy.tables, self._work, self.h, self.rows,
            len(copy.outputs), copy.stepping.bound, monitor.numbers, at_x, at_y, self.judged, self.path,
        )  # fmt: skip
        if kind == record.PATH:
            pose = np.array([outputs[at] for at in (*self._place, *self._places[2:])])
            steps = int(step_along(*common, self.way, self._follow, self._places, pose))
        else:
            steps = int(step_ahead(*common))
        status = 0
        if steps < 0:
            status, steps = record.DIVERGED, -steps - 1
        judged = self.judged[:steps]
        lost = now[LOSS] >= 1.0 or (steps > 0 and judged[-1, LOSS] >= 1.0)
        time_to_loss = settings.horizon_s
        if lost:
            status |= record.LOST
            time_to_loss = 0.0 if now[LOSS] >= 1.0 else steps * self.h
        most = np.maximum(judged.max(axis=0), now) if steps else now
        growing = self.h * float(np.count_nonzero(judged[:, GROWTH] >= settings.warn.growth))
        saturated = self.h * float(np.count_nonzero(judged[:, USE] >= settings.warn.use))
        if kind == record.HELD:
            if status and min(time_to_loss, steps * self.h) < settings.warn.loss_s:
                status |= record.WARN_LOSS
            if growing >= settings.warn.growth_s:
                status |= record.WARN_GROWTH
            if saturated >= settings.warn.use_s:
                status |= record.WARN_USE
        values = block.view(np.float64)
        block[record.AT_KIND], block[record.AT_STATUS], block[record.AT_STEPS] = kind, status, steps
        values[record.AT_TIME_TO_LOSS] = time_to_loss
        values[record.AT_USE], values[record.AT_USE_MOST] = now[USE], most[USE]
        values[record.AT_MARGIN] = 1.0 - most[USE]
        values[record.AT_GROWTH], values[record.AT_GROWTH_MOST] = now[GROWTH], most[GROWTH]
        values[record.AT_GROWING], values[record.AT_SATURATED] = growing, saturated
        if steps:
            points = self.path[np.minimum(self._points, steps - 1)]
        else:
            points = np.tile([outputs[place] for place in self._place], (record.POINTS, 1))
        values[record.AT_PLACES : record.AT_PLACES + record.POINTS] = points[:, 0]
        values[record.AT_PLACES + record.POINTS : record.AT_PLACES + 2 * record.POINTS] = points[:, 1]
