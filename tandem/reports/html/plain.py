"""A report of anything: a headline, sections of text, tables and charts, in one file; and its figures as JSON.

The looks are those of every report of ours.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sync.files.private import make_folder, rewrite
from tandem.reports.html.page import document, json_ready
from tandem.reports.html.words import e


def write_plain(
    folder: Path, title: str, headline: str, sections: Sequence[str], figures: dict[str, Any]
) -> tuple[Path, Path]:
    """Writes report.html and report.json into `folder`, which is made if need be; returns their paths."""
    make_folder(folder)
    html, data = folder / "report.html", folder / "report.json"
    header = f'<header class="one"><h1>{e(title)}</h1><p class="headline">{e(headline)}</p></header>'
    rewrite(html, (document(title, [header, *sections])).encode())
    content = json_ready({"title": title, "headline": headline, **figures})
    rewrite(data, (json.dumps(content, indent=1, allow_nan=False) + "\n").encode())
    return html, data
