"""Where every command begins: Ctrl-C ends it with one exit code, also while the command line is being imported, and the
template of a run begins to import before that."""

import os
import sys

_ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))


def _leave_working_folder() -> None:
    """`python -m tandem`, or an empty entry in PYTHONPATH, would import from the working folder, which may be somebody
    else's. It stays where this package lies in it, or where PYTHONPATH has its absolute name."""
    named = [place for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if os.path.isabs(place)]
    try:
        here = os.getcwd()
    except OSError:  # it is gone
        return
    if here not in map(os.path.realpath, (_ROOT, *named)):
        sys.path[:] = [place for place in sys.path if os.path.realpath(place) != here]


if not sys.flags.safe_path:
    _leave_working_folder()

import resource  # noqa: E402
import signal  # noqa: E402  (and everything else: what Python has not imported by itself comes after that)

TYPE_CHECKING = False  # true for type checkers
if TYPE_CHECKING:
    from types import FrameType

_UMASK = 0o077  # what it makes is for this user alone, as sync/files/private.py has it, which is not imported yet
_AGAIN_S = 0.02
# Descriptors of a process: connections to three sockets, 32 each, rings, pipes; and what is asked for if it may be had.
# libzmq ends the process where it gets none.
_LEAST_FILES, _FILES = 256, 4096
_REFUSED = 2  # as sync/errors.py has it
_INTERRUPTED = 130  # as tandem/reports/outcome.py has it, which is not imported yet


def _leave(_number: int, _frame: "FrameType | None") -> None:
    os._exit(_INTERRUPTED)  # nothing has been started: nothing to end, and no half-imported module to unwind


def _interrupt(_number: int, frame: "FrameType | None") -> None:
    """As Python does it, but not in the middle of an import: a library may make another error of it there."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)
            return
        frame = frame.f_back
    raise KeyboardInterrupt


def _get_descriptors() -> None:
    """As many as the system gives without asking; processes that this one starts have the same."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = hard if hard != resource.RLIM_INFINITY else _FILES
    if soft != resource.RLIM_INFINITY and soft < min(_FILES, most):
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(_FILES, most), hard))
    if most < _LEAST_FILES:
        print(
            f"tandem: a process may open {most} files here (ulimit -Hn), and {_LEAST_FILES} are needed: raise the limit"
            " in /etc/security/limits.conf, by LimitNOFILE= of a unit, or by --ulimit nofile=1024 of a container",
            file=sys.stderr,
        )
        sys.exit(_REFUSED)


def main() -> None:
    signal.signal(signal.SIGINT, _leave)
    os.umask(_UMASK)
    _get_descriptors()
    from sync.blas import one_thread

    one_thread(own_process=True)
    if sys.argv[1:2] in (["drive"], ["run"]) and "--help" not in sys.argv:
        from tandem.live.supervisor.launch import start_early

        start_early()
    from tandem.commands import cli

    try:
        signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
        signal.signal(signal.SIGINT, _interrupt)
        cli.main()
    except KeyboardInterrupt:  # before the command has begun, which then ends by itself
        sys.exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
