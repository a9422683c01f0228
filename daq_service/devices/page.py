"""The page source: rows of `[inputs]` that are moved by hand from a page, or by any program of this user.

It is a device that is always there: from its start on it has a scan every period, at first with everything at rest.
A page that moves it sends, some twenty times a second, a msgpack map of all rows that are moved
(sync/config/hand_controls.py)

    {row: value in the row's unit, ...}

to a local socket (`config.socket("hand")`, PUSH). A value follows what was sent no faster than its `rate_per_s`, so
that a slider that jumps makes a motion a machine can follow. When no message has come for `let_go_ms`, the hand has let
go: controls with a spring return to rest, other values stay; the next message takes over again.

Blocks hold counts, by the inverse of the rows; a channel that no control moves stays at the counts for 0. A malformed
message is counted and changes nothing.
"""

import math
from collections.abc import Collection
from pathlib import Path

import msgpack
import numpy as np
import zmq
from pydantic import Field

from daq_service.devices.contract import Device, DeviceSettings, Host
from daq_service.sample_hold import SampleHold
from sync.clock import RealClock
from sync.config.config import Config
from sync.config.hand_controls import Controls, HandControl, hand_controls
from sync.config.input_rows import of_channel
from sync.process import realtime
from sync.transport.message import MALFORMED, STRICT
from sync.transport.wire import bind, context

MOST_BYTES = 1024
_REFUSE_BYTES = 64 * 1024  # libzmq itself cuts the connection of a peer that sends more
_AT_ONCE = 16  # messages taken before a scan; the others wait
_LEAD_NS = 2_000_000  # values are computed this far ahead, at most a period, for scans that fall due meanwhile
_NEVER = 2**62


class Settings(DeviceSettings):
    moves_hand = False

    kind: str
    controls: Controls = {}  # by rows of [inputs]: how each is moved
    let_go_ms: float = Field(1000.0, ge=100, le=60_000)  # a page not heard for so long has let go
    buffer_blocks: int = Field(50_000, ge=1)  # that it holds; older ones are lost, and counted


def decoded(data: bytes, rows: Collection[str]) -> dict[str, float]:
    """The value of each of these rows in a message; raises one of MALFORMED if it is malformed."""
    if len(data) > MOST_BYTES:
        raise ValueError("oversized")
    message = msgpack.unpackb(data, **STRICT)
    if not isinstance(message, dict) or set(message) != set(rows):
        raise TypeError("not a map of these rows")
    for value in message.values():
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise TypeError("not a number")
    return {row: float(value) for row, value in message.items()}


class _Moving:
    """One control in motion."""

    def __init__(self, control: HandControl):
        self.control = control
        self.value = self.wanted = control.at_rest

    def advance(self, for_ns: int) -> None:
        rate = self.control.settings.rate_per_s
        if rate is None:
            self.value = self.wanted
            return
        most = rate * for_ns * 1e-9
        self.value += min(max(self.wanted - self.value, -most), most)

    def let_go(self) -> None:
        self.wanted = self.control.at_rest if self.control.settings.springs_back else self.value


