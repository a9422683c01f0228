"""The grand action with the digest's numbers wherever it has one: for comparison with the phase model, which is made of
them (docs/piano_multibody.md). Tables and parameters of the machine; its code is the same.

    regulation    button, edge of the knuckle, string, height of the lever; no drop screw, back-check or damper
    springs       k3, k4, k6 in place of leather and felt, linear; k5 and its preload
    dampers       b5 of the lever, b7 of the hammer's pivot; b4 at the force of a hammer that is lifted

What the digest has no number for is as it was. Two of its numbers have no place: b8, a viscous damper along the
knuckle, where here is dry friction; and the knuckle's edge is the end of a segment with a radius, which has to be more
than the 2.7 mm by which k4 gives way, so that it is let go over a way and not at an instant.
"""

from sim_service.contract.machine import Tables, tables
from tandem.machines.piano import geometry
from tandem.machines.piano.multibody.action import CONTACTS, HAMMER, KNUCKLE, LEVER, contacts, joints, tree
from tandem.multibody.contact.felt import (
    DAMPING,
    END,
    FELT_INTS,
    FELT_REALS,
    JOINT_REALS,
    RADIUS,
    START,
    STIFFNESS,
    TWICE,
    VISCOUS,
)

_LINEAR = 2  # twice the exponent
_HARD = 5e4  # N/m: in the digest key and whippen are a slider without felt
_RADIUS = 0.003  # m, of the knuckle
_LIFTED = 1e-3  # m, by which k4 gives way as a hammer is lifted: where b4 of the digest and felt's damping agree
_NUMBERS = {name: value for name, _, value, *_ in geometry.PARAMETERS}

REGULATION = {
    "let_off_button": geometry.BUTTON,
    "knuckle_edge": _NUMBERS["knuckle_edge"],
    "knuckle_friction": 0.2,
    "string_angle": 0.0,
    "drop_screw": 0.2,
    "back_check": 0.05,
    "damper": 0.0,
    "repetition_height": geometry.LEVER_OFFSET,
    "repetition_spring": _NUMBERS["spring_preload"],
    "repetition_stiffness": _NUMBERS["lever_spring"],
}


def digest_tables() -> Tables:
    link_ints, link_reals = tree()
    ints, reals = contacts()
    pivots = joints()
    k4 = _NUMBERS["jack_contact"]
    for name, stiffness, damping in (
        ("head", k4, _NUMBERS["jack_damping"] / (k4 * _LIFTED)),
        ("lever_felt", _NUMBERS["lever_contact"], 0.0),
        ("lever_stop", _NUMBERS["lever_bed"], 0.0),
        ("capstan", _HARD, 1.0),
    ):
        k = CONTACTS.index(name)
        ints[FELT_INTS * k + TWICE] = _LINEAR
        reals[FELT_REALS * k + STIFFNESS], reals[FELT_REALS * k + DAMPING] = stiffness, damping
    # its jack sinks into the knuckle by more than a side would let it
    reals[FELT_REALS * CONTACTS.index("knuckle_side") + RADIUS] = 0.0
    head = FELT_REALS * CONTACTS.index("head")
    reals[head + RADIUS] = _RADIUS
    reals[head + START + 1] = reals[head + END + 1] = _RADIUS - KNUCKLE
    pivots[JOINT_REALS * HAMMER + VISCOUS] = _NUMBERS["hammer_damping"]
    pivots[JOINT_REALS * LEVER + VISCOUS] = _NUMBERS["lever_damping"]
    return tables([*link_ints, *ints], [*link_reals, *reals, *pivots])
