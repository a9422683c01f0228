"""Text from files and from the wire, for a terminal: characters that would control it are made visible instead.

A record's name, the reason of its end, a key of a TOML file may hold any character. Printed as they are, escape
sequences move the cursor, change the title, or write into the clipboard; characters that change the direction of
writing make the text look like another one. Everything that tandem prints goes through `visible`.
"""

import re
import sys
import warnings
from collections.abc import Iterable
from typing import TextIO

_MOST_NAMES = 40

_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def _shown(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def visible(text: str) -> str:
    """The same text with control characters, all but tabs and ends of lines, written as \\x1b."""
    return _CONTROLS.sub(_shown, text)


def warn_in_words() -> None:
    """Show every warning of this process as one line of ours; Python's own form also shows the place in the source."""

    def show(
        message: Warning | str, category: type[Warning], filename: str, lineno: int,
        file: TextIO | None = None, line: str | None = None,
    ) -> None:  # fmt: skip
        print(f"tandem: {visible(str(message))}", file=file or sys.stderr, flush=True)

    warnings.showwarning = show


def listed(names: Iterable[str]) -> str:
    """Names out of a folder, sorted: a line's worth of them, whatever they are called."""
    found = sorted(on_one_line(name) for name in names)
    return ", ".join(found[:_MOST_NAMES]) + f" and {len(found) - _MOST_NAMES} more" * (len(found) > _MOST_NAMES)


def on_one_line(text: str) -> str:
    """The same with ends of lines shown too: a name must not write lines of its own below ours."""
    return visible(text).replace("\n", "\\x0a")
