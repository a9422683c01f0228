"""The remote source: the blocks of another host's DAQ service, every one of them, as if sampled here.

The other host publishes every block (`transport.every_port`); one thread takes them off the wire into a private ring,
another estimates the other host's clock, so that instants are converted to ours. Nothing is invented and nothing is
delivered twice: each missing number is a lost scan, wherever it was lost; a new epoch there is a gap here. Blocks are
delivered only while the other clock is known. The other host may start later, end, and come back; that is reported, and
counted.

Blocks must be of the configuration's own channels. Others are counted as foreign and ignored.
"""

import ipaddress
import threading
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field, model_validator

from daq_service.devices.contract import Device, DeviceSettings, Host
from sync.clock import now_ns, sleep_until
from sync.config.config import BEYOND_LOOPBACK, Config, tcp
from sync.process import realtime
from sync.process.threads import joined
from sync.ring.block import EPOCH, RECEIVED, SEQ, T
from sync.transport.keys import Keys, read_keys

_NAME = r"^[a-z][a-z0-9_]{0,31}$"
_CHECK_NS = 100_000_000
_CLOCK_PATIENCE_NS = 5_000_000_000
_BOUND_HOLDS_NS = 500_000_000  # until it is computed again, at the latest
_RATE_FROM, _RATE_TOLERANCE = 200, 0.01


class Settings(DeviceSettings):
    kind: str
    host: str  # of the other DAQ, an IP address
    port: int = Field(5604, ge=1, le=65535)  # its transport.every_port
    # of the other host: same on the loopback, else estimated; disciplined where PTP or NTP keep both
    clock: Literal["auto", "same", "estimate", "disciplined"] = "auto"
    clock_port: int = Field(5603, ge=1, le=65535)  # where it answers what time it is: its transport.clock_port
    clock_bound_us: float = Field(100.0, gt=0)  # how well disciplined clocks agree
    keys: str = ""  # folder of keys; empty only on the loopback
    own_key: str = Field("sim", pattern=_NAME)  # this host's pair
    their_key: str = Field("daq", pattern=_NAME)  # the other host's public key
    buffer_blocks: int = Field(50_000, ge=1, le=1_000_000)  # that may wait here; older ones are lost, and counted
    silent_ms: float = Field(500.0, gt=0, le=60_000)  # without blocks for so long: it is reported

    @property
    def near(self) -> bool:
        return ipaddress.ip_address(self.host).is_loopback

    @property
    def clock_mode(self) -> str:
        return self.clock if self.clock != "auto" else "same" if self.near else "estimate"

    @model_validator(mode="after")
    def _closed_by_default(self) -> "Settings":
        try:
            near = self.near
        except ValueError:
            raise ValueError(f"host = {self.host!r} must be an IP address, such as 192.0.2.1") from None
        if not near and not self.keys:
            raise ValueError(f"host = {self.host!r} {BEYOND_LOOPBACK}")
        return self


class _Ring:
    """In our own memory; see sync.transport.wire.Written."""

    def __init__(self, config: Config, buffer_blocks: int):
        from sync.ring.ring import private_ring

        self.layout = config.daq.layout
        # room for the whole buffer while the next blocks are already being written
        self.words = private_ring(self.layout, 1 << (2 * max(buffer_blocks, 64)).bit_length())


