"""How the rack of the buggy moves: by the measured angle of the hand wheel, or by the torque on it.

By angle (`steering_mode` 0) the rack follows with speed and acceleration, as far as its stops and not beyond
`RACK_SPEED` and `RACK_ACCELERATION`: a jump of the measurement (a gap, a restart) becomes a quick but possible motion.
With a torsion bar (`column_stiffness` above 0) the hand wheel moves so, and the rack by the torque in the bar, which is
damped by `BAR_DAMPING`: else rack and wheels would ring on the hand that nothing moves.

By torque (1) the column is a machine of its own: the hand wheel with its inertia J and damping d, the torsion bar with
its stiffness k, and behind it the pinion, where the assist adds A times the torque in the bar and friction acts. In
the symbols below p is the way of the rack per angle, T the torque of the driver, F the force with which the pinion
moves the rack,

    J theta'' = T - k (theta - x / p) - d theta',     F(x'') = (1 + A) k (theta - x / p) / p - friction / p + push

k = 0 is a rigid column, theta = x / p, whose torque is T - J theta'' - d theta'. The multibody core knows F
only for a rack whose motion is prescribed, F(x'') = F_k + m (x'' - x''_k) near one it was asked for. So the step is
made again with a better x'' until both sides agree (`AGREE`): mostly two times, at most `TRIES`; a step that ends
without agreement is reported as capped. Both sides are of the
end of the step and by the trapezoidal rule, so that the motion is of second order in the step; m, which is what the
steered wheels weigh at the rack, is found by the way.

Friction can stop the rack and hold it, not turn it round. The stops of the rack are springs with dampers, `STOP_RATE`
and `STOP_DAMPING`, so that a shock is stopped within millimetres and with no energy of its own.
"""

from math import pi

from sim_service.contract.machine import index
from sync.compile.jit import kernel
from tandem.machines.car.buggy.description import INPUTS, P

RACK_SPEED = 0.25  # m/s; five turns of the hand wheel a second
RACK_ACCELERATION = 10.0  # m/s2; from rest to that speed in a fortieth of a second
STOP_RATE, STOP_DAMPING = 5e6, 2e4  # N/m, N s/m; estimates: 30 kN press a stop by 6 mm
BAR_DAMPING = 2.5e-3  # s; damping of the bar per stiffness, where the hand wheel is moved as measured; an estimate
TRIES, TRIES_IN_PARTS = 6, 3  # the latter of a step that is made in parts, which is long already
AGREE, AGREE_SHARE = 1e-5, 1e-6  # m/s2, and of the acceleration: 1 mN at the rack
LEAST_MASS, MOST_MASS = 1.0, 1e4  # kg, at the rack

# what is kept between steps: place of the rack; angle, speed and acceleration of the hand wheel; m
MEMORY = ("rack", "hand", "hand_rate", "hand_second", "steered_mass")
RACK, HAND, HAND_RATE, HAND_SECOND, STEERED = range(len(MEMORY))

_ANGLE = index(INPUTS, "steering_angle")
_SPEED = index(INPUTS, "steering_speed")
_ACCELERATION = index(INPUTS, "steering_acceleration")


@kernel(error_model="numpy")
def travel_per_angle(params, sign):
    return sign * params[P.rack_travel_per_turn] / (2.0 * pi)


@kernel(error_model="numpy")
def by_angle(inputs, params, sign, last, rack, h):
    """Value, rate and second derivative of the rack at the end of the step; `last` is its place before."""
    per_angle = travel_per_angle(params, sign)
    limit = params[P.rack_limit]
    value = per_angle * inputs[_ANGLE]
    rate, second = per_angle * inputs[_SPEED], per_angle * inputs[_ACCELERATION]
    if abs(value) > limit:
        value, rate, second = (limit if value > 0.0 else -limit), 0.0, 0.0
    if abs(value - last) > RACK_SPEED * h:
        rate = RACK_SPEED if value > last else -RACK_SPEED
        value, second = last + rate * h, 0.0
    elif abs(rate) > RACK_SPEED:  # an estimate that no hand makes
        rate, second = (RACK_SPEED if rate > 0.0 else -RACK_SPEED), 0.0
    rack[0], rack[1], rack[2] = value, rate, min(max(second, -RACK_ACCELERATION), RACK_ACCELERATION)


@kernel(error_model="numpy")
def hand_by_angle(inputs, params, sign, memory, hand, h):
    """The hand wheel at the end of the step: value, rate, second derivative; no quicker than `by_angle`."""
    p = travel_per_angle(params, sign)
    by_angle(inputs, params, sign, p * memory[HAND], hand, h)
    for i in range(3):
        hand[i] /= p


