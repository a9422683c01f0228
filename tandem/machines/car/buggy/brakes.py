"""Brakes: pressure into torque on a wheel that may roll, stop, stand and be held, and an anti-lock control.

Promises
- A torque below the limit is held for ever: the wheel stands still, not creeping. Above it the wheel turns, and the
  brake takes the limit, no more.
- One law for both. It opposes motion at once, brings a wheel to rest without chatter, turns none back, and takes energy
  only.
- `brake` remembers nothing: it goes from `states` (start of the step) to `after` (end of the step) for the wheel speed
  it is given. Of second order in the step while the wheel is held. Its torque falls with speed: the slope is >= 0.
- Decisions of the anti-lock control are made by `control`, once per step, before the step.

Pads and caliper wind up by an elastic angle d before the disc slips under them:

    T = -clip(k d + c w, +-N),      d = clip(d0 + h (w0 + w) / 2, +-N / k)

N is the friction limit, from the pressure and a little drag; w the wheel speed, suffix 0 the start of the step. While
the disc slips, d is no more than k d + c w = N leaves for it, so a wheel that turns fast does not keep the spring
wound up and is not turned back by all of N / k when it stops. When the pressure falls, d follows the limit.

Between two steps a wheel that the brake holds, or could have stopped with what was left of its friction, is stood
still (`hold`): it would else be turned back by pads that are far softer than real ones, as the next paragraph wants
them.

Newton's rule on this corner-rich law converges from anywhere if c + k h / 2 <= 2 J / h, J the inertia of the wheel:
then no iterate can leap over the whole range in which the brake holds. The defaults meet this for h = 5 ms; where a
longer step or a lighter wheel would not, c and k are taken smaller.

Anti-lock control. A valve at each wheel limits its pressure. It lets pressure out while slip grows fast, or is above
`abs_slip_high` and not recovering; lets it build up again while slip is below `abs_slip_low` or recovers fast; and
holds it in between. Slip is relative to the true speed of the hub, which a model knows and a car has to estimate.
"""

from sync.compile.jit import kernel
from tandem.machines.car.buggy.brake_parameters import OPEN_BAR, M, P, S

TINY = 1e-300  # keeps a division by zero away
SLIP_RATE = 4.0  # 1/s; faster growth of slip cannot be waited for, nor can faster recovery
SLIP_STAYS = 0.5  # 1/s; slower recovery of slip does not count

_OPTIONS = {"error_model": "numpy"}  # a division by zero is no exception


@kernel(**_OPTIONS)
def clip(x, limit):
    return min(max(x, -limit), limit)


@kernel(**_OPTIONS)
def friction_limit(p, front, pressure_bar):
    """N m a brake can hold, or takes from a turning wheel."""
    per_bar = p[P.brake_front] if front else p[P.brake_rear]
    return per_bar * max(pressure_bar, 0.0) + p[P.brake_drag]


@kernel(**_OPTIONS)
def rates(p, h, inertia):
    """Stiffness and damping; no more of either than lets Newton's rule converge in the step h."""
    k, c = p[P.brake_stiffness], p[P.brake_damping]
    if h > 0.0:
        c = min(c, 0.65 * 2.0 * inertia / h)
        k = max(min(k, 2.0 * (0.97 * 2.0 * inertia / h - c) / h), TINY)
    return k, c


@kernel(**_OPTIONS)
def hold(p, limit, states, at, h, w0, w, acceleration, torque, inertia):
    """Whether the brake holds the wheel after a step; then the wind-up is that which keeps it, its speed 0.

    w0, w: speed against the brake before and after the step; torque: of the brake on the wheel at its end.
    """
    needed = torque - inertia * acceleration
    stopping = torque - inertia * w / h
    if abs(needed) > limit or abs(stopping) > limit or (abs(torque) >= limit and w0 * w > 0.0):
        return False
    k, _ = rates(p, h, inertia)
    states[at + S.wind_up] = -needed / k
    states[at + S.wheel_speed] = 0.0
    return True


@kernel(**_OPTIONS)
def brake(p, limit, states, after, at, h, w, inertia):
    """(N m on the wheel, -dT/dw >= 0) for the wheel speed at the end of the step; `limit` from `friction_limit`.
    `inertia` is that of the wheel about its axle.

    Fills after[at], after[at + 1] (see STATES). With h = 0 the wind-up is taken as it is.
    """
    k, c = rates(p, h, inertia)
    most = limit / k
    trial = states[at + S.wind_up] + 0.5 * h * (states[at + S.wheel_speed] + w)
    d = clip(trial, most)
    T = k * d + c * w
    slope = c if abs(trial) > most else c + 0.5 * h * k
    if abs(T) > limit:
        # slip: the damper's share of the limit is not the spring's; the spring is never wound by more than the turning
        left = max(limit - c * abs(w), 0.0) / k
        d = min(d, left) if T > 0.0 else max(d, -left)
        T = clip(T, limit)
        slope = 0.0
    after[at + S.wind_up] = d
    after[at + S.wheel_speed] = w
    return -T, slope


@kernel(**_OPTIONS)
def control(p, memory, at, pressure_bar, rolling_speed, hub_speed, h):
    """Pressure (bar) at one wheel for the coming step h, from the pressure in the line.

    rolling_speed is wheel speed times rolling radius, hub_speed that of the hub along the wheel (m/s). The memory of
    the wheel is at memory[at], memory[at + 1] (see MEMORY); a valve starts with OPEN_BAR.
    """
    v = abs(hub_speed)
    slip = 1.0 - (rolling_speed if hub_speed > 0.0 else -rolling_speed) / max(v, p[P.abs_speed])
    growth = (slip - memory[at + M.slip]) / h
    memory[at + M.slip] = slip
    if p[P.abs] < 0.5:
        memory[at + M.valve_bar] = OPEN_BAR
        return pressure_bar
    valve = memory[at + M.valve_bar]
    if v <= p[P.abs_speed] or slip < p[P.abs_slip_low] or growth < -SLIP_RATE:
        valve = min(valve + p[P.abs_build] * h, OPEN_BAR)
    elif growth > SLIP_RATE or (slip > p[P.abs_slip_high] and growth > -SLIP_STAYS):
        valve = max(min(valve, pressure_bar) - p[P.abs_dump] * h, 0.0)
    if valve >= pressure_bar:
        valve = OPEN_BAR
    memory[at + M.valve_bar] = valve
    return min(pressure_bar, valve)
