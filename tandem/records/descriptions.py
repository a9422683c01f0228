"""What the channels of a record mean: for schemas, exported tables, and for users who open a run with another tool.

Names of status bits and commands come from the tables that the loops themselves use; the meaning of a machine's
quantities comes from its description, which a record has among its parameters (earlier records have none: these stay
without text).
"""

import json

from daq_service import effort_record
from sim_service import command_record, step_record
from sim_service.look_ahead import record as look_ahead_record
from sync.record.ros2msg import Describe, Description
from sync.ring.block import AGE, Layout
from sync.ring.streams import AXIS_EFFORTS, COMMAND, EFFORT, LOOK_AHEAD, RECORDED, SIM

_STEP = {
    "step": "number of the step, from 0 at every start of the simulator",
    "status": "bits, see the constants",
    "input_seq": "the block it used: its number",
    "input_epoch": "the block it used: its epoch",
    "input_t_ns": "the block it used: sampled",
    "input_pushed_ns": "the block it used: put into its ring",
    "input_sent_ns": "the block it used: put on the wire; 0: never",
    "input_received_ns": "the block it used: taken off the wire; 0: never",
    "started_ns": "the step began",
    "taken_ns": "the step took its block; it was done at pushed_ns",
    "input_age_ns": "age of the block when it was used",
    "input_stages": "what its age made of each row of [inputs], two bits a row",
    "age_bound_ns": "error bound of that age, from the clock of the other host",
    "phase_error_ns": "of the step's instant against the blocks it is locked to",
    "commands": "obeyed before this step: all before this position of the ring of commands",
    "command_epoch": "epoch of the ring of commands",
    "time": "of the model, from its start",
}
_EFFORT = {
    "step": "the step it comes from",
    "step_seq": "that step's number in its ring",
    "step_epoch": "that step's epoch",
    "sampled_ns": "that step's sample instant by the DAQ's clock; 0: not known any more",
    "step_pushed_ns": "that step was done, by the simulator's clock",
    "step_received_ns": "that step was taken off the wire; 0: never",
    "step_ns": "from the block it took to its result; 0: not known",
    "taken_ns": "taken by the effort loop",
    "wanted": "gain times the step's output, in the device's unit",
    "given": "handed over to the device, in its unit",
    "displacement": "of the port, as in the step",
    "energy": "put in at the port minus given out; below zero the port was active",
    "status": "bits, see the constants",
}
_COMMAND = {
    "kind": "what is commanded, see the constants",
    "index": "of the parameter, for kinds 1 and 7",
    "value": "of the parameter; steps until the pause; how many times slower",
}
_KINDS = {
    "PARAMETER": (command_record.PARAMETER, "parameter `index` is to be `value`"),
    "RESET": (command_record.RESET, "the model as it started"),
    "PAUSE": (command_record.PAUSE, "pause after `value` steps"),
    "RESUME": (command_record.RESUME, "go on"),
    "SLOW": (command_record.SLOW, "`value` times slower than real time"),
    "SHAPE": (command_record.SHAPE, "the machine's tables again, from its parameters as they are then"),
    "SHAPED": (command_record.SHAPED, "parameter `index` is to be `value` with the next SHAPE"),
}


def _bits(status: dict[int, str]) -> dict[str, tuple[int, str]]:
    """The bits, named after their texts: NEW_EPOCH for "new epoch"."""
    return {text.upper().replace(" ", "_"): (bit, text) for bit, text in status.items()}


def describe(parameters: bytes | None) -> Describe:
    """The descriptions for a run whose `parameters.json` is given."""
    texts = _texts(parameters)

    def described(topic: str, layout: Layout) -> Description:
        about = next((f"{stream.holds} ({stream.rate})" for stream in RECORDED if stream.topic == topic), "")
        if topic == SIM.topic:
            return Description(about, {**texts, **_STEP}, {"status": _bits(step_record.STATUS)})
        if topic in [stream.topic for stream in (EFFORT, *AXIS_EFFORTS)]:
            return Description(about, _EFFORT, {"status": _bits(effort_record.STATUS)})
        if topic == LOOK_AHEAD.topic:
            kinds = {name.upper(): (kind, f"the {name} future") for kind, name in enumerate(look_ahead_record.KINDS)}
            constants = {"status": _bits(look_ahead_record.STATUS), "kind": kinds}
            return Description(about, look_ahead_record.TEXTS, constants)
        if topic == COMMAND.topic:
            return Description(about, _COMMAND, {"kind": _KINDS})
        ages = {name: f"age of {name.removesuffix(AGE)} at t_ns" for name in layout.names if name.endswith(AGE)}
        return Description(about, ages)

    return described


def _texts(parameters: bytes | None) -> dict[str, str]:
    try:
        found = json.loads(parameters or b"{}").get("quantities", {})
        return {str(name): text for name, text in found.items() if isinstance(text, str)}
    except (ValueError, AttributeError, RecursionError):
        return {}
