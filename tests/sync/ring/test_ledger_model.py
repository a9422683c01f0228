"""A table of histograms against plain lists: whatever is recorded, in whatever order, also while others look.

The lists keep every sample; what a histogram must say of them follows by sorting. A balance of blocks is kept beside
it, each number by a counter of its own.
"""

import math
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from sync.ring.ledger import BUCKETS, Balance, histograms, quantiles, record, summary_us
from tests.examples import few
from tests.sync.strategies import PROPERTY

ROWS = 3
LAST = 2**35  # ns; from here on all times share a bucket
rows = st.integers(0, ROWS - 1)
times = st.one_of(
    st.integers(0, 200), st.integers(0, 10**10), st.integers(6, 35).map(lambda p: 2**p), st.integers(LAST, 2**45)
)
fractions = st.sampled_from(("0", "0.001", "0.25", "0.5", "0.9", "0.999", "1"))


class LedgerMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.table = histograms(ROWS)
        self.samples: list[list[int]] = [[] for _ in range(ROWS)]
        self.negative = [0] * ROWS
        self.produced = self.used = self.superseded = self.lost = 0

    @rule(row=rows, samples=st.lists(times, min_size=1, max_size=5))
    def measure(self, row: int, samples: list[int]) -> None:
        for sample in samples:
            record(self.table[row], sample)
        self.samples[row] += samples

    @rule(row=rows, wrong=st.integers(-(2**63), -1))
    def measure_with_two_clocks(self, row: int, wrong: int) -> None:
        record(self.table[row], wrong)
        self.negative[row] += 1

    @rule(row=rows)
    def restart(self, row: int) -> None:
        self.table[row] = 0
        self.samples[row], self.negative[row] = [], 0

    @rule(blocks=st.integers(1, 50), lost=st.integers(0, 3))
    def step(self, blocks: int, lost: int) -> None:
        """Of the blocks that came the step uses the newest."""
        self.produced += blocks + lost
        self.used, self.superseded, self.lost = self.used + 1, self.superseded + blocks - 1, self.lost + lost

    @rule(row=rows, fraction=fractions)
    def ask(self, row: int, fraction: str) -> None:
        (told,) = quantiles(self.table[row], (float(fraction),))
        if not self.samples[row]:
            assert told == 0.0
            return
        ordered = sorted(self.samples[row])
        exact = ordered[max(math.ceil(Fraction(fraction) * len(ordered)), 1) - 1]
        if exact < LAST:
            assert abs(told - exact) <= exact / 64
        else:
            assert LAST * 63 / 64 <= told <= ordered[-1]

    @invariant()
    def number_mean_and_largest_are_those_of_the_lists(self) -> None:
        for row, samples, negative in zip(self.table, self.samples, self.negative, strict=True):
            summary = summary_us(row)
            assert (summary["n"], summary.get("negative", 0)) == (len(samples), negative)
            assert summary["max"] == round(max(samples, default=0) / 1e3, 3)
            mean = Fraction(sum(samples), max(len(samples), 1)) / 1000
            assert abs(summary["mean"] - mean) <= Fraction(1, 1000)
            assert np.all(row[:BUCKETS] >= 0)

    @invariant()
    def the_balance_closes_and_one_block_more_or_less_shows(self) -> None:
        assert Balance(self.produced, self.used, self.superseded, self.lost).closes
        assert not Balance(self.produced + 1, self.used, self.superseded, self.lost).closes


def test_histograms_say_of_a_run_what_its_lists_say() -> None:
    machine: Any = LedgerMachine
    run_state_machine_as_test(machine, settings=settings(PROPERTY, max_examples=few(40), stateful_step_count=30))
