"""Charts of any quantities: several curves over one axis (straight or logarithmic), and paths in a plane at true scale.

As in svg.py a picture is bounded in size however long the data, takes its ink from the style sheet, and says figures
when hovered. A curve that leaves no finite value is named in the legend and not drawn.
"""

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

import numpy as np

from tandem.reports.html.svg import LEFT, RIGHT, WIDE, Scale, _curve, _label, _line, _svg, envelope, rect
from tandem.reports.html.words import Raw

# Okabe and Ito's, in the order in which neighbours are distinguished best
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7b3294", "#8a8f98")
_FLOOR = 1e-17  # what a logarithmic axis makes of zero


class Series(NamedTuple):
    label: str
    x: np.ndarray
    y: np.ndarray


def curves(
    title: str,
    series: Sequence[Series],
    x_label: str = "s",
    logarithmic: bool = False,
    height: int = 240,
    width: int = WIDE,
    logarithmic_x: bool = False,
) -> Raw:
    """All on one pair of axes, a colour each; where colours are used up, dashed."""
    finite = [(s, np.isfinite(s.y)) for s in series]
    finite = [(Series(s.label, np.asarray(s.x, float)[ok], np.asarray(s.y, float)[ok]), ok) for s, ok in finite]
    x_all = np.concatenate([s.x for s, _ in finite] + [np.zeros(0)])
    y_all = np.concatenate([s.y for s, _ in finite] + [np.zeros(0)])
    top, bottom = 28, height - 40
    left, right = LEFT + 10, width - RIGHT
    x = _decades(x_all, left, right) if logarithmic_x else _linear(x_all, left, right, exact=True)
    y = _decades(y_all, bottom, top) if logarithmic else _linear(y_all, bottom, top)
    body = [_label(LEFT + 10, 14, title, "label")]
    ticks = y.ticks(5)
    if logarithmic and len(ticks) > 9:
        ticks = ticks[:: math.ceil(len(ticks) / 9)]
    for at in ticks:
        body += [
            _line(LEFT + 10, y(at), width - RIGHT, y(at)),
            _label(LEFT + 3, y(at) + 4, _short(at, y), "tick", "end"),
        ]
    for at in x.ticks(8):
        value = _short(at, x) if logarithmic_x else f"{at:.6g}"
        body += [
            _line(x(at), bottom, x(at), bottom + 4, "axis"),
            _label(x(at), bottom + 17, f"{value} {x_label}", "tick", "middle"),
        ]
    body.append(_line(LEFT + 10, bottom, width - RIGHT, bottom, "axis"))
    legend = []
    for k, (s, _) in enumerate(finite):
        colour = COLOURS[k % len(COLOURS)]
        dash = ";stroke-dasharray:7 4" if k >= len(COLOURS) else ""
        legend_text = s.label if len(s.y) else f"{s.label} (no finite value)"
        legend_text += " (dashed)" if dash else ""
        if len(s.y):
            t, low, middle, high, _ = envelope(s.x, np.maximum(s.y, _FLOOR) if logarithmic else s.y)
            if len(t) < len(s.y):
                band = _curve(np.r_[x(t), x(t)[::-1]], np.r_[y(high), y(low)[::-1]])
                body.append(f'<path d="{band}Z" class="band" style="fill:{colour};stroke:{colour}"/>')
            tip = f"{s.label}: {s.y.min():.3g} to {s.y.max():.3g}, at the end {s.y[-1]:.3g}"
            body.append(
                f'<path d="{_curve(x(t), y(middle))}" class="curve" style="stroke:{colour}{escape(dash)}">'
                f"<title>{escape(tip)}</title></path>"
            )
        legend.append((colour, legend_text))
    return _svg(width, height + _legend(body, legend, bottom, width), title, body)


Sticks = Sequence[tuple[np.ndarray, np.ndarray]]  # lines, each its x and its y


