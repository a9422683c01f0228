"""A vehicle file as linear theory and closed-form kinematics read it.

The values are those of the model's own parameters, after every check of its loading; the tyres those of the files it
names. `analysis_table` lays them out as `tandem/machines/car/buggy/analysis` wants them, with x from the front axle;
`linear_car` is what linear theory makes of them. `tandem vehicle report` and `tandem iso` read the same.
"""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sim_service.registry import MachineFiles, gather
from sync.errors import ConfigError
from tandem.machines.car.buggy.analysis.car import Axle, Car, Tyre, build, standing, suspensions
from tandem.machines.car.buggy.analysis.corner import Corner, corner
from tandem.machines.car.buggy.analysis.steady import understeer
from tandem.machines.car.buggy.analysis.suspension import Suspension, at_travel
from tandem.machines.car.buggy.bodies import FRONT, REAR
from tandem.machines.car.buggy.build import Assembled, assemble
from tandem.machines.car.buggy.description import PARAMETERS
from tandem.machines.car.tyres.keys import T
from tandem.machines.car.tyres.steady import relaxation, steady, stiffness

AXLES = ("front", "rear")
_SMALL = 1e-5  # rad, of the differences that give the slopes of the tyre
_ROLLING = 10.0  # m/s, at which they are taken
_LEAST_SHARE, _HALVINGS = 0.4, 14


@dataclass(frozen=True, eq=False)
class Loaded:
    """A vehicle file with everything that is made of it but the model's steps."""

    path: str
    sources: MachineFiles
    changed: dict[str, float]
    built: Assembled
    values: dict[str, float]  # of the parameters
    tyres: tuple[np.ndarray, np.ndarray]
    table: dict[str, Any]
    suspensions: tuple[Suspension, Suspension]


def load_vehicle(file: Path, changed: dict[str, float]) -> Loaded:
    """The vehicle, with parameters changed; whatever is wrong with it is a `ConfigError`."""
    sources = gather(file)
    data = sources.toml()
    if data["machine"] != "buggy":
        raise ConfigError(
            f"{file}: machine = {data['machine']!r}: has no suspension to report of; machine = 'buggy' has one"
        )
    built = assemble(data, sources, changed)
    values = {p.name: float(v) for p, v in zip(PARAMETERS, built.params, strict=False)}
    tyres = built.tyres
    table = analysis_table(values, tyres)
    return Loaded(str(file), sources, changed, built, values, tyres, table, suspensions(table))


def analysis_table(v: dict[str, float], tyres: tuple[np.ndarray, np.ndarray]) -> dict[str, Any]:
    """The parameters as `analysis` reads them: x from the front axle, hardpoints of the left side."""
    start = v["front_WC_x"]

    def points(axle: str, names: tuple[str, ...]) -> dict[str, list[float]]:
        return {n: [v[f"{axle}_{n}_x"] - start, v[f"{axle}_{n}_y"], v[f"{axle}_{n}_z"]] for n in names}

    wheel = {"m": v["wheel_mass"], "Iyy": v["wheel_spin_inertia"], "Ixx=Izz": v["wheel_transverse_inertia"]}
    both = {
        axle: {
            "free_radius": float(p[T.UNLOADED_RADIUS]),
            "loaded_radius_design": v[f"{axle}_WC_z"],
            "vertical_stiffness": float(stiffness(p)),
            "vertical_damping": float(p[T.VERTICAL_DAMPING]),
        }
        for axle, p in zip(AXLES, tyres, strict=True)
    }
    return {
        "wheelbase": start - v["rear_WC_x"],
        "front_double_wishbone": points("front", FRONT),
        "rear_macpherson": points("rear", REAR),
        "alignment": {axle: (v[f"{axle}_camber"], v[f"{axle}_toe"]) for axle in AXLES},
        "masses": {
            "sprung": v["sprung_mass"],
            "sprung_cg": [v["sprung_cg_x"] - start, v["sprung_cg_y"], v["sprung_cg_z"]],
            "sprung_inertia": {name: v[f"sprung_{name.lower()}"] for name in ("Ixx", "Iyy", "Izz", "Ixz")},
        },
        "corner_bodies_front": {
            "wheel+hub+disc": wheel,
            "knuckle": {"m": v["front_knuckle_mass"]},
            **_arm("upper_arm", v["front_upper_arm_mass"]),
            **_arm("lower_arm", v["front_lower_arm_mass"]),
        },
        "corner_bodies_rear": {
            "wheel+hub+disc": wheel,
            "knuckle": {"m": v["rear_knuckle_mass"]},
            **_arm("lower_arm", v["rear_arm_mass"]),
            "strut_rod": {"m": v["strut_rod_mass"]},
        },
        "spring_damper": {
            axle: {
                "k": v[f"{axle}_spring_rate"],
                "c": 0.5 * (v[f"{axle}_damper_bump"] + v[f"{axle}_damper_rebound"]),
                "free_length": v[f"{axle}_spring_length"],
            }
            for axle in AXLES
        },
        "tyre": both["front"],
        "tyre_front": both["front"],
        "tyre_rear": both["rear"],
        "steering": {
            "rack_travel_per_rev": v["rack_travel_per_turn"],
            "rack_limit": v["rack_limit"],
            "column_inertia": v["column_inertia"],
        },
        "brakes": {"front_Nm_per_bar": v["brake_front"], "rear_Nm_per_bar": v["brake_rear"]},
        "aero": {"rho": v["air_density"], "CdA": v["drag_area"]},
        "rolling_resistance": float(tyres[0][T.QSY1]),
    }


