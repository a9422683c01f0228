"""An observer over a record: the readings that a live run took, given again to its own filter and to others.

Every step gets the block it used on board, so the filter of the record must come to the same bits again. Another
tuning is another machine file of the same observer (`[sensors]`, `[filter]`): it gets the same readings, at the same
ages. What it estimates is compared with what was estimated on board; the truth is not known here.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from sync.errors import ConfigError
from tandem.replay import Asked, Replayed, recorded_columns, replay_run
from tandem.reports.html.chart import Series, curves
from tandem.reports.html.sections import section, table

AS_RECORDED = "as recorded"
COUNTED = ("readings_used", "readings_gated", "readings_late")
SIGMA, ESTIMATED = "sigma_", "estimated_"


def is_run(path: Path) -> bool:
    """A folder of a run or its file, rather than a study."""
    return path.is_dir() or path.suffix == ".mcap"


def observe_record(run: Path, tunings: list[Path], update: Callable[[str, float], None]) -> dict[str, Replayed]:
    """The record's own filter, then each tuning by its file's name."""
    found: dict[str, Replayed] = {}
    for k, file in enumerate([None, *tunings]):
        name = AS_RECORDED if file is None else file.name
        if name in found:
            raise ConfigError(f"--tuning {file}: {name!r} is there twice; files need names of their own")
        if file is not None and not file.is_file():
            raise ConfigError(f"--tuning {file}: there is no such file")
        asked = Asked(overrides=[] if file is None else [f"sim.machine={file.resolve()}"])
        found[name] = replay_run(run, asked, lambda what, share, k=k: update(what, (k + share) / (1 + len(tunings))))  # type: ignore[misc]
        machine = found[name].model.name
        if machine != "observer":
            raise ConfigError(f"{run if file is None else file}: machine = {machine!r}: must be 'observer'")
    return found


def figures(found: dict[str, Replayed]) -> dict[str, Any]:
    """Of every tuning: whether it is the record's to the bit, counters, uncertainty, distance from the record."""
    board = recorded_columns(found[AS_RECORDED].run, found[AS_RECORDED].model)
    out: dict[str, Any] = {}
    for name, done in found.items():
        columns = done.columns()
        n = len(done.results)
        outputs = [q.name for q in done.model.outputs]
        quantities = [q for q in outputs if q not in COUNTED and not q.startswith(SIGMA)]
        first = done.plan.first
        out[name] = {
            "steps": n, "identical": done.figures["identical"],
            "readings": {key: float(columns[key][-1]) if n else 0.0 for key in COUNTED},
            "rms_from_board": {
                q: float(np.sqrt(np.mean((columns[q] - board[q][first : first + n]) ** 2)))
                for q in quantities if q in board and n
            },
            "mean_sigma": {
                q.removeprefix(SIGMA): float(np.mean(columns[q])) for q in outputs if q.startswith(SIGMA) and n
            },
        }  # fmt: skip
    return out


def headline(shown: dict[str, Any]) -> str:
    same = shown[AS_RECORDED]["identical"]
    return f"{AS_RECORDED}: {'identical to the record, to the bit' if same else 'NOT what was recorded'}."


def _rows(shown: dict[str, Any]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    names = list(shown)
    rows = [(key.removeprefix("readings_"), *(f"{shown[n]['readings'][key]:.0f}" for n in names)) for key in COUNTED]
    for what, label in (("mean_sigma", "standard deviation of"), ("rms_from_board", "from the record, rms, of")):
        every = list(dict.fromkeys(q for n in names for q in shown[n][what]))
        rows += [
            (f"{label} {q}", *(f"{shown[n][what][q]:.4g}" if q in shown[n][what] else "" for n in names)) for q in every
        ]
    return ("", *names), rows


def print_results(console: Console, shown: dict[str, Any]) -> None:
    headings, rows = _rows(shown)
    out = Table(box=SIMPLE_HEAD)
    for k, heading in enumerate(headings):
        out.add_column(heading, justify="left" if k == 0 else "right", no_wrap=True)
    for row in rows:
        out.add_row(*row)
    console.print(out)
    console.print(headline(shown), markup=False)


def page_sections(found: dict[str, Replayed], shown: dict[str, Any]) -> list[str]:
    headings, rows = _rows(shown)
    pieces = [section("figures", "figures", headline(shown), table(headings, rows, "figures"))]
    first = found[AS_RECORDED]
    for q in first.model.outputs:
        if q.name.startswith(SIGMA):
            name = q.name.removeprefix(SIGMA)
            what = name if name in first.columns() else ESTIMATED + name
            series = [
                Series(label, (done.instants - done.instants[0]) * 1e-9, done.columns()[what])
                for label, done in found.items() if len(done.results) and what in done.columns()
            ]  # fmt: skip
            if series:
                pieces.append(section(name, name, "", curves(f"{name} over time, s", series)))
    return pieces
