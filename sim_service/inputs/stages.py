"""Stages of an input that gets no new value: the word in which a step records them. Compiles nothing."""

from collections.abc import Iterable

import numpy as np

FRESH, HELD, EXTRAPOLATED, RAMPED, SAFE = range(5)
STAGES = ("fresh", "held", "extrapolated", "ramped to safe", "safe")
BITS, MASK = 4, 15  # of a row in a step's word of stages, the first row lowest


def stage_of(stages: int, row: int) -> int:
    return stages >> (BITS * row) & MASK


def in_words(stages: int, rows: Iterable[str]) -> str:
    """The rows that are not fresh, by these names: "left held, right ramped to safe"."""
    found = [(name, stage_of(stages, n)) for n, name in enumerate(rows)]
    return ", ".join(f"{name} {STAGES[stage]}" for name, stage in found if FRESH < stage < len(STAGES))


def counted(stages: np.ndarray, rows: Iterable[str]) -> dict[str, np.ndarray]:
    """Which of these steps had each stage of each row, for all that occur but fresh ones."""
    found: dict[str, np.ndarray] = {}
    for n, name in enumerate(rows):
        mine = stages >> (BITS * n) & MASK
        found |= {f"{name} {word}": mine == stage for stage, word in enumerate(STAGES) if stage}
    return {name: where for name, where in found.items() if where.any()}
