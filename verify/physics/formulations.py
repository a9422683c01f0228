"""Both formulations of every shipped mechanism and of the buggy, at random states: `python -m verify formulations`.

Prints, mechanism by mechanism, the largest relative differences of accelerations, efforts of driven joints, energies,
places and forces at ports, of compiled code: 1000 states of the buggy with all its forces, 100 of every other one. An
effort is compared with the multiplier that belongs to the natural accelerations; the one that its penalty method solves
for ("as solved") has the rounding of the penalty in it. Relative is to the largest number of a kind in that state. No
state is taken where a pivot of the loops is below 0.05 of the assembled one: others should be independent there.
Ends with 1 if anything is above 1e-9 (as solved: 1e-8).

    --states N    of the buggy (others: a tenth)
    --only NAME   one mechanism
"""

import warnings
from collections.abc import Iterator
from typing import Annotated

import numpy as np

from tests.tandem.multibody.relative.both import Both
from tests.tandem.multibody.relative.buggy_states import buggy
from tests.tandem.multibody.relative.test_cross_checks import AGREE, ALL, LIMITS
from tests.tandem.multibody.relative.test_tree import mechanism
from verify.measure import Row, at_most


def formulations(*, states: int = 1000, only: Annotated[str | None, "one mechanism"] = None) -> Iterator[Row]:
    for name in [only] if only else ALL:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            one = buggy(compile=True) if name == "buggy" else Both(mechanism(name), compile=True)
            count = states if name == "buggy" else max(states // 10, 1)
            found = _worst(one, count)
        for what, size in found.items():
            yield at_most(f"{name}, {count} states: {what}", size, LIMITS.get(what, AGREE))


def _worst(one: Both, count: int) -> dict[str, float]:
    rng = np.random.default_rng(11)
    out: dict[str, float] = {}
    for _ in range(count):
        for what, size in one.differences(one.state(rng)).items():
            out[what] = max(out.get(what, 0.0), size)
    return out
