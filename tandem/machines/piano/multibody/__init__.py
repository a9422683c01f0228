"""The grand action of seed 000: six bodies on pivots with felt and dry friction between them (docs/piano_multibody.md).

The key follows its measured motion; what the finger must apply, and what the whippen does to the key's pilot, come out.
Nothing here knows of phases: they come from what touches what. Bodies and contacts are in `action`, the mechanics in
tandem/multibody/contact.
"""

import numpy as np

from sim_service.contract.machine import Efforts, Machine, Shown, Tables, tables
from tandem.machines.piano import port
from tandem.machines.piano.multibody.action import REST, contacts, joints, tree
from tandem.machines.piano.multibody.description import INPUTS, OUTPUTS, PARAMETERS, STATES
from tandem.machines.piano.multibody.drawing import pose, scene
from tandem.machines.piano.multibody.dynamics import WORK_SIZE, step

_LINK_INTS, _LINK_REALS = tree()
_FELT_INTS, _FELT_REALS = contacts()
TABLES = tables([*_LINK_INTS, *_FELT_INTS], [*_LINK_REALS, *_FELT_REALS, *joints()])


def initial(state: np.ndarray, params: np.ndarray, tables: Tables, work: np.ndarray) -> None:
    """At rest as drawn; felt settles within some tenths of a second."""
    state[:] = 0.0
    work[:] = 0.0
    state[: len(REST)] = REST


def frames(state: np.ndarray, params: np.ndarray, out: np.ndarray) -> None:
    pose(state[: len(REST)], params, out)


MACHINE = Machine(
    name="piano_multibody",
    inputs=INPUTS,
    states=STATES,
    outputs=OUTPUTS,
    parameters=PARAMETERS,
    step=step,
    initial=initial,
    tables=TABLES,
    work_size=WORK_SIZE,
    capabilities=(
        Shown(display=port.DISPLAY, scene=scene(), frames=frames),
        Efforts(("tip_force", "pilot_force")),
    ),
)
