"""The report of a run for people: `report.html`, one file to look at, and `report.json`, the same figures for programs.

The page states in a sentence how old the data were, then shows where the age comes from, when it was worst, and what
happened there. It is one file with its style and its pictures (SVG) inside, needs no network and no script, follows the
reader's light or dark, and can be printed. A colour always means a hop, a mark always a status; hovering gives figures.

The hops of a step's input, each from one stamp to the next, so that the first four sum to the age at use to the ns:

    sensor  sample instant → pushed into the DAQ's ring         ring  → put on the wire
    wire    → taken off it, into the simulator's ring           wait  → taken by the step
    step    → its result pushed (not part of the age)

Over shared memory a block is never sent nor received: ring and wire are 0 and the wait begins with the push. Data
without the stamps give a page without those pictures, which says what is missing. Whatever came from outside is
escaped; curves are thinned to an envelope, so that ten minutes of steps stay well below a megabyte.
"""

from tandem.reports.html.figures import RunData, headline, hops, hops_us, worst

__all__ = ["RunData", "headline", "hops", "hops_us", "worst"]
