"""The ros2 source: rows of `[inputs]` that are moved by topics of ROS 2, over Zenoh (sync/transport/ros2.py).

    [source]
    kind = "ros2"
    connect = "tcp/127.0.0.1:7447"
    [source.topics]
    steering = { topic = "/cmd_vel", type = "geometry_msgs/msg/Twist", field = "angular.z" }

A message is a reading of the rows that it moves, at the instant at which it came; blocks hold counts, by the inverse of
a row, clipped to its limits. A scan is due every period and holds the last reading of every channel, with its age if
the configuration has a channel for that. A channel whose topic is silent for `silent_ms` is reported; without a channel
for its age there are no scans until it is back, and then a new epoch begins. If a topic has several publishers, the
last message counts. Malformed messages are counted and change nothing.
"""

import math
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from daq_service.devices.contract import Device, DeviceSettings, Host
from daq_service.sample_hold import SampleHold
from sync.clock import REAL
from sync.config.config import Config
from sync.config.hand_controls import Control, Controls, HandControl, hand_controls
from sync.config.input_rows import NAME
from sync.config.toml import Section
from sync.errors import ConfigError, DeviceError, TandemError
from sync.process.threads import joined
from sync.record.ros2_types import TYPES, Picker, short, type_hash
from sync.ring.block import AGE
from sync.transport import ros2

_MOST_WAITING = 256  # messages that came and were not taken
_RETRY_S = 1.0  # between attempts to reach the router; an open session reconnects by itself


class Moved(Section):
    """Where a row's value comes from."""

    topic: str  # such as /cmd_vel
    type: str  # of its messages, such as geometry_msgs/msg/Twist
    field: str  # the number in it, such as twist.linear.x or axes[1]
    factor: float = 1.0  # of the message's number to the row's unit
    offset: float = 0.0  # added to that


Rows = dict[Annotated[str, Field(pattern=NAME)], Moved]


class Settings(DeviceSettings):
    survives_fork = False  # Zenoh has threads
    moves_hand = False

    kind: str
    connect: str = ros2.ROUTER  # the Zenoh router: tcp/ on this machine, tls/HOST:PORT beyond it
    domain: int = Field(0, ge=0, le=232)  # of ROS 2 (ROS_DOMAIN_ID)
    tls: str = ""  # folder with ca.pem, cert.pem, key.pem
    topics: Rows  # of [inputs]: which topic moves each
    controls: Controls = {}  # limits of rows that have none
    silent_ms: float = Field(500.0, ge=10, le=60_000)  # a topic without a message for so long is reported
    buffer_blocks: int = Field(50_000, ge=1)  # that it holds; older ones are lost, and counted

    def require(self) -> None:
        try:
            ros2.load_zenoh()
        except ros2.Ros2Error as error:
            raise DeviceError(str(error)) from None


@dataclass(frozen=True)
class _Row:
    column: int
    control: HandControl
    pick: Picker
    moved: Moved


