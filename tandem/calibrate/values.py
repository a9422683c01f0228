"""What was captured, as settings of `[sim.signals]`: the inverse of what sim_service/signals does with counts."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from sync.config import Signals
from tandem.calibrate import CHANNELS
from tandem.calibrate.readings import Captured

UNITS = {"steering": "deg", "throttle": "%", "brake": "bar"}


@dataclass
class Calibration:
    """Of a channel there is a zero, then how far it is moved from there (deg, a share, bar), then the other end."""

    configured: Signals
    counters: frozenset[str]  # channels of incremental encoders
    write_counter_zeros: bool = False
    zero: dict[str, Captured] = field(default_factory=dict)
    amount: dict[str, float] = field(default_factory=dict)
    full: dict[str, Captured] = field(default_factory=dict)

    def forget(self, channel: str) -> None:
        for kept in (self.zero, self.amount, self.full):
            kept.pop(channel, None)

    @property
    def done(self) -> list[str]:
        return [channel for channel in CHANNELS if channel in self.full]

    def travel(self, channel: str) -> float:
        """Counts from the zero to the other end."""
        return self.full[channel].counts - self.zero[channel].counts

    def expected(self, channel: str) -> float:
        """The same, by the configuration."""
        was = self.configured
        return {
            "steering": 90.0 / was.steering_deg_per_count,
            "throttle": was.throttle_full_counts,
            "brake": was.brake_full_counts,
        }[channel]

    def leaves_zero_out(self, channel: str) -> bool:
        return channel in self.counters and not self.write_counter_zeros

    def settings(self) -> dict[str, float | int]:
        """Of the channels that are done, as they are to be written."""
        found = self._scales(self.done)
        for channel in self.done:
            found[f"{channel}_zero_counts"] = 0.0 if self.leaves_zero_out(channel) else self.zero[channel].counts
        return {key: found[key] for key in Signals.model_fields if key in found}  # in the configuration's order

    def _scales(self, channels: Iterable[str]) -> dict[str, float | int]:
        found: dict[str, float | int] = {}
        for channel in channels:
            travel = self.travel(channel)
            if channel == "steering":
                found["steering_deg_per_count"] = self.amount[channel] / abs(travel)
                found["steering_sign"] = 1 if travel > 0 else -1
            else:
                found[f"{channel}_full_counts"] = travel
            if channel == "brake":
                found["brake_full_bar"] = self.amount[channel]
        return found

    def convert(self, channel: str, counts: float) -> float:
        """In the channel's unit, with the values so far; not limited, so that what is beyond can be seen."""
        now: dict[str, Any] = {**self.configured.model_dump(), **self._scales(self.done)}
        zero = self.zero[channel].counts if channel in self.zero else now[f"{channel}_zero_counts"]
        moved = counts - zero
        if channel == "steering":
            return float(moved * now["steering_deg_per_count"] * now["steering_sign"])
        scale = 100.0 if channel == "throttle" else now["brake_full_bar"]
        return float(moved / now[f"{channel}_full_counts"] * scale)
