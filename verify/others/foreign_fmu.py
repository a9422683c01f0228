"""What a step of a foreign FMU costs in the loop's hands: python -m verify foreign-fmu

The FMU of the tests (tests/foreign_fmu.c), whose own step is a handful of operations, stepped from compiled code a
thousand times a turn; the least of twenty turns counts. With a state that is taken out after every step, and without.
"""

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import sync  # noqa: F401  (one thread for BLAS, before numpy is imported)
from sim_service.registry import load_machine
from sync.compile.jit import kernel
from sync.files import consent
from tests.foreign_fmu import foreign_fmu
from verify.measure import Row, figure

STEPS, TURNS = 1000, 20


def foreign_fmu_step() -> Iterator[Row]:
    for stateful in (True, False):
        with tempfile.TemporaryDirectory() as folder:
            os.environ[consent.ENVIRONMENT] = f"{folder}/consent"
            foreign_fmu(Path(folder), 3, stateful)
            machine, params = load_machine(Path(folder) / "lag.toml")
        step = machine.step

        @kernel(cache=False)
        def many(state, inputs, params, tables, work, h, steps, step=step):
            for _ in range(steps):
                step(state, inputs, params, tables, work, h)

        params.flags.writeable = False
        state, inputs, work = np.zeros(len(machine.states)), np.ones(1), np.zeros(machine.work_size)
        machine.initial(state, params, machine.tables, work)
        many(state, inputs, params, machine.tables, work, 0.005, 1)
        best = np.inf
        for _ in range(TURNS):
            begin = time.perf_counter()
            many(state, inputs, params, machine.tables, work, 0.005, STEPS)
            best = min(best, time.perf_counter() - begin)
        state_is = "56 bytes of state taken out" if stateful else "state left inside"
        yield figure(f"a step, {state_is}", 1e6 * best / STEPS, "us")
