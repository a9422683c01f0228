"""Where every command begins: Ctrl-C ends it with one exit code, also while the command line is being imported, and the
template of a drive begins to import before that."""

import os
import signal
import sys
from types import FrameType

_UMASK = 0o077  # what it makes is for this user alone, as sync/private_files.py has it, which is not imported yet
_INTERRUPTED = 130  # as tandem/outcome.py has it, which is not imported yet


def _leave(_number: int, _frame: FrameType | None) -> None:
    os._exit(_INTERRUPTED)  # nothing has been started: nothing to end, and no half-imported module to unwind


def main() -> None:
    signal.signal(signal.SIGINT, _leave)
    os.umask(_UMASK)
    if sys.argv[1:2] == ["drive"] and "--help" not in sys.argv:
        from tandem.launch import start_early

        start_early()
    from tandem import cli

    signal.signal(signal.SIGINT, signal.default_int_handler)
    cli.main()


if __name__ == "__main__":
    main()
