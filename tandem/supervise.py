"""Starting the services, watching them, stopping them in order, and leaving nothing behind.

The services share nothing but blocks; what the supervisor knows of them it reads from their standard output (a JSON
object a line) and, as a reader like any other, from the DAQ's ring. They have been started already (tandem/launch.py)
and begin together, once the recorder watches. It ends last, and is told how the run ended; a drive goes on without it.
"""

import json
import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sync.config import ALL_RINGS, Config
from sync.errors import ConfigError, RingBusy, RingError, SourceError
from sync.ring import RingReader, remove_stale
from tandem.facts import as_text
from tandem.follow import Produced, Steps
from tandem.launch import PROCESSES, Crew, Service

LOOK_S = 0.05
_RECORDER_PATIENCE_S = 20.0  # a slow disk
_MOST_SAID = 2000
_MOST_NOTES = 32 * 1024  # bytes: a recorder that does not listen must not stop the supervisor at a full pipe
_START_S = 600.0  # to compile everything on a slow machine (80 s on ours) and see a first step


class _Recording:
    """The recorder beside a drive: it may fail at any time, and the drive goes on."""

    def __init__(self, service: Service | None, begin: Callable[[], str | None], tell: Callable[[str], None]):
        self._service, self._begin, self._tell = service, begin, tell
        self._told = self._ended = False
        self._waiting_since: float | None = None
        self._noted, self._full = 0, False
        self._lock = threading.Lock()

    def note(self, text: str, ours: bool = False) -> None:
        """Something worth keeping with the record; what the supervisor itself has to say always finds room."""
        with self._lock:  # services are heard in threads of their own
            if self._service is None or not self._told or self._ended or (self._full and not ours):
                return
            line = json.dumps({"note": text})
            self._noted += len(line)
            if self._noted > _MOST_NOTES and not self._full:
                self._full = True
                line = json.dumps({"note": f"{text}; what the services say from here on is not recorded"})
            self._service.say(line)

    @property
    def ready(self) -> bool:
        """It watches for rings, or there is nothing to wait for (any longer: a disk may hang)."""
        if self._service is None or self._ended or self._service.status:
            return True
        self._waiting_since = self._waiting_since or time.monotonic()
        if time.monotonic() - self._waiting_since > _RECORDER_PATIENCE_S:
            self._tell("the recorder is not ready; the drive does not wait for it")
            return True
        return False

    @property
    def status(self) -> dict[str, Any]:
        return self._service.status if self._service else {}

    def look(self) -> None:
        if self._service is None or self._ended:
            return
        begin = self._begin() if self._service.ready and not self._told else None
        if begin is not None:
            self._told = True
            self._service.say(begin)
        if self._service.code is not None:
            self._ended = True
            self._tell(f"{self._service.obituary()}; the drive goes on unrecorded")

    def end(self, begun: bool, reason: str, summary: dict[str, Any]) -> dict[str, Any] | None:
        service = self._service
        if service is None:
            return None
        self.look()
        if not begun and not self._told:  # there was nothing to record
            service.ask_to_end()
            service.end(_RECORDER_PATIENCE_S)
            return None
        service.say(json.dumps({"reason": reason, "summary": summary}))
        code = service.end(_RECORDER_PATIENCE_S)
        if code != 0 and not self._ended:
            self._tell(service.obituary())
        if service.report:
            return service.report
        why = f" ({service.last_words})" if service.last_words else ""
        return {**service.status, "whole": False, "state": service.obituary() + why}


def sweep(config: Config) -> list[str]:
    """Remove what dead owners left; never what a living one holds. Returns what was removed."""
    removed = [config.ring(role) for role in ALL_RINGS if remove_stale(config.ring(role))]
    for role, ring in (("daq", "daq"), ("sim", "sim"), ("command", "sim"), ("hand", "daq")):
        socket = config.socket(role)
        if socket.exists() and not _ring_in_use(config.ring(ring)):
            socket.unlink(missing_ok=True)
            removed.append(str(socket))
    return removed


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
    """What a drive was."""

    seconds: float = 0.0  # from the first step to the stop
    first_step_s: float | None = None  # from the start of this process
    failure: str | None = None
    code: int = 0
    reports: dict[str, dict[str, Any]] = field(default_factory=dict)
    followed: dict[str, int] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    record: dict[str, Any] | None = None  # what the recorder says of its file; None: there was to be none
    steps: np.ndarray = field(default_factory=lambda: np.zeros(0, [("step", "<i8")]))


