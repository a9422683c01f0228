"""The state of the buggy after its tables became those of another shape: other masses, hardpoints, camber.

Every point and vector of the mechanism moves with the chassis by as much as it was drawn elsewhere, which is right to
first order; then positions, velocities and accelerations are brought onto the constraints (natural/closing.py). The
chassis stays where it is: what changes its point (its centre of gravity) moves that point alone.
"""

from sim_service.contract.machine import FIT
from sync.compile.array_copy import copy
from sync.compile.jit import inner, kernel
from tandem.machines.car.buggy.description import OUTPUTS
from tandem.machines.car.buggy.slots import ENERGY, HEAD, SIZE, UNKNOWN
from tandem.multibody.finite import finite
from tandem.multibody.natural.closing import close
from tandem.multibody.natural.tables import P as Part
from tandem.multibody.natural.views import part, view

_OUTPUTS, _AXES, _MOVED = len(OUTPUTS), 3, 4  # the chassis is first: its point, its axes


@inner
def fit_car(state, moved, tables, work):
    places = tables.ints
    ints, own = view(places, HEAD, len(places)), view(work, _OUTPUTS, len(work))
    car, previous = view(state, 0, places[SIZE]), view(work, len(work) - len(state), len(work))
    copy(previous, state)
    for which in (Part.Q, Part.QD):
        x = part(ints, car, which)
        for k in range(0, len(moved), _MOVED):
            at = int(moved[k])
            for i in range(3):
                change = 0.0
                for j in range(3):
                    change += moved[k + 1 + j] * x[_AXES + 3 * j + i]
                x[at + i] += change
    part(ints, car, Part.ELEMENT)[ENERGY] = UNKNOWN  # that of the other shape
    close(ints, tables.floats, car, own)
    if not finite(state):  # no such position: the steps find the nearest, and say that they are capped
        copy(state, previous)


@kernel(FIT, error_model="numpy")
def fit(state, moved, params, tables, work):
    fit_car(state, moved, tables, work)
