"""The page source: a hand wheel and pedals that are moved from a page, or by any program of this user.

It is a device that is always there: from its start on it has a scan every period, at first of a wheel that is straight
and feet that rest. Whoever drives sends, some twenty times a second, a msgpack map of all three

    {"steering_deg": angle of the hand wheel, "throttle": 0 to 1, "brake_bar": pressure}

to a local socket (`config.socket("hand")`, PUSH). The wheel turns towards its angle no faster than a hand does, so a
slider that jumps makes a motion a car can follow. When nothing was heard for `let_go_ms`, whoever drove is gone: the
throttle is released, the brake pressed lightly, the wheel kept; the next message takes over again.

What travels are counts, by the inverse of the configuration's own [inputs]. A message that is no such map is
counted and changes nothing.
"""

import math
from pathlib import Path

import msgpack
import numpy as np
import zmq
from pydantic import Field

from daq_service.sample_hold import SampleHold
from daq_service.sources import Host
from sync import realtime
from sync.clock import RealClock
from sync.config import Config
from sync.errors import ConfigError
from sync.input_rows import Affine, Encoder, Row, of_channel
from sync.message import MALFORMED, STRICT
from sync.toml import Section
from sync.wire import bind, context

KEYS = ("steering_deg", "throttle", "brake_bar")
MOST_BYTES = 256
_REFUSE_BYTES = 64 * 1024  # libzmq itself cuts the connection of whoever sends more
_AT_ONCE = 16  # messages taken before a scan; the others wait
_LEAD_NS = 2_000_000  # wheel and feet are moved this far ahead, at most a period: a scan due meanwhile has them
_NEVER = 2**62


class Settings(Section):
    kind: str
    wheel_deg_per_s: float = Field(400.0, gt=0, le=2000)
    steering_limit_deg: float = Field(520.0, gt=0, le=3600)  # either side: the stops of the rack
    let_go_ms: float = Field(1000.0, ge=100, le=60_000)
    let_go_brake_bar: float = Field(10.0, ge=0)  # holds a car with an automatic gearbox where it stands
    buffer_blocks: int = Field(50_000, ge=1)


def understood(data: bytes) -> tuple[float, float, float]:
    """(steering_deg, throttle, brake_bar) of a message; raises one of MALFORMED if it is none."""
    if len(data) > MOST_BYTES:
        raise ValueError("oversized")
    message = msgpack.unpackb(data, **STRICT)
    if not isinstance(message, dict) or set(message) != set(KEYS):
        raise TypeError("not a map of these keys")
    values = [message[key] for key in KEYS]
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise TypeError("not a number")
    return float(values[0]), float(values[1]), float(values[2])


def counts(rows: dict[str, Row], steering_deg: float, throttle: float, brake_bar: float) -> dict[str, int]:
    """What the sensors of such a car would read: the inverse of its rows."""
    values = {"steering": steering_deg, "throttle": throttle, "brake": brake_bar}
    found = {channel: of_channel(rows, channel) for channel in values}
    return {channel: round(row[1].counts(values[channel])) for channel, row in found.items() if row is not None}


class Page:
    unwrapped = True  # there is no register that wraps

    def __init__(self, config: Config, settings: Settings, host: Host):
        self._config, self._settings, self._say = config, settings, host.say
        self._rows, self._period = config.inputs, config.period_ns
        brake = of_channel(config.inputs, "brake")
        self._most_bar = brake[1].full if brake and isinstance(brake[1], Affine) else 0.0
        self._clock = host.clock or RealClock()
        self._held = SampleHold(config, settings.buffer_blocks, self._clock)
        self._zmq: zmq.Context[zmq.Socket[bytes]] | None = None
        self._socket: zmq.Socket[bytes] | None = None
        self._messages = self._malformed = self._times_let_go = 0
        self._rest()

    def _rest(self) -> None:
        self._next_ns = _NEVER
        self._heard_ns = -_NEVER
        self._driven = False  # by somebody who is still heard
        self._wanted = self._wheel = 0.0  # deg
        self._throttle, self._brake = 0.0, self._settings.let_go_brake_bar

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
            count, lost = self._held.take(scans, t_ns)
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
                steering_deg, throttle, brake_bar = understood(data)
            except MALFORMED:
                self._malformed += 1
                continue
            limit = self._settings.steering_limit_deg
            self._wanted = min(max(steering_deg, -limit), limit)
            self._throttle = min(max(throttle, 0.0), 1.0)
            self._brake = min(max(brake_bar, 0.0), self._most_bar)
            self._heard_ns = now
            if not self._driven:
                self._driven = True
                self._say("somebody drives from a page")

    def _move(self, now: int) -> None:
        """Wheel and feet at every instant that is due by now, or in a moment."""
        silent = now - self._heard_ns > self._settings.let_go_ms * 1e6
        if self._driven and silent:
            self._driven = False
            self._times_let_go += 1
            self._wanted, self._throttle, self._brake = self._wheel, 0.0, self._settings.let_go_brake_bar
            self._say("nobody drives: the throttle is released, the brake pressed lightly")
        behind = (now - self._next_ns) // self._period - self._settings.buffer_blocks
        if behind > 0:  # nobody will have those scans
            self._turn(behind * self._period)
            self._next_ns += behind * self._period
        while self._next_ns <= now + min(_LEAD_NS, self._period):
            self._turn(self._period)
            self._note()

    def _note(self) -> None:
        read = counts(self._rows, self._wheel, self._throttle, self._brake)
        for channel, name in enumerate(self._held.names):
            self._held.note(channel, self._next_ns, read.get(name, 0))
        self._next_ns += self._period

    def _turn(self, for_ns: int) -> None:
        most = self._settings.wheel_deg_per_s * for_ns * 1e-9
        self._wheel += min(max(self._wanted - self._wheel, -most), most)

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


def open_source(config: Config, settings: Settings, file: Path, host: Host) -> Page:
    for channel, kind, unit in (("steering", Encoder, "deg"), ("throttle", Affine, "1"), ("brake", Affine, "bar")):
        found = of_channel(config.inputs, channel)
        if found is None or not isinstance(found[1], kind) or found[1].unit != unit:
            raise ConfigError(
                f"{file}: inputs: the page source needs a row of kind {kind.__name__.lower()} with unit = {unit!r} for"
                f" the channel {channel}"
            )
    return Page(config, settings, host)
