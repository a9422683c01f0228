"""A machine that writes or reads beyond its arrays is one sentence, before it is first stepped."""

import re

import numpy as np
import pytest

from sim_service.contract.machine import STEP, Machine, Quantity, Shown, Stepping
from sim_service.contract.overruns import check_overruns
from sim_service.contract.scene import Scene, box
from sync.compile.jit import kernel
from sync.errors import ConfigError

X, U = Quantity("x", "m", ""), Quantity("u", "1", "")
OUT = (Quantity("a", "m", ""), Quantity("b", "m", ""))


@kernel(STEP)
def sound(state, inputs, params, tables, work, h):
    state[0] += h * inputs[0]
    work[0], work[-1] = state[0], 1.0


@kernel(STEP)
def work_written(state, inputs, params, tables, work, h):
    work[5] = work[7] = h


@kernel(STEP)
def work_read(state, inputs, params, tables, work, h):
    work[0] = 2.0 * work[4]


@kernel(STEP)
def state_written(state, inputs, params, tables, work, h):
    state[1] = h


@kernel(STEP)
def state_before(state, inputs, params, tables, work, h):
    state[-3] = h  # numba adds the size


@kernel(STEP)
def state_read(state, inputs, params, tables, work, h):
    work[0] = state[1]


@kernel(STEP)
def inputs_written(state, inputs, params, tables, work, h):
    inputs[1] = h


@kernel(STEP)
def inputs_read(state, inputs, params, tables, work, h):
    state[0] = inputs[2] * h


@kernel(STEP)
def params_read(state, inputs, params, tables, work, h):
    state[0] = params[0]


def stepping(step) -> Machine:
    return Machine("mine", (U,), (X,), OUT, (), step, work_size=4)


WRONG = {
    work_written: "writes work[7], beyond its end; work has 4 numbers, 2 of them outputs; write"
    " Machine(…, work_size=8) if the index is right",
    work_read: "reads beyond work; work has 4 numbers, 2 of them outputs; write Machine(…, a larger work_size)"
    " if the index is right",
    state_written: "writes state[1], beyond its end; state has 1 number, as the machine has states; declare"
    " another, or mend the index",
    state_before: "writes 2 before the beginning of state; state has 1 number",
    state_read: "reads beyond state; state has 1 number",
    inputs_written: "writes inputs[1], beyond its end; inputs has 1 number, as the machine has inputs",
    inputs_read: "reads beyond inputs; inputs has 1 number",
    params_read: "reads beyond params; params has 0 numbers, as the machine has parameters; declare another",
}


@pytest.mark.parametrize("step,expected", WRONG.items(), ids=[step.__name__ for step in WRONG])
def test_a_step_beyond_its_arrays_is_one_sentence(step, expected: str) -> None:
    with pytest.raises(
        ConfigError, match=f"^mine.toml: machine 'mine': step at .*test_overruns.py:\\d+ {re.escape(expected)}"
    ) as refused:
        check_overruns(stepping(step), np.zeros(0), "mine.toml")
    assert len(str(refused.value).splitlines()) == 1


def test_a_step_within_them_passes_and_is_called_for_it_once() -> None:
    count = 0

    def counted(*arguments) -> None:
        nonlocal count
        count += 1
        sound(*arguments)

    machine = stepping(counted)
    check_overruns(machine, np.zeros(0), "")
    first = count
    check_overruns(machine, np.zeros(0), "")
    assert count == first > 0
    check_overruns(Machine("mine", (U,), (X,), OUT, (), counted, work_size=5), np.zeros(0), "")
    assert count > first  # other sizes


def begins_beyond(state, params, tables, work) -> None:
    state[:] = 0.0
    work[4] = 1.0


@kernel()
def begins_beyond_compiled(state, params, tables, work):
    work[4] = 1.0


@kernel()
def moves_a_third_frame(state, params, out):
    out[2, 0, 0] = 1.0


def test_its_start_and_its_frames_are_looked_at_too() -> None:
    for initial, expected in (
        (begins_beyond, "initial at .*: index 4 is out of bounds for axis 0 with size 4"),
        (begins_beyond_compiled, r"initial at .* writes work\[4\], beyond its end; .*work_size=5"),
    ):
        machine = Machine("mine", (U,), (X,), OUT, (), sound, initial, work_size=4)
        with pytest.raises(ConfigError, match=expected):
            check_overruns(machine, np.zeros(0), "")
    scene = Scene(solids=(box("mass", 0, (-1, -1, -1), (1, 1, 1)),), frames=2)
    shown = stepping(sound).having(Shown(scene=scene, frames=moves_a_third_frame))
    with pytest.raises(
        ConfigError, match=r"frames at .* writes out\[2\], beyond its end; there are 2 frames, counted from 0"
    ):
        check_overruns(shown, np.zeros(0), "")


def test_a_machine_with_memory_of_its_own_is_not_called() -> None:
    check_overruns(stepping(work_written).having(Stepping(one_at_a_time=True)), np.zeros(0), "")
