"""Omni wheels: a test bench for one, and platforms on several, with every roller a body (docs/omni.md).

The physics is in tandem/multibody/contact and `dynamics`, the figures are in `description`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sim_service.contract.display import Display, Tile
from sim_service.contract.machine import Machine, Placed, Quantity, Shown, Tables, index, tables
from sim_service.contract.parameters import checked
from sync.config.toml import check
from sync.errors import ConfigError
from tandem.machines.omni.build import Ground, build, checked_wheels
from tandem.machines.omni.description import (
    BOOKS,
    COMMON_OUTPUTS,
    CONTACT_PARAMETERS,
    CONTROL_PARAMETERS,
    PLATFORM_INPUTS,
    PLATFORM_OUTPUTS,
    RIG_INPUTS,
    RIG_OUTPUTS,
    WHEEL_OUTPUTS,
    OmniFile,
)
from tandem.machines.omni.dynamics import machine_work_size, step
from tandem.machines.omni.scene import make_frames, scene
from tandem.machines.omni.wheel import cos_sin_deg
from tandem.multibody.ground.files import read_road_files, road_files, road_of
from tandem.multibody.ground.sharpness import most_bent


def files(data: dict[str, Any], file: Path, user_files: Mapping[str, Path]) -> dict[str, tuple[bytes, str]]:
    return read_road_files(user_files, "an omni machine")


def make(data: dict[str, Any], sources: Any, changed: dict[str, float]) -> tuple[Machine, np.ndarray]:
    path = sources.name()
    file = check(OmniFile, data, path)
    road = road_of(sources.files) if road_files(sources.files) else None
    wheels = checked_wheels(file, path, road is not None)
    if road is not None and (bend := most_bent(road)) * file.wheel.radius > 1.0:
        name = next(name for name in road_files(sources.files) if name.endswith(".toml"))
        raise ConfigError(
            f"{name}: bends by {bend:.3g} 1/m at its sharpest: a wheel of radius {file.wheel.radius:g} m would touch it"
            f" in two points, and is followed in one; at most {1.0 / file.wheel.radius:.3g} 1/m: make bumps longer or"
            " lower"
        )
    tree, ints, floats = build(file, wheels, road)
    # counts and places in the road are never taken from a record
    remade = (0, 0) if road is None else (len(floats) - len(road), len(floats))
    ground = Ground(tree, road)
    rig = file.platform is None
    parameters = CONTACT_PARAMETERS + (() if rig else CONTROL_PARAMETERS)
    params = checked("omni", parameters, file.parameters, changed, path)
    states = tuple(
        Quantity(name + ending, unit + per, text)
        for ending, per, text in (("", "", "of the joint"), ("_rate", "/s", "of the joint"))
        for name, unit in zip(tree.names, ("m", "m", "m", *("rad",) * (len(tree.names) - 3)), strict=True)
    )
    if not rig:
        states += tuple(Quantity(f"lagged_{q.name}", q.unit, "the command as it is followed") for q in PLATFORM_INPUTS)
        states += PLATFORM_OUTPUTS[10:13]
        # the books stand before them
    states = states[: 2 * len(tree.names)] + BOOKS + states[2 * len(tree.names) :]
    outputs: tuple[Quantity, ...] = COMMON_OUTPUTS
    for k in range(len(wheels)):
        name = "wheel" if rig else f"wheel{k + 1}"
        outputs += tuple(Quantity(f"{name}_{end}", unit, text) for end, unit, text in WHEEL_OUTPUTS)
    outputs += RIG_OUTPUTS if rig else PLATFORM_OUTPUTS

    def initial(state: np.ndarray, params: np.ndarray, tables: Tables, work: np.ndarray) -> None:
        state[:] = 0.0
        work[:] = 0.0
        state[2] = file.wheel.radius
        ground.stand(file, state)
        if file.bench is not None:
            n = len(tree.names)
            state[2] += file.bench.height
            state[5] = file.bench.angle_deg * 0.017453292519943295
            state[n], state[n + 1] = file.bench.speed
            state[n + 3], state[n + 5] = file.bench.yaw_rate, file.bench.spin
            _, sine = cos_sin_deg(file.bench.angle_deg)
            state[index(states, "last_speed")] = file.wheel.distance * sine * file.bench.spin  # of roller 1

    machine = Machine(
        name="omni",
        inputs=RIG_INPUTS if rig else PLATFORM_INPUTS,
        states=states,
        outputs=outputs,
        parameters=parameters,
        step=step,
        initial=initial,
        tables=tables(ints, floats),
        work_size=machine_work_size(len(tree.links), len(tree.contacts), len(outputs)),
        capabilities=(
            Shown(display=_display(rig), scene=scene(file, tree, wheels), frames=make_frames(tree, wheels, ground)),
            Placed(layout=",".join(tree.names), remade=remade),
        ),
    )
    return machine, params


def _display(rig: bool) -> Display:
    if rig:
        return Display(
            hands=(Tile("axle torque", "torque_axle", "N m", 1.0, 2, full=1.0),),
            figures=(
                Tile("speed", "speed_x", "m/s", 1.0, 2), Tile("spin", "spin", "rad/s", 1.0, 1),
                Tile("servo torque", "servo_torque", "N m", 1.0, 3), Tile("load", "wheel_load", "N", 1.0, 1),
                Tile("roller", "wheel_roller", "", 1.0, 0), Tile("energy error", "energy_error", "mJ", 1e3, 3),
            ),
            plots=(("wheel_load", "servo_torque"), ("roller1_height", "wheel_slip")),
        )  # fmt: skip
    return Display(
        hands=(
            Tile("ahead, wanted", "command_ahead", "m/s", 1.0, 2, full=1.0),
            Tile("left, wanted", "command_left", "m/s", 1.0, 2, full=1.0),
            Tile("turn, wanted", "command_turn", "rad/s", 1.0, 2, full=2.0),
        ),
        figures=(
            Tile("ahead", "speed_ahead", "m/s", 1.0, 2), Tile("left", "speed_left", "m/s", 1.0, 2),
            Tile("turn", "turn_rate", "rad/s", 1.0, 2), Tile("path error", "path_error", "mm", 1e3, 1),
            Tile("load 1", "wheel1_load", "N", 1.0, 1), Tile("slip 1", "wheel1_slip", "m/s", 1.0, 3),
        ),
        plots=(("speed_ahead", "speed_left"), ("wheel1_load", "accel_z"), ("x", "ideal_x")),
    )  # fmt: skip
