"""A run with its report and exit code, for every command that makes one, and what a machine's command adds to it."""

import json
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NoReturn

import typer

from sync.config import plugins
from sync.errors import ConfigError
from tandem.brought import REPORTS
from tandem.console.compiled import machine_name
from tandem.console.present import give
from tandem.console.terminal import errors, run_folder
from tandem.live.run import live_run
from tandem.reports.outcome import INTERRUPTED, verdict

if TYPE_CHECKING:
    from tandem.reports.run_report import PageSection

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
        # found before the run: once its recorder has begun, it is itself the latest run of the folder
        from sync.record.reader import find

        with errors():
            settings.append(f'source={{kind="replay", run={json.dumps(str(find(repeat).absolute()))}}}')
    return settings


@dataclass(frozen=True)
class Own:
    """What the report of a machine's run shows besides what all reports show: its REPORT (tandem/brought.py)."""

    channels: tuple[str, ...]  # of a step, which its sections draw
    sections: "Callable[[], Sequence[PageSection]]"  # of the page, found when there is one


def own_report(machine: str) -> Own:
    """What a machine adds to the report of its run."""
    from sim_service.registry import MACHINES

    # reading what other packages declare takes a moment
    if machine not in (REPORTS if machine in MACHINES else plugins.known(plugins.REPORTS, REPORTS)):
        return Own((), tuple)
    own = plugins.load(plugins.REPORTS, REPORTS, machine, "report", ("REPORT",)).REPORT
    if not isinstance(own, Own):
        raise ConfigError(
            f"report = {machine!r}: REPORT must be a tandem.live.reported.Own, and is {type(own).__name__}"
        )
    return own


def run_and_report(
    word: str,
    config: Path,
    settings: list[str],
    seconds: float | None,
    as_json: bool,
    runs: Path,
    token_file: Path | None,
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
            channels=lambda found: own_report(machine_name(found, config.parent)).channels,
        )
        from tandem.live.figures import answers, figures, printed
        from tandem.records.against_truth import against_truth, truth_section
        from tandem.reports.html import RunData
        from tandem.reports.run_report import run_report

        result = figures(checked, outcome)
        if folder is not None:
            result["truth"] = against_truth(folder)
        if not result["steps"]:
            if as_json and outcome.failure:
                print(json.dumps(result), flush=True)
            _end_without_steps(word, outcome.failure, outcome.code, folder)
        data = [RunData(result["transport"], result, outcome.steps, tuple(checked.inputs))]
        beside = [truth_section(result["truth"])] if result.get("truth") else []
        found = verdict(result, outcome.failure, outcome.code)
        own = own_report(machine_name(checked, config.parent)).sections()
        report = run_report(
            f"tandem {word}: {config.stem}", data, own=own, data=result,
            printed=[*printed(result), *beside], notes=answers(result), complaints=found.complaints, code=found.code,
        )  # fmt: skip
        place = folder or run_folder(runs, checked.name)
    give(report, as_json, place)


def _end_without_steps(word: str, failure: str | None, code: int, folder: Path | None) -> NoReturn:
    """A run that did not get to its first step has nothing to show, and must not become the latest run."""
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
    if failure is None:
        print("tandem: stopped before the first step", file=sys.stderr)
        raise typer.Exit(INTERRUPTED)
    print(f"tandem: the {word} did not start: {failure}", file=sys.stderr)
    raise typer.Exit(code)
