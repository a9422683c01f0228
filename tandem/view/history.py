"""The last seconds of a run in bounded memory, and what is read off them: a plot's points, the pace, the balance.

Steps are kept as they come, records with named fields, oldest overwritten first. Asking costs what the window holds.
"""

from dataclasses import dataclass

import numpy as np

from sim_service import step_record

SECONDS = 20.0
MOST_STEPS = 8192
MOST_POINTS = 600
_OUTAGE_S = 0.2  # without a step


def decimated(t: np.ndarray, columns: list[np.ndarray], most: int = MOST_POINTS) -> tuple[np.ndarray, list[np.ndarray]]:
    """At most so many points that still reach every peak: the least and the greatest of each stretch, as they came."""
    n = len(t)
    if n <= most:
        return t, columns
    size = -(-n // (most // 2))
    stretches = n // size  # what does not fill a stretch is the oldest
    first = n - stretches * size
    times = t[first:].reshape(stretches, size)
    shown = np.empty(2 * stretches)
    shown[0::2], shown[1::2] = times[:, 0], times[:, size // 2]
    envelopes = []
    for column in columns:
        values = column[first:].reshape(stretches, size)
        filled = np.where(np.isnan(values), np.inf, values)
        least = np.argmin(filled, axis=1)
        greatest = np.argmax(np.where(np.isnan(values), -np.inf, values), axis=1)
        row = np.arange(stretches)
        points = np.empty(2 * stretches)
        points[0::2], points[1::2] = (
            values[row, np.minimum(least, greatest)],
            values[row, np.maximum(least, greatest)],
        )
        envelopes.append(points)
    return shown, envelopes


@dataclass(frozen=True)
class Pace:
    """Figures of the steps within some time; times in ns."""

    steps: int
    status: int  # the bits of all of them
    age_median: float
    age_most: float
    cost_median: float
    cost_most: float
    lateness_median: float
    lateness_most: float
    misses: int
    stages: int = 0  # of the newest one's inputs


@dataclass(frozen=True)
class Balance:
    """What became of the blocks, from the first to the last step of the window: used + superseded are all of them."""

    used: int
    superseded: int
    again: int  # steps that had to use a block once more
    gaps: int  # of the block stream: another epoch, or numbers that fall


def curves_of(
    steps: np.ndarray, wanted: list[tuple[str, str]], most: int = MOST_POINTS
) -> tuple[np.ndarray, list[np.ndarray]]:
    """See `History.curves`, of any steps."""
    if len(steps) < 2:
        return np.zeros(0), [np.zeros(0) for _ in wanted]
    t = (steps["t_ns"] - steps["t_ns"][-1]) * 1e-9
    there = steps.dtype.names or ()
    columns = []
    for name, minus in wanted:
        if name not in there or (minus and minus not in there):
            columns.append(np.full(len(t), np.nan))
        else:  # differences of instants before they are rounded
            columns.append((steps[name] - steps[minus] if minus else steps[name]).astype(float))
    return broken(t, *decimated(t, columns, most))


def broken(all_t: np.ndarray, t: np.ndarray, columns: list[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
    """Insert NaN wherever steps were missing for a while, so that no curve is drawn across an outage."""
    between = np.diff(all_t)
    outages = np.flatnonzero(between > max(_OUTAGE_S, 5.0 * float(np.median(between))))
    at = np.searchsorted(t, all_t[outages], "right")
    return np.insert(t, at, all_t[outages] + 1e-9), [np.insert(column, at, np.nan) for column in columns]


class History:
    def __init__(self, step_s: float, seconds: float = SECONDS):
        self.seconds = seconds
        # a very short step would need room without end: every n-th one does
        self._every = max(-(-round(seconds / step_s) // MOST_STEPS), 1)
        self._capacity = min(round(seconds / step_s / self._every) + 1, MOST_STEPS)
        self._stored: np.ndarray | None = None
        self._next = 0  # where the next one goes
        self._count = 0
        self._turn = 0

    def add(self, steps: np.ndarray) -> None:
        """Oldest first. Steps that go back in time (a record that is moved) restart the history."""
        if len(steps) == 0 or "status" not in (steps.dtype.names or ()):
            return
        if self._stored is None or self._stored.dtype != steps.dtype:  # a simulator with other channels
            self._stored = np.zeros(self._capacity, steps.dtype)
            self._next = self._count = 0
        elif self._count and steps["t_ns"][0] <= self._stored["t_ns"][self._next - 1]:
            self._next = self._count = 0
        if self._every > 1:
            first = -self._turn % self._every
            self._turn += len(steps)
            steps = steps[first :: self._every]
        steps = steps[-self._capacity :]
        head = min(len(steps), self._capacity - self._next)
        self._stored[self._next : self._next + head] = steps[:head]
        self._stored[: len(steps) - head] = steps[head:]
        self._next = (self._next + len(steps)) % self._capacity
        self._count = min(self._count + len(steps), self._capacity)

    def __len__(self) -> int:
        return self._count

    @property
    def names(self) -> tuple[str, ...]:
        return () if self._stored is None else tuple(self._stored.dtype.names or ())

    def _order(self) -> np.ndarray:
        return (self._next - self._count + np.arange(self._count)) % self._capacity

    def last(self, seconds: float | None = None) -> np.ndarray:
        """The steps of the last so many seconds, by their own instants; copies, oldest first."""
        if self._stored is None or self._count == 0:
            return np.zeros(0, [("t_ns", "<i8")])
        order = self._order()
        t = self._stored["t_ns"][order]
        # a model that was reset or a simulator that was restarted does not turn time back, but a record's reader may
        since = t[-1] - round(1e9 * (self.seconds if seconds is None else seconds))
        found: np.ndarray = self._stored[order[(t >= since) & (t <= t[-1])]]
        return found

    def curves(self, wanted: list[tuple[str, str]]) -> tuple[np.ndarray, list[np.ndarray]]:
        """(seconds before the newest, a column for each), few enough to draw. Wanted is a name, and a name to take off
        it ("" nothing); a channel that is missing is NaN."""
        return curves_of(self.last(), wanted)

    def pace(self, seconds: float = 1.0) -> Pace | None:
        steps = self.last(seconds)
        if len(steps) == 0:
            return None
        age = steps["input_age_ns"]
        cost = steps["pushed_ns"] - steps["taken_ns"]
        late = steps["started_ns"] - steps["t_ns"]
        return Pace(
            len(steps),
            int(np.bitwise_or.reduce(steps["status"])),
            float(np.median(age)),
            float(age.max()),
            float(np.median(cost)),
            float(cost.max()),
            float(np.median(late)),
            float(late.max()),
            int(np.count_nonzero(steps["status"] & step_record.MISSED)),
            int(steps["input_stages"][-1]) if "input_stages" in (steps.dtype.names or ()) else 0,
        )

    def missed(self) -> int:
        """Deadlines, of all steps that are kept."""
        steps = self.last()
        return int(np.count_nonzero(steps["status"] & step_record.MISSED)) if len(steps) else 0

    def balance(self) -> Balance:
        steps = self.last()
        if len(steps) < 2:
            return Balance(0, 0, 0, 0)
        between = np.diff(steps["input_seq"])
        same = (np.diff(steps["input_epoch"]) == 0) & (between >= 0)
        # where every n-th step is kept, those between them have used blocks too; it is not known which
        fresh = same & (between > 0)
        used = int(np.count_nonzero(fresh))
        return Balance(
            used=used,
            superseded=int(between[fresh].sum()) - used,
            again=int(np.count_nonzero(same & (between == 0))),
            gaps=int(np.count_nonzero(~same)),
        )

    def at_step(self, number: int) -> np.void | None:
        """The step of this number, if it is still there."""
        steps = self.last()
        if len(steps) == 0:
            return None
        found = np.flatnonzero(steps["step"] == number)
        return steps[found[-1]] if len(found) else None
