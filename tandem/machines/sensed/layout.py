"""Where the parts of a machine with sensors stand in its vectors. Nothing here is compiled."""

from enum import IntEnum

NEVER = 4000.0  # s: the age of a reading that has not come yet


class A(IntEnum):
    """Parts; start and stop of each are at the beginning of the machine's integers. Of the state:"""

    OWN_STATE = 0
    COUNT = 1  # of steps
    BIAS = 2
    HELD = 3  # of each row: what was delivered last
    TAKEN = 4  # of each row: the step it is of; -1: none yet
    ON_ITS_WAY = 5  # of each row, as many as its latency and one more: readings that are not delivered yet
    OF = 6  # of each of these the step; -1: none
    # work
    OWN_WORK = 7
    SLOPES = 8
    AT = 9
    # integers
    SIZES = 10
    FIRST_OF = 11  # of each sensor: its first row
    QUEUES = 12  # of each row: where its readings on their way begin
    OUTAGES = 13  # row, first step, step behind the last one
    COUNTS = 14  # of each row (tandem/estimation/rows.py)
    OWN_INTS = 15
    # numbers
    ROWS = 16
    NOISE = 17
    WALK = 18
    ADDRESSES = 19  # linearise, measure
    OWN_FLOATS = 20


HEAD = 2 * len(A)
OUTPUTS, SEED = range(2)  # of SIZES: outputs of the machine itself
