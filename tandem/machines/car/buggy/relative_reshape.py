"""The state of the buggy in relative coordinates after its tables became those of another shape: the natural state as
in reshape.py, and the tree follows it."""

from sim_service.contract.machine import FIT, Tables
from sync.compile.jit import kernel
from tandem.machines.car.buggy.description import OUTPUTS
from tandem.machines.car.buggy.relative_dynamics import (
    FLOATS,
    FRONT,
    NATURAL_AT,
    NATURAL_HEAD,
    NATURAL_SIZE,
    SCRATCH_AT,
    STATE_AT,
    WORK_AT,
    follow,
)
from tandem.machines.car.buggy.reshape import fit_car
from tandem.multibody.natural.closing import evaluate_ports
from tandem.multibody.natural.views import view

COMPILED_ON_REQUEST = True  # by relative_build.py alone: see sync/compile/build.py
_OUTPUTS = len(OUTPUTS)


@kernel(FIT, error_model="numpy")
def fit(state, moved, params, tables, work):
    head, reals = tables.ints, tables.floats
    ints, places = view(head, FRONT, len(head)), view(head, head[NATURAL_AT], len(head))
    of_natural, of_car = view(places, NATURAL_HEAD, len(places)), Tables(places, view(reals, 0, head[FLOATS]))
    natural, tree = view(state, 0, head[STATE_AT]), view(state, head[STATE_AT], len(state))
    of_step, tree_work = view(work, 0, head[WORK_AT]), view(work, head[WORK_AT], head[SCRATCH_AT])
    fit_car(natural, moved, of_car, of_step)
    car, own = view(natural, 0, places[NATURAL_SIZE]), view(of_step, _OUTPUTS, len(of_step))
    evaluate_ports(of_natural, of_car.floats, car, own)
    follow(of_natural, ints, reals, places, car, tree, tree_work, own)
