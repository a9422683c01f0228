"""The step of the multibody car with an obstacle on its road, and its port model where `port` asks for it.

The port model says what the felt torque does until the next step (docs/steering_feel.md): the car's step is made
once more from where it is, with the hand wheel going on at its acceleration, once half as long, and three times with
angle, speed or acceleration a little beside that. The state of the car stays as it is.
"""

from sim_service.composite import Head, inside
from sim_service.contract.machine import STEP, index
from sync.compile.array_copy import copy
from sync.compile.jit import kernel
from tandem.machines.car.buggy import slots
from tandem.machines.car.buggy.description import INPUTS, OUTPUTS
from tandem.machines.car.buggy.dynamics import LAST, LINE_BAR
from tandem.machines.car.buggy.dynamics import step as step_car
from tandem.machines.car.swerve.description import BESIDE, P, W
from tandem.machines.car.swerve.obstacle import follow_car
from tandem.machines.car.swerve.pedals import feel_pedals
from tandem.multibody.natural.views import view

_ANGLE = index(INPUTS, "steering_angle")
_TORQUE = index(OUTPUTS, "steering_torque")
_PRESSURE = LAST + slots.PRESSURE - slots.DRIVE  # of each wheel, in the car's memory


@kernel(STEP, error_model="numpy")
def step(state, inputs, params, tables, work, h):
    ints = tables.ints
    n, p = ints[Head.STATES], ints[Head.PARAMETERS]
    car, values, of_car, own = inside(state, params, tables, work)
    step_car(car, inputs, values, of_car, own, h)
    follow_car(state, params, tables, own, work, h)

    out = view(work, ints[Head.OUTPUTS], ints[Head.WORK_AT])
    memory, held_back = view(state, of_car.ints[slots.SIZE], n), 0.0
    for w in range(4):
        held_back += 0.25 * max(memory[LINE_BAR] - memory[_PRESSURE + w], 0.0)
    feel_pedals(view(state, n, len(state)), held_back, inputs, view(params, p, len(params)), out)
    feel = min(params[p + P.feel], params[p + P.feel_limit])
    out[W.felt_torque] = out[W.port_ahead] = out[W.port_middle] = feel * own[_TORQUE]
    for k in range(3):
        out[W.port_stiffness + k] = 0.0
    tries = 5 if params[p + P.port] > 0.5 else 0
    spare = ints[Head.WORK_AT] + ints[Head.WORK]
    other, moved = view(work, spare, spare + n), view(work, spare + n, spare + n + len(inputs))
    speed, acceleration = inputs[_ANGLE + 1], inputs[_ANGLE + 2]
    for k in range(tries):
        copy(other, car)
        copy(moved, inputs)
        dt = 0.5 * h if k == 1 else h
        moved[_ANGLE] += dt * (speed + 0.5 * dt * acceleration)
        moved[_ANGLE + 1] += dt * acceleration
        if k > 1:
            moved[_ANGLE + k - 2] += BESIDE[k - 2]
        step_car(other, moved, values, of_car, own, dt)
        torque = feel * own[_TORQUE]
        out[W.port_ahead + k] = torque if k < 2 else (torque - out[W.port_ahead]) / BESIDE[k - 2]
