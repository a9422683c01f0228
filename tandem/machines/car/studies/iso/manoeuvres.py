"""The manoeuvres by name, in the order in which `all` runs them."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from sync.errors import ConfigError, TandemError
from tandem.console.terminal import Update
from tandem.machines.car.studies.iso.circle import circle
from tandem.machines.car.studies.iso.lanes import lane_change, severe_lane_change
from tandem.machines.car.studies.iso.result import Result
from tandem.machines.car.studies.iso.ride import ride
from tandem.machines.car.studies.iso.slope import slope
from tandem.machines.car.studies.iso.straight import brake, coast_down
from tandem.machines.car.studies.iso.transient import step, sweep
from tandem.machines.car.studies.iso.turning import brake_in_turn
from tandem.machines.car.studies.iso.vehicle import Vehicle


@dataclass(frozen=True)
class Manoeuvre:
    run: Callable[[Vehicle, float | None, Update], Result]
    takes_speed: bool = True


MANOEUVRES = {
    "circle": Manoeuvre(circle, takes_speed=False),
    "step": Manoeuvre(step),
    "sweep": Manoeuvre(sweep),
    "lane-change": Manoeuvre(lane_change),
    "severe-lane-change": Manoeuvre(severe_lane_change),
    "brake-in-turn": Manoeuvre(brake_in_turn),
    "brake": Manoeuvre(brake),
    "coast-down": Manoeuvre(coast_down),
    "slope": Manoeuvre(slope, takes_speed=False),
    "ride": Manoeuvre(ride, takes_speed=False),
}


def chosen(name: str, speed: float | None) -> list[str]:
    """The tests a name means; refuses an unknown name, and a speed where the test has its own."""
    if name != "all" and name not in MANOEUVRES:
        raise ConfigError(f"{name}: no such test; there are {', '.join(MANOEUVRES)}, all")
    if speed is not None and (name == "all" or not MANOEUVRES[name].takes_speed):
        free = ", ".join(key for key, each in MANOEUVRES.items() if each.takes_speed)
        raise ConfigError(f"--speed-kmh {speed:g}: {name} has its own speeds; it can be given for {free}")
    return list(MANOEUVRES) if name == "all" else [name]


def run_tests(
    vehicle: Vehicle, names: list[str], speed: float | None, update: Update
) -> tuple[list[Result], dict[str, TandemError]]:
    """Results, and for tests in which the car diverged or could not do what was asked for, why."""
    results: list[Result] = []
    failed: dict[str, TandemError] = {}
    for k, name in enumerate(names):

        def report_progress(what: str, share: float, k: int = k) -> None:
            update(what, (k + share) / len(names))

        report_progress(name, 0.0)
        try:
            vehicle.step_errors.clear()
            result = MANOEUVRES[name].run(vehicle, speed, report_progress)
            results.append(replace(result, step_error=max(vehicle.step_errors, default=0.0) or None))
        except TandemError as error:
            failed[name] = error
    return results, failed
