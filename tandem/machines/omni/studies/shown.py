"""The figures of `tandem study omni`, as a report."""

from collections.abc import Callable
from typing import Any

from tandem.machines.omni.studies.measures import STUDIES, Measured
from tandem.reports.html.chart import curves, paths
from tandem.reports.report import Report, Section, checked, promised

Results = dict[str, Measured]


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


def report(results: Results) -> Report:
    sections = []
    for name, result in results.items():
        pictures = [paths(title, series) for title, series in result.paths]
        pictures += [curves(title, series, logarithmic=log) for title, series, log in result.pictures]
        sections.append(Section(STUDIES[name][0], [checked(result.rows), *pictures], key=name))
    headline = promised([row for result in results.values() for row in result.rows])
    return Report("tandem study omni", headline, figures(results), sections)
