"""From a vehicle file to a car that can be stepped.

`make` checks the file as a whole, builds the mechanism and compiles its tables. `initial` stands the car on its road,
at rest in static equilibrium, brakes on: left to settle by the same steps that drive it, for nothing else knows all its
forces.
"""

import hashlib
import json
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from sim_service.contract.machine import (
    DeviceCode,
    Efforts,
    Machine,
    Moving,
    Placed,
    Prediction,
    Quantity,
    Reshape,
    Shown,
    Tables,
    Tangent,
    Unrolling,
    index,
    tables,
)
from sim_service.contract.parameters import checked
from sim_service.contract.scene import Scene
from sync.compile.array_types import read_only
from sync.compile.build import ensure
from sync.config.toml import Section, check
from sync.errors import ConfigError, first_findings
from tandem.machines.car.buggy import (
    brake_parameters,
    checks,
    driveline,
    dynamics,
    forces,
    prescribed,
    reshape,
    slots,
    start,
)
from tandem.machines.car.buggy.analysis.corner import spring_rate
from tandem.machines.car.buggy.analysis.suspension import Suspension, at_travel, rates
from tandem.machines.car.buggy.bodies import FRONT, REAR, WHEELS, Car, Points, body_points, build
from tandem.machines.car.buggy.description import INPUTS, OUTPUTS, PARAMETERS, P, W
from tandem.machines.car.buggy.driveline_parameters import M
from tandem.machines.car.buggy.from_figures import Figures, Tyre, resolve, tyre_dimensions
from tandem.machines.car.buggy.reference import reference_positions
from tandem.machines.car.buggy.scene import Frames, scene
from tandem.machines.car.display import car_display
from tandem.machines.car.files import TYRES
from tandem.machines.car.tyres.keys import T
from tandem.machines.car.tyres.tir import inflated, vectors_from
from tandem.multibody import ground as roads
from tandem.multibody.ground.files import road_files, road_of
from tandem.multibody.ground.layout import Head
from tandem.multibody.ground.sharpness import MOST_SLOPE, TooSharp, steepest_part
from tandem.multibody.natural import tables as core
from tandem.multibody.natural.errors import IllConditioned, MechanismError
from tandem.multibody.natural.settings import REAL_TIME
from tandem.multibody.natural.system import System
from tandem.multibody.natural.tables import P as Part
from tandem.multibody.portable import norm, product

STEP = 5e-3  # s, for which the penalties are chosen; others work too
SETTINGS = replace(REAL_TIME, cap=12)  # a wheel that breaks loose takes some more
_SETTLE = 600  # steps at most until what is left of a drop of the car is rounding
_AWHILE = 60  # steps
_HOLD = 600  # steps at most with brakes on, until the tyres hold it on a slope

_BRAKE = index(INPUTS, "brake_pressure_bar")
_LIMITS = {parameter.name: parameter for parameter in PARAMETERS}
_SIDES = dict(zip(WHEELS, ("front left", "front right", "rear left", "rear right"), strict=True))
_PARTS = {  # of the mechanism, and what of the vehicle file makes them
    "chassis": "sprung_mass, sprung_cg_x to _z, sprung_ixx to _ixz, rack_mass",
    "upper arm": "front.UAF, UAR, UBJ; front_upper_arm_mass",
    "lower arm": "front.LAF, LAR, LBJ; front_lower_arm_mass",
    "arm": "rear.LAF, LAR, LBJ; rear_arm_mass",
    "tie rod": "front.TRI, TRO",
    "toe link": "rear.TRI, TRO",
    "strut rod": "rear.TOP, SPL, CLAMP; strut_rod_mass",
    "strut": "rear.TOP, CLAMP",
    "front knuckle": "front.UBJ, LBJ, TRO, WC; front_knuckle_mass, front_knuckle_inertia",
    "rear knuckle": "rear.LBJ, TRO, CLAMP, WC; rear_knuckle_mass, rear_knuckle_inertia",
}
_FALLEN = 0.7  # rad
_WIDTH = 0.155  # m, of a tyre; only drawn
_STOP_DIGITS = 9  # of a length in m: found with functions of the mathematical library, so its last digits are not ours
_ON_STOP = 1e-3  # m; beyond the beginning of a stop by so much, a spring stands on it
_MOST_CARS = 8
_LARGE = 1 << 20  # numbers of a road; cars on one that large are not kept
_cars: dict[Any, Any] = {}  # assembled last, the newest at the end
Point = Annotated[list[float], Field(min_length=3, max_length=3)]


