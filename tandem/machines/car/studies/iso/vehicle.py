"""The car of a test, twice: the model that is driven, and the figures linear theory makes of the same parameters.

Theory knows the parameters, the hardpoints and the slopes of the tyre formula at zero slip, and no more: nothing of the
multibody model is asked.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sim_service.contract.machine import Machine
from sim_service.registry import MachineFiles, gather, make_machine
from sync.errors import ConfigError
from tandem.machines.car.buggy.analysis.car import Car
from tandem.machines.car.buggy.build import assembled
from tandem.machines.car.studies.vehicle.parameters import (
    AXLES,
    analysis_table,
    linear_car,
    standing_corners,
)
from tandem.machines.car.tyres.keys import T
from tandem.machines.car.tyres.steady import capacity, effective_radius, steady
from tandem.multibody.ground.files import ROAD

STEP_S = 5e-3  # s, of every manoeuvre


@dataclass(frozen=True, eq=False)
class Vehicle:
    name: str
    sources: MachineFiles
    changed: dict[str, float]
    model: Machine
    params: np.ndarray
    state: np.ndarray  # standing
    work: np.ndarray
    values: dict[str, float]  # of the parameters
    tyres: tuple[np.ndarray, np.ndarray]  # vectors of front and rear
    linear: Car  # as it stands
    toe_in: tuple[float, float]  # of one front and one rear wheel of the standing car, rad
    camber: tuple[float, float]  # top outwards positive
    width: float  # over the tyres, m
    step_errors: list[float]  # the largest of each drive since the list was cleared, m

    def place(self, parameter: str) -> int:
        return next(i for i, p in enumerate(self.model.parameters) if p.name == parameter)

    @property
    def friction_x(self) -> float:
        """Peak longitudinal friction of the rear tyre at its static load."""
        load = 0.5 * self.linear.loads[1]
        return float(capacity(self.tyres[1], load, 0.0, self.values["grip"])[0]) / load

    def peak(self, axle: int, load: float, lateral: bool = False) -> float:
        """Peak force of one tyre at a load, N."""
        p = self.tyres[axle]
        f = min(max(load, float(p[T.LOW_LOAD])), float(p[T.HIGH_LOAD]))
        return float(capacity(p, f, 0.0, self.values["grip"])[int(lateral)]) * load / f

    def steady_forces(self, axle: int, load: float, slip: float, speed: float) -> tuple[float, ...]:
        """Fx, Fy, Mx, My, Mz of one upright tyre at a longitudinal slip."""
        found = steady(self.tyres[axle], load, slip, 0.0, 0.0, self.values["grip"], 1.0, speed)
        return tuple(float(value) for value in found)

    def arm(self, axle: int, load: float) -> float:
        """Torque on a wheel per force along it: the rolling radius, and what rolling resistance adds under drive."""
        p = self.tyres[axle]
        pulled = p[T.UNLOADED_RADIUS] * p[T.QSY2] * p[T.LMY] * load / p[T.NOMINAL_LOAD]
        return float(self.rolling_radius(axle, load) + pulled)

    def rolling_radius(self, axle: int, load: float) -> float:
        p = self.tyres[axle]
        return float(effective_radius(p, load))

    def altered(self, changed: dict[str, float]) -> "Vehicle":
        return assemble_vehicle(self.name, self.sources, self.changed | changed, self.step_errors)

    def on_road(self, text: str) -> "Vehicle":
        """The same car on a road that is given as the text of its file."""
        others = {key: data for key, data in self.sources.files.items() if not key.startswith(f"{ROAD}:")}
        sources = MachineFiles(others | {f"{ROAD}:road.toml": text.encode()}, self.sources.names)
        return assemble_vehicle(self.name, sources, self.changed, self.step_errors)


def load_vehicle(file: Path, changed: dict[str, float], road: Path | None = None) -> Vehicle:
    return assemble_vehicle(file.stem, gather(file, {ROAD: road} if road is not None else None), changed, [])


def assemble_vehicle(name: str, sources: MachineFiles, changed: dict[str, float], step_errors: list[float]) -> Vehicle:
    model, params = make_machine(sources, changed)
    if model.name != "buggy":
        raise ConfigError(
            f"{sources.name()}: machine = {model.name!r}: tandem iso drives the multibody car, machine = 'buggy'"
        )
    state, work = np.zeros(len(model.states)), np.zeros(model.work_size)
    model.initial(state, params, model.tables, work)
    values = {p.name: float(params[i]) for i, p in enumerate(model.parameters)}
    tyres = assembled(sources.toml(), sources, changed).tyres
    front, rear = standing_corners(analysis_table(values, tyres))
    return Vehicle(
        name=name,
        sources=sources,
        changed=changed,
        model=model,
        params=params,
        state=state,
        work=work,
        values=values,
        tyres=tyres,
        linear=linear_car(values, tyres),
        toe_in=(front.toe_in, rear.toe_in),
        camber=(front.camber, rear.camber),
        width=max(2.0 * values[f"{axle}_WC_y"] + _width(sources.files[f"tyre_{axle}"]) for axle in AXLES),
        step_errors=step_errors,
    )


def _width(tyre: bytes) -> float:
    """Of a tyre by its file, m; 0 if it is not given there."""
    found = re.search(rb"^\s*WIDTH\s*=\s*([0-9.eE+-]+)", tyre, re.MULTILINE)
    return float(found.group(1)) if found else 0.0
