"""The buggy in motion: from what was measured, and for the rest as it corners steadily at that speed.

Given may be pose, speed, yaw rate, and lateral speed or side-slip. The car at rest moves as one rigid body, its wheels
rolling; then it drives on the spot, as on a belt, with the inputs of its first step: after each step it is moved back
to its place, and what is given of its motion is put right. Springs, roll, tyres, and of yaw rate and side-slip what is
not given, come into equilibrium so, found by the very steps that go on from there. Motion of the bodies against each
other is damped meanwhile.

A given `ax`, or a prescribed speed, is held by torque and brakes (prescribed.py), so that axle loads and pitch are
those of it; with pedals alone the car pulls or brakes on the spot as they have it. On an uneven road it stands on the
belt where it begins. Where there is no equilibrium, beyond the limit of grip, it begins as far as it came, at a
side-slip of at most `MOST_SIDESLIP`.
"""

from collections.abc import Mapping
from math import atan2, cos, isnan, sin, tan

import numpy as np

from sim_service.contract.machine import Tables, index
from sync.compile.array_types import read_only
from sync.errors import ConfigError
from tandem.machines.car.buggy import driveline, dynamics, prescribed, slots
from tandem.machines.car.buggy.bodies import WHEELS
from tandem.machines.car.buggy.brake_parameters import STATES as BRAKE_STATES
from tandem.machines.car.buggy.description import INPUTS, OUTPUTS, P, V, W
from tandem.machines.car.buggy.driveline_parameters import M
from tandem.multibody import ground as roads
from tandem.multibody.natural.system import System
from tandem.multibody.natural.tables import P as Part

START_QUANTITIES = ("x", "y", "yaw", "vx", "vy", "yaw_rate", "sideslip", "ax")
STANDS = 0.1  # m/s; slower there is no cornering to be in equilibrium with
MOST_SIDESLIP = 0.3  # rad, of one that is not given
_STEP = 5e-3  # s
_LEAST, _MOST = 60, 600  # steps
_RAMP = 30  # steps in which the steering comes to its angle
_LEFT_OVER = 0.88  # of the bodies' motion against each other, after a step
_QUIET = 8  # steps in a row that change nothing any more
# by which the least of these may change in a step: roll, pitch, height, lateral speed, yaw rate
_WATCHED = (W.roll, W.pitch, W.z, W.vy, W.yaw_rate)
_SETTLED = np.array([3e-7, 3e-7, 3e-7, 1e-5, 5e-6])
_STEERED = tuple(index(INPUTS, name) for name in ("steering_angle", "prescribed_road_wheel_angle"))
_UNMOVED = tuple(index(INPUTS, name) for name in ("steering_speed", "steering_acceleration"))
_ALONE = ("steering_mode", "column_stiffness", "step_halving", "estimate_every")  # what does not matter on the belt


