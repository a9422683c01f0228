"""The command `tandem iso`: options, progress, tables, page."""

from pathlib import Path
from typing import Annotated

import typer

from tandem.console.config_argument import by_name
from tandem.console.present import give
from tandem.console.terminal import (
    AsJson,
    Parameters,
    Runs,
    compiled,
    errors,
    parameters,
    progress,
    run_folder,
)
from tandem.machines.car.commands.vehicle import BUGGY, Vehicle


def iso(
    test: Annotated[
        str,
        typer.Argument(
            metavar="TEST",
            help="circle, step, sweep, lane-change, severe-lane-change, brake-in-turn, brake, coast-down, slope, ride"
            " or all",
        ),
    ],
    vehicle: Vehicle = BUGGY,
    road: Annotated[
        Path | None,
        typer.Option(help="Road file, or a name in configs/roads. Default: flat.", callback=by_name("roads")),
    ] = None,
    settings: Parameters = None,
    speed_kmh: Annotated[float | None, typer.Option(min=10, max=250, help="Default: the test's own.")] = None,
    halved: Annotated[
        bool, typer.Option(help="Each step also in two halves, extrapolated: true error estimates, 3 times the cost.")
    ] = False,
    as_json: AsJson = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for report.html and report.json. Default: a new one in runs."),
    ] = None,
    runs: Runs = Path("runs"),
) -> None:
    """Drive a manoeuvre after an ISO standard offline, and print its figures beside what theory predicts.

    Exit codes: 0 the tests were run; 1 the car cannot do what a test asks for; 2 a file, a name or a value is
    wrong; 3 the car diverged.
    """
    from sync.config.toml import read_toml

    with errors():
        changed = parameters(settings) | ({"step_halving": 1.0} if halved else {})
        read_toml(vehicle)  # what is no file is reported before anything is compiled
        with compiled("iso", "tandem.machines.car.studies.iso.manoeuvres", "tandem.machines.car.buggy"):
            from tandem.machines.car.studies.iso import tables as iso_report
            from tandem.machines.car.studies.iso.manoeuvres import chosen, run_tests
            from tandem.machines.car.studies.iso.vehicle import load_vehicle

            names = chosen(test, speed_kmh)
            car = load_vehicle(vehicle, changed, road)
        with progress(f"iso {test}") as update:
            results, failed = run_tests(car, names, speed_kmh, update)
    place = (out or run_folder(runs, f"iso_{test}")) if results else None
    give(iso_report.report(f"iso {test}", car, results, failed), as_json, place)
