"""The car's commands, `tandem drive` and `tandem vehicle ...`: options, progress, tables, page."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sync.errors import ConfigError
from sync.files.private import make_folder, rewrite
from tandem.console.config_argument import DEFAULT, ConfigFile, config_argument
from tandem.console.present import give
from tandem.console.shipped_configs import CONFIGS
from tandem.console.terminal import (
    AsJson,
    Overrides,
    Parameters,
    Runs,
    TokenFile,
    compiled,
    errors,
    parameters,
    progress,
)
from tandem.live.reported import (
    RecordOption,
    Repeat,
    Seconds,
    TransportOption,
    run_and_report,
    settings_of,
)

if TYPE_CHECKING:
    from tandem.machines.car.studies.vehicle.parameters import Loaded

BUGGY = CONFIGS / "vehicles" / "buggy.toml"
Vehicle = Annotated[Path, config_argument("VEHICLE", "Vehicle", "vehicles", show_default="buggy")]


def drive(
    config: ConfigFile = DEFAULT,
    seconds: Seconds = None,
    transport: TransportOption = None,
    overrides: Overrides = None,
    as_json: AsJson = False,
    runs: Runs = Path("runs"),
    record: RecordOption = None,
    repeat: Repeat = None,
    token_file: TokenFile = None,
) -> None:
    """Drive the car: `tandem run` with its configuration."""
    settings = settings_of(overrides, transport, record, repeat)
    run_and_report("drive", config, settings, seconds, as_json, runs, token_file)


def vehicle_report(
    vehicle: Vehicle = BUGGY,
    settings: Parameters = None,
    tables: Annotated[bool, typer.Option("--tables", help="Also standing, over wheel travel and over rack.")] = False,
    as_json: AsJson = False,
    out: Annotated[Path | None, typer.Option(metavar="PATH.html", help="Write a page with curves.")] = None,
) -> None:
    """Kinematics and compliance of a vehicle's suspensions, beside those of the multibody car made from it.

    Exit codes: 0 both agree; 1 they do not; 2 a file, a name or a value is wrong.
    """
    from sync.config.toml import read_toml

    with errors():
        changed = parameters(settings)
        read_toml(vehicle)  # what is no file is reported before anything is compiled
        with compiled("vehicle", "tandem.machines.car.studies.vehicle.figures", "tandem.machines.car.buggy"):
            from tandem.machines.car.studies.vehicle import shown
            from tandem.machines.car.studies.vehicle.figures import examine
            from tandem.machines.car.studies.vehicle.parameters import load_vehicle

            loaded = load_vehicle(vehicle, changed)
        with progress("vehicle report") as update:
            result = examine(loaded, lambda share: update("mechanism beside closed form", share))
    give(shown.report(result, tables), as_json, page=out)


def vehicle_new(
    to: Annotated[
        Path, typer.Argument(metavar="NEW", help="The vehicle file to write, such as mine.toml; its tyres beside it.")
    ],
    table: Annotated[
        Path | None,
        typer.Option("--from", metavar="TABLE", help="TOML or CSV with the figures. Default: they are asked for."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a vehicle file from the figures of a data sheet: a dozen questions, or a table.

    What is left out is estimated, and the file says so. The written car is built once, and what follows is printed.
    """
    with errors():
        from tandem.machines.car.studies.vehicle import data_sheet

        if to.suffix.lower() != ".toml":
            raise ConfigError(f"{to}: must be the name of a vehicle file, such as mine.toml")
        tyres = [to.with_name(f"{to.stem}_{axle}.tir") for axle in ("front", "rear")]
        for path in (to, *tyres):
            if path.exists():
                raise ConfigError(f"{path}: is there already; another name is right, or move it away")

        def ask(question: str, usual: str) -> str:
            return str(typer.prompt(question, default=usual))

        answers = data_sheet.from_table(table) if table is not None else data_sheet.ask_answers(ask)
        with compiled("vehicle", "tandem.machines.car.studies.vehicle.figures", "tandem.machines.car.buggy"):
            from tandem.machines.car.studies.vehicle import shown
            from tandem.machines.car.studies.vehicle.parameters import load_vehicle, softened

        def written(shares: tuple[float, float]) -> "Loaded":
            for path, share in zip(tyres, shares, strict=True):
                _write(path, data_sheet.tyre_text(answers, share))
            _write(to, data_sheet.vehicle_text(answers, to.stem))
            return load_vehicle(to, {})

        try:
            rigid = written((1.0, 1.0))
            loaded = written(softened(rigid.values, rigid.tyres, answers.values["understeer_gradient"]))
        except (ConfigError, ValueError) as error:  # figures that no car has together
            for path in (to, *tyres):
                path.unlink(missing_ok=True)
            raise data_sheet.impossible(answers, *error.args) if type(error) is ValueError else error from None
    give(shown.report_new(loaded, answers.origin), as_json)


def _write(path: Path, text: str) -> None:
    try:
        make_folder(path.parent)
        rewrite(path, text.encode())
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror}") from None
