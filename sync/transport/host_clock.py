"""Another host's clock: its offset and drift against ours, with an error bound that holds.

Four instants an exchange: a0 we send, b1 they receive, b2 they send, a3 we receive; a on our clock, b on theirs. With
theta = theirs - ours, nothing arrives before it was sent, so

    b2 - a3  <=  theta  <=  b1 - a0

whatever the network did. Every exchange thus gives two walls. Over some seconds theta is a straight line in time
(offset and drift), one of the lines that pass between all walls. The estimate is the middle of what these lines allow
for now, the bound half their spread, plus an allowance for a drift that is not quite constant. Exchanges that were
delayed on their way give walls far off, which change nothing, so that only the quick ones matter; the quickest few of
each second are kept. If no line passes, the clock was stepped: the older half of the exchanges is dropped, and that is
counted.

Clocks disciplined by PTP or NTP need no walls: each host knows its own difference between the disciplined clock and the
monotonic one, the two differences are exchanged, and the bound is the one declared for the discipline.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import msgpack
import numpy as np
import zmq

from sync.clock import SECOND, now_ns
from sync.transport.message import MALFORMED, STRICT
from sync.transport.socket_guard import ASKERS, Connections, SocketGuard
from sync.transport.wire import POLL_MS, UNKNOWN_CLOCK, Context, bind

VERSION = 1
Fit = Callable[[np.ndarray, np.ndarray, float, float], tuple[float, float, float, float]]
_SPAN_NS = 20 * SECOND  # how far back walls are remembered
_PER_SECOND = 3  # exchanges kept of each second
_DRIFT_LIMIT = 1e-3  # no clock is further off
_WANDER = 2e-8  # by how much the drift may change within the span
_QUICK_S, _SLOW_S = 0.02, 0.2  # between exchanges, at first and later
_QUICK = 50  # exchanges
_MOST_BYTES = 4096  # of a question or an answer
_MOST_WAITING = 16  # questions of one asker
_UNANSWERED = 3  # requests, more than a second: the next to answer may have another clock
_SILENT = 8  # questions without an answer: some two seconds


@dataclass(frozen=True)
class Estimate:
    at_ns: int  # our clock
    offset_ns: int  # theirs - ours, at that instant
    drift: float  # ns a ns
    bound_ns: int  # at that instant …
    drift_bound: float  # … and by how much it grows from there, ns a ns

    def offset_at(self, t_ns: int) -> int:
        return self.offset_ns + round(self.drift * (t_ns - self.at_ns))

    def bound_at(self, t_ns: int) -> int:
        return self.bound_ns + math.ceil(self.drift_bound * abs(t_ns - self.at_ns))


class Walls:
    """The exchanges of the last seconds, and the lines that fit between them."""

    def __init__(self) -> None:
        from sync.transport.clock_line import fit  # compiled where a clock is measured, before the first exchange

        self._fit = fit
        self._exchanges: list[tuple[int, int, int, int]] = []  # a0, b1, b2, a3
        self.exchanges = self.steps = 0

    def add(self, a0: int, b1: int, b2: int, a3: int) -> None:
        self.exchanges += 1
        # the newest is always kept, however slow it was: it alone shows that the clock has just jumped
        self._exchanges = [*_quickest(self._exchanges, a3), (a0, b1, b2, a3)]

    def estimate(self, now: int) -> Estimate | None:
        while self._exchanges:
            a0, b1, b2, a3 = np.array(self._exchanges).T
            found = _between(self._fit, np.column_stack([a3, b2 - a3]), np.column_stack([a0, b1 - a0]), now)
            if found is not None:
                return found
            self.steps += 1  # their clock or ours was stepped: older exchanges are no longer true
            self._exchanges = self._exchanges[len(self._exchanges) // 2 + 1 :]
        return None


def _quickest(exchanges: list[tuple[int, int, int, int]], now: int) -> list[tuple[int, int, int, int]]:
    """The exchanges of the last span that were the quickest few of their second, in order of time."""
    seconds: dict[int, list[tuple[int, int, int, int]]] = {}
    for exchange in exchanges:
        if now - exchange[3] < _SPAN_NS:
            seconds.setdefault(exchange[3] // SECOND, []).append(exchange)
    quickest = [sorted(group, key=lambda e: (e[3] - e[0]) - (e[2] - e[1]))[:_PER_SECOND] for group in seconds.values()]
    return sorted(exchange for group in quickest for exchange in group)


def _between(fit: Fit, lower: np.ndarray, upper: np.ndarray, now: int) -> Estimate | None:
    """The estimate that the walls allow at `now`; None if no line fits between them."""
    base = np.array([now, upper[-1, 1]])  # keeps the floats small
    slack = _WANDER * float(now - min(lower[0, 0], upper[0, 0]))
    least, most, left, right = fit((lower - base).astype(float), (upper - base).astype(float), _DRIFT_LIMIT, slack)
    if math.isnan(least):
        return None
    # the ends may belong to different lines; between them lies everything that is possible
    return Estimate(
        at_ns=now,
        offset_ns=int(base[1]) + round((least + most) / 2),
        drift=(left + right) / 2,
        bound_ns=math.ceil((most - least) / 2),
        drift_bound=(right - left) / 2 + _WANDER,
    )


# ---- the exchange ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Artificial:
    """A clock that is deliberately wrong, for tests on one machine: theirs = true + offset + drift * true."""

    offset_ns: int = 0
    drift: float = 0.0

    def read(self) -> int:
        true = int(now_ns())
        return true + self.offset_ns + round(self.drift * true)


def discipline_ns() -> int:
    """Disciplined clock (UTC, as NTP or PTP keep it) minus monotonic, as this host sees it."""
    readings = []
    for _ in range(5):
        before = time.monotonic_ns()
        utc = time.clock_gettime_ns(time.CLOCK_REALTIME)
        after = time.monotonic_ns()
        readings.append((after - before, utc - (before + after) // 2))
    return min(readings)[1]  # the one that was interrupted least


def _instant(value: object) -> int:
    """An instant off the wire, or one of MALFORMED."""
    if type(value) is not int or abs(value) >= 1 << 62:
        raise ValueError(f"{value!r} is no instant")
    return value


class ClockServer:
    """Answers with our instants. Owned by one thread, which calls `serve` over and over."""

    def __init__(self, zmq_context: Context, endpoint: str, clock: Artificial, guard: SocketGuard | None = None):
        self._clock = clock
        self.requests = self.malformed = 0
        self._socket = zmq_context.socket(zmq.REP)
        self._socket.set(zmq.LINGER, 0)
        self._socket.set(zmq.RCVTIMEO, POLL_MS)
        self._socket.set(zmq.MAXMSGSIZE, _MOST_BYTES)
        self._socket.set(zmq.RCVHWM, _MOST_WAITING)
        self._connections = guard.serve(self._socket, ASKERS) if guard is not None else Connections()
        bind(self._socket, endpoint)

    def serve(self) -> None:
        try:
            parts = self._socket.recv_multipart()
        except zmq.Again:
            return
        b1 = self._clock.read()
        self.requests += 1
        self._connections.count_read(sum(map(len, parts)))
        answer: dict[str, int] = {"version": VERSION}
        try:
            (data,) = parts
            answer["a0"] = _instant(msgpack.unpackb(data, **STRICT)["a0"])
        except MALFORMED:
            self.malformed += 1
        answer["discipline_ns"] = discipline_ns() - (self._clock.read() - now_ns())
        answer["b1"] = b1
        answer["b2"] = self._clock.read()
        self._socket.send(msgpack.packb(answer))
        if "a0" not in answer:
            self._connections.count_invalid()

    def count(self) -> dict[str, int]:
        return {"asked": self.requests, "malformed": self.malformed}

    def close(self) -> None:
        self._socket.close()


class ClockClient:
    """Keeps the estimate of the other host's clock. Owned by one thread, which calls `exchange` over and over."""

    def __init__(
        self,
        zmq_context: Context,
        endpoint: str,
        declared_bound_ns: int | None = None,
        guard: SocketGuard | None = None,
    ):
        self.endpoint = endpoint
        self.walls = Walls()
        self.unanswered = 0
        self.silent = 0  # questions since the last answer
        self.stepped = 0  # times that the other clock jumped
        self.estimate: Estimate | None = None
        self._declared = declared_bound_ns
        self._socket = zmq_context.socket(zmq.REQ)
        self._socket.set(zmq.LINGER, 0)
        # a lost answer must not wedge the next question
        self._socket.set(zmq.REQ_RELAXED, 1)
        self._socket.set(zmq.REQ_CORRELATE, 1)
        self._socket.set(zmq.RCVTIMEO, 4 * POLL_MS)
        self._socket.set(zmq.SNDTIMEO, 4 * POLL_MS)
        self._socket.set(zmq.MAXMSGSIZE, _MOST_BYTES)
        self._socket.set(zmq.RCVHWM, _MOST_WAITING)
        self._connections = guard.present(self._socket, ASKERS) if guard is not None else Connections()

    def connect(self) -> None:
        self._socket.connect(self.endpoint)

    def exchange(self) -> Estimate | None:
        """Ask once; the new estimate, or None if there was no (sensible) answer."""
        try:
            a0 = now_ns()
            self._socket.send(msgpack.packb({"version": VERSION, "a0": a0}))
            data = self._socket.recv()
            a3 = now_ns()
            self._connections.count_read(len(data))
            answer = msgpack.unpackb(data, **STRICT)
            instants = [_instant(answer[key]) for key in ("a0", "b1", "b2", "discipline_ns")]
            if instants[0] != a0 or instants[2] < instants[1]:
                raise ValueError("an answer to something else")
        except (zmq.ZMQError, *MALFORMED):
            self.unanswered += 1
            self.silent += 1
            if self.silent % _SILENT == 0:
                # libzmq never returns to a peer that refused it, not even when it would be let in by now
                self._socket.disconnect(self.endpoint)
                self._connections.leave()
                self.connect()
            return None
        self.silent = 0
        self.walls.add(a0, instants[1], instants[2], a3)
        if self._declared is not None:
            self.estimate = Estimate(a3, discipline_ns() - instants[3], 0.0, self._declared, 0.0)
        else:
            self.estimate = self.walls.estimate(a3)
            if self.walls.steps:  # another clock than before: nothing of the old one holds
                self.stepped += 1
                self.walls, self.estimate = Walls(), None
        return self.estimate

    def reading(self) -> np.ndarray:
        """How a receiver now converts the other host's instants (sync.transport.wire.Receiver.clock).

        UNKNOWN_CLOCK before the clock is settled, after it has jumped, and when no answer has come for a while: that
        host may come back with another clock, and no bound holds across that.
        """
        estimate = self.estimate
        if estimate is None or not self.settled or self.silent >= _UNANSWERED:
            return UNKNOWN_CLOCK
        return np.array((1.0, estimate.at_ns, estimate.offset_ns, estimate.drift, estimate.bound_ns), np.float64)

    @property
    def settled(self) -> bool:
        """There were enough exchanges to know the drift, and so the bound in the near future."""
        return self._declared is not None or self.walls.exchanges >= _QUICK

    def pause_s(self) -> float:
        """How long to wait before asking again."""
        return _QUICK_S if self.walls.exchanges < _QUICK else _SLOW_S

    def close(self) -> None:
        self._socket.close()
