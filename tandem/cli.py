"""The command line: starts the services, shows what they do, prints what they did.

Exit codes: 0 a clean run whose balance closes; 1 something failed; 2 the configuration is wrong; 3 the model diverged;
70 a service failed in a way nobody foresaw.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from sync.config import Config, load
from sync.errors import ConfigError, TandemError

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__)
DEFAULT = Path(__file__).resolve().parents[1] / "configs" / "drive.toml"
TRANSPORTS = ("shm", "ipc", "tcp")

ConfigFile = Annotated[Path, typer.Argument(help="TOML file, see configs/", show_default="configs/drive.toml")]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a setting, such as daq.rate_hz=2000.")
]
Runs = Annotated[Path, typer.Option(help="Folder for the reports of runs.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else on standard output.")]


@contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except TandemError as error:
        for line in str(error).split("\n"):
            print(f"tandem: {line}", file=sys.stderr)
        raise typer.Exit(error.code) from None


def _checked(file: Path, overrides: list[str]) -> Config:
    """The configuration, with everything in it that could be wrong tried out. Nothing has started yet."""
    from sync.jit import compiling

    config = load(file, overrides)
    with compiling("check"):
        from daq_service.sources import open_source
        from sim_service.models import load_model

        open_source(config, file, lambda: None)
        load_model(file.parent / config.sim.vehicle)
    return config


def _progress(console: Console) -> Progress:
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[figures]}"),
        console=console,
    )


def _figures_line(status: dict[str, dict[str, Any]]) -> str:
    sim = status.get("sim") or {}
    if not sim.get("steps"):
        return ""
    hops = " + ".join(f"{hop} {sim['hops_us'][hop]['p50']:.0f}" for hop in ("sensor", "ring", "wire", "wait"))
    return (
        f"{3.6 * sim.get('vx', 0):5.1f} km/h  age {sim['age_us']['p50']:.0f} us, medians {hops}"
        f"  step {sim['hops_us']['step']['p50']:.0f}  missed {sim['deadline_misses']}"
    )


def _run(file: Path, overrides: list[str], seconds: float | None, title: str, console: Console) -> tuple[Config, Any]:
    from tandem.supervise import drive as run_drive

    config = _checked(file, overrides)
    duration = config.seconds if seconds is None else seconds
    with _progress(console) as progress:
        task = progress.add_task(f"{title}: starting (the first time, compiling)", total=duration or None, figures="")

        def update(elapsed: float, status: dict[str, dict[str, Any]]) -> None:
            if elapsed >= 0:
                progress.update(task, description=title, completed=elapsed, figures=_figures_line(status))

        outcome = run_drive(config, file, overrides, duration, update, progress.console.print)
        progress.update(task, visible=False)
    return config, outcome


@app.command()
def drive(
    config: ConfigFile = DEFAULT,
    seconds: Annotated[float | None, typer.Option(min=0, help="Duration; 0 until Ctrl-C. Default: the file's.")] = None,
    transport: Annotated[str | None, typer.Option(help="shm, ipc or tcp. Default: the file's.")] = None,
    overrides: Overrides = None,
    as_json: AsJson = False,
    runs: Runs = Path("runs"),
) -> None:
    """Run the DAQ and the simulator side by side, and say how old the data were."""
    from tandem.html import RunData
    from tandem.report import figures, print_drive

    settings = [*(overrides or []), *([f'transport.kind="{transport}"'] if transport else [])]
    with _errors():
        checked, outcome = _run(config, settings, seconds, "drive", Console(stderr=True))
        result = figures(checked, outcome)
        if outcome.first_step_s is None and not outcome.failure:
            print("tandem: stopped before the first step", file=sys.stderr)
            raise typer.Exit(0)
        if as_json:
            print(json.dumps(result), flush=True)
        else:
            print_drive(Console(), result)
        data = [RunData(result["transport"], result, outcome.steps)]
        _write(runs, checked.name, f"tandem drive: {config.stem}", data)
        if outcome.failure:
            print(f"tandem: {outcome.failure}", file=sys.stderr)
            raise typer.Exit(outcome.code)
        if not result["balance"]["closes"]:
            print("tandem: the loss balance does not close", file=sys.stderr)
            raise typer.Exit(1)


def _write(runs: Path, name: str, title: str, data: list[Any], bare: dict[str, Any] | None = None) -> None:
    """The report of a run, in a folder of its own; a disk that takes none is no reason to lose the figures."""
    from tandem.html import write_report

    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")  # noqa: TID251  (a file name)
    folder = runs / f"{stamp}-{name}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        page, _ = write_report(folder, title, data, bare)
        print(f"report: {page}", file=sys.stderr)
    except OSError as error:
        print(f"tandem: no report in {folder}: {error.strerror}", file=sys.stderr)


@app.command()
def daq(config: ConfigFile = DEFAULT, overrides: Overrides = None) -> None:
    """Run the DAQ alone (a second terminal or host runs `tandem sim`)."""
    _serve("daq", config, overrides)


@app.command()
def sim(config: ConfigFile = DEFAULT, overrides: Overrides = None) -> None:
    """Run the simulator alone; it waits for blocks of a DAQ."""
    _serve("sim", config, overrides)


def _serve(role: str, config: Path, overrides: list[str] | None) -> None:
    from sync.jit import compiling
    from sync.service import serve

    with compiling(role):
        if role == "daq":
            from daq_service.service import run
        else:
            from sim_service.service import run
    raise typer.Exit(serve(role, run, config, overrides or [], supervised=False))


@app.command()
def doctor(
    config: ConfigFile = DEFAULT,
    seconds: Annotated[float, typer.Option(min=0.5, help="For the timer test.")] = 10.0,
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Examine this machine: what passes, what does not, why, and what to do about it.

    Exit codes: 0 ready; 4 it runs, but real-time permission, locked memory or the timer let steps come late; 5 a check
    failed.
    """
    from tandem import doctor as examination

    with _errors():
        checked = _checked(config, list(overrides or []))
        with Console(stderr=True).status("") as status:
            found = examination.examine(checked, config, seconds, status.update)
            findings = list(found) if as_json else examination.print_findings(Console(), found)
        if as_json:
            print(json.dumps(examination.as_json(findings)))
    raise typer.Exit(examination.exit_code(findings))


