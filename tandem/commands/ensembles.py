"""The commands of many runs: options, progress, tables, page."""

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from sync.errors import ConfigError
from sync.visible import on_one_line
from tandem.console.config_argument import OtherConfig
from tandem.console.help_text import takes_only
from tandem.console.present import give
from tandem.console.shipped_configs import find_config
from tandem.console.terminal import (
    AsJson,
    Overrides,
    Parameters,
    Runs,
    compiled,
    errors,
    parameters,
    progress,
    report,
    run_folder,
)

Workers = Annotated[int, typer.Option(min=0, max=4096, help="Runs at a time; 0: one a core.", show_default="0")]
Cluster = Annotated[
    str, typer.Option(metavar="ADDRESS", help="Of a Dask scheduler, such as tls://host:8786, instead of this machine.")
]
Certificate = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Of the cluster, with its key (PEM). Default: what Dask's configuration has."),
]

FromS = Annotated[
    float | None,
    typer.Option("--from", help="Of the records, on their clock; what is before is left out. Default: all."),
]
ToS = Annotated[
    float | None, typer.Option("--to", help="Of the records, on their clock; what follows is left out. Default: all.")
]


def _refuse_early(what: str, extra: str, *modules: str, file: Path | None = None) -> None:
    """Report what is missing before a minute of compiling, not after it."""
    from sync.config.toml import read_toml
    from tandem.ensembles.extras import needs

    for module in modules:
        needs(module, extra, what)
    if file is not None:
        read_toml(file)


def _warn(text: str) -> None:
    print(f"tandem: {on_one_line(text)}", file=sys.stderr)


