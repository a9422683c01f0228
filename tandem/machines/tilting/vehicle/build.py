"""From a file to the narrow vehicle: its tree, its tyres, where it stands, what is shown of it."""

from typing import Any, Literal

import numpy as np

from sim_service.contract.display import Display, Tile
from sim_service.contract.machine import Machine, Placed, Quantity, Shown, Tables, tables
from sim_service.contract.parameters import checked
from sync.config.toml import Section, check
from sync.errors import ConfigError
from tandem.machines.car.files import TYRES
from tandem.machines.car.tyres import transient as tyre_keys
from tandem.machines.car.tyres.keys import T
from tandem.machines.car.tyres.tir import vectors_from
from tandem.machines.tilting.vehicle.description import (
    INPUTS,
    JOINTS,
    LINK,
    OUTPUTS,
    PARAMETERS,
    SPIN,
    STATES,
    WHEELS,
    P,
)
from tandem.machines.tilting.vehicle.dynamics import WORK, G, N, step
from tandem.machines.tilting.vehicle.scene import Frames, scene
from tandem.multibody.contact.kinds import LOCKED, ROOT, SLIDE, SYMMETRIC, TURN
from tandem.multibody.contact.tree_tables import TreeTables, about_axis
from tandem.multibody.ground.files import road_of
from tandem.multibody.ground.surface import surface

_X, _Y, _Z = np.eye(3)
_DEG = 57.29577951308232


class VehicleFile(Section):
    machine: str
    tyre_front: str
    tyre_rear: str
    tyre_reading: Literal["strict", "tolerant"] = "strict"  # as a car's
    parameters: dict[str, float]


def loads(p: np.ndarray) -> tuple[float, float]:
    """Of the front wheel and of one rear wheel as it stands, N."""
    half = 0.5 * p[P.wheelbase]
    parts = ((p[P.body_mass], p[P.body_ahead]), (p[P.base_mass], p[P.base_ahead]), (p[P.wheel_mass], half),
             (2.0 * p[P.wheel_mass], -half))  # fmt: skip
    front = sum(m * (x + half) for m, x in parts) / p[P.wheelbase]
    return float(G * front), float(0.5 * G * (sum(m for m, _ in parts) - front))


def tree_of(p: np.ndarray, heights: tuple[float, float]) -> TreeTables:
    """`heights` of the axles above the ground, in front and behind, as it stands."""
    tree = TreeTables()
    parent = -1
    for axis, name in ((_X, "x"), (_Y, "y"), (_Z, "z")):
        parent = tree.link(name, parent, SLIDE, axis, ROOT)
    parent = tree.link("yaw", parent, TURN, _Z)
    parent = tree.link("pitch", parent, TURN, _Y)
    base = tree.link(
        "base_roll", parent, TURN, _X, mass=p[P.base_mass], centre=np.array([p[P.base_ahead], 0.0, p[P.base_height]]),
        inertia=np.diag(p[P.base_inertia_x : P.base_inertia_z + 1]),
    )  # fmt: skip
    joint = np.array([0.0, 0.0, p[P.joint_height]])
    tree.link(
        "tilt", base, TURN, _X, at=joint, mass=p[P.body_mass],
        centre=np.array([p[P.body_ahead], 0.0, p[P.body_height]]),
        inertia=np.diag(p[P.body_inertia_x : P.body_inertia_z + 1]),
    )  # fmt: skip
    half, side = 0.5 * p[P.wheelbase], 0.5 * p[P.track]
    for name, x, y, z in (
        ("front", half, 0.0, heights[0]),
        ("rl", -half, side, heights[1]),
        ("rr", -half, -side, heights[1]),
    ):
        carrier = tree.link(f"travel_{name}", base, SLIDE, _Z, at=np.array([x, y, z]))
        if name == "front":
            carrier = tree.link("steer_front", carrier, TURN, _Z, LOCKED)
        inertia = about_axis(_Y, p[P.wheel_inertia], 0.55 * p[P.wheel_inertia])
        tree.link(f"spin_{name}", carrier, TURN, _Y, SYMMETRIC, mass=p[P.wheel_mass], inertia=inertia)
    assert tree.names == [name for name, _ in JOINTS]
    return tree


