"""The machine moving in the viewers of others: transforms and markers, in a file and live, read by their readers."""

import contextlib
import json
import os
import socket
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mcap.reader import make_reader
from mcap_ros2.decoder import DecoderFactory
from rosbags.highlevel import AnyReader
from rosbags.typesys import Stores, get_typestore
from websockets import Subprotocol
from websockets.sync.client import ClientConnection, connect

from sim_service.contract.scene import poses
from sync.config.config import Config, load
from sync.record import open_run
from sync.record.ros2msg import field_names, to_messages
from sync.ring.block import HEADER, Channel, Layout
from sync.ring.ring import RingWriter, push
from tandem.records.exchange.exporter import export
from tandem.records.foxglove import clients
from tandem.records.foxglove.bridge import Bridge, BridgeError
from tandem.records.foxglove.messages import MARKERS, TRANSFORMS, Marker, Transform, definition, markers, transforms
from tandem.records.replay import Options, Watch, replay_run
from tandem.view.data_source import LiveData
from tests.tandem.runs import CONFIGS, DAQ, MACHINE, PARAMS, STEP, daq_words, step_words

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "lane_change.mcap"
DECODED = 50  # messages a topic, field by field; tests of the record decode all
SCENE = {"/tf", "/scene", "/scene/bars", "/scene/ground"}


def test_definitions_are_those_of_ros_2() -> None:
    """By the hash that ROS 2 has for a type with all the types in it."""
    ours, theirs = get_typestore(Stores.EMPTY), get_typestore(Stores.ROS2_HUMBLE)
    from rosbags.typesys import get_types_from_msg

    for kind in (TRANSFORMS, MARKERS):
        ours.register(get_types_from_msg(definition(kind).decode(), kind))
        assert ours.hash_rihs01(kind) == theirs.hash_rihs01(kind)


def test_messages_are_what_ros_2_makes_of_the_same_values() -> None:
    store = get_typestore(Stores.ROS2_HUMBLE)
    made = transforms(1_700_000_000_000_000_123, [Transform("a", np.arange(3.0), np.array([1.0, 2, 3, 4]))])
    made_markers = markers(5, [Marker("a b", "it", 11, np.arange(27.0).reshape(3, 3, 3), (255, 0, 51), 0.5)] * 2)
    for kind, data in ((TRANSFORMS, made), (MARKERS, made_markers)):
        assert bytes(store.serialize_cdr(store.deserialize_cdr(data, kind), kind)) == data
    found: Any = store.deserialize_cdr(made, TRANSFORMS)
    (one,) = found.transforms
    assert (one.header.stamp.sec, one.header.stamp.nanosec, one.child_frame_id) == (1_700_000_000, 123, "a")
    assert (one.transform.rotation.w, one.transform.rotation.z) == (1.0, 4.0)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("foxglove") / "run.mcap"
    export(GOLDEN, "mcap", file)
    return file


def test_an_exported_file_has_every_topic_to_the_bit_and_the_scene(exported: Path) -> None:
    run = open_run(GOLDEN)
    found: dict[str, list[Any]] = {}
    raw: dict[str, list[bytes]] = {}
    with exported.open("rb") as stream:
        factory, decoders = DecoderFactory(), {}
        for schema, channel, message in make_reader(stream).iter_messages():
            raw.setdefault(channel.topic, []).append(message.data)
            if len(raw[channel.topic]) <= DECODED:
                decode = decoders.setdefault(channel.topic, factory.decoder_for("cdr", schema))
                found.setdefault(channel.topic, []).append((message, decode(message.data)))
    assert set(found) - set(run.topics) == SCENE
    for name, topic in run.topics.items():
        assert raw[name] == to_messages(topic.layout, topic.words)
        fields = [*HEADER, *field_names(topic.layout)]
        for ours, field in zip((*HEADER, *topic.layout.names), fields, strict=True):
            theirs = np.array([getattr(block, field) for _, block in found[name]], topic.blocks.dtype[ours])
            assert theirs.tobytes() == topic.blocks[ours][:DECODED].tobytes(), (name, field)
    assert found["/step"][0][0].log_time > 1_700_000_000_000_000_000  # UTC
    frames = {t.child_frame_id for _, message in found["/tf"] for t in message.transforms}
    drawn = {m.header.frame_id for name in SCENE - {"/tf"} for _, message in found[name] for m in message.markers}
    assert drawn - {"world"} <= frames and len([f for f in frames if f.startswith("wheel_")]) == 4
    assert all(len(m.points) % 3 == 0 for _, message in found["/scene"] for m in message.markers if m.type == 11)


