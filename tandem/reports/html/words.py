"""Numbers and times as people read them, and text that is safe inside a page.

Every time has a unit that suits its size; a figure that is missing or not finite is a dash. `e` escapes whatever it
is given, except `Raw`, our own markup.
"""

import math
from collections.abc import Callable
from typing import Any

from tandem.reports.html.markup import Markup as Raw
from tandem.reports.html.markup import escape as e

__all__ = ["Raw", "axis_ns", "e", "format_count", "format_many", "format_ns", "format_short", "format_us"]


def _unit(ns: float) -> tuple[float, str]:
    return next(((s, u) for s, u in ((1.0, "ns"), (1e3, "µs"), (1e6, "ms")) if ns < 999.5 * s), (1e9, "s"))


def format_ns(ns: float) -> str:
    """Three digits and the unit that suits them."""
    size = abs(ns)
    if size < 0.5:
        return "0"
    scale, unit = _unit(size)
    digits = max(0, 2 - math.floor(math.log10(max(size / scale, 1)) + 1e-9))
    text = f"{ns / scale:.{digits}f}"
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text}\u00a0{unit}"


def axis_ns(high: float) -> Callable[[float], str]:
    """Labels of one axis, all in one unit."""
    scale, unit = _unit(high)
    return lambda ns: f"{ns / scale:.6g}\u00a0{unit}" if ns else "0"


def format_us(value: Any) -> str:
    return format_ns(1e3 * value) if isinstance(value, int | float) and math.isfinite(value) else "–"


def format_short(us: float) -> str:
    """Two digits, in ms or s, for sentences."""
    scale, unit = (1e3, "ms") if us < 9.995e5 else (1e6, "s")
    return f"{us / scale:{'.2g' if us / scale < 9.5 else '.0f'}}\u00a0{unit}"


def format_count(value: Any) -> str:
    if not isinstance(value, int | float):
        return str(value)
    return f"{value:,}".replace(",", "\u202f") if math.isfinite(value) else "–"


def format_many(count: Any, one: str, more: str) -> str:
    return f"{'no' if count == 0 else format_count(count)} {one if count == 1 else more}"