def _arm(name: str, mass: float) -> dict[str, dict[str, float]]:
    """A thin triangle, as the mechanism takes it, has weight and inertia of thirds at the middles of its sides.

    The hinge's stays with the chassis; the other two rise half as much as the wheel.
    """
    return {name: {"m": mass * 2.0 / 3.0, "share": 0.5}, f"{name} at its hinge": {"m": mass / 3.0, "share": 0.0}}


def linear_tyre(p: np.ndarray, grip: float, load: float) -> Tyre:
    """Slopes of a tyre by central differences; `load` is where a single figure must do (relaxation)."""

    def slope(at: float, slip: float, camber: float, which: int) -> float:
        ahead = steady(p, at, 0.0, slip, camber, grip, 1.0, _ROLLING)[which]
        return float(ahead - steady(p, at, 0.0, -slip, -camber, grip, 1.0, _ROLLING)[which]) / (2.0 * _SMALL)

    within = min(max(load, float(p[T.LOW_LOAD])), float(p[T.HIGH_LOAD]))
    return Tyre(
        cornering=lambda at: -slope(at, _SMALL, 0.0, 1),
        camber=lambda at: -slope(at, 0.0, _SMALL, 1),
        aligning=lambda at: slope(at, _SMALL, 0.0, 4),
        stiffness=float(stiffness(p)),
        damping=float(p[T.VERTICAL_DAMPING]),
        relaxation=float(relaxation(p, within, 0.0)[1]),
    )


def standing_corners(table: dict[str, Any]) -> tuple[Corner, Corner]:
    """One front and one rear wheel of the car at rest."""
    front, rear = (
        corner(suspension, at.travel, radius=at.radius_from_load)
        for suspension, at in zip(suspensions(table), standing(table), strict=True)
    )
    return front, rear


def linear_car(v: dict[str, float], tyres: tuple[np.ndarray, np.ndarray]) -> Car:
    """The car linear theory knows, as it stands on its springs and tyres, with its anti-roll bars."""
    table = analysis_table(v, tyres)
    front, rear = (linear_tyre(p, v["grip"], float(p[T.NOMINAL_LOAD])) for p in tyres)
    car = build(table, front, rear, settled=True)
    axles = [
        dataclasses.replace(
            axle,
            tyre=linear_tyre(p, v["grip"], 0.5 * load),
            anti_roll=anti_roll(v[f"{name}_anti_roll"], suspension, axle),
        )
        for name, axle, p, load, suspension in zip(AXLES, car.axles, tyres, car.loads, suspensions(table), strict=True)
    ]
    return dataclasses.replace(car, front=axles[0], rear=axles[1])


def anti_roll(rate: float, suspension: Suspension, axle: Axle) -> float:
    """N m per rad of roll, of a bar that gives a force at each lower ball joint per difference of their heights."""
    up, down = (at_travel(suspension, z).points["LBJ"][2] for z in (1e-3, -1e-3))
    return rate * (float(up - down) / 2e-3 * axle.track) ** 2


def softened(values: dict[str, float], tyres: tuple[np.ndarray, np.ndarray], gradient: float) -> tuple[float, float]:
    """Shares of the lateral slip stiffness of front and rear tyres with which the car has an understeer gradient.

    An axle whose steering and bushings give way is like one with softer tyres (effective axle stiffness). The front
    ones get softer; the rear ones where the rigid car understeers more than that. ValueError, with the gradient of the
    rigid car: none does.
    """

    def more(axle: int, share: float) -> float:
        changed = [p.copy() for p in tyres]
        changed[axle][T.LKY] *= share
        return understeer(linear_car(values, (changed[0], changed[1]))).total - gradient

    rigid = more(0, 1.0)
    axle, low, high = int(rigid > 0.0), _LEAST_SHARE, 1.0
    if rigid * more(axle, low) > 0.0:
        raise ValueError(rigid + gradient)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if rigid * more(axle, middle) < 0.0 else (low, middle)
    return (high, 1.0) if axle == 0 else (1.0, high)
