"""Messages: one msgpack map that anyone can read and anyone can write; whatever else comes is counted and ignored."""

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import msgpack
import numpy as np
import pytest
import zmq
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sync.ring.block import PAYLOAD, RECEIVED, Channel, Layout
from sync.ring.ring import RingReader, RingWriter
from sync.transport.message import MALFORMED, MOST_BYTES, decode
from sync.transport.message_form import Form, read_message, write_message
from sync.transport.wire import RECEIVED_COUNTS, Context, Receiver
from tests.examples import few
from tests.sync.strategies import PROPERTY, blocks, words_of

KEYS = ("version", "layout", "seq", "epoch", "t_ns", "pushed_ns", "sent_ns")

GOLDEN_ROW = (1_000_000, 0xDEADBEEF, 123_456_789_012_345, 123_456_789_112_345, 123_456_789_212_345, 0, -2, 420, -70_000)
GOLDEN = bytes.fromhex(
    "8a"  # a map of ten
    "a776657273696f6e 01"  # version: 1
    "a66c61796f7574 b065363262343139306331336166653664"  # layout: "e62b4190c13afe6d"
    "a3736571 cf00000000000f4240"  # seq: uint 64
    "a565706f6368 cf00000000deadbeef"  # epoch: uint 64
    "a4745f6e73 d300007048860ddf79"  # t_ns: int 64
    "a97075736865645f6e73 d300007048860f6619"  # pushed_ns: int 64
    "a773656e745f6e73 d3000070488610ecb9"  # sent_ns: int 64
    "a56272616b65 d1fffe"  # brake: int 16
    "a87468726f74746c65 d101a4"  # throttle: int 16
    "a87374656572696e67 d2fffeee90"  # steering: int 32
)


def write(layout: Layout, row: tuple[Any, ...]) -> bytes:
    form = Form(layout)
    message = form.text.copy()
    write_message(words_of(layout, row), form.fields, message)
    return message.tobytes()


def read(layout: Layout, data: bytes) -> tuple[Any, ...] | None:
    form, block = Form(layout), np.full(layout.words, -1)
    if not read_message(np.frombuffer(data, np.uint8), form.text, form.changes, form.fields, block):
        assert (block == -1).all()
        return None
    return layout.struct.unpack(block.tobytes())


def decoded(layout: Layout, data: bytes, **options: Any) -> tuple[Any, ...] | None:
    block = np.full(layout.words, -1)
    if not decode(layout, data, block, **options):
        assert (block == -1).all()
        return None
    return layout.struct.unpack(block.tobytes())


def plain(layout: Layout, row: tuple[Any, ...]) -> dict[str, Any]:
    """The message somebody would compose who knows the keys only."""
    values = dict(zip(KEYS[2:], row, strict=False))
    return {"version": 1, "layout": layout.id, **values, **dict(zip(layout.names, row[PAYLOAD:], strict=True))}


