"""A block's bytes are those a C compiler would lay out, whichever of our three ways reads them."""

import dataclasses
import math
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sync.config.config import load
from sync.ring.block import HEADER, PAYLOAD, Channel, Layout
from sync.ring.block_values import get_integer, put_integer
from tests.examples import few
from tests.sync.actors import ROOT
from tests.sync.strategies import LIMITS, PROPERTY, blocks, channels, layouts, names, values, words_of

DRIVE = load(ROOT / "configs" / "drive.toml").daq.layout
C_TYPES = {
    "i2": "int16_t", "u2": "uint16_t", "i4": "int32_t", "u4": "uint32_t",
    "i8": "int64_t", "u8": "uint64_t", "f4": "float", "f8": "double",
}  # fmt: skip


def same(a: Any, b: Any) -> bool:
    return a == b or (math.isnan(a) and math.isnan(b))


def test_the_cars_payload_is_eight_bytes_brake_throttle_steering() -> None:
    assert DRIVE.names == ("brake", "throttle", "steering")
    assert DRIVE.offsets == (0, 2, 4)
    assert DRIVE.payload_bytes == 8
    assert DRIVE.words == 7
    packed = DRIVE.struct.pack(1, 2, 3, 4, 5, 6, -2, 0x1234, -3)
    assert packed[8 * PAYLOAD :] == b"\xfe\xff\x34\x12\xfd\xff\xff\xff"
    assert packed[: 8 * PAYLOAD] == struct.pack("<6q", 1, 2, 3, 4, 5, 6)


def test_the_cars_block_and_its_stamp_fill_one_cache_line() -> None:
    assert 8 * (1 + DRIVE.words) == 64


def test_the_cars_channels_say_unit_and_skew() -> None:
    assert [c.unit for c in DRIVE.channels] == ["count"] * 3
    assert [c.skew_ns for c in DRIVE.channels] == [-200_000, 0, 0]


