"""What the report of a drive has beside that of any run: the car's motion, and its acquisition beside the source's."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tandem.reports.beside_source import source_section
from tandem.reports.html.figures import RunData, has
from tandem.reports.html.sections import left_out, section
from tandem.reports.html.svg import Scale, over_time
from tandem.reports.report import Section

_CONTEXT = (  # field, factor, unit, title, colour
    ("vx", 3.6, "km/h", "speed", "#0072b2"),
    ("steering_angle", 180 / math.pi, "°", "hand wheel angle, left positive", "#009e73"),
    ("yaw_rate", 180 / math.pi, "°/s", "yaw rate, left positive", "#cc79a7"),
)


def drive_section(runs: list[RunData], _bare: dict[str, Any]) -> Section:
    content: list[str] = []
    for run in runs:
        for field, factor, unit, title, colour in _CONTEXT[: 2 if len(runs) > 1 else None]:
            values = run.steps[field].astype(float) * factor if has(run.steps, field) else np.zeros(0)
            finite = values[np.isfinite(values)]
            if len(finite) == 0:
                content.append(left_out(title, run, field))
                continue
            low, high = min(float(finite.min()), 0.0), max(float(finite.max()), 0.0)
            margin = max(0.06 * (high - low), 1e-3)
            y = Scale(low - margin, high + margin, 112, 24)
            ticks = [(tick, f"{tick:.6g} {unit}") for tick in y.ticks(4)]
            label = f"{run.label}: {title}"
            say = _with_unit(unit)
            content.append(over_time(run, values, y, ticks, say, colour, label, 134, marks=False))
    return section("motion", "The drive", "What the car did meanwhile, as the model sees it.", *content)


def _with_unit(unit: str) -> Callable[[float], str]:
    return lambda value: f"{value:.3g} {unit}"


SECTIONS = (drive_section, source_section)
