"""What becomes of an input that gets no new value: held, extrapolated, ramped to a safe value.

The result depends on the value, its speed and how long it has been stale, and on nothing else: there is no memory. So a
step that records how old its input was can be replayed bit for bit. The result is continuous in time, ends at the safe
value exactly, and is the value itself while that is fresh. The speed is always the one at which the result moves.
"""

from sim_service.inputs.stages import EXTRAPOLATED, FRESH, HELD, RAMPED, SAFE
from sync.compile.jit import kernel
from sync.config.input_rows import Stale

# of a policy
_HOLD_NS, _EXTRAPOLATE_NS, _RAMP_NS, _SAFE, WORDS = range(5)


def policy(stale: Stale, safe: float) -> list[float]:
    """`safe` in the machine's unit."""
    return [*(float(round(ms * 1e6)) for ms in (stale.hold_ms, stale.extrapolate_ms, stale.ramp_ms)), safe]


@kernel()
def stale_value(value, speed, since_ns, par):
    """(value, speed, stage) of an input that has been stale for `since_ns`, by the policy `par`."""
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
    there = min(there, par[_SAFE]) if way > 0.0 else max(there, par[_SAFE])  # rounding must not lead beyond safe
    return there, way / (par[_RAMP_NS] * 1e-9), RAMPED
