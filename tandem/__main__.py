"""Where every command begins: Ctrl-C ends it with one exit code, also while the command line is being imported."""

import os
import signal
from types import FrameType

_INTERRUPTED = 130  # as tandem/outcome.py has it, which is not imported yet


def _leave(_number: int, _frame: FrameType | None) -> None:
    os._exit(_INTERRUPTED)  # nothing has been started: nothing to end, and no half-imported module to unwind


def main() -> None:
    signal.signal(signal.SIGINT, _leave)
    from tandem import cli

    signal.signal(signal.SIGINT, signal.default_int_handler)
    cli.main()


if __name__ == "__main__":
    main()
