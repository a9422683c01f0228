"""A simulation in ROS 2: what a subscriber gets through a Zenoh router, and what a publisher moves."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("zenoh", reason="the extra ros2 is not installed")

from rosbags.typesys import Stores, get_typestore

from daq_service.devices import open_device
from daq_service.devices.contract import Host
from sync.clock import now_ns
from sync.config.config import Config, load
from sync.errors import ConfigError
from sync.record import ros2msg
from sync.ring.block import Channel, Layout
from sync.ring.ring import RingWriter, push
from sync.transport import ros2
from tandem.bridges.ros2.bridge import Bridge
from tandem.view.data_source import LiveData
from tests.daq_service.conftest import DRIVE, drive_config
from tests.daq_service.ros2_topics import TOPIC, open_router, source_of, twist
from tests.ports import free_port
from tests.tandem.runs import CONFIGS, DAQ, MACHINE, PARAMS, STEP, daq_words, step_words

STORE = get_typestore(Stores.ROS2_HUMBLE)
MS = 1_000_000


@pytest.fixture
def router() -> Iterator[str]:
    session, endpoint = open_router()
    yield endpoint
    session.close()


def opened(endpoint: str) -> Any:
    return ros2.open_session(ros2.settings([endpoint], None))


def publisher_of(session: Any) -> Any:
    """One that waits where the way is congested: otherwise a message that a test counts may be dropped."""
    import zenoh

    return session.declare_publisher(TOPIC.key(0), congestion_control=zenoh.CongestionControl.BLOCK)


def until(condition: Callable[[], Any], look: Callable[[], Any] = lambda: None) -> None:
    for _ in range(3000):
        if condition():
            return
        look()
        time.sleep(0.01)
    raise AssertionError("it did not come")


@pytest.fixture
def live() -> Iterator[tuple[Config, dict[str, RingWriter]]]:
    settings = ["sim.machine=vehicles/buggy_single_track.toml", f"name=test_ros2_{os.getpid()}"]
    config = load(CONFIGS / "drive.toml", settings)
    states = Layout(tuple(Channel(q.name, "f8", q.unit) for q in MACHINE.states))
    rings = {
        "daq": RingWriter(config.ring("daq"), DAQ, 1024),
        "sim": RingWriter(config.ring("sim"), STEP, 1024),
        "state": RingWriter(config.ring("state"), states, 64),
    }
    yield config, rings
    for ring in rings.values():
        ring.close()


def test_a_subscriber_gets_blocks_joints_transforms_and_diagnostics(
    router: str, live: tuple[Config, dict[str, RingWriter]]
) -> None:
    config, rings = live
    bridge = Bridge(config, LiveData(config, MACHINE, PARAMS), opened(router), 7)
    listener = opened(router)
    steps, blocks = step_words(12), daq_words(10)
    state = np.zeros(6 + len(MACHINE.states), np.int64)
    state[6:] = np.array([3.0, 4.0, *np.zeros(len(MACHINE.states) - 2)]).view(np.int64)
    state[2] = steps[11, 2]
    got: dict[str, list[tuple[str, bytes, tuple[int, int, bytes]]]] = {}

    def receive(sample: Any) -> None:
        _, topic, kind, hash_ = str(sample.key_expr).split("/")
        attached = ros2.attached(bytes(sample.attachment))
        got.setdefault(f"/{topic}", []).append((f"{kind} {hash_}", bytes(sample.payload), attached))

    try:
        bridge.poll()  # from now on
        subscriber = listener.declare_subscriber("7/**", receive)
        push(rings["sim"].words, steps[0])
        push(rings["daq"].words, blocks[0])
        bridge.poll()  # the topics of the rings are there
        published = bridge._published
        until(lambda: {"/step", "/daq"} <= set(published) and all(each.watched for each in published.values()))
        for row in steps[1:]:
            push(rings["sim"].words, row)
        for row in blocks[1:]:
            push(rings["daq"].words, row)
        push(rings["state"].words, state)
        wanted = {"/step": 11, "/daq": 9, "/tf": 1, "/joint_states": 1, "/diagnostics": 1}
        until(lambda: all(len(got.get(topic, ())) >= count for topic, count in wanted.items()), bridge.poll)
        tokens = [str(reply.ok.key_expr) for reply in listener.liveliness().get("@ros2_lv/7/**")]
        del subscriber
    finally:
        listener.close()
        bridge.close()
    assert [data for _, data, _ in got["/step"]][-11:] == ros2msg.to_messages(STEP, steps[1:])
    assert [data for _, data, _ in got["/daq"]][-9:] == ros2msg.to_messages(DAQ, blocks[1:])
    for messages in got.values():  # numbers without a gap, one publisher, UTC
        numbers = [number for _, _, (number, _, _) in messages]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        assert len({gid for *_, (_, _, gid) in messages}) == 1
    moved: Any = STORE.deserialize_cdr(got["/tf"][0][1], "tf2_msgs/msg/TFMessage")
    assert (moved.transforms[0].transform.translation.x, moved.transforms[0].transform.translation.y) == (3.0, 4.0)
    turned: Any = STORE.deserialize_cdr(got["/joint_states"][0][1], "sensor_msgs/msg/JointState")
    assert len(turned.name) == len(turned.position) == len(turned.velocity) > 0
    diagnosed: Any = STORE.deserialize_cdr(got["/diagnostics"][0][1], "diagnostic_msgs/msg/DiagnosticArray")
    assert diagnosed.status[0].name == f"tandem: {config.name}"
    assert "stale input" in diagnosed.status[0].message  # of the steps that were pushed
    kinds = {each.split("/")[5] for each in tokens}
    assert kinds == {"NN", "MP"} and len(tokens) == 1 + len(published)
    joints = f"tf2_msgs::msg::dds_::TFMessage_ {STORE.hash_rihs01('tf2_msgs/msg/TFMessage')}"
    assert got["/tf"][0][0] == joints


def test_nothing_is_sent_that_nobody_subscribed_to(router: str, live: tuple[Config, dict[str, RingWriter]]) -> None:
    config, rings = live
    bridge = Bridge(config, LiveData(config, MACHINE, PARAMS), opened(router))
    try:
        bridge.poll()
        for row in step_words(20):
            push(rings["sim"].words, row)
        for _ in range(5):
            bridge.poll()
        assert bridge.sent == {}
    finally:
        bridge.close()


# ---- commands in -----------------------------------------------------------------------------------------------------


class Moved:
    """A source that listens, and what it reported."""

    def __init__(self, setting: str, *more: str):
        self.heard: list[str] = []
        self.config = drive_config("daq.rate_hz=1000", setting, *more)
        self.source = open_device(self.config, DRIVE, Host(say=self.heard.append))
        self.names = [c.name for c in self.config.daq.channels]
        self.scans, self.t_ns = np.zeros((4096, len(self.names)), np.int64), np.zeros(4096, np.int64)
        self.lost = 0
        self.source.start()

    def read(self) -> np.ndarray:
        count, lost = self.source.read(self.scans, self.t_ns, 20 * MS)
        self.lost += lost
        return self.scans[:count]

    def newest(self, row: str) -> float | None:
        """In the row's unit."""
        scans = self.read()
        inputs = self.config.inputs[row]
        return None if not len(scans) else float(scans[-1, self.names.index(inputs.channels[0])])


