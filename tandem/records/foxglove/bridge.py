"""The live bridge: what a running simulation does, to Foxglove, over its WebSocket protocol.

It sends every recorded stream of the run that is on this host, block by block, under the schema a record has, and
transforms and markers some thirty times a second; only to subscribers. It only reads rings: a run does not notice it.
It listens on this machine alone: the protocol knows no password, and every client may read, up to a number of clients
(clients.py).
"""

import contextlib
import logging
import threading
import time
from typing import Any

import numpy as np

from sync.config.config import Config
from sync.config.extras import install_extra
from sync.errors import TandemError
from sync.record import ros2msg
from sync.record.ros2msg import to_messages, type_name
from sync.record.writer import came_ns
from sync.ring.follower import RingFollower
from sync.ring.streams import RECORDED
from tandem.records.descriptions import describe
from tandem.records.foxglove.clients import Clients
from tandem.records.foxglove.messages import definition
from tandem.records.foxglove.scene import TOPICS, SceneMessages
from tandem.records.provenance import parameters_json, utc_offset_ns
from tandem.view.data_source import LiveData

HOST, PORT = "127.0.0.1", 8765
_RATE_HZ = 30.0
_MOST = 8192  # blocks taken at one look
_BACKLOG = 8192  # messages that wait for a slow client before the oldest is dropped
_SCENE_AGAIN_S = 1.0  # the scene is large: not again for every subscription


class BridgeError(TandemError):
    """The bridge cannot be opened."""


def load_sdk() -> Any:
    try:
        import foxglove
    except ImportError:
        raise BridgeError(f"the bridge needs foxglove-sdk: {install_extra('foxglove')}") from None
    # a client with another protocol would write a line on our terminal; errors that matter are raised
    logging.getLogger("foxglove").setLevel(logging.CRITICAL)
    return foxglove


class _Listener:
    """Notes that a client has subscribed: what is sent only once is then sent again."""

    def __init__(self) -> None:
        self.subscribed = threading.Event()

    def on_subscribe(self, client: Any, channel: Any) -> None:
        self.subscribed.set()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("on_"):  # of what may happen, this alone matters here
            return lambda *_, **__: None
        raise AttributeError(name)


class Bridge:
    """One server; `run` serves until it is stopped."""

    def __init__(self, config: Config, feed: LiveData, port: int = PORT):
        self._sdk = load_sdk()
        self._context = self._sdk.Context()
        self._listener = _Listener()
        try:
            self._server = self._sdk.start_server(
                name=f"tandem: {config.name}", host=HOST, port=port, context=self._context, capabilities=[],
                server_listener=self._listener, message_backlog_size=_BACKLOG,
            )  # fmt: skip
        except (RuntimeError, OSError, ValueError) as error:
            raise BridgeError(f"--port {port}: no server can listen at {HOST}:{port}: {error}") from None
        self.port = int(self._server.port)
        self.clients = Clients(self.port)
        self.sent: dict[str, int] = {}
        self._scene_due = 0.0
        self._feed, self._scene = feed, SceneMessages(feed.model, feed.params, feed.files)
        self._describe = describe(parameters_json(feed.model, feed.params))
        self._offset = utc_offset_ns()
        self._channels: dict[str, Any] = {}
        self._types: set[str] = set()
        self._followers = {
            stream: RingFollower(config.ring(stream.name), living=True, from_now=True, retry_ns=100_000_000)
            for stream in RECORDED
        }
        for topic, kind in TOPICS.items():
            self._announce(topic, kind, definition(kind))

    def _announce(self, topic: str, kind: str, text: bytes) -> None:
        schema = self._sdk.Schema(name=kind, encoding=ros2msg.ENCODING, data=text)
        self._channels[topic] = self._sdk.Channel(
            topic, schema=schema, message_encoding=ros2msg.MESSAGES, context=self._context
        )

    def _send(self, topic: str, data: bytes, at_ns: int) -> None:
        self._channels[topic].log(data, log_time=at_ns)
        self.sent[topic] = self.sent.get(topic, 0) + 1

    def watched(self, *topics: str) -> bool:
        """Whether somebody has subscribed to all of them."""
        return all(topic in self._channels and self._channels[topic].has_sinks() for topic in topics)

    def poll(self) -> None:
        """Everything that is new since the last look."""
        for stream, follower in self._followers.items():
            found = follower.blocks(_MOST)
            if found is not None and follower.ring is not None:
                self._blocks(stream.topic, follower.ring.layout, found)
        self.clients.poll()
        if self._listener.subscribed.is_set() and time.monotonic() > self._scene_due:
            self._scene_due = time.monotonic() + _SCENE_AGAIN_S
            self._listener.subscribed.clear()
            self._scene.again()
        if any(self.watched(topic) for topic in TOPICS):
            frame = self._feed.poll()
            if frame is not None:
                at_ns = int(frame.step["pushed_ns"]) + self._offset
                for topic, data in self._scene.at(frame, at_ns):
                    self._send(topic, data, at_ns)

    def _blocks(self, topic: str, layout: Any, found: np.ndarray) -> None:
        if topic not in self._channels:
            kind = type_name(topic, self._types)
            self._types.add(kind)
            self._announce(topic, kind, ros2msg.to_definition(topic, layout, self._describe(topic, layout)))
        if not self.watched(topic):
            return
        words = found.view(np.int64).reshape(len(found), -1)
        for data, at in zip(to_messages(layout, words), (came_ns(words) + self._offset).tolist(), strict=True):
            self._send(topic, data, at)

    def run(self, stop: threading.Event) -> None:
        due = time.monotonic()
        while not stop.is_set():
            self.poll()
            due = max(due + 1.0 / _RATE_HZ, time.monotonic())
            stop.wait(due - time.monotonic())

    def close(self) -> None:
        for follower in self._followers.values():
            follower.close()
        self._feed.close()
        self.clients.close()
        with contextlib.suppress(RuntimeError):
            self._server.stop()
