"""A real-time model beside the machine it models: run it, watch it, record it, replay it. Begin with `tandem demo`."""

import itertools
import json
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from sync.config import plugins
from sync.errors import ConfigError, TandemError
from sync.files.limits import ENVIRONMENT, OPTION
from sync.files.private import by_default
from sync.visible import on_one_line, warn_in_words
from tandem import brought
from tandem.commands.calibrate import calibrate
from tandem.commands.completion import answer_shells, completion
from tandem.commands.ensembles import fleet, identify, sweep, validate
from tandem.commands.first import copy, demo, show_first
from tandem.commands.foxglove import foxglove
from tandem.commands.keys import keys
from tandem.commands.manual import man
from tandem.commands.mechanism import mechanism
from tandem.commands.ros2 import ros2
from tandem.commands.run import run
from tandem.commands.runs import runs as list_runs
from tandem.commands.view import view
from tandem.commands.xcp import xcp
from tandem.console.config_argument import DEFAULT, ConfigFile, ImportConfig, OtherConfig
from tandem.console.help_text import HERE, MACHINES, PARTS, RECORDS, RUN, Brought, Commands, takes_only
from tandem.console.present import give
from tandem.console.terminal import (
    AsJson,
    Overrides,
    Runs,
    Terminal,
    compiled,
    errors,
    new_run_folder,
    output,
    print_error,
    progress,
    run_folder,
    status,
)
from tandem.live.run import checked_config, compile_ahead
from tandem.reports.outcome import DAMAGED, EXIT_CODES, FAILED, INTERRUPTED

if TYPE_CHECKING:
    from sync.config.config import Config

_CODES = "Exit codes: " + "; ".join(f"{code} {text}" for code, text in EXIT_CODES.items()) + "."
app = Commands(
    invoke_without_command=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__, epilog=_CODES
)
TRANSPORTS = ("shm", "ipc", "tcp")


def _version(requested: bool) -> None:
    if requested:
        from sync.config.extras import installed_version

        print(f"tandem {installed_version()}")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    decode_limit_mb: Annotated[
        int | None,
        typer.Option(
            OPTION, min=1, max=1 << 24, metavar="MEGABYTES",
            help="How much one file may become in memory. Default: 32 times its size, and 16 MiB.",
        ),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", help="Print it and end.", callback=_version, is_eager=True)
    ] = False,
) -> None:  # fmt: skip
    if decode_limit_mb is not None:
        os.environ[ENVIRONMENT] = str(decode_limit_mb)  # also for the processes that a command starts
    if context.invoked_subcommand is None:
        show_first()
    else:
        from sync.compile.build import take_shipped

        take_shipped()  # some commands import kernels without asking what is compiled


vehicle = Commands(no_args_is_help=True, help="What a vehicle file makes.")
app.add_typer(vehicle, name="vehicle", rich_help_panel=MACHINES)
tyre = Commands(no_args_is_help=True, help="Tyre property files: what they say, beside each other, from rows of a rig.")
app.add_typer(tyre, name="tyre", rich_help_panel=MACHINES)
study = Commands(no_args_is_help=True, help="A machine examined offline, and what a device or a person feels.")
app.add_typer(study, name="study", rich_help_panel=MACHINES)
_GROUPS = {"vehicle": vehicle, "tyre": tyre, "study": study}


def _names(group: Commands) -> set[str]:
    return {str(command.name or getattr(command.callback, "__name__", "")) for command in group.registered_commands}


def _bring(machine: str) -> None:
    """Add the commands that a machine brings."""
    command: Brought
    for command in plugins.load(plugins.COMMANDS, brought.COMMANDS, machine, "commands", ("COMMANDS",)).COMMANDS:
        group, _, word = command.name.rpartition(" ")
        if group not in ("", *_GROUPS):
            raise ConfigError(f"commands of {machine}: {command.name!r}: groups are {', '.join(_GROUPS)}")
        where, panel = (_GROUPS[group], {}) if group else (app, {"rich_help_panel": command.group or MACHINES})
        if word in (_names(where) if group else {*_names(app), *_GROUPS}):
            raise ConfigError(
                f"commands of {machine}: {command.name!r}: there is a command of that name; choose another"
            )
        where.command(word, **panel)(command.function)


