"""Heave, pitch, roll and wheel hop of the standing car, identified from how it comes to rest.

The car is made to stand as it would with slightly other springs, or with its load a little to one side; then it is let
go and swings back by fractions of a millimetre, so that dampers and tyres are in their linear range. Driveline open,
brakes released. From the places of body and wheels at each step, y(k + 1) = A1 y(k) + A2 y(k − 1) is fitted by least
squares; its eigenvalues are those of the car. Motions with both sides alike and with the sides in turn do not meet and
are fitted apart.

Prediction: the seven freedoms of `analysis.ride`; for the motions in turn the same with the sway and yaw of a car that
stands on the sideways springs of its tyres (stiffness per relaxation length), which a standing tyre is.
"""

from collections.abc import Callable
from math import pi

import numpy as np

from tandem.console.terminal import Update
from tandem.machines.car.buggy.analysis.handling import roll_terms
from tandem.machines.car.buggy.analysis.ride import ride_modes
from tandem.machines.car.studies.iso.result import Panel, Result, Row
from tandem.machines.car.studies.iso.runner import Drive, H, Log, instants, plan
from tandem.machines.car.studies.iso.theory import stiffnesses
from tandem.machines.car.studies.iso.vehicle import Vehicle
from tandem.machines.car.tyres.transient import DAMPING_TIME
from tandem.reports.html.chart import Series

_SECONDS = 3.0
_OFFSET = 2e-4  # m
_SKIP, _FITTED = 2, 200  # steps: the first ones still have the other car's forces
_EVEN = ("heave", "pitch", "front_hop", "rear_hop")
_ODD = ("sway", "yaw", "roll", "front_tramp", "rear_tramp")
_TOUCH, _TOUCH_ANGLE = 0.2, 0.1  # s, rad


def ride(vehicle: Vehicle, speed: float | None, update: Update) -> Result:
    v = vehicle.values
    swings = []
    for k, changed in enumerate(
        (
            {"front_spring_length": v["front_spring_length"] + _OFFSET},
            {"rear_spring_length": v["rear_spring_length"] + _OFFSET},
            {"sprung_cg_y": v["sprung_cg_y"] + 2.0 * _OFFSET},
            {},
        )
    ):
        swings.append(_released(vehicle, changed))
        update("ride", (k + 1) / 4)
    even, odd = swings[:2], swings[2:]
    named = {mode.name: mode for mode in ride_modes(vehicle.linear)}
    theory = [(mode.frequency_hz, mode.damping, name) for name, mode in named.items() if name in _EVEN]
    rows = _rows(theory, _identified([_signals(log, _both) for log in even]), "seven freedoms: body, wheels, tyres")
    rows += _rows(
        _standing(vehicle),
        _identified([_signals(log, _turns) for log in odd]),
        "the same in roll, on the tyres' sideways springs",
    )
    front, side = even[0], odd[0]
    return Result(
        "ride",
        "Ride and roll of the standing car",
        f"let go {1e3 * _OFFSET:g} mm beside its rest, driveline and brakes open; |λ|/2π and −Re λ/|λ|",
        rows,
        [
            Panel(
                "after front springs that were longer: heave, mm, and pitch, mrad",
                [Series(n, front.t, 1e3 * (front[k] - front[k][-1])) for n, k in (("heave", "z"), ("pitch", "pitch"))],
            ),
            Panel(
                "after a load that was to the left: roll, mrad, and sway, mm",
                [Series(n, side.t, 1e3 * (side[k] - side[k][-1])) for n, k in (("roll", "roll"), ("sway", "y"))],
            ),
        ],
        [],
        sum(float(log.t[-1]) for log in swings),
        sum(log.capped for log in swings),
    )


