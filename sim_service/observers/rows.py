"""One reading of a sensor is a row of numbers: what it sees, where, how well, how often. Nothing here is compiled."""

from enum import IntEnum


class R(IntEnum):
    """Columns of a row."""

    SIGNAL = 0
    PLACE = 1  # three: on the body, m
    DIRECTION = 4  # three: of the axis, on the body or in the world as the signal has it
    NOISE = 7  # standard deviation of a reading, its quantum included
    BIAS = 8  # which further state of the filter is added, or -1
    QUANTUM = 9  # of what is read; 0: none
    LOW = 10  # beyond these it does not read
    HIGH = 11
    PERIOD = 12  # steps
    LATENCY = 13  # steps, of the whole way
    GATE = 14  # greatest normalised innovation squared that is used
    PHASE = 15  # the first step it reads at
    ROUGH = 16  # beside NOISE, what is allowed for the machine's law in rough steps (contract.py)


WIDTH = max(R) + 1

# forms of a filter: transition by linearisation, or constant
EXACT, FREE = range(2)

# counters of a row
USED, GATED, CLIPPED, LATE, TOO_OLD = range(5)
COUNTERS = ("used", "gated", "clipped", "late", "too_old")
COUNTED = len(COUNTERS)
