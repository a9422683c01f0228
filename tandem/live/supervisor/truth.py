"""The "real" machine of a twin (`source.truth`): a run of its own, started and ended with this one.

It is started once this run's own processes wait for its first step, so that both begin together, by the command that
any other run has (`tandem run`): with its own processes, its own record in the folder `truth` of this run's, and its
own report. It ends after this run's services have. If it ends by itself, or does not start, this run ends and says why,
because the source gives nothing any more.
"""

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO

from sync.child_python import python_command, python_environment
from sync.config.config import Config
from sync.errors import ConfigError
from sync.process.threads import joined
from sync.ring.streams import truth_name
from tandem.records.against_truth import FOLDER

_PATIENCE_S = 30.0
# the kernel asks it to end if this process is killed (PR_SET_PDEATHSIG), because it has a session of its own
_ENDS_WITH_US = """import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGTERM, 0, 0, 0)
os.execv(sys.executable, [sys.executable, "-P", *sys.argv[1:]])"""


def truth_of(config: Config, file: Path) -> Path | None:
    """The configuration of the run that is to be started beside this one; None if there is none."""
    named = config.source.get("truth")
    started = config.source.get("kind") == "simulator" and isinstance(named, str) and named
    return file.parent / str(named) if started else None


def check_watched(config: Config, outputs: Sequence[str], file: str) -> None:
    """Raises ConfigError unless what is watched is an output of the twin; the source checks that the truth has it."""
    watched = config.source.get("watch", ()) if config.source.get("kind") == "simulator" else ()
    for name in watched:
        if name not in outputs:
            raise ConfigError(f"{file}: source.watch: {name}: the machine has {', '.join(outputs)}")


class TruthRun:
    def __init__(self, config: Config, file: Path, report: Callable[[str], None]):
        self._file, self._report = file, report
        self._settings = [str(each) for each in config.source.get("truth_set", ())]
        self._name = truth_name(config.name)
        self._scratch: tempfile.TemporaryDirectory[str] | None = None  # of a run that is not recorded
        self._popen: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        self._last_words = ""

    @property
    def started(self) -> bool:
        return self._popen is not None

    def start(self, folder: Path | None) -> None:
        """Start it, recorded in this run's folder if there is one."""
        command = python_command("-c", _ENDS_WITH_US, "-m", "tandem", "run", str(self._file))
        command += ["--seconds", "0", "--json", "--set", f"name={self._name}", "--set", "view.enabled=false"]
        command += [word for setting in self._settings for word in ("--set", setting)]
        if folder is None:
            self._scratch = tempfile.TemporaryDirectory(prefix="tandem-")
            command += ["--no-record", "--runs", self._scratch.name]
        else:
            command += ["--runs", str(folder / FOLDER)]
        # a session of its own: Ctrl-C in the terminal reaches this process alone, which ends things in order
        self._popen = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            errors="replace", start_new_session=True, env=python_environment(),
        )  # fmt: skip
        assert self._popen.stderr is not None
        self._reader = threading.Thread(target=self._read, args=(self._popen.stderr,), daemon=True)
        self._reader.start()

    def _read(self, stream: TextIO) -> None:
        with stream:
            for line in stream:
                if text := line.strip():
                    self._last_words = text
                    if self._scratch is None or not text.startswith("report: "):  # an unrecorded one is deleted
                        self._report(f"truth: {text}")

    def failure(self) -> str | None:
        """Why it ended; None while it runs, or before it was started."""
        if self._popen is None or (code := self._popen.poll()) is None:
            return None
        if self._reader is not None:
            joined(self._reader, 1.0)
        if code < 0:
            return f"the truth was killed by {signal.Signals(-code).name}"
        return f"the truth ended with exit code {code}: {self._last_words}"

    def end(self) -> None:
        if self._popen is None:
            return
        if self._popen.poll() is None:
            self._popen.send_signal(signal.SIGINT)
            try:
                self._popen.wait(_PATIENCE_S)
            except subprocess.TimeoutExpired:
                self._report("the truth does not end; killed")
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._popen.pid, signal.SIGKILL)
                self._popen.wait()
        if self._reader is not None:
            joined(self._reader, 1.0)
        if self._scratch is not None:
            self._scratch.cleanup()