def unreceived(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return (*row[:RECEIVED], 0, *row[PAYLOAD:])


def same(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    return all(a == b or (math.isnan(a) and math.isnan(b)) for a, b in zip(one, other, strict=True))


def test_the_format_has_not_changed_unnoticed(car: Layout) -> None:
    assert write(car, GOLDEN_ROW) == GOLDEN
    assert read(car, GOLDEN) == decoded(car, GOLDEN) == GOLDEN_ROW
    assert msgpack.unpackb(GOLDEN) == plain(car, GOLDEN_ROW)


@given(blocks())
@PROPERTY
def test_a_message_says_everything_by_name_to_any_msgpack_reader(drawn: tuple[Layout, tuple[Any, ...]]) -> None:
    layout, row = drawn
    message = msgpack.unpackb(write(layout, row))
    assert list(message) == [*KEYS, *layout.names]
    assert (message["version"], message["layout"]) == (1, layout.id)
    assert same(tuple(message.values())[2:], (*row[:RECEIVED], *row[PAYLOAD:]))


@given(blocks())
@PROPERTY
def test_both_ways_of_reading_give_back_what_was_written(drawn: tuple[Layout, tuple[Any, ...]]) -> None:
    layout, row = drawn
    message = write(layout, row)
    assert same(read(layout, message), unreceived(row))
    assert same(decoded(layout, message), unreceived(row))


@given(blocks(), st.data())
@PROPERTY
def test_a_plain_map_in_any_order_with_more_in_it_means_the_same(
    drawn: tuple[Layout, tuple[Any, ...]], data: st.DataObject
) -> None:
    layout, row = drawn
    message = plain(layout, row)
    scalars = st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), st.floats(), st.text(max_size=20))
    names = st.text(max_size=20).filter(lambda name: name not in message)
    more = data.draw(
        st.dictionaries(names, st.one_of(scalars, st.dictionaries(names, scalars, max_size=3)), max_size=4)
    )
    items = data.draw(st.permutations([*message.items(), *more.items()]))
    assert same(decoded(layout, msgpack.packb(dict(items))), unreceived(row))


def test_a_map_with_more_channels_serves_who_needs_a_few(car: Layout) -> None:
    few = Layout((car.channels[2],))
    assert decoded(few, GOLDEN) is None  # another layout
    assert decoded(few, GOLDEN, any_layout=True) == (*GOLDEN_ROW[:PAYLOAD], -70_000)
    with pytest.raises(KeyError):
        decoded(Layout((Channel("yaw", "f8"),)), GOLDEN, any_layout=True)


@pytest.mark.parametrize(
    "change", [{"version": 2}, {"version": "1"}, {"version": None}, {"layout": "0" * 16}, {"layout": 7}]
)
def test_another_version_or_layout_is_foreign(car: Layout, change: dict[str, Any]) -> None:
    assert decoded(car, msgpack.packb({**plain(car, GOLDEN_ROW), **change})) is None


def test_the_own_form_is_not_taken_for_a_message_of_another_layout(car: Layout) -> None:
    other = Layout((Channel("brake", "i2", "V", -200_000), *car.channels[1:]))  # the same bytes but for the id
    assert read(other, GOLDEN) is None
    assert decoded(other, GOLDEN) is None


def nested(depth: int, wrap: Callable[[bytes], bytes]) -> bytes:
    data = b"\x01"
    for _ in range(depth):
        data = wrap(data)
    return data


NOT_OURS = {
    "nothing": b"",
    "a number": msgpack.packb(7),
    "a text": msgpack.packb("seq"),
    "a list": msgpack.packb([1, 2, 3]),
    "an empty map": msgpack.packb({}),
    "half a message": GOLDEN[:70],
    "a message and a byte": GOLDEN + b"\0",
    "two messages": GOLDEN + GOLDEN,
    "a map of four thousand million": b"\xdf\xff\xff\xff\xff",
    "a text of four thousand million": b"\x81\xdb\xff\xff\xff\xff",
    "a reserved code": b"\xc1",
    "a key that is a map": b"\x81\x81\x01\x01\x01",
    "a key that is a list": b"\x81\x91\x01\x01",
    "a text that is no UTF-8": b"\x81\xa2\xff\xfe\x01",
    "maps in maps": nested(2000, lambda data: b"\x81\xa1a" + data),
    "lists in lists": nested(5000, lambda data: b"\x91" + data),
    "a time stamp": msgpack.packb({"seq": msgpack.Timestamp(1, 2)}),
    "all there, but oversized": msgpack.packb({**msgpack.unpackb(GOLDEN), **{str(i): "x" * 200 for i in range(100)}}),
    "oversized zeros": bytes(MOST_BYTES + 1),
}


@pytest.mark.parametrize("what", NOT_OURS)
def test_what_is_no_message_is_malformed(car: Layout, what: str) -> None:
    with pytest.raises(MALFORMED):
        decoded(car, NOT_OURS[what])