app.command(rich_help_panel=RUN, context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(demo)
app.command(rich_help_panel=RUN)(copy)
app.command(rich_help_panel=RUN)(run)
for _machine in brought.COMMANDS:
    _bring(_machine)


app.command(rich_help_panel=MACHINES)(sweep)
app.command(rich_help_panel=RECORDS)(fleet)
app.command(rich_help_panel=MACHINES)(identify)
app.command(rich_help_panel=MACHINES)(validate)


@app.command(rich_help_panel=PARTS)
def daq(config: ConfigFile = DEFAULT, overrides: Overrides = None, as_json: AsJson = False) -> None:
    """Run the DAQ alone (a second terminal or host runs `tandem sim`)."""
    _serve("daq", config, overrides, as_json)


@app.command(rich_help_panel=PARTS)
def sim(config: ConfigFile = DEFAULT, overrides: Overrides = None, as_json: AsJson = False) -> None:
    """Run the simulator alone; it waits for blocks of a DAQ."""
    _serve("sim", config, overrides, as_json)


@app.command(rich_help_panel=PARTS)
def device(config: ConfigFile = DEFAULT, overrides: Overrides = None, as_json: AsJson = False) -> None:
    """Run the virtual haptic device of a configuration with source.own_process = true, as a process of its own."""
    _serve("device", config, overrides, as_json)


def _refuse_unlimited(read: "Config", config: Path) -> None:
    """A simulator by itself cannot measure the loop that a hand is in: its limit must be in the configuration."""
    from daq_service.devices import moves_hand

    if not moves_hand(read):
        return
    from tandem.doctor import all_rows

    for limit in (name for rows in all_rows() for name in rows.unlimited(read, config)):
        raise ConfigError(
            f"{config}: sim.parameters.{limit} is not set: a hand is in this loop, and only `tandem run`, which"
            " starts both sides, measures what stays passive; set it to what `tandem doctor` says"
        )


def _serve(role: str, config: Path, overrides: list[str] | None, as_json: bool) -> None:
    from sync.compile.jit import compiling
    from sync.process.service import serve

    with errors():  # reported before the compiler has its minute
        from daq_service.devices import require
        from sync.config.config import load
        from sync.transport.keys import transport_keys

        read = load(config, overrides or [])
        if role == "device" and (read.source.get("kind") != "haptic" or not read.source.get("own_process")):
            raise ConfigError(
                f"{config}: source: kind must be 'haptic' and own_process true for a device that runs by itself"
            )
        if role != "device":
            transport_keys(read, config, role)
        if role == "daq":
            require(read, config)
        if role == "sim":
            _refuse_unlimited(read, config)
        compile_ahead(read, config)
    with compiling(role):
        if role == "daq":
            from daq_service.service import in_words, prepare
        elif role == "device":
            from daq_service.haptic_process import in_words, prepare
        else:
            from sim_service.service import in_words, prepare
    words = None if as_json else in_words
    raise typer.Exit(serve(role, prepare, config, overrides or [], supervised=False, words=words))


@app.command(rich_help_panel=PARTS)
def record(
    config: ConfigFile = DEFAULT, overrides: Overrides = None, runs: Runs = Path("runs"), as_json: AsJson = False
) -> None:
    """Record what a DAQ and a simulator started elsewhere do, until Ctrl-C (`tandem run` records by itself)."""
    from sync.process.service import Prepared, serve
    from tandem.live.recorder.process import in_words
    from tandem.live.recorder.process import run as job

    with errors():
        folder = new_run_folder(runs, checked_config(config, list(overrides or [])).name)
    print(f"record: {folder}", file=sys.stderr)
    whole: list[bool] = []

    def work(checked: "Config", file: Path, stop: Any, reporter: Any) -> dict[str, Any]:
        done = job(checked, file, stop, reporter, folder)
        whole.append(done["whole"])
        return done

    words = None if as_json else in_words
    code = serve(
        "record", lambda *_: Prepared(work), config, overrides or [], supervised=False, real_time=False, words=words
    )
    raise typer.Exit(code or (0 if whole == [True] else 6))


@app.command("tune", rich_help_panel=RUN)
def tune_parameters(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="CONFIG NAME=VALUE",
            help="The run's configuration, a file or a name in configs/ (default: drive), and changes. None: show all.",
        ),
    ] = None,
    overrides: Overrides = None,
    reset: Annotated[bool, typer.Option("--reset", help="Back to the values it started with.")] = False,
    as_json: AsJson = False,
) -> None:
    """Change parameters of a running simulation, between two steps. The record keeps when, and replay does it again."""
    with errors():
        from sync.config.config import load
        from tandem.console.shipped_configs import find_config
        from tandem.live.tune import report, tune, wanted

        changes = list(words or [])
        config = find_config(Path(changes.pop(0))) if changes and "=" not in changes[0] else DEFAULT
        answer = tune(load(config, overrides or []), changes, reset)
    give(report(answer, list(wanted(changes))), as_json)


