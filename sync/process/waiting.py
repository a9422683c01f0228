"""What a service waits for, where, and since when: reported at once and at growing intervals while nothing comes."""

from sync.clock import now_ns

_FIRST_S = 5.0
_LONGEST_S = 600.0


class Waiting:
    """One thing that should come; the waiting service polls it."""

    def __init__(self, what: str, where: str):
        self._what, self._where = what, where
        self._since_ns: int | None = None
        self._next_s = 0.0

    def poll(self, there: bool, now: int | None = None) -> str | None:
        """A sentence when it is time for one. `now`: monotonic ns, of the real clock if it is not given."""
        now = now_ns() if now is None else now
        if there:
            self._since_ns = None
            return None
        if self._since_ns is None:
            self._since_ns, self._next_s = now, _FIRST_S
            return f"waiting for {self._what} ({self._where})"
        waited_s = (now - self._since_ns) * 1e-9
        if waited_s < self._next_s:
            return None
        self._next_s = min(2 * self._next_s, self._next_s + _LONGEST_S)
        return f"still waiting for {self._what} ({self._where}), for {waited_s:.0f} s now"
