"""The frame of a page, complete in itself with its style inside; and figures as strict JSON knows them."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tandem.reports.html.style import STYLE
from tandem.reports.html.words import e


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
