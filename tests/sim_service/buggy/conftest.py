"""A car to drive by hand: the shipped buggy, stepped directly."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from sim_service.machines import gather, load_machine
from sim_service.machines.buggy.build import Assembled, assemble
from sim_service.machines.car.vehicle import VEHICLE_INPUTS
from sim_service.machines.contract import index

CONFIGS = Path(__file__).resolve().parents[3] / "configs"
VEHICLE = CONFIGS / "vehicles" / "buggy.toml"
WHEELS = ("fl", "fr", "rl", "rr")
G = 9.81


class Car:
    """A model and one life of it."""

    def __init__(self, changed: dict[str, float] | None = None, road: Path | None = None, vehicle: Path = VEHICLE):
        self.model, self.params = load_machine(vehicle, changed, {"road": road} if road else None)
        self.names = [q.name for q in self.model.outputs]
        self.state = np.zeros(len(self.model.states))
        self.work = np.zeros(self.model.work_size)
        self.inputs = np.zeros(len(VEHICLE_INPUTS))
        self.model.initial(self.state, self.params, self.model.tables, self.work)

    def __getitem__(self, name: str) -> float:
        return float(self.work[self.names.index(name)])

    def each(self, name: str) -> np.ndarray:
        return np.array([self[f"{name}_{w}"] for w in WHEELS])

    def set(self, **values: float) -> None:
        for name, value in values.items():
            self.inputs[index(VEHICLE_INPUTS, name)] = value

    def step(self, h: float = 5e-3) -> None:
        self.model.step(self.state, self.inputs, self.params, self.model.tables, self.work, h)

    def drive(self, seconds: float, keep: tuple[str, ...] = (), h: float = 5e-3, **values: float) -> np.ndarray:
        """Drive with constant inputs; what is kept of every step, a column each."""
        self.set(**values)
        places = [self.names.index(name) for name in keep]
        rows = []
        for _ in range(round(seconds / h)):
            self.step(h)
            rows.append(self.work[places])
        return np.array(rows)


def assembled(changed: dict[str, float] | None = None) -> Assembled:
    """The mechanism behind the shipped buggy."""
    sources = gather(VEHICLE)
    return assemble(sources.toml(), sources, changed or {})


@pytest.fixture
def car() -> Iterator[Car]:
    return Car()
