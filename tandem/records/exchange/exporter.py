"""`tandem export`: a run as files for other programs."""

import importlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from sync.errors import TandemError
from sync.files.private import by_default
from sync.record import Run, open_run
from tandem.records.exchange.atomic_files import written_atomically
from tandem.records.exchange.errors import ExchangeError
from tandem.records.exchange.tables import Progress, passport_of, tables_of
from tandem.reports.outcome import DAMAGED
from tandem.reports.report import Report, Section, Table, warn

TABLES = ("csv", "parquet", "mf4")  # these can be imported again
KINDS = (*TABLES, "mcap")
Say = Callable[[str], None]
_ONE_FILE = ("mf4", "mcap")


def kind_of_file(kind: str) -> ModuleType:
    """Its module; raises with the name of the missing extra."""
    return importlib.import_module(f"tandem.records.exchange.{kind}")


def export(
    path: Path, to: str, out: Path | None, progress: Progress = lambda *_: None, say: Say = lambda _: None
) -> dict[str, Any]:
    """Every topic of a run; returns what was written."""
    if to not in KINDS:
        raise ExchangeError(f"--to {to}: must be one of {', '.join(KINDS)}")
    files = kind_of_file(to) if to != "mcap" else None
    run = open_run(path, progress=lambda share: progress("reading", share))
    target = _target(run, to, out)
    with written_atomically(target) as part:
        if files is None:
            rows = _with_scene(path, run, part, progress, say)
        else:
            tables = tables_of(run)
            written = files.write(tables, passport_of(run, tables), part, progress)
            names = written if part.is_dir() else [""] * len(tables)
            rows = [
                {"file": name, "topic": table.topic, "rows": table.rows, "columns": len(table.columns)}
                for name, table in zip(names, tables, strict=True)
            ]
    progress("written", 1.0)
    for row in rows:
        row["file"] = str(target / row["file"] if target.is_dir() else target)
    size = sum(file.stat().st_size for file in (target.iterdir() if target.is_dir() else [target]))
    return {
        "to": to, "run": str(run.path), "out": str(target), "bytes": size, "topics": rows, "cut": run.cut,
        "damage": run.losses,
    }  # fmt: skip


def _with_scene(path: Path, run: Run, part: Path, progress: Progress, say: Say) -> list[dict[str, Any]]:
    """A file for Foxglove; where a record's states cannot be made again, its topics alone."""
    from sync.compile import build
    from sync.compile.jit import compiling

    build.ensure_for("tandem.records.replay")
    with compiling("replay"):
        from tandem.records.feed import record_feed
        from tandem.records.foxglove.file import write
        from tandem.records.replay import Options
    try:
        feed = record_feed(path, Options("exact"), say, progress)
    except TandemError as error:
        say(f"{error}")
        feed = None
    if feed is None or feed.model.shown.scene is None or not feed.knows_states:
        say("no transforms and no markers: the machine has no scene, or its states could not be made again")
    counts = write(run, feed, part, progress)
    columns = {topic: len(run.topics[topic].blocks.dtype.names or ()) for topic in run.topics}
    return [{"file": "", "topic": t, "rows": rows, "columns": columns.get(t, 1)} for t, rows in counts.items()]


def _target(run: Run, to: str, out: Path | None) -> Path:
    folder = run.path.parent
    name = folder.name or "run"
    if out is None and (folder / "export").is_symlink():
        raise ExchangeError(f"{folder / 'export'}: is a link, and leads elsewhere; remove it, or give --out")
    if out is None:
        by_default(folder / "export" / to)
    if to not in _ONE_FILE:
        return out or folder / "export" / to
    target = out or folder / "export" / f"{name}.{to}"
    if target.is_dir():
        target = target / f"{name}.{to}"
    if target.suffix.lower() != f".{to}":
        raise ExchangeError(f"--out {target}: must end in .{to}, or be a folder that is there")
    return target


def report(figures: dict[str, Any]) -> Report:
    rows = [(row["topic"], Path(row["file"]).name, row["rows"], row["columns"]) for row in figures["topics"]]
    notes = [warn(f"the record {figures['cut']}; exported is what it holds")] if figures["cut"] else []
    damage = figures["damage"]
    return Report(
        "tandem export", f"{figures['bytes'] / 1e6:.1f} MB: {figures['out']}", figures,
        [Section("", [Table(("topic", "file", "rows", "columns"), rows)])], notes, damage, DAMAGED if damage else 0,
    )  # fmt: skip
