"""Keeping the posts of a drive manned: who holds each, whether their heart beats, and who follows when it stops.

A process that dies after it has worked is replaced: at once by its spare, and after ever longer pauses if it keeps
dying young. One whose heart stops is killed and replaced too. Whoever ended on purpose, or never worked, is not; nor is
one that died more often than its budget allows. Every death, and for how long it was felt, is told.
"""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from sync.config import Config, Supervision
from sync.errors import RingError
from sync.ring import RingReader
from tandem.launch import RECORDER, SIM, Crew, Process, Service

_YOUNG_S = 3.0  # who dies younger did not die by accident
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 5.0
_SHORT_S = 5.0  # a drive of some seconds needs no spares
_COMING_AT_ONCE = 2  # spares: they import with what the others leave of the machine
_IMPORTING_S, _BEGINNING_S = 120.0, 20.0  # to be ready, and then to show the first sign of work, on a slow machine
_RECORDER_FIRST_S = 1.0  # for how long a simulator lets a recorder take its place before it does so itself
_STOPPED_S = 0.5  # of ourselves: then everything may have been stopped, and no heart says anything


@dataclass
class Death:
    """What happened, and what it cost."""

    process: str
    at_s: float  # of the run
    why: str
    outage_s: float | None = None  # from the last sign of work to the next; None: there was none


@dataclass
class Post:
    process: Process
    service: Service | None
    begin: Callable[[Service], None]  # gives the word to one that is ready
    rules: Supervision
    crew: Crew
    note: Callable[[str], None]
    ring_name: str = ""
    others_first: Callable[[], bool] = lambda: False  # somebody else should be at work before a replacement begins
    deaths: list[Death] = field(default_factory=list)
    past: list[dict[str, int]] = field(default_factory=list)  # the last words in figures of those who died
    last: Service | None = None  # who held it last, once nobody does
    begun: bool = True  # whoever holds it has got the word
    _worked: bool = False
    _since: float = 0.0
    _due: float = 0.0
    _recent: deque[float] = field(default_factory=deque)
    _young: int = 0
    _ring: RingReader | None = None
    _head: int = 0
    _felt_ns: int = 0
    _statuses: tuple[int, float] = (0, 0.0)
    _killed: bool = False  # by us; it may take its time to go
    _awake: float = 0.0  # since when we ourselves are

    def took_over(self) -> None:
        """The first of them has got the word to begin."""
        self._since = time.monotonic()

    def look(self, now: float, elapsed_s: float, trusted: bool) -> str | None:
        """What there is to do; a sentence if the post is given up. `trusted`: we ourselves were not stopped."""
        service = self.service
        if service is None:
            return None
        if not self.begun:
            self._raise(service, now)
        if service.code is not None:
            return self._died(service, now, elapsed_s)
        if not trusted:
            self._awake = now  # everything may have been stopped: give it time to move again
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

    def _raise(self, service: Service, now: float) -> None:
        """A replacement begins once it is ready and its pause is over."""
        held_back = now - self._since < _RECORDER_FIRST_S and self.others_first()
        if service.ready and now >= self._due and not held_back:
            self.begin(service)
            self.begun, self._since = True, now
            self._statuses = (service.statuses, now)

    def _attached(self) -> RingReader | None:
        if self._ring is not None and self._ring.closed:
            self._ring.close()
            self._ring = None
        if self._ring is None and self.ring_name:
            try:
                self._ring = RingReader(self.ring_name)
            except RingError:
                return None
        return self._ring

    def _back(self, service: Service) -> bool:
        """It works; after a death, say for how long it did not."""
        open_deaths = [death for death in self.deaths if death.outage_s is None]
        if self._worked and not open_deaths:
            return True
        outage_s = 0.0
        if self.process.ring:
            ring = self._attached()
            if ring is None or ring.writer_pid != service.pid or ring.head <= self._head:
                return False
            first, _, _ = ring.since(self._head, 1)
            if open_deaths and len(first):
                outage_s = (int(first["pushed_ns"][0]) - self._felt_ns) * 1e-9
        else:
            if service.statuses <= self._statuses[0]:
                return False
            outage_s = time.monotonic() - self._felt_ns * 1e-9
        self._worked = True
        for death in open_deaths:
            death.outage_s = round(max(outage_s, 0.0), 3)
        if open_deaths:
            self.note(f"{self.process.title} is back (pid {service.pid}): {max(outage_s, 0.0):.2f} s without it")
        return True

    def _silence_s(self, service: Service, now: float) -> float:
        if self.process.ring:
            ring = self._attached()
            if ring is not None and ring.writer_pid == service.pid:
                return ring.heartbeat_age_ns * 1e-9
            return 0.0 if self._worked else now - self._since  # it has not even made its ring
        if service.statuses != self._statuses[0]:
            self._statuses = (service.statuses, now)
        return now - max(self._statuses[1], self._since)

    def _died(self, service: Service, now: float, elapsed_s: float) -> str | None:
        obituary, code = service.obituary(), service.code
        self.crew.bury(service)
        self.past.append({k: v for k, v in service.status.items() if isinstance(v, int)})
        self.service, self.last = None, service
        within = self.rules.within_s
        while self._recent and now - self._recent[0] > within:
            self._recent.popleft()
        if not self.rules.restart or code in self.process.ends or not (self._worked or self.deaths):
            return obituary
        if len(self._recent) >= self.rules.restarts:
            return f"{obituary}; it died {len(self._recent) + 1} times within {within:g} s"
        self._recent.append(now)
        if self._worked:  # else it was felt last when the one before it was
            self._mark(now)
        self._young = self._young + 1 if not self._worked or now - self._since < _YOUNG_S else 0
        pause = min(_FIRST_PAUSE_S * 2 ** (self._young - 1), _LONGEST_PAUSE_S) if self._young else 0.0
        try:
            successor = self.crew.replacement(self.process)
        except OSError as error:
            return f"{obituary}; no other can be started: {error.strerror}"
        self.service, self.begun, self._worked, self._killed = successor, False, False, False
        self._since = now
        again = f" in {pause:g} s" if pause else ""
        self.note(f"{obituary}; another takes its place{again}")
        self.deaths.append(Death(self.process.name, round(elapsed_s, 3), obituary))
        self._due = now + pause
        self._raise(self.service, now)
        return None

    def _mark(self, now: float) -> None:
        """How far it had come, and when it was last felt."""
        self._head, self._felt_ns = 0, round(now * 1e9)  # CLOCK_MONOTONIC, as time.monotonic() here
        ring = self._attached() if self.process.ring else None
        if ring is not None:
            self._head = ring.head
            newest = ring.newest()
            if newest is not None:
                self._felt_ns = int(newest["pushed_ns"])

    def wait(self, patience_s: float) -> None:
        """Until a replacement is at work, or has ended, or it takes too long."""
        end = time.monotonic() + patience_s
        while self.service is not None and self.deaths and self.service.code is None and time.monotonic() < end:
            if not self.begun:
                self._raise(self.service, end)
            elif self._back(self.service):
                break
            time.sleep(0.02)

    @property
    def vacant(self) -> bool:
        """Nobody is at work there, but somebody will be."""
        return self.service is not None and (self.service.code is not None or not self.settled)

    @property
    def settled(self) -> bool:
        """Somebody is at work there, so that a spare can be thought of."""
        return self.service is not None and self.begun and self._worked

    def close(self) -> None:
        if self._ring is not None:
            self._ring.close()
            self._ring = None


