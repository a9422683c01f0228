"""What a running simulation does, published as topics of ROS 2: one node, for as long as the bridge runs.

    /joint_states   sensor_msgs/msg/JointState         levers and wheels, some thirty times a second
    /tf             tf2_msgs/msg/TFMessage             solids, wheels and levers in the world, as often
    /diagnostics    diagnostic_msgs/msg/DiagnosticArray  once a second
    /step, /effort, …  our own types, made of the channels: every block, as it is in the record

A topic that nobody subscribes to costs nothing. Zenoh never makes the bridge wait: what a slow subscriber does not
take is dropped there. The bridge only reads rings; commands come in as a device (daq_service/devices/ros2.py).
"""

import contextlib
import re
import threading
import time
from typing import Any

import numpy as np

from sync.config.config import Config
from sync.record import ros2_types, ros2msg
from sync.record.ros2msg import to_messages, type_name
from sync.record.writer import came_ns
from sync.ring.follower import RingFollower
from sync.ring.streams import RECORDED, SIM
from sync.transport import ros2
from tandem.bridges.ros2.messages import DIAGNOSTICS, JOINTS, STALE, Status, diagnostics, joint_state, joints, of_steps
from tandem.records.descriptions import describe
from tandem.records.foxglove.messages import TRANSFORMS
from tandem.records.foxglove.scene import TF, SceneMessages
from tandem.records.provenance import parameters_json, utc_offset_ns
from tandem.view.data_source import LiveData

_RATE_HZ = 30.0
_DIAGNOSE_S = 1.0
_MOST = 4096  # blocks taken at one look


class Published:
    """A topic that this node publishes."""

    def __init__(self, node: "Node", topic: ros2.Topic, number: int):
        self.topic, self.sent = topic, 0
        token = node.token(number, "MP", topic)
        self._gid = ros2.gid_of(token)
        zenoh = ros2.load_zenoh()
        self._publisher = node.session.declare_publisher(
            topic.key(node.domain), congestion_control=zenoh.CongestionControl.DROP
        )
        self._token = node.session.liveliness().declare_token(token)
        self._checked_s, self._watched = -1.0, False

    @property
    def watched(self) -> bool:
        """Whether somebody has subscribed; looked up ten times a second at most."""
        now = time.monotonic()
        if now - self._checked_s > 0.1:
            self._checked_s, self._watched = now, bool(self._publisher.matching_status.matching)
        return self._watched

    def send(self, data: bytes, at_ns: int) -> None:
        """`at_ns`: UTC."""
        self.sent += 1
        self._publisher.put(data, attachment=ros2.attachment(self.sent, at_ns, self._gid))


class Node:
    """A node of ROS 2 in a session of its own."""

    def __init__(self, session: Any, domain: int, name: str, namespace: str = "/"):
        self.session, self.domain, self._name, self._namespace = session, domain, name, namespace
        self._id = str(session.zid())
        self._numbers = 0
        self._token = session.liveliness().declare_token(self.token(0, "NN", None))

    def token(self, number: int, kind: str, topic: ros2.Topic | None) -> str:
        return ros2.token(self.domain, self._id, number, kind, self._name, self._namespace, topic)

    def publish(self, name: str, kind: str, hash_: str) -> Published:
        self._numbers += 1
        whole = name if self._namespace == "/" else f"{self._namespace}{name}"
        return Published(self, ros2.Topic(whole, kind, hash_), self._numbers)

    def close(self) -> None:
        with contextlib.suppress(Exception):  # the router may have gone before
            self.session.close()


