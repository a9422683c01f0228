"""The car of a sweep: as the study has it, made once."""

import numpy as np

from sim_service.contract.machine import Machine
from sync.errors import ConfigError
from tandem.ensembles.manoeuvres import Context
from tandem.machines.car.studies.iso.vehicle import STEP_S, Vehicle, assemble_vehicle


def check_machine(machine: Machine, step_s: float, kind: str, where: str) -> None:
    if machine.name != "buggy":
        raise ConfigError(
            f"{where}: manoeuvre.kind = {kind!r}: drives the multibody car, machine = 'buggy'; this is {machine.name}"
        )
    if not np.isclose(step_s, STEP_S):
        raise ConfigError(f"{where}: step_ms = {1e3 * step_s:g}: {kind} is driven in steps of {1e3 * STEP_S:g} ms")


def nominal(context: Context) -> Vehicle:
    return assemble_vehicle("study", context.sources, context.changed, [])
