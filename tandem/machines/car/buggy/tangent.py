"""The step of the buggy in natural coordinates with its derivatives.

The step is made as it always is. Then its text is gone through once more for numbers with derivatives: what is decided
before the step of the core and what follows it as it stands, the forces as the hook's own text has them, the core by
the implicit function theorem at where it ended (multibody/natural/step_tangent.py). Values are those of the plain step;
gears, valves and wheels that stand are decided as it decided them.

A step in parts is gone through part by part. Where the car steers by torque, has a torsion bar, or halves its steps,
derivatives are NaN: who asked for them takes differences.
"""

from typing import Any

from numba import boolean, float64, int64

from sim_service.contract.machine import TANGENT
from sync.compile.array_copy import copy
from sync.compile.array_types import CONSTANTS
from sync.compile.jit import inner, kernel
from tandem.machines.car.buggy import dynamics, forces, slots, steering
from tandem.machines.car.buggy.description import INPUTS, OUTPUTS, P, W
from tandem.machines.car.buggy.slots import HEAD, NUMBERS, RACK_INPUT, SIZE
from tandem.machines.car.tyres.transient import tyre
from tandem.multibody.ground import surface
from tandem.multibody.natural.augmented import step as advance
from tandem.multibody.natural.step_tangent import follow_step
from tandem.multibody.natural.tables import ATTEMPTS
from tandem.multibody.natural.tables import P as Part
from tandem.multibody.natural.views import part, view
from tandem.multibody.relative.dual import DUAL, LANES
from tandem.multibody.relative.dual_vectors import DUAL_VECTOR, with_derivatives

COMPILED_ON_REQUEST = True  # see sync/compile/build.py
_OUTPUTS, _INPUTS = len(OUTPUTS), len(INPUTS)

# kernels of one signature that the hook calls, for numbers with derivatives too
_kernel: Any
for _kernel, _kinds in (
    (surface, (CONSTANTS, DUAL, DUAL)),
    (
        tyre,
        (CONSTANTS, DUAL_VECTOR, DUAL_VECTOR, int64, float64, *6 * [DUAL], DUAL, float64, boolean, DUAL, DUAL_VECTOR),
    ),
):
    _kernel.disable_compile(False)
    _kernel.compile(_kinds)
    _kernel.disable_compile()


@inner
def nothing_known(by_state, by_work):
    for of in (by_state, by_work):
        for i in range(len(of)):
            of[i] = float("nan")


# long: one step, in the order of that of dynamics.py; a kernel takes no object
@kernel(TANGENT, error_model="numpy")
def tangent(state, by_state, inputs, by_inputs, params, by_params, tables, work, by_work, h):
    places, reals = tables.ints, tables.floats
    ints = view(places, HEAD, len(places))
    size = places[SIZE]
    numbers, place = view(reals, places[NUMBERS], len(reals)), places[RACK_INPUT]
    # scratch stands where the derivatives of what the core saves would, which has none
    scratch = view(by_work, LANES * (_OUTPUTS + ints[2 * Part.SAVED]), len(by_work))
    n = len(state)
    begun, middle, end = view(scratch, 0, n), view(scratch, n, 2 * n), view(scratch, 2 * n, 3 * n)
    saved_inputs, used = view(scratch, 3 * n, 3 * n + _INPUTS), view(scratch, 3 * n + _INPUTS, 3 * n + 2 * _INPUTS)
    results = view(scratch, 3 * n + 2 * _INPUTS, 3 * n + 2 * _INPUTS + _OUTPUTS)
    own = view(work, _OUTPUTS, len(work))
    copy(begun, state)
    copy(saved_inputs, inputs)
    dynamics.make_step(state, inputs, params, tables, work, middle, h)
    copy(end, state)
    copy(used, inputs)
    copy(results, work)
    by_angle = params[P.steering_mode] < 0.5 and params[P.column_stiffness] == 0.0 and params[P.step_halving] < 0.5
    if not by_angle or work[W.capped] == 2.0:
        nothing_known(by_state, by_work)
        return
    parts = int(work[W.parts])
    if parts == 1 and part(ints, own, Part.DIAGNOSTIC)[ATTEMPTS] == 3.0:
        parts = 2  # which the core made of it

    # the same with derivatives
    copy(state, begun)
    copy(inputs, saved_inputs)
    both, both_inputs, both_params = (
        with_derivatives(state, by_state), with_derivatives(inputs, by_inputs), with_derivatives(params, by_params),
    )  # fmt: skip
    both_work = with_derivatives(work, by_work)
    both_own, car, memory = view(both_work, _OUTPUTS, len(work)), view(both, 0, size), view(both, size, n)
    torque, at_speed = dynamics.begin_step(
        ints, car, memory, both_inputs, both_params, numbers, part(ints, both_own, Part.LIVE), h
    )
    before = dynamics.wheels_before(part(ints, car, Part.ELEMENT))
    rack, column = view(car, place, place + 3), view(memory, dynamics.STEERING, dynamics.SHIFT)
    steering.by_angle(both_inputs, both_params, numbers[slots.RACK_SIGN], column[steering.RACK], rack, h)
    x, v, a = rack[0], rack[1], rack[2]
    dt, target = h / parts, view(middle, 0, size)
    if parts > 1:
        copy(middle, begun)
    for k in range(parts):
        left = (parts - 1 - k) * dt
        rack[0], rack[1], rack[2] = x - left * (v - 0.5 * left * a), v - left * a, a
        if parts > 1:
            for i in range(3):
                middle[place + i] = state[place + i]
            advance(ints, reals, target, own, forces.hook, dt)
        follow_step(ints, reals, car, both_own, own, target, forces.inner_hook, dt)
    dynamics.remember_drive(ints, both_own, view(memory, dynamics.LAST, dynamics.STEERING))
    steering.hand_with_rack(both_params, numbers[slots.RACK_SIGN], column, rack)
    dynamics.stand(places, ints, car, both_params, part(ints, both_own, Part.LIVE), before, h)
    dynamics.end_step(
        places, ints, reals, car, memory, both_inputs, both_params, numbers, both_own, both_work, torque, at_speed, h
    )
    copy(state, end)
    copy(inputs, used)
    copy(work, results)
