"""What is shown of a car, as far as it has it."""

from collections.abc import Iterable
from math import pi

from sim_service.contract.display import Display, Tile
from sim_service.contract.machine import Quantity

_DEG, _RPM = 180.0 / pi, 30.0 / pi

_HANDS = (
    Tile("steering", "steering_angle", "deg", _DEG, 0, ways=("left", "right")),
    Tile("throttle", "throttle", "%", 100.0, 0, colour="#2f9e44"),
    Tile("brake", "brake_pressure_bar", "bar", 1.0, 1, colour="#e03131"),
)
_FIGURES = (
    Tile("speed", "vx", "km/h", 3.6, 1),
    Tile("yaw rate", "yaw_rate", "deg/s", _DEG, 1),
    Tile("lateral acc.", "ay", "m/s²", 1.0, 2),
    Tile("sideslip", "sideslip", "deg", _DEG, 1),
    Tile("gear", "gear", "", 1.0, 0),
    Tile("engine", "engine_speed", "rpm", _RPM, 0),
    Tile("hand torque", "steering_torque", "N m", 1.0, 1),
    Tile("rack force", "rack_force", "N", 1.0, 0),
)


def car_display(outputs: Iterable[Quantity]) -> Display:
    there = {q.name for q in outputs}
    return Display(
        hands=_HANDS,
        figures=tuple(t for t in _FIGURES if t.channel in there),
        plots=(("steering_angle", "yaw_rate"), ("vx", "ay")),
        families=(("all wheels", ("fl", "fr", "rl", "rr")), ("both axles", ("front", "rear"))),
        still=("steering_speed", "steering_acceleration"),
    )
