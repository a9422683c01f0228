"""Inputs: the raw counts of a block become the inputs of a machine, by the rows of a table. Nothing else converts.

A row (sync/config/input_rows.py defines its configuration) reads channels or other rows, converts
(sim_service/inputs/conversions.py), is clipped to its limits, follows its policy when it is stale
(sim_service/inputs/stale.py), and is written into the machine's inputs. Nothing here knows what a row is called, or
what machine it serves. A measurement is never stale: the machine gets its age with it. That age is relative to the
block's instant, which is also that of the step's other inputs, and grows by a step for every step without a new block.

Rates and accelerations of an encoder are estimated (sync/signals/estimators.py), at every step or from every
block. A gap (new epoch) restarts an estimator: nothing is differentiated across it. A value that several blocks repeat
(from a bus slower than the blocks) is observed once, at the instant its age gives. A row reads another row's result
from before that row's policy: each policy is for the row's own result.

Every input is finite and within its row's limits: a value that is not is clipped and reported.
"""

import math

import numpy as np

from sim_service.inputs.conversions import convert, encoder, fused
from sim_service.inputs.stages import BITS, FRESH, MASK
from sim_service.inputs.stale import stale_value
from sim_service.inputs.table import (
    ABOVE,
    AGED,
    BELOW,
    CHANNEL_A,
    CHANNEL_B,
    CONSTANT,
    ENCODER,
    FUSED,
    KIND,
    LEAST,
    LIMIT_NS,
    MEASUREMENT,
    MOST,
    OWN,
    POLICY,
    ROW_A,
    ROW_B,
    SUM,
    TO,
)
from sync.compile.jit import kernel
from sync.ring.block import EPOCH, SEQ, T
from sync.signals.estimators import from_counts, observe


@kernel()
def _integer(block, channels, at):
    """One integer channel of a block, as `get_integer` reads it, without a slice of the table."""
    bits = channels[at, 2]
    left = block[channels[at, 0]] << (64 - channels[at, 1] - bits)
    if channels[at, 3] == 0:
        return left >> (64 - bits)
    return np.int64(np.uint64(left) >> np.uint64(64 - bits))


@kernel()
def _age_ns(block, channels, aged):
    """By how much the oldest of these channels is older than the block's instant. `aged`: bits of those with an age."""
    oldest_us, channel = np.int64(0), channels.shape[0] // 2
    while aged > 0:
        if aged & 1:
            oldest_us = max(oldest_us, _integer(block, channels, channel))
        aged >>= 1
        channel += 1
    return oldest_us * 1000


@kernel()
def oldest(block, rows):
    """(row, ns): the row whose channels are the oldest, and by how much they are older than the block."""
    table, channels = rows.table, rows.channels
    found, most = 0, np.int64(0)
    for row in range(table.shape[0]):
        if table[row, KIND] == MEASUREMENT:
            continue
        age = _age_ns(block, channels, table[row, AGED])
        if age > most:
            found, most = row, age
    return found, most


@kernel()
def forget(rows):
    """Reset every row: what comes now does not continue what came before."""
    rows.memory[:, :] = 0.0


@kernel()
def forget_what_was_stale(block, age_ns, stages, rows):
    """Reset each row that was stale at the last step and is fresh with this new block. While a row stays stale, it is
    extrapolated with its last rate."""
    if stages == 0:
        return
    for row in range(rows.table.shape[0]):
        if rows.table[row, KIND] == MEASUREMENT:
            continue
        fresh = age_ns + _age_ns(block, rows.channels, rows.table[row, AGED]) <= rows.numbers[row, LIMIT_NS]
        if fresh and stages >> (BITS * row) & MASK != FRESH:
            rows.memory[row, :] = 0.0


@kernel()
def observe_block(block, rows):
    """Every block passes here once, in order."""
    table, channels = rows.table, rows.channels
    for row in range(table.shape[0]):
        if table[row, KIND] == ENCODER:
            t_ns = block[T] - _age_ns(block, channels, table[row, AGED])
            counts = _integer(block, channels, table[row, CHANNEL_A])
            observe(rows.memory[row], rows.numbers[row, OWN + 1 :], t_ns, counts)


