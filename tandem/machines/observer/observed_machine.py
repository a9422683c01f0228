"""The machine that an observer or a set of sensors is for, from the files that came with theirs."""

from typing import Any

import numpy as np

from sim_service.registry import FILE, MachineFiles, make_machine, observed_module
from sync.errors import ConfigError
from tandem.estimation.contract import Observed
from tandem.machines.observer.layout import OBSERVED


def observed_machine(
    name: str, top: dict[str, str], sources: Any, where: str, changed: dict[str, float]
) -> tuple[Observed, np.ndarray]:
    """What is observed, and its parameters; `top` are settings in front of its file."""
    place = f"{where}: observed"
    if name.endswith(".toml"):
        place += f" = {name!r}: machine"
        inside = sources.inside(OBSERVED)
        if FILE not in inside.files:
            raise ConfigError(f"{where}: observed = {name!r}: its file is missing")
    else:  # a machine that needs no file
        inside = MachineFiles({FILE: f"machine = {name!r}\n".encode()}, {FILE: where})
    return observed_of(inside.with_settings(top, f"{where}: top"), changed, place)


def observed_of(sources: MachineFiles, changed: dict[str, float], where: str) -> tuple[Observed, np.ndarray]:
    """The machine of these files as it is observed, and its parameters; `where` it is said to be, for messages."""
    own = observed_module(str(sources.toml().get("machine")), where)
    machine, params = make_machine(sources, changed)
    found: Observed = own.observed(machine, params)
    return found, params
