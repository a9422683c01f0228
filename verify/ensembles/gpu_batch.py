"""Cars on a GPU stepped from PyTorch without a copy: `python -m verify gpu-batch [--machine single_track]`.

Needs a GPU and PyTorch. Checked: tensors made of inputs and outputs are the batch's own memory on the device, before
and after steps; what PyTorch writes into them moves the cars; the first 64 of them are where the CPU's batch has them
after the same inputs (1e-9 m, every output that is a length). Reported: the output that is furthest off for its size,
and how many steps the CPU had to make. Prints one line; exit code 1 if one of it is not so.
"""

import time
from collections.abc import Iterator
from typing import Annotated

import numpy as np

import tandem
from tandem.ensembles.gpu import device
from verify.measure import NotHere, Row, at_most, figure, holds

_BESIDE = 64  # copies that the CPU makes too


def gpu_batch(
    *,
    machine: str = "single_track",
    copies: int = 1024,
    steps: int = 200,
    actions: Annotated[tuple[str, ...], "two inputs, by name"] = ("throttle", "steering_angle"),
) -> Iterator[Row]:
    import torch

    if why := device.available():
        raise NotHere(why)
    first, second = actions
    cars = tandem.batch(machine, copies, gpu=True)
    beside = tandem.batch(machine, min(copies, _BESIDE))
    inputs, outputs = torch.from_dlpack(cars.inputs), torch.from_dlpack(cars.outputs)
    places = inputs.data_ptr(), outputs.data_ptr()
    on_device = inputs.is_cuda and outputs.is_cuda
    generator = torch.Generator(device=inputs.device).manual_seed(1)
    a, b = cars.input_index[first], cars.input_index[second]
    rows = np.zeros((steps, 2, len(beside)))
    whole, seconds = 0.0, 0.0
    for k in range(steps):
        sampled = torch.rand((2, copies), dtype=torch.float64, device=inputs.device, generator=generator)
        inputs[:, a] = 0.2 + 0.6 * sampled[0]
        inputs[:, b] = 0.2 * (sampled[1] - 0.5)
        rows[k] = inputs[: len(beside), [a, b]].T.cpu().numpy()
        torch.cuda.synchronize()
        begun = time.perf_counter()
        cars.step()
        torch.cuda.synchronize()
        seconds += time.perf_counter() - begun
        whole += float(outputs.abs().sum())
    for k in range(steps):
        beside.step({first: rows[k, 0], second: rows[k, 1]})
    shared = torch.from_dlpack(cars.inputs).data_ptr() == places[0] and outputs.data_ptr() == places[1]
    off = np.abs(outputs[: len(beside)].cpu().numpy() - beside.outputs).max(axis=0)
    described = beside.machine.outputs
    share = off / np.maximum(np.abs(beside.outputs).max(axis=0), 1e-6)
    worst = int(np.argmax(share))
    where = f"{torch.cuda.get_device_name()} from PyTorch {torch.__version__}"
    yield figure(f"{copies} copies of {machine}, {steps} steps on {where}, one a call", copies * steps / seconds, "1/s")
    yield holds("tensors are the batch's memory on the device", on_device and shared)
    same = np.array_equal(outputs.cpu().numpy(), cars.outputs.numpy(), equal_nan=True)
    yield holds("what is new is seen through them", same)
    length = max(float(off[k]) for k, q in enumerate(described) if q.unit == "m")
    yield at_most(f"{len(beside)} beside the CPU's, lengths off by", length, 1e-9, "m")
    yield figure(f"{described[worst].name} off by, of its largest", share[worst])
    yield holds("everything is finite", np.isfinite(whole))
    yield figure("steps made by the CPU", cars.by_cpu)
    yield figure("copies that diverged", int(cars.diverged.sum()))
