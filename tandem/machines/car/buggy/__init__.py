"""The buggy: eighteen bodies on tyres, with driveline, brakes and steering, in real time at 5 ms.

| file | holds |
|---|---|
| `description.py` | outputs, parameters, their places |
| `bodies.py` | bodies and joints |
| `law.py` | the laws of the forces, for both formulations and their derivatives |
| `forces.py` | the hook of natural coordinates: contact, tyres, brakes, springs, driveline, air |
| `relative_forces.py` | the same forces at an instant, with derivatives, for relative coordinates |
| `driveline.py`, `brakes.py` | what they say |
| `dynamics.py` | the step |
| `build.py` | from a vehicle file to a model that can be stepped |
| `scene.py` | what it looks like |
| `analysis/` | the same car by other means: suspension kinematics, linear theory |
"""

from typing import TYPE_CHECKING, Any

from tandem.machines.car.files import car_files as files

if TYPE_CHECKING:
    import numpy as np

    from sim_service.contract.machine import Machine
    from sim_service.registry import MachineFiles


__all__ = ["files", "make"]


def make(data: dict[str, Any], sources: "MachineFiles", changed: dict[str, float]) -> "tuple[Machine, np.ndarray]":
    from tandem.machines.car.buggy import build  # here: no file of the car should need all others to be compiled

    return build.make(data, sources, changed)