@kernel()
def _steps_held(block, memory, row):
    """For a measurement: how many steps before this one had the same block."""
    same = memory[row, 0] == 1.0 and memory[row, 1] == block[SEQ] and memory[row, 2] == block[EPOCH]
    memory[row, 3] = memory[row, 3] + 1.0 if same else 0.0
    memory[row, 0], memory[row, 1], memory[row, 2] = 1.0, block[SEQ], block[EPOCH]
    return memory[row, 3]


@kernel()
def _convert(block, h, row, table, channels, numbers, memory, values):
    """(value, rate, acceleration) of the row."""
    kind, source = table[row, KIND], table[row, ROW_A]
    if kind == ENCODER:
        counts = _integer(block, channels, table[row, CHANNEL_A])
        return encoder(numbers, row, memory, block[T], counts, h)
    if kind == CONSTANT:
        return numbers[row, OWN], 0.0, 0.0
    if kind == SUM:
        other, a, b = table[row, ROW_B], numbers[row, OWN], numbers[row, OWN + 1]
        return (
            a * values[source, 0] + b * values[other, 0],
            a * values[source, 1] + b * values[other, 1],
            a * values[source, 2] + b * values[other, 2],
        )
    if source >= 0:
        x, xd, xdd = values[source, 0], values[source, 1], values[source, 2]
    else:
        x, xd, xdd = float(_integer(block, channels, table[row, CHANNEL_A])), 0.0, 0.0
    if kind == FUSED:
        return fused(numbers, row, memory, x, values[table[row, ROW_B], 0], h)
    second = float(_integer(block, channels, table[row, CHANNEL_B])) if table[row, CHANNEL_B] >= 0 else 0.0
    return convert(kind, numbers, row, x, xd, xdd, second)


@kernel()
def make_inputs(block, age_ns, h, rows, inputs):
    """(stages of the rows, which of them had to be clipped), as words; fills the machine's inputs."""
    table, channels, numbers, memory, values = rows.table, rows.channels, rows.numbers, rows.memory, rows.values
    stages = clipped = np.int64(0)
    for i in range(inputs.size):
        inputs[i] = rows.rest[i]
    for k in range(rows.order.size):
        row = rows.order[k]
        value, rate, acceleration = _convert(block, h, row, table, channels, numbers, memory, values)

        # limits
        if not math.isfinite(value + rate + acceleration):
            memory[row, :] = 0.0  # there is no valid value to go on from
            value = rate = acceleration = 0.0
            if table[row, KIND] == ENCODER:
                counts = _integer(block, channels, table[row, CHANNEL_A])
                value = from_counts(numbers[row, OWN + 1 :], counts) - numbers[row, OWN]
            clipped |= np.int64(1) << row
            rows.clipped[row] = math.inf
        least, most = numbers[row, LEAST], numbers[row, MOST]
        if value < numbers[row, BELOW] or value > numbers[row, ABOVE]:
            clipped |= np.int64(1) << row
            rows.clipped[row] = value
        if value < least or value > most:
            rate = acceleration = 0.0
        value = min(max(value, least), most)
        values[row, 0], values[row, 1], values[row, 2] = value, rate, acceleration

        # age
        if table[row, KIND] == MEASUREMENT:
            if table[row, TO] >= 0:
                inputs[table[row, TO]] = value
            held = _steps_held(block, memory, row)
            if table[row, TO + 1] >= 0:
                inputs[table[row, TO + 1]] = 1e-9 * _age_ns(block, channels, table[row, AGED]) + held * h
            continue
        since = age_ns - numbers[row, LIMIT_NS] + _age_ns(block, channels, table[row, AGED])
        if since > 0.0:
            value, rate, stage = stale_value(value, rate, since, numbers[row, POLICY:])
            acceleration = 0.0
            stages |= np.int64(stage) << (BITS * row)

        if table[row, TO] >= 0:
            inputs[table[row, TO]] = value
        if table[row, TO + 1] >= 0:
            inputs[table[row, TO + 1]] = rate
        if table[row, TO + 2] >= 0:
            inputs[table[row, TO + 2]] = acceleration
    return stages, clipped