@app.command()
def latency(
    config: ConfigFile = DEFAULT,
    transport: Annotated[str, typer.Option(help="shm, ipc, tcp or all.")] = "all",
    seconds: Annotated[float, typer.Option(min=1, help="For each measurement.")] = 10.0,
    phase: Annotated[
        bool,
        typer.Option(
            "--phase", help="Compare free and locked steps (with a DAQ crystal 300 ppm off, as two real clocks drift)."
        ),
    ] = False,
    overrides: Overrides = None,
    as_json: AsJson = False,
    runs: Runs = Path("runs"),
) -> None:
    """Measure the transfer time per loop, beside a bare ZeroMQ pair and a bare sleeping loop in the same run."""
    from tandem.latency import measure, print_latency

    chosen = TRANSPORTS if transport == "all" else (transport,)
    with _errors():
        if not set(chosen) <= set(TRANSPORTS):
            raise ConfigError(f"--transport {transport}: must be one of {', '.join(TRANSPORTS)}, all")
        if phase:
            chosen = ("ipc",) if transport == "all" else chosen
        result, data, code = measure(config, list(overrides or []), chosen, seconds, phase, Console(stderr=True))
        if as_json:
            print(json.dumps(result), flush=True)
        else:
            print_latency(Console(), result)
        _write(runs, "latency", "tandem latency" + " --phase" * phase, data, result["bare"])
    raise typer.Exit(code)


from tandem.multibody_commands import bench_multibody, mechanism  # noqa: E402  (they use what stands above)

app.command()(mechanism)
bench = typer.Typer(no_args_is_help=True, help="Benchmarks, beside other codes where they are installed.")
bench.command("multibody")(bench_multibody)
app.add_typer(bench, name="bench")


def main() -> None:
    app()


if __name__ == "__main__":
    main()
