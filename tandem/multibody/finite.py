"""Whether all of a vector are numbers, for compiled code."""

from sync.compile.jit import inner


@inner
def finite(values):
    total = 0.0
    for i in range(len(values)):
        total += values[i] * 0.0  # 0, or NaN for good
    return total == 0.0
