"""The buggy in natural coordinates on a GPU: its step, with unrolled code in place of what index tables drive."""

from sim_service.contract.machine import Tables
from sync.compile.jit import inner
from tandem.machines.car.buggy.dynamics import step
from tandem.machines.car.buggy.slots import HEAD
from tandem.multibody.code.source import DeviceSource
from tandem.multibody.natural import unrolling

COMPILED_ON_REQUEST = True  # see sync/compile/build.py


@inner
def advance(state, inputs, params, tables, work, h, shown):
    step(state, inputs, params, tables, work, h)
    return True


def source(constants: Tables) -> DeviceSource:
    return unrolling.source(advance, constants, HEAD)
