"""What a row of a filter should read, by its estimate, and the derivatives of that."""

from sync.compile.jit import inner
from tandem.estimation.rows import FREE, Count


@inner
def expected_reading(row, counts, tau, form, n, at, tables, work, which, extra, H, measure):
    """At the instant `tau` within a step; H has its derivatives by states, the first n of which are the machine's."""
    q = len(which)
    for j in range(len(H)):
        H[j] = 0.0
    found = measure(counts[Count.SIGNAL], row, tau, at, tables, work, which, H)
    if form == FREE:  # what the transition knows nothing of is not learned from readings either
        for j in range(n, n + q):
            H[j] = 0.0
    bias = counts[Count.BIAS]
    if bias >= 0:
        H[n + q + bias] = 1.0
        found += extra[q + bias]
    return found