class Ros2Device(Device):
    unwrapped = True  # there is no register that wraps

    def __init__(
        self, config: Config, settings: Settings, rows: dict[ros2.Topic, list[_Row]], tls: Path | None, host: Host
    ):
        self._settings, self._rows, self._tls, self._say = settings, rows, tls, host.say
        self._held = SampleHold(config, settings.buffer_blocks)
        self._silent_ns = max(round(settings.silent_ms * 1e6), 3 * config.period_ns)
        self._silent = [False] * len(self._held.names)
        self._lock = threading.Lock()
        self._came: list[tuple[ros2.Topic, int, bytes]] = []
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._counts = dict.fromkeys(("messages", "malformed", "clipped", "dropped", "silent"), 0)

    def start(self) -> None:
        self.stop()
        self._held.start()
        self._silent = [False] * len(self._held.names)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._listen, args=(self._stop,), name="ros2", daemon=True)
        self._thread.start()

    def _listen(self, stop: threading.Event) -> None:
        """Run a session, as soon as there is a router, until it is stopped."""
        reported = False
        while not stop.is_set():
            try:
                session = ros2.open_session(ros2.settings([self._settings.connect], self._tls))
            except TandemError as error:
                if not reported:
                    self._say(f"{error}; looked for again")
                reported = True
                stop.wait(_RETRY_S)
                continue
            try:
                things = self._subscribe(session)
                self._say(f"{self._settings.connect}: listens to {', '.join(topic.name for topic in self._rows)}")
                stop.wait()
                del things
            finally:
                session.close()

    def _subscribe(self, session: Any) -> list[Any]:
        domain, number = self._settings.domain, str(session.zid())
        alive = session.liveliness()
        declared = [alive.declare_token(ros2.token(domain, number, 0, "NN", "tandem_daq", "/", None))]
        for place, topic in enumerate(self._rows, 1):
            declared.append(alive.declare_token(ros2.token(domain, number, place, "MS", "tandem_daq", "/", topic)))
            declared.append(session.declare_subscriber(topic.key(domain), self._receiver(topic)))
        return declared

    def _receiver(self, topic: ros2.Topic) -> Any:
        def receive(sample: Any) -> None:
            now = REAL.now_ns()
            # a message that is too long is not copied, only noted
            data = bytes(sample.payload) if len(sample.payload) <= ros2.MOST_BYTES else b""
            with self._lock:
                if len(self._came) < _MOST_WAITING:
                    self._came.append((topic, now, data))
                else:
                    self._counts["dropped"] += 1

        return receive

    def read(self, scans: np.ndarray, t_ns: np.ndarray, wait_ns: int) -> tuple[int, int]:
        end = REAL.now_ns() + wait_ns
        while True:
            self._held.wait(max(end - REAL.now_ns(), 0))
            self._take()
            self._watch()
            count, lost = self._held.take(scans, t_ns)
            if count or REAL.now_ns() >= end:
                return count, lost

    def _take(self) -> None:
        with self._lock:
            came, self._came = self._came, []
        for topic, at, data in came:
            self._counts["messages"] += 1
            for row in self._rows[topic]:
                try:
                    value = row.moved.factor * row.pick(data) + row.moved.offset
                    if not math.isfinite(value):
                        raise ValueError("not finite")
                except ValueError:
                    self._counts["malformed"] += 1
                    continue
                clipped = row.control.clipped(value)
                self._counts["clipped"] += clipped != value
                self._held.note(row.column, at, row.control.counts(clipped))

    def _watch(self) -> None:
        """Report which topics are silent, and which are back."""
        now, held = REAL.now_ns(), self._held
        for channel, name in enumerate(held.names):
            old = held.age_ns(channel, now) > self._silent_ns
            if self._silent[channel] != old and (not self._silent[channel] or held.seen(channel)):
                self._silent[channel] = old
                self._counts["silent"] += old
                ms = self._silent_ns / 1e6
                self._say(f"{name}: no message for {ms:g} ms" if old else f"{name}: there again")
                if old and not held.aged[channel]:
                    held.lose(channel)

    def stop(self) -> None:
        self._held.stop()
        self._stop.set()
        if self._thread is not None:
            joined(self._thread, 5.0)
            self._thread = None
        with self._lock:
            self._came = []

    def counts(self) -> dict[str, int]:
        return dict(self._counts)


def open_device(config: Config, settings: Settings, file: Path, host: Host) -> Ros2Device:
    tls = file.parent / settings.tls if settings.tls else None
    ros2.check_endpoint(settings.connect, f"{file}: source.connect", tls)
    limited = config.model_copy(update={"source": {"controls": _controls(settings)}})
    controls = hand_controls(limited, file)
    names = [c.name for c in config.daq.channels if not c.name.endswith(AGE)]
    rows: dict[ros2.Topic, list[_Row]] = {}
    for name, moved in settings.topics.items():
        where = f"{file}: source.topics.{name}"
        if short(moved.type) not in TYPES or "/msg/" not in moved.type:
            known = ", ".join(kind.replace("/", "/msg/") for kind in TYPES)
            raise ConfigError(f"{where}.type = {moved.type!r}: must be one of {known}")
        try:
            pick = Picker(moved.type, moved.field)
        except ValueError as error:
            raise ConfigError(f"{where}.field = {moved.field!r}: {error}") from None
        topic = ros2.Topic(ros2.check_name(moved.topic, f"{where}.topic"), moved.type, type_hash(moved.type))
        row = _Row(names.index(controls[name].channel), controls[name], pick, moved)
        rows.setdefault(topic, []).append(row)
    moved_channels = {controls[name].channel for name in settings.topics}
    if missing := [name for name in names if name not in moved_channels]:
        raise ConfigError(f"{file}: source.topics: no topic moves {', '.join(missing)}, which daq.channels has")
    return Ros2Device(config, settings, rows, tls, host)


def _controls(settings: Settings) -> dict[str, Any]:
    chosen = {name: settings.controls.get(name, Control()) for name in settings.topics}
    return {name: control.model_dump(exclude_unset=True) for name, control in chosen.items()}
