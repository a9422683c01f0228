"""How the address of a page, which has its token in it, gets to the person who may open it, and to nobody else.

It is printed on the terminal. A browser that is started with an address shows it to every user of the machine, in its
command line, and a journal has readers of its own: these two get the name of a file that only this user can read, which
leads to the page.
"""

import contextlib
import os
import secrets
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sync.config.config import runtime_directory
from tandem.reports.html.markup import markup


@contextmanager
def announced(address: str, say: Callable[[str], None], opened: bool = False) -> Iterator[None]:
    """Prints where the page is, and opens it in the browser if asked; a file made for that is removed at the end."""
    in_journal = "JOURNAL_STREAM" in os.environ
    if not opened and not in_journal:
        say(f"the page: {address}")
        yield
        return
    path = runtime_directory() / f"page-{secrets.token_hex(8)}.html"
    text = markup(
        '<!doctype html><meta http-equiv="refresh" content="0;url={}"><a href="{}">tandem</a>', address, address
    )
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "w") as file:
        file.write(text)
    try:
        say(f"the page: {path.as_uri() if in_journal else address}")
        if opened:
            webbrowser.open(path.as_uri())
        yield
    finally:
        with contextlib.suppress(OSError):
            path.unlink()
