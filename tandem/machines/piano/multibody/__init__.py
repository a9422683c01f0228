"""The grand action of seed 000: six bodies on pivots with felt and dry friction between them (docs/piano_multibody.md).

The key follows its measured motion; what the finger must apply, and what the whippen does to the key's pilot, come out.
Nothing here knows of phases: they come from what touches what. Bodies and contacts are in `action`, the mechanics in
tandem/multibody/contact.
"""

from math import cos, sin

import numpy as np

from sim_service.contract.machine import Efforts, Machine, Shown, Tables, tables
from sim_service.contract.scene import Bar, Camera, Point, Scene, Solid, box
from tandem.machines.piano import port
from tandem.machines.piano.multibody.action import (
    CHECK,
    CHECKED,
    DAMPER,
    HAMMER,
    HAMMER_REACH,
    HEAD,
    JACK,
    KEY,
    LEVER,
    LINKS,
    P3,
    REST,
    TIP,
    TOE,
    WHIPPEN,
    contacts,
    joints,
    poses,
    rotated,
    tree,
)
from tandem.machines.piano.multibody.description import INPUTS, OUTPUTS, PARAMETERS, STATES
from tandem.machines.piano.multibody.dynamics import ROOM, P, step

_LINK_INTS, _LINK_REALS = tree()
_FELT_INTS, _FELT_REALS = contacts()


def initial(state: np.ndarray, params: np.ndarray, tables: Tables, work: np.ndarray) -> None:
    """At rest as drawn; felt settles within some tenths of a second."""
    state[:] = 0.0
    work[:] = 0.0
    state[: len(REST)] = REST


def frames(state: np.ndarray, params: np.ndarray, out: np.ndarray) -> None:
    """The first is the world's, then the links."""
    for k, (x, z, angle) in enumerate(poses(state[: len(LINKS)])):
        c, s = cos(angle), sin(angle)
        out[k + 1, 0] = x, 0.0, z
        out[k + 1, 1:] = (c, 0.0, s), (0.0, 1.0, 0.0), (-s, 0.0, c)
    # what a regulator sets: the button and the string stand in the world, the back-check on the key
    out[BUTTON, 0, 2] = params[P.let_off_button]
    out[STRING, 0, 2] = P3[1] + HAMMER_REACH * sin(params[P.string_angle])
    out[BACK_CHECK] = out[KEY + 1]
    out[BACK_CHECK, 0] += params[P.back_check] * out[KEY + 1, 1]


def _bar(name: str, link: int, low: tuple[float, float], high: tuple[float, float]) -> Solid:
    """Corners in x and z of a part, as wide as the parts of an action are."""
    return box(name, link + 1, (low[0], -0.004, low[1]), (high[0], 0.004, high[1]))


BUTTON, STRING, BACK_CHECK = range(len(LINKS) + 1, len(LINKS) + 4)  # frames behind those of the links
_CHECK = [rotated(CHECKED, x, z) for x, z in CHECK]


def _at_check(end: int) -> Point:
    return Point(BACK_CHECK, (_CHECK[end][0], 0.0, _CHECK[end][1]))


_SOLIDS = (
    _bar("key", KEY, (-TIP - 0.01, -0.012), (0.225, 0.0)), _bar("pilot", KEY, (0.121, 0.0), (0.131, 0.0262)),
    _bar("whippen", WHIPPEN, (-0.11, 0.001), (0.004, 0.008)), _bar("jack", JACK, (-0.003, 0.0), (0.004, HEAD)),
    _bar("toe", JACK, (-TOE, -0.004), (0.0, 0.0)), _bar("lever", LEVER, (-0.056, 0.001), (0.01, 0.006)),
    _bar("shank", HAMMER, (0.0, -0.003), (HAMMER_REACH, 0.003)),
    _bar("head", HAMMER, (HAMMER_REACH - 0.008, -0.02), (HAMMER_REACH + 0.01, 0.0)),
    _bar("damper", DAMPER, (-0.14, 0.0), (0.0, 0.006)),
    box("let-off button", BUTTON, (0.02, -0.004, 0.0), (0.08, 0.004, 0.004)),
    box("string", STRING, (0.0, -0.001, 0.0), (0.35, 0.001, 0.001)),
)  # fmt: skip
_BARS = (
    Bar("back-check wire", Point(KEY + 1, (0.19, 0.0, 0.0)), _at_check(0), "rod", 0.0015),
    Bar("back-check", _at_check(0), _at_check(1), "upright", 0.004),
)

MACHINE = Machine(
    name="piano_multibody",
    inputs=INPUTS,
    states=STATES,
    outputs=OUTPUTS,
    parameters=PARAMETERS,
    step=step,
    initial=initial,
    tables=tables([*_LINK_INTS, *_FELT_INTS], [*_LINK_REALS, *_FELT_REALS, *joints()]),
    work_size=ROOM,
    capabilities=(
        Shown(
            display=port.DISPLAY,
            scene=Scene(
                frames=len(LINKS) + 4,
                solids=_SOLIDS,
                bars=_BARS,
                size=0.3,
                cameras=(Camera("side", (0.01, -0.6, 0.06), (0.01, 0.0, 0.05), "world"),),
            ),
            frames=frames,
        ),
        Efforts(("tip_force", "pilot_force")),
    ),
)