class VehicleFile(Section):
    machine: str
    formulation: Literal["natural", "relative"] = "natural"
    tyre_front: str
    tyre_rear: str
    tyre_reading: Literal["strict", "tolerant"] = "strict"  # tolerant: as published, what is not used is listed
    figures: Figures | None = None  # of the whole car; what follows from them replaces parameters and hardpoints
    powertrain: dict[str, Any] | None = None  # powertrain/sections.py; in the place of the driveline of the parameters
    parameters: dict[str, float]
    front: dict[str, Point]
    rear: dict[str, Point]


@dataclass(frozen=True)
class Assembled:
    car: Car
    system: System
    params: np.ndarray
    tables: Tables
    scene: Scene
    frames: Frames
    tyres: tuple[np.ndarray, np.ndarray]  # of the front and the rear wheels, as its steps read them
    unusual: tuple[str, ...]  # what of its hardpoints is far from what cars have
    follows: tuple[str, ...]  # what the figures of its file changed


def make(data: dict[str, Any], sources: Any, changed: dict[str, float]) -> tuple[Machine, np.ndarray]:
    if "powertrain" in data:
        return _powered(data, sources, changed)
    return _plain(data, sources, changed)


def _powered(data: dict[str, Any], sources: Any, changed: dict[str, float]) -> tuple[Machine, np.ndarray]:
    """With the section [powertrain] of the file."""
    from tandem.machines.car.powertrain.make import OF_BUGGY, of_buggy, powered_buggy, read, split

    path = sources.name()
    spec = read(data["powertrain"], path)
    if data.get("formulation") == "relative":
        what = "[powertrain] is not served in relative coordinates"
        raise ConfigError(f'{path}: formulation = "relative": {what}; formulation = "natural" serves it')
    of_car, own = split(changed, [p.name for p in OF_BUGGY])
    car, params = _plain(data, sources, of_car)
    for name, value in of_buggy(spec).items():
        if name not in of_car:
            params[P[name]] = value
    elements = assembled(data, sources, of_car).system.span(Part.ELEMENT).start
    whole = powered_buggy(car, spec, elements + slots.POWERTRAIN)
    added = checked(whole.name, whole.parameters[len(car.parameters) :], {}, own, path)
    return whole, np.concatenate([params, added])


def _plain(data: dict[str, Any], sources: Any, changed: dict[str, float]) -> tuple[Machine, np.ndarray]:
    built = assembled(data, sources, changed)
    other = partial(_other_shape, built, data, sources, changed)
    machine = _machine(built, sources.name()).having(_reshape(built, other))
    if data.get("formulation") == "relative":
        ensure("buggy-relative", "tandem.machines.car.buggy.relative_build")
        from tandem.machines.car.buggy import relative_build  # compiled code that only this formulation needs

        machine = relative_build.in_relative(machine, built, other, sources.name())
    return machine, built.params.copy()


def assembled(data: dict[str, Any], sources: Any, changed: dict[str, float]) -> Assembled:
    """Once a process from the same files and changes, wherever they lie: nobody writes into what is assembled."""
    texts = {name: repr(value) for name, value in changed.items()}  # 0.0 and -0.0 are equal, but not the same bits
    key = tuple(tuple(sorted(part.items())) for part in (sources.files, texts))
    built: Assembled | None = _cars.pop(key, None)
    built = built or assemble(data, sources, changed)
    road = _road_of(built)
    if road[Head.STEEPEST] <= MOST_SLOPE and len(road) < _LARGE:  # a steep one warns every time it is made
        _cars[key] = built
        for oldest in list(_cars)[:-_MOST_CARS]:
            _cars.pop(oldest, None)  # which another thread may have done
    return built


