"""A car to drive by hand: the shipped buggy, stepped directly."""

import functools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from sim_service.contract.machine import Machine, index
from sim_service.registry import gather, load_machine
from tandem.machines.car.buggy.build import Assembled, assemble
from tandem.machines.car.buggy.description import INPUTS
from tandem.machines.car.buggy.prescribed import ANGLE, SPEED

CONFIGS = Path(__file__).resolve().parents[5] / "configs"
VEHICLE = CONFIGS / "vehicles" / "buggy.toml"
WHEELS = ("fl", "fr", "rl", "rr")
G = 9.81


class Car:
    """A model and one life of it."""

    def __init__(self, changed: dict[str, float] | None = None, road: Path | None = None, vehicle: Path = VEHICLE):
        self.model, params = _made(vehicle, tuple(sorted((changed or {}).items())), road)
        self.params = params.copy()
        self.names = [q.name for q in self.model.outputs]
        self.state = np.zeros(len(self.model.states))
        self.work = np.zeros(self.model.work_size)
        self.inputs = np.zeros(len(INPUTS))
        self.inputs[[SPEED, ANGLE]] = np.nan
        self.model.initial(self.state, self.params, self.model.tables, self.work)

    def __getitem__(self, name: str) -> float:
        return float(self.work[self.names.index(name)])

    def each(self, name: str) -> np.ndarray:
        return np.array([self[f"{name}_{w}"] for w in WHEELS])

    def set(self, **values: float) -> None:
        for name, value in values.items():
            self.inputs[index(INPUTS, name)] = value

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


# Putting a car together takes 0.3 s of a processor, and what is made is constant: test_machine_contract.py holds every
# machine to that. So tests share it; files outside of configs/ are a test's own, and may be others the next time.


def _made(vehicle: Path, changed: tuple[tuple[str, float], ...], road: Path | None) -> tuple[Machine, np.ndarray]:
    shipped = all(CONFIGS in file.parents for file in (vehicle, road) if file is not None)
    return (_shipped if shipped else _load)(vehicle, changed, road)


def _load(vehicle: Path, changed: tuple[tuple[str, float], ...], road: Path | None) -> tuple[Machine, np.ndarray]:
    return load_machine(vehicle, dict(changed), {"road": road} if road else None)


_shipped = functools.cache(_load)


@functools.cache
def assembled() -> Assembled:
    """The mechanism behind the shipped buggy."""
    sources = gather(VEHICLE)
    return assemble(sources.toml(), sources, {})


@pytest.fixture
def car() -> Iterator[Car]:
    return Car()
