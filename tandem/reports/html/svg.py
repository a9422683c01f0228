"""Pictures as SVG: curves over time, histograms, ranges and stacked bars, with their scales, ticks and tooltips.

A picture is a string that stands by itself and takes its ink from the page's style sheet. Its size is bounded, however
long the run: curves are thinned to an envelope that keeps every extreme, and too many marks are drawn together.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Any

import numpy as np

from tandem.reports.html.figures import RunData, step_events, summary_us, time_s
from tandem.reports.html.words import Raw, axis_ns, e, format_count, format_many, format_ns, format_us

WIDE, HALF = 1040, 508  # of a picture, and of one that shares its row; about the pixels on a laptop
LEFT, RIGHT = 62, 14
_POINTS = 600  # of a curve over time
_HOVER = 90  # columns with a tooltip over a curve
_PER_DECADE = 16  # bars of a histogram


def _svg(width: int, height: float, label: str, body: Iterable[str]) -> Raw:
    return Raw(
        f'<svg viewBox="0 0 {width} {height:.0f}" role="img" aria-label="{escape(label, quote=True)}">'
        f"<title>{escape(label)}</title>{''.join(body)}</svg>"
    )


def _label(x: float, y: float, text: Any, kind: str = "", anchor: str = "start", fill: str = "") -> str:
    style = f' fill="{fill}" style="fill:{fill}"' if fill else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}"{style}>{e(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str = "grid", stroke: str = "") -> str:
    style = f' style="stroke:{stroke}"' if stroke else ""
    return f'<path d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" class="{kind}"{style}/>'


def rect(x: float, y: float, w: float, h: float, fill: str, tip: str = "", extra: str = "") -> str:
    title = f"<title>{escape(tip)}</title>" if tip else ""
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}" fill="{fill}"{extra}>{title}</rect>'


def _curve(x: np.ndarray, y: np.ndarray) -> str:
    return "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in zip(x.tolist(), y.tolist(), strict=True))


def _margin(names: Iterable[str], least: int) -> int:
    """Room for the names at the left of a picture, as far as that is reasonable."""
    return min(max([least, *(8 * len(name) + 16 for name in names)]), 260)


def _nice(span: float, about: int) -> float:
    """A step of 1, 2 or 5 times a power of ten that divides `span` into about so many."""
    raw = max(span, 1e-12) / about
    power = 10.0 ** math.floor(math.log10(raw))
    return next(power * k for k in (1, 2, 5, 10) if power * k >= raw * 0.999)


@dataclass(frozen=True)
class Scale:
    """Values to pixels, straight or logarithmic, with its ticks."""

    low: float
    high: float
    first: float  # pixel of `low`
    last: float
    logarithmic: bool = False

    def __call__(self, value: Any) -> Any:
        if self.logarithmic:
            share = np.log(np.maximum(value, self.low) / self.low) / math.log(self.high / self.low)
        else:
            share = (np.asarray(value, float) - self.low) / (self.high - self.low)
        return self.first + np.clip(share, 0.0, 1.0) * (self.last - self.first)

    def ticks(self, about: int = 5) -> list[float]:
        if self.logarithmic:
            powers = range(math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9) + 1)
            return [10.0**p for p in powers]
        step = _nice(self.high - self.low, about)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [k * step for k in range(first, last + 1)]


def log_scale(values: Sequence[np.ndarray], first: float, last: float) -> Scale:
    """Whole decades around all that is positive, from 100 ns up, and at least two of them."""
    positive = np.concatenate([v[v > 0].astype(float) for v in values] + [np.zeros(0)])
    ends = (positive.min(), positive.max()) if len(positive) else (1e3, 1e6)
    low, high = (math.log10(max(float(end), 100.0)) for end in ends)
    low, high = math.floor(low), math.ceil(high + 1e-9)
    return Scale(10.0**low, 10.0 ** max(high, low + 2), first, last, logarithmic=True)


def height_scale(values: Sequence[np.ndarray], first: float, last: float) -> Scale:
    """For times over time: from 0, unless a few are so much larger than the rest that the rest would be a line."""
    together = np.concatenate(list(values))
    top, middle = float(together.max()), float(np.median(together))
    if middle > 0 and top > 40 * middle:
        return log_scale(values, first, last)
    return Scale(min(0.0, float(together.min())), max(top * 1.08, 1e3), first, last)


def time_ticks(scale: Scale, about: int = 5) -> list[tuple[float, str]]:
    as_text = format_ns if scale.logarithmic else axis_ns(scale.high)
    return [(tick, as_text(tick)) for tick in scale.ticks(about)]


def envelope(t: np.ndarray, values: np.ndarray, points: int = _POINTS) -> tuple[np.ndarray, ...]:
    """(t, lowest, median, highest, how many) of at most `points` stretches of equally many values."""
    finite = np.isfinite(values)
    t, values = t[finite], values[finite]
    edges = np.unique(np.linspace(0, len(values), min(points, len(values)) + 1).astype(int))
    if len(values) == 0:
        return (np.zeros(0),) * 5
    first, many = edges[:-1], np.diff(edges)
    # every stretch in order, all of them at once: the median is in its middle, or between the two there
    ordered = values[np.lexsort((values, np.repeat(np.arange(len(many)), many)))]
    middle = 0.5 * (ordered[first + (many - 1) // 2] + ordered[first + many // 2])
    low, high = np.minimum.reduceat(values, first), np.maximum.reduceat(values, first)
    return np.add.reduceat(t, first) / many, low, middle, high, many


def _spans(t: np.ndarray, where: np.ndarray) -> list[tuple[float, float, int]]:
    """(from, to, how many) of each stretch of marked steps; close ones are one, so that there are never too many."""
    marked = np.flatnonzero(where)
    if len(marked) == 0:
        return []
    apart = np.flatnonzero(np.diff(t[marked]) > max(float(t[-1] - t[0]), 1e-9) / 400)
    starts, ends = np.r_[0, apart + 1], np.r_[apart, len(marked) - 1]
    return [(float(t[marked[a]]), float(t[marked[b]]), int(b - a + 1)) for a, b in zip(starts, ends, strict=True)]


def over_time(
    run: RunData,
    values: np.ndarray,
    y: Scale,
    ticks: list[tuple[float, str]],
    as_text: Callable[[float], str],
    colour: str,
    label: str,
    height: int,
    marks: bool = True,
    spots: Sequence[dict[str, Any]] = (),
) -> Raw:
    """A curve over the run: the median, in the band from lowest to highest; events of steps are marked."""
    t = time_s(run.steps)
    end = max(float(t[-1]), 1e-3)
    x = Scale(0.0, end, LEFT, WIDE - RIGHT)
    top, bottom = y.last, y.first
    body: list[str] = []
    legend: list[tuple[str, str]] = []
    for at, text in ticks:
        body += [_line(LEFT, y(at), WIDE - RIGHT, y(at)), _label(LEFT - 7, y(at) + 4, text, "tick", "end")]
    for at in x.ticks(8):
        body += [
            _line(x(at), bottom, x(at), bottom + 4, "axis"),
            _label(x(at), bottom + 17, f"{at:g} s", "tick", "middle"),
        ]
    body.append(_line(LEFT, bottom, WIDE - RIGHT, bottom, "axis"))
    for word, fill, where in step_events(run.steps, run.rows) if marks else ():
        spans = _spans(t, where)
        cap = top - 4 - 4 * (len(legend) % 3)  # a row for each kind, so that none hides another
        marked = []
        for a, b, many in spans:
            tip = f"{word}: {format_many(many, 'step', 'steps')} at {a:.3f} s" + f" to {b:.3f} s" * (b > a)
            wide = max(float(x(b) - x(a)), 1.6)
            band = f"M{x(a) - 0.8:.1f} {top:.0f}h{wide:.1f}V{bottom:.0f}h-{wide:.1f}Z"
            marked.append((tip, band, f"M{x(a) - 1.8:.1f} {cap:.0f}h{wide + 2:.1f}v3.4h-{wide + 2:.1f}Z"))
        if len(marked) > _HOVER:  # too many to list one by one
            _, bands, heads = zip(*marked, strict=True)
            marked = [(f"{word}, in {len(marked)} places", "".join(bands), "".join(heads))]
        for tip, band, head in marked:
            body.append(f'<g fill="{fill}"><title>{escape(tip)}</title>')
            body.append(f'<path class="mark" d="{band}"/><path class="cap" d="{head}"/></g>')
        if spans:
            legend.append((fill, f"{word} ({format_count(int(where.sum()))})"))
    when, low, middle, high, sizes = envelope(t, values)
    if len(when):
        if len(when) < len(values):
            band = _curve(np.r_[x(when), x(when)[::-1]], np.r_[y(high), y(low)[::-1]])
            body.append(f'<path d="{band}Z" class="band" style="fill:{colour};stroke:{colour}"/>')
        body.append(f'<path d="{_curve(x(when), y(middle))}" class="curve" style="stroke:{colour}"/>')
        if len(when) == 1:
            body.append(f'<circle cx="{x(when[0]):.1f}" cy="{y(middle[0]):.1f}" r="3" fill="{colour}"/>')
        stretches = np.unique(np.linspace(0, len(when), min(_HOVER, len(when)) + 1).astype(int))
        for a, b in pairwise(stretches):
            left = float(x(when[a])) if a else LEFT
            right = float(x(when[b])) if b < len(when) else WIDE - RIGHT
            tip = (
                f"{when[a]:.2f}–{when[b - 1]:.2f} s, {format_many(int(sizes[a:b].sum()), 'step', 'steps')}: median"
                f" {as_text(float(np.median(middle[a:b])))}, {as_text(float(low[a:b].min()))} to"
                f" {as_text(float(high[a:b].max()))}"
            )
            body.append(rect(left, top, right - left, bottom - top, "#000", tip, ' class="hover"'))
    for row in spots:
        tip = f"step {row['step']} at {row['at_s']} s: {format_us(row['age_us'])} old; {'; '.join(row['happened'])}"
        spot = f'cx="{x(row["at_s"]):.1f}" cy="{y(1e3 * row["age_us"]):.1f}"'
        body.append(f'<circle {spot} r="4" class="spot"><title>{escape(tip)}</title></circle>')
    if spots:
        legend.append(("none", f"○ the worst {len(spots)}"))
    place = LEFT + 12.0
    for fill, text in legend:
        body += [rect(place - 12, bottom + 26, 9, 9, fill), _label(place, bottom + 34.5, text, "note")]
        place += 6.1 * len(text) + 26
    body.append(_label(LEFT, 14, label, "label"))
    return _svg(WIDE, height + 18 * bool(legend), label, body)


def lanes(
    title: str, colour: str, entries: list[tuple[str, np.ndarray]], x: Scale, width: int, rules: dict[str, float]
) -> Raw:
    """A histogram a run, one below the other on one logarithmic time axis; heights are logarithmic too."""
    lane, top = 74, 24
    bottom = top + lane * len(entries)
    body, notes = [_label(0, 13, title, "label")], []
    for at in x.ticks():
        body += [_line(x(at), top, x(at), bottom + 4), _label(x(at), bottom + 17, format_ns(at), "tick", "middle")]
    edges = np.geomspace(x.low, x.high, round(_PER_DECADE * math.log10(x.high / x.low)) + 1)
    # figures stand where no rule crosses them
    crowded = any(x(at) > (x.first + x.last) / 2 for at in rules.values())
    place, anchor = (x.first + 8, "start") if crowded else (width - RIGHT, "end")
    for k, (label, values) in enumerate(entries):
        base = top + lane * (k + 1)
        body.append(_line(x.first, base, x.last, base, "axis"))
        figures, below = summary_us(values), int((values < 0).sum())
        if not values.any():
            notes.append(_label(x.first + 8, base - 8, f"{label}: always 0, not on its path", "note"))
            continue
        figures_text = f"{label}: " * (len(entries) > 1) + " · ".join(
            f"{key} {format_us(figures[key])}" for key in ("p50", "p99", "max")
        )
        figures_text += f" · {format_count(below)} below 0" * bool(below)  # two hosts, two clocks
        notes.append(_label(place, base - lane + 13, figures_text, "note", anchor))
        counts, _ = np.histogram(np.clip(values, x.low, x.high), edges)
        y = Scale(0.5, max(float(counts.max()), 10.0), base, base - lane + 22, logarithmic=True)
        for tick in (1, 100, 10_000):
            if tick <= y.high:
                body.append(_line(x.first - 4, y(tick), x.first, y(tick), "axis"))
                body.append(_label(x.first - 7, y(tick) + 4, format_count(tick), "tick", "end"))
        for count, a, b in zip(counts.tolist(), edges[:-1], edges[1:], strict=True):
            if count:
                steps = format_many(count, "step", "steps")
                tip = f"{format_ns(a)} to {format_ns(b)}: {steps} ({count / len(values):.2%})"
                body.append(rect(x(a) + 0.4, y(count), x(b) - x(a) - 0.8, base - y(count), colour, tip))
    body += [_line(x(at), top - 4, x(at), bottom, "rule") for at in rules.values()]
    if rules:
        notes.append(_label(width - RIGHT, 13, f"dashed: {', '.join(rules)}", "note", "end"))
    return _svg(width, bottom + 24, title, body + notes)


def ranges(title: str, rows: list[tuple[str, dict[str, Any], str]], width: int) -> Raw:
    """A row each: a dot at the median, thick to p99, thinner to p99.9, thin to the largest."""
    left, pitch, top = _margin((name for name, _, _ in rows), 124), 44, 24
    values = np.array([1e3 * row[key] for _, row, _ in rows for key in ("p50", "p99", "p999", "max")])
    x = log_scale([values], left, width - RIGHT)
    bottom = top + pitch * len(rows)
    body = [_label(0, 13, title, "label")]
    for at in x.ticks():
        body += [_line(x(at), top, x(at), bottom + 4), _label(x(at), bottom + 17, format_ns(at), "tick", "middle")]
    for k, (name, row, colour) in enumerate(rows):
        y = top + pitch * (k + 0.68)
        p50, p99, p999, most = (float(x(1e3 * row[key])) for key in ("p50", "p99", "p999", "max"))
        keys = {"p50": "p50", "p99": "p99", "p99.9": "p999", "max": "max"}
        shown = (
            " · ".join(f"{word} {format_us(row[key])}" for word, key in keys.items())
            if p50 < most
            else format_us(row["p50"])
        )
        body += [_label(left - 12, y + 4, name, "", "end"), _label(width - RIGHT, y - 13, shown, "note", "end")]
        body.append(f'<g class="range" style="stroke:{colour}"><title>{escape(f"{name}: {shown}")}</title>')
        for a, b, thick in ((p50, p99, 7), (p99, p999, 3.5), (p999, most, 1.2)):
            body.append(f'<path d="M{a:.1f} {y:.1f}H{b:.1f}" stroke-width="{thick}"/>')
        body.append(f'<path d="M{most:.1f} {y - 6:.1f}v12" stroke-width="2"/>')
        body.append(f'<circle cx="{p50:.1f}" cy="{y:.1f}" r="4.5" style="fill:{colour}"/></g>')
    return _svg(width, bottom + 24, title, body)


Bar = tuple[str, list[tuple[str, float, str, str, str]], str]  # name, [part, value, colour, ink, tip], words at its end


def stacked(rows: list[Bar], as_text: Callable[[float], str], label: str, until: str = "") -> Raw:
    """Bars of parts on one axis; a mark stands at the end of the part named `until`."""
    left, pitch, right = _margin((name for name, _, _ in rows), 86), 56, 150
    most = max(sum(part[1] for part in parts) for _, parts, _ in rows)
    x = Scale(0.0, most or 1.0, left, WIDE - right)
    body = []
    bottom = 8 + pitch * len(rows)
    for at in x.ticks(6):
        body += [_line(x(at), 8, x(at), bottom + 4), _label(x(at), bottom + 17, as_text(at), "tick", "middle")]
    for k, (name, parts, words) in enumerate(rows):
        y, at = 8 + pitch * k + 13, 0.0
        body.append(_label(left - 10, y + 21, name, "strong", "end"))
        for part, value, colour, ink, tip in parts:
            a, b = float(x(at)), float(x(at + value))
            at += value
            if value <= 0:
                continue
            body.append(rect(a, y, max(b - a, 1.0), 34, colour, tip, ' class="part"'))
            text = f"{part} {as_text(value)}"
            if b - a > 7.2 * len(text) + 8:
                body.append(_label((a + b) / 2, y + 21, text, "in", "middle", ink))
            elif b - a > 7.2 * len(part) + 6:
                body.append(_label((a + b) / 2, y + 21, part, "in", "middle", ink))
            if part == until:
                body.append(f'<path d="M{b - 5:.1f} {y - 9}h10l-5 8Z" class="until"/>')
        body.append(_label(float(x(at)) + 9, y + 21, words, "strong"))
    return _svg(WIDE, bottom + 24, label, body)