def test_rosbags_reads_it_and_the_machine_is_where_the_replay_has_it(exported: Path) -> None:
    states: list[tuple[int, np.ndarray]] = []
    watch = Watch(lambda *_: 6, lambda done, simulation: states.append((done - 1, simulation.state.copy())))
    done = replay_run(GOLDEN, Options("exact"), watch=watch)
    model, scene = done.model, done.model.shown.scene
    assert scene is not None
    with AnyReader([exported]) as reader:
        moved: list[Any] = [
            reader.deserialize(data, c.msgtype) for c, _, data in reader.messages() if c.topic == "/tf"
        ]  # fmt: skip
    assert len(moved) == len(states)
    for message, (_, state) in zip(moved, states, strict=True):
        out = poses(scene.frames)
        model.shown.frames(state, done.params, out)
        first = message.transforms[0]
        assert first.child_frame_id == scene.solids[0].name and first.header.frame_id == "world"
        at = first.transform.translation
        # states are kept in single precision for viewers
        np.testing.assert_allclose([at.x, at.y, at.z], out[scene.solids[0].frame, 0], rtol=1e-6, atol=1e-5)
        q = first.transform.rotation
        ahead = [1 - 2 * (q.y**2 + q.z**2), 2 * (q.x * q.y + q.w * q.z), 2 * (q.x * q.z - q.w * q.y)]
        np.testing.assert_allclose(ahead, out[scene.solids[0].frame, 1], atol=1e-5)


def test_a_record_whose_recorder_was_killed_becomes_a_file_that_opens_everywhere(tmp_path: Path) -> None:
    data = GOLDEN.read_bytes()
    (tmp_path / "run.mcap").write_bytes(data[: int(0.6 * len(data))])
    whole = open_run(tmp_path)
    assert whole.cut
    export(tmp_path, "mcap", tmp_path / "out.mcap")
    with AnyReader([tmp_path / "out.mcap"]) as reader:
        counts = {c.topic: c.msgcount for c in reader.connections}
    assert {name: counts[name] for name in whole.topics if len(whole.topics[name])} == {
        name: len(topic) for name, topic in whole.topics.items() if len(topic)
    }
    assert counts["/tf"] > 10


def test_a_record_that_cannot_be_replayed_is_exported_without_a_scene(tmp_path: Path) -> None:
    said: list[str] = []
    done = export(GOLDEN.with_name("mechanism.mcap"), "mcap", tmp_path / "out.mcap", say=said.append)
    run = open_run(GOLDEN.with_name("mechanism.mcap"))
    assert {row["topic"]: row["rows"] for row in done["topics"]} == {t.name: len(t) for t in run.topics.values()}
    assert "no transforms and no markers" in said[-1]
    with AnyReader([tmp_path / "out.mcap"]) as reader:
        assert {c.topic for c in reader.connections} == set(run.topics)


# ---- live ------------------------------------------------------------------------------------------------------------


class Viewer:
    """A client of Foxglove's protocol, by the words of its specification."""

    def __init__(self, socket: ClientConnection):
        self._socket = socket
        self.channels: dict[str, dict[str, Any]] = {}
        self.messages: list[tuple[str, int, bytes]] = []
        self._asked: dict[int, str] = {}

    def take(self, until: Callable[[], bool], look: Callable[[], None] = lambda: None) -> None:
        for _ in range(2000):
            if until():
                return
            look()
            try:
                data = self._socket.recv(timeout=0.02)
            except TimeoutError:
                continue
            if isinstance(data, str):
                message = json.loads(data)
                if message["op"] == "advertise":
                    self.channels |= {channel["topic"]: channel for channel in message["channels"]}
            elif data[0] == 1:
                number, at_ns = struct.unpack_from("<IQ", data, 1)
                self.messages.append((self._asked[number], at_ns, data[13:]))
        raise AssertionError(f"it did not come: {sorted(self.channels)}, {len(self.messages)} messages")

    def subscribe(self, *topics: str) -> None:
        asked = {len(self._asked) + k: topic for k, topic in enumerate(topics, 1)}
        self._asked |= asked
        wanted = [{"id": number, "channelId": self.channels[topic]["id"]} for number, topic in asked.items()]
        self._socket.send(json.dumps({"op": "subscribe", "subscriptions": wanted}))

    def of(self, topic: str) -> list[bytes]:
        return [data for name, _, data in self.messages if name == topic]


