"""The double from the outside: start it, tell it what to do, end it."""

import contextlib
import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


class Double:
    def __init__(self, port: int = 0, clock: Path | None = None):
        shared = ["--clock", str(clock)] if clock else []
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.daqmx_double", "--port", str(port), *shared],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._lock = threading.Lock()
        try:
            self.port: int = self._line()["port"]
        except BaseException:
            self.close()  # of one that ended at once nothing is left open
            raise
        self.server = f"127.0.0.1:{self.port}"

    def _line(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the double has ended, exit code {self._process.wait()}")
        return json.loads(line)

    def tell(self, do: str, **what: Any) -> Any:
        with self._lock:
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps({"do": do, **what}) + "\n")
            self._process.stdin.flush()
            reply = self._line()
        if "failed" in reply:
            raise RuntimeError(reply["failed"])
        return reply["ok"]

    def pause(self) -> None:
        """It hangs: connected, and silent."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self._process.kill()
        self.close()

    def close(self) -> None:
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None and not stream.closed:
                with contextlib.suppress(BrokenPipeError):  # what was still to be told to one that has ended
                    stream.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
