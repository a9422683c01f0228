"""The trivial machine of verify/path/schedules.py: an integrator of its inputs, quick to step, whose bits depend on
every input, and whose step takes the time that it sets on a virtual clock (`BUSY`)."""

from sim_service.contract.machine import STEP, Machine, Parameter, Quantity
from sync.compile.jit import kernel
from tandem.machines.car.vehicle import VEHICLE_INPUTS

BUSY = 2  # the word of `work` for the time of a step, ns
_GAIN, _STEP_NS = range(2)


@kernel(STEP)
def step(state, inputs, params, tables, work, h):
    total = 0.0
    for i in range(inputs.size):
        total += (i + 1) * inputs[i]
    state[0] += h * (params[_GAIN] * total - state[0])
    state[1] += h * state[0]
    work[0], work[1] = state[0], state[1]
    work[BUSY] = params[_STEP_NS]


MACHINE = Machine(
    name="trivial",
    inputs=tuple(q for q in VEHICLE_INPUTS if not q.optional),
    states=(Quantity("rate", "1", "filtered inputs"), Quantity("sum", "1", "their integral")),
    outputs=(
        Quantity("rate", "1", "filtered inputs"),
        Quantity("sum", "1", "their integral"),
    ),
    parameters=(
        Parameter("gain", "1", 1.0, 0.0, 10.0, "of the inputs"),
        Parameter("step_ns", "ns", 0.0, 0.0, 1e9, "what a step takes"),
    ),
    work_size=3,
    step=step,
)
