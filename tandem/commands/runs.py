"""`tandem runs`: which runs a folder has, the latest first, without reading them."""

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from sync.errors import ConfigError
from sync.files.regular import open_regular
from tandem.console.present import give
from tandem.console.terminal import AsJson, errors
from tandem.reports.report import Report, Section, Table

_SHOWN = 20


@dataclass(frozen=True)
class Listed:
    run: str  # its folder
    begun_utc: str  # "" if its record does not say
    seconds: float | None  # from its first message to its last; None without an index
    megabytes: float
    parts: int
    topics: dict[str, int]  # messages of the parts that have an index
    whole: bool  # every part was finished: none was cut short
    recording: bool  # a recorder is still at work on it
    unreadable: str = ""  # why nothing is known of it


def listed(folder: Path) -> list[Listed]:
    """Every run of a folder, the latest first. Raises ConfigError if that is no folder."""
    from sync.record import parts
    from sync.record.damage import DAMAGED

    if not folder.is_dir():
        raise ConfigError(f"{folder}: no such folder of runs; `tandem run` makes one, --runs names it there")
    found = []
    for place in (folder, *sorted(folder.iterdir())):
        try:
            if place.is_dir() and (files := list(parts(place).values())):
                found.append(_of(place, files))
        except (*DAMAGED, OSError) as error:  # one of many: the others are listed
            why = error.strerror if isinstance(error, OSError) else str(error)
            found.append(Listed(str(place), "", None, 0.0, 0, {}, False, False, why or type(error).__name__))
    return sorted(found, key=lambda run: (run.begun_utc, run.run), reverse=True)


def _of(place: Path, files: list[Path]) -> Listed:
    from sync.record.heads import start_of
    from sync.record.resume import complete
    from sync.record.retention import in_use
    from sync.record.utc import KEY, derived

    start = start_of(files[0]) or {}
    offset = int(derived(start).get(KEY, 0))
    summaries = [_summary(file) for file in files]
    known = [summary for summary in summaries if summary is not None]
    topics: dict[str, int] = {}
    for summary in known:
        for number, count in summary.statistics.channel_message_counts.items():
            topic = summary.channels[number].topic if number in summary.channels else "?"
            topics[topic] = topics.get(topic, 0) + count
    begun = ""
    if offset:
        begun = datetime.fromtimestamp((offset + int(start.get("monotonic_ns", "0"))) // 10**9, UTC).isoformat()
    spans = [(s.statistics.message_start_time, s.statistics.message_end_time) for s in known if topics]
    seconds = (max(e for _, e in spans) - min(b for b, _ in spans)) * 1e-9 if spans else None
    size = sum(file.stat().st_size for file in files)
    whole = len(known) == len(files) and all(complete(file) for file in files)
    return Listed(
        str(place), begun, None if seconds is None else round(seconds, 3), round(size * 1e-6, 3), len(files), topics,
        whole, not whole and in_use(place),
    )  # fmt: skip


def _summary(file: Path) -> Any:
    """The summary at the end of a file; None where the file was cut short, or is not a record of ours."""
    from mcap.exceptions import McapError
    from mcap.reader import SeekingReader

    from sync.record.damage import DAMAGED

    try:
        with open_regular(file) as stream:
            found = SeekingReader(stream).get_summary()
    except (*DAMAGED, McapError, OSError):
        return None
    return found if found is not None and found.statistics is not None else None


def runs(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder of runs.")] = Path("runs"),
    everything: Annotated[bool, typer.Option("--all", help=f"Not only the latest {_SHOWN}.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the runs of a folder, the latest first: when, how long, how large, whether its record is whole."""
    with errors():
        found = listed(folder)
    shown = found if everything else found[:_SHOWN]
    rows = []
    for run in shown:
        topics = ", ".join(f"{count} {topic}" for topic, count in sorted(run.topics.items()))
        state = "" if run.whole else "being recorded" if run.recording else run.unreadable or "cut short"
        seconds = "" if run.seconds is None else f"{run.seconds:.1f}"
        begun = run.begun_utc[:19].replace("T", " ")
        rows.append((Path(run.run).name, begun, seconds, f"{run.megabytes:.1f}", topics, state))
    headline = f"{len(found)} {'run' if len(found) == 1 else 'runs'} in {folder}"
    older = [f"{len(found) - len(shown)} older ones: --all"] if len(shown) < len(found) else []
    table = Section("", [Table(("run", "begun, UTC", "s", "MB", "topics", ""), rows)])
    give(Report("tandem runs", headline, [asdict(run) for run in found], [table], older), as_json)
