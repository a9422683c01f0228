"""`tandem plot`: inputs, motion and age of one run, or of several over each other, as a page or a PNG.

What is drawn is decided once, as panels; the page needs nothing (tandem/reports/html/chart.py draws it), the PNG needs
matplotlib, the extra `plot`.
"""

import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sync.config.extras import install_extra
from sync.errors import ConfigError, TandemError
from sync.files.private import rewrite
from sync.record import Run, measured
from sync.record.settings import recorded_tiles
from tandem.reports.html.chart import COLOURS, Series, curves, paths
from tandem.reports.html.page import document
from tandem.reports.html.words import Raw, e

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_HEIGHT = 170

_AGE = ("input_age_ns", "age at use", "us", 1e-3)


@dataclass
class Panel:
    title: str
    unit: str
    curves: list[tuple[str, np.ndarray, np.ndarray]] = field(default_factory=list)  # label, x, y
    path: bool = False  # y over x, on equal scales


def panels(runs: list[tuple[str, Run]], channels: list[str] | None) -> list[Panel]:
    """Asked-for channels, or the usual ones as far as they are there; a record without steps shows its raw blocks."""
    found: list[Panel] = []
    of_sensors = [measured(run) for _, run in runs]
    for name, title, unit, factor in _chosen(runs, channels):
        panel = Panel(title, unit)
        for (label, run), readings in zip(runs, of_sensors, strict=True):
            if (sensor := readings.get(name)) is not None:
                seconds = (sensor.t_ns - _zero(run)) * 1e-9
                panel.curves.append((f"{label}, measured", seconds, sensor.values * factor))
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


def _shown(runs: list[tuple[str, Run]]) -> list[tuple[str, str, str, float]]:
    """(channel of a step, title, unit shown, factor), as the machine of the record has them shown."""
    rows: dict[str, tuple[str, str, str, float]] = {}
    for _, run in runs:
        for tile in recorded_tiles(run):
            rows.setdefault(tile[0], tile)
    return list(rows.values())


def _chosen(runs: list[tuple[str, Run]], channels: list[str] | None) -> list[tuple[str, str, str, float]]:
    units = _units(runs)
    if channels is None:
        shown = _shown(runs)
        besides = {name: (name, name, m.unit, 1.0) for _, run in runs for name, m in measured(run).items()}
        for tile in shown:
            besides.pop(tile[0], None)
        usual = [row for row in (*shown, *besides.values(), _AGE) if row[0] in units]
        has_steps = any(len(run.topics.get("/step", ())) for _, run in runs)
        everything = [(name, name, unit, 1.0) for name, unit in units.items() if name != "step"]
        return usual if has_steps and len(usual) > 1 else everything
    unknown = [name for name in channels if name not in units]
    if unknown:
        raise ConfigError(f"--channels {', '.join(unknown)}: not in the record; it has {', '.join(units)}")
    return [(name, name, units[name], 1.0) for name in channels]


# ---- a page ----------------------------------------------------------------------------------------------------------


def write_page(file: Path, title: str, found: list[Panel]) -> None:
    header = f"<header><h1>{e(title)}</h1></header>"
    rewrite(file, document(title, [header, *(_picture(panel) for panel in found)]).encode())


def _picture(panel: Panel) -> Raw:
    title = f"{panel.title}, {panel.unit}"
    series = [Series(*curve) for curve in panel.curves]
    return paths(title, series) if panel.path else curves(title, series, height=_HEIGHT)


# ---- a PNG -----------------------------------------------------------------------------------------------------------


class NoMatplotlib(TandemError):
    """A PNG was asked for without the package that draws it."""


def write_png(file: Path, title: str, found: list[Panel]) -> None:
    try:
        import matplotlib
    except ImportError:
        raise NoMatplotlib(f"a PNG needs matplotlib: {install_extra('plot')}; --to html needs nothing") from None
    drawn = io.BytesIO()
    with matplotlib.rc_context():
        # not those of a `matplotlibrc` in the working folder, which may be somebody else's: they can start LaTeX
        matplotlib.rcdefaults()
        _figure(title, found).savefig(drawn, dpi=120, format="png")
    rewrite(file, drawn.getvalue())


def _figure(title: str, found: list[Panel]) -> "Figure":
    from matplotlib.figure import Figure

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
    return figure
