"""The conversions: one function a kind of row. Each fills `out` with a value, its rate and its acceleration.

`x` are the same three of what the row reads: of another row, or of a channel, whose rates are 0 for not being known.
"""

import math

from sim_service.inputs.estimators import estimate
from sync.jit import kernel


@kernel()
def affine(own, x, out):
    for i in range(3):
        moved = x[i] - own[0] if i == 0 else x[i]
        out[i] = moved * own[1] / own[2]


@kernel()
def encoder(own, memory, t_ns, counts, h, out):
    value, out[1], out[2] = estimate(memory, own[1:], t_ns, counts, h)
    out[0] = value - own[0]


@kernel()
def polynomial(own, x, out):
    """Horner's rule for the value and both derivatives; then the chain rule."""
    p = dp = ddp = 0.0
    for k in range(int(own[0]), 0, -1):
        ddp = ddp * x[0] + 2.0 * dp
        dp = dp * x[0] + p
        p = p * x[0] + own[k]
    out[0], out[1], out[2] = p, dp * x[1], ddp * x[1] * x[1] + dp * x[2]


@kernel()
def hall_pair(own, first, second, out):
    u1, u2 = first * own[0], second * own[0]
    out[0], out[1], out[2] = own[1] * (u1 * u1 - u2 * u2) + own[2], 0.0, 0.0


@kernel()
def arctangent(own, x, out):
    u, ud, udd = own[0] * x[0] + own[1], own[0] * x[1], own[0] * x[2]
    slope = 1.0 / (1.0 + u * u)
    out[0], out[1], out[2] = math.atan(u), slope * ud, slope * udd - 2.0 * u * slope * slope * ud * ud


@kernel()
def voice_coil(own, counts, out):
    out[0], out[1], out[2] = (counts - own[0]) * own[1], 0.0, 0.0


@kernel()
def fused(own, memory, position, velocity, h, out):
    """A complementary filter: what the velocity foretells, drawn to the position. Begins at the position."""
    if memory[0] == 0.0:
        memory[0], memory[1] = 1.0, position
    else:
        foretold = memory[1] + velocity * h
        memory[1] = foretold + own[0] * (position - foretold)
    out[0], out[1], out[2] = memory[1], velocity, 0.0
