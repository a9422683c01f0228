"""Curves of one channel over another, of the last seconds: force over travel, and what else a machine asks for.

Drawn as a picture in the panel: a chart over time cannot go back. The newest stretch is drawn strongest.
"""

from typing import Any

import numpy as np

from sim_service.contract.display import Curve
from tandem.reports.html.markup import Markup, joined, markup, show
from tandem.view.history import History
from tandem.view.plots import span

SECONDS = 4.0
_MOST = 400  # points
_W, _H, _LEFT, _BELOW = 400, 220, 44, 30


def _span(values: np.ndarray, unit: str) -> tuple[float, float]:
    low, high = span([values], unit) or (float(values.min()), float(values.max()))
    margin = 0.05 * (high - low)
    return low - margin, high + margin


def picture(curve: Curve, x: np.ndarray, y: np.ndarray) -> Markup:
    good = np.isfinite(x) & np.isfinite(y)
    x, y = x[good] * curve.x_factor, y[good] * curve.y_factor
    if len(x) < 2:
        return markup('<div style="font-size:.8rem;margin:.2rem .8rem">{}: nothing yet</div>', curve.title)
    x, y = x[:: -(-len(x) // _MOST)], y[:: -(-len(y) // _MOST)]
    (x0, x1), (y0, y1) = _span(x, curve.x_unit), _span(y, curve.y_unit)
    across = _LEFT + (x - x0) / (x1 - x0) * (_W - _LEFT - 8)
    down = (_H - _BELOW) - (y - y0) / (y1 - y0) * (_H - _BELOW - 8)
    points = [f"{a:.1f},{b:.1f}" for a, b in zip(across, down, strict=True)]
    half = len(points) // 2
    lines = joined(
        markup(
            '<polyline fill="none" stroke="#1c7ed6" stroke-width="1.6" opacity="{}" points="{}"/>', o, " ".join(part)
        )
        for o, part in ((0.35, points[: half + 1]), (1.0, points[half:]))
    )
    ends = joined(
        markup('<text x="{}" y="{}" font-size="11" fill="currentColor" text-anchor="{}">{}</text>', *each)
        for each in (
            (_LEFT, _H - 16, "start", f"{x0:.4g}"), (_W - 8, _H - 16, "end", f"{x1:.4g} {curve.x_unit}"),
            (_LEFT - 4, _H - _BELOW, "end", f"{y0:.4g}"), (_LEFT - 4, 14, "end", f"{y1:.4g}"),
            (_LEFT + 4, 14, "start", f"{curve.y_unit}   {curve.title}"),
        )
    )  # fmt: skip
    return markup(
        '<svg data-curve="{}" viewBox="0 0 {} {}" style="width:100%;display:block">'
        '<rect x="{}" y="4" width="{}" height="{}" fill="none" stroke="currentColor" opacity=".25"/>{}{}</svg>',
        curve.title, _W, _H, _LEFT, _W - _LEFT - 8, _H - _BELOW - 4, lines, ends,
    )  # fmt: skip


class Curves:
    def __init__(self, gui: Any, curves: tuple[Curve, ...]):
        self._shown = [(curve, gui.add_html("")) for curve in curves]

    def show(self, history: History) -> None:
        steps = history.last(SECONDS)
        there = steps.dtype.names or ()
        for curve, handle in self._shown:
            if curve.x in there and curve.y in there:
                show(handle, picture(curve, steps[curve.x].astype(float), steps[curve.y].astype(float)))
