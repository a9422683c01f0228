"""`tandem export`: a run as files for other programs."""

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table as Printed

from sync.record import open_run
from tandem.exchange.atomic_files import written_atomically
from tandem.exchange.errors import ExchangeError
from tandem.exchange.tables import Progress, passport_of, tables_of
from tandem.terminal import single_lines

KINDS = ("csv", "parquet", "mf4")


def kind_of_file(kind: str) -> ModuleType:
    """Its module; raises with the name of the missing extra."""
    return importlib.import_module(f"tandem.exchange.{kind}")


def export(path: Path, to: str, out: Path | None, progress: Progress = lambda *_: None) -> dict[str, Any]:
    """Every topic of a run; returns what was written."""
    if to not in KINDS:
        raise ExchangeError(f"--to {to}: must be one of {', '.join(KINDS)}")
    files = kind_of_file(to)
    run = open_run(path, progress=lambda share: progress("reading", share))
    tables = tables_of(run)
    folder = run.path.parent
    name = folder.name or "run"
    if out is None and (folder / "export").is_symlink():
        raise ExchangeError(f"{folder / 'export'}: is a link, and leads elsewhere; remove it, or give --out")
    if to == "mf4":
        target = out or folder / "export" / f"{name}.mf4"
        if target.is_dir():
            target = target / f"{name}.mf4"
        if target.suffix.lower() != ".mf4":
            raise ExchangeError(f"--out {target}: must end in .mf4, or be a folder that is there")
    else:
        target = out or folder / "export" / to
    with written_atomically(target) as part:
        written = files.write(tables, passport_of(run, tables), part, progress)
    progress("written", 1.0)
    places = [target / name for name in written] if target.is_dir() else [target] * len(tables)
    rows = [
        {"file": str(place), "topic": table.topic, "rows": table.rows, "columns": len(table.columns)}
        for place, table in zip(places, tables, strict=True)
    ]
    size = sum(file.stat().st_size for file in (target.iterdir() if target.is_dir() else [target]))
    return {
        "to": to, "run": str(run.path), "out": str(target), "bytes": size, "topics": rows, "cut": run.cut,
        "damage": run.losses,
    }  # fmt: skip


def print_export(console: Console, figures: dict[str, Any]) -> None:
    figures = single_lines(figures)
    table = Printed()
    for heading in ("topic", "file"):
        table.add_column(heading, overflow="fold")
    table.add_column("rows", justify="right")
    table.add_column("columns", justify="right")
    for row in figures["topics"]:
        table.add_row(escape(row["topic"]), escape(Path(row["file"]).name), str(row["rows"]), str(row["columns"]))
    console.print(table)
    console.print(f"{figures['bytes'] / 1e6:.1f} MB: {figures['out']}", soft_wrap=True, markup=False)
    if figures["cut"]:
        console.print(f"[yellow]the record {escape(figures['cut'])}; exported is what it holds[/]", soft_wrap=True)
