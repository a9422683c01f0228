"""What was predicted against what happened: how far off the paths were, and whether warnings came true.

A path is compared with where the machine was at the same instants, at a quarter, at half and at the end of the horizon,
as far as the copy was stepped. They differ by what was done to the machine meanwhile, and by the length of the copy's
steps.

Warnings that follow each other within `_APART_NS` count as one. A warning came true if control is lost within the
horizon after its last prediction; otherwise it was a false alarm. A loss without a warning before it is counted, too;
the next loss counts only after the machine has been under control for a while.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sim_service.look_ahead import record as rec
from sync.ring.block import PUSHED
from sync.ring.ledger import histograms, quantiles, record

SHARES = (0.25, 0.5, 1.0)  # of the horizon, at which paths are compared
_APART_NS = 500_000_000
_AGAIN_NS = 1_000_000_000
_PLACES = 4096  # of steps that are remembered
_MOST_WAITING = 4096  # predictions


@dataclass
class Warnings:
    """Counts warnings and losses in the order in which they happen."""

    horizon_ns: int
    warnings: int = 0
    came_true: int = 0
    false_alarms: int = 0
    losses: int = 0
    unwarned: int = 0
    leads_s: list[float] = field(default_factory=list)  # from the first prediction of a warning to the loss
    _since: int | None = None  # start of the current warning, and its last prediction
    _last: int = 0
    _true: bool = False
    _lost: int | None = None  # when control was last lost

    def warned(self, at_ns: int) -> None:
        """A prediction that warns was there at this instant."""
        if self._lost is not None and at_ns - self._lost < _AGAIN_NS:
            return  # it warns of a loss that has happened already
        if self._since is not None and at_ns - self._last > _APART_NS:
            self.until(at_ns, ended=True)
        if self._since is None:
            self._since, self._true = at_ns, False
            self.warnings += 1
        self._last = at_ns

    def lost(self, at_ns: int) -> None:
        """At this instant control is lost; called for every step at which it is."""
        before, self._lost = self._lost, at_ns
        if before is not None and at_ns - before < _AGAIN_NS:
            return
        self.losses += 1
        if self._since is None or at_ns - self._last > self.horizon_ns:
            self.unwarned += 1
            return
        if not self._true:
            self._true = True
            self.came_true += 1
        self.leads_s.append((at_ns - self._since) * 1e-9)

    def until(self, at_ns: int, ended: bool = False) -> None:
        """It is now `at_ns`: a warning whose time has passed is over. `ended`: the current warning ends now."""
        if self._since is not None and (ended or at_ns - self._last > self.horizon_ns):
            self.false_alarms += not self._true
            self._since = None

    def figures(self) -> dict[str, Any]:
        leads = self.leads_s
        return {
            "warnings": self.warnings,
            "came_true": self.came_true,
            "false_alarms": self.false_alarms,
            "losses": self.losses,
            "unwarned": self.unwarned,
            "lead_s": {"least": round(min(leads), 3), "median": round(float(np.median(leads)), 3)} if leads else {},
        }


class Hindsight:
    """Predictions wait here until what they predicted has happened."""

    def __init__(self, step_ns: int, h: float, steps: int):
        self._step_ns, self._h = step_ns, h
        self._horizon_s = h * steps
        self._waiting: deque[tuple[int, int, int, np.ndarray]] = deque()  # (epoch, step, kind, places to compare)
        self._places = np.zeros((_PLACES, 2))
        self._numbers = np.full(_PLACES, -1, np.int64)  # of the steps whose places these are
        self._epoch = -1
        self._points = [max(round(share * rec.POINTS) - 1, 0) for share in SHARES]
        # the instants of these points, as the copy was stepped, and the loop's step nearest to each
        ahead = [max((n + 1) * steps // rec.POINTS, 1) for n in self._points]
        self._ahead = ahead
        self._later = [max(round(n * h * 1e9 / step_ns), 1) for n in ahead]
        self._off = histograms(len(rec.KINDS) * len(SHARES))
        self.warnings = Warnings(round(1e9 * self._horizon_s))

    def predicted(self, block: np.ndarray) -> None:
        values, at = block.view(np.float64), rec.AT_PLACES
        status = int(block[rec.AT_STATUS])
        if status & rec.WARNING:
            self.warnings.warned(int(block[PUSHED]))
        places = np.array(
            [
                [values[at + n], values[at + rec.POINTS + n]] if int(block[rec.AT_STEPS]) >= ahead else [np.nan, np.nan]
                for n, ahead in zip(self._points, self._ahead, strict=True)
            ]
        )
        self._waiting.append((int(block[rec.AT_STEP_EPOCH]), int(block[rec.AT_STEP]), int(block[rec.AT_KIND]), places))
        if len(self._waiting) > _MOST_WAITING:
            self._waiting.popleft()

    def happened(self, epoch: int, step: int, at_ns: int, place: np.ndarray, lost: bool) -> None:
        """A step that was made. Steps come in order."""
        if epoch != self._epoch:
            self._epoch = epoch
            self._numbers[:] = -1
        self._places[step % _PLACES], self._numbers[step % _PLACES] = place, step
        if lost:
            self.warnings.lost(at_ns)
        self.warnings.until(at_ns)

    def forget(self) -> None:
        """The machine was reset, or paused for a while: no predicted path leads to where it is now."""
        self._waiting.clear()
        self._numbers[:] = -1

    def compare(self) -> None:
        """Compare the predictions whose horizon has passed."""
        newest = int(self._numbers.max())
        while self._waiting:
            epoch, step, kind, places = self._waiting[0]
            if epoch == self._epoch and newest < step + self._later[-1]:
                return
            self._waiting.popleft()
            if epoch != self._epoch:
                continue  # it is of a simulator that has ended since
            for n, later in enumerate(self._later):
                at = (step + later) % _PLACES
                if self._numbers[at] == step + later and np.isfinite(places[n, 0]):
                    off = float(np.hypot(*(self._places[at] - places[n])))
                    record(self._off[len(SHARES) * kind + n], int(1e6 * min(off, 1e3)))  # in um

    def figures(self) -> dict[str, Any]:
        off: dict[str, Any] = {}
        for kind, name in enumerate(rec.KINDS):
            rows = self._off[len(SHARES) * kind : len(SHARES) * (kind + 1)]
            if rows.any():
                off[name] = {
                    f"{n * self._h:g} s": {
                        key: round(1e-6 * value, 4)
                        for key, value in zip(("p50", "p90", "p99"), quantiles(row, (0.5, 0.9, 0.99)), strict=True)
                    }
                    for n, row in zip(self._ahead, rows, strict=True)
                }
        return {"off_m": off, **self.warnings.figures()}
