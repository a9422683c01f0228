"""Random schedules in virtual time.

Every schedule is one seed: its settings, its script, what it costs to look at the clock. The promises of
verify/path/schedule_promises.py are asserted on each. A seed that breaks one is a row with what it breaks, and runs
alone, the same way, with `--only SEED`.
"""

import functools
import multiprocessing
import os
from collections.abc import Iterator
from typing import Annotated, Literal

from verify.measure import Row, equal, figure, holds
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


def schedules(
    *,
    schedules: int = 1000,
    seed: Annotated[int, "the first; every schedule has the next"] = 1,
    model: Literal["trivial", "buggy"] = "trivial",
    only: Annotated[int | None, "this seed alone, in this process"] = None,
    processes: int = os.cpu_count() or 1,
) -> Iterator[Row]:
    if only is not None:
        recorded = one(only, model)
        wrong = broken(recorded)
        yield holds(f"seed {only}: every promise, of {len(recorded.steps)} steps", not wrong, "; ".join(wrong))
        return
    last = seed + schedules
    _stage(0, model)  # compiled before the processes start
    done = steps = failed = 0
    chunks = [(n, min(n + _CHUNK, last), model) for n in range(seed, last, _CHUNK)]
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for count, stepped, found in pool.imap_unordered(_starred, chunks):
            done, steps = done + count, steps + stepped
            for number, wrong in found:
                failed += 1
                if failed <= _MOST_SHOWN:
                    yield holds(f"seed {number}: every promise", False, "; ".join(wrong))
    yield figure("steps", steps)
    yield equal(f"schedules that broke a promise, of {done} from seed {seed} on, {model}", failed, 0)


def _starred(chunk: tuple[int, int, str]) -> tuple[int, int, list[tuple[int, list[str]]]]:
    return _chunk(*chunk)
