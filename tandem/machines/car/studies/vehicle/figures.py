"""All figures of the report: SI and radians, plain data that JSON can hold; keys say the unit where it is another.

Two ways to a figure where there are two: the mechanism beside the closed form (see comparison.py), and the standing car
beside statics: `computed` is the equilibrium of `analysis.attitude`, `multibody` what `initial` of the model leaves.

Signs are those of `analysis.corner`: camber positive outwards at the top, toe-in positive, `motion_ratio` the change of
the spring's length per rise of the wheel (negative). Anti-dive and its kin are the share of the load transfer that the
links carry past the springs.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from sim_service.registry import make_machine
from tandem.machines.car.buggy.analysis.attitude import attitude
from tandem.machines.car.buggy.analysis.car import Car
from tandem.machines.car.buggy.analysis.corner import corner
from tandem.machines.car.buggy.analysis.linear import predict, to_json
from tandem.machines.car.buggy.analysis.report_rows import steer_rows, travel_rows
from tandem.machines.car.buggy.analysis.ride import NAMES
from tandem.machines.car.buggy.bodies import FRONT, REAR, WHEELS, centre_of_gravity
from tandem.machines.car.studies.vehicle.comparison import ANGLE, POSITION, Comparison, compare
from tandem.machines.car.studies.vehicle.parameters import AXLES, Loaded, linear_car, standing_corners
from tandem.reports.html.page import json_ready

COARSE, FINE = 3, 30  # steps of travel each way to the stop
RACK = 6  # steps of the rack each way
SPEED = 25.0  # m/s, of the linear theory; nothing that is reported here depends on it


def examine(vehicle: Loaded, progress: Callable[[float], None] = lambda share: None) -> dict[str, Any]:
    """The whole report."""
    v, table = vehicle.values, vehicle.table
    stop = v["stop_travel"]
    coarse, fine = (tuple(stop * (k / n) for k in range(-n, n + 1)) for n in (COARSE, FINE))
    steering = steer_rows(
        vehicle.suspensions[0],
        table["wheelbase"],
        v["rack_travel_per_turn"],
        v["rack_limit"],
        RACK,
        table["tyre_front"]["loaded_radius_design"],
    )
    seen = compare(vehicle, coarse, tuple(row.rack for row in steering), progress)
    car = linear_car(v, vehicle.tyres)
    found: dict[str, Any] = {
        "vehicle": vehicle.path,
        "changed": vehicle.changed,
        "unusual": list(vehicle.built.unusual),
        "follows": list(vehicle.built.follows),
        "comparison": _comparison(seen),
        "static": _static(vehicle, car),
        "compliance": _compliance(car),
        "geometry": _geometry(vehicle, car),
        "steering": [
            {**to_json(row), **_difference(seen.position[0, :, j], seen.angle[0, :, j])}
            for j, row in enumerate(steering)
        ],
    }
    for k, axle in enumerate(AXLES):
        spring, radius = table["spring_damper"][axle], table[f"tyre_{axle}"]["loaded_radius_design"]

        def rows(travels: tuple[float, ...], k: int = k, spring: Any = spring, radius: float = radius) -> Any:
            return travel_rows(vehicle.suspensions[k], spring["k"], spring["free_length"], travels, radius)

        found[axle] = [
            {**to_json(row), **_difference(seen.position[k, i], seen.angle[k, i])} for i, row in enumerate(rows(coarse))
        ]
        found[f"{axle}_fine"] = [to_json(row) for row in rows(fine)]
    return dict(json_ready(found))


def _difference(position: np.ndarray, angle: np.ndarray) -> dict[str, float]:
    return {"difference": float(position.max()), "difference_deg": float(angle.max())}


def _comparison(seen: Comparison) -> dict[str, Any]:
    position, angle = seen.largest
    return {
        "positions_compared": len(seen.travels) * len(seen.racks),
        "travel": [seen.travels[0], seen.travels[-1]],
        "rack": [seen.racks[0], seen.racks[-1]],
        "largest": position,
        "largest_deg": angle,
        "allowed": POSITION,
        "allowed_deg": ANGLE,
        "agrees": seen.agrees,
    }


def _static(vehicle: Loaded, car: Car) -> dict[str, Any]:
    v, table = vehicle.values, vehicle.table
    points = [
        {n: np.array([v[f"{a}_{n}_{i}"] for i in "xyz"]) for n in names}
        for a, names in zip(AXLES, (FRONT, REAR), strict=True)
    ]
    cg = centre_of_gravity(v, *points)
    exact = attitude(table)
    radii = [table[f"tyre_{AXLES[k // 2]}"] for k in range(4)]
    springs = [table["spring_damper"][AXLES[k // 2]] for k in range(4)]
    lengths = [
        corner(vehicle.suspensions[k // 2], exact.travel[k], side="left" if k % 2 == 0 else "right").spring_length
        for k in range(4)
    ]
    start = v["front_WC_x"]
    hinges = [0.5 * (p["LAF"] + p["LAR"]) for p in points]
    computed = {
        "load": list(exact.load),
        "travel": list(exact.travel),
        "spring_length": lengths,
        "spring_force": [s["k"] * (s["free_length"] - x) for s, x in zip(springs, lengths, strict=True)],
        "loaded_radius": [
            t["free_radius"] - f / t["vertical_stiffness"] for t, f in zip(radii, exact.load, strict=True)
        ],
        "pitch": exact.pitch,
        "roll": exact.roll,
        "ride_height": [
            exact.rise - math.sin(exact.pitch) * (h[0] - start) + math.cos(exact.pitch) * h[2] for h in hinges
        ],
        "cg_height": exact.rise - math.sin(exact.pitch) * (cg[0] - start) + math.cos(exact.pitch) * cg[2],
    }
    unsprung = [axle.mass for axle in car.axles]
    return {
        "mass": car.mass,
        "sprung_mass": car.sprung_mass,
        "unsprung_mass": unsprung,
        "cg_as_drawn": cg.tolist(),
        "cg_behind_front_axle": float(start - cg[0]),
        "yaw_inertia": car.yaw_inertia,
        "wheelbase": table["wheelbase"],
        "track": [2.0 * float(s.points["WC"][1]) for s in vehicle.suspensions],
        "front_share": float(1.0 - (start - cg[0]) / table["wheelbase"]),
        "ride_height_as_drawn": [float(h[2]) for h in hinges],
        "wheels": list(WHEELS),
        "computed": computed,
        "multibody": _standing(vehicle, cg, hinges),
    }


def _standing(vehicle: Loaded, cg: np.ndarray, hinges: list[np.ndarray]) -> dict[str, Any]:
    """Of the multibody car after `initial`."""
    model, params = make_machine(vehicle.sources, vehicle.changed)
    state, work = np.zeros(len(model.states)), np.zeros(model.work_size)
    model.initial(state, params, model.tables, work)
    output = {q.name: float(x) for q, x in zip(model.outputs, work, strict=False)}

    def each(name: str) -> list[float]:
        return [output[f"{name}_{w}"] for w in WHEELS]

    tyres = [vehicle.table[f"tyre_{AXLES[k // 2]}"] for k in range(4)]
    sine, cosine = math.sin(output["pitch"]), math.cos(output["pitch"])
    return {
        "load": each("load"),
        "travel": each("travel"),
        "spring_length": each("spring_length"),
        "spring_force": each("spring_force"),
        "loaded_radius": [
            t["free_radius"] - f / t["vertical_stiffness"] for t, f in zip(tyres, each("load"), strict=True)
        ],
        "pitch": output["pitch"],
        "roll": output["roll"],
        "ride_height": [output["z"] - sine * (h[0] - cg[0]) + cosine * (h[2] - cg[2]) for h in hinges],
        "cg_height": output["z"],
    }


def _compliance(car: Car) -> dict[str, Any]:
    prediction = predict(car, SPEED)
    return {
        "bushings": False,
        "wheel_rate": [axle.stiffness for axle in car.axles],
        "tyre_rate": [axle.tyre.stiffness for axle in car.axles],
        "ride_rate": [_series(axle.stiffness, axle.tyre.stiffness) for axle in car.axles],
        "wheel_damping": [axle.damping for axle in car.axles],
        "anti_roll_stiffness": [axle.anti_roll for axle in car.axles],
        "roll_stiffness": [axle.roll_stiffness for axle in car.axles],
        "roll_gradient": prediction.roll_gradient,
        "modes": [
            {
                "name": mode.name,
                "undamped_hz": mode.undamped_hz,
                "damped_hz": mode.frequency_hz * math.sqrt(max(0.0, 1.0 - mode.damping**2)),
                "damping": mode.damping,
                "most_of": NAMES[int(np.argmax(np.abs(mode.shape)))],
            }
            for mode in prediction.ride_held
        ],
        "cornering_stiffness": [axle.tyre.cornering(0.5 * f) for axle, f in zip(car.axles, car.loads, strict=True)],
        "relaxation_length": [axle.tyre.relaxation for axle in car.axles],
    }


def _series(a: float, b: float) -> float:
    return a * b / (a + b)


def _geometry(vehicle: Loaded, car: Car) -> dict[str, Any]:
    """Gains as it stands, and what the links do against dive, lift and squat."""
    v = vehicle.values
    front, rear = standing_corners(vehicle.table)
    lever = car.wheelbase / car.cg_height
    share = v["brake_front"] / (v["brake_front"] + v["brake_rear"])
    return {
        "roll_centre": [axle.roll_centre for axle in car.axles],
        "roll_axis_arm": car.roll_arm,
        "camber_gain": [axle.camber_gain for axle in car.axles],
        "toe_in_gain": [axle.toe_in_gain for axle in car.axles],
        "roll_camber": [axle.roll_camber for axle in car.axles],
        "roll_steer": [axle.roll_steer for axle in car.axles],
        "brake_front_share": share,
        "anti_dive_front": share * math.tan(front.brake_path) * lever,
        "anti_lift_rear": -(1.0 - share) * math.tan(rear.brake_path) * lever,
        "anti_squat_rear": -math.tan(rear.drive_path) * lever,
        "caster": [front.caster, rear.caster],
        "kingpin": [front.kingpin, rear.kingpin],
        "steering_ratio": car.steering_ratio,
    }