def assemble(
    data: dict[str, Any], sources: Any, changed: dict[str, float], road: np.ndarray | None = None,
    now: Mapping[str, float] | None = None,
) -> Assembled:  # fmt: skip
    """The mechanism, the parameters and the tables; on its files' road if none is given. `now`: live parameters by
    which it is judged, but not made."""
    path = sources.name()
    file = check(VehicleFile, data, path)
    parameters = file.parameters | _flat(file.front, "front", FRONT, path) | _flat(file.rear, "rear", REAR, path)
    values = checked("buggy", PARAMETERS, parameters, changed, path)
    tolerant = file.tyre_reading == "tolerant"
    tyres = vectors_from(sources, TYRES, tolerant)
    follows: list[str] = []
    if file.figures is not None:
        parameters, follows = _by_figures(parameters, file.figures, tyres, path)
        values = checked("buggy", PARAMETERS, parameters, changed, path)
    p = {parameter.name: float(value) for parameter, value in zip(PARAMETERS, values, strict=True)}
    tyres = [_inflated(p, key, vector, path) for key, vector in zip(TYRES, tyres, strict=True)]
    front, rear = _points(p, "front", FRONT), _points(p, "rear", REAR)
    road = _road(sources) if road is None else road
    radii = float(tyres[0][T.UNLOADED_RADIUS]), float(tyres[1][T.UNLOADED_RADIUS])
    wrong = checks.findings({**p, **(now or {})}, front, rear, radii, {**changed, **(now or {})})
    if wrong:
        raise ConfigError("\n".join(f"{path}: {finding}" for finding in wrong))
    unusual = checks.unusual(p, front, rear)
    if unusual:
        warnings.warn("\n".join(f"{path}: {finding}" for finding in unusual), checks.UnusualGeometry, stacklevel=3)
    stops = _stops(p, front, rear)
    try:
        car = build(p, front, rear)
        for_a_step = np.concatenate([values, np.zeros(slots.LIVE - len(values))])
        numbers = _numbers(car, *stops, tyres, road, body_points(front, rear))
        forces.add_forces(car, numbers, for_a_step, file.powertrain is not None)
        with warnings.catch_warnings():
            warnings.simplefilter("error", IllConditioned)
            system = car.mechanism.compile(h=STEP, settings=SETTINGS, hook=forces.hook)
    except (MechanismError, IllConditioned, np.linalg.LinAlgError) as error:
        raise ConfigError(f"{path}: {_translated(str(error))}") from None
    shown = scene(car, system, p, front, rear, radii, _WIDTH)
    return Assembled(car, system, values, _tables(system), *shown, (tyres[0], tyres[1]), tuple(unusual), tuple(follows))


def _by_figures(
    base: dict[str, float], figures: Figures, tyres: Sequence[np.ndarray], path: str
) -> tuple[dict[str, float], list[str]]:
    """The file's parameters as its figures change them, its tyres with their radius; and what follows, in sentences."""
    p = {
        q.name: float(value) for q, value in zip(PARAMETERS, checked("buggy", PARAMETERS, base, {}, path), strict=True)
    }
    try:
        if figures.tyre_size is not None:
            for vector in tyres:
                vector[T.UNLOADED_RADIUS] = tyre_dimensions(figures.tyre_size)[0]
        front, rear = (Tyre(float(v[T.UNLOADED_RADIUS]), float(v[T.VERTICAL_STIFFNESS])) for v in tyres)
        return resolve(p, figures, (front, rear))
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def _inflated(p: dict[str, float], key: str, tyre: np.ndarray, path: str) -> np.ndarray:
    name = f"{key.removeprefix('tyre_')}_tyre_pressure"
    return inflated(tyre, p[name], f"{path}: parameters.{name}") if p[name] > 0.0 else tyre


