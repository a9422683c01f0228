"""From a file to the kart on its wheels: its tree, its tyres, where it stands, what is shown of it."""

from math import tan
from typing import Any, Literal

import numpy as np

from sim_service.contract.display import Display, Tile
from sim_service.contract.machine import Efforts, Machine, Placed, Quantity, Shown, Tables, tables
from sim_service.contract.parameters import checked
from sync.config.toml import Section, check
from sync.errors import ConfigError
from tandem.machines.car.files import TYRES
from tandem.machines.car.tyres import transient as tyre_keys
from tandem.machines.car.tyres.keys import T
from tandem.machines.car.tyres.tir import vectors_from
from tandem.machines.kart.vehicle.description import INPUTS, JOINTS, LINK, OUTPUTS, PARAMETERS, STATES, WHEELS, P
from tandem.machines.kart.vehicle.dynamics import WORK, G, N, step
from tandem.machines.kart.vehicle.scene import Frames, scene
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
    """Of one front wheel and of one rear wheel as it stands, N."""
    half = 0.5 * p[P.wheelbase]
    parts = (
        (p[P.rear_mass], p[P.rear_ahead]), (p[P.front_mass], p[P.front_ahead]),
        (2.0 * p[P.wheel_mass], half), (2.0 * p[P.wheel_mass], -half),
    )  # fmt: skip
    front = sum(m * (x + half) for m, x in parts) / p[P.wheelbase]
    return float(0.5 * G * front), float(0.5 * G * (sum(m for m, _ in parts) - front))


def kingpin(p: np.ndarray, side: float) -> np.ndarray:
    """Its direction, upwards; side 1: the left one."""
    axis = np.array([-tan(p[P.caster]), -side * tan(p[P.kingpin_inclination]), 1.0])
    return np.asarray(axis / np.linalg.norm(axis))


def tree_of(p: np.ndarray, heights: tuple[float, float]) -> TreeTables:
    """`heights` of the axles above the ground, in front and behind, as it stands."""
    tree = TreeTables()
    parent = -1
    for axis, name in ((_X, "x"), (_Y, "y"), (_Z, "z")):
        parent = tree.link(name, parent, SLIDE, axis, ROOT)
    parent = tree.link("yaw", parent, TURN, _Z)
    parent = tree.link("pitch", parent, TURN, _Y)
    rear = tree.link(
        "roll", parent, TURN, _X, mass=p[P.rear_mass], centre=np.array([p[P.rear_ahead], 0.0, p[P.rear_height]]),
        inertia=np.diag(p[P.rear_inertia_x : P.rear_inertia_z + 1]),
    )  # fmt: skip
    line = np.array([0.0, 0.0, p[P.frame_height]])
    front = tree.link(
        "twist", rear, TURN, _X, at=line, mass=p[P.front_mass],
        centre=np.array([p[P.front_ahead], 0.0, p[P.front_height] - p[P.frame_height]]),
        inertia=np.diag(p[P.front_inertia_x : P.front_inertia_z + 1]),
    )  # fmt: skip
    half, m, across = 0.5 * p[P.wheelbase], p[P.wheel_mass], 0.55 * p[P.wheel_inertia]
    wheel = about_axis(_Y, p[P.wheel_inertia], across)
    for name, side in (("fl", 1.0), ("fr", -1.0)):
        middle = 0.5 * p[P.track_front] * side
        pin = side * p[P.spindle_length]
        hub = tree.link(
            f"steer_{name}", front, TURN, kingpin(p, side), LOCKED, at=np.array([half, middle - pin, heights[0]]) - line
        )
        tree.link(f"spin_{name}", hub, TURN, _Y, SYMMETRIC, at=np.array([0.0, pin, 0.0]), mass=m, inertia=wheel)
    out = 0.5 * p[P.track_rear]
    inertia = about_axis(_Y, turning(p), 2.0 * across + 2.0 * m * out * out)
    at = np.array([-half, 0.0, heights[1]])
    tree.link("axle", rear, TURN, _Y, SYMMETRIC, at=at, mass=2.0 * m, inertia=inertia)
    assert tree.names == [name for name, _ in JOINTS]
    return tree


