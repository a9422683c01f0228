"""Pictures of many runs: points of one quantity over another, and parallel coordinates, a line a run.

As in svg.py a picture is bounded in size: of more runs than can be distinguished, some are drawn, evenly chosen.
"""

import math
from collections.abc import Mapping

import numpy as np

from tandem.reports.html.svg import HALF, LEFT, RIGHT, WIDE, Scale, _curve, _label, _line, _svg
from tandem.reports.html.words import Raw, e

_MOST_POINTS = 2000
_MOST_LINES = 400


def scatter(title: str, x_label: str, x: np.ndarray, y: np.ndarray, width: int = HALF, height: int = 230) -> Raw:
    """y over x, a dot a run; runs without a finite value are left out."""
    ok = np.isfinite(x) & np.isfinite(y)
    x, y = _some(x[ok], _MOST_POINTS), _some(y[ok], _MOST_POINTS)
    left, right, top, bottom = LEFT + 10.0, float(width - RIGHT), 28.0, height - 40.0
    across, up = _scale(x, left, right), _scale(y, bottom, top)
    body = [_label(left, 14, title, "label")]
    for at in up.ticks(5):
        body += [_line(left, up(at), right, up(at)), _label(left - 7, up(at) + 4, f"{at:.4g}", "tick", "end")]
    for at in across.ticks(4):
        body += [
            _line(across(at), bottom, across(at), bottom + 4, "axis"),
            _label(across(at), bottom + 17, f"{at:.5g}", "tick", "middle"),
        ]
    body.append(_label(right, bottom + 33, x_label, "note", "end"))
    dots = "".join(f"M{a:.1f} {b:.1f}h0" for a, b in zip(across(x).tolist(), up(y).tolist(), strict=True))
    body.append(
        f'<path d="{dots}" class="curve" style="stroke:#0072b2;stroke-width:4;stroke-linecap:round;opacity:.5"/>'
    )
    return _svg(width, height, f"{title} over {x_label}", body)


def parallel(title: str, columns: Mapping[str, np.ndarray], coloured: str, height: int = 320) -> Raw:
    """A vertical axis a column, a line a run, from blue to orange by the rank of the column `coloured`."""
    names = list(columns)
    rows = np.column_stack([np.asarray(columns[name], float) for name in names])
    rows = _some(rows[np.isfinite(rows).all(axis=1)], _MOST_LINES)
    left, right, top, bottom = 30.0, WIDE - 60.0, 56.0, height - 24.0
    places = np.linspace(left, right, len(names)) if len(names) > 1 else np.array([left])
    scales = [_scale(rows[:, k], bottom, top) for k in range(len(names))]
    body = [_label(8, 14, title, "label")]
    if len(rows):
        order = np.argsort(np.argsort(rows[:, names.index(coloured)], kind="stable"))
        heights = np.column_stack([scale(rows[:, k]) for k, scale in enumerate(scales)])
        for line, rank in zip(heights, order, strict=True):
            share = rank / max(len(rows) - 1, 1)
            red, green, blue = (round((1 - share) * a + share * b) for a, b in ((0, 213), (114, 94), (178, 0)))
            body.append(
                f'<path d="{_curve(places, line)}" class="curve"'
                f' style="stroke:rgb({red},{green},{blue});stroke-width:1;opacity:.45"/>'
            )
    for k, (name, place, scale) in enumerate(zip(names, places, scales, strict=True)):
        anchor = "start" if k == 0 else "end" if k == len(names) - 1 else "middle"
        raised = 30 if k % 2 else 44  # neighbours with long names do not meet
        body += [
            _line(float(place), top, float(place), bottom, "axis"),
            _label(float(place), raised, name, "note", anchor),
            _label(float(place) + 4, bottom + 15, f"{scale.low:.4g}", "tick", anchor),
            _label(float(place) + 4, top + 4, f"{scale.high:.4g}", "tick"),
        ]
    return _svg(WIDE, height, title, body)


def side_by_side(pictures: list[Raw]) -> Raw:
    return Raw('<div class="pairs">' + "".join(f"<div>{e(picture)}</div>" for picture in pictures) + "</div>")


def _some(values: np.ndarray, most: int) -> np.ndarray:
    found: np.ndarray = values[:: max(math.ceil(len(values) / most), 1)]
    return found


def _scale(values: np.ndarray, first: float, last: float) -> Scale:
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
    margin = 0.03 * (high - low) if high - low > 1e-12 * max(1.0, abs(high)) else 0.5 * max(1e-9, abs(high))
    return Scale(low - margin, high + margin, first, last)