def _process_age_s() -> float:
    """How long this process has been there: what a person waits also counts the imports."""
    started = int(Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started


def _shown(crew: Crew, note: Callable[[str], None]) -> Service | None:
    try:
        return crew.show()
    except OSError as error:
        note(f"no page: {error}")
        return None


Update = Callable[[float, dict[str, dict[str, Any]]], None]


def drive(
    config: Config,
    crew: Crew,
    seconds: float,
    update: Update,
    tell: Callable[[str], None],
    folder: Path | None = None,
    conclude: Callable[[Outcome], dict[str, Any]] = lambda _: {},
) -> Outcome:
    """Both services, until `seconds` after the first step (0: until interrupted), or until one of them ends.

    With a `folder` the run is recorded there, with the parameters of the model, as the simulator tells them;
    `conclude` makes the summary at its end. What the services find wrong with the configuration before they begin is
    a ConfigError, what they miss a SourceError.
    """
    for process in PROCESSES:
        if _ring_in_use(config.ring(process.name)):
            raise RingBusy(
                f"a run named {config.name!r} is going on already; wait for it, end it, or give this one another `name`"
            )
    sweep(config)
    outcome = Outcome()

    def keep(text: str, ours: bool) -> None:
        # the token of the page is for who sits here, not for who gets the record
        kept = text.replace(config.view.token, "...") if config.view.token else text
        if ours or len(outcome.said) < _MOST_SAID:
            outcome.said.append(kept)
        recording.note(kept, ours)
        tell(text)

    def hear(text: str) -> None:
        keep(text, ours=False)

    def note(text: str) -> None:
        keep(text, ours=True)

    begun = time.monotonic() - _process_age_s()
    services = crew.services
    sim = services[1]

    def begin_recording() -> str | None:
        told = json.dumps({"folder": str(folder), "parameters": as_text(sim.told).decode()})
        return told if sim.ready else None

    recording = _Recording(crew.recorder if folder else None, begin_recording, note)
    produced = Produced(config.ring("daq"))
    steps = Steps(config.ring("sim"))
    first_step: float | None = None
    view: Service | None = None
    interrupted = threading.Event()
    before = {n: signal.signal(n, lambda *_: interrupted.set()) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        begin = False
        while not interrupted.wait(LOOK_S):
            recording.look()
            if not begin and all(service.ready for service in services) and recording.ready:
                if missing := set(services[0].told.get("wants", ())) - set(sim.told.get("outputs", ())):
                    raise ConfigError(
                        f"the source wants {', '.join(sorted(missing))} of the simulator, whose model has none;"
                        f" it has {', '.join(sim.told.get('outputs', ()))}"
                    )
                begin = True
                crew.listen(hear)
                for service in services:
                    service.say("begin")
            produced.look()
            steps.look()
            now = time.monotonic()
            if first_step is None and sim.status.get("steps", 0) > 0:
                first_step = sim.status["first_step_ns"] * 1e-9  # CLOCK_MONOTONIC, as time.monotonic() here
                outcome.first_step_s = round(first_step - begun, 3)
                view = _shown(crew, note) if config.view.enabled else None
            if view is not None and view.code is not None:
                note(f"{view.obituary()}; the drive goes on without its page")
                view = None
            if first_step is None and now - begun > _START_S:
                outcome.failure = f"no step within {_START_S:g} s"
                break
            ended = [service for service in services if service.code is not None]
            for refusal in (ConfigError, SourceError):
                if ended and not begin and ended[0].code == refusal.code:
                    raise refusal(ended[0].last_words)
            if ended:
                crew.listen(hear)
                outcome.failure = ended[0].obituary()
                outcome.code = max(ended[0].code or 0, 0) or 1
                note(outcome.failure)
                break
            status = {s.process.name: s.status for s in services}
            update(
                now - first_step if first_step else -1.0,
                {**status, "record": recording.status, "view": view.status if view else {}},
            )
            if first_step is not None and 0 < seconds <= now - first_step:
                break
        outcome.seconds = time.monotonic() - first_step if first_step else 0.0
    finally:
        if view is not None:
            view.ask_to_end()
        for service in services:
            service.ask_to_end()
        for service in services:
            code = service.end()
            asked_early = interrupted.is_set() and first_step is None and code == -signal.SIGTERM
            if code != 0 and outcome.failure is None and not asked_early:
                outcome.failure, outcome.code = service.obituary(), max(code, 0) or 1
            outcome.reports[service.process.name] = service.report or service.status
            produced.look()
            steps.look()
        if view is not None:
            view.end()
            outcome.reports["view"] = view.report or view.status
        outcome.followed = produced.as_dict()
        reason = outcome.failure or ("interrupted" if interrupted.is_set() else "all seconds done")
        outcome.record = recording.end(begin, reason, conclude(outcome))
        outcome.steps = steps.all()
        produced.close()
        steps.close()
        for left in sweep(config):
            note(f"removed what was left behind: {left}")
        for number, handler in before.items():
            signal.signal(number, handler)
    if outcome.failure and not outcome.code:
        outcome.code = 1
    return outcome
