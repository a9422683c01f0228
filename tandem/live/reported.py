"""A run with its report and exit code, for every command that makes one, and what a machine's command adds to it."""

import json
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import typer

from tandem.console.present import print_section
from tandem.console.terminal import errors, output, report, run_folder
from tandem.live.run import live_run
from tandem.reports.outcome import INTERRUPTED, verdict

if TYPE_CHECKING:
    from rich.console import Console

    from tandem.reports.html.page import PageSection

Seconds = Annotated[float | None, typer.Option(min=0, max=1e9, help="Duration; 0 until Ctrl-C. Default: the file's.")]
TransportOption = Annotated[
    Literal["shm", "ipc", "tcp"] | None, typer.Option(help="How blocks travel. Default: as in the file.")
]
RecordOption = Annotated[
    bool | None, typer.Option("--record/--no-record", help="Keep every block and step. Default: as in the file.")
]
Repeat = Annotated[Path | None, typer.Option(help="A recorded run that plays as the source, in real time.")]


def settings_of(
    overrides: list[str] | None, transport: str | None, record: bool | None, repeat: Path | None
) -> list[str]:
    from sync.config.config import forced_transport

    settings = [*(overrides or []), *(forced_transport(transport) if transport else [])]
    if record is not None:
        settings.append(f"record.enabled={str(record).lower()}")
    if repeat is not None:
        # found now: once the recorder has begun, the latest run of a folder is the new one
        from sync.record.reader import find

        with errors():
            settings.append(f'source={{kind="replay", run={json.dumps(str(find(repeat).absolute()))}}}')
    return settings


@dataclass(frozen=True)
class Own:
    """What a machine's own command shows beside what all show."""

    channels: tuple[str, ...]  # of a step, which its sections draw
    # prints its tables of the figures where there is a console, and returns its sections of the page
    report: "Callable[[Console | None, dict[str, Any]], Sequence[PageSection]]"


def run_and_report(
    word: str,
    config: Path,
    settings: list[str],
    seconds: float | None,
    as_json: bool,
    runs: Path,
    token_file: Path | None,
    own: Own | None = None,
) -> None:
    """`word`: the command's name, which is also what it calls a run."""
    with errors():
        checked, outcome, folder = live_run(
            config,
            settings,
            seconds,
            word,
            runs,
            token_file=token_file,
            channels=own.channels if own else (),
        )
        from tandem.live.figures import figures, print_run
        from tandem.reports.html import RunData

        result = figures(checked, outcome)
        if folder is not None:
            from tandem.records.against_truth import against_truth, truth_section

            result["truth"] = against_truth(folder)
        if as_json and (outcome.failure or result["steps"]):
            print(json.dumps(result), flush=True)
        if not result["steps"]:
            _end_without_steps(word, outcome.failure, outcome.code, folder)
        sections = own.report(None if as_json else output(), result) if own else ()
        if not as_json:
            print_run(output(), result)
            if result.get("truth"):
                print_section(output(), truth_section(result["truth"]))
        data = [RunData(result["transport"], result, outcome.steps, tuple(checked.inputs))]
        place = folder or run_folder(runs, checked.name)
        write_run_report(place, f"tandem {word}: {config.stem}", data, own=sections)
        found = verdict(result, outcome.failure, outcome.code)
        for complaint in found.complaints:
            print(f"tandem: {complaint}", file=sys.stderr)
        if found.code:
            raise typer.Exit(found.code)


def _end_without_steps(word: str, failure: str | None, code: int, folder: Path | None) -> NoReturn:
    """A run that did not get to its first step has nothing to show, and must not become the latest run."""
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
    if failure is None:
        print("tandem: stopped before the first step", file=sys.stderr)
        raise typer.Exit(INTERRUPTED)
    print(f"tandem: the {word} did not start: {failure}", file=sys.stderr)
    raise typer.Exit(code)


def write_run_report(
    folder: Path, title: str, data: list[Any], bare: dict[str, Any] | None = None, own: "Sequence[PageSection]" = ()
) -> None:
    from tandem.reports.html import write_report

    report(folder, lambda place: write_report(place, title, data, bare, own)[0])