class Keeper:
    """All posts of a drive."""

    def __init__(self, config: Config, crew: Crew, note: Callable[[str], None]):
        self._config, self._crew, self._note = config, crew, note
        self.posts: dict[str, Post] = {}
        self._looked = time.monotonic()

    def man(self, service: Service, begin: Callable[[Service], None]) -> Post:
        """From now on this service's post is kept."""
        process = service.process
        ring = self._config.ring(process.ring) if process.ring else ""
        post = Post(process, service, begin, self._config.supervision, self._crew, self._note, ring)
        if process is SIM:
            # it makes the ring of what it receives anew; what is in the old one is lost with the last who holds it
            post.others_first = lambda: RECORDER.name in self.posts and self.posts[RECORDER.name].vacant
        post.took_over()
        self.posts[process.name] = post
        return post

    def look(self, elapsed_s: float) -> list[tuple[Post, str]]:
        """The posts that were given up, and why."""
        now = time.monotonic()
        trusted, self._looked = now - self._looked < _STOPPED_S, now
        given_up = []
        for post in self.posts.values():
            if (why := post.look(now, elapsed_s, trusted)) is not None:
                given_up.append((post, why))
        if elapsed_s > _SHORT_S:
            self._see_to_spares()
        return given_up

    def _see_to_spares(self) -> None:
        rules = self._config.supervision
        if not (rules.restart and rules.spares) or not all(p.settled or p.service is None for p in self.posts.values()):
            return  # first those who work
        coming = 0
        for post in self.posts.values():
            if post.service is not None and not self._crew.prepare(post.process):
                coming += 1
                if coming == _COMING_AT_ONCE:
                    return

    @property
    def deaths(self) -> list[Death]:
        return sorted((d for post in self.posts.values() for d in post.deaths), key=lambda d: d.at_s)

    def close(self) -> None:
        for post in self.posts.values():
            post.close()
