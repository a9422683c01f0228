"""The "real" machine of a twin (`source.truth`): a run of its own, started and ended with this one.

It is started once this run's own processes wait for its first step, so that both begin together, by the command that
any other run has (`tandem run`): with its own processes, its own record in the folder `truth` of this run's, and its
own report. It ends after this run's services have. If it ends by itself, or does not start, this run ends, and says
why: nothing comes from the source any more.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from sync.config import Config
from sync.threads import joined

FOLDER = "truth"  # in a run's own
_PATIENCE_S = 30.0
# the kernel asks it to end where this process is killed (PR_SET_PDEATHSIG): it has a session of its own
_ENDS_WITH_US = """import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGTERM, 0, 0, 0)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"""


def truth_of(config: Config, file: Path) -> Path | None:
    """The configuration of the run that is to be started beside this one."""
    named = config.source.get("truth")
    started = config.source.get("kind") == "simulator" and isinstance(named, str) and named
    return file.parent / str(named) if started else None


class TruthRun:
    def __init__(self, config: Config, file: Path, report: Callable[[str], None]):
        self._file, self._report = file, report
        self._settings = [str(each) for each in config.source.get("truth_set", ())]
        self._name = f"{config.name}_truth"  # as daq_service/devices/simulator.py looks for it
        self._popen: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        self._last_words = ""

    @property
    def started(self) -> bool:
        return self._popen is not None

    def start(self, folder: Path | None) -> None:
        """Recorded in this run's folder if it has one."""
        command = [
            sys.executable,
            "-c",
            _ENDS_WITH_US,
            "-m",
            "tandem",
            "run",
            str(self._file),
            "--seconds",
            "0",
            "--json",
        ]
        command += ["--set", f"name={self._name}", "--set", "view.enabled=false"]
        command += [word for setting in self._settings for word in ("--set", setting)]
        command += ["--runs", str(folder / FOLDER)] if folder is not None else ["--no-record", "--runs", os.devnull]
        # a session of its own: Ctrl-C in the terminal reaches this process alone, which ends things in order
        self._popen = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            errors="replace", start_new_session=True,
        )  # fmt: skip
        assert self._popen.stderr is not None
        self._reader = threading.Thread(target=self._read, args=(self._popen.stderr,), daemon=True)
        self._reader.start()

    def _read(self, stream: TextIO) -> None:
        with stream:
            for line in stream:
                if text := line.strip():
                    self._last_words = text
                    self._report(f"truth: {text}")

    def failure(self) -> str | None:
        """Why nothing comes any more; None while it runs, or before it was started."""
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
