"""Types, keys, tokens and attachments, beside what rosbags makes of the same types and values."""

import math
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

from sync.errors import ConfigError
from sync.record import ros2_types, ros2msg
from sync.record.ros2_types import TYPES, Picker, type_hash
from sync.transport import ros2
from tandem.bridges.ros2.messages import DIAGNOSTICS, JOINTS, WARN, Joint, Status, diagnostics, joint_state
from tandem.records.foxglove.cdr import Cdr
from tests.examples import few
from tests.tandem.runs import DAQ, STEP, daq_words

STORE = get_typestore(Stores.ROS2_HUMBLE)
LONG = [kind.replace("/", "/msg/") for kind in TYPES]


@pytest.mark.parametrize("kind", LONG)
def test_a_type_has_the_hash_that_rosbags_gives_it(kind: str) -> None:
    assert type_hash(kind) == STORE.hash_rihs01(kind)


def test_published_hashes_are_ours() -> None:
    """As they stand in the documentation and in keys of rmw_zenoh's own."""
    string = {"std_msgs/String": ("string data",)}
    assert type_hash("std_msgs/msg/String", string) == (
        "RIHS01_df668c740482bbd48fb39d76a70dfd4bd59db1288021743503259e948f6b1a18"
    )


@pytest.mark.parametrize(("topic", "layout"), [("/daq", DAQ), ("/step", STEP)])
def test_our_own_types_have_hashes_and_bytes_as_rosbags_makes_them(topic: str, layout: Any) -> None:
    kind = ros2msg.type_name(topic, set())
    text = ros2msg.to_definition(topic, layout).decode()
    store = get_typestore(Stores.EMPTY)
    store.register(get_types_from_msg(text, kind))
    assert type_hash(kind, {ros2_types.short(kind): text.splitlines()}) == store.hash_rihs01(kind)
    words = daq_words(3) if layout is DAQ else np.arange(3 * STEP.words).reshape(3, -1)
    for data in ros2msg.to_messages(layout, words):
        assert bytes(store.serialize_cdr(store.deserialize_cdr(data, kind), kind)) == data


def test_joint_states_and_diagnostics_are_the_bytes_that_ros_2_makes() -> None:
    step = {"angle": 0.5, "rate": 3.0}
    made = joint_state(
        1_700_000_000_000_000_123, [Joint("hand wheel", "angle", "", 2.0), Joint("spin", "", "rate")], step
    )
    found: Any = STORE.deserialize_cdr(made, JOINTS)
    assert bytes(STORE.serialize_cdr(found, JOINTS)) == made
    assert (found.header.stamp.sec, found.header.stamp.nanosec) == (1_700_000_000, 123)
    assert found.name == ["hand wheel", "spin"] and found.position[0] == 1.0 and math.isnan(found.position[1])
    assert found.velocity[1] == 3.0 and len(found.effort) == 0
    status = Status(WARN, "tandem: x", "deadline missed", [("steps per second", "199.9"), ("lost", "0")])
    made = diagnostics(5, [status, Status(0, "a", "b")])
    found = STORE.deserialize_cdr(made, DIAGNOSTICS)
    assert bytes(STORE.serialize_cdr(found, DIAGNOSTICS)) == made
    assert found.status[0].level == WARN and found.status[0].values[1].value == "0"


def test_keys_and_tokens_are_those_that_rmw_zenoh_documents() -> None:
    """Its own examples (docs/design.md), with the fields that its current sources have."""
    topic = ros2.Topic("/chatter", "std_msgs/msg/String", "RIHS01_df66")
    assert topic.key(2) == "2/chatter/std_msgs::msg::dds_::String_/RIHS01_df66"
    node = ros2.token(2, "aac3178e", 0, "NN", "listener", "/", None)
    assert node == "@ros2_lv/2/aac3178e/0/0/NN/%/%/listener"
    there = ros2.token(2, "8b20917", 10, "MP", "talker", "/lab", ros2.Topic("/lab/chatter", topic.kind, topic.hash))
    assert there == (
        "@ros2_lv/2/8b20917/0/10/MP/%/%lab/talker/%lab%chatter/std_msgs::msg::dds_::String_/RIHS01_df66/::,10:,:,:,,"
    )


def test_attachments_are_number_time_and_publisher() -> None:
    """As Zenoh's serialisation has them: two integers of eight bytes, and so many bytes behind their count."""
    zenoh = pytest.importorskip("zenoh", reason="the extra ros2 is not installed")
    gid = ros2.gid_of("a token")
    made = ros2.attachment(7, 1_700_000_000_000_000_123, gid)
    ext = zenoh.ext
    theirs = bytes(ext.z_serialize(ext.Int64(7))) + bytes(ext.z_serialize(ext.Int64(1_700_000_000_000_000_123)))
    assert made == theirs + bytes(ext.z_serialize(gid))
    assert ros2.attached(made) == (7, 1_700_000_000_000_000_123, gid)
    for wrong in (b"", made[:-1], made + b"\0", made[:16] + b"\x0f" + made[17:]):
        with pytest.raises(ValueError, match=r"attachment|expected"):
            ros2.attached(wrong)


