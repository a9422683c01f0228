"""Tests in several processes, forked from one that has collected: `pytest --processes 6`.

Collecting imports everything and loads compiled code, which takes most of a minute of a processor: once is enough. Each
process then takes the next unit of tests until there is none: a file, or one test that starts processes. The process
that has collected runs no test; it hands out units and reports what comes back. One that crashes fails the test it was
at, and another goes on with the rest of its unit. Tests marked `alone` come last, one by one in a process of their own,
when all others have ended.
"""

import atexit
import contextlib
import os
import signal
import sys
import time
import traceback
import warnings
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any

import pytest

SYSTEM = "tests/system/"
TOGETHER = (f"{SYSTEM}test_view.py", f"{SYSTEM}test_page_attacks.py")  # each with one browser
_PATIENCE_S = 60.0

Unit = deque[int]  # tests, by their place in the session


def unit_of(nodeid: str) -> str:
    """What one process takes at a time: a file, or one test that starts processes."""
    file = nodeid.partition("::")[0]
    return nodeid if file.startswith(SYSTEM) and file not in TOGETHER else file


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "run tests in so many processes, forked from the one that has collected them"
    parser.addoption("--processes", type=int, default=0, metavar="N", help=text)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    count: int = session.config.getoption("--processes")
    if count < 1 or session.config.option.collectonly or session.testsfailed:
        return None  # pytest's own loop, which also says what could not be collected
    session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]  # one folder for all of them
    units: dict[str, Unit] = {}
    alone: Unit = deque()
    for place, item in enumerate(session.items):
        if item.get_closest_marker("alone"):
            alone.append(place)
        else:
            units.setdefault(unit_of(item.nodeid), deque()).append(place)
    for together, processes in ((deque(units.values()), count), (deque([alone]), 1)):
        if any(together):
            _Parent(session, together).run(processes)
    return True


# ---- the process that has collected


@dataclass
class _Child:
    pid: int
    channel: Connection
    units: deque[Unit] = field(default_factory=deque)  # what it has been given and not begun
    test: int | None = None  # at which it is


class _Parent:
    def __init__(self, session: pytest.Session, units: deque[Unit]) -> None:
        self.session, self.units = session, units
        self.children: dict[Connection, _Child] = {}

    def run(self, count: int) -> None:
        try:
            for _ in range(min(count, len(self.units))):
                self._fork()
            while self.children:
                for channel in wait(list(self.children)):
                    assert isinstance(channel, Connection)
                    self._hear(self.children[channel])
        finally:
            self._end()
        if self.session.shouldfail:
            raise self.session.Failed(self.session.shouldfail)

    def _fork(self) -> None:
        ours, theirs = Pipe()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        pid = os.fork()
        if pid == 0:
            ours.close()
            for other in self.children:
                other.close()
            _run_child(self.session, theirs)
        theirs.close()
        self.children[ours] = _Child(pid, ours)

    def _hear(self, child: _Child) -> None:
        kind, what = "ended", None
        with contextlib.suppress(EOFError, ConnectionResetError):
            kind, what = child.channel.recv()
        hook, config = self.session.config.hook, self.session.config
        if kind == "ended":
            self._ended(child)
        elif kind == "next":
            unit = self.units.popleft() if self.units and not self.session.shouldfail else None
            if unit:
                child.units.append(deque(unit))
            child.channel.send(unit and list(unit))
        elif kind == "test":
            child.test = what
            child.units[0].popleft()
        elif kind == "done":
            child.test = None
            if not child.units[0]:
                child.units.popleft()
            item = self.session.items[what]
            hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        elif kind == "report":
            hook.pytest_runtest_logreport(report=hook.pytest_report_from_serializable(config=config, data=what))
        elif kind == "warning":
            text, when, nodeid, location = what
            message = warnings.WarningMessage(UserWarning(text), UserWarning, *(location or ("", 0))[:2])
            hook.pytest_warning_recorded.call_historic(
                kwargs={"warning_message": message, "when": when, "nodeid": nodeid, "location": location}
            )
        else:
            raise RuntimeError(what)  # a fault of pytest or of a plugin, with its traceback

    def _ended(self, child: _Child) -> None:
        """One that crashes is a failed test; what it had not begun is for another."""
        del self.children[child.channel]
        code = os.waitstatus_to_exitcode(os.waitpid(child.pid, 0)[1])
        how = f"its process ended with {signal.Signals(-code).name if code < 0 else f'exit code {code}'}"
        if child.test is not None:
            item = self.session.items[child.test]
            words = dict.fromkeys(item.keywords, 1)
            report = pytest.TestReport(item.nodeid, item.location, words, "failed", how, "call")
            self.session.config.hook.pytest_runtest_logreport(report=report)
        elif code:
            raise RuntimeError(f"between two tests: {how}")
        self.units.extendleft(reversed([unit for unit in child.units if unit]))
        if self.units:
            self._fork()

    def _end(self) -> None:
        """After an interrupt they tear down what they have made, too, or are ended by force."""
        for child in self.children.values():
            os.kill(child.pid, signal.SIGINT)
        end = time.monotonic() + _PATIENCE_S
        for child in self.children.values():
            while os.waitpid(child.pid, os.WNOHANG)[0] == 0:
                if time.monotonic() > end:
                    os.kill(child.pid, signal.SIGKILL)
                time.sleep(0.02)
        self.children.clear()


