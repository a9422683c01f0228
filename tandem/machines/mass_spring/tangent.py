"""The step of the mass on a spring with its derivatives: the same text, compiled for numbers with derivatives."""

from sim_service.contract.machine import TANGENT
from sync.compile.jit import inner, kernel
from tandem.machines.mass_spring import step
from tandem.multibody.relative.dual_vectors import with_derivatives

COMPILED_ON_REQUEST = True  # see sync/compile/build.py
_step = inner(step.py_func)


@kernel(TANGENT, error_model="numpy")
def tangent(state, by_state, inputs, by_inputs, params, by_params, tables, work, by_work, h):
    _step(
        with_derivatives(state, by_state), with_derivatives(inputs, by_inputs), with_derivatives(params, by_params),
        tables, with_derivatives(work, by_work), h,
    )  # fmt: skip