class _Car:
    """The state of a car, as rows that turn and move."""

    def __init__(self, system: System, state: np.ndarray, work: np.ndarray):
        self.work = work
        self.q, self.qd, self.qdd = (state[system.span(which)] for which in (Part.Q, Part.QD, Part.QDD))
        nodes = [node for node in system.mechanism.nodes.values() if len(node.columns) == 3]
        self.points = np.array([node.columns for node in nodes if node.kind == "point"])
        self.vectors = np.array([node.columns for node in nodes if node.kind != "point"])
        self.left = state[system.span(Part.ELEMENT)]
        self.spins = np.array([system.column(f"{name}.spin") for name in WHEELS])

    def move(self, x: float, y: float, z: float, yaw: float) -> None:
        """From where the outputs have it, turned by `yaw` about its upright and moved by z upwards."""
        c, s = cos(yaw), sin(yaw)
        turn = np.array([[c, s, 0.0], [-s, c, 0.0], [0.0, 0.0, 1.0]])  # of rows
        here, there = self.work[[W.x, W.y, W.z]], np.array([x, y, self.work[W.z] + z])
        self.q[self.points] = (self.q[self.points] - here) @ turn + there
        self.q[self.vectors] = self.q[self.vectors] @ turn
        for of in (self.qd, self.qdd):
            of[self.points], of[self.vectors] = of[self.points] @ turn, of[self.vectors] @ turn
        self.work[[W.x, W.y, W.z]] = there
        self.work[W.yaw] += yaw

    def rigid(self, vx: float, vy: float, rate: float) -> tuple[np.ndarray, np.ndarray]:
        """Velocities of points and vectors of a body that moves and turns so, in the axes of its heading."""
        c, s = cos(self.work[W.yaw]), sin(self.work[W.yaw])
        arm = self.q[self.points] - self.work[[W.x, W.y, W.z]]
        of_points, of_vectors = np.zeros(self.points.shape), np.zeros(self.vectors.shape)
        of_points[:, 0] = vx * c - vy * s - rate * arm[:, 1]
        of_points[:, 1] = vx * s + vy * c + rate * arm[:, 0]
        vectors = self.q[self.vectors]
        of_vectors[:, 0], of_vectors[:, 1] = -rate * vectors[:, 1], rate * vectors[:, 0]
        return of_points, of_vectors

    def moves(self, before: tuple[float, float, float], after: tuple[float, float, float], left_over: float) -> None:
        """Its planar motion becomes another; of what its bodies move against each other so much is left."""
        old, new = self.rigid(*before), self.rigid(*after)
        for columns, was, will in zip((self.points, self.vectors), old, new, strict=True):
            self.qd[columns] = will + left_over * (self.qd[columns] - was)
        self.spin(after[0] - before[0])

    def spin(self, dv: float) -> None:
        """Its wheels roll faster by that."""
        for w, column in enumerate(self.spins):
            of = self.left[slots.LEFT + dynamics.PER_WHEEL * w :]
            radius = of[V.rolling_radius] if of[V.rolling_radius] > 0.1 else prescribed.USUAL_RADIUS
            self.qd[column] += dv / radius
            of[V.wheel_speed] += dv / radius
            of[V.speed] += dv
            self.left[slots.BRAKES + len(BRAKE_STATES) * w + 1] += dv / radius


# long: one equilibrium, in the order in which it is found
def begin(
    system: System, path: str, state: np.ndarray, params: np.ndarray, constants: Tables, work: np.ndarray,
    inputs: np.ndarray, start_values: Mapping[str, float],
) -> None:  # fmt: skip
    """`state` and `work` are those of the car at rest; `inputs` those of its first step."""
    aimed = float(inputs[prescribed.SPEED])
    speed = start_values.get("vx", 0.0 if isnan(aimed) else aimed)
    car = _Car(system, state, work)
    _to_its_place(car, constants, start_values)
    place = float(work[W.x]), float(work[W.y]), float(work[W.yaw])
    memory = state[system.state_size :]
    memory[dynamics.YAW] = place[2]
    vy = start_values.get("vy", speed * tan(start_values["sideslip"]) if "sideslip" in start_values else None)
    rate = start_values.get("yaw_rate")
    if abs(speed) < STANDS:
        rate, vy = rate or 0.0, vy or 0.0
    if not (speed or vy or rate):
        dynamics.show(state, params, constants, work)
        return
    constants = Tables(constants.ints, read_only(constants.floats.copy()))
    on_belt = params.copy()
    for name in _ALONE:
        on_belt[P[name]] = 0.0
    row = inputs.copy()
    row[list(_UNMOVED)] = 0.0
    _set_off(car, on_belt, memory, speed, vy or 0.0, rate or 0.0)
    quiet, last = 0, np.full(len(_WATCHED), np.inf)
    for k in range(_MOST):
        now = row.copy()
        now[list(_STEERED)] = row[list(_STEERED)] * min((k + 1) / _RAMP, 1.0)
        if "ax" in start_values or not isnan(aimed):
            now[prescribed.SPEED] = speed + _STEP * _gain(start_values, work)
        dynamics.step(state, now, on_belt, constants, work, _STEP)
        _refuse(path, start_values, _lost(work))
        reached = float(work[W.vx]), float(work[W.vy]), float(work[W.yaw_rate]) / _upright(work)
        wanted_vy = reached[1] if vy is None else vy
        if vy is None and abs(atan2(wanted_vy, abs(speed))) > MOST_SIDESLIP:
            wanted_vy = abs(speed) * tan(MOST_SIDESLIP) * (1.0 if wanted_vy > 0.0 else -1.0)
        wanted = speed, wanted_vy, reached[2] if rate is None else rate / _upright(work)
        seen = work[list(_WATCHED)]
        quiet = quiet + 1 if (np.abs(seen - last) < _SETTLED).all() else 0
        last = seen
        car.moves(reached, wanted, _LEFT_OVER if k < _MOST - 1 and quiet < _QUIET else 1.0)
        car.move(place[0], place[1], 0.0, place[2] - float(work[W.yaw]))
        memory[dynamics.YAW] = place[2]
        car.left[slots.ENERGY] = slots.UNKNOWN
        if k >= _LEAST and quiet >= _QUIET:
            break
    loads = work[[W.load_fl, W.load_fr, W.load_rl, W.load_rr]]
    # one wheel in the air may be, two are a car that rolls over
    _refuse(path, start_values, bool((loads <= 0.0).sum() >= 2))
    state[0] = 0.0
    memory[dynamics.COUNT] = memory[dynamics.STEP_ERROR] = 0.0
    dynamics.show(state, params, constants, work)


