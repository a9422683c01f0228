"""A model that does what its vehicle file says: takes its time, or leaves the numbers, at steps of its choice; and
leaves its bound while the brake is pressed harder than it likes. What its step takes it says in a word of its work that
it shares with a virtual clock."""

import math

from sim_service.contract.machine import STEP, Machine, Parameter, Quantity
from sync.compile.jit import kernel
from tandem.machines.car.vehicle import VEHICLE_INPUTS

_SLOW_FROM, _SLOW_STEPS, _SLOW_MS, _NAN_AT, _BAD_BAR = range(5)
WHEEL_SPEED_PER_STEP = 7.0  # rad/s
BUSY = 3


@kernel(STEP)
def step(state, inputs, params, tables, work, h):
    n = state[0]
    if params[_SLOW_FROM] <= n < params[_SLOW_FROM] + params[_SLOW_STEPS]:
        work[BUSY] = params[_SLOW_MS] * 1e6
    state[0] = n + 1.0
    work[0] = WHEEL_SPEED_PER_STEP * state[0]
    work[1] = math.nan if n == params[_NAN_AT] else state[0]
    if inputs[4] > params[_BAD_BAR]:
        state[0] = 1e12
        work[0] = work[2] = math.inf


MACHINE = Machine(
    name="puppet",
    inputs=tuple(q for q in VEHICLE_INPUTS if not q.optional),
    states=(Quantity("steps", "1", "steps made"),),
    outputs=(Quantity("wheel_speed_rear", "rad/s", "rises"), Quantity("steps", "1", "steps made, or NaN")),
    parameters=(
        Parameter("slow_from", "1", 0.0, 0.0, 1e9, "first slow step"),
        Parameter("slow_steps", "1", 0.0, 0.0, 1e9, "number of slow steps"),
        Parameter("slow_ms", "ms", 0.0, 0.0, 1e4, "what a slow step takes at least"),
        Parameter("nan_at", "1", -1.0, -1.0, 1e9, "the step that leaves the numbers; -1 = none"),
        Parameter("bad_bar", "bar", 1e4, -1.0, 1e4, "brake pressure beyond which it diverges"),
    ),
    work_size=4,
    step=step,
)
