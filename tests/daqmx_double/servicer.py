"""NI's calls, as far as an acquisition of this kind needs them, answered by the device."""

from collections.abc import Callable
from typing import Any

import grpc
from nidaqmx._stubs import nidaqmx_pb2 as pb
from nidaqmx._stubs import nidaqmx_pb2_grpc as pb_grpc
from session_pb2 import Session

from tests.daqmx_double.device import TIMEOUT, DaqFault, Device, Provoked, Task

RESERVE = 4
GROUP_BY_CHANNEL = 0  # the other fill mode is by scan number
NUM_CHANS = 0x217B
TEXTS = {-200_284: "Some or all of the samples requested have not yet been acquired."}


class Servicer(pb_grpc.NiDAQmxServicer):
    def __init__(self, device: Device):
        self.device = device


def _fail(context: grpc.ServicerContext, fault: DaqFault) -> None:
    told = [("ni-error", str(fault.code))]
    if fault.samples is not None:
        told.append(("ni-samps-per-chan-read", str(fault.samples)))
    context.set_trailing_metadata(tuple(told))
    context.abort(grpc.StatusCode.UNKNOWN, str(fault))


def _serve(name: str, answer: Callable[[Device, Any, Task | None, Provoked | None], Any]) -> None:
    def method(self: Servicer, request: Any, context: grpc.ServicerContext) -> Any:
        device = self.device
        try:
            named = hasattr(request, "task")
            task = device.task(request.task.name) if named else None
            provoked = device.called(name, task)
            if provoked is not None and not name.startswith("Read"):
                if name == "StopTask" and task is not None:
                    device.stop(task)  # as on hardware: stopped, but not without a word
                raise DaqFault(provoked.code)
            return answer(device, request, task, provoked)
        except DaqFault as fault:
            return _fail(context, fault)

    setattr(Servicer, name, method)


def _answers(name: str) -> Any:
    """Registers the function as the answer to the call of that name."""

    def register(function: Any) -> Any:
        _serve(name, function)
        return function

    return register


def _reads(name: str, kind: str, reply: Any) -> None:
    @_answers(name)
    def read(device: Device, request: Any, task: Task, provoked: Provoked | None) -> Any:
        if task.kind != kind:
            raise device.refuse(f"{name} of {task.channel}")
        size = request.array_size_in_samps
        if size < request.num_samps_per_chan * len(task.channels):
            raise DaqFault(-200_229, "Buffer is too small to fit read data.")
        if provoked is None:
            status, rows = device.read(task, request.num_samps_per_chan, request.timeout)
        elif provoked.samples is None:
            if provoked.code != TIMEOUT:
                task.broken = provoked.code  # as on hardware, until it is stopped
            raise DaqFault(provoked.code)
        else:
            _, rows = device.read(task, request.num_samps_per_chan, request.timeout, only=provoked.samples)
            status = provoked.code
            if provoked.how == "metadata":
                raise DaqFault(status, TEXTS.get(status, ""), samples=len(rows[0]))
        # channel after channel or scan after scan, without gaps however few there are; the rest of the array as it was
        # made: so NI's driver and server do it (ni/nidaqmx-python, issue 528)
        order = rows if request.fill_mode_raw == GROUP_BY_CHANNEL else zip(*rows, strict=True)
        values = [value if kind == "ai" else int(value) for some in order for value in some]
        values += [0] * (size - len(values))
        return reply(status=status, read_array=values, samps_per_chan_read=len(rows[0]))


_reads("ReadAnalogF64", "ai", pb.ReadAnalogF64Response)
_reads("ReadCounterU32Ex", "ci", pb.ReadCounterU32ExResponse)


@_answers("CreateTask")
def _(device: Device, request: Any, task: None, provoked: None) -> Any:
    name = device.create(request.session_name)
    return pb.CreateTaskResponse(task=Session(name=name), new_session_initialized=True)


@_answers("ClearTask")
def _(device: Device, request: Any, task: Task, provoked: None) -> Any:
    device.clear(task)
    return pb.ClearTaskResponse()


@_answers("StartTask")
def _(device: Device, request: Any, task: Task, provoked: None) -> Any:
    device.start(task)
    return pb.StartTaskResponse()


@_answers("StopTask")
def _(device: Device, request: Any, task: Task, provoked: None) -> Any:
    device.alive(task)
    device.stop(task)
    return pb.StopTaskResponse()


@_answers("TaskControl")
def _(device: Device, request: Any, task: Task, provoked: None) -> Any:
    if request.action_raw == RESERVE:
        device.reserve(task)
    return pb.TaskControlResponse()


@_answers("CreateAIVoltageChan")
def _(device: Device, request: Any, task: Task, provoked: None) -> Any:
    device.add_channel(task, "ai", request.physical_channel, range=(request.min_val, request.max_val))
    return pb.CreateAIVoltageChanResponse()


@_answers("CreateAOVoltageChan")
def _(device: Device, request: Any, task: Task, provoked: None) -> Any:
    device.add_channel(task, "ao", request.physical_channel, range=(request.min_val, request.max_val))
    return pb.CreateAOVoltageChanResponse()


