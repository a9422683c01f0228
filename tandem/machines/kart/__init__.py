"""A kart on a belt: held by a load cell along and across, steered by a remote wheel, its four lateral forces live.

The kart does not turn and does not rise: wheel loads, toe and camber are set, and so is its yaw against the belt. It
moves along and across by what the load cell gives way, m a = sum of the tyres - (k s + c v), so that the cell reads
what the tyres do only where nothing accelerates. Wheels roll freely. Tyres are those of the cars (Magic Formula,
deflection in time, standstill).

A step is cut into equal substeps of at most `SUBSTEP`; in each the tyres come first, then spin and cell by backward
Euler, so that the balance of every substep closes to rounding.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from math import ceil, cos, pi, sin
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sim_service.contract.display import Display, Tile
from sim_service.contract.machine import STEP, Efforts, Machine, Placed, Quantity, Shown, Tables, tables
from sim_service.contract.parameters import checked
from sim_service.contract.scene import Arrow, Camera, Lever, Point, Scene, Wheel, box
from sync.compile.jit import kernel
from sync.config.toml import Section, check
from sync.errors import ConfigError
from tandem.machines.car.files import TYRES, car_files
from tandem.machines.car.tyres import transient as tyre_keys
from tandem.machines.car.tyres.formula import rolling_radius
from tandem.machines.car.tyres.keys import T
from tandem.machines.car.tyres.tir import vectors_from
from tandem.machines.car.tyres.transient import OUT, tyre
from tandem.machines.kart.description import (
    INPUTS,
    OUTPUTS,
    PARAMETERS,
    STATES,
    WHEEL,
    WHEELS,
    I,
    P,
    S,
    V,
    W,
)
from tandem.machines.kart.steering import front_angles
from tandem.multibody.natural.views import view

SUBSTEP = 0.5e-3  # s; a wheel on the spring of its tyre turns at about 300 rad/s
_DEG = 180.0 / pi
_NUMBERS = len(T)  # of a tyre
_PER_WHEEL, _TYRE_STATES, _TYRE_OUTPUTS, _OUTPUTS = len(WHEEL), tyre_keys.STATES, tyre_keys.OUTPUTS, len(OUTPUTS)
_TYRE_AT = len(STATES)
_TYRE_QUANTITIES = tuple(Quantity(f"tyre_{s.name.lower()}_{w}", "", "of the tyre") for w in WHEELS for s in tyre_keys.S)


@kernel(STEP, error_model="numpy")
def step(state, inputs, params, tables, work, h):
    out = work[_OUTPUTS:]
    left_angle, right_angle = front_angles(
        inputs[I.steering_angle],
        params[P.steering_ratio],
        params[P.ackermann],
        params[P.track_front],
        params[P.wheelbase],
    )
    belt, only = inputs[I.belt_speed], int(params[P.one_wheel] + 0.5)
    m, k, c, J = params[P.mass], params[P.cell_stiffness], params[P.cell_damping], params[P.wheel_inertia]
    count = max(ceil(h / SUBSTEP - 1e-9), 1)
    dt = h / count
    for _ in range(count):
        # over the belt, in the axes of the kart
        u = belt * cos(params[P.yaw]) + state[S.vx]
        v = -belt * sin(params[P.yaw]) + state[S.vy]
        along = across = turns = torque = 0.0
        for w in range(4):
            front, side = w < 2, 1.0 if w % 2 == 0 else -1.0
            p = view(tables.floats, 0 if front else _NUMBERS, _NUMBERS if front else 2 * _NUMBERS)
            load = params[P.wheel_load_fl + w] if only == 0 or only == w + 1 else 0.0
            toe, camber = (
                params[P.front_toe if front else P.rear_toe],
                params[P.front_camber if front else P.rear_camber],
            )
            angle = -side * toe
            if front:
                angle += left_angle if w == 0 else right_angle
            cd, sd = cos(angle), sin(angle)
            spin = state[S.wheel_speed_fl + w]
            radius = rolling_radius(p, load / p[T.VERTICAL_STIFFNESS], load, spin)
            at = _TYRE_AT + _TYRE_STATES * w
            tyre(
                p, state, state, at, dt, load, cd * u + sd * v, cd * v - sd * u, spin, radius, -side * camber,
                params[P.grip], side, False, 0.0, out,
            )  # fmt: skip
            Fx, Fy, Mz = out[OUT.FX], out[OUT.FY], out[OUT.MZ]
            state[S.wheel_speed_fl + w] = spin + dt * (out[OUT.MY] - radius * Fx) / (
                J + dt * radius * radius * out[OUT.CX]
            )
            X, Y = cd * Fx - sd * Fy, sd * Fx + cd * Fy
            along, across = along + X, across + Y
            x = 0.5 * params[P.wheelbase] * (1.0 if front else -1.0)
            turns += x * Y - 0.5 * side * params[P.track_front if front else P.track_rear] * X + Mz
            if front:
                torque += (params[P.caster_trail] * Fy - Mz) / params[P.steering_ratio]
            of = work[W.lateral_fl + _PER_WHEEL * w :]
            of[V.lateral], of[V.force_x], of[V.force_y], of[V.aligning] = Y, Fx, Fy, Mz
            of[V.slip_angle], of[V.load], of[V.steer] = out[OUT.ALPHA], load, angle
            of[V.wheel_speed] = state[S.wheel_speed_fl + w]

        # the cell
        give = 1.0 + dt / m * (c + dt * k)
        state[S.vx] = (state[S.vx] + dt / m * (along - k * state[S.x])) / give
        state[S.vy] = (state[S.vy] + dt / m * (across - k * state[S.y])) / give
        state[S.x] += dt * state[S.vx]
        state[S.y] += dt * state[S.vy]
        work[W.lateral_sum], work[W.longitudinal_sum] = across, along
        work[W.yaw_moment], work[W.steering_torque] = turns, torque
    work[W.cell_x] = k * state[S.x] + c * state[S.vx]
    work[W.cell_y] = k * state[S.y] + c * state[S.vy]


def initial(state: np.ndarray, params: np.ndarray, tables: Tables, work: np.ndarray) -> None:
    """At rest on a belt that stands; a step of no length makes the outputs."""
    state[:] = 0.0
    work[:] = 0.0
    step(state, np.zeros(len(INPUTS)), params, tables, work, 0.0)


def _display() -> Display:
    forces = tuple(Tile(f"lateral {w}", f"lateral_{w}", "N", 1.0, 0) for w in WHEELS)
    return Display(
        hands=(
            Tile("steering", "steering_angle", "deg", _DEG, 0, ways=("left", "right")),
            Tile("belt", "belt_speed", "km/h", 3.6, 1, full=15.0),
        ),
        figures=(
            Tile("load cell across", "cell_y", "N", 1.0, 0),
            *forces,
            Tile("their sum", "lateral_sum", "N", 1.0, 0),
            Tile("load cell along", "cell_x", "N", 1.0, 0),
            Tile("hand torque", "steering_torque", "N m", 1.0, 1),
        ),
        plots=(("cell_y", "lateral_sum"), ("lateral_fl", "lateral_fr"), ("lateral_rl", "lateral_rr")),
        families=(("all wheels", WHEELS),),
    )


def frames(state: np.ndarray, params: np.ndarray, out: np.ndarray) -> None:
    """The kart on its belt, which runs along x of the world."""
    c, s = cos(params[P.yaw]), sin(params[P.yaw])
    x, y = state[S.x], state[S.y]
    out[0] = (c * x - s * y, s * x + c * y, 0.0), (c, s, 0.0), (-s, c, 0.0), (0.0, 0.0, 1.0)


def scene(params: np.ndarray, radius: float) -> Scene:
    base = float(params[P.wheelbase])
    wheels, arrows = [], []
    for k, name in enumerate(WHEELS):
        track = float(params[P.track_front if k < 2 else P.track_rear])
        centre = Point(0, (base * (0.5 if k < 2 else -0.5), 0.5 * track * (1.0 if k % 2 == 0 else -1.0), radius))
        wheels.append(Wheel(name, centre, radius, radius, steer=f"steer_{name}", rate=f"wheel_speed_{name}"))
        arrows.append(Arrow(k, f"force_x_{name}", f"force_y_{name}", f"load_{name}"))
    half, at = 0.5 * base, np.array([0.1, 0.0, 0.5])
    behind = Camera("behind", (-2.2, 0.0, 1.4), (0.2, 0.0, 0.0))
    return Scene(
        wheels=tuple(wheels),
        solids=(box("kart", 0, (-half - 0.15, -0.35, 0.04), (half + 0.2, 0.35, 0.1)),),
        levers=(Lever("hand wheel", "wheel", at, np.array([-0.8, 0.0, 0.6]), 0.16, "steering_angle", 1.0),),
        arrows=tuple(arrows),
        size=base,
        cameras=(behind, Camera("above", (0.0, 0.0, 4.0), (0.0, 0.0, 0.0))),
        load=float(np.mean(params[P.wheel_load_fl : P.wheel_load_rr + 1])) or 400.0,
    )


MACHINE = Machine(
    name="kart",
    inputs=INPUTS,
    states=(*STATES, *_TYRE_QUANTITIES),
    outputs=OUTPUTS,
    parameters=PARAMETERS,
    step=step,
    initial=initial,
    work_size=_OUTPUTS + _TYRE_OUTPUTS,
    capabilities=(
        Shown(display=_display(), frames=frames),
        Placed(layout=hashlib.sha256(json.dumps([t.name for t in T]).encode()).hexdigest()[:16]),
        Efforts(("steering_torque", "cell_y")),
    ),
)


class KartFile(Section):
    machine: str
    tyre_front: str
    tyre_rear: str
    tyre_reading: Literal["strict", "tolerant"] = "strict"  # as a car's
    parameters: dict[str, float]


def files(data: dict[str, Any], file: Path, user_files: Mapping[str, Path]) -> dict[str, tuple[bytes, str]]:
    for key, name in user_files.items():
        raise ConfigError(f"sim.files.{key} = {str(name)!r}: a kart on its belt reads no further files")
    return car_files(data, file, user_files)


def make(data: dict[str, Any], sources: Any, changed: dict[str, float]) -> tuple[Machine, np.ndarray]:
    path = sources.name()
    file = check(KartFile, data, path)
    params = checked("kart", PARAMETERS, file.parameters, changed, path)
    vectors = vectors_from(sources, TYRES, file.tyre_reading == "tolerant")
    radius = float(vectors[0][T.UNLOADED_RADIUS])
    machine = replace(MACHINE, tables=tables(floats=np.concatenate(vectors)))
    return machine.having(replace(MACHINE.shown, scene=scene(params, radius))), params