@pytest.fixture
def live() -> Iterator[tuple[Config, dict[str, RingWriter]]]:
    settings = ["sim.machine=vehicles/buggy_single_track.toml", f"name=test_foxglove_{os.getpid()}"]
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


def test_a_client_of_the_bridge_gets_every_block_to_the_bit_and_the_moving_scene(
    live: tuple[Config, dict[str, RingWriter]],
) -> None:
    config, rings = live
    bridge = Bridge(config, LiveData(config, MACHINE, PARAMS), port=0)
    blocks, steps = daq_words(30), step_words(12)
    state = np.zeros(6 + len(MACHINE.states), np.int64)
    state[6:] = np.array([3.0, 4.0, *np.zeros(len(MACHINE.states) - 2)]).view(np.int64)
    state[2] = steps[11, 2]
    try:
        bridge.poll()  # from now on
        for ring, words in ((rings["daq"], blocks[:1]), (rings["sim"], steps[:1])):
            push(ring.words, words[0])
        address, speaks = f"ws://127.0.0.1:{bridge.port}", Subprotocol("foxglove.sdk.v1")
        with connect(address, subprotocols=[speaks], close_timeout=0.1) as connection:
            viewer = Viewer(connection)
            viewer.take(lambda: {"/daq", "/step", "/tf", "/scene"} <= set(viewer.channels), bridge.poll)
            viewer.subscribe("/daq", "/step", "/tf", "/scene")
            viewer.take(lambda: bridge.watched("/daq", "/step", "/tf", "/scene"))
            for ring, words in ((rings["daq"], blocks[1:]), (rings["sim"], steps[1:])):
                for row in words:
                    push(ring.words, row)
            push(rings["state"].words, state)
            wanted = {"/daq": 29, "/step": 11, "/tf": 1, "/scene": 1}
            viewer.take(lambda: all(len(viewer.of(t)) >= n for t, n in wanted.items()), bridge.poll)
    finally:
        bridge.close()
    for topic, layout, words in (("/daq", DAQ, blocks[1:]), ("/step", STEP, steps[1:])):
        channel = viewer.channels[topic]
        assert (channel["encoding"], channel["schemaEncoding"]) == ("cdr", "ros2msg")
        decode = _decoder(channel)
        read = [decode(data) for data in viewer.of(topic)]
        for name in layout.names:
            theirs = np.array([getattr(block, name) for block in read], layout.dtype[name])
            assert theirs.tobytes() == layout.view(words)[name].tobytes()
    moved = _decoder(viewer.channels["/tf"])(viewer.of("/tf")[0]).transforms
    assert (moved[0].transform.translation.x, moved[0].transform.translation.y) == (3.0, 4.0)
    drawn = _decoder(viewer.channels["/scene"])(viewer.of("/scene")[0]).markers
    assert {m.header.frame_id for m in drawn} <= {t.child_frame_id for t in moved}


def _decoder(channel: dict[str, Any]) -> Callable[[bytes], Any]:
    from mcap.records import Schema

    schema = Schema(1, channel["schema"].encode(), channel["schemaEncoding"], channel["schemaName"])
    found = DecoderFactory().decoder_for("cdr", schema)
    assert found is not None
    return found


def test_a_port_that_is_taken_is_refused_by_name(live: tuple[Config, dict[str, RingWriter]]) -> None:
    config, _ = live
    first = Bridge(config, LiveData(config, MACHINE, PARAMS), port=0)
    try:
        with pytest.raises(BridgeError, match=f"--port {first.port}"):
            Bridge(config, LiveData(config, MACHINE, PARAMS), port=first.port)
    finally:
        first.close()


def test_the_bridge_listens_on_this_machine_alone(live: tuple[Config, dict[str, RingWriter]]) -> None:
    config, _ = live
    bridge = Bridge(config, LiveData(config, MACHINE, PARAMS), port=0)
    try:
        with socket.create_connection(("127.0.0.1", bridge.port), timeout=5):
            pass
        with pytest.raises(ConnectionRefusedError):  # a server on all addresses would be there, too
            socket.create_connection(("127.0.0.2", bridge.port), timeout=5)
    finally:
        bridge.close()


