"""`tandem plot`: inputs, motion and age of one run, or of several over each other, as a page or a PNG.

What is drawn is decided once, as panels; the page is SVG of our own and needs nothing, the PNG needs matplotlib (the
extra `plot`). Curves are thinned to an envelope that keeps every extreme.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

import numpy as np

from sync.errors import ConfigError, TandemError
from sync.record import Run
from tandem.html.style import STYLE
from tandem.html.svg import LEFT, RIGHT, WIDE, Scale, envelope
from tandem.html.words import e

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
_HEIGHT, _PATH_HEIGHT = 150, 420
_POINTS = 1200

# (channel of a step, title, unit shown, factor)
DEFAULT = (
    ("steering_angle", "steering wheel", "deg", 180 / np.pi),
    ("throttle", "throttle", "1", 1.0),
    ("brake_pressure_bar", "brake", "bar", 1.0),
    ("vx", "speed", "km/h", 3.6),
    ("yaw_rate", "yaw rate", "deg/s", 180 / np.pi),
    ("ay", "lateral acceleration", "m/s2", 1.0),
    ("input_age_ns", "age at use", "us", 1e-3),
)


@dataclass
class Panel:
    title: str
    unit: str
    curves: list[tuple[str, np.ndarray, np.ndarray]] = field(default_factory=list)  # label, x, y
    path: bool = False  # y over x, on equal scales


def panels(runs: list[tuple[str, Run]], channels: list[str] | None) -> list[Panel]:
    """Asked-for channels, or the usual ones as far as they are there; a record without steps shows its raw blocks."""
    found: list[Panel] = []
    for name, title, unit, factor in _chosen(runs, channels):
        panel = Panel(title, unit)
        for label, run in runs:
            for topic_name in ("/step", run.source_topic):
                topic = run.topics.get(topic_name)
                if topic is not None and len(topic) and name in topic.layout.names:
                    t = (topic.blocks["t_ns"].astype(np.int64) - _zero(run)) * 1e-9
                    panel.curves.append((label, t, topic.blocks[name].astype(float) * factor))
                    break
        if panel.curves:
            found.append(panel)
    if channels is None:
        path = Panel("path", "m", path=True)
        for label, run in runs:
            steps = run.topics.get("/step")
            if steps is not None and len(steps) and {"x", "y"} <= set(steps.layout.names):
                path.curves.append((label, steps.blocks["x"], steps.blocks["y"]))
        if path.curves:
            found.insert(len(found) - 1, path)
    return found


def _zero(run: Run) -> int:
    return min(int(t.blocks["t_ns"][0]) for t in run.topics.values() if len(t))


def _units(runs: list[tuple[str, Run]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for _, run in runs:
        for topic in run.topics.values():
            for channel in topic.layout.channels:
                found.setdefault(channel.name, channel.unit)
    return found


def _chosen(runs: list[tuple[str, Run]], channels: list[str] | None) -> list[tuple[str, str, str, float]]:
    units = _units(runs)
    if channels is None:
        usual = [row for row in DEFAULT if row[0] in units]
        has_steps = any(len(run.topics.get("/step", ())) for _, run in runs)
        everything = [(name, name, unit, 1.0) for name, unit in units.items() if name != "step"]
        return usual if has_steps and usual else everything
    unknown = [name for name in channels if name not in units]
    if unknown:
        raise ConfigError(f"--channels {', '.join(unknown)}: not in the record; it has {', '.join(units)}")
    return [(name, name, units[name], 1.0) for name in channels]


# ---- a page ----------------------------------------------------------------------------------------------------------


def write_page(file: Path, title: str, found: list[Panel]) -> None:
    pictures = "".join(_picture(panel) for panel in found)
    file.write_text(
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{e(title)}</title><style>{STYLE}</style></head>\n<body><main><header><h1>{e(title)}</h1></header>"
        f"{pictures}</main></body></html>\n",
        encoding="utf-8",
    )


def _picture(panel: Panel) -> str:
    height = _PATH_HEIGHT if panel.path else _HEIGHT
    top, bottom = 26, height - 30
    x, y = _scales(panel, top, bottom)
    body = [f'<text x="{LEFT}" y="14" class="label">{escape(panel.title)}, {escape(panel.unit)}</text>']
    for at in y.ticks(4):
        body.append(f'<path d="M{LEFT} {y(at):.1f}H{WIDE - RIGHT}" class="grid"/>')
        body.append(f'<text x="{LEFT - 7}" y="{y(at) + 4:.1f}" class="tick" text-anchor="end">{at:g}</text>')
    unit = "m" if panel.path else "s"
    for at in x.ticks(8):
        body.append(f'<path d="M{x(at):.1f} {bottom}v4" class="axis"/>')
        body.append(f'<text x="{x(at):.1f}" y="{bottom + 17}" class="tick" text-anchor="middle">{at:g} {unit}</text>')
    body.append(f'<path d="M{LEFT} {bottom}H{WIDE - RIGHT}" class="axis"/>')
    for k, (label, horizontal, vertical) in enumerate(panel.curves):
        colour = COLOURS[k % len(COLOURS)]
        for hx, hy in _lines(panel, horizontal, vertical):
            points = "L".join(f"{a:.1f} {b:.1f}" for a, b in zip(x(hx).tolist(), y(hy).tolist(), strict=True))
            body.append(f'<path d="M{points}" class="curve" style="stroke:{colour}"/>')
        if len(panel.curves) > 1:
            place = LEFT + 200 + 260 * k
            body.append(f'<rect x="{place}" y="6" width="9" height="9" fill="{colour}"/>')
            body.append(f'<text x="{place + 13}" y="14" class="note">{escape(label)}</text>')
    return f'<svg viewBox="0 0 {WIDE} {height}" role="img" aria-label="{escape(panel.title)}">{"".join(body)}</svg>'


def _lines(panel: Panel, x: np.ndarray, y: np.ndarray) -> Iterable[tuple[np.ndarray, np.ndarray]]:
    if panel.path:
        finite = np.isfinite(x) & np.isfinite(y)
        every = max(len(x) // _POINTS, 1)
        if finite.any():
            yield x[finite][::every], y[finite][::every]
        return
    when, low, _, high, _ = envelope(x, y, _POINTS)
    if len(when):
        # up and down through both ends of every stretch: an extreme is never thinned away
        yield np.repeat(when, 2), np.stack([low, high], axis=1).ravel()


def _scales(panel: Panel, top: float, bottom: float) -> tuple[Scale, Scale]:
    xs = np.concatenate([c[1] for c in panel.curves]).astype(float)
    ys = np.concatenate([c[2] for c in panel.curves]).astype(float)
    xs, ys = xs[np.isfinite(xs)], ys[np.isfinite(ys)]
    (x0, x1), (y0, y1) = _ends(xs), _ends(ys)
    if panel.path:
        per_metre = min((WIDE - LEFT - RIGHT) / (x1 - x0), (bottom - top) / (y1 - y0))
        x1 = x0 + (WIDE - LEFT - RIGHT) / per_metre
        y1 = y0 + (bottom - top) / per_metre
    return Scale(x0, x1, LEFT, WIDE - RIGHT), Scale(y0, y1, bottom, top)


def _ends(values: np.ndarray) -> tuple[float, float]:
    if not len(values):
        return 0.0, 1.0
    low, high = float(values.min()), float(values.max())
    return (low, high) if high > low else (low - 0.5, high + 0.5)


# ---- a PNG -----------------------------------------------------------------------------------------------------------


class NoMatplotlib(TandemError):
    """A PNG was asked for without the package that draws it."""


def write_png(file: Path, title: str, found: list[Panel]) -> None:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise NoMatplotlib("a PNG needs matplotlib: pip install 'tandem[plot]'; --to html needs nothing") from None
    heights = [2.8 if panel.path else 1.0 for panel in found]
    figure = Figure(figsize=(11, 1.4 * sum(heights) + 0.6), layout="constrained")
    figure.suptitle(title)
    axes = np.atleast_1d(figure.subplots(len(found), 1, height_ratios=heights))
    for axis, panel in zip(axes, found, strict=True):
        for k, (label, x, y) in enumerate(panel.curves):
            axis.plot(x, y, label=label, color=COLOURS[k % len(COLOURS)], linewidth=0.9)
        axis.set_ylabel(f"{panel.title}\n{panel.unit}")
        axis.set_xlabel("m" if panel.path else "s")
        axis.grid(alpha=0.3)
        if panel.path:
            axis.set_aspect("equal", adjustable="datalim")
        if len(panel.curves) > 1 and panel is found[0]:
            axis.legend(loc="best", fontsize="small")
    figure.savefig(file, dpi=120)