def turning(p: np.ndarray) -> float:
    """Inertia of the rear axle and what turns with it."""
    return float(p[P.axle_inertia] + 2.0 * p[P.wheel_inertia])


def build(data: dict[str, Any], sources: Any, changed: dict[str, float]) -> tuple[Machine, np.ndarray]:
    path = sources.name()
    file = check(VehicleFile, data, path)
    params = checked("kart_vehicle", PARAMETERS, file.parameters, changed, path)
    tyres = vectors_from(sources, TYRES, file.tyre_reading == "tolerant")
    road = road_of(sources.files)
    standing = loads(params)
    if min(standing) <= params[P.wheel_mass] * G:
        which = "front" if standing[0] < standing[1] else "rear"
        raise ConfigError(
            f"{path}: parameters: a {which} wheel would carry {min(standing):.0f} N; the centres of gravity"
            " (rear_ahead, front_ahead) must lie well between the axles"
        )
    if 2.0 * params[P.spindle_length] >= params[P.track_front]:
        raise ConfigError(
            f"{path}: parameters.spindle_length = {params[P.spindle_length]:g}: must be less than half of track_front"
        )
    heights = tuple(
        float(tyre[T.UNLOADED_RADIUS] - load / tyre[T.VERTICAL_STIFFNESS])
        for load, tyre in zip(standing, tyres, strict=True)
    )
    tree = tree_of(params, (heights[0], heights[1]))
    head = [0.0, 0.0, -G, 0.5 * params[P.track_rear], turning(params)]
    floats = np.concatenate([head, np.ravel(tree.numbers), *tyres, road])
    ints = np.ravel(np.array(tree.links, np.int32))

    def initial(state: np.ndarray, params: np.ndarray, tables: Tables, work: np.ndarray) -> None:
        state[:] = 0.0
        work[:] = 0.0
        z, slope_x, slope_y, _ = surface(tables.floats[-len(road) :], 0.0, 0.0)
        state[LINK.Z], state[LINK.PITCH], state[LINK.ROLL] = z, -np.arctan(slope_x), np.arctan(slope_y)
        state[N + LINK.X] = params[P.start_speed]
        for link, height in ((LINK.SPIN_FL, heights[0]), (LINK.SPIN_FR, heights[0]), (LINK.AXLE, heights[1])):
            state[N + link] = params[P.start_speed] / height
        step(state, np.zeros(len(INPUTS)), params, tables, work, 0.0)

    tyre_states = tuple(Quantity(f"tyre_{s.name.lower()}_{w}", "", "of the tyre") for w in WHEELS for s in tyre_keys.S)
    machine = Machine(
        name="kart_vehicle",
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
            Efforts(("steering_torque",)),
        ),
    )
    return machine, params


def _display() -> Display:
    return Display(
        hands=(
            Tile("steering", "steering_angle", "deg", _DEG, 0, ways=("left", "right")),
            Tile("throttle", "throttle", "%", 100.0, 0, full=1.0),
            Tile("brake", "brake", "%", 100.0, 0, full=1.0),
        ),
        figures=(
            Tile("speed", "speed", "km/h", 3.6, 0), Tile("sideways", "lateral_acceleration", "m/s²", 1.0, 1),
            Tile("hand torque", "steering_torque", "N m", 1.0, 1), Tile("load fl", "load_fl", "N", 1.0, 0),
            Tile("load fr", "load_fr", "N", 1.0, 0), Tile("load rl", "load_rl", "N", 1.0, 0),
            Tile("load rr", "load_rr", "N", 1.0, 0), Tile("twist", "twist", "deg", _DEG, 2),
        ),
        plots=(("load_rl", "load_rr"), ("lift_rl", "lift_rr"), ("steering_torque", "")),
        families=(("all wheels", WHEELS),),
    )  # fmt: skip
