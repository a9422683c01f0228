"""A machine that begins in motion: its start is what was measured, and its own laws give the rest.

`moving` gives the same machine with another `initial`, so that whatever starts, resets or replays it begins there.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from sim_service.contract.machine import Machine, Moving, Tables, at_rest, default_inputs
from sync.errors import ConfigError


def startable(machine: Machine) -> tuple[str, ...]:
    """The quantities by which its start can be given. Where a machine finds its own start, states depend on each other:
    some of them, set by hand, would give a state that it cannot have."""
    own = machine.of(Moving)
    if own is not None:
        return own.given
    return tuple(q.name for q in machine.states) if machine.initial is at_rest else ()


def check_start(machine: Machine, names: Mapping[str, object], where: str) -> None:
    """Raises ConfigError for a quantity that cannot be given; `where` they are, such as `study.toml: start`."""
    known = startable(machine)
    for name in names:
        if not known:
            raise ConfigError(
                f"{where}.{name}: {machine.name} begins at rest, where its own laws have it; leave the start out, and"
                " drive it to where it should be"
            )
        if name not in known:
            raise ConfigError(f"{where}.{name}: {machine.name} begins with {', '.join(known)}")


def moving(machine: Machine, start: Mapping[str, float], inputs: np.ndarray | None = None) -> Machine:
    """The machine as it begins with these values, and these inputs of its first step, if they are known."""
    own = machine.of(Moving)
    first = default_inputs(machine) if inputs is None else inputs

    def initial(state: np.ndarray, params: np.ndarray, tables: Tables, work: np.ndarray) -> None:
        machine.initial(state, params, tables, work)
        if own is not None:
            own.begin(state, params, tables, work, first, start)
            return
        for values, quantities in ((state, machine.states), (work, machine.outputs)):
            for place, quantity in enumerate(quantities):
                if quantity.name in start:
                    values[place] = start[quantity.name]

    return replace(machine, initial=initial)
