"""Chains of 10 to 250 rods in natural coordinates on a GPU, and on the CPU beside it: one chain, and many copies.

    python benchmarks/gpu_chains.py prepare chains.npz    here: tables and start states
    python benchmarks/gpu_chains.py ptx chains.npz        compile for compute capability 9.0, without a GPU
    python benchmarks/gpu_chains.py cpu chains.npz        the CPU alone
    python benchmarks/gpu_chains.py run chains.npz        with a GPU, and the extra gpu

Steps of 2 ms, float64, I3AL, from 32 attitudes. The first launch is not counted. Agreement is that of 1000 copies after
100 steps with the same source on the CPU. A line of JSON a figure.
"""

import argparse
import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
CHAINS = (10, 20, 50, 100, 250)
H = 2e-3
STARTS = 32  # different ones, repeated
MEMORY = 30e9  # bytes of vectors at most, here and there
CHECKED, CHECKED_STEPS = 1000, 100
THREADS = 64  # a block


def prepare(file: Path) -> None:
    from tandem.studies.bench.problems import chain

    kept: dict[str, Any] = {}
    for count in CHAINS:
        system = chain(count, 2.0 / count, 2.0 / count, 1.0, H).build().compile(h=H)
        states = []
        for angle in np.linspace(0.0, 1.0, STARTS):
            state = system.state()
            x, y = system.q0.reshape(-1, 2).T
            c, s = np.cos(angle), np.sin(angle)
            state.q[:] = np.column_stack([c * x + s * y, c * y - s * x]).ravel()
            state.evaluate()
            states.append(state.vector.copy())
        kept |= {f"{count}.ints": system.ints, f"{count}.reals": system.reals, f"{count}.work": system.work()}
        kept[f"{count}.states"] = np.array(states)
    np.savez_compressed(file, **kept)
    print(f"{file}: {file.stat().st_size} bytes")


class Chain:
    def __init__(self, count: int, data: Any):
        self.count = count
        keys = ("ints", "reals", "work", "states")
        self.ints, self.reals, self.work, self.starts = (data[f"{count}.{key}"] for key in keys)

    def states(self, copies: int) -> np.ndarray:
        return np.ascontiguousarray(self.starts[np.arange(copies) % STARTS])

    def on_cpu(self, copies: int, steps: int, threads: int) -> tuple[np.ndarray, float]:
        """The states after so many steps, and seconds."""
        from sim_service.multibody.natural.augmented import step
        from sim_service.multibody.natural.run import TOTALS, run_steps
        from sim_service.multibody.natural.system import no_force

        states, none = self.states(copies), np.zeros((0, 0))

        def share(ends: tuple[int, int]) -> None:
            for n in range(*ends):
                run_steps(
                    step, self.ints, self.reals, states[n], self.work.copy(), no_force, H, steps, steps + 1, none, none,
                    np.zeros(TOTALS),
                )  # fmt: skip

        with ThreadPoolExecutor(threads) as pool:
            begun = time.perf_counter()
            list(pool.map(share, pairwise(np.linspace(0, copies, threads + 1).astype(int).tolist())))
            return states, time.perf_counter() - begun


class OnGpu:
    def __init__(self, chain: Chain, kernel: Any, copies: int):
        from numba import cuda

        from sim_service import gpu

        self._cuda, self._kernel, self.copies = cuda, kernel, copies
        self.states = cuda.to_device(gpu.tiled(chain.states(copies)))
        work = cuda.to_device(gpu.tiled(np.tile(chain.work, (copies, 1))))
        self._arrays = (cuda.to_device(chain.ints), cuda.to_device(chain.reals), self.states, work)

    def run(self, steps: int) -> float:
        """Seconds of a launch."""
        self._cuda.synchronize()
        begun = time.perf_counter()
        self._kernel[-(-self.copies // THREADS), THREADS](*self._arrays, H, steps, self.copies)
        self._cuda.synchronize()
        return time.perf_counter() - begun

    def result(self) -> np.ndarray:
        from sim_service import gpu

        return gpu.untiled(self.states.copy_to_host(), self.copies)


def measure(chain: Chain, kernel: Any, wanted: int, seconds: float, threads: int) -> dict[str, Any]:
    alone = OnGpu(chain, kernel, 1)
    alone.run(2)
    one = alone.run(200) / 200
    _, one_cpu = chain.on_cpu(1, 200, 1)
    checked = OnGpu(chain, kernel, CHECKED)
    checked.run(CHECKED_STEPS)
    expected, _ = chain.on_cpu(CHECKED, CHECKED_STEPS, threads)
    apart = np.abs(checked.result() - expected)
    copies = int(min(wanted, MEMORY // (8 * (len(chain.work) + chain.starts.shape[1])))) // 32 * 32
    many = OnGpu(chain, kernel, copies)
    many.run(1)
    steps = int(np.clip(seconds / max(many.run(1), 1e-6), 2, 20_000))
    rate = copies * steps / many.run(steps)
    few = 4 * threads
    _, took = chain.on_cpu(few, 20, threads)
    cpu_steps = max(20, int(20 * seconds / max(took, 1e-6)))
    _, took = chain.on_cpu(few, cpu_steps, threads)
    cpu_rate = few * cpu_steps / took
    return {
        "rods": chain.count, "one_chain_gpu_us": round(1e6 * one, 1), "one_chain_cpu_us": round(1e6 * one_cpu / 200, 1),
        "copies": copies, "gpu_steps_per_s": round(rate), "cpu_threads": threads, "cpu_steps_per_s": round(cpu_rate),
        "ratio": round(rate / cpu_rate, 1), "largest_difference": float(apart.max()),
        "registers": kernel.get_regs_per_thread(), "local_bytes": kernel.get_local_mem_per_thread(),
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("prepare", "ptx", "cpu", "run"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--copies", type=int, default=102_400)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement, about")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    asked = parser.parse_args()
    if asked.what == "prepare":
        prepare(asked.file)
        return 0
    from sim_service import gpu
    from sim_service.multibody.natural.augmented import step
    from sim_service.multibody.natural.system import no_force

    if asked.what == "ptx":
        begun = time.perf_counter()
        text = gpu.mechanism_ptx(step, no_force)
        print(json.dumps({"ptx_bytes": len(text), "seconds": round(time.perf_counter() - begun, 1)}))
        return 0
    if asked.what == "run" and (why := gpu.available()):
        print(why)
        return 2
    kernel = gpu.mechanism_kernel(step, no_force) if asked.what == "run" else None
    with np.load(asked.file) as data:
        for count in CHAINS:
            chain = Chain(count, data)
            if kernel is not None:
                found = measure(chain, kernel, asked.copies, asked.seconds, asked.threads)
            else:
                states, took = chain.on_cpu(64, 100, asked.threads)
                found = {
                    "rods": count, "cpu_steps_per_s": round(6400 / took), "finite": bool(np.isfinite(states).all())
                }  # fmt: skip
            print(json.dumps(found), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
