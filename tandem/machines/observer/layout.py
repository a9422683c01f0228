"""Where the parts of an observer stand in the vectors of its machine. Nothing here is compiled."""

from enum import IntEnum


class A(IntEnum):
    """Parts; start and stop of each are at the beginning of the machine's integers. Of the state:"""

    ESTIMATE = 0
    SECOND = 1
    SAVED = 2
    INPUTS = 3
    READINGS = 4
    NOTES = 5
    COUNTERS = 6
    LAST = 7  # of each reading: the step that the last one was of
    # work
    SCRATCH = 8
    WORK = 9
    GIVEN = 10
    INNOVATIONS = 11
    # integers
    SIZES = 12
    SENSOR = 13  # of each reading: where its age is among the inputs
    COUNTS = 14  # of each reading (tandem/estimation/rows.py)
    OWN_INTS = 15
    # numbers
    ROWS = 16
    NOISE = 17
    LIMITS = 18
    START = 19
    ROUGH = 20
    ADDRESSES = 21  # linearise, measure, correct
    OWN_FLOATS = 22


HEAD = 2 * len(A)
OBSERVED = "observed:"  # in front of the names of the observed machine's files, in a record
