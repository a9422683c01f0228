"""The multibody mechanism beside the closed-form suspensions: the same wheel, found by two methods that share nothing.

The mechanism is closed with its chassis and lower ball joints held where the closed form has them, for every wheel
travel and every rack; then wheel centres, ball joints, tie rod ends, axles and spring lengths of all four corners are
compared.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sync.errors import ConfigError
from tandem.machines.car.buggy.analysis.corner import spring_length
from tandem.machines.car.buggy.analysis.suspension import at_travel
from tandem.machines.car.studies.vehicle.parameters import Loaded
from tandem.multibody.natural import problems
from tandem.multibody.natural.api import AssemblyError, State

POSITION, ANGLE = 1e-5, 1e-3  # m and degrees; below these the two are the same
_HELD = ("chassis", "ahead", "left", "up")


@dataclass(frozen=True, eq=False)
class Comparison:
    """Largest differences of front and rear [axle, travel, rack]; m and degrees."""

    travels: tuple[float, ...]
    racks: tuple[float, ...]
    position: np.ndarray
    angle: np.ndarray

    @property
    def largest(self) -> tuple[float, float]:
        return float(self.position.max()), float(self.angle.max())

    @property
    def agrees(self) -> bool:
        return self.largest[0] < POSITION and self.largest[1] < ANGLE


def compare(
    vehicle: Loaded, travels: tuple[float, ...], racks: tuple[float, ...], progress: Callable[[float], None]
) -> Comparison:
    shape = 2, len(travels), len(racks)
    position, angle = np.zeros(shape), np.zeros(shape)
    for i, travel in enumerate(travels):
        state = vehicle.built.system.state()
        for j, rack in enumerate(racks):
            position[:, i, j], angle[:, i, j] = _differences(vehicle, state, travel, rack)
            progress((i * len(racks) + j + 1) / position[0].size)
    return Comparison(travels, racks, position, angle)


def _differences(vehicle: Loaded, state: State, travel: float, rack: float) -> tuple[list[float], list[float]]:
    """Of both axles, at one travel of all wheels and one rack; leaves the mechanism there."""
    car = vehicle.built.car
    # what was added to the file's points, and what the table has taken from them
    origin = car.origin + np.array([vehicle.values["front_WC_x"], 0.0, 0.0])
    want = {}
    for corner in car.corners:
        left, front = corner.name[1] == "l", corner.name[0] == "f"
        mirror = np.array([1.0, 1.0 if left else -1.0, 1.0])
        pose = at_travel(vehicle.suspensions[0 if front else 1], travel, (rack if left else -rack) if front else 0.0)
        points = {name: mirror * point + origin for name, point in pose.points.items()}
        want[corner.name] = points, mirror[1] * mirror * pose.axle, spring_length(pose)
    state.inputs[0, 0] = rack
    held = {name: vehicle.built.system.state()[name] for name in _HELD}
    try:
        problems.assemble(state, **held, **{f"{name}.LBJ": points["LBJ"] for name, (points, _, _) in want.items()})
    except AssemblyError as error:
        raise ConfigError(f"{vehicle.path}: wheel travel {travel:+g} m, rack {rack:+g} m: {error}") from None
    position, angle = [0.0, 0.0], [0.0, 0.0]
    for corner in car.corners:
        points, axle, spring = want[corner.name]
        k = 0 if corner.name[0] == "f" else 1
        found = [state.value(corner.centre) - points["WC"]]
        found += [
            state[f"{corner.name}.{n}"] - points[n] for n in (("UBJ", "LBJ", "TRO") if k == 0 else ("LBJ", "TRO"))
        ]
        off = [float(np.linalg.norm(d)) for d in found]
        off.append(abs(float(np.linalg.norm(state.value(corner.spring))) - spring))
        position[k] = max(position[k], *off)
        # the sine: an arc cosine sees nothing below 1e-8 rad
        sine = float(np.linalg.norm(np.cross(state[f"{corner.name}.axle"], axle)))
        angle[k] = max(angle[k], float(np.degrees(np.arcsin(min(sine, 1.0)))))
    return position, angle