def _road(sources: Any) -> np.ndarray:
    road = road_of(sources.files)
    if road[Head.STEEPEST] > MOST_SLOPE:
        name = next(name for name in road_files(sources.files) if name.endswith(".toml"))
        text = f"{name}: {steepest_part(road)}: climbs by {road[Head.STEEPEST]:.3g} m per m at its steepest"
        warnings.warn(f"{text}; above {MOST_SLOPE:g} wheel loads depend on the time step", TooSharp, stacklevel=3)
    return np.asarray(road)


def _road_of(built: Assembled) -> np.ndarray:
    first = int(built.tables.ints[slots.NUMBERS]) + slots.ROAD
    return built.tables.floats[first : built.system.span(Part.PARAM).stop]


def _other_shape(
    built: Assembled, data: dict[str, Any], sources: Any, changed: dict[str, float], params: np.ndarray
) -> Assembled:
    """The same car with other parameters of those that shape it, its equations in the same places."""
    values = {p.name: float(params[P[p.name]]) for p in PARAMETERS if p.shapes}
    now = {p.name: float(params[P[p.name]]) for p in PARAMETERS if p.live}
    other = assemble(data, sources, {**changed, **values}, _road_of(built), now)
    if other.car.rack_sign != built.car.rack_sign:
        raise ConfigError(f"{sources.name()}: the tie rod would change sides of its axis; it needs a new start")
    if not np.array_equal(other.tables.ints, built.tables.ints):
        raise ConfigError(f"{sources.name()}: the mechanism of this shape has other equations; it needs a new start")
    return other