class Page(Device):
    unwrapped = True  # there is no register that wraps

    def __init__(self, config: Config, settings: Settings, controls: dict[str, HandControl], host: Host):
        self._config, self._settings, self._say = config, settings, host.say
        self._controls, self._period = controls, config.period_ns
        self._clock = host.clock or RealClock()
        self._held = SampleHold(config, settings.buffer_blocks, self._clock)
        self._still = [self._counts_of_zero(channel) for channel in self._held.names]
        self._zmq: zmq.Context[zmq.Socket[bytes]] | None = None
        self._socket: zmq.Socket[bytes] | None = None
        self._messages = self._malformed = self._times_let_go = 0
        self._rest()

    def _counts_of_zero(self, channel: str) -> int:
        found = of_channel(self._config.inputs, channel)
        return round(found[1].counts(0.0)) if found is not None else 0

    def _rest(self) -> None:
        self._next_ns = _NEVER
        self._heard_ns = -_NEVER
        self._in_use = False  # whether a page still sends
        self._moving = {row: _Moving(control) for row, control in self._controls.items()}
        by_channel = {moving.control.channel: moving for moving in self._moving.values()}
        self._columns = [by_channel.get(channel) for channel in self._held.names]

    @property
    def endpoint(self) -> str:
        return f"ipc://{self._config.socket('hand')}"

    def start(self) -> None:
        self.stop()
        self._held.start()
        begun = self._clock.now_ns()
        times = self._config.realtime
        core, _ = realtime.cores(times)
        self._zmq = context(times.wire_priority if times.enabled else None, core)
        self._socket = self._zmq.socket(zmq.PULL)
        self._socket.set(zmq.LINGER, 0)
        self._socket.set(zmq.RCVHWM, 64)
        self._socket.set(zmq.MAXMSGSIZE, _REFUSE_BYTES)
        bind(self._socket, self.endpoint)
        self._next_ns = begun + self._period
        self._note()

    def read(self, scans: np.ndarray, t_ns: np.ndarray, wait_ns: int) -> tuple[int, int]:
        until = self._clock.now_ns() + wait_ns
        if self._socket is None:
            self._clock.sleep_until(until)
            return 0, 0
        while True:
            self._move(self._clock.now_ns())
            self._held.wait(max(until - self._clock.now_ns(), 0))
            now = self._clock.now_ns()
            self._listen(now)
            self._move(now)
            count, lost = self._held.take(scans, t_ns, now)
            if count or now >= until:
                return count, lost

    def _listen(self, now: int) -> None:
        assert self._socket is not None
        for _ in range(_AT_ONCE):
            try:
                data = self._socket.recv(zmq.NOBLOCK)
            except zmq.Again:
                break
            self._messages += 1
            try:
                values = decoded(data, self._moving)
            except MALFORMED:
                self._malformed += 1
                continue
            for row, value in values.items():
                self._moving[row].wanted = self._controls[row].clipped(value)
            self._heard_ns = now
            if not self._in_use:
                self._in_use = True
                self._say("somebody has the controls, from a page")

    def _move(self, now: int) -> None:
        """Compute every value for every instant that is due by now or within the lead."""
        silent = now - self._heard_ns > self._settings.let_go_ms * 1e6
        if self._in_use and silent:
            self._in_use = False
            self._times_let_go += 1
            for moving in self._moving.values():
                moving.let_go()
            self._say(f"nobody has the controls: {', '.join(_at_rest(*item) for item in self._controls.items())}")
        behind = (now - self._next_ns) // self._period - self._settings.buffer_blocks
        if behind > 0:  # those scans are lost
            self._advance(behind * self._period)
            self._next_ns += behind * self._period
        while self._next_ns <= now + min(_LEAD_NS, self._period):
            self._advance(self._period)
            self._note()

    def _note(self) -> None:
        for channel, moving in enumerate(self._columns):
            counts = self._still[channel] if moving is None else moving.control.counts(moving.value)
            self._held.note(channel, self._next_ns, counts)
        self._next_ns += self._period

    def _advance(self, for_ns: int) -> None:
        for moving in self._moving.values():
            moving.advance(for_ns)

    def stop(self) -> None:
        self._held.stop()
        self._rest()
        if self._socket is not None and self._zmq is not None:
            self._socket.close()
            self._zmq.destroy(0)
            self._socket = self._zmq = None
            self._config.socket("hand").unlink(missing_ok=True)

    def counts(self) -> dict[str, int]:
        return {"messages": self._messages, "malformed": self._malformed, "let_go": self._times_let_go}


def _at_rest(row: str, control: HandControl) -> str:
    unit = "" if control.row.unit == "1" else f" {control.row.unit}"
    return f"{row} to {control.at_rest:g}{unit}" if control.settings.springs_back else f"{row} stays"


def open_device(config: Config, settings: Settings, file: Path, host: Host) -> Page:
    return Page(config, settings, hand_controls(config, file), host)
