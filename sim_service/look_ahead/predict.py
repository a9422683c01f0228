"""From a state to a prediction: a copy of the machine stepped ahead, and what that comes to.

The steps are the machine's own, with `look_ahead.step_ms`; with the step of the loop and inputs that are held they are
those that the loop would make, to the bit. Of the inputs, rates of what a hand holds (`Display.still`) are zero in the
held future; in the moving one an input whose rate is known (`Outlook.rates`) goes on by it for `moving_s`. Inputs that
are optional and come from no row of the configuration, and readings of sensors, are left to the machine (NaN).

The copy ends where control is lost: what comes behind is no handling any more.

Only the held future warns. A hand that moves seldom goes on for long: its future shows what it is heading for.
"""

from typing import Any

import numpy as np
from numba import float64, int64, types

from sim_service.look_ahead import record
from sim_service.machines.contract import STEP, TABLES, Machine, index
from sim_service.machines.outlook import GROWTH, JUDGE, JUDGED, LOSS, USE, outlook_of
from sim_service.many_steps import within
from sync.array_types import CONSTANTS, MATRIX, VECTOR
from sync.config import Config
from sync.jit import kernel


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
        step(state, inputs, params, tables, work, h)
        if not (within(state, state.size, bound) and within(work, outputs, bound)):
            return -k - 1
        judge(work, params, tables, numbers, judged[k])
        path[k, 0], path[k, 1] = work[at_x], work[at_y]
        if judged[k, LOSS] >= 1.0:
            return k + 1
    return rows.shape[0]


class Predictor:
    """Room and constants for the predictions of one machine. For one thread."""

    def __init__(self, config: Config, machine: Machine, params: np.ndarray, file: str = ""):
        self.machine, self._settings = machine, config.look_ahead
        self.outlook = outlook_of(machine, params, file)
        ahead = config.look_ahead
        self.h, self.steps = 1e-3 * ahead.step_ms, ahead.steps
        names = [q.name for q in machine.inputs]
        given = {name for row in config.inputs.values() for name in row.to}
        self._unknown = [
            i
            for i, q in enumerate(machine.inputs)
            if (q.optional and q.name not in given) or q.name in self.outlook.readings
        ]
        self._still = [names.index(name) for name in machine.display.still if name in names]
        self._rates = [(names.index(value), names.index(rate)) for value, rate in self.outlook.rates]
        self._place = [index(machine.outputs, name) for name in self.outlook.place]
        self._state, self._work = np.zeros(len(machine.states)), np.zeros(machine.work_size)
        self._inputs = np.zeros(len(names))
        self.rows = np.zeros((self.steps, len(names)))
        self.judged, self.path = np.zeros((self.steps, JUDGED)), np.zeros((self.steps, 2))
        self._now = np.zeros(JUDGED)
        self._times = self.h * np.arange(1, self.steps + 1)
        # the last step by each place's time
        self._points = np.maximum((np.arange(1, record.POINTS + 1) * self.steps) // record.POINTS - 1, 0)

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
        """Use, growth and loss (machines/outlook.py) of a step's outputs; overwritten by the next call."""
        self._work[: len(outputs)] = outputs
        self.outlook.judge(self._work, params, self.machine.tables, self.outlook.numbers, self._now)
        return self._now

    def predict(
        self, kind: int, state: np.ndarray, inputs: np.ndarray, outputs: np.ndarray, params: np.ndarray, block: Any
    ) -> None:
        """From the state after a step, its inputs and outputs: fills what is computed of a prediction's block."""
        machine, settings, outlook = self.machine, self._settings, self.outlook
        now = self.judge(outputs, params).copy()
        self._future(kind, inputs)
        self._state[:] = state
        self._work[:] = 0.0
        made = int(
            step_ahead(
                machine.step, outlook.judge, self._state, self._inputs, params, machine.tables, self._work, self.h,
                self.rows, len(machine.outputs), machine.bound, outlook.numbers, *self._place, self.judged, self.path,
            )
        )  # fmt: skip
        status = 0
        if made < 0:
            status, made = record.DIVERGED, -made - 1
        judged = self.judged[:made]
        lost = now[LOSS] >= 1.0 or (made > 0 and judged[-1, LOSS] >= 1.0)
        time_to_loss = settings.horizon_s
        if lost:
            status |= record.LOST
            time_to_loss = 0.0 if now[LOSS] >= 1.0 else made * self.h
        most = np.maximum(judged.max(axis=0), now) if made else now
        growing = self.h * float(np.count_nonzero(judged[:, GROWTH] >= settings.warn.growth))
        saturated = self.h * float(np.count_nonzero(judged[:, USE] >= settings.warn.use))
        if kind == record.HELD:
            if status and min(time_to_loss, made * self.h) < settings.warn.loss_s:
                status |= record.WARN_LOSS
            if growing >= settings.warn.growth_s:
                status |= record.WARN_GROWTH
            if saturated >= settings.warn.use_s:
                status |= record.WARN_USE
        values = block.view(np.float64)
        block[record.AT_KIND], block[record.AT_STATUS], block[record.AT_STEPS] = kind, status, made
        values[record.AT_TIME_TO_LOSS] = time_to_loss
        values[record.AT_USE], values[record.AT_USE_MOST] = now[USE], most[USE]
        values[record.AT_MARGIN] = 1.0 - most[USE]
        values[record.AT_GROWTH], values[record.AT_GROWTH_MOST] = now[GROWTH], most[GROWTH]
        values[record.AT_GROWING], values[record.AT_SATURATED] = growing, saturated
        if made:
            points = self.path[np.minimum(self._points, made - 1)]
        else:
            points = np.tile([outputs[place] for place in self._place], (record.POINTS, 1))
        values[record.AT_PLACES : record.AT_PLACES + record.POINTS] = points[:, 0]
        values[record.AT_PLACES + record.POINTS : record.AT_PLACES + 2 * record.POINTS] = points[:, 1]
