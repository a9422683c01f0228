"""The supervisor: starts the services, watches them, stops them in order, and leaves nothing behind.

The services share nothing but blocks; the supervisor learns about them from their standard output (a JSON object a
line) and, as a reader like any other, from their rings. They have been started already
(tandem/live/supervisor/launch.py) and begin together, once the recorder watches. A process that crashes is replaced
(tandem/live/supervisor/restart_policy.py). The recorder ends last and records why the run ended; if it fails, the run
goes on without it.
"""

import collections
import contextlib
import fcntl
import hashlib
import json
import os
import signal
import struct
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sync.config.config import Config, runtime_directory
from sync.errors import ConfigError, DeviceError, RingBusy, RingError
from sync.files.consent import ConsentMissing
from sync.files.token import new_token, redacted
from sync.process.realtime import off_the_loop
from sync.process.silence import Silence, compiled_so_far
from sync.process.threads import set_by_signals
from sync.ring.ring import RingReader, remove_stale
from sync.ring.streams import SOCKETS, STREAMS
from tandem.live.follow import Produced, Steps
from tandem.live.supervisor.launch import BESIDE, DAQ, PREDICTION, SERVICES, SIM, VIEW, Process, ProcessGroup, Service
from tandem.live.supervisor.notify import alive, notify
from tandem.live.supervisor.restart_policy import Crash, RestartPolicy, Slot
from tandem.live.supervisor.truth import TruthRun
from tandem.records.provenance import as_text

POLL_S = 0.05
_HASTY_S = 0.005  # while something is being started
_RECORDER_PATIENCE_S = 20.0  # a slow disk
_MOST_NOTICES = 2000
_MOST_REPEATED = 8 * 1024  # bytes of notes that are sent again to a recorder's successor
_MOST_NOTES = 32 * 1024  # bytes: a recorder that does not read must not block the supervisor with a full pipe
_LATE_S = 5.0  # for a simulator to make its last steps
_NO_STEP_S = 2.0  # for the first step, beyond the seconds that are asked for
_UNUSED_S = 10.0  # the same if blocks come: a simulator on a busy machine may still use one
_NO_TRUTH_S = 30.0  # the same if another run is started first
_SILENT_S = 600.0  # before the first step: without anything compiled, any notice, or a process becoming ready