def _released(vehicle: Vehicle, changed: dict[str, float]) -> Log:
    """From where the changed car stands; or, with nothing changed, after a touch of the hand wheel."""
    drive = Drive(vehicle)
    drive.set("brake_drag", 0.0)
    if not changed:
        t, w = instants(_TOUCH), 2.0 * pi / _TOUCH
        angle, turn = _TOUCH_ANGLE, w * t
        drive.go(
            plan(
                _TOUCH,
                angle=0.5 * angle * (1.0 - np.cos(turn)),
                rate=0.5 * angle * w * np.sin(turn),
                acceleration=0.5 * angle * w * w * np.cos(turn),
            )
        )
        return drive.go(plan(_SECONDS))
    other = vehicle.altered(changed)
    outputs = len(vehicle.model.outputs)
    drive.state[:] = other.state
    drive.work[:outputs] = other.work[:outputs]
    return drive.go(plan(_SECONDS))


def _both(log: Log) -> list[np.ndarray]:
    return [log["z"], log["pitch"], log["travel_fl"] + log["travel_fr"], log["travel_rl"] + log["travel_rr"]]


def _turns(log: Log) -> list[np.ndarray]:
    return [log["roll"], log["y"], log["yaw"], log["travel_fl"] - log["travel_fr"], log["travel_rl"] - log["travel_rr"]]


def _signals(log: Log, of: Callable[[Log], list[np.ndarray]]) -> np.ndarray:
    """Rows in time, each signal from its rest."""
    rows = np.column_stack(of(log))
    found: np.ndarray = rows - rows[-1]
    return found


def _identified(swings: list[np.ndarray]) -> list[tuple[float, float]]:
    """(|λ|/2π, damping) of the fitted modes, slowest first."""
    scale = np.max([np.abs(rows).max(axis=0) for rows in swings], axis=0)
    past, next_ = [], []
    for rows in swings:
        y = (rows / scale)[_SKIP : _SKIP + _FITTED]
        past.append(np.hstack([y[1:-1], y[:-2]]))
        next_.append(y[2:])
    A = np.linalg.lstsq(np.vstack(past), np.vstack(next_), rcond=1e-10)[0].T
    n = A.shape[0]
    whole = np.vstack([A, np.hstack([np.eye(n), np.zeros((n, n))])])
    values = np.linalg.eigvals(whole).astype(complex)
    values = values[np.abs(values) > 1e-3]
    poles = np.log(values) / H
    return sorted((abs(p) / (2.0 * pi), -p.real / abs(p)) for p in poles if p.imag > 1.0)


def _standing(vehicle: Vehicle) -> list[tuple[float, float, str]]:
    """(|λ|/2π, damping, name) of the modes in turn of the car that stands on the sideways springs of its tyres."""
    car = vehicle.linear
    M, _, C, columns = roll_terms(car)
    K = np.zeros((5, 5))
    K[:, 2:] = columns
    for i, axle in enumerate(car.axles):
        at = np.array([1.0, axle.x - car.cg_x, 0.0, 0.0, 0.0])
        spring = 2.0 * stiffnesses(vehicle, i, 0.5 * car.loads[i], 10.0).side_slip / axle.tyre.relaxation
        K += spring * np.outer(at, at)
        C += DAMPING_TIME * spring * np.outer(at, at)
    n = len(M)
    first = np.block([[np.zeros((n, n)), np.eye(n)], [-np.linalg.solve(M, K), -np.linalg.solve(M, C)]])
    values, vectors = np.linalg.eig(first)
    found = []
    for value, shape in zip(values, np.abs(vectors[:n]).T, strict=True):
        if value.imag > 1.0:
            found.append((abs(value) / (2.0 * pi), -value.real / abs(value), shape))
    # each by the freedom that has most of its kinetic energy
    return [(hz, damping, _ODD[int(np.argmax(np.diag(M) * shape**2))]) for hz, damping, shape in found]


def _rows(theory: list[tuple[float, float, str]], found: list[tuple[float, float]], by: str) -> list[Row]:
    """Each mode of theory beside the nearest that was found, each used once."""
    rows, left = [], list(found)
    for hz, damping, name in sorted(theory):
        if not left:
            break
        best = min(left, key=lambda mode: abs(mode[0] / hz - 1.0) + abs(mode[1] - damping))
        left.remove(best)
        title = name.replace("_", " ")
        rows += [Row(f"{title}, frequency", "Hz", hz, best[0], by), Row(f"{title}, damping", "1", damping, best[1], by)]
    return rows
