"""The commands `tandem mechanism` and `tandem bench multibody`: options, progress, tables, files.

Heavy imports wait until a command runs, so that `tandem --help` stays quick.
"""

import json
import math
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from sync.errors import TandemError

DIVERGED = 3

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else on standard output.")]
Runs = Annotated[Path, typer.Option(help="Folder for the reports of runs.")]


def mechanism(
    file: Annotated[Path, typer.Argument(help="TOML file, see configs/mechanisms/")],
    seconds: Annotated[float | None, typer.Option(min=0.001, help="Duration. Default: the file's.")] = None,
    step: Annotated[float | None, typer.Option(min=0.001, max=100, help="Step, ms. Default: the file's.")] = None,
    as_json: AsJson = False,
    runs: Runs = Path("runs"),
) -> None:
    """Simulate a mechanism described in a file, and write how it moved."""
    from sync.jit import compiling

    try:
        with Console(stderr=True).status("reading (the first time, compiling)"), compiling("mechanism"):
            from tandem import mechanism as work

            described, state = work.load(file, seconds, step)
        with _bar(f"mechanism: {described.file.name}") as update:
            simulated = work.simulate(described, state, update)
    except TandemError as error:
        _fail(error)
    if as_json:
        print(json.dumps(simulated.figures), flush=True)
    else:
        work.print_figures(Console(), simulated.figures)
    _written(runs, described.file.name, lambda folder: work.write_run(folder, simulated))
    if simulated.figures["ended"] != "finished":
        print(f"tandem: {file}: {simulated.figures['ended']}; try a smaller step", file=sys.stderr)
        raise typer.Exit(DIVERGED)


def bench_multibody(
    quick: Annotated[bool, typer.Option("--quick", help="A few mechanisms, no orders, no compile times.")] = False,
    as_json: AsJson = False,
    runs: Runs = Path("runs"),
) -> None:
    """Try every multibody formulation on every mechanism with a known answer, beside Exudyn and MuJoCo."""
    from sync.jit import compiling

    with Console(stderr=True).status("compiling, the first time"), compiling("mechanism"):
        from tandem.bench import multibody
    from tandem.html.plain import write_plain

    try:
        with _bar("bench multibody") as update:
            result = multibody.measure(quick, lambda what, share: update(share, what))
    except TandemError as error:
        _fail(error)
    if as_json:
        print(json.dumps(_finite(result)), flush=True)
    else:
        multibody.print_bench(Console(width=None if sys.stdout.isatty() else 130), result)
    said, pieces = multibody.headline(result), multibody.page_sections(result)
    _written(
        runs,
        "bench_multibody",
        lambda folder: write_plain(folder, "tandem bench multibody", said, pieces, result)[0],
    )


class _bar:  # noqa: N801  (used as a word: `with _bar(...)`)
    """A progress bar on standard error; called with the share done and a line of figures."""

    def __init__(self, title: str) -> None:
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
        self._progress = Progress(*columns, TextColumn("{task.fields[figures]}"), console=Console(stderr=True))
        self._task = self._progress.add_task(title, total=1.0, figures="")

    def __enter__(self) -> Callable[[float, str], None]:
        self._progress.start()
        return lambda share, figures: self._progress.update(self._task, completed=share, figures=figures)

    def __exit__(self, *_: object) -> None:
        self._progress.update(self._task, visible=False)
        self._progress.stop()


def _fail(error: TandemError) -> "Any":
    for line in str(error).split("\n"):
        print(f"tandem: {line}", file=sys.stderr)
    raise typer.Exit(error.code) from None


def _written(runs: Path, name: str, write: Callable[[Path], Path]) -> None:
    """A disk that takes no report is no reason to lose the figures."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")  # noqa: TID251  (a file name)
    folder = runs / f"{stamp}-{name}"
    try:
        print(f"report: {write(folder)}", file=sys.stderr)
    except OSError as error:
        print(f"tandem: no report in {folder}: {error.strerror}", file=sys.stderr)
    except TandemError as error:  # the record; the report is there
        print(f"tandem: {error}", file=sys.stderr)


def _finite(value: Any) -> Any:
    """JSON knows no nan: what is not a number is null."""
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
