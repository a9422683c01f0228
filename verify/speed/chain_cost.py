"""What an evaluation of a chain costs by its number of links: `python -m verify.speed.chain_cost [--rounds 200]`.

Printed is the least time over rounds of bursts, of the planar and the spatial recursion, with the exponent p of
the fit time = c N^p; the recursions are O(N), so p is about 1.
"""

import argparse

from tandem.mechanism.bench.trees import growth


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    for kind in growth(rounds=parser.parse_args().rounds):
        print(kind["kind"])
        for links, cost in zip(kind["links"], kind["us"], strict=True):
            print(f"  {links:4d} links {cost:9.3f} us, {1e3 * cost / links:7.1f} ns a link")
        print(f"  exponent {kind['exponent']:.3f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