RunPath = Annotated[
    Path, typer.Argument(metavar="RUN", help="A run's folder or file; a folder of runs means its latest.")
]

OtherRunPath = Annotated[Path, typer.Argument(metavar="OTHER", help="The run to compare it with, given likewise.")]


# long: its arguments are its options
@app.command(rich_help_panel=RECORDS)
def replay(
    context: typer.Context,
    run: RunPath,
    config: OtherConfig = None,
    mode: Annotated[
        Literal["exact", "ideal"] | None,
        typer.Option(
            help="exact: each step with the block it used. ideal: without transport. Default: exact"
            ", or ideal where there is a delay.",
            show_default=False,
        ),
    ] = None,
    delay_ms: Annotated[float, typer.Option(help="Each block is there so much after its sampling (mode ideal).")] = 0.0,
    jitter_ms: Annotated[float, typer.Option(help="And up to so much more, at random.")] = 0.0,
    seed: Annotated[int, typer.Option(min=0, help="Of the jitter.")] = 1,
    pace: Annotated[
        str, typer.Option(help="max, or a factor of real time; results then go to the sim ring too.")
    ] = "max",
    overrides: Overrides = None,
    halved: Annotated[
        bool, typer.Option(help="Each step also in two halves, extrapolated, 3 times the cost (mode ideal).")
    ] = False,
    from_s: Annotated[
        float | None, typer.Option("--from", help="Seconds since the first step. Default: all (mode ideal).")
    ] = None,
    to_s: Annotated[
        float | None, typer.Option("--to", help="Seconds since the first step. Default: all (mode ideal).")
    ] = None,
    moving: Annotated[
        bool,
        typer.Option("--moving", help="Begin as the measured channels say then: speed, yaw rate, … (mode ideal)."),
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the replay as a run of its own, and the page of its report.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a record again: as it was, bit for bit; without transport; with a delay; with other parameters.

    Exit code 1 if an exact replay with nothing changed, an effort or a prediction is not identical to the record; 3 if
    the model diverged, which ends it; 10 if a part of the record is damaged.
    """
    from sync.record.heads import start_of
    from sync.record.reader import find

    with errors():
        factor = _pace(pace)
        file = find(run)  # a run that is not there is reported before anything is compiled
        if "mechanism" in (start_of(file) or {}):
            takes_only(context, f"{run}: a mechanism's run is replayed as it was", "run", "as_json")
            _replay_mechanism(run, as_json)
            return
        with compiled("replay", "tandem.records.replay"):
            from tandem.records.replay import Options, pictures, replay_run, report
            from tandem.records.replay_save import save as save_replay
        changed = delay_ms or jitter_ms or halved or moving or (from_s, to_s) != (None, None)
        request = Options(
            mode or ("ideal" if changed else "exact"), delay_ms, jitter_ms, seed, factor, config,
            list(overrides or []) + ["sim.parameters.step_halving=1"] * halved, halved=halved, from_s=from_s,
            to_s=to_s, moving=moving,
        )  # fmt: skip
        with progress("replay") as update:
            done = replay_run(run, request, update)
        if out is not None:
            from sync.record.utc import wall_clock

            print(f"saved: {save_replay(done, out, {'utc': wall_clock()})}", file=sys.stderr)
    exact = request.mode == "exact" and not request.changed
    give(report(done.figures, done.run.losses, exact, pictures(done) if out is not None else ()), as_json, out)


def _replay_mechanism(run: Path, as_json: bool) -> None:
    with compiled("replay", "tandem.mechanism.again"):
        from tandem.mechanism.again import replay_mechanism
    with progress("replay") as update:
        found = replay_mechanism(run, update)
    give(found, as_json)


def _report_damage(losses: list[str]) -> None:
    """The last line of a command that has read a record: what was damaged in it, with an exit code of its own."""
    for loss in losses:
        print(f"tandem: {on_one_line(loss)}", file=sys.stderr)
    if losses:
        raise typer.Exit(DAMAGED)


def _pace(text: str) -> float | None:
    if text == "max":
        return None
    try:
        factor = float(text)
    except ValueError:
        factor = 0.0
    if not 0 < factor < float("inf"):
        raise ConfigError(f"--pace {text}: must be max or a number above 0, such as 1 for real time")
    return factor


@app.command("export", rich_help_panel=RECORDS)
def export_run(
    run: RunPath,
    to: Annotated[
        Literal["csv", "parquet", "mf4", "mcap"], typer.Option(help="mcap: for Foxglove, with the machine moving.")
    ],
    out: Annotated[
        Path | None, typer.Option(help="Folder, or .mf4 or .mcap file. Default: in the run's folder.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a run for other programs: every block and step, exact, with units and sample instants."""
    with errors(), progress("export") as update:
        from tandem.records.exchange.exporter import export, report

        done = export(run, to, out, update, lambda text: print(f"export: {on_one_line(text)}", file=sys.stderr))
    give(report(done), as_json)


@app.command("import", rich_help_panel=RECORDS)
def import_run(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="CSV, Parquet, MF4, MATLAB, MCAP; a CAN log; a folder of an export or bag."
        ),
    ],
    config: ImportConfig = None,
    maps: Annotated[
        list[str] | None,
        typer.Option("--map", metavar="CHANNEL=COLUMN:UNIT", help="Such as handle=HandlePosition:mm."),
    ] = None,
    measured: Annotated[
        list[str] | None,
        typer.Option(
            "--measured", metavar="NAME=COLUMN:UNIT", help="What it did, as yaw_rate=YawRate:deg/s. Default: none."
        ),
    ] = None,
    dbc: Annotated[Path | None, typer.Option(help="What CAN frames mean. Default: the configuration's.")] = None,
    time: Annotated[str | None, typer.Option(metavar="COLUMN:UNIT", help="Such as Time:s. Not for MF4.")] = None,
    rate_hz: Annotated[float | None, typer.Option(help="Of the blocks. Default: the configuration's.")] = None,
    overrides: Overrides = None,
    runs: Runs = Path("runs"),
    as_json: AsJson = False,
) -> None:
    """Make a run that can be replayed from a measurement with named columns and units, or from an exported run."""
    with errors(), progress("import") as update:
        from tandem.records.exchange.importer import Options, import_file, report

        request = Options(
            file, config or DEFAULT, config is not None, list(maps or []), list(measured or []), time, rate_hz,
            list(overrides or []), runs, dbc,
        )  # fmt: skip
        done = import_file(request, update)
    give(report(done), as_json)


