"""Joint states and diagnostics of a machine, as messages of ROS 2 in CDR."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sim_service import step_record
from sim_service.contract.scene import Scene
from tandem.records.foxglove.cdr import Cdr
from tandem.view.motion import channel

JOINTS, DIAGNOSTICS = "sensor_msgs/msg/JointState", "diagnostic_msgs/msg/DiagnosticArray"
OK, WARN, ERROR, STALE = range(4)
_WRONG = step_record.DIVERGED
_DOUBTFUL = step_record.MISSED | step_record.SKIPPED | step_record.CAPPED | step_record.CLIPPED
_NAMES = {bit: text for bit, text in step_record.STATUS.items() if bit not in (step_record.LOCKED,)}


@dataclass(frozen=True)
class Joint:
    name: str
    position: str = ""  # channels; "": not known
    velocity: str = ""
    factor: float = 1.0


def joints(scene: Scene) -> list[Joint]:
    """What turns in a scene: levers by their angle, wheels by how they are steered and how fast they turn."""
    found = [Joint(lever.name, lever.channel, "", lever.factor) for lever in scene.levers]
    found += [Joint(f"{wheel.name}_steer", wheel.steer) for wheel in scene.wheels if wheel.steer]
    found += [Joint(f"{wheel.name}_spin", "", wheel.rate) for wheel in scene.wheels if wheel.rate]
    numbers: dict[str, int] = {}
    distinct = []
    for joint in found:
        numbers[joint.name] = number = numbers.get(joint.name, 0) + 1
        name = joint.name if number == 1 else f"{joint.name}_{number}"
        distinct.append(Joint(name, joint.position, joint.velocity, joint.factor))
    return distinct


def joint_state(at_ns: int, each: Sequence[Joint], step: Any) -> bytes:
    """`at_ns`: UTC. What is not known of a joint is NaN."""
    out = _headed(at_ns, "")
    out.numbers("I", len(each))
    for joint in each:
        out.text(joint.name)
    for names in ([j.position for j in each], [j.velocity for j in each]):
        values = [
            joint.factor * channel(step, name) if name else math.nan for joint, name in zip(each, names, strict=True)
        ]
        out.array(np.array(values))
    return out.array(np.zeros(0)).message()


@dataclass(frozen=True)
class Status:
    level: int
    name: str
    message: str
    values: Sequence[tuple[str, str]] = ()


def of_steps(name: str, status: int, values: Sequence[tuple[str, str]]) -> Status:
    """`status`: the bits of all steps since the last report."""
    level = ERROR if status & _WRONG else STALE if status & step_record.STALE else WARN if status & _DOUBTFUL else OK
    message = ", ".join(text for bit, text in _NAMES.items() if status & bit)
    return Status(level, name, message or "as it should be", values)


def diagnostics(at_ns: int, each: Sequence[Status]) -> bytes:
    out = _headed(at_ns, "")
    out.numbers("I", len(each))
    for status in each:
        out.numbers("B", status.level).text(status.name).text(status.message).text("tandem")
        out.numbers("I", len(status.values))
        for key, value in status.values:
            out.text(key).text(value)
    return out.message()


def _headed(at_ns: int, frame: str) -> Cdr:
    return Cdr().numbers("i", at_ns // 10**9).numbers("I", at_ns % 10**9).text(frame)
