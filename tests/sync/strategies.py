"""What the property-based tests draw: layouts, blocks, and settings that leave no files behind."""

from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from sync.ring.block import TYPES, Channel, Layout

PROPERTY = settings(deadline=None, database=None)

# limits written out by hand: numpy and struct are what they are compared with
LIMITS = {
    "i2": (-(2**15), 2**15 - 1),
    "u2": (0, 2**16 - 1),
    "i4": (-(2**31), 2**31 - 1),
    "u4": (0, 2**32 - 1),
    "i8": (-(2**63), 2**63 - 1),
    "u8": (0, 2**64 - 1),
}

names = st.text("abcxyz_09", min_size=1, max_size=6).map("n".__add__)  # none of these is reserved


def channels(types: tuple[str, ...] = tuple(TYPES)) -> st.SearchStrategy[Channel]:
    return st.builds(
        Channel, names, st.sampled_from(types), st.text(max_size=8), st.integers(min_value=-(10**9), max_value=0)
    )


def layouts(types: tuple[str, ...] = tuple(TYPES), most: int = 12) -> st.SearchStrategy[Layout]:
    rows = st.lists(channels(types), min_size=1, max_size=most, unique_by=lambda channel: channel.name)
    return rows.map(lambda some: Layout(tuple(some)))


def values(kind: str) -> st.SearchStrategy[Any]:
    """Any value a channel of this type can have; extremes often."""
    if kind[0] == "f":
        return st.floats(width=8 * int(kind[1]))
    low, high = LIMITS[kind]
    return st.one_of(st.sampled_from((low, high, 0)), st.integers(low, high))


@st.composite
def blocks(draw: st.DrawFn, some: st.SearchStrategy[Layout] | None = None) -> tuple[Layout, tuple[Any, ...]]:
    """A layout and the values of a block of it: the six of the header, then the channels."""
    layout = draw(some or layouts())
    instants = st.integers(-(2**63), 2**63 - 1)
    header = (
        draw(st.integers(0, 2**63 - 1)),
        draw(st.integers(0, 2**32 - 1)),
        *(draw(instants) for _ in range(4)),
    )
    return layout, header + tuple(draw(values(channel.type)) for channel in layout.channels)


def words_of(layout: Layout, row: tuple[Any, ...]) -> np.ndarray:
    return np.frombuffer(layout.struct.pack(*row), np.int64).copy()