WRONG = [
    *((key, None) for key in (*KEYS[2:], "brake", "steering")),
    *((key, "7") for key in (*KEYS[2:], "brake", "steering")),
    ("seq", -1), ("seq", 1.0), ("epoch", -1), ("t_ns", 2**63), ("t_ns", 1e3), ("pushed_ns", 2**64 - 1), ("sent_ns", {}),
    ("brake", 2**15), ("brake", -(2**15) - 1), ("brake", 2**64 - 1), ("brake", 0.5), ("brake", {"a": 1}),
    ("steering", 2**31), ("steering", b""),
]  # fmt: skip


@pytest.mark.parametrize("key,value", WRONG)
def test_a_value_that_does_not_fit_its_key_is_malformed(car: Layout, key: str, value: Any) -> None:
    with pytest.raises(MALFORMED):
        decoded(car, msgpack.packb({**plain(car, GOLDEN_ROW), key: value}))


@pytest.mark.parametrize("key", [*KEYS, "brake", "throttle", "steering"])
def test_a_missing_key_is_malformed(car: Layout, key: str) -> None:
    message = plain(car, GOLDEN_ROW)
    del message[key]
    with pytest.raises(MALFORMED):
        decoded(car, msgpack.packb(message))


def test_a_float_beyond_its_channel_is_malformed() -> None:
    layout = Layout((Channel("x", "f4"),))
    with pytest.raises(MALFORMED):
        decoded(layout, msgpack.packb(plain(layout, (0, 0, 0, 0, 0, 0, 1e300))))


# ---- through a receiver ----------------------------------------------------------------------------------------------

OUTCOMES = [name for name in RECEIVED_COUNTS if name not in ("superseded", "epochs")]  # one of them a message


class Line:
    """A receiver at the end of a line on which anything can be sent."""

    def __init__(self, context: Context, layout: Layout, name: str) -> None:
        self.layout = layout
        self.ring = RingWriter(name, layout, 64)
        self.reader = RingReader(name)
        self.receiver = Receiver(context, f"inproc://{name}", self.ring)
        self._socket = context.socket(zmq.PUB)
        self._socket.bind(f"inproc://{name}")
        self._epochs = itertools.count(1)
        self.receiver.connect()
        while not self.sound():  # until the subscription has come through
            pass

    def send(self, data: bytes) -> str:
        """What became of it: exactly one thing, and it counted."""
        before = self.receiver.count()
        self._socket.send(data)
        new = self.receiver.receive()
        after = self.receiver.count()
        (outcome,) = [name for name in OUTCOMES for _ in range(after[name] - before[name])]
        assert new == (outcome == "blocks")
        return outcome

    def sound(self) -> bool:
        """Does a sound message still come through?"""
        row = (5, next(self._epochs), 0, 0, 0, 0, 1, 2, 3)
        self._socket.send(write(self.layout, row))
        return self.receiver.receive() and self.reader.newest().item()[6:] == (1, 2, 3)

    def close(self) -> None:
        self._socket.close()
        self.receiver.close()
        self.reader.close()
        self.ring.close()


@pytest.fixture
def line(zmq_context: Context, ring_name: str, car: Layout) -> Iterator[Line]:
    made = Line(zmq_context, car, ring_name)
    yield made
    made.close()


@pytest.mark.parametrize("what", NOT_OURS)
def test_a_receiver_counts_what_is_no_message_and_goes_on(line: Line, what: str) -> None:
    head = line.reader.head
    assert line.send(NOT_OURS[what]) == "malformed"
    assert line.reader.head == head
    assert line.sound()


def test_a_receiver_counts_foreign_messages_and_goes_on(line: Line) -> None:
    other = Layout((Channel("x", "f8"),))
    assert line.send(write(other, (0, 0, 0, 0, 0, 0, 1.0))) == "foreign"
    assert line.send(msgpack.packb({**plain(line.layout, GOLDEN_ROW), "version": 2})) == "foreign"
    assert line.sound()


