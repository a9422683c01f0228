"""From `[powertrain]` of a vehicle file to the car with it around."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from math import pi
from typing import Any

import numpy as np

from sim_service.composite import Own, around
from sim_service.contract.machine import Machine, Parameter, Tables, index
from sync.compile.build import ensure
from sync.compile.parts import joined, lay_out
from sync.config.toml import check
from tandem.machines.car.buggy import brake_parameters
from tandem.machines.car.powertrain.layout import (
    ABS_STATES,
    FRONT_AXLE,
    INPUTS,
    LIVE,
    OUTPUTS,
    PARAMETERS,
    STATES,
    A,
    L,
    N,
    P,
    S,
)
from tandem.machines.car.powertrain.sections import Powertrain
from tandem.machines.car.single_track.description import S as CAR_S

NAMES = tuple(p.name for p in PARAMETERS)
OF_BUGGY = (*PARAMETERS[: P.abs], *FRONT_AXLE)
_SHOWN_INSIDE = 2  # engine speed and gear are outputs of the buggy already, the first of these
_NONE = [0.0, 1.0]


def read(section: Any, path: str) -> Powertrain:
    spec: Powertrain = check(Powertrain, section, path, "powertrain")
    return spec


def powered(car: Machine, section: dict[str, Any], path: str) -> Machine:
    """The single-track car with its powertrain; parameters of that begin as the file has them."""
    spec = read(section, path)
    ensure("powertrain", "tandem.machines.car.powertrain.step")
    from tandem.machines.car.powertrain import step as stepping  # compiled code that only such a car needs

    reals = _numbers(spec)
    spans, (_, _) = lay_out(len(A), (0, {}), (0, reals))
    return around(
        car,
        Own(
            car.name,
            stepping.step,
            inputs=INPUTS,
            states=STATES,
            outputs=OUTPUTS,
            parameters=_parameters(spec, PARAMETERS),
            ints=spans,
            floats=joined(reals, float),
            scratch=len(car.inputs) + len(brake_parameters.PARAMETERS),
            layout=f"powertrain {len(A)} {len(N)}",
            begin=_begin(len(car.states), spec, lambda state, work: float(state[CAR_S.wheel_speed_rear])),
        ),
    )


def powered_buggy(car: Machine, spec: Powertrain, left_at: int) -> Machine:
    """The multibody car with its powertrain, which leaves its states at `left_at` of the car's."""
    ensure("powertrain-buggy", "tandem.machines.car.powertrain.with_buggy")
    from tandem.machines.car.powertrain import with_buggy as stepping

    reals = _numbers(spec)
    spans, (_, _) = lay_out(len(A), (0, {}), (0, reals))
    rolls = index(car.outputs, "wheel_speed_rear")
    begin = _begin(len(car.states), spec, lambda state, work: float(work[rolls]))

    def with_engine(state: np.ndarray, params: np.ndarray, tables: Tables, work: np.ndarray) -> None:
        begin(state, params, tables, work)
        state[left_at : left_at + len(L)] = 0.0
        state[left_at + L.engine_speed] = work[index(car.outputs, "engine_speed")] = state[len(car.states)]
        work[index(car.outputs, "gear")] = state[len(car.states) + S.gear]

    return around(
        car,
        Own(
            car.name,
            stepping.step,
            inputs=INPUTS,
            states=STATES[:-ABS_STATES],
            outputs=OUTPUTS[_SHOWN_INSIDE:],
            parameters=_parameters(spec, OF_BUGGY),
            ints=spans,
            floats=joined(reals, float),
            scratch=len(car.inputs),
            layout=f"powertrain {len(A)} {len(N)} {LIVE}",
            begin=with_engine,
        ),
    )


def of_buggy(spec: Powertrain) -> dict[str, float]:
    """Parameters of the buggy itself, as far as the section says them."""
    found = {"abs": float(spec.brakes.abs)} if "abs" in spec.brakes.model_fields_set else {}
    rear = spec.drive.rear_axle
    if rear is not None:
        found |= {f"differential_{name}": getattr(rear, name) for name in type(rear).model_fields}
    return found


