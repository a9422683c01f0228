"""A run from a script or a notebook: processes of its own, as `tandem run` starts them, and a handle on them."""

import json
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self, TextIO, cast

from sim_service.commands import CommandClient, NoSimulator
from sync.child_python import python_command, python_environment
from sync.config.config import Config, load
from sync.errors import RingError, TandemError, UnknownName
from sync.ring.ring import RingReader
from tandem.library.answers import RunResult, Tuned
from tandem.library.recorded import Recorded, open_run
from tandem.offline.model import found_file
from tandem.offline.shown import html_table

if TYPE_CHECKING:
    import numpy as np

_SILENT_S = 300.0  # a run that has made steps; one that starts ends itself where nothing goes on (supervise.py)
_POLL_S = 0.02


class Live:
    """A run that goes on, as `tandem.run` starts it. Leaving its `with` ends it; nothing of it is left behind."""

    def __init__(self, config: Config, process: "subprocess.Popen[str]", stderr: TextIO, runs: Path):
        self._config, self._process, self._stderr, self._runs = config, process, stderr, runs
        self._ring: RingReader | None = None
        self._client: CommandClient | None = None
        self._result: RunResult | None = None
        self._stepped = False

    # ---- while it goes on

    @property
    def running(self) -> bool:
        """Whether it still goes on."""
        return self._process.poll() is None

    @property
    def messages(self) -> str:
        """What it has written to standard error so far."""
        self._stderr.seek(0)
        return str(self._stderr.read())

    def latest(self) -> dict[str, float]:
        """The newest step, inputs and outputs by name; waits for the first one. Raises TandemError where none comes."""
        since = time.monotonic()
        while True:
            found = self._newest()
            if found is not None:
                self._stepped = True
                return {name: found[name].item() for name in found.dtype.names or ()}
            if self._timed_out(since):
                raise TandemError(f"no step was made: {self.messages.strip() or 'it wrote nothing to standard error'}")
            time.sleep(_POLL_S)

    def _timed_out(self, since: float) -> bool:
        """Whether to wait no longer; a start may compile for as long as it takes."""
        return not self.running or (self._stepped and time.monotonic() - since > _SILENT_S)

    def _newest(self) -> "np.void | None":
        try:
            if self._ring is not None and self._ring.closed:  # another simulator has taken its place, or it is over
                self._ring.close()
                self._ring = None
            self._ring = self._ring or RingReader(self._config.ring("sim"))
            return self._ring.newest()
        except RingError:
            return None

    def tune(
        self, values: dict[str, float] | None = None, *, pause: bool | None = None, steps: int | None = None,
        slow: float | None = None, reset: Literal[True] | None = None,
    ) -> dict[str, Tuned]:  # fmt: skip
        """Change parameters of the machine between two steps; recorded. `pause` it or let it go on, make so many
        `steps` and pause again, run it `slow` by a factor, `reset` it to its start. Returns all parameters as they are
        now."""
        requests = {"pause": pause, "steps": steps, "slow": slow, "reset": reset}
        others = {name: value for name, value in requests.items() if value is not None}
        self._client = self._client or CommandClient(self._config)
        since = time.monotonic()
        while True:
            try:
                answer = self._client.ask(values, **others)
                self._stepped = True
                break
            except NoSimulator:
                if self._timed_out(since):
                    raise
        if not answer["ok"]:
            for name in values or ():
                if name not in answer["parameters"]:
                    raise UnknownName.among(answer["parameters"], name, f"parameter of {answer['model']}")
            raise TandemError(answer["error"])
        return dict(answer["parameters"])

    # ---- its end

    def stop(self) -> RunResult:
        """End it as Ctrl-C does, if it still goes on; what it came to."""
        if self.running:
            self._process.send_signal(signal.SIGINT)
        return self.wait()

    def wait(self) -> RunResult:
        """Until it ends by itself: what `tandem run --json` prints, and the `exit_code` (docs/uses.md). Raises
        TandemError where there was no run."""
        if self._result is None:
            printed, _ = self._process.communicate()
            try:
                found = json.loads(printed)
            except ValueError:
                raise TandemError(self.messages.strip() or f"it ended with code {self._process.returncode}") from None
            self._result = cast(RunResult, {**found, "exit_code": self._process.returncode})
        return self._result

    @property
    def recorded(self) -> Recorded:
        """Its record, once it has ended."""
        path = (self.wait().get("record") or {}).get("file")
        if not isinstance(path, str):
            raise TandemError("it was not recorded: record.enabled is false")
        return open_run(path)

    def _state(self) -> list[tuple[str, str]]:
        """What it does now, without waiting for anything."""
        step = self._newest() if self.running else None
        begun = f"step {int(step['step'])}" if step is not None else "no step yet"
        state = begun if self.running else f"ended with exit code {self._process.returncode}"
        return [("machine", self._config.sim.machine), ("state", state), ("runs", str(self._runs))]

    def __repr__(self) -> str:
        lines = (f"  {what}: {text}" for what, text in self._state())
        return "\n".join([f"<tandem.Live {self._config.name}>", *lines])

    def _repr_html_(self) -> str:
        return html_table(("", ""), self._state(), self._config.name)

    def close(self) -> None:
        """End it, if it still goes on, and let go of it."""
        if self.running:
            self._process.send_signal(signal.SIGINT)
            self._process.communicate()
        for each in (self._ring, self._client, self._stderr):
            if each is not None:
                each.close()
        self._ring = self._client = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None) -> None:
        self.close()


def run(
    config: str | Path, seconds: float | None = None, settings: Iterable[str] = (), runs: str | Path = "runs"
) -> Live:
    """Start DAQ and simulator of a configuration side by side, recorded in a new folder of `runs`.

    `settings` as `--set` takes them: "name=mine", "view.enabled=false". `seconds` 0: until `stop`. Returns at once;
    raises TandemError where the configuration is wrong.

    >>> with tandem.run("mass_spring", seconds=0.3, settings=["view.enabled=false"]) as live:
    ...     force = live.latest()["hand_force"]
    ...     changed = live.tune({"damping": 4.0})["damping"]
    ...     result = live.wait()
    >>> changed["value"], changed["unit"]
    (4.0, 'N s/m')
    >>> result["exit_code"], result["balance"]["closes"]
    (0, True)
    """
    file = found_file(Path(config))
    chosen = list(settings)
    loaded = load(file, chosen)
    command = python_command("-m", "tandem", "run", str(file), "--json", "--runs", str(runs))
    command += [word for setting in chosen for word in ("--set", setting)]
    command += ["--seconds", str(seconds)] if seconds is not None else []
    stderr = tempfile.TemporaryFile("w+", prefix="tandem-", encoding="utf-8", errors="replace")  # noqa: SIM115  (Live's)
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, text=True, env=python_environment()
    )
    return Live(loaded, process, stderr, Path(runs))