def test_a_receiver_takes_a_plain_map_like_one_of_ours(line: Line) -> None:
    assert line.send(msgpack.packb({"note": "by hand", **plain(line.layout, GOLDEN_ROW)})) == "blocks"
    assert unreceived(line.reader.newest().item()) == GOLDEN_ROW
    assert line.send(GOLDEN) == "repeats"


def test_a_block_of_another_host_is_not_taken_before_its_clock_is_known_and_then_dated_in_ours(line: Line) -> None:
    line.receiver.clock = np.zeros(5)
    head = line.reader.head
    assert line.send(GOLDEN) == "undated"
    assert line.reader.head == head
    # (known, reference, offset, drift, bound): theirs is 1000 s ahead, and 100 us a second faster
    line.receiver.clock = np.array([1.0, 0.0, 1e12, 1e-4, 1e3])
    assert line.send(GOLDEN) == "blocks"
    found = line.reader.newest()
    for key, theirs in zip(("t_ns", "pushed_ns", "sent_ns"), GOLDEN_ROW[2:5], strict=True):
        ours = (theirs - 10**12) / 1.0001
        assert abs(found[key] - ours) < 1e-8 * ours + 2  # the drift is counted once, not its own drift too


@pytest.mark.parametrize("seq,epoch", [(2**63, 1), (2**64 - 1, 1), (0, 2**32), (0, 2**63), (0, 2**64 - 1)])
@pytest.mark.parametrize("by_hand", [False, True])
def test_a_number_no_producer_counts_to_is_malformed(line: Line, seq: int, epoch: int, by_hand: bool) -> None:
    row = (seq, epoch, *GOLDEN_ROW[2:])
    data = msgpack.packb(plain(line.layout, row)) if by_hand else write(line.layout, row)
    assert line.send(data) == "malformed"
    assert line.sound()


junk = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), st.floats(), st.text(max_size=5),
        st.binary(max_size=5), st.sampled_from((0, 1, -1, 2**15, 2**31, 2**32, 2**63)),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)),
    max_leaves=5,
)  # fmt: skip


@st.composite
def spoiled(draw: st.DrawFn) -> bytes:
    """Something between a message of the car and noise."""
    kind = draw(st.sampled_from(("noise", "junk", "values", "bytes", "keys")))
    if kind == "noise":
        return draw(st.binary(max_size=200))
    if kind == "junk":
        return msgpack.packb(draw(junk))
    if kind == "bytes":
        data = bytearray(GOLDEN)
        for _ in range(draw(st.integers(1, 4))):
            data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
        cut, end = draw(st.integers(0, len(data))), draw(st.binary(max_size=4))
        return bytes(data) if draw(st.booleans()) else bytes(data[:cut]) + end
    message = msgpack.unpackb(GOLDEN)
    for key in draw(st.lists(st.sampled_from(list(message)), min_size=1, max_size=4, unique=True)):
        if kind == "keys":
            message[draw(st.text(max_size=8))] = message.pop(key)
        else:
            message[key] = draw(junk)
    return msgpack.packb(message)


@given(data=spoiled())
@settings(PROPERTY, max_examples=few(600), suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(data=b"")
def test_nothing_that_comes_down_the_line_stops_a_receiver(line: Line, data: bytes) -> None:
    line.send(data)
    assert line.sound()


@given(data=spoiled())
@settings(PROPERTY, max_examples=few(600), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_decoding_raises_nothing_but_malformed(car: Layout, data: bytes) -> None:
    try:
        row = decoded(car, data)
    except MALFORMED:
        return
    if row is not None:  # then it did say so
        message = msgpack.unpackb(data)
        assert row == unreceived((*(message[key] for key in KEYS[2:]), 0, *(message[name] for name in car.names)))
