"""From `[powertrain]` of a vehicle file to the single-track car with it around."""

from collections.abc import Mapping
from dataclasses import replace
from math import pi
from typing import Any

import numpy as np

from sim_service.composite import Own, around
from sim_service.contract.machine import Machine, Tables
from sync.compile.build import ensure
from sync.compile.parts import joined, lay_out
from sync.config.toml import check
from tandem.machines.car.buggy import brake_parameters
from tandem.machines.car.powertrain.layout import INPUTS, OUTPUTS, PARAMETERS, STATES, A, N, S
from tandem.machines.car.powertrain.sections import Powertrain
from tandem.machines.car.single_track.description import S as CAR_S

NAMES = tuple(p.name for p in PARAMETERS)
_NONE = [0.0, 1.0]


def powered(car: Machine, given: dict[str, Any], path: str) -> Machine:
    """The car with its powertrain; parameters of that begin as the file has them."""
    spec = check(Powertrain, given, path, "powertrain")
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
            parameters=_parameters(spec),
            ints=spans,
            floats=joined(reals, float),
            room=len(car.inputs) + len(brake_parameters.PARAMETERS),
            layout=f"powertrain {len(A)} {len(N)}",
            begin=_begin(len(car.states), spec),
        ),
    )


def _parameters(spec: Powertrain) -> tuple[Any, ...]:
    values = {
        "response_s": spec.engine.response_s if spec.engine else 0.0,
        "driveline_efficiency": spec.gearbox.efficiency if spec.gearbox else 1.0, "front_share": spec.drive.front,
        "centre_lock": spec.drive.lock, "centre_bias": spec.drive.bias,
        "regeneration": spec.motor.regeneration if spec.motor else 0.0, "pedal_bar": spec.brakes.pedal_bar,
        "abs": float(spec.brakes.abs),
    }  # fmt: skip
    return tuple(replace(p, value=values.get(p.name, p.value)) for p in PARAMETERS)


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


def _begin(states: int, spec: Powertrain) -> Any:
    def begin(state: np.ndarray, params: np.ndarray, given: Tables, work: np.ndarray) -> None:
        own, speed = state[states:], float(state[CAR_S.wheel_speed_rear])
        own[:] = 0.0
        own[S.front_valve_bar] = own[S.rear_valve_bar] = brake_parameters.OPEN_BAR
        if spec.engine is not None and spec.gearbox is not None:
            gear = _gear(spec, max(speed, 0.0))
            own[S.gear] = gear
            own[S.ratio] = own[S.ratio_before] = spec.gearbox.ratios[gear - 1] * spec.gearbox.final
            own[S.shift_clock] = spec.gearbox.shift_s + spec.gearbox.pause_s
            own[S.engine_speed] = max(spec.engine.idle_rpm * pi / 30.0, own[S.ratio] * speed)

    return begin


def split(changed: Mapping[str, float]) -> tuple[dict[str, float], dict[str, float]]:
    """Parameters of the car, and of its powertrain."""
    own = {name: value for name, value in changed.items() if name in NAMES}
    return {name: value for name, value in changed.items() if name not in NAMES}, own
