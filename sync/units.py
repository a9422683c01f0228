"""Units of time, as integers."""

SECOND = 1_000_000_000  # ns