def turn_about(system: System, state: np.ndarray, work: np.ndarray, yaw: float) -> None:
    """The same car where it is, turned about its upright; outputs are made by `dynamics.show`."""
    _Car(system, state, work).move(float(work[W.x]), float(work[W.y]), 0.0, yaw)
    state[system.state_size + dynamics.YAW] = work[W.yaw]


def _upright(work: np.ndarray) -> float:
    return float(max(cos(work[W.roll]) * cos(work[W.pitch]), 0.1))


def _gain(start_values: Mapping[str, float], work: np.ndarray) -> float:
    """How fast its speed grows: as its accelerometer has it, or not at all."""
    return start_values["ax"] + float(work[W.yaw_rate] * work[W.vy]) if "ax" in start_values else 0.0


def _to_its_place(car: _Car, constants: Tables, start_values: Mapping[str, float]) -> None:
    road = constants.floats[constants.ints[slots.NUMBERS] + slots.ROAD :]
    x, y = start_values.get("x", float(car.work[W.x])), start_values.get("y", float(car.work[W.y]))
    here = roads.surface(road, float(car.work[W.x]), float(car.work[W.y]))[0]
    lift = float(roads.surface(road, x, y)[0] - here)
    car.move(x, y, lift, start_values.get("yaw", float(car.work[W.yaw])) - float(car.work[W.yaw]))


def _set_off(car: _Car, params: np.ndarray, memory: np.ndarray, speed: float, vy: float, rate: float) -> None:
    """As one rigid body, wheels rolling, in the gear of that speed."""
    car.left[slots.BRAKES : slots.ENGINE] = 0.0
    car.moves((0.0, 0.0, 0.0), (speed, vy, rate), 0.0)
    radius = max(float(car.work[W.rolling_radius_rl]), 0.1)
    shift = memory[dynamics.SHIFT :]
    driveline.start(params[dynamics.DRIVELINE :], car.left, slots.ENGINE, shift, speed / radius)
    memory[dynamics.LAST + slots.RATIO - slots.DRIVE] = shift[M.ratio]
    car.left[slots.ENERGY] = slots.UNKNOWN


def _lost(work: np.ndarray) -> bool:
    found = work[: len(OUTPUTS)]
    return not np.isfinite(found).all() or bool(found[W.capped] >= 2.0 or found[W.overturned] != 0.0)


def _refuse(path: str, start_values: Mapping[str, float], lost: bool) -> None:
    if lost:
        words = ", ".join(f"{name} = {value:g}" for name, value in start_values.items())
        raise ConfigError(
            f"{path}: start: {words}: the car does not stay on its wheels; it must be a motion that it has had"
        )
