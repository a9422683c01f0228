"""Observed machines by the files of a study."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sim_service.registry import gather, make_machine
from sync.errors import ConfigError
from tandem.estimation.contract import Observed
from tandem.machines.observer.observed_machine import observed_module
from tandem.machines.observer.studies.settings import MachineOf


@dataclass(frozen=True)
class Made:
    observed: Observed
    params: np.ndarray


def make(settings: MachineOf, study: Path, changed: dict[str, float]) -> Made:
    """The machine of a study with some parameters changed, ready to be observed."""
    named = settings.file
    found = gather(study.parent / named if named.endswith(".toml") else named)
    sources = found.with_settings(settings.top, f"{study}: machine.top")
    machine, params = make_machine(sources, changed)
    own = observed_module(sources.toml(), sources.name())
    if own is None:
        raise ConfigError(f"{study}: machine.file = {named!r}: {machine.name} has no observer")
    return Made(own.observed(machine, params) if hasattr(own, "observed") else own.OBSERVED, params)
