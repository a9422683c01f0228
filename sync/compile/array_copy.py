"""Copies from array to array, for compiled code that must not allocate.

numba compiles `a[:] = b` with a temporary for the case that the two overlap, so the assignment needs its allocator;
these do not. The arrays must not overlap.
"""

import numpy as np
from numpy.typing import NDArray

from sync.compile.jit import kernel


@kernel()
def copy(into: NDArray[np.generic], of: NDArray[np.generic]) -> None:
    """As many elements as both have, from their beginnings."""
    for i in range(min(into.size, of.size)):
        into[i] = of[i]
