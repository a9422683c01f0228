"""A report of anything: a headline, sections of text, tables and charts, in one file; and its figures as JSON.

The looks are those of every report of ours. `write_plain` is the place where a run's folder is filled.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tandem.html.page import _plain
from tandem.html.sections import _section, _table
from tandem.html.style import STYLE
from tandem.html.words import Raw, e


def section(key: str, title: str, lead: str, *content: str) -> str:
    return _section(key, title, lead, *content)


def table(headings: Sequence[str], rows: Sequence[Sequence[Any]]) -> Raw:
    return _table(headings, rows, "figures")


def plain_page(title: str, headline: str, sections: Sequence[str]) -> str:
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{e(title)}</title><style>{STYLE}</style></head>\n<body><main>"
        f'<header class="one"><h1>{e(title)}</h1><p class="headline">{e(headline)}</p></header>'
        + "\n".join(sections)
        + "</main></body></html>\n"
    )


def write_plain(
    folder: Path, title: str, headline: str, sections: Sequence[str], figures: dict[str, Any]
) -> tuple[Path, Path]:
    """Writes report.html and report.json into `folder`, which is made if need be; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    html, told = folder / "report.html", folder / "report.json"
    html.write_text(plain_page(title, headline, sections), encoding="utf-8")
    content = _plain({"title": title, "headline": headline, **figures})
    told.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    return html, told