def _parameters(spec: Powertrain, of: tuple[Parameter, ...]) -> tuple[Parameter, ...]:
    values = {
        "response_s": spec.engine.response_s if spec.engine else 0.0,
        "driveline_efficiency": spec.gearbox.efficiency if spec.gearbox else 1.0, "front_share": spec.drive.front,
        "centre_lock": spec.drive.lock, "centre_bias": spec.drive.bias,
        "regeneration": spec.motor.regeneration if spec.motor else 0.0, "pedal_bar": spec.brakes.pedal_bar,
        "abs": float(spec.brakes.abs),
    }  # fmt: skip
    values |= {f"front_differential_{name}": value for name, value in spec.drive.front_axle.model_dump().items()}
    return tuple(replace(p, value=values.get(p.name, p.value)) for p in of)


def _numbers(spec: Powertrain) -> dict[int, Any]:
    engine, gears, motor, coupling, stops = (
        spec.engine,
        spec.gearbox,
        spec.motor,
        spec.coupling,
        spec.brakes,
    )
    one: dict[str, float] = {"engine": float(engine is not None), "motor": float(motor is not None)}
    one |= {"clutch": float(coupling.kind == "clutch"), "locks_from_gear": float(coupling.locks_from_gear)}
    one |= {n: getattr(coupling, n) for n in ("capacity", "stall_ratio", "coupling", "locks_at", "most", "engages_rpm")}
    one |= {n: getattr(stops, n) for n in ("booster_knee", "booster_rest", "lag_s")}
    if motor is not None:
        one |= {f"motor_{n}": getattr(motor, n) for n in ("torque", "ratio", "front", "efficiency")}
        one |= {"motor_power": 1e3 * motor.power_kw, "regeneration_pedal": motor.regeneration_pedal}
    pedal, rows, rpm, ratios, up, down = _NONE, [_NONE, _NONE], _NONE, [1.0], [_NONE], [_NONE]
    if engine is not None and gears is not None:
        (pedal, rows), rpm, ratios = engine.rows(), engine.rpm, gears.ratios
        up, down = gears.pairs("up_rpm"), gears.pairs("down_rpm")
        one |= {"inertia": engine.inertia, "idle_rpm": engine.idle_rpm, "limit_rpm": engine.limit_rpm or rpm[-1]}
        one |= {n: getattr(gears, n) for n in ("final", "shift_s", "pause_s")}
    numbers = np.zeros(len(N))
    for name, value in one.items():
        numbers[N[name]] = value
    return {
        A.NUMBERS: numbers, A.RPM: rpm, A.PEDAL: pedal, A.TORQUE: np.ravel(rows), A.RATIOS: ratios,
        A.UP: np.ravel(up), A.DOWN: np.ravel(down), A.ABS: [p.value for p in brake_parameters.PARAMETERS],
    }  # fmt: skip


def _gear(spec: Powertrain, speed: float) -> int:
    """That of this speed of the wheels, pedal released."""
    assert spec.gearbox is not None
    ratios, ups = spec.gearbox.ratios, spec.gearbox.pairs("up_rpm")
    rpm = 30.0 / pi * speed * spec.gearbox.final
    return next((k + 1 for k in range(len(ratios) - 1) if rpm * ratios[k] <= ups[k][0]), len(ratios))


def _begin(states: int, spec: Powertrain, rolls: Callable[[np.ndarray, np.ndarray], float]) -> Any:
    """Engine and gear as the wheels roll."""

    def begin(state: np.ndarray, params: np.ndarray, tables: Tables, work: np.ndarray) -> None:
        own, speed = state[states:], rolls(state, work)
        own[:] = 0.0
        if len(own) == len(STATES):
            own[S.front_valve_bar] = own[S.rear_valve_bar] = brake_parameters.OPEN_BAR
        if spec.engine is not None and spec.gearbox is not None:
            gear = _gear(spec, max(speed, 0.0))
            own[S.gear] = gear
            own[S.ratio] = own[S.ratio_before] = spec.gearbox.ratios[gear - 1] * spec.gearbox.final
            own[S.shift_clock] = spec.gearbox.shift_s + spec.gearbox.pause_s
            own[S.engine_speed] = max(spec.engine.idle_rpm * pi / 30.0, own[S.ratio] * speed)

    return begin


def split(changed: Mapping[str, float], names: Collection[str] = NAMES) -> tuple[dict[str, float], dict[str, float]]:
    """Parameters of the car, and of its powertrain."""
    own = {name: value for name, value in changed.items() if name in names}
    return {name: value for name, value in changed.items() if name not in names}, own
