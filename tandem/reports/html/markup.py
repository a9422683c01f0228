"""HTML that is safe to show: everything that is put into a template is escaped, unless it is markup of our own.

`markup(template, *values)` is the one way to make it: the template is a literal in our sources, a value is text from
anywhere (a file, a record, a name that somebody chose). tests/tandem/reports/test_markup.py reads the sources and fails
where a template is no literal, where `Markup` is made from anything else, or where a page takes plain text as HTML.
"""

from collections.abc import Iterable
from html import escape as _escape
from typing import Any


class Markup(str):
    """Markup of our own, which is not escaped again."""

    __slots__ = ()


def escape(value: Any) -> Markup:
    return value if isinstance(value, Markup) else Markup(_escape(str(value), quote=True))


def markup(template: str, *values: Any) -> Markup:
    """`template` with a {} for each value; every value is escaped."""
    return Markup(template.format(*(escape(value) for value in values)))


def show(handle: Any, content: Markup) -> None:
    """Show it on a page if it has changed."""
    if not isinstance(content, Markup):
        raise TypeError(f"a page shows markup, not {type(content).__name__}")
    if handle.content != content:
        handle.content = str(content)


def paragraphs(lines: Iterable[Markup]) -> Markup:
    """Text beside the widgets of a page."""
    return markup(
        '<div style="font-size:.875rem;line-height:1.5;margin:.2rem .8rem .5rem">{}</div>',
        joined(markup('<p style="margin:.2rem 0">{}</p>', line) for line in lines),
    )


def joined(parts: Iterable[Markup], between: str = "") -> Markup:
    return Markup(escape(between).join(escape(part) for part in parts))