class _Recording:
    """The recorder beside a run: it may fail at any time, and the run goes on."""

    def __init__(
        self, service: Service | None, begin: Callable[[], dict[str, Any] | None], show: Callable[[str], None]
    ):
        self._first, self._begin, self._show = service, begin, show
        self._slot: Slot | None = None
        self._waiting_since: float | None = None
        self._missed = False  # it crashed before it began
        self._noted, self._full = 0, False
        self._number = 0  # of the last note
        self._unsent: list[str] = []  # notes, while there is no recorder
        self._latest: collections.deque[str] = collections.deque()  # notes that were sent
        self._lock = threading.Lock()

    @property
    def _service(self) -> Service | None:
        return self._slot.service if self._slot else self._first

    def note(self, text: str, ours: bool = False) -> None:
        """Store a notice with the record; there is always room for notices of the supervisor itself."""
        with self._lock:  # threads of their own read the services' output
            if self._service is None or (self._full and not ours):
                return
            self._noted += len(text)
            if self._noted > _MOST_NOTES and not self._full:
                self._full = True
                text = f"{text}; notices of the services are not recorded from here on"
            self._number += 1
            self._unsent.append(json.dumps({"note": text, "number": self._number, "at_ns": time.monotonic_ns()}))
        self._pass_on()

    def _pass_on(self) -> None:
        with self._lock:
            slot = self._slot
            if slot is None or slot.service is None or not slot.begun:
                return
            unsaid, self._unsent = self._unsent, []
            for line in unsaid:
                slot.service.say(line)
                self._latest.append(line)
            while sum(map(len, self._latest)) > _MOST_REPEATED:
                self._latest.popleft()

    @property
    def ready(self) -> bool:
        """Whether it watches for rings, or need not be awaited (any longer: a disk may hang)."""
        if self._service is None or self._service.status or self._service.code is not None:
            return True
        self._waiting_since = self._waiting_since or time.monotonic()
        if time.monotonic() - self._waiting_since > _RECORDER_PATIENCE_S:
            self._show("the recorder is not ready; the run does not wait for it")
            return True
        return False

    @property
    def status(self) -> dict[str, Any]:
        return self._service.status if self._service else {}

    def check(self, policy: RestartPolicy) -> None:
        """Tell it where to write, as soon as it is ready and the model's parameters are known."""
        first = self._first
        if first is not None and self._slot is None:
            if first.code is not None:
                if not self._missed:
                    self._missed = True
                    self._show(f"{first.exit_message()}; {first.process.without}")
            elif first.ready and (task := self._begin()) is not None:
                first.say(json.dumps(task))
                self._slot = policy.adopt(first, lambda service: self._go_on(service, task))
        self._pass_on()

    def _go_on(self, service: Service, task: dict[str, Any]) -> None:
        """The next recorder writes the next part, and has its own budget for notes."""
        service.say(json.dumps({**task, "again": True}))
        with self._lock:  # its predecessor may not have written the last notes: send them again
            self._unsent = [*self._latest, *self._unsent]
            self._latest.clear()
        self._noted, self._full = 0, False

    def settle(self, elapsed_s: float) -> None:
        """If it has just crashed, its successor must have opened the rings before the services close them."""
        if self._slot is not None:
            if (why := self._slot.check(time.monotonic(), elapsed_s, False)) is not None:  # it may have crashed now
                self._show(f"{why}; {self._slot.process.without}")
            self._slot.wait(_RECORDER_PATIENCE_S)
            self._pass_on()

    def end(self, begun: bool, reason: str, summary: dict[str, Any]) -> dict[str, Any] | None:
        if self._first is None:
            return None
        service = self._service
        if service is None or (self._slot is None and service.code is not None):
            return self._incomplete(self._slot.last or self._first if self._slot else self._first)
        if not begun and self._slot is None:  # there was nothing to record
            service.ask_to_end()
            service.end(_RECORDER_PATIENCE_S)
            return None
        service.say(json.dumps({"reason": reason, "summary": summary}))
        code = service.end(_RECORDER_PATIENCE_S)
        if code != 0:
            self._show(service.exit_message())
        return service.report or self._incomplete(service)

    def _incomplete(self, last: Service) -> dict[str, Any]:
        why = f" ({last.last_words})" if last.last_words else ""
        return {**last.status, "whole": False, "state": last.exit_message() + why}


def sweep(config: Config) -> list[str]:
    """Remove what crashed owners left behind, never what a running one holds. Returns what was removed."""
    removed = [config.ring(name) for name in STREAMS if remove_stale(config.ring(name))]
    for name, owned_with in SOCKETS.items():
        socket = config.socket(name)
        if socket.exists() and not _ring_in_use(config.ring(owned_with.name)):
            socket.unlink(missing_ok=True)
            removed.append(str(socket))
    return removed


