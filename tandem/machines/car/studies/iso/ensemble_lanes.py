"""The manoeuvre "lane-change" of a sweep: run-up and one passage through the lanes of ISO 3888-1, speed held.

The driver knows the car as the study's machine has it, whatever a run changes: hands follow the course of that car and
correct by place and heading. A test driver's 18 attempts are those of the manoeuvre "iso".
"""

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field

from sim_service.contract.machine import Machine
from sync.config.toml import Section, check
from tandem.ensembles.manoeuvres import Context, Gathered, Log
from tandem.machines.car.studies.iso.lanes import RUN_UP, SPEED, cones, course, hits, lanes_1, missed_gates, through
from tandem.machines.car.studies.iso.runner import Drive
from tandem.machines.car.studies.iso.sweep_vehicle import check_machine, nominal

_UNITS = {"gates_missed": "1", "cones_hit": "1", "least_room": "m"}


class Settings(Section):
    kind: Literal["lane-change"]
    speed_kmh: float = Field(SPEED, ge=10, le=250)
    leads: list[float] = Field([0.2, 0.3], min_length=2, max_length=2)  # of the changes' lengths
    late: float = 0.0


def gather(settings: dict[str, Any], machine: Machine, folder: Path, step_s: float, where: str) -> Gathered:
    checked = check(Settings, settings, where, "manoeuvre")
    check_machine(machine, step_s, checked.kind, where)
    return Gathered(checked.model_dump())


class LaneChange:
    def __init__(self, context: Context):
        settings = Settings.model_validate(context.settings)
        self._vehicle = nominal(context)
        self._speed = settings.speed_kmh / 3.6
        self._lanes = lanes_1(self._vehicle.width)
        self._cones = cones(self._lanes)
        first, second = settings.leads
        self._course = course(self._vehicle, self._lanes, (first, second), settings.late, self._speed, 0.0)
        self._channels, self._step_s = context.channels, context.step_s

    def run(self, machine: Machine, params: np.ndarray, changed: dict[str, float], case: int) -> Log:
        state, work = np.zeros(len(machine.states)), np.zeros(machine.work_size)
        machine.initial(state, params, machine.tables, work)
        vehicle = replace(self._vehicle, model=machine, params=params, state=state, work=work, step_errors=[])
        approach = Drive(vehicle)
        approach.reach(self._speed)
        shift = float(approach.work[approach.names["x"]]) + RUN_UP
        drive = approach.onward(replace(self._course, begin=self._course.begin + shift))
        log = through(drive, self._speed, self._lanes[-1].end, True)
        hit, clearance = hits(vehicle, log, self._cones + np.array([shift, 0.0]))
        own = {
            "gates_missed": float(missed_gates(self._lanes, log, shift)),
            "cones_hit": float(hit.sum()),
            "least_room": clearance,
        }
        steps = approach.steps + drive.steps
        return Log({name: log[name] for name in self._channels}, self._step_s, steps, own, _UNITS)


def prepare(context: Context) -> LaneChange:
    return LaneChange(context)
