"""The tests by name, in the order in which `all` runs them."""

from collections.abc import Callable
from dataclasses import dataclass

from sync.errors import ConfigError
from tandem.iso.circle import circle
from tandem.iso.lanes import lane_change, severe_lane_change
from tandem.iso.result import Result
from tandem.iso.ride import ride
from tandem.iso.runner import Diverged
from tandem.iso.slope import slope
from tandem.iso.straight import brake, brake_in_turn, coast_down
from tandem.iso.transient import step, sweep
from tandem.iso.vehicle import Vehicle
from tandem.terminal import Update


@dataclass(frozen=True)
class Test:
    run: Callable[[Vehicle, float | None, Update], Result]
    takes_speed: bool = True


TESTS = {
    "circle": Test(circle, takes_speed=False),
    "step": Test(step),
    "sweep": Test(sweep),
    "lane-change": Test(lane_change),
    "severe-lane-change": Test(severe_lane_change),
    "brake-in-turn": Test(brake_in_turn),
    "brake": Test(brake),
    "coast-down": Test(coast_down),
    "slope": Test(slope, takes_speed=False),
    "ride": Test(ride, takes_speed=False),
}


def chosen(name: str, speed: float | None) -> list[str]:
    """The tests a name means; refuses what is none, and a speed where the test has its own."""
    if name != "all" and name not in TESTS:
        raise ConfigError(f"{name}: no such test; there are {', '.join(TESTS)}, all")
    if speed is not None and (name == "all" or not TESTS[name].takes_speed):
        free = ", ".join(key for key, test in TESTS.items() if test.takes_speed)
        raise ConfigError(f"--speed {speed:g}: {name} has its own speeds; it can be given for {free}")
    return list(TESTS) if name == "all" else [name]


def run_tests(
    vehicle: Vehicle, names: list[str], speed: float | None, update: Update
) -> tuple[list[Result], dict[str, str]]:
    """Results, and for tests in which the car diverged, how."""
    results, failed = [], {}
    for k, name in enumerate(names):

        def told(what: str, share: float, k: int = k) -> None:
            update(what, (k + share) / len(names))

        told(name, 0.0)
        try:
            results.append(TESTS[name].run(vehicle, speed, told))
        except Diverged as error:
            failed[name] = str(error)
    return results, failed