@app.command(rich_help_panel=RECORDS)
def info(run: RunPath, as_json: AsJson = False) -> None:
    """What a record holds: duration, rates, gaps, epochs, channels, losses, versions, and how it ended."""
    from sync.compile.jit import compiling

    with compiling("record"):
        from tandem.records.inspect.info import info_of, report

    with errors(), progress("reading") as update:
        found = info_of(run, lambda share: update("reading", share))
    give(report(found), as_json)


@app.command(rich_help_panel=RECORDS)
def compare(run: RunPath, other: OtherRunPath, as_json: AsJson = False) -> None:
    """Which channels of two records differ, by how much, where first; and what that is in metres."""
    from tandem.records.inspect.compare import compare as compare_runs
    from tandem.records.inspect.compare import report

    with errors():
        records = [_read(run), _read(other)]
        found = compare_runs(*records)
    give(report(found, [loss for record in records for loss in record.losses]), as_json)


@app.command(rich_help_panel=RECORDS)
def plot(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="One run, or several over each other.")],
    to: Annotated[Literal["html", "png"], typer.Option(help="png needs the extra `plot`.")] = "html",
    channels: Annotated[str | None, typer.Option(help="Names, separated by commas. Default: the usual ones.")] = None,
    out: Annotated[Path | None, typer.Option(help="File. Default: plot.html or plot.png beside the first run.")] = None,
    as_json: AsJson = False,
) -> None:
    """Draw inputs, motion and age of a record."""
    from tandem.records.inspect.plot import panels
    from tandem.reports.panels import write_page, write_png

    with errors():
        writers = {"html": write_page, "png": write_png}
        read = [_read(path) for path in runs]
        file = out or by_default(read[0].path.parent / f"plot.{to}")
        found = panels(
            [(run.path.parent.name, run) for run in read],
            [c.strip() for c in channels.split(",") if c.strip()] if channels else None,
        )
        if not found:
            raise ConfigError(f"{read[0].path}: holds nothing to draw")
        try:
            writers[to](file, ", ".join(run.path.parent.name for run in read), found)
        except OSError as error:
            raise ConfigError(f"{file}: cannot be written: {error.strerror}") from None
        if as_json:
            print(json.dumps({"plot": str(file), "runs": [str(run.path) for run in read]}), flush=True)
        else:
            print(f"plot: {file}", file=sys.stderr)
    _report_damage([loss for run in read for loss in run.losses])


