"""How things of the library are shown: as text where Python prints them, as HTML where a notebook does."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape

import numpy as np

_WIDE = 100  # letters of a line
_HEAD, _TAIL = 4, 2  # rows of a table that are shown
_MOST_NAMES = 12


def figure(value: object) -> str:
    """A number in six digits; an instant or a count in all of its own."""
    if isinstance(value, float | np.floating):
        return f"{float(value):.6g}"
    return str(value)


def heading(name: str, unit: str) -> str:
    return f"{name} ({unit})" if unit else name


def names(title: str, them: Iterable[str], most: int = _MOST_NAMES) -> str:
    """A line of them: the first ones, and how many there are besides."""
    every = list(them)
    shown = ", ".join(every[:most]) or "none"
    more = f", … and {len(every) - most} more" if len(every) > most else ""
    return f"  {title}: {shown}{more}"


def shown_rows(rows: int) -> tuple[list[int], bool]:
    """Which rows of so many are shown; whether there are others between them."""
    if rows <= _HEAD + _TAIL + 1:
        return list(range(rows)), False
    return [*range(_HEAD), *range(rows - _TAIL, rows)], True


def columns_text(columns: Mapping[str, np.ndarray], units: Mapping[str, str]) -> tuple[list[str], int]:
    """Lines with the first and the last rows of as many columns as a line holds, and how many columns these are."""
    rows = len(next(iter(columns.values()), ()))
    chosen, gap = shown_rows(rows)
    texts: list[list[str]] = []
    wide = 0
    for name, column in columns.items():
        cells = [heading(name, units.get(name, "")), *(figure(column[k]) for k in chosen)]
        if gap:
            cells.insert(1 + _HEAD, "…")
        width = max(map(len, cells))
        if texts and wide + width + 2 > _WIDE:
            break
        wide += width + 2
        texts.append([cell.rjust(width) for cell in cells])
    return ["  ".join(line) for line in zip(*texts, strict=True)], len(texts)


def html_table(headings: Sequence[str], rows: Iterable[Sequence[object]], caption: str = "") -> str:
    """A table for a notebook, which has its own style for it; whatever stands in it is text."""
    head = "".join(f"<th>{escape(each)}</th>" for each in headings)
    body = "".join("<tr>" + "".join(f"<td>{escape(figure(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    above = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{above}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def html_columns(columns: Mapping[str, np.ndarray], units: Mapping[str, str], caption: str) -> str:
    chosen, gap = shown_rows(len(next(iter(columns.values()), ())))
    rows: list[list[object]] = [[column[k] for column in columns.values()] for k in chosen]
    if gap:
        rows.insert(_HEAD, ["…"] * len(columns))
    return html_table([heading(name, units.get(name, "")) for name in columns], rows, caption)