class Bridge:
    """`run` publishes until it is stopped."""

    def __init__(self, config: Config, feed: LiveData, session: Any, domain: int = 0, namespace: str = "/"):
        self.node = Node(session, domain, node_name(config.name), namespace)
        self._config, self._feed = config, feed
        self._scene = SceneMessages(feed.model, feed.params, {})
        self._joints = joints(feed.model.shown.scene) if feed.model.shown.scene is not None else []
        self._describe = describe(parameters_json(feed.model, feed.params))
        self._offset = utc_offset_ns()
        self._types: set[str] = set()
        self._followers = {
            stream: RingFollower(config.ring(stream.name), living=True, from_now=True, retry_ns=100_000_000)
            for stream in RECORDED
        }
        self._published = {
            name: self.node.publish(name, kind, ros2_types.type_hash(kind))
            for name, kind in ((TF, TRANSFORMS), ("/joint_states", JOINTS), ("/diagnostics", DIAGNOSTICS))
        }
        self._status = self._steps = 0
        self._diagnosed = time.monotonic()

    @property
    def sent(self) -> dict[str, int]:
        return {name: each.sent for name, each in self._published.items() if each.sent}

    @property
    def lost(self) -> int:
        """Blocks that were overwritten before the bridge had its turn."""
        return sum(follower.lost for follower in self._followers.values())

    def poll(self) -> None:
        """Everything that is new since the last look."""
        for stream, follower in self._followers.items():
            found = follower.blocks(_MOST)
            if found is None or follower.ring is None:
                continue
            if stream is SIM:
                self._status |= int(np.bitwise_or.reduce(found["status"]))
                self._steps += len(found)
            self._blocks(stream.topic, follower.ring.layout, found)
        self._pose()
        if time.monotonic() > self._diagnosed + _DIAGNOSE_S:
            self._diagnose()

    def _blocks(self, topic: str, layout: Any, found: np.ndarray) -> None:
        if topic not in self._published:
            kind = type_name(topic, self._types)
            self._types.add(kind)
            text = ros2msg.to_definition(topic, layout, self._describe(topic, layout)).decode()
            hash_ = ros2_types.type_hash(kind, {ros2_types.short(kind): text.splitlines()})
            self._published[topic] = self.node.publish(topic, kind, hash_)
        published = self._published[topic]
        if not published.watched:
            return
        words = found.view(np.int64).reshape(len(found), -1)
        for data, at in zip(to_messages(layout, words), (came_ns(words) + self._offset).tolist(), strict=True):
            published.send(data, at)

    def _pose(self) -> None:
        moving, turning = self._published[TF], self._published["/joint_states"]
        if not moving.watched and not turning.watched:
            return
        frame = self._feed.poll()
        if frame is None:
            return
        at_ns = int(frame.step["pushed_ns"]) + self._offset
        if turning.watched and self._joints:
            turning.send(joint_state(at_ns, self._joints, frame.step), at_ns)
        if moving.watched and (moved := self._scene.moved(frame, at_ns)) is not None:
            moving.send(moved, at_ns)

    def _diagnose(self) -> None:
        now = time.monotonic()
        passed, self._diagnosed = now - self._diagnosed, now
        published = self._published["/diagnostics"]
        status, self._status = self._status, 0
        steps, self._steps = self._steps, 0
        if not published.watched:
            return
        name = f"tandem: {self._config.name}"
        values = [("steps per second", f"{steps / passed:.1f}"), ("blocks not seen by the bridge", str(self.lost))]
        found = of_steps(name, status, values) if steps else Status(STALE, name, "no steps", values)
        at_ns = time.monotonic_ns() + self._offset
        published.send(diagnostics(at_ns, [found]), at_ns)

    def run(self, stop: threading.Event) -> None:
        due = time.monotonic()
        while not stop.is_set():
            self.poll()
            due = max(due + 1.0 / _RATE_HZ, time.monotonic())
            stop.wait(due - time.monotonic())

    def close(self) -> None:
        self.node.close()
        for follower in self._followers.values():
            follower.close()
        self._feed.close()


def node_name(name: str) -> str:
    """Of a run: letters, digits and underscores."""
    return "tandem_" + re.sub(r"[^A-Za-z0-9_]+", "_", name)
