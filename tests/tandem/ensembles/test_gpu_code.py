"""Programs for a GPU, made and checked without one: their text, compiled for this processor, makes the same steps."""

import re
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest

from sim_service.registry import load_machine
from sync.errors import ConfigError
from tandem.ensembles.gpu import device
from tandem.multibody.code import ptx
from tandem.multibody.code.graph import Graph
from tandem.multibody.code.llvm import Function, module_text
from tests.tandem.ensembles.host_program import HostProgram, program_of

ROOT = Path(__file__).resolve().parents[3]
CAR = ROOT / "configs" / "vehicles" / "buggy_single_track.toml"
pytest.importorskip("nvidia", reason="the extra gpu is not installed")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, HostProgram]:
    return program_of(CAR, tmp_path_factory.mktemp("program"))


def test_a_program_needs_nothing_from_outside(made) -> None:
    text, _ = made
    assert ".target sm_90" in text and len(re.findall(r"^\.visible \.entry advance_copies\(", text, re.M)) == 1
    assert not re.search(r"\.extern", text)


def test_its_text_makes_the_steps_of_the_machine(made) -> None:
    machine, params = load_machine(CAR)
    state, work = np.zeros(len(machine.states)), np.zeros(machine.work_size)
    machine.initial(state, params, machine.tables, work)
    inputs = np.zeros((3, len(machine.inputs)))
    inputs[:, 0], inputs[:, 3] = (-0.3, 0.0, 0.4), 0.5
    inputs[:, [k for k, q in enumerate(machine.inputs) if q.optional]] = np.nan
    states, outputs, steps = made[1].advance(
        np.tile(state, (3, 1)), inputs, np.tile(params, (3, 1)), 0.005, 200, machine.stepping.bound
    )
    assert (steps == 200).all()
    for n in range(3):
        one = state.copy()
        for _ in range(200):
            machine.step(one, inputs[n].copy(), params, machine.tables, work, 0.005)
        # another compiler run may round the mathematics library's results otherwise where it vectorises
        np.testing.assert_allclose(states[n], one, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(outputs[n], work[: len(machine.outputs)], rtol=1e-9, atol=1e-12)


def test_a_copy_that_diverges_stays_where_it_was(made) -> None:
    machine, params = load_machine(CAR)
    state, work = np.zeros(len(machine.states)), np.zeros(machine.work_size)
    machine.initial(state, params, machine.tables, work)
    inputs = np.zeros((1, len(machine.inputs)))
    inputs[0, 3] = 1.0
    inputs[:, [k for k, q in enumerate(machine.inputs) if q.optional]] = np.nan
    states, _, steps = made[1].advance(state[None, :], inputs, params[None, :], 0.005, 5, 1e-300)
    assert steps[0] == 0 and (states[0] == state).all()


def test_generated_functions_work_in_the_memory_of_their_thread() -> None:
    g = Graph()
    x, d = g.inputs("x", 3), g.inputs("d", 2)
    wanted = [g.sin(x[0]) * d[0] + x[1] * x[2], x[2] / (x[1] + d[1])]
    text = ptx.in_own_memory(module_text([Function("motion", g, ("x", "d"), ({"out": wanted},))], part=2))
    llvm.parse_assembly(text.replace("llvm.sin.f64", "sin"))
    loads = re.findall(r"load double, (ptr\S*(?: addrspace\(5\))?)", text)
    assert "ptr addrspace(5)" in text and loads.count("ptr") == 2  # those of d, which all threads share


def test_threads_of_a_block_enter_parts_together_where_all_call_them() -> None:
    g = Graph()
    x = g.inputs("x", 3)
    functions = [Function(name, g, ("x",), ({"out": [x[0] * x[1] + x[2]]},)) for name in ("motion", "close")]
    text = ptx.in_own_memory(module_text(functions, part=1), together=("motion",))
    entries = {
        re.split(r"[@(]", one)[1]: one.count("call void @llvm.nvvm.barrier") for one in text.split("define ")[1:]
    }
    assert entries["motion"] == 2 and entries["close"] == 0


def test_where_there_is_no_gpu_it_is_said() -> None:
    if device.available() is None:
        pytest.skip("there is one")
    with pytest.raises(ConfigError, match="CUDA"):
        device.Device()
