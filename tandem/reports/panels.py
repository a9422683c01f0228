"""Curves as a picture: panels over each other, on a page, in a notebook, or as a PNG.

The page needs nothing (tandem/reports/html/chart.py draws it), the PNG needs matplotlib, the extra `plot`.
"""

import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sync.config.extras import install_extra
from sync.errors import ConfigError, TandemError
from sync.files.private import rewrite
from tandem.reports.html.chart import COLOURS, Series, curves, paths
from tandem.reports.html.page import document
from tandem.reports.html.words import Raw, e

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_HEIGHT, _HEIGHT_OF_PATH = 170, 420  # px
_AROUND = 60  # px


@dataclass
class Panel:
    title: str
    unit: str
    # label, x, y
    curves: list[tuple[str, NDArray[np.float64], NDArray[np.float64]]] = field(default_factory=list)
    path: bool = False  # y over x, on equal scales


class NoMatplotlib(TandemError):
    """A PNG was asked for without the package that draws it."""


class Plot:
    """Curves as a picture. A notebook shows it by itself; `save` writes a page or a PNG.

    >>> table = tandem.load_machine("mass_spring").run({"handle": 0.05}, steps=100)
    >>> table.plot("position").save("position.html").name
    'position.html'
    """

    def __init__(self, title: str, panels: Sequence[Panel]):
        self._title, self._panels = title, list(panels)

    def save(self, file: str | Path) -> Path:
        """As a page (.html), or as a picture (.png, the extra `plot`)."""
        path = Path(file)
        writers = {".html": write_page, ".png": write_png}
        if path.suffix not in writers:
            raise ConfigError(f"{path}: a plot is saved as .html or .png")
        try:
            writers[path.suffix](path, self._title, self._panels)
        except OSError as error:
            raise ConfigError(f"{path}: cannot be written: {error.strerror}") from None
        return path

    def __repr__(self) -> str:
        points = max((len(curve[1]) for panel in self._panels for curve in panel.curves), default=0)
        return f"<tandem.Plot of {', '.join(panel.title for panel in self._panels) or 'nothing'}: {points} points>"

    def _repr_html_(self) -> str:
        """In a frame of its own: the style of our pages is not that of a notebook."""
        high = sum(_HEIGHT_OF_PATH if panel.path else _HEIGHT for panel in self._panels) + _AROUND
        inside = escape(page(self._title, self._panels), quote=True)
        return f'<iframe srcdoc="{inside}" style="width:100%;height:{high}px;border:0"></iframe>'


# ---- a page ----------------------------------------------------------------------------------------------------------


def page(title: str, found: Sequence[Panel]) -> str:
    header = [f"<header><h1>{e(title)}</h1></header>"] if title else []
    return document(title or "plot", [*header, *(_picture(panel) for panel in found)])


def write_page(file: Path, title: str, found: Sequence[Panel]) -> None:
    rewrite(file, page(title, found).encode())


def _picture(panel: Panel) -> Raw:
    title = f"{panel.title}, {panel.unit}"
    series = [Series(*curve) for curve in panel.curves]
    return paths(title, series) if panel.path else curves(title, series, height=_HEIGHT)


# ---- a PNG -----------------------------------------------------------------------------------------------------------


def write_png(file: Path, title: str, found: Sequence[Panel]) -> None:
    try:
        import matplotlib
    except ImportError:
        raise NoMatplotlib(f"a PNG needs matplotlib: {install_extra('plot')}; a page (.html) needs nothing") from None
    image = io.BytesIO()
    with matplotlib.rc_context():
        # not those of a `matplotlibrc` in the working folder, which may be somebody else's: they can start LaTeX
        matplotlib.rcdefaults()
        _figure(title, found).savefig(image, dpi=120, format="png")
    rewrite(file, image.getvalue())


def _figure(title: str, found: Sequence[Panel]) -> "Figure":
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
