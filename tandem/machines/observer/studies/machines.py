"""Observed machines by the files of a study."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sim_service.registry import gather
from tandem.estimation.contract import Observed
from tandem.machines.observer.observed_machine import observed_of
from tandem.machines.observer.studies.settings import MachineOf


@dataclass(frozen=True)
class Assembled:
    observed: Observed
    params: np.ndarray


def make(settings: MachineOf, study: Path, changed: dict[str, float]) -> Assembled:
    """The machine of a study with some parameters changed, ready to be observed."""
    named = settings.file
    found = gather(study.parent / named if named.endswith(".toml") else named)
    sources = found.with_settings(settings.top, f"{study}: machine.top")
    return Assembled(*observed_of(sources, changed, f"{study}: machine.file"))
