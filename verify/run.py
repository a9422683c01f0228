"""One promise measured, in a process of its own: a crash is one result, not the end of all.

`python -m verify.run NAME SETTINGS FILE` is that process. Every row is a line of the file as soon as it is known.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from verify import ROOT
from verify.measure import NotHere, Printed, Result, Row, note
from verify.registry import REQUIRED, Promise, Settings


@dataclass
class Outcome:
    """The outcome of one promise."""

    promise: Promise
    settings: Settings
    rows: list[Row] = field(default_factory=list)
    printed: list[str] = field(default_factory=list)
    not_here: str = ""  # why it could not be measured
    seconds: float = 0.0
    load: tuple[float, ...] = (0.0, 0.0)  # of the machine, before and after
    machine: dict[str, str] = field(default_factory=dict)  # on which another run measured it; empty: this one

    @property
    def missed(self) -> bool:
        return any(row.held is False for row in self.rows)

    @property
    def verdict(self) -> str:
        if self.missed:
            return "MISSED"
        if self.not_here:
            return "not here"
        return "held" if any(row.held for row in self.rows) else "measured"

    @property
    def command(self) -> str:
        words = ["python -m verify", self.promise.name]
        for name, value in self.settings.items():
            words += [f"--{name.replace('_', '-')}"] if value is not False else []
            values = value if isinstance(value, (tuple, list)) else [value]
            words += [str(each) for each in values] if not isinstance(value, bool) else []
        return " ".join(words)

    def add(self, result: Result) -> None:
        if isinstance(result, Row):
            self.rows.append(result)
        else:
            self.printed.append(result.text)


def results(promise: Promise, settings: Settings) -> Iterator[Result]:
    """Measure in this process; raises NotHere if that is impossible."""
    if why := promise.missing():
        raise NotHere("; ".join(why))
    options = promise.options
    lacking = [one.flag for one in options.values() if one.default is REQUIRED and one.name not in settings]
    if lacking:
        raise NotHere(f"needs {', '.join(f'--{name}' for name in lacking)}")
    yield from promise.function(**promise.preset, **settings)


def measured(promise: Promise, settings: Settings, limit_s: float | None = None) -> Outcome:
    """Measure in a process of its own, which is ended if it takes longer than `limit_s`."""
    found = Outcome(promise, settings)
    found.not_here = "; ".join(promise.missing())
    if found.not_here:
        return found
    before, begun = os.getloadavg()[0], time.monotonic()
    with TemporaryDirectory(prefix="tandem") as folder:
        file = Path(folder) / "results"
        file.touch()
        words = [sys.executable, "-P", "-W", "ignore", "-m", "verify.run", promise.name, _text(settings), str(file)]
        python = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {**os.environ, **promise.environment, "PYTHONPATH": python}
        child = subprocess.Popen(words, cwd=ROOT, env=environment, stdout=sys.stderr)
        try:
            code = child.wait(limit_s)
            ended = f"exit code {code}" if code else ""
        except subprocess.TimeoutExpired:
            ended = f"not finished after {(limit_s or 0.0) / 60:g} minutes"
        finally:
            _end(child)
        for line in file.read_text().splitlines():
            kind, fields = json.loads(line)
            if kind == "not here":
                found.not_here = fields
            else:
                found.add(Row(**fields) if kind == "row" else Printed(fields))
    if ended:
        found.rows.append(Row("the measurement ends", ended, "", "exit code 0", False))
    found.seconds, found.load = time.monotonic() - begun, (before, os.getloadavg()[0])
    return found


def _end(child: "subprocess.Popen[bytes]") -> None:
    """End it as Ctrl-C does, so that it ends what it has started; then by force."""
    for order in (child.terminate, child.kill):
        if child.poll() is None:
            order()
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(20.0)


def _text(settings: Settings) -> str:
    return json.dumps(dict(settings), default=str)  # paths


def _settings(promise: Promise, text: str) -> dict[str, Any]:
    """The settings as they were before `_text`."""
    options = promise.options if not promise.missing() else {}
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in json.loads(text).items()}
    paths = {name for name, option in options.items() if option.kind is Path}
    return {
        name: (tuple(map(Path, v)) if isinstance(v, tuple) else Path(v)) if name in paths else v
        for name, v in values.items()
    }


def main(name: str, settings: str, file: str) -> int:
    from verify.promises import PROMISES

    signal_as_interrupt()
    promise = PROMISES[name]
    with open(file, "a", buffering=1) as out:
        try:
            for result in results(promise, _settings(promise, settings)):
                if isinstance(result, Row):
                    note(f"{name}: {result.quantity}: {result.shown} {result.unit} {result.limit} {result.verdict}")
                    print(json.dumps(["row", asdict(result)]), file=out)
                else:
                    print(json.dumps(["printed", result.text]), file=out)
        except NotHere as why:
            print(json.dumps(["not here", str(why)]), file=out)
    return 0


def signal_as_interrupt() -> None:
    """Make a measurement that is ended from outside end what it has started, as after Ctrl-C."""
    for number in (signal.SIGTERM, signal.SIGINT):  # a shell's background job ignores SIGINT
        signal.signal(number, signal.default_int_handler)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
