"""What was captured, as settings of rows of `[inputs]`: the inverse of what sim_service/inputs does with counts."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sync.config.input_rows import Affine, Encoder, HallPair, Row, VoiceCoil
from tandem.calibrate.readings import Captured

_QUARTER_DEG = 90.0
_SQUARES = 2.0**15  # by which a difference of squares of counts is divided, so that it reads like counts
Calibratable = Affine | Encoder | HallPair | VoiceCoil


def calibratable(rows: dict[str, Row]) -> dict[str, Calibratable]:
    """Those that have a scale and a zero of their own, by name."""
    return {name: row for name, row in rows.items() if isinstance(row, Calibratable) and row.channels}


def shown_unit(row: Calibratable) -> str:
    return "%" if row.unit == "1" else row.unit


def signal(row: Calibratable, block: Any) -> Any:
    """What a row's scale is of, in blocks or in one: counts, or of a pair of Hall sensors the difference of squares."""
    if isinstance(row, HallPair):
        first, second = (np.asarray(block[name], np.float64) for name in row.pair)
        return (first * first - second * second) / _SQUARES
    return np.asarray(block[row.channel], np.float64)


@dataclass
class Calibration:
    """What was captured of each row: its zero, how far it was moved from there (in its unit), and the other end. A coil
    reads velocity: its other end is the integral of what it read on the way."""

    configured: dict[str, Calibratable]
    counters: frozenset[str]  # rows of incremental encoders
    write_counter_zeros: bool = False
    zero: dict[str, Captured] = field(default_factory=dict)
    amount: dict[str, float] = field(default_factory=dict)
    full: dict[str, Captured] = field(default_factory=dict)

    def forget(self, name: str) -> None:
        for values in (self.zero, self.amount, self.full):
            values.pop(name, None)

    @property
    def done(self) -> list[str]:
        return [name for name in self.configured if name in self.full]

    def asks_amount(self, name: str) -> bool:
        """Whether the other end has to be given: that of a share of full scale is full."""
        return self.configured[name].unit != "1"

    def usual_amount(self, name: str) -> float | None:
        """How far it is moved if the person states nothing; None: it must be stated."""
        row = self.configured[name]
        if isinstance(row, Affine):
            return row.full
        return _QUARTER_DEG if isinstance(row, Encoder) and row.unit == "deg" else None

    def amount_unit(self, name: str) -> str:
        """The unit of how far it is moved."""
        row = self.configured[name]
        return "m" if isinstance(row, VoiceCoil) else row.unit

    def travel(self, name: str) -> float:
        """Counts from the zero to the other end."""
        return self.full[name].counts - self.zero[name].counts

    def expected(self, name: str) -> float:
        """The same, by the configuration; 0 if it does not say."""
        row = self.configured[name]
        if isinstance(row, Affine):
            return row.full_counts
        return (self.usual_amount(name) or 0.0) / row.per_count if isinstance(row, Encoder) else 0.0

    def integrates(self, name: str) -> bool:
        return isinstance(self.configured[name], VoiceCoil)

    def leaves_zero_out(self, name: str) -> bool:
        return name in self.counters and not self.write_counter_zeros

    def settings(self) -> dict[str, dict[str, float | int]]:
        """The settings of the rows that are done, as they are to be written."""
        found = {}
        for name, scale in self._scales(self.done).items():
            if "offset" not in scale:
                scale["zero_counts"] = 0.0 if self.leaves_zero_out(name) else self.zero[name].counts
            keys = type(self.configured[name]).model_fields
            found[name] = {key: scale[key] for key in keys if key in scale}  # in the configuration's order
        return found

    def _scales(self, names: Iterable[str]) -> dict[str, dict[str, float | int]]:
        found: dict[str, dict[str, float | int]] = {}
        for name in names:
            travel, row = self.travel(name), self.configured[name]
            if isinstance(row, HallPair):
                per_signal = self.amount[name] / travel
                gain = per_signal / (_SQUARES * row.volts_per_count**2)
                found[name] = {"gain": gain, "offset": -per_signal * self.zero[name].counts}
            elif isinstance(row, VoiceCoil):
                found[name] = {"kappa_v_s_per_m": self.full[name].counts * row.volts_per_count / self.amount[name]}
            elif isinstance(row, Encoder):
                found[name] = {"per_count": self.amount[name] / abs(travel), "sign": 1 if travel > 0 else -1}
            else:
                found[name] = {"full_counts": travel}
                if self.asks_amount(name):
                    found[name]["full"] = self.amount[name]
        return found

    def convert(self, name: str, counts: float) -> float:
        """In the row's unit, a share in percent, with the values so far; not limited, so that what is beyond can be
        seen."""
        row = self.configured[name]
        now: dict[str, Any] = {**row.model_dump(), **self._scales(self.done).get(name, {})}
        if isinstance(row, HallPair):
            return float(now["gain"] * _SQUARES * row.volts_per_count**2 * counts + now["offset"])
        moved = counts - (self.zero[name].counts if name in self.zero else now["zero_counts"])
        if isinstance(row, Encoder):
            return float(moved * now["per_count"] * now["sign"])
        if isinstance(row, VoiceCoil):
            return float(moved * row.volts_per_count / (now["kappa_v_s_per_m"] * row.lever_arm_m))
        return float(moved / now["full_counts"] * now["full"] * (100.0 if row.unit == "1" else 1.0))
