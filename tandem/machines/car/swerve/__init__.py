"""A car with an obstacle on its road and a port model: the experiment of the haptic wheel (docs/steering_feel.md).

Its file names a car's; the car is made from that as ever, and this machine is the car with all its inputs, outputs,
parameters and looks, and the obstacle's behind them (obstacle.py).
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sync.config.toml import Section, check, read_toml
from sync.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np

    from sim_service.contract.machine import Machine
    from sim_service.registry import MachineFiles

__all__ = ["files", "make"]
_CAR = "car:"  # before the names of the car's files in a record
CARS = ("buggy", "single_track")


class SwerveFile(Section):
    machine: str
    car: str  # a vehicle file, relative to this one
    parameters: dict[str, float]  # of the obstacle, and of the car's outline


def files(data: dict[str, Any], file: Path, given: Mapping[str, Path]) -> dict[str, tuple[bytes, str]]:
    from sim_service.registry import gather

    path = file.parent / check(SwerveFile, data, str(file)).car
    if read_toml(path).get("machine") not in CARS:
        raise ConfigError(f"{file}: car = {data['car']!r}: must be the file of a car: machine = {' or '.join(CARS)}")
    found = gather(path, given)
    return {f"{_CAR}{key}": (content, found.name(key)) for key, content in found.files.items()}


# long: what a machine around a machine has, field by field
def make(data: dict[str, Any], sources: "MachineFiles", changed: dict[str, float]) -> "tuple[Machine, np.ndarray]":
    import numpy as np

    from sim_service.contract.machine import Efforts, Prediction, Reshape, Shown, Tables, index, tables
    from sim_service.contract.parameters import checked
    from sim_service.contract.scene import Scene, box
    from sim_service.registry import MachineFiles, make_machine
    from tandem.machines.car.swerve import description as obstacle

    begin = len(_CAR)
    own_files = {key[begin:]: content for key, content in sources.files.items() if key.startswith(_CAR)}
    names = {key[begin:]: name for key, name in sources.names.items() if key.startswith(_CAR)}
    written = check(SwerveFile, data, sources.name())
    own_names = {p.name for p in obstacle.PARAMETERS}
    car, car_params = make_machine(
        MachineFiles(own_files, names), {name: value for name, value in changed.items() if name not in own_names}
    )
    own = {name: value for name, value in changed.items() if name in own_names}
    params = np.concatenate(
        [car_params, checked("swerve", obstacle.PARAMETERS, written.parameters, own, sources.name())]
    )
    head = (len(car.states), len(car_params), len(car.outputs), car.work_size)
    looks = (index(car.outputs, name) for name in obstacle.LOOKS)
    if car.name == "buggy":
        from tandem.machines.car.buggy import dynamics
        from tandem.machines.car.swerve import with_buggy as with_car

        if car.step is not dynamics.step:
            raise ConfigError(f"{sources.name()}: car = {written.car!r}: an obstacle needs natural coordinates")
    else:
        from tandem.machines.car.swerve import with_single_track as with_car  # type: ignore[no-redef]

        if params[len(car_params) + obstacle.P.port] > 0.5:
            raise ConfigError(f"{sources.name()}: port = 1: {car.name} has no steering torque; the buggy has")
    states, outputs, frames = (
        len(car.states),
        len(car.outputs),
        1 if car.shown.scene is None else car.shown.scene.frames,
    )
    own_work = outputs + len(obstacle.OUTPUTS)

    def initial(state: np.ndarray, values: np.ndarray, made: Tables, work: np.ndarray) -> None:
        car.initial(state[:states], values[: len(car_params)], car.tables, work[own_work : own_work + car.work_size])
        state[states:] = 0.0
        state[states + obstacle.S.obstacle_clock] = obstacle.WAITING
        work[:outputs] = work[own_work : own_work + outputs]
        work[outputs:own_work] = 0.0

    def moved(state: np.ndarray, values: np.ndarray, out: np.ndarray) -> None:
        car.shown.frames(state[:states], values[: len(car_params)], out[:frames])
        of = state[states:]
        c, s = np.cos(of[obstacle.S.obstacle_yaw]), np.sin(of[obstacle.S.obstacle_yaw])
        deep = 0.0 if of[obstacle.S.obstacle_there] > 0.5 else -100.0  # below the road while there is none
        at = of[obstacle.S.obstacle_x], of[obstacle.S.obstacle_y], deep
        out[frames] = at, (c, s, 0.0), (-s, c, 0.0), (0.0, 0.0, 1.0)

    scene = car.shown.scene or Scene()
    half = [0.5 * float(params[len(car_params) + p]) for p in (obstacle.P.obstacle_length, obstacle.P.obstacle_width)]
    block = box("obstacle", frames, (-half[0], -half[1], 0.0), (half[0], half[1], 0.8))
    felt = ("felt_torque", "felt_brake", "felt_throttle") if car.name == "buggy" else ()
    return (
        replace(
            car,
            name="swerve",
            states=(*car.states, *obstacle.STATES),
            outputs=(*car.outputs, *obstacle.OUTPUTS),
            parameters=(*car.parameters, *obstacle.PARAMETERS),
            step=with_car.step,
            initial=initial,
            tables=tables(np.concatenate([[*head, *looks], car.tables.ints]), car.tables.floats),
            work_size=own_work + car.work_size + len(car.states) + len(car.inputs),
            capabilities=(
                Shown(car.shown.display, replace(scene, frames=frames + 1, solids=(*scene.solids, block)), moved),
                Efforts((*car.efforts, *felt)),
                car.placed,
                car.stepping,
                *(replace(own, fit=with_car.fit) for own in (car.of(Reshape),) if own is not None),
                *(own for own in (car.of(Prediction),) if own is not None),
            ),
        ),
        params,
    )
