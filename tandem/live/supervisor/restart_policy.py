"""The restart policy of a run: what runs in each slot, whether it is at work, and what follows when it ends.

A process that crashes after it has worked is replaced at once, and after ever longer pauses if it keeps crashing soon
after its start. A process whose heartbeat stops is killed and replaced, too. A process that ended on purpose, or never
worked, or crashed more often than its budget allows, is not replaced. Every crash is reported, and how long the work
was interrupted.
"""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from sync.config.config import Config, Supervision
from sync.ring.follower import RingFollower
from sync.ring.ring import HEARTBEAT_WORD, RingReader, peek
from tandem.live.supervisor.launch import Process, ProcessGroup, Service

_YOUNG_S = 3.0  # a crash sooner than this after a start is no accident: the next start waits
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 5.0
_IMPORTING_S, _BEGINNING_S = 120.0, 20.0  # until it is ready, and then until its first work shows, on a slow machine
_STOPPED_S = 0.5  # of the supervisor: then everything may have been stopped, and heartbeats mean nothing


@dataclass
class Crash:
    """A crash, and how long it interrupted the work."""

    process: str
    at_s: float  # time of the run
    why: str
    outage_s: float | None = None  # from the last work before it to the first after; None: none followed


@dataclass
class Slot:
    process: Process
    service: Service | None
    begin: Callable[[Service], None]  # orders one that is ready to begin
    rules: Supervision
    group: ProcessGroup
    note: Callable[[str], None]
    ring: RingFollower | None
    all_crashes: list[Crash]  # of the run, in the order in which they were noticed
    crashes: list[Crash] = field(default_factory=list)
    past: list[dict[str, int]] = field(default_factory=list)  # the last figures of the processes that ended
    last: Service | None = None  # the last service in it, once it is empty
    begun: bool = True  # whether its service has got the order to begin
    _worked: bool = False
    _since: float = 0.0
    _due: float = 0.0
    _recent: deque[float] = field(default_factory=deque)
    _young: int = 0
    _head: int = 0
    _active_ns: int = 0
    _statuses: tuple[int, float] = (0, 0.0)
    _killed: bool = False  # by us; its end may take a while
    _awake: float = 0.0  # since when the supervisor itself has run without a stop

    def __post_init__(self) -> None:
        self._since = time.monotonic()

    def check(self, now: float, elapsed_s: float, trusted: bool) -> str | None:
        """Do what is due; returns a sentence if the slot is given up. `trusted`: this process was not stopped."""
        service = self.service
        if service is None:
            return None
        if not self.begun:
            self._begin_if_ready(service, now)
        if service.code is not None:
            if self.begun:
                self._back(service)  # its ring shows whether it has worked since the last look
            return self._crashed(service, now, elapsed_s)
        if not trusted:
            self._awake = now  # everything may have been stopped: give the process time to work again
            self._statuses = (service.statuses, now)
        at_work = self.begun and self._back(service)
        if self._killed or not self.rules.restart or now - self._awake < _STOPPED_S:
            return None
        silent = self._silence_s(service, now)
        if silent > (self.process.silent_s if at_work else _BEGINNING_S if self.begun else _IMPORTING_S):
            self.note(f"{self.process.title} has not moved for {silent:.1f} s: killed")
            service.kill()
            self._killed = True
        return None

    def _begin_if_ready(self, service: Service, now: float) -> None:
        """A replacement begins once it is ready and its pause is over."""
        if service.ready and now >= self._due:
            self.begin(service)
            self.begun, self._since = True, now
            self._statuses = (service.statuses, now)

    def _attached(self) -> RingReader | None:
        return self.ring.attached() if self.ring else None

    def _back(self, service: Service) -> bool:
        """Whether it works; after a crash, report for how long the work was interrupted."""
        open_crashes = [crash for crash in self.crashes if crash.outage_s is None]
        if self._worked and not open_crashes:
            return True
        outage_s = 0.0
        if self.process.ring:
            ring = self._attached()
            if ring is None or ring.writer_pid != service.pid or ring.head <= self._head:
                return False
            first, _, _ = ring.since(self._head, 1)
            if open_crashes and len(first):
                outage_s = (int(first["pushed_ns"][0]) - self._active_ns) * 1e-9
        else:
            if service.statuses <= self._statuses[0]:
                return False
            outage_s = time.monotonic() - self._active_ns * 1e-9
        self._worked = True
        for crash in open_crashes:
            crash.outage_s = round(max(outage_s, 0.0), 3)
        if open_crashes:
            self.note(f"{self.process.title} is back (pid {service.pid}): {max(outage_s, 0.0):.2f} s without it")
        return True

    def _silence_s(self, service: Service, now: float) -> float:
        if self.process.ring:
            ring = self._attached()
            if ring is not None and ring.writer_pid == service.pid:
                # against the start of this look: a stop of everything during the look makes no heartbeat older
                return now - 1e-9 * int(peek(ring.words, HEARTBEAT_WORD))
            return 0.0 if self._worked else now - self._since  # it has not made its ring yet
        if service.statuses != self._statuses[0]:
            self._statuses = (service.statuses, now)
        return now - max(self._statuses[1], self._since)

    def _crashed(self, service: Service, now: float, elapsed_s: float) -> str | None:
        message, code = service.exit_message(), service.code
        self.group.reap(service)
        self.past.append({k: v for k, v in service.status.items() if isinstance(v, int)})
        self.service, self.last = None, service
        within = self.rules.within_s
        while self._recent and now - self._recent[0] > within:
            self._recent.popleft()
        if not self.rules.restart or code in self.process.ends or not (self._worked or self.crashes):
            return message
        if len(self._recent) >= self.rules.restarts:
            return f"{message}; it crashed {len(self._recent) + 1} times within {within:g} s"
        self._recent.append(now)
        if self._worked:  # otherwise the work has been interrupted since the crash before
            self._mark(now)
        self._young = self._young + 1 if not self._worked or now - self._since < _YOUNG_S else 0
        pause = min(_FIRST_PAUSE_S * 2 ** (self._young - 1), _LONGEST_PAUSE_S) if self._young else 0.0
        try:
            successor = self.group.start(self.process)
        except OSError as error:
            return f"{message}; no other can be started: {error.strerror}"
        self.service, self.begun, self._worked, self._killed = successor, False, False, False
        self._since = now
        again = f" in {pause:g} s" if pause else ""
        self.note(f"{message}; another takes its place{again}")
        self.crashes.append(Crash(self.process.name, round(elapsed_s, 3), message))
        self.all_crashes.append(self.crashes[-1])
        self._due = now + pause
        return None

    def _mark(self, now: float) -> None:
        """Note how far it had come, and when it last worked."""
        self._head, self._active_ns = 0, round(now * 1e9)  # CLOCK_MONOTONIC, as time.monotonic() here
        ring = self._attached() if self.process.ring else None
        if ring is not None:
            self._head = ring.head
            newest = ring.newest()
            if newest is not None:
                self._active_ns = int(newest["pushed_ns"])

    def wait(self, patience_s: float) -> None:
        """Wait until a replacement works, or has ended, or takes too long."""
        end = time.monotonic() + patience_s
        while self.service is not None and self.crashes and self.service.code is None and time.monotonic() < end:
            self.group.template.poll()
            if not self.begun:
                self._begin_if_ready(self.service, end)
            elif self._back(self.service):
                break
            time.sleep(0.02)

    @property
    def settled(self) -> bool:
        """Whether it works, or is given up."""
        return self.service is None or (self.begun and self._worked)

    def close(self) -> None:
        if self.ring is not None:
            self.ring.close()


