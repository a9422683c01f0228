"""The person at the other end: what is shown, and what is typed.

On a terminal the live line is redrawn in place and a key acts at once. Elsewhere (a pipe, a file, a script) every line
of standard input is an answer, and what is shown comes as plain lines, the live one once a second.
"""

import contextlib
import os
import select
import sys
import termios
import time
import tty
from types import TracebackType
from typing import Any

from rich.console import Group
from rich.live import Live
from rich.text import Text

from tandem.console.terminal import Terminal

_PLAIN_EVERY_S = 1.0


class Ended(Exception):
    """The terminal or pipe is closed: no answer will come."""


class Keys:
    """Characters as they are typed; a line at a time where standard input is no terminal."""

    def __init__(self) -> None:
        self._fd = sys.stdin.fileno()
        self.at_once = os.isatty(self._fd)
        self._before: list[Any] | None = None
        self._waiting = b""
        self._ended = False

    def __enter__(self) -> "Keys":
        if self.at_once:
            self._before = termios.tcgetattr(self._fd)
            tty.setcbreak(self._fd)  # Ctrl-C stays Ctrl-C
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._before is not None:
            with contextlib.suppress(termios.error):  # the terminal has gone
                termios.tcsetattr(self._fd, termios.TCSADRAIN, self._before)

    def typed(self, wait_s: float) -> str:
        """What was typed since the last time, up to the end of a line; waits for it so long. Raises Ended."""
        if b"\n" not in self._waiting and not self._ended:
            if not select.select([self._fd], [], [], wait_s)[0]:
                return ""
            read = os.read(self._fd, 4096)
            self._ended = not read
            if not self.at_once:
                self._waiting += read
            elif not read.startswith(b"\x1b"):  # no arrows
                self._waiting += read.replace(b"\r", b"\n")
        line, end, rest = self._waiting.partition(b"\n")
        if not end and self._ended and not line:
            raise Ended
        if not end and not self.at_once and not self._ended:
            return ""
        self._waiting = rest
        return line.decode(errors="replace") + "\n" * bool(end or self._ended)


class Screen:
    """Standard error: sentences that stay, and below them, on a terminal, the live line and the question."""

    def __init__(self) -> None:
        self.console = Terminal(stderr=True, highlight=False)
        in_place = self.console.is_terminal and not self.console.is_dumb_terminal
        self._live = Live(console=self.console, auto_refresh=False, transient=True) if in_place else None
        self._shown_s = -_PLAIN_EVERY_S
        self._prompt = self._line = ""

    def __enter__(self) -> "Screen":
        if self._live:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._live:
            self._live.stop()

    def show(self, text: str, style: str = "") -> None:
        self.console.print(Text(text, style), soft_wrap=self._live is None)  # a pipe has no width

    def ask(self, question: str) -> None:
        """A question begins; where nothing is redrawn it is printed once."""
        self._prompt = question
        if not self._live:
            self.show(question)

    def live(self, line: str, typed: str = "") -> None:
        if self._live:
            parts = (
                [Text(line, "cyan"), Text(f"{self._prompt} {typed}▏", "bold")] if self._prompt else [Text(line, "cyan")]
            )
            self._live.update(Group(*parts), refresh=True)
        elif line != self._line and time.monotonic() - self._shown_s >= _PLAIN_EVERY_S:
            self._line, self._shown_s = line, time.monotonic()
            self.show(line)