def sweep(
    context: typer.Context,
    study: Annotated[
        Path,
        typer.Argument(
            metavar="STUDY",
            help="TOML file, or a shipped one by its name: machine, manoeuvre, parameters, figures of merit.",
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(help="Folder of the table and of what is done. Default: runs/sweep_NAME.")
    ] = None,
    workers: Workers = 0,
    engine: Annotated[
        Literal["auto", "threads", "processes"],
        typer.Option(help="auto: processes where a machine is built again for every run."),
    ] = "auto",
    cluster: Cluster = "",
    certificate: Certificate = None,
    gpu: Annotated[
        bool,
        typer.Option(
            "--gpu", help="On a GPU, the runs of a chunk together: manoeuvres inputs and record, live parameters."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run a machine over a grid, a list or samples of its parameters: one Parquet table, and a report.

    Runs that fail are rows. Ctrl-C keeps what is done, and so does a crash: the same command goes on.
    """
    from sync.config.toml import check, read_toml
    from tandem.ensembles.study import Study

    with errors():
        if gpu and not cluster:
            takes_only(context, "--gpu runs a chunk together, on the GPU alone", "study", "out", "gpu", "as_json")
        study = find_config(study, "studies")
        _refuse_early("tandem sweep", "sweep", "pyarrow", file=study)
        check(Study, read_toml(study), str(study))
        with compiled("sweep", "tandem.ensembles.sweep"):
            from tandem.ensembles import report as pages
            from tandem.ensembles.sweep import sweep as run_sweep
        with progress("sweep") as update:
            swept = run_sweep(study, out, workers, engine, cluster, update, gpu, certificate or "", _warn)
    give(pages.report(swept), as_json, swept.folder)


def fleet(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Every record below it is replayed.")],
    config: OtherConfig = None,
    mode: Annotated[
        Literal["exact", "ideal"] | None,
        typer.Option(
            help="exact: each step with the block it used. ideal: without transport. Default: exact, or ideal where"
            " there is a delay."
        ),
    ] = None,
    delay_ms: Annotated[float, typer.Option(help="Each block is there so much after its sampling (mode ideal).")] = 0.0,
    overrides: Overrides = None,
    channels: Annotated[
        str | None, typer.Option(help="Separated by commas: their differences from the record, rms and largest.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the table and of what is done. Default: runs/fleet_FOLDER.")
    ] = None,
    workers: Workers = 0,
    as_json: AsJson = False,
) -> None:
    """Replay every record below a folder, many at a time: exactly, ideally, with a delay, or with another machine.

    One Parquet table; a record that is damaged or cannot be replayed is a row that says so. Exit code 1 if a record
    cannot be replayed, or if an exact replay with nothing changed is not identical to a whole record; 11 if the code
    of an FMU may not run here.
    """

    with errors():
        _refuse_early("tandem fleet", "sweep", "pyarrow")
        if not folder.is_dir():  # before anything is compiled for it
            raise ConfigError(f"{folder}: no such folder; one with runs below it is expected")
        with compiled("fleet", "tandem.ensembles.fleet"):
            from tandem.ensembles import fleet_report as pages
            from tandem.ensembles.fleet import FleetOptions
            from tandem.ensembles.fleet import fleet as replay_fleet
        options = FleetOptions(
            mode or ("ideal" if delay_ms else "exact"), delay_ms, str(config or ""), tuple(overrides or ()),
            tuple(name.strip() for name in channels.split(",") if name.strip()) if channels else (),
        )  # fmt: skip
        with progress("fleet") as update:
            done = replay_fleet(folder, options, out, workers, update)
    give(pages.report(done), as_json, done.out)


def identify(
    study: Annotated[
        Path,
        typer.Argument(
            metavar="STUDY",
            help="TOML file, or a shipped one by its name: machine, records, what was measured, parameters.",
        ),
    ],
    only_sensitivity: Annotated[
        bool, typer.Option("--only-sensitivity", help="Fit nothing: what the data could tell, at the start.")
    ] = False,
    from_s: FromS = None,
    to_s: ToS = None,
    workers: Workers = 0,
    as_json: AsJson = False,
    runs: Runs = Path("runs"),
) -> None:
    """Find parameters of a machine from records: values, 95 % intervals, correlations, and what the data do not tell.

    Exit codes: 0 estimated; 2 the study or a record is wrong; 3 the machine diverges at the start.
    """

    with errors():
        study = find_config(study, "studies")
        _refuse_early("tandem identify", "fit", "scipy", file=study)
        with compiled("identify", "tandem.ensembles.identify"):
            from tandem.ensembles import identify as pages
            from tandem.ensembles.identification import Narrowed
        with progress("identify") as update:
            found = pages.identify(study, only_sensitivity, workers, update, Narrowed(from_s, to_s))
    give(pages.report(found), as_json, run_folder(runs, f"identify_{found.problem.study.name}"))


def validate(
    study: Annotated[
        Path,
        typer.Argument(
            metavar="STUDY_OF_WINDOWS",
            help="TOML file, or a shipped one by its name: machine, records, what was measured, windows, tolerances.",
        ),
    ],
    found: Annotated[
        Path | None,
        typer.Option(
            metavar="REPORT",
            help="Of tandem identify: the parameters it found. Default: the study's, and the machine's.",
        ),
    ] = None,
    settings: Parameters = None,
    from_s: FromS = None,
    to_s: ToS = None,
    workers: Workers = 0,
    as_json: AsJson = False,
    runs: Runs = Path("runs"),
) -> None:
    """Compare a machine with what was measured, in windows it was not fitted to: a report, and a verdict.

    Exit codes: 0 valid; 1 not valid; 2 the study or a record is wrong.
    """

    with errors():
        study = find_config(study, "studies")
        _refuse_early("tandem validate", "fit", "scipy", file=study)
        with compiled("validate", "tandem.ensembles.validate"):
            from tandem.ensembles import validate as pages
            from tandem.ensembles.identification import Narrowed
            from tandem.ensembles.window_record import write_window
        values = parameters(settings)
        with progress("validate") as update:
            done = pages.validate(study, found, values, Narrowed(from_s, to_s), workers, update)
        folder = run_folder(runs, f"validate_{done.problem.study.name}")
        report(folder / "worst", lambda place: write_window(done.problem, done.worst, place), "worst window, a run")
    give(pages.report(done), as_json, folder)
