"""What becomes of an input that gets no younger: held, extrapolated, ramped to a safe value.

The effect is a function of the value, its speed and how long it has been stale; of nothing else, and of no memory. A
step that records how old its input was can therefore be done again to the bit. It is continuous in time, ends at the
safe value exactly, and leaves alone what is fresh. The speed always fits what the value does.
"""

import math

import numpy as np

from sim_service.signals.stages import EXTRAPOLATED, FRESH, HELD, RAMPED, SAFE
from sync.config import Sim
from sync.jit import kernel

# a policy: how old is stale; then of every channel
LIMIT_NS, CHANNEL = 0, 1
_HOLD_NS, _EXTRAPOLATE_NS, _RAMP_NS, _SAFE, WORDS = range(5)


def policy(sim: Sim) -> np.ndarray:
    steering, throttle, brake = sim.stale.steering, sim.stale.throttle, sim.stale.brake
    rows = (
        (steering.hold_ms, steering.extrapolate_ms, steering.ramp_ms, math.radians(steering.safe_deg)),
        (throttle.hold_ms, 0.0, throttle.ramp_ms, throttle.safe),
        (brake.hold_ms, 0.0, brake.ramp_ms, brake.safe_bar),
    )
    made = [float(round(sim.stale_after_ms * 1e6))]
    for *spans_ms, safe in rows:
        made += [*(float(round(span * 1e6)) for span in spans_ms), safe]
    return np.array(made)


@kernel()
def aged(value, speed, since_ns, par):
    """(value, speed, stage) of what has been stale for `since_ns`, with the channel's part of a policy."""
    if since_ns <= 0.0:
        return value, speed, FRESH
    since = since_ns - par[_HOLD_NS]
    if since <= 0.0:
        return value, 0.0, HELD
    if since <= par[_EXTRAPOLATE_NS]:
        return value + speed * (since * 1e-9), speed, EXTRAPOLATED
    start = value + speed * (par[_EXTRAPOLATE_NS] * 1e-9)
    since -= par[_EXTRAPOLATE_NS]
    if par[_RAMP_NS] <= 0.0:
        return start, 0.0, EXTRAPOLATED if par[_EXTRAPOLATE_NS] > 0.0 else HELD
    if since >= par[_RAMP_NS]:
        return par[_SAFE], 0.0, SAFE
    way = par[_SAFE] - start
    there = start + way * (since / par[_RAMP_NS])
    there = min(there, par[_SAFE]) if way > 0.0 else max(there, par[_SAFE])  # rounding goes no further than safe
    return there, way / (par[_RAMP_NS] * 1e-9), RAMPED
