"""The report of runs: how old the data were, where the age comes from, when it was worst, and what happened there.

Sections are for the page, unless a command adds its own for the terminal (tandem/live/figures.py).
"""

from collections.abc import Callable, Sequence
from typing import Any

from tandem.reports.html import sections
from tandem.reports.html.figures import RunData, headline, hops_us, worst
from tandem.reports.html.markup import joined, markup
from tandem.reports.html.style import WORDS
from tandem.reports.report import Line, Report, Section

PageSection = Callable[[list[RunData], dict[str, Any]], Section]


def run_report(
    title: str,
    runs: list[RunData],
    bare: dict[str, Any] | None = None,
    own: Sequence[PageSection] = (),
    *,
    data: Any = None,
    printed: Sequence[Section] = (),
    notes: Sequence[Line] = (),
    complaints: Sequence[str] = (),
    code: int = 0,
) -> Report:
    """`own`: sections that only some commands have; `printed`: what the terminal has of all this."""
    bare = bare or {}
    shown = [
        sections.overview(runs),
        sections.where_section(runs),
        sections.age_section(runs),
        sections.hops_section(runs),
        sections.lateness_section(runs, bare),
        sections.cost_section(runs),
        sections.worst_section(runs),
        sections.balance_section(runs),
        *sections.effort_sections(runs),
        *(each(runs, bare) for each in own),
        _words(),
    ]
    stored = {"runs": [_described(run) for run in runs], "bare": bare}
    labelled = [(run.label, headline(run)) for run in runs]
    lead = labelled[0][1] if runs else "There was no run."
    data = data if data is not None else stored
    labelled = labelled if len(runs) > 1 else []
    return Report(title, lead, data, [*shown, *printed], notes, complaints, code, stored, labelled)


def _described(run: RunData) -> dict[str, Any]:
    return {
        "label": run.label,
        "headline": headline(run),
        "figures": {**run.figures, "hops_us": hops_us(run)},
        "recorded_steps": len(run.steps),
        "worst": worst(run),
    }


def _words() -> Section:
    terms = joined(markup("<dt>{}</dt><dd>{}</dd>", word, meaning) for word, meaning in WORDS.items())
    return Section("Words", [markup("<dl>{}</dl>", terms)], on="page", key="words")
