"""The manoeuvre "record": the inputs that the steps of recorded runs used, again; each record is a case of its own.

From the first step of a simulator on, as far as its steps follow each other. With the machine and the parameters of
the record, and no command in it, the outputs are the recorded ones to the bit.
"""

from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field

from sim_service.contract.machine import Machine
from sync.config.toml import Section, check
from sync.errors import ConfigError
from sync.record import Run, open_run
from tandem.ensembles.manoeuvres import Context, Gathered
from tandem.ensembles.open_loop import OpenLoop, unset_inputs


class Settings(Section):
    kind: Literal["record"]
    records: list[str] = Field(min_length=1)  # runs: folders or files, relative to the study
    most_steps: int | None = Field(None, ge=1)


def gather(settings: dict[str, Any], machine: Machine, folder: Path, step_s: float, where: str) -> Gathered:
    checked = check(Settings, settings, where, "manoeuvre")
    rows = []
    for name in checked.records:
        if not (folder / name).exists():
            raise ConfigError(f"{where}: manoeuvre.records: {folder / name}: no such run")
        run = open_run(folder / name)
        rows.append(rows_of(run.path, run_of_steps(run, checked.most_steps), machine))
        recorded_s = step_of(run)
        if recorded_s and abs(recorded_s / step_s - 1.0) > 1e-9:
            raise ConfigError(
                f"{where}: step_ms = {1e3 * step_s:g}: {run.path} has steps of {1e3 * recorded_s:g} ms; set that"
            )
    return Gathered(settings, {"rows": rows}, tuple(checked.records))


def step_of(run: Run) -> float:
    """The step of a record by its configuration, s; 0 if it has none."""
    from sync.config.config import Config

    settings = run.json("config.json")
    return check(Config, settings, f"{run.path} (config.json)").step_ns * 1e-9 if settings else 0.0


def steps_of(run: Run) -> np.ndarray:
    """The recorded steps from the first of a simulator on."""
    blocks = run.need("/step").blocks
    begins = np.flatnonzero(blocks["step"] == 0)
    if not len(begins):
        raise ConfigError(f"{run.path}: begins in the middle of a run; its first steps are needed")
    found: np.ndarray = blocks[begins[0] :]
    return found


def run_of_steps(run: Run, most: int | None = None) -> np.ndarray:
    """The same, as far as they follow each other."""
    blocks = steps_of(run)
    breaks = np.flatnonzero(np.diff(blocks["step"]) != 1)
    found: np.ndarray = blocks[: int(breaks[0]) + 1 if len(breaks) else len(blocks)][:most]
    return found


def rows_of(path: Path, steps: np.ndarray, machine: Machine) -> np.ndarray:
    """The inputs that these steps used."""
    there = steps.dtype.names or ()
    missing = [q.name for q in machine.inputs if q.name not in there and not q.optional]
    if missing:
        raise ConfigError(f"{path}: /step has no {', '.join(missing)}, which {machine.name} needs")
    rows = unset_inputs(machine, len(steps))
    for k, quantity in enumerate(machine.inputs):
        if quantity.name in there:
            rows[:, k] = steps[quantity.name]
    return rows


def prepare(context: Context) -> OpenLoop:
    return OpenLoop(context)
