"""Counters that wrap, against Python's integers, which do not."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daq_service.counters import BITS, LIMIT, TOTAL, counter_table, unwrap
from sync.config.config import ChannelConfig
from tests.examples import few


def counter(bits: int, max_counts_per_s: float | None = None, rate_hz: float = 1000.0) -> np.ndarray:
    channel = ChannelConfig(name="wheel", type="i4", counter_bits=bits, max_counts_per_s=max_counts_per_s)
    return counter_table([channel], rate_hz)[0]


@st.composite
def drives(draw: st.DrawFn) -> tuple[int, list[int]]:
    """Bits of a register, and the true counts at every scan: moves of less than half the range, from anywhere."""
    bits = draw(st.integers(8, 32))
    most = (1 << (bits - 1)) - 1
    moves = draw(st.lists(st.integers(-most, most), max_size=60))
    counts = [draw(st.integers(-(1 << 40), 1 << 40))]
    for move in moves:
        counts.append(counts[-1] + move)
    return bits, counts


def totals(row: np.ndarray, registers: list[int]) -> tuple[list[int], int]:
    """(the running count after every reading, how many moves were called implausible)."""
    out, implausible = [], 0
    for register in registers:
        implausible += int(unwrap(row, register))
        out.append(int(row[TOTAL]))
    return out, implausible


@settings(max_examples=few(200), deadline=None, derandomize=True)
@given(drives())
def test_unwrapped_count_is_the_true_count_relative_to_the_first_reading(drive: tuple[int, list[int]]) -> None:
    bits, counts = drive
    found, implausible = totals(counter(bits), [count % (1 << bits) for count in counts])
    assert found == [count - counts[0] for count in counts]
    assert implausible == 0  # without a limit, nothing an encoder does is implausible


@settings(max_examples=few(50), deadline=None, derandomize=True)
@given(drives())
def test_signed_registers_say_the_same_as_unsigned_ones(drive: tuple[int, list[int]]) -> None:
    bits, counts = drive
    half = 1 << (bits - 1)
    signed = [(count + half) % (2 * half) - half for count in counts]
    assert totals(counter(bits), signed)[0] == [count - counts[0] for count in counts]


@pytest.mark.parametrize("bits", range(8, 33))
@pytest.mark.parametrize("direction", [1, -1])
def test_several_turns_of_the_register_change_nothing(bits: int, direction: int) -> None:
    stride = (1 << bits) // 3
    counts = [direction * stride * k for k in range(20)]  # more than six times round
    assert totals(counter(bits), [count % (1 << bits) for count in counts])[0] == counts


def test_first_reading_counts_nothing_wherever_the_register_stands() -> None:
    for register in (0, 1, 32767, 32768, 65535):
        assert totals(counter(16, 8000.0), [register]) == ([0], 0)


@settings(max_examples=few(100), deadline=None, derandomize=True)
@given(
    st.lists(st.integers(-30, 30), max_size=100),
    st.floats(1.0, 20_000.0),
    st.integers(0, 65535),
)
def test_implausible_moves_are_counted_exactly_and_applied(moves: list[int], fastest: float, start: int) -> None:
    counts = [start, *(start + int(c) for c in np.cumsum(moves))]
    found, implausible = totals(counter(16, fastest, 1000.0), [count % 65536 for count in counts])
    assert implausible == sum(abs(move) > round(fastest / 1000.0) + 1 for move in moves)
    assert found == [count - start for count in counts]


def test_fastest_move_a_channel_allows_is_still_plausible() -> None:
    """8000 counts a second are 8 a millisecond; sampling a continuous motion on a grid of counts can add one."""
    _, implausible = totals(counter(16, 8000.0), [100, 109, 100])
    assert implausible == 0
    _, implausible = totals(counter(16, 8000.0), [100, 110, 100])
    assert implausible == 2


def test_only_channels_with_counter_bits_are_counters() -> None:
    channels = [ChannelConfig(name="brake", type="i2"), ChannelConfig(name="wheel", type="i4", counter_bits=12)]
    table = counter_table(channels, 1000.0)
    assert table[:, BITS].tolist() == [0, 12]
    assert table[1, LIMIT] == 1 << 11
