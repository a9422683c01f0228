"""Inputs: raw counts of a block into the inputs of a machine, by the rows of a table. The one place of conversion.

A row (sync/input_rows.py says what a configuration may say of it) reads channels or other rows, converts
(sim_service/inputs/conversions.py), is clipped to its limits, goes the way of its policy when it is stale
(sim_service/inputs/stale.py), and is written into the machine's inputs. Nothing here knows what a row is called, or
what machine it serves.

Rates and accelerations of an encoder are estimated (sim_service/inputs/estimators.py), at every step or from every
block. A gap (new epoch) restarts an estimator: nothing is differentiated across it. A value that was held for some
blocks (a bus slower than they are) is observed once, at the instant its age tells. A row reads what another row makes
before its age makes something of it: each row's policy is for its own result.

Every input is finite, and none is beyond its row's limits: what is, is clipped and reported.
"""

import math

import numpy as np

from sim_service.inputs.conversions import affine, arctangent, encoder, fused, hall_pair, polynomial, voice_coil
from sim_service.inputs.estimators import from_counts, observe
from sim_service.inputs.stages import BITS, FRESH, MASK
from sim_service.inputs.stale import stale_value
from sim_service.inputs.table import (
    ABOVE,
    AFFINE,
    ARCTANGENT,
    BELOW,
    CHANNEL_A,
    CHANNEL_B,
    DEPENDS,
    ENCODER,
    HALL_PAIR,
    KIND,
    LEAST,
    LIMIT_NS,
    MOST,
    OWN,
    POLICY,
    POLYNOMIAL,
    ROW_A,
    ROW_B,
    TO,
    VOICE_COIL,
)
from sync.block import T
from sync.block_values import get_integer
from sync.jit import kernel


@kernel()
def _age_ns(block, rows, row):
    """How much older than the block's instant the oldest value is that this row depends on."""
    count, oldest_us = rows.channels.shape[0] // 2, np.int64(0)
    for channel in range(count):
        field = rows.channels[count + channel]
        if rows.table[row, DEPENDS] >> channel & 1 and field[2] > 0:
            oldest_us = max(oldest_us, get_integer(block, field))
    return oldest_us * 1000


@kernel()
def oldest(block, rows):
    """(the row, by how much) of what is older than the block than the others."""
    found = 0
    for row in range(1, rows.table.shape[0]):
        if _age_ns(block, rows, row) > _age_ns(block, rows, found):
            found = row
    return found, _age_ns(block, rows, found) if rows.table.shape[0] > 0 else np.int64(0)


@kernel()
def forget(rows):
    """What comes is no continuation of what was."""
    rows.memory[:, :] = 0.0


@kernel()
def forget_what_was_stale(block, age_ns, stages, rows):
    """A row that was stale at the last step, and is fresh with this new block, begins anew. While it stays old, its
    last rate is what an extrapolation goes on with."""
    for row in range(rows.table.shape[0]):
        fresh = age_ns + _age_ns(block, rows, row) <= rows.numbers[row, LIMIT_NS]
        if fresh and stages >> (BITS * row) & MASK != FRESH:
            rows.memory[row, :] = 0.0


@kernel()
def observe_block(block, rows):
    """Every block passes here once, in order."""
    for row in range(rows.table.shape[0]):
        if rows.table[row, KIND] == ENCODER:
            counts = get_integer(block, rows.channels[rows.table[row, CHANNEL_A]])
            observe(rows.memory[row], rows.numbers[row, OWN + 1 :], block[T] - _age_ns(block, rows, row), counts)


@kernel()
def _counts(block, rows, row, which):
    return get_integer(block, rows.channels[rows.table[row, which]])


@kernel()
def _convert(block, h, rows, row, x):
    """Fills the row's values. `x` is room for what it reads."""
    what, own, out = rows.table[row], rows.numbers[row, OWN:], rows.values[row]
    kind = what[KIND]
    if what[ROW_A] >= 0:
        x[:] = rows.values[what[ROW_A]]
    else:
        x[0], x[1], x[2] = float(_counts(block, rows, row, CHANNEL_A)), 0.0, 0.0
    if kind == AFFINE:
        affine(own, x, out)
    elif kind == ENCODER:
        encoder(own, rows.memory[row], block[T], _counts(block, rows, row, CHANNEL_A), h, out)
    elif kind == POLYNOMIAL:
        polynomial(own, x, out)
    elif kind == HALL_PAIR:
        hall_pair(own, x[0], float(_counts(block, rows, row, CHANNEL_B)), out)
    elif kind == ARCTANGENT:
        arctangent(own, x, out)
    elif kind == VOICE_COIL:
        voice_coil(own, x[0], out)
    else:
        fused(own, rows.memory[row], x[0], rows.values[what[ROW_B], 0], h, out)


@kernel()
def _limit(block, rows, row):
    """Clips the row's values; whether they had to be."""
    par, out = rows.numbers[row], rows.values[row]
    clipped = False
    if not math.isfinite(out[0] + out[1] + out[2]):
        rows.memory[row, :] = 0.0  # it has nothing to go on from
        out[0], out[1], out[2], clipped = 0.0, 0.0, 0.0, True
        if rows.table[row, KIND] == ENCODER:
            out[0] = from_counts(par[OWN + 1 :], _counts(block, rows, row, CHANNEL_A)) - par[OWN]
    value = out[0]
    clipped |= value < par[BELOW] or value > par[ABOVE]
    out[0] = min(max(value, par[LEAST]), par[MOST])
    if value < par[LEAST] or value > par[MOST]:
        out[1] = out[2] = 0.0
    return clipped


@kernel()
def make_inputs(block, age_ns, h, rows, inputs):
    """(stages of the rows, which of them had to be clipped), as words; fills the machine's inputs."""
    stages = clipped = np.int64(0)
    inputs[:] = rows.rest
    x = rows.values[rows.table.shape[0]]
    for k in range(rows.order.size):
        row = rows.order[k]
        par, out, to = rows.numbers[row], rows.values[row], rows.table[row, TO:]
        _convert(block, h, rows, row, x)
        if _limit(block, rows, row):
            clipped |= np.int64(1) << row
        since = age_ns - par[LIMIT_NS] + _age_ns(block, rows, row)
        value, rate, stage = stale_value(out[0], out[1], since, par[POLICY:])
        stages |= np.int64(stage) << (BITS * row)
        if to[0] >= 0:
            inputs[to[0]] = value
        if to[1] >= 0:
            inputs[to[1]] = rate
        if to[2] >= 0:
            inputs[to[2]] = out[2] if stage == FRESH else 0.0
    return stages, clipped