@kernel(error_model="numpy")
def hand_with_rack(params, sign, memory, rack):
    """The hand wheel of a rack that was moved by angle."""
    p = travel_per_angle(params, sign)
    memory[HAND], memory[HAND_RATE], memory[HAND_SECOND] = rack[0] / p, rack[1] / p, rack[2] / p
    memory[RACK] = rack[0]


@kernel(error_model="numpy")
def bar_torque(k, hand, pinion, pinion_rate):
    """Of a hand wheel that moves as measured."""
    return k * (hand[0] - pinion + BAR_DAMPING * (hand[1] - pinion_rate))


@kernel(error_model="numpy")
def slide(g, slope, rub, v, half):
    """Acceleration a with slope a = g less friction, at the end of a step; and whether friction holds instead.

    The velocity then is v + half a.
    """
    forward, backward = (g - rub) / slope, (g + rub) / slope
    if v + half * forward > 0.0:
        return forward, False
    if v + half * backward < 0.0:
        return backward, False
    return 0.0, True


@kernel(error_model="numpy")
def by_torque(params, sign, torque, memory, start, force, at, mass, h, held_hand, rack, hand):
    """`rack` and `hand` at the end of a step from `start` and `memory`: value, rate, second derivative each.

    The rack's force is `force` where its acceleration is `at`, and grows by `mass` with it. `held_hand`: the hand wheel
    is where `hand` has it already, and only the rack moves.
    """
    p = travel_per_angle(params, sign)
    k, d, J = params[P.column_stiffness], params[P.column_damping], params[P.column_inertia]
    assist = 1.0 + params[P.steering_assist]
    x0, v0, a0 = start
    half, quarter = 0.5 * h, 0.25 * h * h
    x, v = x0 + h * v0 + quarter * a0, v0 + half * a0  # without the acceleration of the end
    theta = memory[HAND] + h * memory[HAND_RATE] + quarter * memory[HAND_SECOND]
    omega = memory[HAND_RATE] + half * memory[HAND_SECOND]
    den = J + k * quarter + d * half
    elastic = k > 0.0 and not held_hand
    if held_hand:
        g = assist * bar_torque(k, hand, x / p, v / p) / p
        slope = assist * k * (quarter + BAR_DAMPING * half) / (p * p)
    elif elastic:
        alpha = (torque - k * (theta - x / p) - d * omega) / den
        share = k * quarter / (p * den)
        g = assist * k * (theta + quarter * alpha - x / p) / p
        slope = assist * k * quarter * (1.0 / p - share) / p
    else:
        g = assist * (torque - d * v / p) / p
        slope = assist * (d * half + J) / (p * p)
    g += params[P.push_rack] - force + mass * at
    slope += mass
    rub = params[P.column_friction] / abs(p)
    a, held = slide(g, slope, rub, v, half)
    end = x0 + half * v0 if held else x + quarter * a
    limit = params[P.rack_limit]
    if abs(end) > limit:
        way = 1.0 if end > 0.0 else -1.0
        edge = way * limit
        stopped = g - STOP_RATE * (x - edge) - STOP_DAMPING * v
        b, stays = slide(stopped, slope + STOP_RATE * quarter + STOP_DAMPING * half, rub, v, half)
        push = STOP_RATE * (x + quarter * b - edge) + STOP_DAMPING * (v + half * b)
        if stays:
            held = True
        elif push * way > 0.0:  # a stop does not pull
            a, held = b, False
    if held:
        rack[0], rack[1], rack[2] = x0 + half * v0, 0.0, 0.0
    else:
        rack[0], rack[1], rack[2] = x + quarter * a, v + half * a, a
    if elastic:
        alpha = (torque - k * (theta - rack[0] / p) - d * omega) / den
        hand[0], hand[1], hand[2] = theta + quarter * alpha, omega + half * alpha, alpha
    elif not held_hand:
        hand[0], hand[1], hand[2] = rack[0] / p, rack[1] / p, rack[2] / p


@kernel(error_model="numpy")
def column_torque(params, sign, memory, rack, torque):
    """In the column, as it is after a step by torque."""
    p = travel_per_angle(params, sign)
    if params[P.column_stiffness] > 0.0:
        return params[P.column_stiffness] * (memory[HAND] - rack[0] / p)
    return torque - params[P.column_inertia] * memory[HAND_SECOND] - params[P.column_damping] * memory[HAND_RATE]