def paths(
    title: str, series: Sequence[Series], sticks: Sequence[Sticks] = (), width: int = WIDE, height: int = 420
) -> Raw:
    """Curves in a plane with one scale for both axes; a dot where each begins.

    `sticks` are drawn below them, the first in full ink and those that follow ever fainter: a body at some instants.
    """
    finite = [np.isfinite(s.x) & np.isfinite(s.y) for s in series]
    shown = [Series(s.label, s.x[ok], s.y[ok]) for s, ok in zip(series, finite, strict=True)]
    segments = [(a, b) for group in sticks for a, b in group if np.all(np.isfinite(a)) and np.all(np.isfinite(b))]
    x_all = np.concatenate([s.x for s in shown] + [a for a, _ in segments] + [np.zeros(0)])
    y_all = np.concatenate([s.y for s in shown] + [b for _, b in segments] + [np.zeros(0)])
    top, bottom, left, right = 28.0, height - 40.0, LEFT + 10.0, float(width - RIGHT)
    if not len(x_all):
        x_all = y_all = np.zeros(1)
    reach = max(float(np.ptp(x_all)) / (right - left), float(np.ptp(y_all)) / (bottom - top), 1e-12) * 1.08
    cx, cy = 0.5 * (x_all.min() + x_all.max()), 0.5 * (y_all.min() + y_all.max())
    half_x, half_y = 0.5 * reach * (right - left), 0.5 * reach * (bottom - top)
    x, y = Scale(cx - half_x, cx + half_x, left, right), Scale(cy - half_y, cy + half_y, bottom, top)
    body = [_label(left, 14, title, "label")]
    for at in y.ticks(6):
        body += [_line(left, y(at), right, y(at)), _label(left - 7, y(at) + 4, _short(at, y), "tick", "end")]
    for at in x.ticks(8):
        body += [_line(x(at), top, x(at), bottom + 4), _label(x(at), bottom + 17, f"{at:.6g} m", "tick", "middle")]
    for k in reversed(range(len(sticks))):
        ink = 0.85 if k == 0 else 0.45 / (1 + 0.35 * k)
        for a, b in sticks[k]:
            if np.all(np.isfinite(a)) and np.all(np.isfinite(b)):
                body.append(f'<path d="{_curve(x(a), y(b))}" class="axis" style="stroke-width:3;opacity:{ink:.2f}"/>')
    legend = []
    for k, s in enumerate(shown):
        colour = COLOURS[k % len(COLOURS)]
        legend.append((colour, s.label))
        if not len(s.x):
            continue
        keep = np.unique(np.linspace(0, len(s.x) - 1, min(len(s.x), 1500)).astype(int))
        body.append(
            f'<path d="{_curve(x(s.x[keep]), y(s.y[keep]))}" class="curve" style="stroke:{colour}">'
            f"<title>{escape(s.label)}</title></path>"
            f'<circle cx="{x(s.x[0]):.1f}" cy="{y(s.y[0]):.1f}" r="4" fill="{colour}"/>'
        )
    return _svg(width, height + _legend(body, legend, bottom, width), title, body)


def _legend(body: list[str], legend: list[tuple[str, str]], bottom: float, width: int) -> float:
    """Draws it below the axis, in as many rows as it takes; returns its height."""
    place, row = LEFT + 22.0, bottom + 36
    for colour, text in legend:
        wide = 6.3 * len(text) + 30
        if place + wide > width and place > LEFT + 22:
            place, row = LEFT + 22.0, row + 18
        body += [rect(place - 12, row - 9, 9, 9, colour), _label(place + 1, row, text, "note")]
        place += wide
    return row - bottom - 22


def _linear(values: np.ndarray, first: float, last: float, exact: bool = False) -> Scale:
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
    margin = 0.0 if exact else 0.06 * (high - low)
    if high - low < 1e-12 * max(1.0, abs(high)):
        margin = 0.5 * max(1e-9, abs(high))
    return Scale(low - margin, high + margin, first, last)


def _decades(values: np.ndarray, first: float, last: float) -> Scale:
    positive = values[values > _FLOOR]
    low, high = (float(positive.min()), float(positive.max())) if len(positive) else (1e-16, 1e-14)
    a, b = math.floor(math.log10(low)), math.ceil(math.log10(high) + 1e-9)
    return Scale(10.0**a, 10.0 ** max(b, a + 2), first, last, logarithmic=True)


def _short(value: float, scale: Scale) -> str:
    if scale.logarithmic:
        return f"1e{round(math.log10(value))}"
    return "0" if abs(value) < 1e-9 * (scale.high - scale.low) else f"{value:.4g}"