class _Link:
    """The threads that listen, from a start to a stop."""

    def __init__(self, config: Config, settings: Settings, keys: Keys | None):
        from sync.transport.host_clock import ClockClient
        from sync.transport.socket_guard import SocketGuard
        from sync.transport.wire import UNKNOWN_CLOCK, Receiver, context, every_block

        self._times = config.realtime
        self._core, _ = realtime.cores(self._times)
        self.error: BaseException | None = None
        self._stop = threading.Event()
        self._context = context(self._times.wire_priority if self._times.enabled else None, self._core)
        self.guard = SocketGuard(self._context, keys)
        self.ring = _Ring(config, settings.buffer_blocks)
        waiting = every_block(config.daq.rate_hz)
        endpoint = tcp(settings.host, settings.port)
        self.receiver = Receiver(self._context, endpoint, self.ring, guard=self.guard, waiting=waiting)
        self.clock: ClockClient | None = None
        work = [self._receive]
        if settings.clock_mode != "same":
            declared = round(settings.clock_bound_us * 1e3) if settings.clock_mode == "disciplined" else None
            self.clock = ClockClient(self._context, tcp(settings.host, settings.clock_port), declared, self.guard)
            self.receiver.clock = UNKNOWN_CLOCK
            work.append(self._keep_clock)
        self._threads = [threading.Thread(target=self._guard, args=(job,), daemon=True) for job in work]
        for thread in self._threads:
            thread.start()
        self.guard.warden.watch(*self._threads)

    def _guard(self, job: Any) -> None:
        try:
            realtime.exact_sleep()
            if self._times.enabled:
                realtime.this_thread(self._times.wire_priority, self._core)
            job()
        except BaseException as error:  # raised again by the next read
            self.error = error

    def _receive(self) -> None:
        try:
            self.receiver.connect()
            while not self._stop.is_set():
                self.receiver.receive()
        finally:
            self.receiver.close()

    def _keep_clock(self) -> None:
        clock = self.clock
        assert clock is not None
        try:
            clock.connect()
            while not self._stop.wait(clock.pause_s()):
                clock.exchange()
                self.receiver.clock = clock.reading()
        finally:
            clock.close()

    def close(self) -> None:
        self._stop.set()
        for thread in self._threads:
            joined(thread, 2.0)
        self.guard.close()
        self._context.destroy(0)


