"""Kinds of runs by name: those of any machine, and what machines bring (tandem/brought.py, entry points
`tandem.manoeuvres`). A module of one has `gather`, with the arguments below, and `prepare(context)`, which returns a
`Manoeuvre`.

What a manoeuvre needs of files it reads in `gather`, before anything starts; it then travels to the workers as bytes
and arrays: a worker reads no file of the study.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from sim_service.contract.machine import Machine
from sim_service.registry import MachineFiles, make_machine
from sync.compile import build
from sync.config import plugins
from sync.errors import ConfigError, TandemError
from sync.files.consent import ConsentMissing
from tandem.brought import MANOEUVRES

KINDS = {"inputs": "tandem.ensembles.open_loop", "record": "tandem.ensembles.recorded_inputs", **MANOEUVRES}


class RunFailed(TandemError):
    """A run that came to nothing; its row says why."""

    code = 3

    def __init__(self, status: str, text: str, steps: int = 0):
        super().__init__(text)
        self.status, self.steps = status, steps


@dataclass(frozen=True)
class Log:
    """What a run left: columns by name, a row a step; or figures of the manoeuvre's own, with units."""

    columns: dict[str, np.ndarray]
    step_s: float
    steps: int
    figures: dict[str, float] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Context:
    """What a manoeuvre is prepared from, in a worker."""

    settings: dict[str, Any]
    data: dict[str, Any]  # what `gather` read
    sources: MachineFiles
    machine: Machine  # with the parameters of all runs
    params: np.ndarray
    changed: dict[str, float]
    step_s: float
    channels: tuple[str, ...]  # that figures and files need; a log has no others


class Manoeuvre(Protocol):
    def run(self, machine: Machine, params: np.ndarray, changed: dict[str, float], case: int) -> Log: ...


@dataclass(frozen=True)
class Gathered:
    """Settings as checked, what was read, and names of the cases that each row of values is run in."""

    settings: dict[str, Any]
    data: dict[str, Any] = field(default_factory=dict)
    cases: tuple[str, ...] = ("",)
    channels: bool = True  # whether it logs channels; otherwise it has figures of its own alone
    makes_machines: bool = False  # in every run, and holds the GIL meanwhile


@dataclass(frozen=True)
class StudyMachine:
    sources: MachineFiles
    machine: Machine
    params: np.ndarray
    changed: dict[str, float]  # by its configuration and by the study


def study_machine(name: str, settings: dict[str, float], folder: Path, where: str) -> StudyMachine:
    """The machine of a study, with the parameters that its `set` gives. Errors name the study and the key."""
    from tandem.offline.model import machine_files

    try:
        sources, configured = machine_files(name, folder)
    except ConsentMissing:
        raise
    except TandemError as error:
        raise ConfigError(f"{where}: machine: {error}") from None
    changed = {**configured, **settings}
    try:
        machine, params = make_machine(sources, changed)
    except ConfigError as error:
        key = next((k for k in settings if f"sim.parameters.{k} " in str(error)), None)
        if key is None:
            raise
        raise ConfigError(f"{where}: {str(error).replace('sim.parameters.', 'set.')}") from None
    return StudyMachine(sources, machine, params, changed)


def module_of(kind: str, where: str) -> Any:
    """Ours is compiled before it is imported."""
    if kind in KINDS:
        build.ensure_for(KINDS[kind])
    return plugins.load(plugins.MANOEUVRES, KINDS, kind, f"{where}: manoeuvre.kind", ("gather", "prepare"))


def gather(settings: dict[str, Any], machine: Machine, folder: Path, step_s: float, where: str) -> Gathered:
    """Check the settings of a manoeuvre and read its files."""
    read: Callable[..., Gathered] = module_of(settings["kind"], where).gather
    return read(settings, machine, folder, step_s, where)
