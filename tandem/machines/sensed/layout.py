"""Where the parts of a machine with sensors stand in its vectors. Nothing here is compiled."""

from sync.compile.parts import places

NEVER = 4000.0  # s: the age of a reading that has not come yet

# parts that a composite (sim_service/composite.py) has of its own
A = places("A", (
    # state
    "COUNT",  # of steps
    "BIAS",
    "HELD",  # of each row: what was delivered last
    "TAKEN",  # of each row: the step it is of; -1: none yet
    "ON_ITS_WAY",  # of each row, as many as its latency and one more: readings that are not delivered yet
    "OF",  # of each of these the step; -1: none
    # work
    "DERIVATIVES", "AT",
    # integers
    "SEED",
    "FIRST_OF",  # of each sensor: its first row
    "QUEUES",  # of each row: where its readings on their way begin
    "OUTAGES",  # row, first step, step behind the last one
    "COUNTS",  # of each row (tandem/estimation/rows.py)
    # numbers
    "ROWS", "NOISE", "WALK",
    "ADDRESSES",  # linearise, measure
))  # fmt: skip