@given(layouts())
@PROPERTY
def test_offsets_are_those_of_an_aligned_numpy_record(layout: Layout) -> None:
    aligned = np.dtype([(c.name, c.type) for c in layout.channels], align=True)
    assert layout.offsets == tuple(aligned.fields[name][1] for name in layout.names)
    assert layout.payload_bytes <= aligned.itemsize  # which is padded to its widest member
    assert 8 * (layout.words - PAYLOAD) == -(-aligned.itemsize // 8) * 8


def test_offsets_are_those_of_the_c_compiler(tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler here")
    random = np.random.default_rng(1)
    some = [
        Layout(tuple(Channel(f"c{i}", str(kind)) for i, kind in enumerate(random.choice(list(C_TYPES), size))))
        for size in random.integers(1, 20, 50)
    ]
    program = "#include <stddef.h>\n#include <stdint.h>\n#include <stdio.h>\nint main(void) {\n"
    for k, layout in enumerate(some):
        members = " ".join(f"{C_TYPES[c.type]} {c.name};" for c in layout.channels)
        program += f"struct s{k} {{ {members} }};\n"
        program += "".join(f'printf("%zu ", offsetof(struct s{k}, {name}));\n' for name in layout.names)
        program += 'puts("");\n'
    (tmp_path / "offsets.c").write_text(program + "return 0; }\n")
    subprocess.run([compiler, "-o", tmp_path / "offsets", tmp_path / "offsets.c"], check=True)
    said = subprocess.run([tmp_path / "offsets"], check=True, capture_output=True, text=True).stdout
    assert [tuple(map(int, line.split())) for line in said.splitlines()] == [layout.offsets for layout in some]


@given(blocks())
@PROPERTY
def test_struct_and_dtype_agree(drawn: tuple[Layout, tuple[Any, ...]]) -> None:
    layout, row = drawn
    words = words_of(layout, row)
    assert words.size == layout.words
    record = layout.view(words[None])[0]
    assert layout.dtype.names == (*HEADER, *layout.names)
    assert all(same(a, b) for a, b in zip(record.item(), row, strict=True))
    assert all(same(a, b) for a, b in zip(layout.struct.unpack(words.tobytes()), row, strict=True))


@given(blocks())
@PROPERTY
def test_nopython_code_reads_what_struct_has_packed(drawn: tuple[Layout, tuple[Any, ...]]) -> None:
    layout, row = drawn
    words = words_of(layout, row)
    for channel, entry, value in zip(layout.channels, layout.table, row[PAYLOAD:], strict=True):
        if channel.type[0] == "f":
            continue
        expected = value - 2**64 if value >= 2**63 else value  # a word is signed
        assert get_integer(words, entry) == expected


SMALL = ("i2", "u2", "i4", "u4")


@st.composite
def wishes(draw: st.DrawFn) -> tuple[Layout, list[int]]:
    """A layout and a value for each channel, in or out of its range."""
    layout = draw(layouts(SMALL))
    edges = [edge + more for limits in LIMITS.values() for edge in limits for more in (-1, 0, 1)]
    wanted = st.one_of(
        st.sampled_from([e for e in edges if -(2**63) <= e < 2**63]), st.integers(-(2**63), 2**63 - 1), values("i2")
    )
    return layout, [draw(wanted) for _ in layout.channels]


@given(wishes())
@PROPERTY
def test_nopython_code_writes_what_struct_unpacks_saturated_and_says_so(drawn: tuple[Layout, list[int]]) -> None:
    layout, wanted = drawn
    words = np.zeros(layout.words, np.int64)
    saturated = [bool(put_integer(words, entry, value)) for entry, value in zip(layout.table, wanted, strict=True)]
    limits = [LIMITS[channel.type] for channel in layout.channels]
    kept = [min(max(value, low), high) for value, (low, high) in zip(wanted, limits, strict=True)]
    assert list(layout.struct.unpack(words.tobytes())[PAYLOAD:]) == kept
    assert saturated == [k != w for k, w in zip(kept, wanted, strict=True)]
    # beside the channels nothing was written
    assert words.tobytes() == layout.struct.pack(*[0] * PAYLOAD, *kept)


@given(layouts())
@PROPERTY
def test_text_gives_the_layout_back(layout: Layout) -> None:
    again = Layout.from_text(layout.text)
    assert again == layout
    assert (again.id, again.hash) == (layout.id, layout.hash)


@given(layouts())
@PROPERTY
def test_both_names_of_a_layout_are_the_same_digits(layout: Layout) -> None:
    assert len(layout.id) == 16
    assert struct.pack(">q", layout.hash).hex() == layout.id


@given(layouts(), layouts())
@PROPERTY
def test_the_hash_is_equal_exactly_for_equal_layouts(one: Layout, other: Layout) -> None:
    assert (one.hash == other.hash) == (one == other)


@given(st.data(), layouts())
@settings(PROPERTY, max_examples=few(200))
def test_the_hash_differs_when_any_one_thing_differs(data: st.DataObject, layout: Layout) -> None:
    at = data.draw(st.integers(0, len(layout.channels) - 1))
    old = layout.channels[at]
    field = data.draw(st.sampled_from(("name", "type", "unit", "skew_ns", "order", "more", "less")))
    rows = list(layout.channels)
    if field == "order":
        rows = data.draw(st.permutations(rows))
    elif field == "more":
        rows.insert(at, data.draw(channels()))
    elif field == "less":
        assume(len(rows) > 1)
        del rows[at]
    else:
        new = {
            "name": names,
            "type": st.sampled_from(list(C_TYPES)),
            "unit": st.text(max_size=8),
            "skew_ns": st.integers(-(10**9), 0),
        }[field]
        rows[at] = dataclasses.replace(old, **{field: data.draw(new)})
    changed = Layout(tuple(rows))
    assume(changed != layout)
    assert changed.hash != layout.hash
