"""Random schedules in virtual time: `python -m verify.path.schedules --schedules 100000 --seed 1 --model trivial`.

Every schedule is one seed: its settings, its script, what it costs to look at the clock. The promises of
verify/path/schedule_promises.py are asserted on each. A seed that breaks one is printed with what it breaks, and runs
alone, the same way, with `--only SEED`. Exit code 1 if any was broken.
"""

import argparse
import functools
import multiprocessing
import os
import sys
import time

from verify.path.schedule import CALM, SETTINGS, Recorded, Setup, run
from verify.path.schedule_promises import broken

_CALM_IN = 8  # one schedule of so many is a calm one
_CHUNK = 50
_MOST_SHOWN = 20


@functools.cache
def _stage(number: int, model: str) -> Setup:
    return Setup(SETTINGS[number], model)


def one(seed: int, model: str) -> Recorded:
    calm = seed % _CALM_IN == 0
    return run(_stage(CALM if calm else seed % len(SETTINGS), model), seed, calm)


def _chunk(first: int, last: int, model: str) -> tuple[int, int, list[tuple[int, list[str]]]]:
    """(schedules, steps, what was broken) of the seeds from `first` to before `last`."""
    steps, found = 0, []
    for seed in range(first, last):
        recorded = one(seed, model)
        steps += len(recorded.steps)
        if wrong := broken(recorded):
            found.append((seed, wrong))
    return last - first, steps, found


def main() -> int:
    parser = argparse.ArgumentParser(description="The loop on random schedules, in virtual time.")
    parser.add_argument("--schedules", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1, help="the first; every schedule has the next")
    parser.add_argument("--model", choices=("trivial", "buggy"), default="trivial")
    parser.add_argument("--only", type=int, help="this seed alone, in this process")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    asked = parser.parse_args()
    begun = time.monotonic()
    if asked.only is not None:
        recorded = one(asked.only, asked.model)
        print(f"seed {asked.only}: {len(recorded.steps)} steps, ended {recorded.segments[-1].ended}")
        wrong = broken(recorded)
        print("\n".join(wrong) or "every promise holds")
        return 1 if wrong else 0
    last = asked.seed + asked.schedules
    _stage(0, asked.model)  # compiled before the processes start
    done = steps = 0
    failed: list[int] = []
    chunks = [(n, min(n + _CHUNK, last), asked.model) for n in range(asked.seed, last, _CHUNK)]
    with multiprocessing.get_context("spawn").Pool(asked.processes) as pool:
        for count, made, found in pool.imap_unordered(_starred, chunks):
            done, steps = done + count, steps + made
            for seed, wrong in found:
                failed.append(seed)
                if len(failed) <= _MOST_SHOWN:
                    print(f"seed {seed}: {'; '.join(wrong)}", flush=True)
    took = time.monotonic() - begun
    print(
        f"{asked.model}: {done} schedules, seeds {asked.seed} to {last - 1}, {steps} steps in {took:.1f} s,"
        f" {len(failed)} broke a promise"
    )
    if failed:
        print(f"again, alone: python -m verify.path.schedules --model {asked.model} --only {min(failed)}")
    return 1 if failed else 0


def _starred(chunk: tuple[int, int, str]) -> tuple[int, int, list[tuple[int, list[str]]]]:
    return _chunk(*chunk)


if __name__ == "__main__":
    sys.exit(main())
