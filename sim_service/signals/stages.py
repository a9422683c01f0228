"""Stages of an input that gets no newer: the word a step records of them, and what it means. Compiles nothing."""

import numpy as np

CHANNELS = ("steering", "throttle", "brake")
FRESH, HELD, EXTRAPOLATED, RAMPED, SAFE = range(5)
STAGES = ("fresh", "held", "extrapolated", "ramped to safe", "safe")
BITS, MASK = 4, 15  # of a channel in a step's word of stages, the first channel lowest


def stage_of(stages: int, channel: int) -> int:
    return stages >> (BITS * channel) & MASK


def in_words(stages: int) -> str:
    """Of the channels that are not fresh: "steering held, throttle ramped to safe"."""
    found = [(name, stage_of(stages, n)) for n, name in enumerate(CHANNELS)]
    return ", ".join(f"{name} {STAGES[stage]}" for name, stage in found if FRESH < stage < len(STAGES))


def counted(stages: np.ndarray) -> dict[str, np.ndarray]:
    """For every channel and stage but fresh that there is: which of these steps."""
    found: dict[str, np.ndarray] = {}
    for n, name in enumerate(CHANNELS):
        mine = stages >> (BITS * n) & MASK
        found |= {f"{name} {word}": mine == stage for stage, word in enumerate(STAGES) if stage}
    return {name: where for name, where in found.items() if where.any()}
