"""What an evaluation of a chain costs by its number of links: `python -m benchmarks.chain_cost [--rounds 200]`.

Printed is the least time over rounds of bursts, of the planar and the spatial recursion, with the exponent p of
the fit time = c N^p; the recursions are O(N), so p is about 1.
"""

import argparse
import time

import numpy as np

from sim_service.multibody.relative.chain import Chain, evaluate_often

LINKS = (10, 25, 50, 100, 150, 200, 250)
BURST = 3000  # links evaluated in one burst


def chain(links: int, spatial: bool) -> Chain:
    if not spatial:
        return Chain(
            links, 1.0, np.array([0.5, 0.0]), np.array(1.0 / 12.0), np.array([1.0, 0.0]), np.array([0.0, -9.81])
        )
    axes = np.eye(3)[np.arange(links) % 3]
    inertia = np.diag([0.01, 0.09, 0.09])
    gravity = np.array([0.0, 0.0, -9.81])
    return Chain(links, 1.0, np.array([0.5, 0.0, 0.0]), inertia, np.array([1.0, 0.0, 0.0]), gravity, axes)


def cost_us(of: Chain, rounds: int) -> float:
    rng = np.random.default_rng(1)
    y, f = rng.normal(size=2 * of.links), np.zeros(2 * of.links)
    count = max(BURST // of.links, 4)
    # a call from Python costs more than an evaluation: of the least times of short and long bursts, the difference
    least = [np.inf, np.inf]
    for _ in range(rounds):
        for k, times in enumerate((count, 3 * count)):
            begun = time.perf_counter_ns()
            evaluate_often(of.rates, of.ints, of.reals, of.work, y, f, times)
            least[k] = min(least[k], time.perf_counter_ns() - begun)
    return (least[1] - least[0]) / (2e3 * count)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    rounds = parser.parse_args().rounds
    for spatial in (False, True):
        print("spatial" if spatial else "planar")
        costs = [cost_us(chain(links, spatial), rounds) for links in LINKS]
        for links, cost in zip(LINKS, costs, strict=True):
            print(f"  {links:4d} links {cost:9.3f} us, {1e3 * cost / links:7.1f} ns a link")
        print(f"  exponent {np.polyfit(np.log(LINKS), np.log(costs), 1)[0]:.3f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
