"""Cars on a GPU stepped from PyTorch without a copy: `python -m verify.ensembles.gpu_batch [--machine single_track]`.

Needs a GPU and PyTorch. Checked: tensors made of inputs and outputs are the batch's own memory on the device, before
and after steps; what PyTorch writes into them moves the cars; the first 64 of them are where the CPU's batch has them
after the same inputs (1e-9 m, every output that is a length). Told: the output that is furthest off for its size, and
how many steps the CPU had to make. Prints one line; exit code 1 if one of it is not so.
"""

import argparse
import sys
import time

import numpy as np

import tandem
from tandem.ensembles.gpu import device

_BESIDE = 64  # copies that the CPU makes too


def _say(why: str) -> int:
    print(f"not checked: {why}", file=sys.stderr)
    return 2


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--machine", default="single_track")
    parser.add_argument("--copies", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--actions", default="throttle,steering_angle", help="two inputs, by name")
    asked = parser.parse_args()
    try:
        import torch
    except ModuleNotFoundError:
        return _say("PyTorch is not installed")
    if why := device.available():
        return _say(why)
    first, second = asked.actions.split(",")
    cars = tandem.batch(asked.machine, asked.copies, gpu=True)
    beside = tandem.batch(asked.machine, min(asked.copies, _BESIDE))
    inputs, outputs = torch.from_dlpack(cars.inputs), torch.from_dlpack(cars.outputs)
    places = inputs.data_ptr(), outputs.data_ptr()
    on_device = inputs.is_cuda and outputs.is_cuda
    generator = torch.Generator(device=inputs.device).manual_seed(1)
    a, b = cars.input_index[first], cars.input_index[second]
    given = np.zeros((asked.steps, 2, len(beside)))
    whole, seconds = 0.0, 0.0
    for k in range(asked.steps):
        drawn = torch.rand((2, asked.copies), dtype=torch.float64, device=inputs.device, generator=generator)
        inputs[:, a] = 0.2 + 0.6 * drawn[0]
        inputs[:, b] = 0.2 * (drawn[1] - 0.5)
        given[k] = inputs[: len(beside), [a, b]].T.cpu().numpy()
        torch.cuda.synchronize()
        begun = time.perf_counter()
        cars.step()
        torch.cuda.synchronize()
        seconds += time.perf_counter() - begun
        whole += float(outputs.abs().sum())
    for k in range(asked.steps):
        beside.step({first: given[k, 0], second: given[k, 1]})
    shared = torch.from_dlpack(cars.inputs).data_ptr() == places[0] and outputs.data_ptr() == places[1]
    seen = np.array_equal(outputs.cpu().numpy(), cars.outputs.numpy(), equal_nan=True)
    off = np.abs(outputs[: len(beside)].cpu().numpy() - beside.outputs).max(axis=0)
    described = beside.machine.outputs
    length = max(float(off[k]) for k, q in enumerate(described) if q.unit == "m")
    share = off / np.maximum(np.abs(beside.outputs).max(axis=0), 1e-6)
    worst = int(np.argmax(share))
    print(
        f"{asked.machine}: {asked.copies} copies, {asked.steps} steps on {torch.cuda.get_device_name()} from PyTorch"
        f" {torch.__version__}: {asked.copies * asked.steps / seconds:.3g} steps/s, one a call; the batch's memory:"
        f" {on_device and shared}, seen through it: {seen}; {len(beside)} beside the CPU's: {length:.1e} m;"
        f" {described[worst].name} off by {share[worst]:.1e} of its largest; steps made by the CPU: {cars.by_cpu};"
        f" diverged: {int(cars.diverged.sum())}"
    )
    return int(not (on_device and shared and seen and length <= 1e-9 and np.isfinite(whole)))


if __name__ == "__main__":
    sys.exit(main())
