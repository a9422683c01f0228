"""What a model is to the rest of tandem: names, units, limits, and one nopython step.

A machine is a folder in `sim_service/machines/`, or a module of another package (sync/plugins.py). Everything that
surrounds it (configuration, output channels, log, view, live tuning) is made from this description and knows nothing
else.

`params` begins with the values of `parameters`, in their order; what a model makes of them before the first step may
follow. The step is `step(state, inputs, params, work, h)`, all float64 vectors, `h` in seconds. It advances `state` by
`h` in place and leaves the outputs in the first `len(outputs)` entries of `work`; the rest of `work` is room to work
in. An optional input that nobody measures comes as NaN: the step makes it itself and puts it there, so that whoever
looks sees what was used. What the next step depends on is in the state: with a `work` of zeros it goes on just the
same. It allocates nothing, raises nothing and draws on nothing but its arguments, so the same arguments give the same
bits.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numba import float64, types

from sim_service.machines.scene import Scene

STEP = types.void(float64[::1], float64[::1], float64[::1], float64[::1], float64)


@dataclass(frozen=True)
class Quantity:
    name: str
    unit: str
    text: str
    optional: bool = False  # of an input: what no row of [inputs] gives comes as NaN, and the step puts its own there


@dataclass(frozen=True)
class Parameter:
    name: str
    unit: str
    value: float
    low: float
    high: float
    text: str
    live: bool = True  # may change between two steps; otherwise it shapes the model and needs a new start
    of_the_file: bool = True  # a vehicle file gives it; otherwise it is a hand on the model, and begins at `value`


@dataclass(frozen=True)
class Machine:
    name: str
    inputs: tuple[Quantity, ...]
    states: tuple[Quantity, ...]
    outputs: tuple[Quantity, ...]
    parameters: tuple[Parameter, ...]
    work_size: int
    step: Any  # nopython, signature STEP
    initial: Callable[[np.ndarray, np.ndarray, np.ndarray], None]  # fills (state, params, work) at rest
    scene: Scene | None = None  # what it looks like; without one the view makes do with its outputs
    layout: str = ""  # a hash of what stands where in `params` behind the parameters
    remade: tuple[int, int] = (0, 0)  # words of `params` that its files give as they are, such as a road: not recorded
    bound: float = 1e9  # no state and no output of it is ever beyond; one that is has diverged


def index(quantities: tuple[Quantity, ...], name: str) -> int:
    """Position of a named quantity in its vector."""
    for position, quantity in enumerate(quantities):
        if quantity.name == name:
            return position
    raise KeyError(f"{name}: not one of {', '.join(q.name for q in quantities)}")


def places(name: str, entries: Iterable[Any]) -> Any:
    """Positions by name, of described things or of names: constants to the compiler (Any to the type checker)."""
    return IntEnum(name, [(getattr(e, "name", e), position) for position, e in enumerate(entries)])