def _read(path: Path) -> Any:
    """A record, with a bar while it is read."""
    from sync.compile.jit import compiling

    with compiling("record"):
        from sync.record import open_run
    with progress("reading") as update:
        return open_run(path, progress=lambda share: update("reading", share))


@app.command(rich_help_panel=HERE)
def doctor(
    config: ConfigFile = DEFAULT,
    seconds: Annotated[float, typer.Option(min=0.5, max=3600, help="For the timer test.")] = 10.0,
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Examine this machine: what passes, what does not, why, and what to do about it.

    Exit codes: 0 ready; 4 it runs, but real-time permission, locked memory or the timer let steps come late; 5 a check
    failed.
    """
    from tandem import doctor as examination

    with errors():
        checked = checked_config(config, list(overrides or []))
        with status("") as shown:
            found = examination.examine(checked, config, seconds, shown.update, overrides or [])
            findings = list(found) if as_json else examination.print_findings(output(), found)
    give(examination.report(findings), as_json)


@app.command(rich_help_panel=HERE)
def latency(
    config: ConfigFile = DEFAULT,
    transport: Annotated[Literal["shm", "ipc", "tcp", "all"], typer.Option(help="What is measured.")] = "all",
    seconds: Annotated[float, typer.Option(min=1, max=3600, help="For each measurement.")] = 10.0,
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
    from tandem.live.latency import measure, report

    chosen = TRANSPORTS if transport == "all" else (transport,)
    with errors():
        if phase:
            chosen = ("ipc",) if transport == "all" else chosen
        result, data, code = measure(config, list(overrides or []), chosen, seconds, phase, Terminal(stderr=True))
        title = "tandem latency" + " --phase" * phase
    give(report(title, result, data, code), as_json, run_folder(runs, "latency"))


app.command("runs", rich_help_panel=RECORDS)(list_runs)
app.command(rich_help_panel=HERE)(calibrate)
app.command(rich_help_panel=HERE)(completion)
app.command(rich_help_panel=HERE)(man)
app.command(rich_help_panel=RUN)(view)
app.command(rich_help_panel=MACHINES)(mechanism)
app.command(rich_help_panel=HERE)(keys)
app.command(rich_help_panel=RUN)(foxglove)
app.command(rich_help_panel=RUN)(ros2)
app.command(rich_help_panel=RUN)(xcp)


def bring_others(words: list[str]) -> None:
    """Add the commands of other packages. It takes a moment to find them, so only where these words of a command line
    name none of ours, or ask for a list."""
    typed = [word for word in words if not word.startswith("-")]
    here, names = app, typed[:1]
    if typed and typed[0] in _GROUPS:
        here, names = _GROUPS[typed[0]], typed[1:2]
    if names and names[0] in _names(here):
        return
    for machine in plugins.known(plugins.COMMANDS, brought.COMMANDS):
        if machine not in brought.COMMANDS:
            try:
                _bring(machine)
            except TandemError as error:  # ours are there all the same
                print(f"tandem: {error}", file=sys.stderr)


_Misused: Any = typer.BadParameter.__base__  # an option or an argument that is wrong, missing or not known
_LONG = 500  # letters of its message


def main() -> None:
    answer_shells()
    warn_in_words()
    try:
        bring_others(sys.argv[1:])
        code = app(prog_name="tandem", standalone_mode=False)
    except TandemError as error:  # while a command imports what it needs: no folder for compiled code
        code = print_error(error)
    except typer.Abort as error:
        if isinstance(error.__context__, KeyboardInterrupt):  # at a question
            code = INTERRUPTED
        else:
            print("tandem: ended before it was answered", file=sys.stderr)
            code = FAILED
    except _Misused as error:
        code = _print_misuse(error)
    sys.exit(code if isinstance(code, int) else 0)


def _typed_option(option: Any) -> str | None:
    """An option with its value, as they stand on the command line; the last counts."""
    last = None
    for word, following in itertools.pairwise([*sys.argv[1:], ""]):
        name, found, value = word.partition("=")
        if name in getattr(option, "opts", ()) and name.startswith("--"):
            last = f"{name} {value if found else following}"
    return last


def _print_misuse(error: Any) -> int:
    """One line, as for everything else that is wrong."""
    command = error.ctx.command_path if error.ctx is not None else "tandem"
    if type(error).__name__ == "NoArgsIsHelpError":  # rich has printed the help; without it, it is the message
        if error.message:
            print(error.message, file=sys.stderr)
        return int(error.exit_code)
    text = error.format_message()
    if (typed := _typed_option(getattr(error, "param", None))) is not None:
        text = f"{typed}: {error.message}"
    text = text.replace("Value error, ", "").replace("Input should be", "must be")
    text = re.sub(r"\s+", " ", re.sub(r":\s+", ": ", text))
    text = on_one_line(text if len(text) <= _LONG else f"{text[:_LONG]}…")
    word = command.removeprefix("tandem").strip()
    print(f"tandem: {word}{': ' * bool(word)}{text.rstrip('.')}; see `{command} --help`", file=sys.stderr)
    return int(error.exit_code)