# ---- a process that runs tests


class _Sender:
    """What it reports to the one that has collected."""

    def __init__(self, config: pytest.Config, channel: Connection) -> None:
        self.config, self.channel = config, channel
        self.begun = False  # pytest replays warnings of before to every new plugin

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self.config.hook.pytest_report_to_serializable(config=self.config, report=report)
        self.channel.send(("report", data))

    def pytest_warning_recorded(self, warning_message: Any, when: str, nodeid: str, location: Any) -> None:
        if self.begun:
            text = f"{warning_message.category.__name__}: {warning_message.message}"
            place = location or (warning_message.filename, warning_message.lineno)
            self.channel.send(("warning", (text, when, nodeid, place)))


class _Silent:
    """In place of the terminal's reporter: what pytest takes from it to write texts of failures."""

    def __init__(self, reporter: Any) -> None:
        self._tw = reporter._tw


def _run_child(session: pytest.Session, channel: Connection) -> None:
    code = 1
    try:
        _become_child(session, channel)
        for place, following in _tests(channel):
            channel.send(("test", place))
            item, after = session.items[place], None if following is None else session.items[following]
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            channel.send(("done", place))
        code = 0
    except (KeyboardInterrupt, BrokenPipeError):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        session._setupstate.teardown_exact(None)  # what the interrupted test and its session have made
    except BaseException:
        channel.send(("fault", traceback.format_exc()))
    finally:
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)


def _become_child(session: pytest.Session, channel: Connection) -> None:
    plugins = session.config.pluginmanager
    reporter = plugins.unregister(name="terminalreporter")
    plugins.register(_Silent(reporter), "terminalreporter")
    sender = _Sender(session.config, channel)
    plugins.register(sender)
    sender.begun = True
    capture: Any = plugins.getplugin("capturemanager")
    if capture.is_globally_capturing():  # into files of its own: an offset would be shared
        capture.stop_global_capturing()
        capture.start_global_capturing()


def _tests(channel: Connection) -> Iterator[tuple[int, int | None]]:
    """Each test with the one that follows here, for which fixtures of a file or of the session stay."""
    waiting: deque[int] = deque()
    while True:
        if len(waiting) < 2:
            channel.send(("next", None))
            waiting.extend(channel.recv() or ())
        if not waiting:
            return
        yield waiting.popleft(), waiting[0] if waiting else None
