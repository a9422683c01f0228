"""The outcomes of promises: one table for the terminal, a page for the site, an object for programs."""

import os
import subprocess
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from tandem.records.provenance import machine_facts
from verify import ROOT
from verify.measure import Row
from verify.registry import Promise, Settings
from verify.run import Outcome

MEASURED = "<!-- measured -->"  # people write the text of a page above this line
_SHOWN = ("utc", "software", "commit", "sources", "processor", "cores", "kernel", "python", "numba", "numpy")


def listing(promises: Iterable[Promise], options: bool) -> str:
    lines = []
    for promise in promises:
        needs = f"; needs {', '.join(promise.needs)}" if promise.needs else ""
        lines.append(f"{promise.name:22s} {promise.promised} ({minutes(promise.minutes)}{needs})")
        if options:
            lines += [f"    {option.shown}" for option in promise.options.values()]
            if promise.quick is not None:
                short = ", ".join(f"--{k.replace('_', '-')} {v}" for k, v in promise.quick.items())
                lines.append(f"    --quick: {short or 'as it is'}")
    return "\n".join(lines)


def minutes(value: float) -> str:
    return f"{60 * value:g} s" if value < 1 else f"{value:g} min" if value < 90 else f"{value / 60:g} h"


def table(found: list[Outcome], console: Console) -> None:
    """Print every row of every promise, then what was missed and what could not be measured."""
    shown = Table(box=None, pad_edge=False)
    for heading in ("promise", "quantity", "value", "unit", "limit", "verdict"):
        shown.add_column(heading, justify="right" if heading == "value" else "left", overflow="fold")
    for one in found:
        for k, row in enumerate(one.rows):
            name = one.promise.name if k == 0 else ""
            style = "bold red" if row.held is False else None
            shown.add_row(name, row.quantity, row.shown, row.unit, row.limit, row.verdict, style=style)
        if not one.rows:
            shown.add_row(one.promise.name, one.not_here, "", "", "", one.verdict)
    for one in found:
        for text in one.printed:
            console.print(text, markup=False, highlight=False, soft_wrap=True)
    console.print(shown)
    console.print(summary(found), markup=False, highlight=False)


def summary(found: list[Outcome]) -> str:
    of = {v: [one for one in found if one.verdict == v] for v in ("held", "measured", "MISSED", "not here")}
    parts = [f"{len(of['held'])} held"]
    if of["measured"]:
        parts.append(f"{len(of['measured'])} measured")
    parts.append(f"{len(of['MISSED'])} missed" + _named(one.promise.name for one in of["MISSED"]))
    away = _named(f"{one.promise.name}: {one.not_here}" for one in of["not here"])
    parts.append(f"{len(of['not here'])} could not be measured here" + away)
    return "; ".join(parts)


def _named(names: Iterable[str]) -> str:
    together = ", ".join(names)
    return f" ({together})" if together else ""


def as_json(found: list[Outcome]) -> dict[str, Any]:
    return {
        "machine": facts(),
        "promises": [
            {
                "name": one.promise.name, "promised": one.promise.promised, "command": one.command,
                "verdict": one.verdict, "not_here": one.not_here, "seconds": one.seconds, "load": one.load,
                "rows": [asdict(row) | {"verdict": row.verdict} for row in one.rows], "printed": one.printed,
            }
            for one in found
        ],
    }  # fmt: skip


def from_json(data: dict[str, Any], promise: Promise, settings: Settings) -> Outcome | None:
    """The outcome that `as_json` wrote of this promise alone; None if it was measured with other settings."""
    (one,) = data["promises"]
    found = Outcome(promise, settings, machine=data["machine"])
    if one["command"] != found.command:
        return None
    found.rows = [Row(**{key: value for key, value in row.items() if key != "verdict"}) for row in one["rows"]]
    found.printed, found.not_here = one["printed"], one["not_here"]
    found.seconds, found.load = one["seconds"], tuple(one["load"])
    return found


def facts() -> dict[str, str]:
    known = machine_facts() | {"cores": str(os.cpu_count()), "commit": _commit()}
    return {key: known[key] for key in _SHOWN if key in known}


def _commit() -> str:
    """The commit of the sources, and whether they differ from it."""
    try:
        named = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12"],
            cwd=ROOT, capture_output=True, text=True, check=True,
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        return "none: no checkout"
    return named.stdout.strip()


def page(title: str, found: list[Outcome], before: str = "", brief: bool = False) -> str:
    """Markdown, with date, machine, commit and sources; `before` is the page as it was.

    A brief page has one row for each promise: what it was judged by."""
    text, marked, _ = before.partition(MEASURED)
    lines = [text.rstrip(), "", MEASURED, ""] if marked else [f"# {title or 'What was measured'}", ""]
    lines += [summary(found) + ".", ""]
    lines += ["| | |", "|---|---|", *(f"| {key} | {value} |" for key, value in facts().items()), ""]
    if brief:
        lines += ["| promise | verdict | judged by | measured |", "|---|---|---|---|"]
        return "\n".join([*lines, *(_brief_row(one) for one in found), ""])
    for one in found:
        took = f"{one.seconds:.0f} s, load {one.load[0]:.1f} before and {one.load[1]:.1f} after"
        lines += [f"## {one.promise.name}", "", one.promise.promised, ""]
        lines += [f"`{one.command}`: **{one.verdict}**" + (f" ({one.not_here})." if one.not_here else f", {took}."), ""]
        if one.rows:
            lines += ["| quantity | value | unit | limit | verdict |", "|---|---:|---|---|---|"]
            lines += [_cells(r.quantity, r.shown, r.unit, r.limit, r.verdict) for r in one.rows]
            lines.append("")
        for text in one.printed:
            lines += ["```text", text.strip().replace("```", "'''"), "```", ""]
    return "\n".join(lines)


def _brief_row(one: Outcome) -> str:
    """What was missed, or else the first three quantities that have a limit."""
    judged = [row for row in one.rows if row.held is False] or [row for row in one.rows if row.held][:3]
    texts = [[r.quantity, r.shown, r.unit, r.limit and f"({r.limit})"] for r in judged]
    figures = "; ".join(" ".join(filter(None, words)) for words in texts)
    machine = one.machine or facts()
    when = f"{machine['utc'][:10]}, {machine['commit'][:12]}, {machine['cores']} cores, load {one.load[0]:.0f}"
    return _cells(one.promise.name, one.verdict, one.not_here or figures, "" if one.not_here else when)


def _cells(*texts: str) -> str:
    return "| " + " | ".join(text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;") for text in texts) + " |"
