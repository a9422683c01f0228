"""The result of a test: figures beside their predictions, and pictures. No figure is judged here, only reported."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tandem.reports.html.chart import Series

NONE = "no closed form"


@dataclass(frozen=True)
class Row:
    quantity: str
    unit: str
    predicted: float | None
    simulated: float
    by: str = NONE  # how the prediction is made

    @property
    def difference(self) -> float | None:
        """Of the simulated figure from the prediction, as a share of the prediction."""
        if self.predicted is None or not math.isfinite(self.predicted) or self.predicted == 0.0:
            return None
        return self.simulated / self.predicted - 1.0


@dataclass(frozen=True)
class Panel:
    title: str
    series: Sequence[Series]
    x_label: str = "s"
    plane: bool = False  # a path at true scale


@dataclass(frozen=True)
class Result:
    test: str
    title: str
    conditions: str
    rows: list[Row]
    panels: list[Panel] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0  # simulated
    capped: int = 0  # steps that ended at the limit of iterations
    step_error: float | None = None  # m; largest that a step estimated of itself; None: the method estimates none

    def row(self, quantity: str) -> Row:
        return next(row for row in self.rows if row.quantity == quantity)

    def as_json(self) -> dict[str, Any]:
        return {
            "test": self.test,
            "title": self.title,
            "conditions": self.conditions,
            "rows": [
                {
                    "quantity": r.quantity,
                    "unit": r.unit,
                    "predicted": r.predicted,
                    "simulated": r.simulated,
                    "difference": r.difference,
                    "by": r.by,
                }
                for r in self.rows
            ],
            "notes": self.notes,
            "simulated_s": self.seconds,
            "capped": self.capped,
            "step_error": self.step_error,
        }