def _reshape(built: Assembled, other: Callable[[np.ndarray], Assembled]) -> Reshape:
    columns, at = reference_positions(built.car, built.system)

    def make(params: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found = other(params)
        return found.tables.floats, reference_positions(found.car, found.system)[1]

    return Reshape(make, reshape.fit, at, columns)


def _flat(points: dict[str, list[float]], axle: str, known: tuple[str, ...], path: str) -> dict[str, float]:
    """Hardpoints as parameters."""
    strange = [name for name in points if name not in known]
    wrong = [f"{path}: {axle}.{name}: no such point; there are {', '.join(known)}" for name in strange]
    wrong += [f"{path}: {axle}.{name}: is missing, a hardpoint [x, y, z] in m" for name in known if name not in points]
    for name, axis in ((name, axis) for name in known if name in points for axis in range(3)):
        limit, value = _LIMITS[f"{axle}_{name}_{'xyz'[axis]}"], points[name][axis]
        if not limit.low <= value <= limit.high:
            right = f"must be from {limit.low:g} to {limit.high:g} m" + "; points are of the left side" * (axis == 1)
            wrong.append(f"{path}: {axle}.{name}[{axis}] = {value:g}: {right}")
    if wrong:
        raise ConfigError(first_findings(wrong))
    return {f"{axle}_{name}_{axis}": v for name, at in points.items() for axis, v in zip("xyz", at, strict=True)}


def _points(p: dict[str, float], axle: str, names: tuple[str, ...]) -> Points:
    return {name: np.array([p[f"{axle}_{name}_{axis}"] for axis in "xyz"]) for name in names}


def suspensions(p: dict[str, float], front: Points, rear: Points) -> tuple[Suspension, Suspension]:
    return checks.suspension(p, "front", front), checks.suspension(p, "rear", rear)


def _translated(error: str) -> str:
    """The mechanism's description of its parts, with the entries of the vehicle file they are made of."""
    for name, words in _SIDES.items():
        error = re.sub(rf"\b{name}\b", words, error)
    parts = {part for part in _PARTS if part in error}
    # the longest name counts: a lower arm is no arm
    parts = {part for part in parts if not any(part != other and part in other for other in parts)}
    return error + "".join(f"; made of {_PARTS[part]}" for part in sorted(parts))


def _stops(p: dict[str, float], front: Points, rear: Points) -> tuple[list[float], list[float]]:
    """Spring lengths where the stops begin: front pressed and extended, rear; and their rates along the spring, in
    `stop_rate`: of one that is stated at the wheel 1 / (motion ratio there)²."""
    lengths, shares = [], []
    for suspension in suspensions(p, front, rear):
        for travel in checks.stop_travels(p, suspension):
            at = at_travel(suspension, travel)
            lengths.append(round(norm(at.points["SPU"] - at.points["SPL"]), _STOP_DIGITS))
            ratio = (
                spring_rate(suspension, at, rates(suspension, at)) if round(p["stops_at"]) == checks.AT_WHEEL else 1.0
            )
            shares.append(round(1.0 / ratio**2, _STOP_DIGITS))
    return lengths, shares


def _numbers(
    car: Car,
    stops: list[float],
    shares: list[float],
    tyres: Sequence[np.ndarray],
    road: np.ndarray,
    body: list[np.ndarray],
) -> np.ndarray:
    """The hook's constants, in the order of forces.py."""
    out = np.zeros(slots.TYRES)
    where = car.mechanism.where
    cg = where(car.centre)
    out[slots.STOPS : slots.STOPS + 4] = stops
    out[slots.STOP_SHARES : slots.STOP_SHARES + 4] = shares
    out[slots.CENTRE : slots.CENTRE + 3] = car.chassis.components(cg - car.chassis.reference_origin)
    out[slots.REFERENCE_HEIGHT : slots.REFERENCE_HEIGHT + 4] = [(where(c.centre) - cg)[2] for c in car.corners]
    out[slots.RACK_SIGN] = car.rack_sign
    out[slots.FRAMES : slots.BODY] = forces.frames(car)
    out[slots.BODY :] = [v for at in body for v in car.chassis.components(at + car.origin - cg)]
    return np.concatenate([out, *tyres, road])


def _tables(system: System) -> Tables:
    places = np.zeros(slots.HEAD, np.int32)
    first = len(system.part(Part.EL_KIND))  # the hook's forces come last
    places[slots.SIZE] = system.state_size
    places[slots.NUMBERS] = system.span(Part.PARAM).start + system.part(Part.EL_PARAM)[first]
    places[slots.RACK_ROW] = system.rows("rack.x")[0]
    places[slots.RACK_INPUT] = system.input("rack").start
    places[slots.PORTS] = system.part(Part.EL_PORT)[first]
    for w, name in enumerate(WHEELS):
        places[slots.SPIN + w] = system.column(f"{name}.spin")
    return tables(np.concatenate([places, system.ints]), system.reals)


def _machine(built: Assembled, path: str) -> Machine:
    system = built.system
    numbers_at = int(built.tables.ints[slots.NUMBERS])

    def monitor(params: np.ndarray) -> Any:
        ensure("buggy-stability", "tandem.machines.car.buggy.stability")
        from tandem.machines.car.buggy import stability as compiled  # what only a look ahead needs

        return compiled.monitor(params, numbers_at)

    def device() -> Any:
        from tandem.machines.car.buggy import natural_device  # what only a GPU needs

        return natural_device.source(built.tables)

    def initial(state: np.ndarray, params: np.ndarray, constants: Tables, work: np.ndarray) -> None:
        _stand(system, state, params, constants, work)
        _refuse_unsound(state, params, constants, work, path)

    def unrolled_code(machine: Machine, wait: bool) -> Machine:
        from tandem.multibody.natural import unrolling  # and a compiler

        return unrolling.unrolled(machine, slots.HEAD, wait)

    return Machine(
        name="buggy",
        inputs=INPUTS,
        states=_states(system),
        outputs=OUTPUTS,
        parameters=PARAMETERS,
        tables=built.tables,
        work_size=len(OUTPUTS) + system.work_size + dynamics.STEERING_WORK + system.state_size + dynamics.MEMORY,
        step=dynamics.step,
        initial=initial,
        capabilities=(
            Shown(display=car_display(OUTPUTS), scene=built.scene, frames=built.frames),
            Placed(layout=_layout(), remade=(numbers_at + slots.ROAD, system.span(Part.PARAM).stop)),
            Efforts(("steering_torque", "rack_force", "hand_wheel_angle")),
            Prediction(monitor),
            DeviceCode(device),
            Unrolling(unrolled_code),
            Moving(start.START_QUANTITIES, partial(start.begin, system, path)),
            Tangent("tandem.machines.car.buggy.tangent"),
        ),
    )


def _layout() -> str:
    """A hash of what stands where in the tables."""
    layout = [
        ["GIVEN" if p is Part.LIVE else p.name for p in Part],  # as records have it
        [t.name for t in T][: slots.TYRE],
        core.SETTINGS,
        slots.TYRES,
        slots.FRAMES,
        slots.HEAD,
    ]
    return hashlib.sha256(json.dumps(layout).encode()).hexdigest()[:16]


def _states(system: System) -> tuple[Quantity, ...]:
    """Names of the state: of the core's coordinates, their derivatives and multipliers, then of the elements."""
    axes = ("x", "y", "z")
    names = [
        f"{node.name}.{axes[i]}" if len(node.columns) > 1 else node.name
        for node in system.mechanism.nodes.values()
        for i in range(len(node.columns))
    ]
    out = [Quantity("time", "s", "")]
    out += [Quantity(f"{prefix}{n}", "", "") for prefix in ("", "rate of ", "second derivative of ") for n in names]
    out += [Quantity(f"multiplier of {c.name}", "", "") for c in system.constraints]
    out += [Quantity(f"rest {i}", "", "") for i in range(system.state_size + dynamics.MEMORY - len(out))]
    return tuple(out)


# standing


def _stand(system: System, state: np.ndarray, params: np.ndarray, constants: Tables, work: np.ndarray) -> None:
    """The car at rest on its road, centre of gravity above the origin, in static equilibrium."""
    params, floats = params.copy(), constants.floats.copy()  # to settle, they are changed
    constants = Tables(constants.ints, read_only(floats))
    size = system.state_size
    state[:] = 0.0
    work[:] = 0.0
    reference = system.state()
    state[:size] = reference.vector
    normal = _place(system, state[:size], constants)
    inputs = np.zeros(len(INPUTS))
    inputs[_BRAKE] = 40.0
    inputs[[prescribed.SPEED, prescribed.ANGLE]] = np.nan
    memory = state[size:]
    elements = state[system.span(Part.ELEMENT)]
    elements[slots.ENERGY] = slots.UNKNOWN  # before the first step
    driveline.start(params[dynamics.DRIVELINE :], elements, slots.ENGINE, memory[dynamics.SHIFT :], 0.0)
    memory[dynamics.ABS :: len(brake_parameters.MEMORY)] = brake_parameters.OPEN_BAR
    memory[dynamics.LAST + slots.RATIO - slots.DRIVE] = memory[dynamics.SHIFT + M.ratio]
    initial = state[size:].copy(), elements.copy()
    params[P.gear_mode] = 0.0  # no torque: an automatic would creep
    params[P.steering_mode] = params[P.column_stiffness] = 0.0  # held straight, by a rack that nothing moves

    # first without grip and with gravity square to the road, so that it sinks straight down
    weight = floats[system.span(Part.CONSTANT_FORCE)]
    down = weight.reshape(-1).copy()
    for node in system.mechanism.nodes.values():
        if len(node.columns) == 3:
            z = node.columns[2]
            weight[list(node.columns)] = down[z] * normal
    points = [node.columns for node in system.mechanism.nodes.values() if node.kind == "point"]
    q = state[system.span(Part.Q)]
    for _ in range(_SETTLE // _AWHILE):
        dynamics.settle(dynamics.step, state, inputs, params, constants, work, STEP, _AWHILE, True)
        for x, y, _ in points:  # where the road is uneven it slid a little
            q[x] -= work[W.x]
            q[y] -= work[W.y]
        work[W.x] = work[W.y] = 0.0
    weight[:] = down
    dynamics.settle(
        dynamics.step, state, inputs, params, constants, work, STEP, _HOLD, False
    )  # with brakes and grip, as on a slope
    state[0] = 0.0
    state[system.span(Part.QD)] = 0.0
    state[system.span(Part.QDD)] = 0.0
    state[system.span(Part.POWER)] = 0.0
    memory[:], elements[slots.ENGINE : slots.LEFT] = initial[0], initial[1][slots.ENGINE : slots.LEFT]
    memory[dynamics.YAW] = work[W.yaw]


def _refuse_unsound(state: np.ndarray, params: np.ndarray, constants: Tables, work: np.ndarray, path: str) -> None:
    """A car that stands with a wheel in the air or on its stops, or fell over, is not the one that was meant."""
    outputs = work[: len(OUTPUTS)]
    if not (np.isfinite(state).all() and np.isfinite(outputs).all()):
        raise ConfigError(f"{path}: the car finds no rest on its road; its masses, springs and points do not agree")
    numbers = _hooks(constants)
    wrong: dict[str, list[str]] = {}
    for w, name in enumerate(WHEELS):
        at = w * dynamics.PER_WHEEL
        load, length = outputs[W.load_fl + at], outputs[W.spring_length_fl + at]
        short, long = numbers[slots.STOPS + 2 * (w // 2) :][:2]
        if load <= 0.0:
            wrong.setdefault("carries no load", []).append(_SIDES[name])
        elif not short - _ON_STOP <= length <= long + _ON_STOP:
            problem = f"rests on its stop, its spring {length:.3f} m long and free from {short:.3f} to {long:.3f} m"
            wrong.setdefault(problem, []).append(_SIDES[name])
    lean = float(max(abs(outputs[W.roll]), abs(outputs[W.pitch])))
    if wrong or lean > _FALLEN:
        cg = ", ".join(f"{n} = {params[P[n]]:g}" for n in ("sprung_cg_x", "sprung_cg_y", "sprung_cg_z"))
        lines = [f"the {' and the '.join(names)} wheel {problem}" for problem, names in wrong.items()]
        lines += [f"the chassis leans by {np.degrees(lean):.0f} degrees"] * (lean > _FALLEN)
        right = f"it must stand on four wheels between their stops; see parameters {cg}, springs, and the road there"
        raise ConfigError("\n".join(f"{path}: at rest on its road {line}; {right}" for line in lines))


def _hooks(constants: Tables) -> np.ndarray:
    """The hook's constants."""
    return constants.floats[constants.ints[slots.NUMBERS] :]


def _place(system: System, car: np.ndarray, constants: Tables) -> np.ndarray:
    """Turn and lift the drawn car onto the plane that touches the road below it; that plane's normal."""
    z, slope_x, slope_y, _ = roads.surface(_hooks(constants)[slots.ROAD :], 0.0, 0.0)
    normal: np.ndarray = np.array([-slope_x, -slope_y, 1.0]) / np.sqrt(1.0 + slope_x**2 + slope_y**2)
    ahead = np.array([1.0, 0.0, slope_x]) / np.sqrt(1.0 + slope_x**2)
    rotation = np.array([ahead, np.cross(normal, ahead), normal]).T
    q = car[system.span(Part.Q)]
    for node in system.mechanism.nodes.values():
        if len(node.columns) == 3:
            at = list(node.columns)
            q[at] = product(rotation, q[at]) + (np.array([0.0, 0.0, z]) if node.kind == "point" else 0.0)
    return normal
