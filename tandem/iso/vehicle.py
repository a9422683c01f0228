"""The car of a test, twice: the model that is driven, and the figures linear theory makes of the same parameters.

Theory knows the parameters, the hardpoints and the slopes of the tyre formula at zero slip, and no more: nothing of the
multibody model is asked.
"""

import dataclasses
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sim_service.models import ROAD, VEHICLE, Sources, gather, make_model
from sim_service.models.buggy.analysis.car import Axle, Car, Tyre, build, standing
from sim_service.models.buggy.analysis.corner import corner
from sim_service.models.buggy.analysis.suspension import Suspension, at_travel, double_wishbone, macpherson
from sim_service.models.buggy.mechanism import FRONT, REAR
from sim_service.models.description import Model
from sim_service.models.tyres.keys import T
from sim_service.models.tyres.magic_formula import capacity, effective_radius, steady
from sim_service.models.tyres.tir import parse_tir, tyre_vector
from sim_service.models.tyres.transient import relaxation
from sync.errors import ConfigError

_SMALL = 1e-5  # rad, of the differences that give the slopes of the tyre
_ROLLING = 10.0  # m/s, at which they are taken


@dataclass(frozen=True, eq=False)
class Vehicle:
    name: str
    sources: Sources
    changed: dict[str, float]
    model: Model
    params: np.ndarray
    state: np.ndarray  # standing
    work: np.ndarray
    values: dict[str, float]  # of the parameters
    tyres: tuple[np.ndarray, np.ndarray]  # vectors of front and rear
    linear: Car  # as it stands
    toe_in: tuple[float, float]  # of one front and one rear wheel of the standing car, rad
    camber: tuple[float, float]  # top outwards positive
    width: float  # over the tyres, m

    def place(self, parameter: str) -> int:
        return next(i for i, p in enumerate(self.model.parameters) if p.name == parameter)

    @property
    def friction_x(self) -> float:
        """Peak longitudinal friction of the rear tyre at its static load."""
        load = 0.5 * self.linear.loads[1]
        return float(capacity(self.tyres[1], load, 0.0, self.values["grip"])[0]) / load

    def peak(self, axle: int, load: float, lateral: bool = False) -> float:
        """Peak force of one tyre at a load, N."""
        p = self.tyres[axle]
        f = min(max(load, float(p[T.LOW_LOAD])), float(p[T.HIGH_LOAD]))
        return float(capacity(p, f, 0.0, self.values["grip"])[int(lateral)]) * load / f

    def steady_forces(self, axle: int, load: float, slip: float, speed: float) -> tuple[float, ...]:
        """Fx, Fy, Mx, My, Mz of one upright tyre at a longitudinal slip."""
        found = steady(self.tyres[axle], load, slip, 0.0, 0.0, self.values["grip"], 1.0, speed)
        return tuple(float(value) for value in found)

    def rolling_radius(self, axle: int, load: float) -> float:
        p = self.tyres[axle]
        return float(effective_radius(p, load / p[T.VERTICAL_STIFFNESS]))

    def altered(self, changed: dict[str, float]) -> "Vehicle":
        return _made(self.name, self.sources, self.changed | changed)

    def on_road(self, text: str) -> "Vehicle":
        """The same car on a road that is given as the text of its file."""
        kept = {key: data for key, data in self.sources.files.items() if not key.startswith("road:")}
        return _made(self.name, Sources(kept | {f"road:{ROAD}": text.encode()}, self.sources.names), self.changed)


def load_vehicle(file: Path, changed: dict[str, float], road: Path | None = None) -> Vehicle:
    return _made(file.stem, gather(file, road), changed)


def _made(name: str, sources: Sources, changed: dict[str, float]) -> Vehicle:
    model, params = make_model(sources, changed)
    if model.name != "buggy":
        raise ConfigError(
            f"{sources.name(VEHICLE)}: model = {model.name!r}: tandem iso drives the multibody car, model = 'buggy'"
        )
    state, work = np.zeros(len(model.states)), np.zeros(model.work_size)
    model.initial(state, params, work)
    values = {p.name: float(params[i]) for i, p in enumerate(model.parameters)}
    texts = [sources.files[key].decode("utf-8", "replace") for key in ("tyre_front", "tyre_rear")]
    tyres = [
        tyre_vector(parse_tir(text, sources.name(key))) for text, key in zip(texts, ("front", "rear"), strict=True)
    ]
    widths = [2.0 * values[f"{axle}_WC_y"] + _width(text) for axle, text in zip(("front", "rear"), texts, strict=True)]
    pair = tyres[0], tyres[1]
    stands = [
        corner(suspension, standing(_table(values, tyre))[k].travel)
        for k, (suspension, tyre) in enumerate(zip((_front(values), _rear(values)), tyres, strict=True))
    ]
    return Vehicle(
        name=name,
        sources=sources,
        changed=changed,
        model=model,
        params=params,
        state=state,
        work=work,
        values=values,
        tyres=pair,
        linear=linear_car(values, pair),
        toe_in=(stands[0].toe_in, stands[1].toe_in),
        camber=(stands[0].camber, stands[1].camber),
        width=max(widths),
    )


def _width(text: str) -> float:
    """Of a tyre, m; 0 if its file does not tell."""
    found = re.search(r"^\s*WIDTH\s*=\s*([0-9.eE+-]+)", text, re.MULTILINE)
    return float(found.group(1)) if found else 0.0


