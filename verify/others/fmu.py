"""What a step costs in an FMU, beside the bare step of the same machine: python -m verify fmu [MACHINE]

Both make the same steps from the same start, a thousand at a time, in turns; the least of each counts. Printed besides:
whether both came to the same state, to the bit. Needs fmpy.
"""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import fmpy.fmi3
import numpy as np
from fmpy import extract, read_model_description

from sync.compile.jit import kernel
from tandem.fmu.build import write_fmu
from tandem.fmu.platforms import HOST
from tandem.offline.model import load_machine
from verify.measure import Row, figure, holds

STEPS, TURNS, STEP_S = 1000, 20, 0.005


def fmu(*, name: Annotated[str, "of a machine"] = "vehicles/buggy") -> Iterator[Row]:
    loaded = load_machine(name)
    machine, params = loaded.description()
    step = machine.step

    @kernel(cache=False)
    def bare(state, inputs, values, params, tables, work, h, steps):
        for _ in range(steps):
            for k in range(len(values)):
                inputs[k] = values[k]
            step(state, inputs, params, tables, work, h)

    params.flags.writeable = False
    state, work = np.zeros(len(machine.states)), np.zeros(machine.work_size)
    machine.initial(state, params, machine.tables, work)
    values = np.array([np.nan if q.optional else 0.0 for q in machine.inputs])
    inputs = values.copy()
    with tempfile.TemporaryDirectory() as folder:
        written = write_fmu(loaded, "model", STEP_S, Path(folder) / "model.fmu", "tandem")
        place = str(extract(written["fmu"], Path(folder) / "x"))
        fmpy.fmi3.platform_tuple = HOST
        described = read_model_description(written["fmu"])
        slave = fmpy.fmi3.FMU3Slave(
            instanceName="it", guid=described.guid, modelIdentifier="model", unzipDirectory=place
        )  # fmt: skip
        slave.instantiate()
        slave.enterInitializationMode()
        slave.exitInitializationMode()
        bare(state.copy(), inputs, values, params, machine.tables, work.copy(), STEP_S, 0)
        best = {"bare": np.inf, "fmu": np.inf}
        for turn in range(TURNS):
            begin = time.perf_counter()
            bare(state, inputs, values, params, machine.tables, work, STEP_S, STEPS)
            middle = time.perf_counter()
            slave.doStep(turn * STEPS * STEP_S, STEPS * STEP_S)
            end = time.perf_counter()
            best = {"bare": min(best["bare"], middle - begin), "fmu": min(best["fmu"], end - middle)}
        references = [v.valueReference for v in described.modelVariables if v.name.startswith("states.")]
        same = np.array(slave.getFloat64(references)).tobytes() == state.tobytes()
    us = {key: 1e6 * value / STEPS for key, value in best.items()}
    yield figure(f"{machine.name}: a bare step", us["bare"], "us")
    yield figure("a step of its FMU", us["fmu"], "us")
    yield figure("ratio", us["fmu"] / us["bare"])
    yield holds(f"the same state to the bit after {TURNS * STEPS} steps", same)
    yield figure("size of the library", written["library_bytes"] / 1e3, "kB")
