"""What the commands share at the terminal: options, errors as one line each, bars, where runs go.

Nothing heavy is imported here: `tandem --help` is quick, and a run starts its processes before anything else.
"""

import errno
import math
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.segment import Segment
from rich.status import Status
from rich.text import Text

from sync.errors import ConfigError, TandemError
from sync.files.private import by_default, make_folder
from sync.visible import on_one_line, visible

_LONG = 100  # letters of a name in a message

Overrides = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a setting, such as daq.rate_hz=2000.")
]
Parameters = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PARAMETER=VALUE", help="Another value than the file's, such as sprung_mass=700."),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(help="Has the token of the page, readable by you alone. Default: TANDEM_TOKEN, or a new one."),
]
Runs = Annotated[Path, typer.Option(help="Folder of runs: each gets a folder of its own there.")]
DEFAULT_RUNS = Path("runs")
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else on standard output.")]


@contextmanager
def errors() -> Iterator[None]:
    """Ours are printed in a line each, and have their exit code; a file that the system refuses is a file that is
    wrong, wherever it was opened."""
    try:
        yield
    except TandemError as error:
        raise typer.Exit(print_error(error)) from None
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            print(f"tandem: {error.strerror}: ulimit -Hn, or fs.file-max of this machine, is too low", file=sys.stderr)
            raise typer.Exit(ConfigError.code) from None
        if error.filename is None or error.strerror is None:
            raise  # not of a file: something that we have not thought of
        name = on_one_line(os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else "a file")
        print(f"tandem: {name if len(name) < _LONG else name[:_LONG] + '…'}: {error.strerror}", file=sys.stderr)
        raise typer.Exit(ConfigError.code) from None


def print_error(error: TandemError) -> int:
    """Its lines; the exit code."""
    for line in _own_lines(str(error)):
        print(f"tandem: {visible(line)}", file=sys.stderr)
    return error.code


def _own_lines(text: str) -> list[str]:
    """Lines of a message; a name with ends of lines in it, which was given to the command, makes none of its own."""
    for word in sys.argv[1:]:
        if "\n" in word:
            text = text.replace(word, on_one_line(word))
    return text.split("\n")


def parameters(settings: list[str] | None) -> dict[str, float]:
    """What `--set PARAMETER=VALUE` gives; whether there is such a parameter is checked by the model."""
    found = {}
    for setting in settings or []:
        name, _, text = (part.strip() for part in setting.partition("="))
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not name or not math.isfinite(value):
            raise ConfigError(f"--set {setting}: expected PARAMETER=NUMBER, such as sprung_mass=700")
        found[name] = value
    return found


def output() -> Console:
    """Standard output; into a file or a pipe wide enough for the tables."""
    return Terminal() if sys.stdout.isatty() else Terminal(width=140)


class Terminal(Console):
    """Shows control characters of whatever it prints, cells of tables included, instead of sending them."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(visible(text), **options)  # here too: columns become wide enough for it

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)


def status(what: str) -> Status:
    """A word on standard error while something is done."""
    return Terminal(stderr=True).status(what)


@contextmanager
def compiled(what: str, *modules: str) -> Iterator[None]:
    """What is imported inside is compiled before: what these modules may import, or with none named all of ours."""
    from sync.compile import build
    from sync.compile.jit import compiling

    build.ensure_for(*modules) if modules else build.ensure("everything")
    with status("reading"), compiling(what):
        yield


Update = Callable[[str, float], None]  # what is being done, and which share of it is


def progress_bar() -> Progress:
    console = Terminal(stderr=True)
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=10),  # with the figures of a run behind it the line fits into 80 columns
        TimeRemainingColumn(),
        TextColumn("{task.fields[figures]}"),
        console=console,
        transient=True,
        disable=not console.is_terminal,  # into a file it would leave an empty line
    )


@contextmanager
def progress(title: str) -> Iterator[Update]:
    """A bar on standard error while something long is done; gone afterwards, also if it fails."""
    with progress_bar() as bar:
        task = bar.add_task(title, total=1.0, figures="")
        yield lambda what, share: bar.update(task, description=what, completed=share)


def new_run_folder(runs: Path, name: str) -> Path:
    """A folder of its own for a record. Raises ConfigError if it cannot be made, before anything is recorded."""
    from sync.record import new_folder
    from sync.record.utc import utc_stamp

    _refuse_unasked(runs)
    try:
        return new_folder(runs, utc_stamp(), name)
    except OSError as error:
        raise _no_place(runs, error.errno) from None


def _refuse_unasked(runs: Path) -> None:
    if runs == DEFAULT_RUNS:
        by_default(runs / "run")


def refuse_place(runs: Path) -> None:
    """Raises ConfigError where `new_run_folder` would, as far as can be seen without making anything."""
    _refuse_unasked(runs)
    place = runs.absolute()
    while not os.path.lexists(place) and place != place.parent:
        place = place.parent
    if not place.is_dir():
        raise _no_place(runs, errno.ENOTDIR)
    if not os.access(place, os.W_OK | os.X_OK):
        raise _no_place(runs, errno.EROFS if os.statvfs(place).f_flag & os.ST_RDONLY else errno.EACCES)


def _no_place(runs: Path, error: int | None) -> ConfigError:
    return ConfigError(
        f"--runs {runs}: no run can be recorded there: {os.strerror(error or errno.EIO)}; it must be a folder that can"
        " be written, or --no-record given"
    )


def run_folder(runs: Path, name: str) -> Path:
    """The same for a report alone: its name if it cannot be made; `report` then prints why."""
    from sync.record.utc import utc_stamp

    try:
        return new_run_folder(runs, name)
    except ConfigError:
        return runs / f"{utc_stamp()}-{name}"


def report(folder: Path, write: Callable[[Path], Path], what: str = "report") -> None:
    """Write a report and print where; a disk that takes none is no reason to lose the figures."""
    try:
        if folder.parent == DEFAULT_RUNS:
            by_default(folder)
        make_folder(folder)
        print(f"{what}: {write(folder)}", file=sys.stderr)
    except (OSError, ConfigError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        print(f"tandem: no {what} in {folder}: {why}", file=sys.stderr)
