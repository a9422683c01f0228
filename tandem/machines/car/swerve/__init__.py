"""A car with an obstacle on its road and a port model: the experiment of the haptic wheel (docs/steering_feel.md).

Its file names a car's; the car is made from that as ever, and this machine is the car with all its inputs, outputs,
parameters and looks, and the obstacle's behind them (obstacle.py).
"""

from collections.abc import Mapping
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


def files(data: dict[str, Any], file: Path, user_files: Mapping[str, Path]) -> dict[str, tuple[bytes, str]]:
    from sim_service.registry import gather

    path = file.parent / check(SwerveFile, data, str(file)).car
    if read_toml(path).get("machine") not in CARS:
        raise ConfigError(f"{file}: car = {data['car']!r}: must be the file of a car: machine = {' or '.join(CARS)}")
    return gather(path, user_files).as_inside(_CAR)


def make(data: dict[str, Any], sources: "MachineFiles", changed: dict[str, float]) -> "tuple[Machine, np.ndarray]":
    import numpy as np

    from sim_service.composite import Own, around
    from sim_service.contract.machine import Tables, index
    from sim_service.contract.parameters import checked
    from sim_service.contract.scene import box
    from sim_service.registry import make_machine
    from tandem.machines.car.swerve import description as obstacle

    written = check(SwerveFile, data, sources.name())
    own_names = {p.name for p in obstacle.PARAMETERS}
    own = {name: value for name, value in changed.items() if name in own_names}
    car, car_params = make_machine(
        sources.inside(_CAR), {name: value for name, value in changed.items() if name not in own_names}
    )
    own_params = checked("swerve", obstacle.PARAMETERS, written.parameters, own, sources.name())
    extra_work = 0
    efforts: tuple[str, ...] = ()
    if car.name == "buggy":
        from tandem.machines.car.buggy import dynamics
        from tandem.machines.car.swerve import with_buggy as with_car

        if car.step is not dynamics.step:
            raise ConfigError(f"{sources.name()}: car = {written.car!r}: an obstacle needs natural coordinates")
        extra_work, efforts = len(car.states) + len(car.inputs), ("felt_torque", "felt_brake", "felt_throttle")
    else:
        from tandem.machines.car.swerve import with_single_track as with_car  # type: ignore[no-redef]

        if own_params[obstacle.P.port] > 0.5:
            raise ConfigError(f"{sources.name()}: port = 1: {car.name} has no steering torque; the buggy has")
    states = len(car.states)

    def begin(state: np.ndarray, params: np.ndarray, tables: Tables, work: np.ndarray) -> None:
        state[states + obstacle.S.obstacle_clock] = obstacle.WAITING

    def frames(state: np.ndarray, params: np.ndarray, out: np.ndarray) -> None:
        of = state[states:]
        c, s = np.cos(of[obstacle.S.obstacle_yaw]), np.sin(of[obstacle.S.obstacle_yaw])
        deep = 0.0 if of[obstacle.S.obstacle_there] > 0.5 else -100.0  # below the road while there is none
        at = of[obstacle.S.obstacle_x], of[obstacle.S.obstacle_y], deep
        out[0] = at, (c, s, 0.0), (-s, c, 0.0), (0.0, 0.0, 1.0)

    length, width = (0.5 * float(own_params[p]) for p in (obstacle.P.obstacle_length, obstacle.P.obstacle_width))
    whole = around(
        car,
        Own(
            "swerve",
            with_car.step,
            states=obstacle.STATES,
            outputs=obstacle.OUTPUTS,
            parameters=obstacle.PARAMETERS,
            ints=[index(car.outputs, name) for name in obstacle.CAR_OUTPUTS],
            scratch=extra_work,
            begin=begin,
            efforts=efforts,
            solids=(box("obstacle", 0, (-length, -width, 0.0), (length, width, 0.8)),),
            frames=frames,
        ),
    )
    return whole, np.concatenate([car_params, own_params])