def build(data: dict[str, Any], sources: Any, changed: dict[str, float]) -> tuple[Machine, np.ndarray]:
    path = sources.name()
    file = check(VehicleFile, data, path)
    params = checked("tilting_vehicle", PARAMETERS, file.parameters, changed, path)
    tyres = vectors_from(sources, TYRES, file.tyre_reading == "tolerant")
    road = road_of(sources.files)
    standing = loads(params)
    if min(standing) <= params[P.wheel_mass] * G:
        which = "front" if standing[0] < standing[1] else "rear"
        raise ConfigError(
            f"{path}: parameters: a {which} wheel would carry {min(standing):.0f} N; the centres of gravity"
            " (body_ahead, base_ahead) must lie well between the axles"
        )
    sunk = [load / tyre[T.VERTICAL_STIFFNESS] for load, tyre in zip(standing, tyres, strict=True)]
    heights = tuple(float(tyre[T.UNLOADED_RADIUS] - s) for tyre, s in zip(tyres, sunk, strict=True))
    tree = tree_of(params, (heights[0], heights[1]))
    own = params[P.wheel_mass] * G
    front, rear = standing[0] - own, standing[1] - own
    mass = (standing[0] + 2.0 * standing[1]) / G
    head = [0.0, 0.0, -G, front, rear, rear, mass]
    floats = np.concatenate([head, np.ravel(tree.numbers), *tyres, road])
    ints = np.ravel(np.array(tree.links, np.int32))

    def initial(state: np.ndarray, params: np.ndarray, tables: Tables, work: np.ndarray) -> None:
        state[:] = 0.0
        work[:] = 0.0
        z, slope_x, slope_y, _ = surface(tables.floats[-len(road) :], 0.0, 0.0)
        state[LINK.Z], state[LINK.PITCH], state[LINK.BASE_ROLL] = z, -np.arctan(slope_x), np.arctan(slope_y)
        state[N + LINK.X] = params[P.start_speed]
        for k, link in enumerate(SPIN):
            state[N + link] = params[P.start_speed] / heights[min(k, 1)]
        inputs = np.array([0.0, np.nan])
        step(state, inputs, params, tables, work, 0.0)

    tyre_states = tuple(Quantity(f"tyre_{s.name.lower()}_{w}", "", "of the tyre") for w in WHEELS for s in tyre_keys.S)
    machine = Machine(
        name="tilting_vehicle",
        inputs=INPUTS,
        states=(*STATES, *tyre_states),
        outputs=OUTPUTS,
        parameters=PARAMETERS,
        step=step,
        initial=initial,
        tables=tables(ints, floats),
        work_size=WORK,
        capabilities=(
            Shown(display=_display(), scene=scene(params, heights, standing), frames=Frames(ints, floats)),
            # counts and places in the road are never taken from a record
            Placed(layout=",".join(tree.names), remade=(len(floats) - len(road), len(floats))),
        ),
    )
    return machine, params


def _display() -> Display:
    return Display(
        hands=(
            Tile("steer", "steer", "deg", _DEG, 1, full=0.3),
            Tile("speed, wanted", "speed_wanted", "km/h", 3.6, 0, full=20.0),
        ),
        figures=(
            Tile("speed", "speed", "km/h", 3.6, 0), Tile("lean", "roll", "deg", _DEG, 1),
            Tile("felt sideways", "felt", "m/s²", 1.0, 2), Tile("frame's roll", "base_roll", "deg", _DEG, 1),
            Tile("tilt torque", "torque", "N m", 1.0, 0), Tile("load rear left", "load_rl", "N", 1.0, 0),
            Tile("load rear right", "load_rr", "N", 1.0, 0),
        ),
        plots=(("roll", "roll_wanted"), ("felt", "lateral_acceleration"), ("load_rl", "load_rr")),
    )  # fmt: skip
