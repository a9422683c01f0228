"""The figures of `tandem study omni` as tables and as a page."""

from collections.abc import Callable
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from tandem.machines.omni.studies.measures import STUDIES, Measured
from tandem.reports.html.chart import curves, paths
from tandem.reports.html.sections import section, table

Results = dict[str, Measured]
HEADINGS = ("", "measured", "promised", "")
_MARKS = {True: "holds", False: "DOES NOT HOLD", None: ""}


def measure(names: list[str], say: Callable[[str, float], None]) -> Results:
    results = {}
    for k, name in enumerate(names):
        say(name, k / len(names))
        results[name] = Measured()
        STUDIES[name][1](results[name])
    return results


def figures(results: Results) -> dict[str, Any]:
    rows = [
        {"study": name, "what": what, "measured": value, "promised": limit, "holds": holds}
        for name, result in results.items()
        for what, value, limit, holds in result.rows
    ]
    return {"rows": rows, "holds": all(row["holds"] is not False for row in rows)}


def headline(results: Results) -> str:
    rows = [row for result in results.values() for row in result.rows if row[3] is not None]
    broken = [what for what, _, _, holds in rows if not holds]
    if broken:
        return f"{len(broken)} of {len(rows)} promises do not hold: {'; '.join(broken)}"
    return f"All {len(rows)} promises hold." if rows else "Nothing of this is promised."


def print_results(console: Console, results: Results) -> None:
    for name, result in results.items():
        shown = Table(title=STUDIES[name][0], title_justify="left", box=SIMPLE_HEAD)
        for k, heading in enumerate(HEADINGS):
            shown.add_column(heading, justify="left" if k in (0, 3) else "right", no_wrap=k > 0)
        for what, value, limit, holds in result.rows:
            shown.add_row(what, value, limit, _MARKS[holds])
        console.print(shown)
    console.print(headline(results), markup=False)


def page_sections(results: Results) -> list[str]:
    pieces = []
    for name, result in results.items():
        rows = [(what, value, limit, _MARKS[holds]) for what, value, limit, holds in result.rows]
        charts = [paths(title, series) for title, series in result.paths]
        charts += [curves(title, series, logarithmic=log) for title, series, log in result.pictures]
        pieces.append(section(name, STUDIES[name][0], "", table(HEADINGS, rows, "figures"), *charts))
    return pieces
