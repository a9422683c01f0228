"""Chains of growing length, CPU against GPU: `python -m benchmarks.gpu_recursion [--copies N]`.

Planar chains of equal links by the articulated-body recursion (sim_service/multibody/relative/chain.py), steps of the
explicit Runge-Kutta method of order 4. Printed are, for every length, microseconds a step of one chain on one core and
on the GPU, and steps a second of many chains on all cores and on the GPU, in one run; and how far the angles are apart
after 100 steps. One chain is a chain of dependencies: a GPU has nothing to do in parallel there.
"""

import argparse
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numba import float64, int32, int64, types

from sim_service import gpu
from sim_service.multibody.relative.chain import planar_rates
from sync.array_types import CONSTANTS, INDICES, MATRIX, VECTOR
from sync.jit import kernel
from tandem.studies.bench.trees import LINKS, chain

H = 1e-3
MOST = max(LINKS)
SIZE = 2 * MOST
WORK = chain(MOST, False).work.size
THREADS = 64
_ON_GPU = (
    types.Array(float64, 2, "C"), types.Array(int32, 1, "C"), types.Array(float64, 1, "C"), float64, int64,
)  # fmt: skip


@kernel(types.void(INDICES, CONSTANTS, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, float64, int64))
def rk4(ints, reals, work, y, f, total, at, h, steps):
    """So many steps of y; the other vectors are room to work in."""
    n = 2 * ints[0]
    for _ in range(steps):
        planar_rates(ints, reals, work, 0.0, y, f)
        for i in range(n):
            total[i] = f[i]
            at[i] = y[i] + 0.5 * h * f[i]
        planar_rates(ints, reals, work, 0.0, at, f)
        for i in range(n):
            total[i] += 2.0 * f[i]
            at[i] = y[i] + 0.5 * h * f[i]
        planar_rates(ints, reals, work, 0.0, at, f)
        for i in range(n):
            total[i] += 2.0 * f[i]
            at[i] = y[i] + h * f[i]
        planar_rates(ints, reals, work, 0.0, at, f)
        for i in range(n):
            y[i] += h / 6.0 * (total[i] + f[i])


@kernel(types.void(INDICES, CONSTANTS, VECTOR, MATRIX, VECTOR, VECTOR, VECTOR, float64, int64, int64, int64))
def rk4_of_many(ints, reals, work, ys, f, total, at, h, steps, first, last):
    for n in range(first, last):
        rk4(ints, reals, work, ys[n], f, total, at, h, steps)


def on_gpu() -> Any:
    """The kernel: a thread a chain."""
    cuda = gpu.cuda_module()

    def chains(ys, ints, reals, h, steps):
        n = cuda.grid(1)
        if n >= ys.shape[0]:
            return
        y, f = cuda.local.array(SIZE, float64), cuda.local.array(SIZE, float64)
        total, at = cuda.local.array(SIZE, float64), cuda.local.array(SIZE, float64)
        work = cuda.local.array(WORK, float64)
        for i in range(2 * ints[0]):
            y[i] = ys[n, i]
        rk4(ints, reals, work, y, f, total, at, h, steps)
        for i in range(2 * ints[0]):
            ys[n, i] = y[i]

    with gpu.accepting_kernels(None):
        return cuda.jit(types.void(*_ON_GPU), opt=True)(chains)


def beginnings(links: int, copies: int) -> np.ndarray:
    y = np.zeros((copies, 2 * links))
    y[:, :links] = 0.1 * np.random.default_rng(1).normal(size=(copies, links))
    return y


def on_cpu(links: int, ys: np.ndarray, steps: int, threads: int) -> None:
    of = chain(links, False)
    edges = np.linspace(0, len(ys), threads + 1).astype(int)

    def share(part: int) -> None:
        room = [np.zeros(2 * links) for _ in range(3)]
        work = np.zeros_like(of.work)
        rk4_of_many(of.ints, of.reals, work, ys, *room, H, steps, edges[part], edges[part + 1])

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(share, range(threads)))


def seconds(work: Callable[[], None], times: int = 3) -> float:
    work()
    found = []
    for _ in range(times):
        begun = time.perf_counter()
        work()
        found.append(time.perf_counter() - begun)
    return min(found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--copies", type=int, default=102_400, help="on the GPU (default %(default)s)")
    copies = parser.parse_args().copies
    if why := gpu.available():
        print(why)
        return 2
    cuda = gpu.cuda_module()
    begun, many = time.perf_counter(), on_gpu()
    size = f"{many.get_regs_per_thread()} registers, {many.get_local_mem_per_thread()} bytes of local memory a thread"
    print(f"{cuda.get_current_device().name}; compiled in {time.perf_counter() - begun:.1f} s; {size}")
    cores = os.cpu_count() or 1
    heads = ("one, CPU", "one, GPU", f"{copies // 20} on {cores} threads", f"{copies} on the GPU", "ratio", "apart")
    print("links " + "  ".join(f"{head:>18s}" for head in heads))
    for links in LINKS:
        of = chain(links, False)
        ints, reals = cuda.to_device(np.array(of.ints)), cuda.to_device(np.array(of.reals))

        def launch(ys: Any, steps: int, ints: Any = ints, reals: Any = reals) -> None:
            many[-(-ys.shape[0] // THREADS), THREADS](ys, ints, reals, H, steps)
            cuda.synchronize()

        few = beginnings(links, 256)
        there, here = cuda.to_device(few), few.copy()
        launch(there, 100)
        on_cpu(links, here, 100, cores)
        apart = np.abs(there.copy_to_host() - here)[:, :links].max()
        one, all_of_them = few[:1].copy(), beginnings(links, copies // 20)
        one_there, all_there = cuda.to_device(one), cuda.to_device(beginnings(links, copies))
        us = [
            1e4 * seconds(lambda links=links, one=one: on_cpu(links, one, 100, 1)),  # type: ignore[misc]
            1e4 * seconds(lambda launch=launch, it=one_there: launch(it, 100)),  # type: ignore[misc]
        ]
        rates = [
            10 * len(all_of_them) / seconds(lambda links=links, it=all_of_them: on_cpu(links, it, 10, cores)),  # type: ignore[misc]
            10 * copies / seconds(lambda launch=launch, it=all_there: launch(it, 10)),  # type: ignore[misc]
        ]
        cells = (f"{us[0]:.2f} us", f"{us[1]:.0f} us", *(f"{rate / 1e6:.3g} M steps/s" for rate in rates))
        cells += (f"{rates[1] / rates[0]:.1f}", f"{apart:.0e} rad")
        print(f"{links:5d} " + "  ".join(f"{cell:>18s}" for cell in cells), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
