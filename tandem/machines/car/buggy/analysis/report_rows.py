"""The rows of the vehicle report over wheel travel and rack, as plain data.

Everything here is SI and radians in frozen dataclasses; `linear.to_json` makes JSON of it, the code that prints it
chooses the units.

Ackermann. Wheels that roll without slip about a point on the line of the rear axle have cot δ_out − cot δ_in =
track/wheelbase. `ackermann` is the part of the steer difference of that rule which the linkage makes (1 full, 0
parallel), `ackermann_error` what the inner wheel has more than the rule gives it for the outer one.
"""

import math
from dataclasses import dataclass

import numpy as np

from tandem.machines.car.buggy.analysis.corner import LOADED_RADIUS, corner, wheel_rate
from tandem.machines.car.buggy.analysis.suspension import Suspension


@dataclass(frozen=True)
class TravelRow:
    """One axle with both wheels at one travel, straight ahead."""

    travel: float
    camber: float
    toe_in: float
    roll_centre: float
    motion_ratio: float
    wheel_rate: float
    spring_length: float
    spring_force: float  # compression, N
    scrub: float
    trail: float
    caster: float
    kingpin: float
    half_track_change: float
    forward: float
    brake_path: float
    drive_path: float


@dataclass(frozen=True)
class SteerRow:
    """The front axle as drawn, at one rack displacement. Steer angles positive to the left."""

    rack: float
    hand_wheel: float  # rad, positive to the left: the way that turns the road wheels left
    left: float
    right: float
    mean: float
    ackermann: float  # nan straight ahead
    ackermann_error: float
    ratio: float  # hand wheel per mean road wheel, local
    camber_left: float
    camber_right: float
    trail_left: float
    trail_right: float
    turn_radius: float  # of the middle of the rear axle, from the mean angle, inf straight ahead


def travel_rows(
    suspension: Suspension,
    stiffness: float,
    free_length: float,
    travels: tuple[float, ...],
    radius: float = LOADED_RADIUS,
) -> tuple[TravelRow, ...]:
    reference = corner(suspension, radius=radius)
    rows = []
    for travel in travels:
        at = corner(suspension, travel, radius=radius)
        force = stiffness * (free_length - at.spring_length)
        rows.append(
            TravelRow(
                travel=travel,
                camber=at.camber,
                toe_in=at.toe_in,
                roll_centre=at.roll_centre,
                motion_ratio=at.motion_ratio,
                wheel_rate=wheel_rate(at, stiffness, force),
                spring_length=at.spring_length,
                spring_force=force,
                scrub=at.scrub,
                trail=at.trail,
                caster=at.caster,
                kingpin=at.kingpin,
                half_track_change=at.half_track - reference.half_track,
                forward=at.forward,
                brake_path=at.brake_path,
                drive_path=at.drive_path,
            )
        )
    return tuple(rows)


def steer_rows(
    suspension: Suspension,
    wheelbase: float,
    rack_per_turn: float,
    rack_limit: float,
    steps: int = 6,
    radius: float = LOADED_RADIUS,
) -> tuple[SteerRow, ...]:
    """`steps` rows each way from the middle to the stops."""
    # which way the rack goes for a left turn depends on whether the tie rods are before or behind the kingpins
    way = math.copysign(1.0, corner(suspension, radius=radius).steer_per_rack)
    rows = []
    for rack in np.linspace(-rack_limit, rack_limit, 2 * steps + 1):
        left, right = (corner(suspension, 0.0, float(rack), side, radius) for side in ("left", "right"))
        mean = 0.5 * (left.steer + right.steer)
        track = left.half_track + right.half_track
        straight = abs(mean) < 1e-9
        share, error = (math.nan, 0.0) if straight else _ackermann(left.steer, right.steer, track / wheelbase)
        local = 0.5 * (left.steer_per_rack + right.steer_per_rack)
        rows.append(
            SteerRow(
                rack=float(rack),
                hand_wheel=way * float(rack) * 2.0 * math.pi / rack_per_turn,
                left=left.steer,
                right=right.steer,
                mean=mean,
                ackermann=share,
                ackermann_error=error,
                ratio=2.0 * math.pi / rack_per_turn / abs(local),
                camber_left=left.camber,
                camber_right=right.camber,
                trail_left=left.trail,
                trail_right=right.trail,
                turn_radius=math.inf if straight else wheelbase / math.tan(abs(mean)),
            )
        )
    return tuple(rows)


def _ackermann(left: float, right: float, ratio: float) -> tuple[float, float]:
    """Share of the wanted difference between the wheels, and what the inner one has beyond it (negative: lacks)."""
    inner, outer = (left, right) if left + right > 0.0 else (-right, -left)
    # cot δ_in = cot δ_out − track/wheelbase; atan2 also covers an inner wheel beyond a right angle
    wanted = math.atan2(math.sin(outer), math.cos(outer) - ratio * math.sin(outer))
    return (inner - outer) / (wanted - outer), inner - wanted