@contextlib.contextmanager
def only_one(config: Config) -> Iterator[None]:
    """No other run has this name meanwhile: a lock ensures it, which the kernel drops however its holder ends.

    The lock is on one byte of a file, at a place that depends on the name, so that a crashed run leaves nothing behind.
    """
    busy = RingBusy(
        f"a run named {config.name!r} is going on already; wait for it, end it, or give this one another `name`"
    )
    place = int.from_bytes(hashlib.blake2b(config.name.encode(), digest_size=8).digest(), "little") >> 2
    fd = os.open(runtime_directory() / "runs.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.fcntl(fd, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, place, 1, 0))
        except (BlockingIOError, PermissionError):
            raise busy from None
        # services started by hand hold no such lock
        if any(_ring_in_use(config.ring(process.ring)) for process in SERVICES):
            raise busy
        yield
    finally:
        os.close(fd)


def _ring_in_use(name: str) -> bool:
    try:
        ring = RingReader(name)
    except RingError:
        return False
    alive = ring.writer_alive
    ring.close()
    return alive


@dataclass
class Outcome:
    """What came out of a run."""

    seconds: float = 0.0  # from the start of the first step to the end of the last
    first_step_s: float | None = None  # from the start of this process, or of this run if it makes several
    failure: str | None = None
    code: int = 0
    reports: dict[str, dict[str, Any]] = field(default_factory=dict)
    counted: dict[str, int] = field(default_factory=dict)
    crashes: list[Crash] = field(default_factory=list)
    past: dict[str, list[dict[str, int]]] = field(default_factory=dict)  # the last figures of crashed processes
    notices: list[str] = field(default_factory=list)
    record: dict[str, Any] | None = None  # the recorder's report on its file; None: no record was wanted
    steps: np.ndarray = field(default_factory=lambda: np.zeros(0, [("step", "<i8")]))


def _process_age_s() -> float:
    """How long this process has existed: the time that a person waits includes the imports."""
    started = int(Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started


Update = Callable[[float, dict[str, dict[str, Any]]], None]


class Supervisor:
    """One run: both services, the recorder and the page beside them, until its end."""

    def __init__(
        self,
        config: Config,
        group: ProcessGroup,
        update: Update,
        show: Callable[[str], None],
        folder: Path | None,
        conclude: Callable[["Outcome"], dict[str, Any]],
        begun_at: float | None = None,
        token: str = "",
        channels: tuple[str, ...] = (),
        truth: Path | None = None,
    ):
        self._token = token
        self._config, self._group, self._update, self._show, self._conclude = config, group, update, show, conclude
        self._folder = folder
        self.outcome = Outcome()
        self._begun_at = time.monotonic() - _process_age_s() if begun_at is None else begun_at
        self._first_step: float | None = None
        self._begun = False
        self._begin_sent = 0.0  # when both services got the order to begin
        self._policy = RestartPolicy(config, group, self._note)
        self._recording = _Recording(group.recorder if folder else None, self._what_to_record, self._note)
        self._produced = Produced(config.ring("daq"))
        self._steps = Steps(config.ring("sim"), config.step_ns, channels)
        # built and forked before the first step: each costs milliseconds in the kernel, for which a loop might wait
        self._ahead = group.start(PREDICTION) if config.look_ahead.enabled else None
        self._page = group.start(VIEW) if config.view.enabled else None
        self._truth = TruthRun(config, truth, self._hear) if truth else None
        self._requested_s = 0.0
        self._stopped_ns = 0
        self.interrupted = threading.Event()

    # ---- notices

    def _keep(self, text: str, ours: bool) -> None:
        # the page's token is for the person at this terminal, not for readers of the record
        redacted_text = redacted(text, self._token)
        if ours or len(self.outcome.notices) < _MOST_NOTICES:
            self.outcome.notices.append(redacted_text)
        self._recording.note(redacted_text, ours)
        self._show(text)

    def _hear(self, text: str) -> None:
        self._keep(text, ours=False)

    def _note(self, text: str) -> None:
        self._keep(text, ours=True)

    # ---- its course

    def _signs_of_a_start(self) -> tuple[Any, ...]:
        ready = sum(service.ready for service in self._group.services)
        return compiled_so_far(), ready, self._recording.ready, self._begun, len(self.outcome.notices)

    def _service(self, process: Process) -> Service:
        """The service in its slot, or the first one of its kind."""
        slot = self._policy.slots.get(process.name)
        found = (slot.service or slot.last) if slot else None
        return found or self._group.services[SERVICES.index(process)]

    def _what_to_record(self) -> dict[str, Any] | None:
        sim = self._group.services[SERVICES.index(SIM)]
        if not sim.ready:
            return None
        return {"folder": str(self._folder), "parameters": as_text(sim.facts).decode()}

    def run(self, seconds: float) -> Outcome:
        self._requested_s = seconds
        self._silence = Silence(_SILENT_S, self._signs_of_a_start)
        try:
            while not self.interrupted.wait(POLL_S if self._settled else _HASTY_S) and self._turn(seconds):
                pass
            self.outcome.seconds = time.monotonic() - self._first_step if self._first_step else 0.0
            self._stopped_ns = time.monotonic_ns()
        finally:
            self._end()
        if self.outcome.failure and not self.outcome.code:
            self.outcome.code = 1
        return self.outcome

    @property
    def _settled(self) -> bool:
        return self._first_step is not None and self._policy.settled

    def _turn(self, seconds: float) -> bool:
        """Check everything once; False if the run has come to its end."""
        self._recording.check(self._policy)
        if not self._begun:
            self._begin()
        self._produced.poll()
        self._steps.poll()
        now = time.monotonic()
        elapsed = now - self._first_step if self._first_step else -1.0
        for slot, why in self._policy.check(max(elapsed, 0.0)):
            if not slot.process.without:
                self._group.listen(self._hear)
                # a start that failed is explained in one line
                words = slot.last.last_words if self._first_step is None and slot.last is not None else ""
                self.outcome.failure = f"{why}: {words}" if words else why
                self.outcome.code = max(slot.last.code or 0, 0) or 1 if slot.last else 1
                self._note(why)
                return False
            self._note(f"{why}; {slot.process.without}")
        if self._truth is not None and (failure := self._truth.failure()) is not None:
            self.outcome.failure = failure
            self._note(failure)
            return False
        self._check_first_step()
        if self._first_step is None and self._silence.too_long:
            self.outcome.failure = f"no step, and no sign of one for {_SILENT_S:g} s"
            return False
        blocks = self._service(DAQ).status.get("blocks", 0)
        patience_s = seconds + (_NO_TRUTH_S if self._truth else _UNUSED_S if blocks else _NO_STEP_S)
        if self._first_step is None and self._begun and seconds > 0 and now - self._begin_sent > patience_s:
            came = "the source gave no block" if not blocks else f"the source gave {blocks} blocks, and none was used"
            self.outcome.failure = (
                f"no step within {patience_s:g} s: {came} (source.kind = {self._config.source.get('kind')!r})"
            )
            return False
        alive()
        slots = self._policy.slots
        status = {process.name: self._service(process).status for process in SERVICES}
        view = slots["view"].service if "view" in slots else None
        self._update(elapsed, {**status, "record": self._recording.status, "view": view.status if view else {}})
        if self._first_step is None or not 0 < seconds <= elapsed:
            return True
        # its last steps may be late, but not for long
        return not status[SIM.name].get("at_end") and elapsed < seconds + _LATE_S

    def _begin(self) -> None:
        """Order both services to begin, once they are ready and the recorder watches."""
        services = self._group.services
        for service in services:
            if service.code is None:
                continue
            service.end()  # after this its last words have been read, too
            for refusal in (ConfigError, DeviceError, ConsentMissing):
                if service.code == refusal.code:
                    raise refusal(service.last_words)
        if any(service.code is not None for service in services) or (
            all(service.ready for service in services)
            and self._recording.ready
            and self._ahead_ready
            and self._group.template.rests
        ):
            daq, sim = services
            if daq.ready and sim.ready and (missing := set(daq.facts.get("wants", ())) - set(sim.facts["outputs"])):
                raise ConfigError(
                    f"the source wants {', '.join(sorted(missing))} of the simulator, whose model has none;"
                    f" it has {', '.join(sim.facts['outputs'])}"
                )
            if daq.ready and sim.ready and "effort_fault" in sim.facts and not daq.facts.get("any_effort"):
                raise ConfigError(sim.facts["effort_fault"])
            self._begun, self._begin_sent = True, time.monotonic()
            off_the_loop(self._config.realtime, threading.get_native_id(), *self._group.threads)
            self._group.listen(self._hear)
            for service in services:
                self._say_begin(service)
                self._policy.adopt(service, self._say_begin)
            if self._truth is not None:
                self._truth.start(self._folder)

    @property
    def _ahead_ready(self) -> bool:
        """Whether the look ahead is ready, or never will be; then the run goes on without it."""
        return self._ahead is None or self._ahead.ready or self._ahead.code is not None

    def _say_begin(self, service: Service) -> None:
        """Order it to begin, and say when to end: a restarted simulator keeps to the end of the first."""
        service.say(json.dumps({"end_ns": self._end_ns} if self._end_ns else {"seconds": self._requested_s}))

    @property
    def _end_ns(self) -> int:
        """The instant from which on no step is due; 0: not known yet, or there is none."""
        planned = self._steps.first_planned_ns
        return planned + round(self._requested_s * 1e9) if planned and self._requested_s > 0 else 0

    def _check_first_step(self) -> None:
        if self._first_step is None and self._steps.first_ns:
            self._first_step = self._steps.first_ns * 1e-9  # CLOCK_MONOTONIC, as time.monotonic() here
            self.outcome.first_step_s = round(self._first_step - self._begun_at, 3)
            notify("READY=1")
            if self._page is not None:
                self._policy.adopt(self._page, self._begin_view, begun=False)
            if self._ahead is not None:
                self._policy.adopt(self._ahead, lambda service: service.say("{}"), begun=False)

    def _begin_view(self, service: Service) -> None:
        """Send the token through the pipe: everybody can read a command line."""
        service.say(json.dumps({"token": self._token}))

    def _end(self) -> None:
        notify("STOPPING=1")
        try:
            self._stop()
        finally:
            self._finish()

    def _stop(self) -> None:
        slots, outcome = self._policy.slots, self.outcome
        self._recording.settle(outcome.seconds)
        self._group.template.close()
        beside = [slots[process.name].service for process in BESIDE if process.name in slots]
        for each in beside:
            if each is not None:
                each.ask_to_end()
        services = [self._service(process) for process in SERVICES]
        for service in services:
            service.ask_to_end()
        for service in services:
            code, name = service.end(), service.process.name
            waiting = name in slots and not slots[name].begun  # a replacement that the supervisor itself called off
            early = self.interrupted.is_set() and self._first_step is None
            ended_early = code == -signal.SIGTERM and (early or waiting)
            if code != 0 and outcome.failure is None and not ended_early:
                outcome.failure, outcome.code = service.exit_message(), max(code, 0) or 1
            outcome.reports[name] = service.report or service.status
            outcome.past[name] = slots[name].past if name in slots else []
            self._produced.poll()
            self._steps.poll()
        if self._truth is not None:
            self._truth.end()
        for each in beside:
            if each is not None:
                each.end()
                outcome.reports[each.process.name] = each.report or each.status

    def _finish(self) -> None:
        """End the record and leave nothing behind, whatever went wrong."""
        outcome = self.outcome
        for process in SERVICES:
            outcome.reports.setdefault(process.name, {})
        outcome.crashes = self._policy.crashes
        self._count_due_steps()
        outcome.seconds = self._steps.seconds
        outcome.counted = {**self._produced.as_dict(), **self._steps.as_dict()}
        reason = outcome.failure or ("interrupted" if self.interrupted.is_set() else "all seconds done")
        outcome.record = self._recording.end(self._begun, reason, self._conclude(outcome))
        outcome.steps = self._steps.all()
        self._produced.close()
        self._steps.close()
        self._policy.close()
        for left in sweep(self._config):
            self._note(f"removed what was left behind: {left}")

    def _count_due_steps(self) -> None:
        """Count steps that were due after the simulator had gone: until now, or until the end that was asked for."""
        sim = [crash for crash in self.outcome.crashes if crash.process == SIM.name]
        failed = self.outcome.failure is not None and not self.outcome.reports[SIM.name].get("ended")
        end_ns = self._end_ns
        if failed and end_ns:
            self._steps.absent_until(end_ns)
        elif sim and sim[-1].outage_s is None:
            self._steps.absent_until(min(self._stopped_ns, end_ns) if end_ns else self._stopped_ns)


def supervise(
    config: Config,
    group: ProcessGroup,
    seconds: float,
    update: Update,
    show: Callable[[str], None],
    folder: Path | None = None,
    conclude: Callable[[Outcome], dict[str, Any]] = lambda _: {},
    begun_at: float | None = None,
    token: str = "",
    channels: tuple[str, ...] = (),
    truth: Path | None = None,
) -> Outcome:
    """Run both services until `seconds` after the first step (0: until interrupted), or until one is given up.

    With a `folder` the run is recorded there, with the parameters of the model, as the simulator reports them;
    `conclude` makes the summary at its end; `begun_at` (monotonic seconds) is when the wait for the first step began,
    the start of this process if it is not given; `token` opens the page, a new one if none is given; `channels` of the
    machine are stored of every step (tandem/live/follow.py); `truth` is the configuration of a run that is started
    beside this one (tandem/live/supervisor/truth.py). Raises ConfigError for errors that the services find in the
    configuration before they begin, DeviceError for a device or software that they lack.
    """
    with only_one(config):
        sweep(config)
        supervisor = Supervisor(
            config, group, update, show, folder, conclude, begun_at, token or new_token(), channels, truth
        )
        before, cores = set_by_signals(supervisor.interrupted, signal.SIGINT, signal.SIGTERM), os.sched_getaffinity(0)
        try:
            return supervisor.run(seconds)
        finally:
            os.sched_setaffinity(0, cores)
            for number, handler in before.items():
                signal.signal(number, handler)