def test_a_topic_moves_rows_and_what_is_malformed_moves_nothing(router: str) -> None:
    moved = Moved(source_of(router))
    session = opened(router)
    publisher = publisher_of(session)
    try:
        until(lambda: publisher.matching_status.matching)
        assert len(moved.read()) == 0  # nothing is invented before the first message
        publisher.put(twist(0.5, 0.0, 0.25))
        until(lambda: moved.newest("throttle"))
        assert moved.source.counts()["messages"] == 1
        half, steering = moved.newest("throttle"), moved.newest("steering")
        publisher.put(twist(5.0, 0.0, 0.25))  # beyond the row's limit
        until(lambda: moved.source.counts()["clipped"] == 1, moved.read)
        until(lambda: (moved.newest("throttle") or 0.0) > (half or 0.0))
        full = moved.newest("throttle")
        for bad in (b"", b"\0\1\0\0", twist(0.1, 0.0, 0.0)[:-1], twist(float("nan"), 0.0, 0.0)[:20], bytes(70_000)):
            publisher.put(bad)
        until(lambda: moved.source.counts()["messages"] == 7, moved.read)
        assert moved.source.counts()["malformed"] == 15  # of three rows each
        assert moved.newest("throttle") == full and moved.newest("steering") == steering
        tokens = [str(reply.ok.key_expr) for reply in session.liveliness().get("@ros2_lv/0/**")]
        assert sorted(each.split("/")[5] for each in tokens) == ["MS", "NN"]
    finally:
        moved.source.stop()
        session.close()


def test_a_silent_topic_is_a_gap_and_is_reported(router: str) -> None:
    moved = Moved(source_of(router, silent_ms=50.0))
    session = opened(router)
    publisher = publisher_of(session)
    try:
        until(lambda: publisher.matching_status.matching)
        until(lambda: len(moved.read()) > 0, lambda: publisher.put(twist(0.5, 0.0, 0.0)))
        until(lambda: any("no message for 50 ms" in text for text in moved.heard), moved.read)
        until(lambda: len(moved.read()) == 0)  # no scan is invented meanwhile
        assert moved.lost == 0
        until(lambda: moved.lost > 0, lambda: (publisher.put(twist(0.5, 0.0, 0.0)), moved.read()))
        assert any("there again" in text for text in moved.heard)
    finally:
        moved.source.stop()
        session.close()


