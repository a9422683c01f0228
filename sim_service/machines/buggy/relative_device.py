"""The buggy in relative coordinates on a GPU: its Rosenbrock steps, without I3AL behind them.

A step that is not fit for the method (relative_dynamics.py) is not made: the copy stays before it and says so.
"""

import numpy as np

from sim_service.gpu_code.source import DeviceSource
from sim_service.machines.buggy.forces import hook
from sim_service.machines.buggy.relative_dynamics import NAMES, car_rates, car_rates_and_jacobian, rosenbrock_step
from sim_service.machines.contract import Tables
from sim_service.multibody.relative.generate import Generated
from sim_service.multibody.relative.integrators import rodas3_step
from sim_service.multibody.relative.llvm import arguments_of, module_text
from sync.jit import inner

COMPILED_WHEN_ASKED = True  # see sync/build.py
PART = 400  # operations of a part of the generated functions


@inner
def advance(state, inputs, params, tables, work, h, shown):
    return rosenbrock_step(
        rodas3_step, car_rates, car_rates_and_jacobian, hook, state, inputs, params, tables, work, h, shown
    )


def source(constants: Tables, addresses: tuple[int, ...], made: Generated, part: int = PART) -> DeviceSource:
    """Of a machine with these tables, in which addresses become numbers of functions."""
    floats = np.array(constants.floats)
    floats[list(addresses)] = np.arange(len(addresses))
    functions = [f for f in made.functions if any(entry in NAMES[1:] for entry in f.entries)]
    sizes = {entry: len(arguments_of(f)) for f in functions for entry in f.entries}
    # a number that stands for another kind of function is never called with so many arrays
    names = {k: [name if sizes.get(name) == k else f"none_{k}" for name in NAMES] for k in set(sizes.values())}
    # loops are closed in as many corrections as a copy needs; all else is called equally often by all
    together = tuple(entry for entry in sizes if entry != "close")
    return DeviceSource(
        advance, np.array(constants.ints), floats, lambda: module_text(functions, part), names, together=together
    )
