"""Back to the hand: the newest output of the simulator as a force or a voltage, within limits, and zero when it is old.

A thread of its own takes the newest step at a fixed rate, scales it, limits it, limits how fast it changes, and gives
it to the source's device. When no step has come for `stale_after_ms` it ramps to zero, and is there `zero_within_ms`
after the last step at the latest, wherever it was. At the end of a run the device gets zero.

What no program can promise: a device that holds its last value when this process is killed. See docs/sources.md.
"""

import math
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import numpy as np
from pydantic import Field, model_validator

from sync.block import PUSHED, RECEIVED
from sync.toml import Section

if TYPE_CHECKING:  # sources import this module for its settings, before anything is compiled
    from sync.clock import RealClock, VirtualClock
    from sync.ring import RingReader


class ForceSettings(Section):
    """`[source.force]`. The unit of gain, limit and slew is the device's: V, or shares of its full force."""

    channel: str = "steering_torque"
    gain: float
    limit: float = Field(gt=0)
    slew: float = Field(gt=0)
    rate_hz: float = Field(500.0, ge=50, le=2000)
    stale_after_ms: float = Field(30.0, gt=0, le=1000)
    zero_within_ms: float = Field(100.0, gt=0, le=5000)

    @model_validator(mode="after")
    def _time_to_fall(self) -> "ForceSettings":
        least = self.stale_after_ms + 10_000.0 / self.rate_hz
        if self.zero_within_ms < least:
            raise ValueError(
                f"zero_within_ms = {self.zero_within_ms:g} leaves no time to ramp down: with stale_after_ms ="
                f" {self.stale_after_ms:g} and rate_hz = {self.rate_hz:g} it must be at least {least:g}"
            )
        return self

    @property
    def fall(self) -> float:
        """How fast it goes to zero: in time from the limit, with two turns to spare."""
        return self.limit / (1e-3 * (self.zero_within_ms - self.stale_after_ms) - 2.0 / self.rate_hz)


class Actuator(Protocol):
    """A source with a way back."""

    force: ForceSettings

    def put(self, value: float) -> None:
        """Give the device this value, now. Never raises; while there is no device it does nothing."""


def follow(last: float, wanted: float, fresh: bool, dt: float, limit: float, slew: float, fall: float) -> float:
    """The next value after `last`, dt seconds later. What is not a number is no news."""
    if fresh and math.isfinite(wanted):
        target = min(max(wanted, -limit), limit)
        step = slew * dt
    else:
        target = 0.0
        step = fall * dt
    return min(max(target, last - step), last + step)


class ForceLoop:
    """Runs in a thread of its own until told to stop."""

    def __init__(
        self,
        actuator: Actuator,
        feedback: "Callable[[], RingReader | None]",
        clock: "RealClock | VirtualClock | None" = None,
    ):
        from sync.clock import RealClock

        self._actuator, self._feedback = actuator, feedback
        self._clock = clock or RealClock()
        self._last = self._due = self._clock.now_ns()  # the turn before, and when the next is due
        self._was_fresh = False
        self._settings = actuator.force
        self._ring: RingReader | None = None
        self._block = np.zeros(0, np.int64)
        self._place = -1
        self.value = 0.0
        self.zeroed = 0  # times that it fell to zero because the simulator was silent
        self.missing = False  # the simulator has no such output, or none that is a force

    def _look(self, now: int) -> tuple[float, bool]:
        """(what the newest step asks for, whether it is fresh)."""
        from sync.ring import newest

        ring = self._feedback()
        if ring is not self._ring:
            self._ring, self._place = ring, -1
            if ring is not None:
                self._block = np.zeros(ring.layout.words, np.int64)
                # of another type it would be read as a number that it is not
                self.missing = (self._settings.channel, "f8") not in [(c.name, c.type) for c in ring.layout.channels]
                if not self.missing:
                    self._place = int(ring.layout.table[ring.layout.names.index(self._settings.channel), 0])
        if ring is None or self._place < 0 or newest(ring.words, self._block) < 0:
            return 0.0, False
        # when it came, by our clock: the simulator's may be another
        stamp = int(self._block[RECEIVED]) or int(self._block[PUSHED])
        wanted = self._settings.gain * float(self._block.view(np.float64)[self._place])
        return wanted, math.isfinite(wanted) and now - stamp <= self._settings.stale_after_ms * 1e6

    def run(self, stop: threading.Event) -> None:
        self._last = self._due = self._clock.now_ns()
        try:
            while not stop.is_set():
                self.turn()
        finally:
            self.value = 0.0
            self._actuator.put(0.0)

    def turn(self) -> None:
        """Wait until it is due, and give the device its next value."""
        s = self._settings
        dt = 1.0 / s.rate_hz
        self._due = max(self._due + round(dt * 1e9), self._last)
        self._clock.sleep_until(self._due)
        now = self._clock.now_ns()
        wanted, fresh = self._look(now)
        # a turn that came late goes down as far as its time asks for, but no further up than two turns would
        passed = (now - self._last) * 1e-9
        self.value = follow(
            self.value, wanted, fresh, min(passed, 2 * dt) if fresh else passed, s.limit, s.slew, s.fall
        )
        self._last = now
        self.zeroed += self._was_fresh and not fresh
        self._was_fresh = fresh
        self._actuator.put(self.value)