def linear_car(values: dict[str, float], tyres: tuple[np.ndarray, np.ndarray]) -> Car:
    """The car linear theory knows, as it stands on its springs and tyres."""
    slopes = [_slopes(p, values["grip"]) for p in tyres]
    # a table has one tyre: front and rear axle each from the one with its own
    pair = [
        build(_table(values, p), _tyre(tyres[0], slopes[0], 1.0), _tyre(tyres[1], slopes[1], 1.0), settled=True)
        for p in tyres
    ]
    car = dataclasses.replace(pair[0], rear=pair[1].rear)
    axles = []
    for axle, vector, slope, load, suspension in zip(
        car.axles, tyres, slopes, car.loads, (_front(values), _rear(values)), strict=True
    ):
        side = "front" if axle is car.front else "rear"
        axles.append(
            dataclasses.replace(
                axle,
                tyre=_tyre(vector, slope, 0.5 * load),
                anti_roll=_anti_roll(values[f"{side}_anti_roll"], suspension, axle),
            )
        )
    return dataclasses.replace(car, front=axles[0], rear=axles[1])


def _slopes(p: np.ndarray, grip: float) -> Any:
    def forces(load: float, ta: float, gamma: float) -> Any:
        return steady(p, load, 0.0, ta, gamma, grip, 1.0, _ROLLING)

    def slope(load: float, by: str, which: int) -> float:
        ta, gamma = (_SMALL, 0.0) if by == "slip" else (0.0, _SMALL)
        return float(forces(load, ta, gamma)[which] - forces(load, -ta, -gamma)[which]) / (2.0 * _SMALL)

    return slope


def _tyre(p: np.ndarray, slope: Any, load: float) -> Tyre:
    """At a load where a single figure must do (relaxation)."""
    within = min(max(load, float(p[T.LOW_LOAD])), float(p[T.HIGH_LOAD]))
    return Tyre(
        cornering=lambda load: -slope(load, "slip", 1),
        camber=lambda load: -slope(load, "camber", 1),
        aligning=lambda load: slope(load, "slip", 4),
        stiffness=float(p[T.VERTICAL_STIFFNESS]),
        damping=float(p[T.VERTICAL_DAMPING]),
        relaxation=float(relaxation(p, within, 0.0)[1]),
    )


def _front(v: dict[str, float]) -> Suspension:
    return double_wishbone(_points(v, "front", FRONT), v["front_camber"], v["front_toe"])


def _rear(v: dict[str, float]) -> Suspension:
    return macpherson(_points(v, "rear", REAR), v["rear_camber"], v["rear_toe"])


def _points(v: dict[str, float], axle: str, names: tuple[str, ...]) -> dict[str, list[float]]:
    return {name: [v[f"{axle}_{name}_{axis}"] for axis in "xyz"] for name in names}


def _anti_roll(rate: float, suspension: Suspension, axle: Axle) -> float:
    """N m per rad of roll, of a bar that gives a force at each lower ball joint per difference of their heights."""
    up, down = (at_travel(suspension, z).points["LBJ"][2] for z in (1e-3, -1e-3))
    lever = float(up - down) / 2e-3 * axle.track
    return rate * lever**2


def _table(v: dict[str, float], tyre: np.ndarray) -> dict[str, Any]:
    """The parameters as `analysis.car.build` wants them."""
    wheel = {"m": v["wheel_mass"], "Iyy": v["wheel_spin_inertia"], "Ixx=Izz": v["wheel_transverse_inertia"]}
    return {
        "wheelbase": v["front_WC_x"] - v["rear_WC_x"],
        "front_double_wishbone": _points(v, "front", FRONT),
        "rear_macpherson": _points(v, "rear", REAR),
        "masses": {
            "sprung": v["sprung_mass"],
            "sprung_cg": [v["sprung_cg_x"], v["sprung_cg_y"], v["sprung_cg_z"]],
            "sprung_inertia": {name: v[f"sprung_{name.lower()}"] for name in ("Ixx", "Iyy", "Izz", "Ixz")},
        },
        "corner_bodies_front": {
            "wheel+hub+disc": wheel,
            "knuckle": {"m": v["front_knuckle_mass"]},
            "upper_arm": {"m": v["front_upper_arm_mass"]},
            "lower_arm": {"m": v["front_lower_arm_mass"]},
        },
        "corner_bodies_rear": {
            "wheel+hub+disc": wheel,
            "knuckle": {"m": v["rear_knuckle_mass"]},
            "lower_arm": {"m": v["rear_arm_mass"]},
            "strut_rod": {"m": v["strut_rod_mass"]},
        },
        "spring_damper": {
            axle: {
                "k": v[f"{axle}_spring_rate"],
                "c": 0.5 * (v[f"{axle}_damper_bump"] + v[f"{axle}_damper_rebound"]),
                "free_length": v[f"{axle}_spring_length"],
            }
            for axle in ("front", "rear")
        },
        "tyre": {
            "free_radius": float(tyre[T.UNLOADED_RADIUS]),
            "vertical_stiffness": float(tyre[T.VERTICAL_STIFFNESS]),
            "loaded_radius_design": v["front_WC_z"],
        },
        "steering": {"rack_travel_per_rev": v["rack_travel_per_turn"]},
        "aero": {"rho": v["air_density"], "CdA": v["drag_area"]},
        "rolling_resistance": float(tyre[T.QSY1]),
    }
