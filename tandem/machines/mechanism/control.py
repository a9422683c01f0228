"""Computed torque: the drives of a mechanism's file become motors, and the same file gives what they take.

The mechanism that is stepped has a force or torque on the scalar of each drive. A second one, whose drives follow what
is given, is its inverse dynamics: at every step it is where the first one is, with the accelerations

    a = a_wanted + 2 d w (v_wanted - v) + w^2 (q_wanted - q)        w: control_rate, d: control_damping

so that errors decay with w and d whatever the load; its efforts are held until the next step. `feedforward` is the
share of that: the rest is the same feedback with the masses of the start alone, which knows nothing of gravity, of the
motion, and of what one drive does to another.

Wanted is what inputs of the drive's name say (`motor1`, `motor1_rate`, `motor1_accel`), or else its law in the file;
`motor1_load` is added to its effort, from outside. Efforts are outputs that may go back to a device.
"""

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from sim_service.composite import Own, around, own_scratch_at
from sim_service.contract.machine import Machine, Parameter, Quantity, Tables, index
from sync.compile.parts import joined, lay_out, places_in, span
from sync.errors import ConfigError
from tandem.machines.mechanism import control_step
from tandem.machines.mechanism.control_step import A
from tandem.multibody.description.mechanism_file import describe
from tandem.multibody.natural.laws import follow_law
from tandem.multibody.natural.tables import EXTERNAL, POLYNOMIAL
from tandem.multibody.relative.machine_step import rates_of_change

PARAMETERS = (
    Parameter("control_rate", "rad/s", 40.0, 0.0, 1000.0, "with which errors decay"),
    Parameter("control_damping", "1", 1.0, 0.0, 5.0, "of errors: 1 without overshoot"),
    Parameter("feedforward", "1", 1.0, 0.0, 1.0, "share of inverse dynamics; 0: feedback alone"),
)
Drives = dict[str, tuple[str, int, tuple[float, ...]]]  # by name: the scalar, kind and numbers of the law


def motors(content: dict[str, Any], path: str) -> tuple[dict[str, Any], dict[str, Any], Drives]:
    """A file's contents with motors in the place of drives; with drives from outside; and the drives."""
    mechanism = describe(content, path).mechanism  # what is wrong is reported of the file as it is
    plant, inverse, drives = copy.deepcopy(content), copy.deepcopy(content), {}
    start: dict[str, dict[str, float]] = {"position": {}, "velocity": {}}
    for name, joint in content.get("joints", {}).items():
        if joint["kind"] != "drive":
            continue
        signal, scalar, load = mechanism.inputs[joint.get("input", name)], joint["scalar"], f"{name}_load"
        law = tuple(np.append(signal.law, np.zeros(4 - len(signal.law))).tolist())
        drives[name] = (scalar, POLYNOMIAL if signal.kind == EXTERNAL else signal.kind, law)
        first = np.zeros(3)
        follow_law.py_func(*drives[name][1:2], *law, 0.0, first)
        start["position"][scalar], start["velocity"][scalar] = first[:2].tolist()
        inverse.setdefault("inputs", {})[name] = {"value": float(first[0])}
        inverse["joints"][name] = {"kind": "drive", "scalar": scalar, "input": name}
        if load in content.get("inputs", {}) or load in content.get("forces", {}):
            raise ConfigError(f"{path}: {load}: is what the motor of joints.{name} is called; choose another name")
        del plant["joints"][name]
        plant.setdefault("inputs", {})[load] = {"value": 0.0}
        plant.setdefault("forces", {})[load] = {"kind": "force", "point": scalar, "vector": 1.0, "scale": load}
    if not drives:
        raise ConfigError(f"{path}: joints: computed torque needs drives, and there are none")
    return {**plant, "start": start}, inverse, drives


def under_control(plant: Machine, inverse: Machine, drives: Drives) -> Machine:
    names = list(drives)
    unit = {name: plant.outputs[index(plant.outputs, drives[name][0])].unit for name in names}
    outputs = (
        *(Quantity(f"{n}_effort", "N m" if unit[n] == "rad" else "N", "of the motor") for n in names),
        *(Quantity(f"{n}_error", unit[n], "wanted less where it is, as the step begins") for n in names),
    )
    inputs = tuple(
        Quantity(name + end, unit[name] + per, "wanted; as the file has it if not given", optional=True)
        for name in names
        for end, per in (("", ""), ("_rate", "/s"), ("_accel", "/s2"))
    )
    of = [
        (
            index(plant.outputs, drives[name][0]), index(plant.inputs, f"{name}_load"), index(inverse.inputs, name),
            index(inverse.outputs, f"{name}_effort"), drives[name][1],
        )
        for name in names
    ]  # fmt: skip
    time, begun, inner = index(plant.states, "kept_time"), np.zeros(len(inverse.states)), np.zeros(inverse.work_size)
    inverse.initial(begun, np.zeros(0), inverse.tables, inner)
    ints: dict[int, Any] = {
        A.SIZES: [time, len(inverse.outputs)], A.OF: np.ravel(of), A.INTS: inverse.tables.ints,
    }  # fmt: skip
    reals: dict[int, Any] = {
        A.LAWS: np.ravel([law for _, _, law in drives.values()]), A.MASSES: _masses(inverse, begun, of),
        A.REALS: inverse.tables.floats,
    }  # fmt: skip
    states, work_at = len(plant.states), own_scratch_at(plant, len(outputs))
    spans, (*_, work_end) = lay_out(
        len(A), (2 * len(A), ints), (0, reals), (states, {A.STATE: len(begun)}),
        (work_at, {A.LAW: 3, A.WANTED: 3 * len(names), A.FED_BACK: len(names), A.MOTION: len(inverse.inputs),
                   A.PULL: len(plant.inputs), A.WORK: inverse.work_size, A.RATES: plant.work_size}),
    )  # fmt: skip
    addresses = places_in(spans, A.REALS)

    def begin(state: np.ndarray, params: np.ndarray, tables: Tables, work: np.ndarray) -> None:
        inverse.initial(state[span(spans, A.STATE)], params, inverse.tables, inner)  # it holds the code, too

    return around(plant, Own(
        "mechanism",
        control_step.step,
        inputs=inputs,
        states=tuple(Quantity(f"control_{q.name}", q.unit, "of the inverse dynamics") for q in inverse.states),
        outputs=outputs,
        parameters=PARAMETERS,
        ints=np.concatenate([spans, joined(ints, np.int64)]),
        floats=joined(reals, float),
        addresses=tuple(addresses[k] for k in inverse.placed.addresses),
        scratch=work_end - work_at,
        layout=f"computed torque {len(A)}",
        begin=begin,
        efforts=tuple(q.name for q in outputs[: len(names)]),
    ))  # fmt: skip


def _masses(inverse: Machine, state: np.ndarray, of: Sequence[tuple[int, ...]]) -> np.ndarray:
    """What each drive takes for an acceleration of 1 at the start, more than to stand still."""
    work, found = np.zeros(inverse.work_size), []
    for _, _, first, effort, _ in of:
        pair = []
        for acceleration in (1.0, 0.0):
            inputs = np.full(len(inverse.inputs), np.nan)
            inputs[first + 2] = acceleration
            rates_of_change(state.copy(), inputs, np.zeros(0), inverse.tables, work, 0.0)
            pair.append(work[effort])
        found.append(pair[0] - pair[1])
    return np.array(found)