def test_without_a_router_the_source_waits_and_then_listens() -> None:
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    moved = Moved(source_of(endpoint))
    begun = now_ns()
    assert len(moved.read()) == 0 and now_ns() - begun < 10**9
    until(lambda: any("looked for again" in text for text in moved.heard))
    there = ros2.open_session(ros2.settings([], None, "router", [endpoint]))
    session = opened(endpoint)
    publisher = publisher_of(session)
    try:
        until(lambda: publisher.matching_status.matching)
        until(lambda: len(moved.read()) > 0, lambda: publisher.put(twist(0.5, 0.0, 0.0)))
    finally:
        moved.source.stop()
        session.close()
        there.close()


def test_a_bridge_and_a_source_of_ours_talk_to_each_other(
    router: str, live: tuple[Config, dict[str, RingWriter]]
) -> None:
    """What one machine's joints do moves another's input."""
    config, rings = live
    bridge = Bridge(config, LiveData(config, MACHINE, PARAMS), opened(router))
    place = next(k for k, joint in enumerate(bridge._joints) if joint.position)
    joint = bridge._joints[place]
    row = f"{{topic='/joint_states', type='sensor_msgs/msg/JointState', field='position[{place}]'}}"
    others = "{topic='/cmd', type='geometry_msgs/msg/Twist', field='linear.x'}"
    topics = f"topics={{steering={row}, throttle={others}, brake={others}}}"
    moved = Moved(f"source={{kind='ros2', connect='{router}', silent_ms=60000, {topics}}}")
    session = opened(router)
    publisher = publisher_of(session)
    step = step_words(1)
    STEP.view(step)[joint.position] = 0.3 / joint.factor
    state = np.zeros((1, 6 + len(MACHINE.states)), np.int64)
    state[0, 2] = step[0, 2]
    try:
        bridge.poll()
        until(lambda: bridge._published["/joint_states"].watched and publisher.matching_status.matching, bridge.poll)
        push(rings["state"].words, state[0])

        def both() -> None:
            push(rings["sim"].words, step[0])
            publisher.put(twist(0.0, 0.0, 0.0))
            bridge.poll()

        until(lambda: len(moved.read()) > 0, both)
        assert isinstance(moved.newest("steering"), float) and moved.source.counts()["malformed"] == 0
        expected = moved.source._rows  # type: ignore[attr-defined]
        (control,) = [row.control for rows in expected.values() for row in rows if row.moved.field.startswith("pos")]
        assert moved.newest("steering") == control.counts(control.clipped(0.3))
    finally:
        moved.source.stop()
        session.close()
        bridge.close()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("linear.x", "linear.w"), "is no field of geometry_msgs/Vector3"),
        (("geometry_msgs/msg/Twist", "geometry_msgs/msg/Twit"), "must be one of"),
        (("/cmd", "/a b"), "must be a name of ROS 2"),
        (("throttle=", "trottle="), "trottle"),
        (("127.0.0.1", "192.0.2.1"), "is not this machine alone"),
    ],
)
def test_what_is_wrong_in_the_table_is_refused_by_key(change: tuple[str, str], why: str) -> None:
    config = drive_config(source_of("tcp/127.0.0.1:7447").replace(*change))
    with pytest.raises(ConfigError) as refused:
        open_device(config, DRIVE, Host())
    assert why in str(refused.value) and "source" in str(refused.value)


# ---- beyond the loopback ---------------------------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl to make certificates with")
def test_with_tls_a_certificate_is_asked_for_on_both_sides(tmp_path: Path) -> None:
    ours, theirs = certificates(tmp_path / "ours"), certificates(tmp_path / "theirs")
    endpoint = f"tls/127.0.0.1:{free_port()}"
    router = ros2.open_session(ros2.settings([], ours, "router", [endpoint]))
    try:
        session = ros2.open_session(ros2.settings([endpoint], ours))
        assert list(session.info.routers_zid())
        session.close()
        with pytest.raises(ros2.Ros2Error):  # whose certificate another authority has signed
            ros2.open_session(ros2.settings([endpoint], theirs))
        with pytest.raises(ros2.Ros2Error):  # who speaks no TLS
            ros2.open_session(ros2.settings([endpoint.replace("tls", "tcp")], None))
    finally:
        router.close()
    (ours / "key.pem").chmod(0o640)
    with pytest.raises(ConfigError, match="others may read it"):
        ros2.settings([endpoint], ours)


def certificates(folder: Path) -> Path:
    """Of an authority of their own."""
    folder.mkdir()

    def run(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    (folder / "ext").write_text("subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n")
    new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj"]
    run("req", "-x509", *new, "/CN=authority", "-keyout", "ca.key", "-out", "ca.pem", "-days", "2")
    run("req", *new, "/CN=tandem", "-keyout", "key.pem", "-out", "own.csr")
    run("x509", "-req", "-in", "own.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-out", "cert.pem",
        "-days", "2", "-extfile", "ext")  # fmt: skip
    (folder / "key.pem").chmod(0o600)
    return folder
