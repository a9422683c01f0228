"""The rows of `[inputs]` as compiled code reads them: `rows` makes it from a configuration and a machine's inputs."""

import math
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from sim_service.inputs.stale import WORDS, policy
from sync.compile import array_types
from sync.compile.array_types import MATRIX, VECTOR, WORDS_2D, group
from sync.config.input_rows import KINDS, Row, order_of
from sync.errors import ConfigError
from sync.ring.block import AGE, Layout
from sync.signals import estimators

# kinds that need more than a conversion (sync/config/input_rows.py)
ENCODER, FUSED, MEASUREMENT, SUM, CONSTANT = (
    list(KINDS).index(kind) for kind in ("encoder", "fused", "measurement", "sum", "constant")
)
# entries of a row: its kind; its two sources (a channel by its place, a row by its number; -1: none); which channels
# with an age it depends on, itself or through other rows (bits); where its three results go (-1: nowhere)
KIND, CHANNEL_A, CHANNEL_B, ROW_A, ROW_B, AGED, TO, TO_END = 0, 1, 2, 3, 4, 5, 6, 9
# a row's numbers: limits, where a value is reported as beyond them, from which age it is stale, its policy; then those
# of its kind
LEAST, MOST, BELOW, ABOVE, LIMIT_NS, POLICY = range(6)
OWN = POLICY + WORDS
_NUMBERS = OWN + 1 + estimators.PARAMETERS
MEMORY = estimators.MEMORY
_NO_AGE = np.zeros(4, np.int64)


class Quantity(Protocol):
    """The part of a machine's input that is needed here."""

    @property
    def name(self) -> str: ...
    @property
    def unit(self) -> str: ...
    @property
    def optional(self) -> bool: ...


class Rows(NamedTuple):
    """Constant but for `memory`, `values` and `clipped`."""

    table: np.ndarray  # a row each, as above
    order: np.ndarray  # of computation: every row behind those it reads
    channels: np.ndarray  # rows of the block's layout that are read; then those of their ages, of 0 bits without one
    numbers: np.ndarray
    memory: np.ndarray  # of estimators and filters; zeros at the start, and again after a gap
    rest: np.ndarray  # the machine's inputs before any row is written: NaN
    values: np.ndarray  # value, rate and acceleration of each at this step, before its policy
    clipped: np.ndarray  # the last value of each that had to be clipped; NaN: none so far, inf: it was not finite


ROWS = group(Rows, WORDS_2D, array_types.WORDS, WORDS_2D, MATRIX, MATRIX, VECTOR, MATRIX, VECTOR)


def check_rows(configured: dict[str, Row], layout: Layout, machine: Sequence[Quantity], file: str = "") -> None:
    """These rows must give the machine what it needs, and nothing else; raises ConfigError, naming `file`, if not."""
    where = f"{file}: " if file else ""
    units = {q.name: q.unit for q in machine}
    for name, row in configured.items():
        for channel in row.channels:
            if channel not in layout.names:
                raise ConfigError(
                    f"{where}inputs.{name} reads the channel {channel}; daq.channels has {', '.join(layout.names)}"
                )
        for to in filter(None, row.to):
            if to not in units:
                raise ConfigError(
                    f"{where}inputs.{name}.to: {to} is no input of the machine, which has {', '.join(units)}"
                )
        if row.to and row.to[0] and units[row.to[0]] != row.machine_unit:
            right = repr(units[row.to[0]])
            right += f" or {right.replace('rad', 'deg')}" * right.startswith("'rad")
            raise ConfigError(f"{where}inputs.{name}.unit = {row.unit!r}: for {row.to[0]} it must be {right}")
    written = {to for row in configured.values() for to in row.to}
    missing = [q.name for q in machine if not q.optional and q.name not in written]
    if missing:
        raise ConfigError(f"{where}inputs: no row has {', '.join(missing)} in its `to`, which the machine needs")


def rows(
    configured: dict[str, Row],
    layout: Layout,
    machine: Sequence[Quantity],
    step_s: float,
    period_s: float,
    stale_after_ms: float,
) -> Rows:
    """`machine`: its inputs."""
    inputs = [q.name for q in machine]
    check_rows(configured, layout, machine)
    names = list(configured)
    read = list(dict.fromkeys(channel for row in configured.values() for channel in row.channels))
    by_name = dict(zip(layout.names, layout.table, strict=True))
    table = np.full((len(configured), TO_END), -1, np.int64)
    numbers = np.zeros((len(configured), _NUMBERS))
    kinds = list(KINDS)
    order = order_of(configured)
    depends: dict[str, int] = {}
    for name in order:
        row = configured[name]
        at = table[names.index(name)]
        at[KIND] = kinds.index(row.kind)
        for place, channel in enumerate(row.channels):
            at[CHANNEL_A + place] = read.index(channel)
        for place, other in enumerate(row.rows):
            at[ROW_A + place] = names.index(other)
        depends[name] = 0
        for channel in row.channels:
            depends[name] |= (channel + AGE in by_name) << read.index(channel)
        for other in row.rows:
            depends[name] |= depends[other]
        at[AGED] = depends[name]
        at[TO : TO + len(row.to)] = [inputs.index(to) if to else -1 for to in row.to]
        par = numbers[names.index(name)]
        par[LEAST] = -math.inf if row.least is None else row.in_si(row.least)
        par[MOST] = math.inf if row.most is None else row.in_si(row.most)
        par[BELOW] = par[LEAST] - row.in_si(row.tolerance_below)
        par[ABOVE] = par[MOST] + row.in_si(row.tolerance_above)
        par[LIMIT_NS] = round(stale_after_ms * 1e6) if row.channels or row.rows else math.inf
        par[POLICY : POLICY + WORDS] = policy(row.stale, row.in_si(row.stale.safe))
        own = row.numbers(step_s, period_s)
        par[OWN : OWN + len(own)] = own
    ages = [by_name.get(channel + AGE, _NO_AGE) for channel in read]
    channels = np.stack([by_name[channel] for channel in read] + ages) if read else np.zeros((0, 4), np.int64)
    return Rows(
        table, np.array([names.index(n) for n in order], np.int64), np.ascontiguousarray(channels), numbers,
        np.zeros((len(configured), MEMORY)), np.full(len(inputs), math.nan), np.zeros((len(configured), 3)),
        np.full(len(configured), math.nan),
    )  # fmt: skip
