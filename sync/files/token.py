"""The token of a page: random for every run, unless it is given by a file or by TANDEM_TOKEN.

It is never on a command line, which every user of the machine can read, and never in a configuration, which is
recorded. From the supervisor to the view it goes through a pipe.
"""

import os
import re
import secrets
import stat
from pathlib import Path

from sync.errors import ConfigError
from sync.files.regular import open_regular

VARIABLE = "TANDEM_TOKEN"
_FORM = re.compile(r"[A-Za-z0-9_-]{16,128}")
_MOST_BYTES = 4096
_HIDDEN = b'"(not kept)"'
_SETTING = re.compile(rb"""(\btoken["']?\s*[=:]\s*)("[^"\n]*"|'[^'\n]*')""")


def new_token() -> str:
    return secrets.token_urlsafe(32)


def page_token(file: Path | None = None) -> str:
    """The token from `file`, or from the environment (and removed there: no process inherits it), or a new one."""
    inherited = os.environ.pop(VARIABLE, "")
    if file is not None:
        return _checked(_read(file), str(file))
    return _checked(inherited, VARIABLE) if inherited else new_token()


def _read(file: Path) -> str:
    try:
        with open_regular(file) as opened:
            mode = os.fstat(opened.fileno()).st_mode
            if mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise ConfigError(f"{file}: others may read or write it (mode {mode & 0o777:o}); set it to 600")
            return opened.read(_MOST_BYTES).decode("ascii", "replace").strip()
    except OSError as error:
        raise ConfigError(f"{file}: the token cannot be read: {error.strerror}") from None


def _checked(token: str, where: str) -> str:
    if not _FORM.fullmatch(token):
        raise ConfigError(
            f"{where}: a token has 16 to 128 letters, digits, - or _; this one has {len(token)} characters"
        )
    return token


def redacted(text: str, token: str) -> str:
    """The text without the token, for records, reports and whatever else outlives the run."""
    return text.replace(token, "...") if token else text


def without_tokens(data: bytes) -> bytes:
    """A configuration's file for a record: without whatever is set as a token in it, also in a comment."""
    return _SETTING.sub(rb"\1" + _HIDDEN, data)