class RemoteDevice(Device):
    unwrapped = True

    def __init__(self, config: Config, settings: Settings, keys: Keys | None, host: Host):
        self._config, self._settings, self._keys, self._say = config, settings, keys, host.say
        self.endpoint = tcp(settings.host, settings.port)
        self._period = config.period_ns
        self._nap_ns = min(max(self._period // 5, 50_000), 1_000_000)
        self._silent_ns = max(round(settings.silent_ms * 1e6), 3 * self._period)
        self._link: _Link | None = None
        self._listened: _Link | None = None  # the last one, for its counters
        self._once: set[str] = set()
        self._gaps = self._dropped = self._bound_ns = 0

    def start(self) -> None:
        self.stop()
        self._earliest = now_ns()
        self._position = 0
        self._last: tuple[int, int, int] | None = None  # epoch, number and instant of the last block delivered
        self._came_ns, self._silent = self._earliest, False
        self._checked_ns = 0
        self._span = [0, 0]  # blocks without a gap, and how long they took
        self._blocks = np.zeros((0, self._config.daq.layout.words), np.int64)
        self._link = self._listened = _Link(self._config, self._settings, self._keys)
        self._say(f"waiting for blocks from {self.endpoint}")

    @property
    def bound_ns(self) -> int:
        """How far instants may be wrong until this is next computed; without a link, the bound of the last one."""
        clock = self._listened.clock if self._listened else None
        if clock and clock.estimate:
            self._bound_ns = clock.estimate.bound_at(now_ns() + _BOUND_HOLDS_NS)
        return self._bound_ns

    def read(self, scans: np.ndarray, t_ns: np.ndarray, wait_ns: int) -> tuple[int, int]:
        from sync.transport.wire import wait_beyond

        until = now_ns() + wait_ns
        link = self._link
        if link is None:
            sleep_until(until)
            return 0, 0
        if link.error is not None:
            raise link.error
        count, lost = self._take(link, scans, t_ns)
        while count == 0 and wait_beyond(link.ring.words, self._position - 1, until, self._nap_ns, 0):
            count, lost = self._take(link, scans, t_ns)
        now = now_ns()
        if count:
            self._heard(now, lost)
        if now - self._checked_ns > _CHECK_NS:
            self._checked_ns = now
            self._report(link, now)
        return count, lost

    def _take(self, link: _Link, scans: np.ndarray, t_ns: np.ndarray) -> tuple[int, int]:
        from sync.ring.ring import HEAD_WORD, peek, since

        words, layout = link.ring.words, link.ring.layout
        oldest = int(peek(words, HEAD_WORD)) - self._settings.buffer_blocks
        if oldest > self._position:
            self._dropped += oldest - self._position
            self._position = oldest
        if len(self._blocks) != len(scans):
            self._blocks = np.zeros((len(scans), layout.words), np.int64)
        found, after, _ = since(words, self._position, self._blocks)
        first = 0
        if self._last is None and found:
            ours = self._blocks[:found, T] >= self._earliest  # not a block from before the start, sent again
            first = int(np.argmax(ours)) if ours.any() else found
        taken = self._blocks[first:found]
        follows = (taken[1:, EPOCH] == taken[:-1, EPOCH]) & (taken[1:, SEQ] == taken[:-1, SEQ] + 1)
        if not follows.all():  # scans after a gap do not continue these: they begin the next read
            taken = taken[: 1 + int(np.argmin(follows))]
        self._position = after - (found - first - len(taken))
        count = len(taken)
        if count == 0:
            return 0, 0
        lost = self._lost_before(taken[0])
        # no block was sampled after it came, or before its predecessor, whatever the clock's estimate says
        times = np.minimum(taken[:, T], taken[:, RECEIVED])
        if self._last is not None:
            times[0] = max(int(times[0]), self._last[2] + 1)
        number = np.arange(count)
        t_ns[:count] = np.maximum.accumulate(times - number) + number
        for column, name in enumerate(layout.names):
            scans[:count, column] = layout.view(taken)[name]
        if self._last is not None and lost == 0:
            self._span[0] += count
            self._span[1] += int(t_ns[count - 1]) - self._last[2]
        self._last = int(taken[-1, EPOCH]), int(taken[-1, SEQ]), int(t_ns[count - 1])
        return count, lost

    def _lost_before(self, block: np.ndarray) -> int:
        if self._last is None:
            return 0
        epoch, seq, t = self._last
        if block[EPOCH] == epoch:
            lost = int(block[SEQ]) - seq - 1
        else:
            lost = max(round((int(block[T]) - t) / self._period) - 1, 1)
        self._gaps += lost > 0
        return lost

    def _heard(self, now: int, lost: int) -> None:
        self._came_ns = now
        if self._silent:
            self._silent = False
            self._say(f"blocks from {self.endpoint} come again; {lost} lost meanwhile")

    def _report(self, link: _Link, now: int) -> None:
        """Report what a person should know."""
        count = link.receiver.count()
        if self._last is not None and not self._silent and now - self._came_ns > self._silent_ns:
            self._silent = True
            self._say(f"no blocks from {self.endpoint} for {(now - self._came_ns) / 1e6:.0f} ms")
        for text in link.guard.news():
            self._say_once(text)
        if count["foreign"]:
            self._say_once(
                f"blocks of other channels, or of another version, on {self.endpoint}: counted and ignored;"
                " daq.channels must be the other host's (names, types, units, skews, order)"
            )
        if count["malformed"]:
            self._say_once(f"messages that are no blocks on {self.endpoint}: counted and ignored")
        if count["undated"] and self._last is None and now - self._earliest > _CLOCK_PATIENCE_NS:
            self._say_once(
                f"blocks come, but {tcp(self._settings.host, self._settings.clock_port)} gives no time: there,"
                ' transport.clock must be "estimate" or "disciplined", and clock_port the same'
            )
        if self._span[0] >= _RATE_FROM:
            period = self._span[1] / self._span[0]
            self._span = [0, 0]
            if abs(period - self._period) > _RATE_TOLERANCE * self._period:
                self._say_once(
                    f"blocks from {self.endpoint} come at {1e9 / period:.4g} Hz; daq.rate_hz ="
                    f" {self._config.daq.rate_hz:g} here must be the other host's"
                )

    def _say_once(self, text: str) -> None:
        if text not in self._once:
            self._once.add(text)
            self._say(text)

    def counts(self) -> dict[str, int]:
        link = self._listened
        if link is None:
            return {}
        count = link.receiver.count()
        own = {"received": count["blocks"], "gaps": self._gaps, "dropped": self._dropped}
        own |= {key: count[key] for key in ("repeats", "backwards", "foreign", "malformed", "undated")}
        own |= {"cut": link.guard.cut, "flooded": link.guard.warden.flooded, "shut_out": link.guard.shut_out}
        if link.clock is not None:
            estimate = link.clock.estimate
            own |= {"clock_unanswered": link.clock.unanswered, "clock_stepped": link.clock.stepped}
            own["clock_bound_us"] = estimate.bound_ns // 1000 if estimate else -1
        return own

    def stop(self) -> None:
        if self._link is not None:
            link, self._link = self._link, None
            link.close()


def open_device(config: Config, settings: Settings, file: Path, host: Host) -> RemoteDevice:
    keys = read_keys(file.parent / settings.keys, settings.own_key, settings.their_key) if settings.keys else None
    return RemoteDevice(config, settings, keys, host)