class RestartPolicy:
    """All slots of a run."""

    def __init__(self, config: Config, group: ProcessGroup, note: Callable[[str], None]):
        self._config, self._group, self._note = config, group, note
        self.slots: dict[str, Slot] = {}
        self.crashes: list[Crash] = []
        self._checked_s = time.monotonic()

    def adopt(self, service: Service, begin: Callable[[Service], None], begun: bool = True) -> Slot:
        """Watch this service from now on, and replace it. `begun`: it has got the order to begin already."""
        process = service.process
        ring = RingFollower(self._config.ring(process.ring)) if process.ring else None
        rules = self._config.supervision
        slot = Slot(process, service, begin, rules, self._group, self._note, ring, self.crashes, begun=begun)
        self.slots[process.name] = slot
        return slot

    def check(self, elapsed_s: float) -> list[tuple[Slot, str]]:
        """Check all slots; returns those that were given up, and why."""
        self._group.template.poll()
        now = time.monotonic()
        trusted, self._checked_s = now - self._checked_s < _STOPPED_S, now
        abandoned = []
        for slot in self.slots.values():
            if (why := slot.check(now, elapsed_s, trusted)) is not None:
                abandoned.append((slot, why))
        return abandoned

    @property
    def settled(self) -> bool:
        return all(slot.settled for slot in self.slots.values())

    def close(self) -> None:
        for slot in self.slots.values():
            slot.close()
