"""Code of others that this user lets run: files by their SHA-256, in a file that nobody else can write.

An FMU is somebody's compiled code. The user decides whether it runs, not a machine's file, a configuration or a record,
which may come from others as well. What the user has consented to is in

    $XDG_CONFIG_HOME/tandem/fmu_consent      by default ~/.config; made by `tandem fmu FILE --allow`, mode 0600
    $TANDEM_FMU_CONSENT                      another file instead, for runs that nobody attends

one line for each file, as `sha256sum` writes it: the hash, then a name for people. The file and its folder must belong
to the user or to root, and nobody else may write them: otherwise nothing in it counts, and the error says so.
"""

import fcntl
import os
import re
from collections.abc import Callable
from pathlib import Path

from sync.errors import ConfigError, TandemError
from sync.files.private import make_folder, others_change, rewrite
from sync.files.regular import open_regular
from sync.visible import on_one_line

ENVIRONMENT = "TANDEM_FMU_CONSENT"
_MOST_BYTES = 1 << 20
_LINE = re.compile(r"([0-9a-f]{64})(?:[ \t]+\*?(.*))?")
_LONGEST_NAME = 200


class ConsentMissing(TandemError):
    """The user has not consented to run the code of a file; names the command that shows it and asks."""

    code = 11


def place() -> Path:
    if there := os.environ.get(ENVIRONMENT):
        return Path(there)
    return Path(os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")) / "tandem" / "fmu_consent"


def consented() -> dict[str, str]:
    """Names by hash. Raises ConfigError if others could have written the file, or if it has another form."""
    file = place()
    try:
        with open_regular(file) as stream:
            wrong = others_change(os.fstat(stream.fileno()))
            content = stream.read(_MOST_BYTES + 1)
        above = others_change(file.parent.stat(), sticky_is_enough=True)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(f"{file}: what code may run cannot be read: {error.strerror}") from None
    for path, why, mode in ((file, wrong, 600), (file.parent, above, 700)):
        if why:
            raise ConfigError(
                f"{path}: {why}, and it decides what code may run; nothing in it counts until it is yours or root's and"
                f" nobody else may write it: look through it, then chown it and chmod {mode} it"
            )
    if len(content) > _MOST_BYTES:
        raise ConfigError(f"{file}: more than {_MOST_BYTES >> 20} MiB; lines of hash and name are expected")
    found = {}
    for number, line in enumerate(content.decode(errors="replace").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line.strip())
        if match is None:
            raise ConfigError(f"{file}, line {number}: {line[:80]!r}: must be a SHA-256 in small letters and a name")
        found[match[1]] = match[2] or ""
    return found


def need(hash: str, name: str, command: str) -> None:
    """Raises ConsentMissing unless the user has consented to the file with this hash. `command` gives it."""
    if hash not in consented():
        raise ConsentMissing(
            f"{on_one_line(name)}: would run the code of an FMU, and you have not consented to that (SHA-256 {hash});"
            f" `{command}` shows what it is and asks"
        )


def allow(hash: str, name: str) -> None:
    _change(lambda found: found.update({hash: on_one_line(name)[:_LONGEST_NAME]}))


def revoke(hash: str) -> None:
    _change(lambda found: found.pop(hash, None))


def _change(change: Callable[[dict[str, str]], object]) -> None:
    file = place()
    try:
        make_folder(file.parent)
        folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)  # so that two simultaneous changes are both stored
            found = consented()
            change(found)
            lines = "".join(f"{hash}  {name}\n" for hash, name in found.items())
            rewrite(file, lines.encode())
        finally:
            os.close(folder)
    except OSError as error:
        raise ConfigError(f"{file}: cannot be written: {error.strerror}") from None