# ---- numbers out of messages -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        ("std_msgs/msg/Float64", "data", 1.5),
        ("geometry_msgs/msg/Twist", "angular.z", -0.25),
        ("geometry_msgs/msg/TwistStamped", "twist.linear.y", 4.0),
        ("sensor_msgs/msg/Joy", "axes[2]", 0.5),
        ("sensor_msgs/msg/Joy", "buttons[1]", 9.0),
        ("sensor_msgs/msg/JointState", "velocity[1]", 7.0),
    ],
)
def test_a_picker_finds_the_number_that_rosbags_put_there(kind: str, field: str, value: float) -> None:
    made = STORE.types[kind]
    messages: dict[str, Any] = {}
    time = STORE.types["builtin_interfaces/msg/Time"](1, 2)
    header = STORE.types["std_msgs/msg/Header"](time, "a frame of odd length")
    vector = STORE.types["geometry_msgs/msg/Vector3"]
    twist = STORE.types["geometry_msgs/msg/Twist"](vector(1.0, 4.0, 2.0), vector(0.0, 1.0, -0.25))
    messages["std_msgs/msg/Float64"] = lambda: made(1.5)
    messages["geometry_msgs/msg/Twist"] = lambda: twist
    messages["geometry_msgs/msg/TwistStamped"] = lambda: made(header, twist)
    axes, buttons = np.array([0.0, 1.0, 0.5], np.float32), np.array([1, 9], np.int32)
    messages["sensor_msgs/msg/Joy"] = lambda: made(header, axes, buttons)
    names = ["a", "longer"]
    messages["sensor_msgs/msg/JointState"] = lambda: made(
        header, names, np.array([1.0, 2.0]), np.array([3.0, 7.0]), np.zeros(0)
    )
    message = messages[kind]()
    pick = Picker(kind, field)
    for little in (True, False):
        assert pick(bytes(STORE.serialize_cdr(message, kind, little_endian=little))) == value


@pytest.mark.parametrize(
    ("kind", "field", "why"),
    [
        ("geometry_msgs/msg/Twist", "linear.w", "'w' is no field of geometry_msgs/Vector3, which has x, y, z"),
        ("geometry_msgs/msg/Twist", "linear", "is no number"),
        ("sensor_msgs/msg/Joy", "axes", "axes has elements, such as"),
        ("std_msgs/msg/Float64", "data[0]", "data has no elements"),
        ("std_msgs/msg/Header", "frame_id", "is no number"),
        ("std_msgs/msg/Float64", "data.x", "is no field of float64, which has none"),
    ],
)
def test_a_field_that_is_none_is_refused_by_name(kind: str, field: str, why: str) -> None:
    with pytest.raises(ValueError) as refused:
        Picker(kind, field)
    assert why in str(refused.value)


def test_a_malformed_message_is_a_value_error_and_nothing_else() -> None:
    picks = [Picker("sensor_msgs/msg/Joy", "buttons[3]"), Picker("sensor_msgs/msg/JointState", "effort[0]")]
    picks.append(Picker("tf2_msgs/msg/TFMessage", "transforms[1].transform.rotation.w"))
    huge = Cdr().numbers("i", 0).numbers("I", 0).text("x").numbers("I", 0xFFFFFFFF).message()

    @settings(max_examples=few(400), deadline=None)
    @given(st.binary(max_size=300) | st.binary(max_size=300).map(lambda rest: b"\0\1\0\0" + rest))
    def come(data: bytes) -> None:
        for pick in picks:
            try:
                assert isinstance(pick(data), float)
            except ValueError:
                continue

    come()
    for pick in picks:
        with pytest.raises(ValueError, match=r"more than it can|longer than|too early|no such|too many"):
            pick(huge)
        with pytest.raises(ValueError, match="not CDR"):
            pick(struct.pack("<I", 7))


# ---- closed by default -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("endpoint", "why"),
    [
        ("tcp/192.0.2.1:7447", "is not this machine alone"),
        ("tcp/0.0.0.0:7447", "is not this machine alone"),
        ("tcp/example.org:7447", "is not this machine alone"),
        ("tls/192.0.2.1:7447", "needs a folder with ca.pem"),
        ("udp/127.0.0.1:7447", "must be tcp/HOST:PORT or tls/HOST:PORT"),
        ("tcp/127.0.0.1:7447#iface=eth0", "must be tcp/HOST:PORT"),
    ],
)
def test_beyond_the_loopback_there_is_tls_or_nothing(endpoint: str, why: str) -> None:
    with pytest.raises(ConfigError) as refused:
        ros2.check_endpoint(endpoint, "--connect", None)
    assert why in str(refused.value)


def test_sessions_scout_for_nobody_and_listen_nowhere() -> None:
    chosen = ros2.settings([ros2.ROUTER], None)
    assert chosen["mode"] == "client" and chosen["listen/endpoints"] == []
    assert chosen["scouting/multicast/enabled"] is False and chosen["scouting/gossip/enabled"] is False
