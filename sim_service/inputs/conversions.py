"""The conversions of rows, for compiled code. Each gives a value, its rate and its acceleration.

Most kinds have theirs beside their settings (`convert`, sync/config/input_rows.py); those here have a memory, or need
the time. Numbers of a row are read one by one: slices of arrays cost more than the arithmetic here (some 2 us a
step, on a virtual ARM core).
"""

from collections.abc import Callable
from typing import Any

from sim_service.inputs.table import OWN
from sync.compile.jit import inner, kernel
from sync.config.input_rows import ROWS
from sync.signals.estimators import estimate


@kernel()
def encoder(numbers, row, memory, t_ns, counts, h):
    value, rate, acceleration = estimate(memory[row], numbers[row, OWN + 1 :], t_ns, counts, h)
    return value - numbers[row, OWN], rate, acceleration


@kernel()
def fused(numbers, row, memory, position, velocity, h):
    """A complementary filter: predicts by the velocity, corrects by the position. Begins at the position."""
    if memory[row, 0] == 0.0:
        memory[row, 0], memory[row, 1] = 1.0, position
    else:
        foretold = memory[row, 1] + velocity * h
        memory[row, 1] = foretold + numbers[row, OWN] * (position - foretold)
    return memory[row, 1], velocity, 0.0


@inner
def _nothing(kind, numbers, row, x, xd, xdd, y):
    return 0.0, 0.0, 0.0


def _or(number: int, convert: Callable[..., Any], others: Callable[..., Any]) -> Any:
    @inner
    def found(kind, numbers, row, x, xd, xdd, y):
        if kind == number:
            return convert(numbers, row, OWN, x, xd, xdd, y)
        return others(kind, numbers, row, x, xd, xdd, y)

    return found


def _by_kind() -> Any:
    """A chain of comparisons: the functions of a table would be called, and not inlined."""
    chain = _nothing
    for number, row in reversed(list(enumerate(ROWS))):
        if row.convert is not None:
            chain = _or(number, inner(row.convert), chain)
    return chain


convert = _by_kind()
