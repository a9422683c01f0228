"""The conversions: one function a kind of row. Each returns a value, its rate and its acceleration.

`x`, `xd`, `xdd` are the same three of what the row reads: of another row, or of a channel, whose rates are 0 for not
being known. Numbers of the kind stand in `numbers[row, OWN]` and behind it. They are read one by one: slices of arrays
cost more than the arithmetic here (some 2 us a step, on a virtual ARM core).
"""

import math

from sim_service.inputs.table import OWN
from sync.compile.jit import kernel
from sync.signals.estimators import estimate


@kernel()
def affine(numbers, row, x, xd, xdd):
    gain, divisor = numbers[row, OWN + 1], numbers[row, OWN + 2]
    return (x - numbers[row, OWN]) * gain / divisor, xd * gain / divisor, xdd * gain / divisor


@kernel()
def encoder(numbers, row, memory, t_ns, counts, h):
    value, rate, acceleration = estimate(memory[row], numbers[row, OWN + 1 :], t_ns, counts, h)
    return value - numbers[row, OWN], rate, acceleration


@kernel()
def polynomial(numbers, row, x, xd, xdd):
    """Horner's rule for the value and both derivatives; then the chain rule."""
    p = dp = ddp = 0.0
    for k in range(int(numbers[row, OWN]), 0, -1):
        ddp = ddp * x + 2.0 * dp
        dp = dp * x + p
        p = p * x + numbers[row, OWN + k]
    return p, dp * xd, ddp * xd * xd + dp * xdd


@kernel()
def hall_pair(numbers, row, first, second):
    u1, u2 = first * numbers[row, OWN], second * numbers[row, OWN]
    return numbers[row, OWN + 1] * (u1 * u1 - u2 * u2) + numbers[row, OWN + 2], 0.0, 0.0


@kernel()
def arctangent(numbers, row, x, xd, xdd):
    k = numbers[row, OWN]
    u, ud, udd = k * x + numbers[row, OWN + 1], k * xd, k * xdd
    slope = 1.0 / (1.0 + u * u)
    return math.atan(u), slope * ud, slope * udd - 2.0 * u * slope * slope * ud * ud


@kernel()
def voice_coil(numbers, row, counts):
    return (counts - numbers[row, OWN]) * numbers[row, OWN + 1], 0.0, 0.0


@kernel()
def measurement(numbers, row, counts):
    """The rate's place is for its age."""
    return (counts - numbers[row, OWN]) * numbers[row, OWN + 1], 0.0, 0.0


@kernel()
def fused(numbers, row, memory, position, velocity, h):
    """A complementary filter: what the velocity foretells, drawn to the position. Begins at the position."""
    if memory[row, 0] == 0.0:
        memory[row, 0], memory[row, 1] = 1.0, position
    else:
        foretold = memory[row, 1] + velocity * h
        memory[row, 1] = foretold + numbers[row, OWN] * (position - foretold)
    return memory[row, 1], velocity, 0.0
