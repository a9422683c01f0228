"""The manoeuvre "iso" of a sweep: a whole test of `tandem iso`, whose figures are the columns."""

import re
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field

from sim_service.contract.machine import Machine
from sync.config.toml import Section, check
from sync.errors import ConfigError
from tandem.ensembles.manoeuvres import Context, Gathered, Log
from tandem.machines.car.studies.iso.manoeuvres import MANOEUVRES, chosen
from tandem.machines.car.studies.iso.sweep_vehicle import check_machine
from tandem.machines.car.studies.iso.vehicle import assemble_vehicle


class Settings(Section):
    kind: Literal["iso"]
    test: str
    speed_kmh: float | None = Field(None, ge=10, le=250)  # None: the test's own


def gather(settings: dict[str, Any], machine: Machine, folder: Path, step_s: float, where: str) -> Gathered:
    checked = check(Settings, settings, where, "manoeuvre")
    check_machine(machine, step_s, checked.kind, where)
    if checked.test == "all":
        raise ConfigError(f"{where}: manoeuvre.test = 'all': one test a sweep: {', '.join(MANOEUVRES)}")
    chosen(checked.test, checked.speed_kmh)
    return Gathered(checked.model_dump(), channels=False, makes_machines=True)


class IsoTest:
    def __init__(self, context: Context):
        self._settings = Settings.model_validate(context.settings)
        self._sources, self._step_s = context.sources, context.step_s

    def run(self, machine: Machine, params: np.ndarray, changed: dict[str, float], case: int) -> Log:
        car = assemble_vehicle("study", self._sources, changed, [])
        result = MANOEUVRES[self._settings.test].run(car, self._settings.speed_kmh, lambda *_: None)
        own = {_column(row.quantity): float(row.simulated) for row in result.rows}
        units = {_column(row.quantity): row.unit for row in result.rows}
        return Log({}, self._step_s, round(result.seconds / self._step_s), own, units)


def _column(quantity: str) -> str:
    return re.sub(r"\W+", "_", quantity).strip("_")


def prepare(context: Context) -> IsoTest:
    return IsoTest(context)
