"""The machine that an observer or a set of sensors is for, from the files that came with theirs."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from sim_service.contract.parameters import make_plain
from sync.errors import ConfigError
from tandem.estimation.contract import Observed
from tandem.machines.observer.layout import OBSERVED

NO_FILE = ("tilting",)  # machines that can be observed and need no file


def observed_module(data: dict[str, Any], path: str) -> Any:
    """The module `observed` beside that of the machine which a file names: how it is observed; None: it is not."""
    from sim_service.registry import machine_module

    module = machine_module(data, path)
    beside = f"{module.__name__}.observed"
    return import_module(beside) if hasattr(module, "__path__") and find_spec(beside) is not None else None


def observed_machine(
    name: str, top: dict[str, str], sources: Any, where: str, changed: dict[str, float]
) -> tuple[Observed, np.ndarray]:
    """What is observed, and its parameters; `top` are settings in front of its file."""
    from sim_service.registry import FILE, make_machine

    if name in NO_FILE:
        plain: Observed = observed_module({"machine": name}, where).OBSERVED
        return plain, make_plain(plain.machine, {"machine": plain.machine.name}, _Named(where), changed)[1]
    if not name.endswith(".toml"):
        raise ConfigError(
            f"{where}: observed = {name!r}: must be one of {', '.join(NO_FILE)}, or a machine's .toml file"
        )
    inside = sources.inside(OBSERVED)
    if FILE not in inside.files:
        raise ConfigError(f"{where}: observed = {name!r}: its file is missing")
    of = inside.with_settings(top, f"{where}: top")
    own = observed_module(of.toml(), of.name())
    if own is None:
        raise ConfigError(f"{where}: observed = {name!r}: {of.toml()['machine']} has no observer")
    machine, params = make_machine(of, changed)
    found: Observed = own.observed(machine, params)
    return found, params


class _Named:
    """As much of MachineFiles as parameters need for their messages."""

    def __init__(self, where: str):
        self._where = where

    def name(self, key: str = "") -> str:
        return self._where
