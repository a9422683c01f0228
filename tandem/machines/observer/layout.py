"""Where the parts of an observer stand in the vectors of its machine. Nothing here is compiled."""

from sync.compile.parts import places

# parts that a composite (sim_service/composite.py) has of its own; ESTIMATE begins with the state inside
A = places("A", (
    # state
    "ESTIMATE", "SECOND", "SAVED", "INPUTS", "READINGS", "NOTES", "COUNTERS",
    "LAST",  # of each reading: the step that the last one was of
    # work
    "SCRATCH", "STEP_INPUTS", "INNOVATIONS",
    # integers
    "SIZES",
    "SENSOR",  # of each reading: where its age is among the inputs
    "COUNTS",  # of each reading (tandem/estimation/rows.py)
    # numbers
    "ROWS", "NOISE", "LIMITS", "START", "ROUGH",
    "ADDRESSES",  # linearise, measure, correct
))  # fmt: skip
OBSERVED = "observed:"  # in front of the names of the observed machine's files, in a record
