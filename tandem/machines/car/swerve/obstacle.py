"""An obstacle on the road: it appears ahead of a car at a random instant, may be hit, and is gone once it is passed.

Once the car is as fast as `obstacle_from`, the time until the obstacle appears is drawn between `obstacle_soonest` and
`obstacle_latest`, by seed and number: the same seed gives the same instants, on any machine. It then lies
`obstacle_ahead` before the front of the car, across its heading. A car that overlaps it hits it, once. It is gone when
it is `PASSED` behind, and the next one is drawn.

Both are rectangles seen from above; `clearance` is the largest gap between them along any of their four directions:
positive where they are apart by at least so much, negative where they overlap (separating axes).
"""

from math import cos, sin

import numpy as np

from sim_service.composite import OWN_INTS, Head, pass_outputs
from sync.compile.jit import kernel
from tandem.machines.car.swerve.description import WAITING, P, S, W
from tandem.multibody.natural.views import view

PASSED = 40.0  # m


@kernel(error_model="numpy")
def draw(seed, number):
    """From 0 to 1, by seed and number alone (the mixer of splitmix64, Steele, Lea and Flood 2014)."""
    z = np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(number) * np.uint64(0xD1B54A32D192ED03)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return float(z >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@kernel(error_model="numpy")
def clearance(dx, dy, yaw, half_length, half_width, other_yaw, other_length, other_width):
    """Between two rectangles (half lengths and widths), the other's middle at dx, dy."""
    turn = other_yaw - yaw
    c, s = abs(cos(turn)), abs(sin(turn))
    most = -1e30
    for own in range(2):
        cy, sy = (cos(yaw), sin(yaw)) if own == 0 else (cos(other_yaw), sin(other_yaw))
        a, b = (half_length, half_width) if own == 0 else (other_length, other_width)
        u, v = (other_length, other_width) if own == 0 else (half_length, half_width)
        most = max(most, abs(cy * dx + sy * dy) - a - (c * u + s * v), abs(cy * dy - sy * dx) - b - (s * u + c * v))
    return most


@kernel(error_model="numpy")
def advance(state, params, x, y, yaw, vx, h, out):
    """The obstacle after a step of h seconds that brought the car to x, y, yaw; both vectors in the order on top."""
    front, rear = params[P.outline_front], params[P.outline_rear]
    half_length, half_width = 0.5 * params[P.obstacle_length], 0.5 * params[P.obstacle_width]
    c, s = cos(yaw), sin(yaw)
    if state[S.obstacle_there] < 0.5:
        if state[S.obstacle_clock] < 0.0:
            if vx >= params[P.obstacle_from]:
                soonest = params[P.obstacle_soonest]
                late = max(params[P.obstacle_latest] - soonest, 0.0)
                state[S.obstacle_clock] = soonest + late * draw(params[P.obstacle_seed], state[S.obstacle_number])
        else:
            state[S.obstacle_clock] -= h
            if state[S.obstacle_clock] < 0.0:
                state[S.obstacle_clock] = WAITING
                state[S.obstacle_there], state[S.obstacle_hit] = 1.0, 0.0
                state[S.obstacle_number] += 1.0
                ahead = front + params[P.obstacle_ahead] + half_length
                state[S.obstacle_x], state[S.obstacle_y] = x + c * ahead, y + s * ahead
                state[S.obstacle_yaw] = yaw
    found = 0.0
    if state[S.obstacle_there] > 0.5:
        middle = 0.5 * (front - rear)
        dx, dy = state[S.obstacle_x] - (x + c * middle), state[S.obstacle_y] - (y + s * middle)
        half = 0.5 * (front + rear)
        found = clearance(
            dx, dy, yaw, half, 0.5 * params[P.outline_width], state[S.obstacle_yaw], half_length, half_width
        )  # fmt: skip
        if found < 0.0 and state[S.obstacle_hit] < 0.5:
            state[S.obstacle_hit] = 1.0
            state[S.obstacle_hits] += 1.0
        gone = c * dx + s * dy < -PASSED or dx * dx + dy * dy > (PASSED + params[P.obstacle_ahead] + 20.0) ** 2
        if gone:
            state[S.obstacle_there] = 0.0
            found = 0.0
    out[W.obstacle_there] = state[S.obstacle_there]
    out[W.obstacle_x], out[W.obstacle_y] = state[S.obstacle_x], state[S.obstacle_y]
    out[W.obstacle_yaw], out[W.obstacle_number] = state[S.obstacle_yaw], state[S.obstacle_number]
    out[W.obstacle_hits], out[W.obstacle_room] = state[S.obstacle_hits], found


@kernel(error_model="numpy")
def follow_car(state, params, tables, own, work, h):
    """What comes after the car's own step, with its work `own`: its outputs to their places, then the obstacle."""
    pass_outputs(tables, own, work)
    ints = tables.ints
    x, y, yaw, vx = own[ints[OWN_INTS]], own[ints[OWN_INTS + 1]], own[ints[OWN_INTS + 2]], own[ints[OWN_INTS + 3]]
    of, values = view(state, ints[Head.STATES], len(state)), view(params, ints[Head.PARAMETERS], len(params))
    advance(of, values, x, y, yaw, vx, h, view(work, ints[Head.OUTPUTS], ints[Head.WORK_AT]))