def _mute(port: int) -> socket.socket:
    """A client that has asked for the protocol, and reads nothing but the answer."""
    client = socket.create_connection(("127.0.0.1", port), timeout=20)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.sendall(
        b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Key: MDAwMDAwMDAwMDAwMDAwMA==\r\nSec-WebSocket-Protocol: foxglove.sdk.v1\r\n\r\n"
    )
    assert b"101" in client.recv(64)
    return client


def _subscribe(client: socket.socket, channels: list[int]) -> None:
    asked = [{"id": number, "channelId": channel} for number, channel in enumerate(channels, 1)]
    text = json.dumps({"op": "subscribe", "subscriptions": asked}).encode()
    with contextlib.suppress(OSError):  # it may have been cut off
        client.sendall(b"\x81\xfe" + struct.pack(">H", len(text)) + b"\0\0\0\0" + text)  # masked with zeros


def _until(condition: Callable[[], bool], look: Callable[[], None]) -> None:
    for _ in range(2000):
        if condition():
            return
        look()
        time.sleep(0.005)
    raise AssertionError("it did not come")


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_clients_that_never_read_are_few_and_cut_off_and_take_no_memory(
    live: tuple[Config, dict[str, RingWriter]], monkeypatch: pytest.MonkeyPatch
) -> None:
    config, rings = live
    bridge = Bridge(config, LiveData(config, MACHINE, PARAMS), port=0)
    words = daq_words(1000)
    mute: list[socket.socket] = []
    try:
        bridge.poll()
        push(rings["daq"].words, words[0])
        address, speaks = f"ws://127.0.0.1:{bridge.port}", Subprotocol("foxglove.sdk.v1")
        with connect(address, subprotocols=[speaks], close_timeout=0.1) as reading:
            viewer = Viewer(reading)
            viewer.take(lambda: {"/daq", "/scene"} <= set(viewer.channels), bridge.poll)
        _until(lambda: not len(bridge.clients), bridge.poll)
        channels = [channel["id"] for channel in viewer.channels.values()]
        mute = [_mute(bridge.port) for _ in range(60)]
        bridge.poll()
        assert len(bridge.clients) == clients.MOST and bridge.clients.cut == 60 - clients.MOST
        for client in mute:
            _subscribe(client, channels)
        _until(lambda: bridge.watched("/daq"), bridge.poll)
        before = _resident()
        for _ in range(30):  # 30,000 messages: 60 queues of them take 49 MB, 8 of a bounded length 2 MB
            for row in words:
                push(rings["daq"].words, row)
            bridge.poll()
        assert bridge.sent["/daq"] >= 30_000
        assert _resident() - before < 24 << 20
        monkeypatch.setattr(clients, "SLOW_S", 0.05)
        _until(lambda: not len(bridge.clients), bridge.poll)
        assert bridge.clients.cut == 60
        mute.append(_mute(bridge.port))  # there is room again
        _subscribe(mute[-1], channels)
        _until(lambda: bridge.watched("/daq"), bridge.poll)
    finally:
        bridge.close()  # waits for nobody
        for client in mute:
            client.close()


def test_a_connection_that_asks_for_nothing_makes_room_for_one_that_does(
    live: tuple[Config, dict[str, RingWriter]], monkeypatch: pytest.MonkeyPatch
) -> None:
    config, _ = live
    bridge = Bridge(config, LiveData(config, MACHINE, PARAMS), port=0)
    with contextlib.ExitStack() as stack:
        stack.callback(bridge.close)
        silent = [socket.create_connection(("127.0.0.1", bridge.port), timeout=20) for _ in range(clients.MOST)]
        _until(lambda: len(bridge.clients) == clients.MOST, bridge.poll)
        asking = stack.enter_context(_mute(bridge.port))
        bridge.poll()
        assert (len(bridge.clients), bridge.clients.cut) == (clients.MOST, 1)
        monkeypatch.setattr(clients, "GREETING_S", 0.0)
        bridge.poll()
        assert (len(bridge.clients), bridge.clients.cut) == (1, clients.MOST)
        for connection in silent:
            with connection, contextlib.suppress(ConnectionResetError):
                assert connection.recv(1) == b""
        asking.settimeout(0.0)
        assert asking.recv(1)  # what the server says of itself
