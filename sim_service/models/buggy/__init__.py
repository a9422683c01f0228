"""The buggy: eighteen bodies on tyres, with driveline, brakes and steering, in real time at 5 ms.

| file | holds |
|---|---|
| `description.py` | outputs, parameters, their places |
| `mechanism.py` | bodies and joints |
| `forces.py` | the hook: contact, tyres, brakes, springs, driveline, air |
| `driveline.py`, `brakes.py` | what they say |
| `dynamics.py` | the step |
| `making.py` | from a vehicle file to a model that can be stepped |
| `scene.py` | what it looks like |
| `analysis/` | the same car by other means: suspension kinematics, linear theory |
"""

from sim_service.models.buggy.making import make

__all__ = ["make"]
