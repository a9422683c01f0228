"""The whole page, and the two files of a report.

`report.html` is made of the headlines and all sections, with the style inside; `report.json` has the same figures, and
nothing in it that strict JSON does not know.
"""

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sync.files.private import make_folder, rewrite
from tandem.reports.html import sections
from tandem.reports.html.figures import RunData, headline, hops_us, worst
from tandem.reports.html.style import STYLE, WORDS
from tandem.reports.html.words import e

PageSection = Callable[[list[RunData], dict[str, Any]], str]


def page(title: str, runs: list[RunData], bare: dict[str, Any] | None = None, own: Sequence[PageSection] = ()) -> str:
    """`own`: sections that only some commands have."""
    bare, many = bare or {}, len(runs) > 1
    words = "".join(f"<dt>{e(word)}</dt><dd>{e(meaning)}</dd>" for word, meaning in WORDS.items())
    sayings = "".join(
        '<p class="headline">' + f"<b>{e(run.label)}:</b> " * many + f"{e(headline(run))}</p>" for run in runs
    )
    parts = [
        f'<header class="{"many" if many else "one"}"><h1>{e(title)}</h1>{sayings}{sections.overview(runs)}</header>',
        sections.where_section(runs),
        sections.age_section(runs),
        sections.hops_section(runs),
        sections.lateness_section(runs, bare),
        sections.cost_section(runs),
        sections.worst_section(runs),
        sections.balance_section(runs),
        sections.effort_section(runs),
        *(each(runs, bare) for each in own),
        f'<section id="words"><h2>Words</h2><dl>{words}</dl></section>',
    ]
    return document(title, parts)


def document(title: str, parts: Sequence[str]) -> str:
    """A page of ours around its parts, complete in itself."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{e(title)}</title><style>{STYLE}</style></head>\n<body><main>"
        + "\n".join(parts)
        + "</main></body></html>\n"
    )


def json_ready(value: Any) -> Any:
    """For JSON: numpy's numbers as Python's, and nothing JSON does not know."""
    if isinstance(value, dict):
        return {str(key): json_ready(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [json_ready(inner) for inner in value]
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_report(
    folder: Path, title: str, runs: list[RunData], bare: dict[str, Any] | None = None, own: Sequence[PageSection] = ()
) -> tuple[Path, Path]:
    """Writes report.html and report.json into `folder`, which is made if need be; returns their paths."""
    make_folder(folder)
    described = [
        {
            "label": run.label,
            "headline": headline(run),
            "figures": {**run.figures, "hops_us": hops_us(run)},
            "recorded_steps": len(run.steps),
            "worst": worst(run),
        }
        for run in runs
    ]
    html, figures = folder / "report.html", folder / "report.json"
    rewrite(html, (page(title, runs, bare, own)).encode())
    content = json_ready({"title": title, "runs": described, "bare": bare})
    rewrite(figures, (json.dumps(content, indent=1, allow_nan=False) + "\n").encode())
    return html, figures
