"""Rates and Jacobian where a step of I3AL began, left as a Rosenbrock step leaves its own: see relative_dynamics.py.

Such a step has no factors of 2/h - J. The law of the forces at an instant is that of the hook also where a patch slides
(its deflection is then at its limit and stays there) and at low speed, so that J of the step's beginning is a tangent
there too. It is none while a wheel is in the air or held by its brake, while the body touches the road, or where the
rack does not follow the hand wheel's angle: those steps have none.
"""

from math import isfinite

from sync.compile.array_copy import copy
from sync.compile.jit import inner
from tandem.machines.car.buggy import brakes, slots
from tandem.machines.car.buggy import relative_dynamics as relative
from tandem.machines.car.buggy.description import WHEEL, P, V
from tandem.machines.car.buggy.steering import RACK, by_angle
from tandem.multibody.natural.tables import P as Part
from tandem.multibody.natural.views import part, view
from tandem.multibody.relative import ode
from tandem.multibody.relative.integrators import prepare
from tandem.multibody.relative.system import P as Own

COMPILED_ON_REQUEST = True  # see sync/compile/build.py

_PER_WHEEL = len(WHEEL)


@inner
def rolls(params, left, live):
    """Whether every wheel stands on the road and its brake does not hold it, and nothing else touches the road."""
    if params[P.steering_mode] >= 0.5 or params[P.column_stiffness] > 0.0 or left[slots.BODY_LOAD] > 0.0:
        return False
    p = view(params, relative.BRAKES, relative.BRAKES + relative.BRAKE_SIZE)
    for w in range(4):
        if not left[slots.LEFT + _PER_WHEEL * w + V.load] > 0.0:
            return False
        speed = abs(left[slots.BRAKES + relative.BRAKE_STATES * w + relative.WHEEL_SPEED])
        if p[relative.DAMPING] * speed < 1.5 * brakes.friction_limit(p, w < 2, live[slots.PRESSURE + w]):
            return False
    return True


@inner
def jacobian_at_start(before, inputs, params, tables, work, h):
    """Of `before`, the state a step of I3AL began with, which is overwritten; whether there is one."""
    head, reals = tables.ints, tables.floats
    ints, places = view(head, relative.FRONT, len(head)), view(head, head[relative.NATURAL_AT], len(head))
    of_natural = view(places, relative.NATURAL_HEAD, len(places))
    natural, tree = view(before, 0, head[relative.STATE_AT]), view(before, head[relative.STATE_AT], len(before))
    size = places[relative.NATURAL_SIZE]
    car, memory = view(natural, 0, size), view(natural, size, len(natural))
    tree_work = view(work, head[relative.WORK_AT], head[relative.SCRATCH_AT])
    scratch = view(work, head[relative.SCRATCH_AT], len(work) - len(before))
    layout = view(head, head[relative.LAYOUT_AT], head[relative.NATURAL_AT])
    left, live = part(of_natural, car, Part.ELEMENT), part(ints, tree_work, relative.C.LIVE)
    if not rolls(params, left, live):
        return False
    place, sign = places[relative.RACK_AT], part(ints, reals, relative.C.NUMBERS)[slots.RACK_SIGN]
    rack = view(car, place, place + 3)
    by_angle(inputs, params, sign, view(memory, relative.STEERING_AT, len(memory))[RACK], rack, h)
    copy(part(ints, tree, Own.INPUT), rack)
    t = part(ints, tree, Own.TIME)[0]
    relative.begin_step(ints, tree, tree_work, left, memory, t, h)
    y, start = part(ints, tree_work, Own.Y), part(layout, scratch, ode.Part.START)
    both = relative.both_at(part(ints, reals, Own.ADDRESS)[relative.BOTH_AT])
    J, by_time = part(layout, scratch, ode.Part.JACOBIAN), part(layout, scratch, ode.Part.BY_TIME)
    both(ints, reals, tree_work, t, y, start, J, by_time)
    total = 0.0
    for i in range(len(J)):
        total += abs(J[i])
    for i in range(len(start)):
        total += abs(start[i])
    if not isfinite(total):
        return False
    prepare(layout, scratch, 2.0 / h)
    return True
