"""One reading of a sensor is a row of numbers (where, how well) and one of integers (what it sees, how often).

What is used as an index or a count is an integer: integers are made from a sensor's file, while a record has the
numbers that a run was made with. Nothing here is compiled.
"""

from enum import IntEnum


class R(IntEnum):
    """Columns of a row of numbers."""

    PLACE = 0  # three: on the body, m
    DIRECTION = 3  # three: of the axis, on the body or in the world as the signal has it
    NOISE = 6  # standard deviation of a reading, its quantum included
    QUANTUM = 7  # of what is read; 0: none
    LOW = 8  # beyond these it does not read
    HIGH = 9
    GATE = 10  # greatest normalised innovation squared that is used
    ROUGH = 11  # beside NOISE, what is allowed for the machine's law in rough steps (contract.py)


class Count(IntEnum):
    """Columns of a row of integers."""

    SIGNAL = 0
    BIAS = 1  # which further state of the filter is added, or -1
    PERIOD = 2  # steps
    LATENCY = 3  # steps, of the whole way
    PHASE = 4  # the first step it reads at


WIDTH, COUNTS = max(R) + 1, max(Count) + 1

# forms of a filter: transition by linearisation, or constant
EXACT, FREE = range(2)

# counters of a row
USED, GATED, CLIPPED, LATE, TOO_OLD = range(5)
COUNTERS = ("used", "gated", "clipped", "late", "too_old")
COUNTED = len(COUNTERS)