@_answers("CreateCIAngEncoderChan")
def _(device: Device, request: Any, task: Task, provoked: None) -> Any:
    device.add_channel(
        task,
        "ci",
        request.counter,
        units=request.units_raw,
        pulses_per_rev=request.pulses_per_rev,
        decoding=request.decoding_type_raw,
    )
    return pb.CreateCIAngEncoderChanResponse()


@_answers("SetChanAttributeString")
def _(device: Device, request: Any, task: Task, provoked: None) -> Any:
    task.settings[f"attribute_{request.attribute_raw:#x}"] = request.value
    return pb.SetChanAttributeStringResponse()


@_answers("CfgSampClkTiming")
def _(device: Device, request: Any, task: Task, provoked: None) -> Any:
    device.alive(task)
    task.timing = {"rate": request.rate, "source": request.source, "mode": request.sample_mode_raw}
    return pb.CfgSampClkTimingResponse()


@_answers("SetBufferAttributeUInt32")
def _(device: Device, request: Any, task: Task, provoked: None) -> Any:
    task.buffer = request.value
    return pb.SetBufferAttributeUInt32Response()


@_answers("SetReadAttributeInt32")
def _(device: Device, request: Any, task: Task, provoked: None) -> Any:
    raise device.refuse(f"read attribute {request.attribute_raw:#x}: every task would be read at an instant of its own")


@_answers("GetReadAttributeUInt32")
def _(device: Device, request: Any, task: Task, provoked: None) -> Any:
    value = len(task.channels) if request.attribute_raw == NUM_CHANS else device.available(task)
    return pb.GetReadAttributeUInt32Response(value=value)


@_answers("GetReadAttributeUInt64")
def _(device: Device, request: Any, task: Task, provoked: None) -> Any:
    return pb.GetReadAttributeUInt64Response(value=device.acquired(task))


@_answers("WriteAnalogScalarF64")
def _(device: Device, request: Any, task: Task, provoked: None) -> Any:
    device.write(task, request.value)
    return pb.WriteAnalogScalarF64Response()


@_answers("GetTaskAttributeString")
def _(device: Device, request: Any, task: Task, provoked: None) -> Any:
    return pb.GetTaskAttributeStringResponse(value=task.name)


@_answers("GetErrorString")
def _(device: Device, request: Any, task: None, provoked: None) -> Any:
    return pb.GetErrorStringResponse(error_string=TEXTS.get(request.error_code, f"NI's text of {request.error_code}"))


@_answers("GetSystemInfoAttributeUInt32")
def _(device: Device, request: Any, task: None, provoked: None) -> Any:
    return pb.GetSystemInfoAttributeUInt32Response(value={0x1272: 24, 0x1923: 8}.get(request.attribute_raw, 0))


@_answers("GetSystemInfoAttributeString")
def _(device: Device, request: Any, task: None, provoked: None) -> Any:
    return pb.GetSystemInfoAttributeStringResponse(value=device.set.name if device.present else "")


def _attribute(call: str, reply: Any, key: str, values: dict[int, Callable[[Device], Any]]) -> None:
    @_answers(call)
    def answer(device: Device, request: Any, task: None, provoked: None) -> Any:
        asked = getattr(request, "device_name", "") or request.physical_channel.split("/")[0]
        device.known(asked)
        if request.attribute_raw not in values:
            raise DaqFault(-200_197, f"attribute {request.attribute_raw:#x} is not one the double has")
        return reply(**{key: values[request.attribute_raw](device)})


_attribute(
    "GetDeviceAttributeString",
    pb.GetDeviceAttributeStringResponse,
    "value",
    {
        0x631: lambda d: d.set.product,
        0x231E: lambda d: ", ".join(d.channels("ai")),
        0x231F: lambda d: ", ".join(d.channels("ao")),
        0x2324: lambda d: ", ".join(d.channels("ci")),
    },
)
_attribute(
    "GetDeviceAttributeDouble",
    pb.GetDeviceAttributeDoubleResponse,
    "value",
    {0x298C: lambda d: d.set.ai_max_rate, 0x298D: lambda d: d.set.ai_max_together},
)
_attribute(
    "GetDeviceAttributeDoubleArray",
    pb.GetDeviceAttributeDoubleArrayResponse,
    "value",
    {0x2990: lambda d: list(d.set.ai_ranges), 0x299B: lambda d: list(d.set.ao_ranges)},
)
_attribute(
    "GetDeviceAttributeUInt32",
    pb.GetDeviceAttributeUInt32Response,
    "value",
    {0x299F: lambda d: d.set.counter_bits, 0x632: lambda d: 0x1234},
)
_attribute(
    "GetDeviceAttributeBool",
    pb.GetDeviceAttributeBoolResponse,
    "value",
    {0x299E: lambda d: d.set.counter_clock, 0x22CA: lambda d: True, 0x298F: lambda d: d.set.simultaneous},
)
_attribute(
    "GetDeviceAttributeInt32Array",
    pb.GetDeviceAttributeInt32ArrayResponse,
    "value_raw",
    {0x2FD4: lambda d: list(d.set.counter_types)},
)
