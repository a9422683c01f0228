"""The step of a mechanism under computed torque: look, compute what the motors take, step with that."""

from math import isnan, nan

from sim_service.composite import OWN_INTS, Head, inside, pass_outputs
from sim_service.contract.machine import STEP, Tables
from sync.compile.jit import kernel
from sync.compile.parts import places
from tandem.multibody.natural.laws import follow_law
from tandem.multibody.natural.views import part, view
from tandem.multibody.relative.machine_step import rates_of_change
from tandem.multibody.relative.machine_step import step as plain_step

COMPILED_ON_REQUEST = True  # see sync/compile/build.py

# parts that the composite (sim_service/composite.py) has of its own
A = places("A", (
    # integers
    "SIZES",  # place of the time in the state; how many outputs the inverse dynamics has
    "OF",  # of each drive: its scalar in the outputs, its load in the inputs, input and effort of the inverse, its law
    "INTS",  # tables of the inverse dynamics
    # numbers
    "LAWS", "MASSES", "REALS",
    # state: of the inverse dynamics
    "STATE",
    # work
    "LAW", "WANTED", "FED_BACK",
    "MOTION",  # inputs of the inverse dynamics
    "PULL",  # inputs of the mechanism
    "WORK", "RATES",
))  # fmt: skip
OF_DRIVE = 5
RATE, DAMPING, FEEDFORWARD = range(3)  # own parameters


@kernel(STEP, error_model="numpy")
def step(state, inputs, params, tables, work, h):
    own_state, own_params, own, plant_work = inside(state, params, tables, work)
    head = tables.ints
    ints, reals = view(head, OWN_INTS, len(head)), tables.floats
    sizes, of, laws, masses = (
        part(ints, ints, A.SIZES), part(ints, ints, A.OF), part(ints, reals, A.LAWS), part(ints, reals, A.MASSES),
    )  # fmt: skip
    memory, motion, pull = part(ints, state, A.STATE), part(ints, work, A.MOTION), part(ints, work, A.PULL)
    law, wanted, back = part(ints, work, A.LAW), part(ints, work, A.WANTED), part(ints, work, A.FED_BACK)
    computed, rates = part(ints, work, A.WORK), part(ints, work, A.RATES)
    chosen = view(params, head[Head.PARAMETERS], len(params))
    inverse = Tables(part(ints, ints, A.INTS), part(ints, reals, A.REALS))
    n, first, outputs, t = len(masses), head[Head.INPUTS], head[Head.OUTPUTS], own_state[sizes[0]]

    for i in range(len(pull)):
        pull[i] = inputs[i]
    rates_of_change(own_state, pull, own_params, own, rates, t)
    for i in range(first):
        inputs[i] = pull[i]  # what is not given is as the file has it
    for i in range(len(motion)):
        motion[i] = nan
    for i in range(n):
        drive = view(of, OF_DRIVE * i, OF_DRIVE * (i + 1))
        follow_law(drive[4], laws[4 * i], laws[4 * i + 1], laws[4 * i + 2], laws[4 * i + 3], t, law)
        by_law = isnan(inputs[first + 3 * i])
        for k in range(3):
            if by_law:
                inputs[first + 3 * i + k] = law[k]
            elif isnan(inputs[first + 3 * i + k]):
                inputs[first + 3 * i + k] = 0.0
            wanted[3 * i + k] = inputs[first + 3 * i + k]
        q, v = rates[drive[0]], rates[drive[0] + 1]
        error = wanted[3 * i] - q
        back[i] = chosen[RATE] * (chosen[RATE] * error + 2.0 * chosen[DAMPING] * (wanted[3 * i + 1] - v))
        work[outputs + n + i] = error
        motion[drive[2]], motion[drive[2] + 1], motion[drive[2] + 2] = q, v, wanted[3 * i + 2] + back[i]
    rates_of_change(memory, motion, own_params, inverse, computed, t)
    share, found = chosen[FEEDFORWARD], True
    for i in range(n):
        drive = view(of, OF_DRIVE * i, OF_DRIVE * (i + 1))
        found = found and not isnan(computed[drive[3]])
        effort = (1.0 - share) * masses[i] * back[i]
        if share > 0.0:
            effort += share * computed[drive[3]]
        work[outputs + i] = effort
        pull[drive[1]] += effort
    if found:  # loops are closed from where they were
        for i in range(len(memory)):
            memory[i] = computed[sizes[1] + i]
    plain_step(own_state, pull, own_params, own, plant_work, h)
    pass_outputs(tables, plant_work, work)
