"""What a look ahead needs of a machine: how much grip it uses, how fast deviations grow, when control is lost.

A machine of which control can be lost has one nopython function, `judge(outputs, params, tables, numbers, out)`, for
the outputs of any step, predicted or made (signature JUDGE; `numbers` are constants of its own). It writes

    USE     of what contact and actuators can bear, the share that is used: 1 is all of it
    GROWTH  1/s, the largest real part of the linearised modes of its lateral motion: above 0 a deviation grows
    LOSS    how far it is on the way to a state that nothing brings back: from 1 on control is lost

The look ahead (sim_service/look_ahead/) steps a copy of the machine and asks for these after every step; it knows
nothing else of the machine but its place.
"""

from collections.abc import Callable
from dataclasses import dataclass

from numba import types

from sim_service.contract.machine import TABLES, Floats, Machine, Prediction, Tables
from sync.compile.array_types import CONSTANTS, VECTOR
from sync.errors import ConfigError

USE, GROWTH, LOSS = range(3)
JUDGED = 3
JUDGE = types.void(VECTOR, CONSTANTS, TABLES, CONSTANTS, VECTOR)
# the same as Python has it: outputs, params, tables, numbers, out
Judge = Callable[[Floats, Floats, Tables, Floats, Floats], None]


@dataclass(frozen=True)
class Following:
    """How a hand guides the machine along a path: `input` is `per_curvature` + `per_acceleration` v² times the
    curvature (1/m) of the arc that leads to the place it looks at. `yaw` and `speed` are outputs."""

    input: str
    per_curvature: float
    per_acceleration: float = 0.0
    rate: str = ""  # the input that is its rate
    yaw: str = "yaw"
    speed: str = "vx"


@dataclass(frozen=True)
class StabilityMonitor:
    judge: Judge  # nopython, signature JUDGE
    numbers: Floats  # constants of the judge, read-only
    place: tuple[str, str] = ("x", "y")  # outputs: where it is
    rates: tuple[tuple[str, str], ...] = ()  # an input, and the input that is its rate: what a moving hand goes on with
    follow: Following | None = None  # None: it follows no path
    # of a composite: the machine inside, which is stepped ahead without what is around it. Its states, inputs and
    # outputs are the composite's first ones; so are its parameters, or, if these are estimated, they are in the state
    # from `params_at` on
    of: Machine | None = None
    params_at: int | None = None


def stability_monitor(machine: Machine, params: Floats, file: str) -> StabilityMonitor:
    """What the machine says of itself; ConfigError if it says nothing."""
    if (own := machine.of(Prediction)) is None:
        raise ConfigError(
            f"{file}: look_ahead.enabled = true: {machine.name} does not say when control of it is lost (its"
            " `Prediction`, docs/look_ahead.md); it must be false, or the machine another one"
        )
    monitor = own.make(params)
    assert isinstance(monitor, StabilityMonitor)
    return monitor
