"""Copies of a car on a GPU beside all cores of the CPU: `python -m benchmarks.gpu_ensembles [--copies N] [--buggy]`.

Each copy has a steering angle of its own, and a mass where that is live. Printed are steps a second of both, in one
run; registers, local memory and resident threads of the kernel; and how far the two are apart after 100 steps, for a
thousand of the copies. Figures of a GPU are those of the device that is named.
"""

import argparse
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from sim_service import gpu
from sim_service.machines import load_machine
from sim_service.machines.contract import Machine
from sim_service.many_steps import step_copies

CONFIGS = Path(__file__).resolve().parents[1] / "configs" / "vehicles"
H = 0.005
REGISTERS = 65536  # of a multiprocessor
MOST_THREADS = 2048


def prepared(file: str, copies: int) -> tuple[Machine, np.ndarray, np.ndarray, np.ndarray]:
    """A machine, and of every copy: parameters, state, inputs."""
    machine, made = load_machine(CONFIGS / file)
    state, work = np.zeros(len(machine.states)), np.zeros(machine.work_size)
    machine.initial(state, made, machine.tables, work)
    params = np.tile(made, (copies, 1))
    names = [p.name for p in machine.parameters]
    if "mass" in names:
        params[:, names.index("mass")] *= np.linspace(0.9, 1.1, copies)
    inputs = np.zeros((copies, len(machine.inputs)))
    inputs[:, 0] = np.linspace(-0.5, 0.5, copies)
    inputs[:, 3] = 0.3
    inputs[:, [k for k, q in enumerate(machine.inputs) if q.optional]] = np.nan
    return machine, params, np.tile(state, (copies, 1)), inputs


def on_cpu(machine: Machine, params: np.ndarray, states: np.ndarray, inputs: np.ndarray, steps: int) -> np.ndarray:
    """The outputs after so many steps, on all cores."""
    states, copies = states.copy(), len(states)
    outputs, diverged = np.zeros((copies, len(machine.outputs))), np.zeros(copies, np.int64)
    parts = min(os.cpu_count() or 1, copies)
    edges = np.linspace(0, copies, parts + 1).astype(int)

    def share(part: int) -> None:
        step_copies(
            machine.step, states, inputs, params, machine.tables, np.zeros(machine.work_size),
            np.zeros(inputs.shape[1]), np.zeros(states.shape[1]), H, steps, edges[part], edges[part + 1], outputs,
            diverged, machine.bound,
        )  # fmt: skip

    with ThreadPoolExecutor(parts) as pool:
        list(pool.map(share, range(parts)))
    if diverged.any():
        print(f"  {diverged.sum()} copies diverged on the CPU")
    return outputs


def compare(file: str, copies: int, steps: int, on_the_cpu: int, checked: int) -> None:
    from numba import cuda

    machine, params, states, inputs = prepared(file, copies)
    begun = time.perf_counter()
    there = gpu.Copies(machine, params, states, copies)
    moved = cuda.to_device(inputs)
    print(f"{machine.name}: {copies} copies; compiled in {time.perf_counter() - begun:.1f} s", flush=True)
    figures = there.figures()
    resident = min(REGISTERS // (figures["registers"] * gpu.THREADS) * gpu.THREADS, MOST_THREADS)
    shares = f"{resident} of {MOST_THREADS} threads resident by registers ({100 * resident / MOST_THREADS:.0f} %)"
    print(f"  {figures['registers']} registers, {figures['local_bytes']} bytes of local memory a thread; {shares}")
    there.step(moved, H, 2)
    cuda.synchronize()
    rates = []
    for _ in range(3):
        begun = time.perf_counter()
        there.step(moved, H, steps)
        cuda.synchronize()
        rates.append(copies * steps / (time.perf_counter() - begun))
    print(f"  GPU: {max(rates) / 1e6:.3g} M steps/s, best of {[f'{rate / 1e6:.3g}' for rate in rates]}", flush=True)
    part = slice(0, on_the_cpu)
    on_cpu(machine, params[part], states[part], inputs[part], 2)
    begun = time.perf_counter()
    on_cpu(machine, params[part], states[part], inputs[part], steps)
    rate = on_the_cpu * steps / (time.perf_counter() - begun)
    print(f"  CPU, {os.cpu_count()} threads: {rate / 1e6:.3g} M steps/s; ratio {max(rates) / rate:.1f}", flush=True)
    few = slice(0, copies, max(copies // checked, 1))
    again = gpu.Copies(machine, params[few], states[few], len(params[few]))
    again.step(cuda.to_device(np.ascontiguousarray(inputs[few])), H, 100)
    found = again.outputs.copy_to_host()
    expected = on_cpu(machine, *(np.ascontiguousarray(each[few]) for each in (params, states, inputs)), 100)
    print(f"  {len(found)} copies after 100 steps, {again.diverged.copy_to_host().sum()} diverged; apart by at most:")
    apart = np.abs(found - expected).max(axis=0)
    for unit in sorted({q.unit for q in machine.outputs}):
        places = [k for k, q in enumerate(machine.outputs) if q.unit == unit]
        size = np.abs(expected[:, places]).max()
        print(f"    {apart[places].max():.1e} of {size:.1e} {unit}", flush=True)


def from_torch(copies: int, steps: int) -> None:
    """Stepped from PyTorch: its tensors are the arrays of the copies, nothing is copied."""
    import torch
    from numba import cuda

    machine, params, states, inputs = prepared("buggy_single_track.toml", copies)
    there = gpu.Copies(machine, params, states, copies)
    moved, outputs = torch.as_tensor(inputs, device="cuda"), torch.as_tensor(there.outputs, device="cuda")
    same = outputs.data_ptr() == there.outputs.__cuda_array_interface__["data"][0]
    speed = [q.name for q in machine.outputs].index("vx")
    there.step(cuda.as_cuda_array(moved), H)
    torch.cuda.synchronize()
    begun = time.perf_counter()
    for _ in range(steps):
        moved[:, 3] = torch.clamp(0.1 * (10.0 - outputs[:, speed]), 0.0, 1.0)  # a controller on the GPU
        there.step(cuda.as_cuda_array(moved), H)
    torch.cuda.synchronize()
    rate = copies * steps / (time.perf_counter() - begun)
    print(f"{copies} cars stepped from PyTorch {torch.__version__}, one step a call: {rate / 1e6:.3g} M steps/s")
    print(f"  its tensor of outputs is the array of the copies: {same}; speeds after {steps} steps"
          f" {outputs[:, speed].min():.2f} to {outputs[:, speed].max():.2f} m/s")  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--copies", type=int, default=102_400, help="on the GPU (default %(default)s)")
    parser.add_argument("--torch", action="store_true", help="also 1024 cars stepped from PyTorch")
    parser.add_argument("--buggy", action="store_true", help="the multibody car too: compiles for minutes")
    options = parser.parse_args()
    if why := gpu.available():
        print(why)
        return 2
    from numba import cuda

    print(cuda.get_current_device().name)
    compare("buggy_single_track.toml", 10 * options.copies, 1000, 100_000, 1000)
    if options.torch:
        from_torch(1024, 2000)
    if options.buggy:
        compare("buggy.toml", options.copies, 20, 1600, 1000)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
