"""A fork: a private copy of the model steps ahead at once, with the inputs held as they are now.

A model promises that what its next step depends on is in its state (sim_service/contract/machine.py), and the
simulator shows the state after every step; so a copy of state and parameters goes on exactly as the live model would
with the same inputs (tests/tandem/view/test_panel.py: the same bits). What a fork cannot know is what the inputs do
next: they are held, and what the machine declares as rates of a hand (`Display.still`) is zero. For the buggy at 9 m/s
with a hand that turned by a radian and a half a second the real path was 3 cm off after half a second, 0.3 m after one,
2.5 m after two. How far off it was is measured when the machine has got there, and shown on the page.
"""

from dataclasses import dataclass

import numpy as np

from sim_service.contract.machine import Machine
from tandem.view.data_source import Frame

SECONDS = 2.0


@dataclass(frozen=True)
class Path:
    step: int  # of the frame it began with
    steps: int
    seconds: float
    points: np.ndarray  # x, y, z after every step, and before the first
    ok: bool  # the model stayed within the numbers


def can_fork(model: Machine) -> bool:
    return {"x", "y"} <= {q.name for q in model.outputs}


def held_inputs(model: Machine, frame: Frame) -> np.ndarray:
    there = frame.step.dtype.names or ()
    return np.array(
        [
            0.0 if q.name in model.shown.display.still or q.name not in there else float(frame.step[q.name])
            for q in model.inputs
        ]
    )


def ahead(model: Machine, params: np.ndarray, frame: Frame, h: float, seconds: float = SECONDS) -> Path:
    """Steps a copy; nothing it is given is changed."""
    names = [q.name for q in model.outputs]
    places = [names.index(n) if n in names else -1 for n in ("x", "y", "z")]
    steps = max(round(seconds / h), 1)
    state, work = frame.state.copy(), np.zeros(model.work_size)
    inputs = held_inputs(model, frame)
    points = np.zeros((steps + 1, 3))
    points[0] = [float(frame.step[n]) if p >= 0 else 0.0 for n, p in zip(("x", "y", "z"), places, strict=True)]
    for i in range(steps):
        try:
            model.step(state, inputs, params, model.tables, work, h)
        except Exception:  # a division by zero: the model has diverged
            work[:] = np.nan
        points[i + 1] = [work[p] if p >= 0 else 0.0 for p in places]
        if not np.isfinite(points[i + 1]).all():
            return Path(int(frame.step["step"]), steps, seconds, points[: i + 1], False)
    return Path(int(frame.step["step"]), steps, seconds, points, True)
