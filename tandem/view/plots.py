"""Plots of the last seconds, or of a whole record: any channel of a step by its name, up to six charts with one cursor,
up to two quantities each. Units are those of the tiles.

viser has no list of many choices; a choice that stands for the same quantity at several places makes up for the usual
case; the machine says which names those are. Two quantities of different units have an axis each.
"""

import math
import re
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from sim_service.contract.machine import Machine
from tandem.view.data_source import MEASURED_FIELD
from tandem.view.history import SECONDS, History, curves_of

NOTHING = "–"
LAST, WHOLE = f"the last {SECONDS:.0f} s", "the whole record"
MOST_CHARTS = 6
_POINTS_OF_A_RECORD = 6000
INK = "#868e96"  # of axes: read on light and on dark
_NOTHING_MEASURED: Mapping[str, str] = MappingProxyType({})
_COLOURS = ("#1c7ed6", "#e8590c", "#2f9e44", "#ae3ec9", "#f08c00", "#0c8599", "#e03131", "#868e96")
# of a step itself, in a unit that suits a plot: a channel, another to take off it, the unit
TIMING = {
    "age at use": ("input_age_ns", "", "ms"),
    "step cost": ("pushed_ns", "taken_ns", "ms"),
    "lateness": ("started_ns", "t_ns", "ms"),
    "phase error": ("phase_error_ns", "", "ms"),
}


# the least that an axis spans, by the unit that is shown: below it a curve is a flat line and not noise
_LEAST = {
    "m": 1e-4, "mm": 0.1, "m/s": 1e-3, "km/h": 0.1, "rad": 1e-4, "deg": 0.05, "rad/s": 1e-3, "deg/s": 0.1, "N": 0.01,
    "N m": 1e-3, "bar": 0.05, "ms": 0.01, "s": 1e-5, "%": 0.1, "1": 1e-4,
}  # fmt: skip
_USUAL_LEAST = 1e-3
_READABLE = 0.01  # uPlot writes no more than three decimals: on a smaller span its ticks would read the same
_OF_ALL = 1e-6  # of the largest value: less is a matter of rounding
_SETTLED_S = (1.0, 3.0, 8.0)  # after a page has opened
_PREFIXES = {0: "", -3: "m", -6: "µ", -9: "n"}
_WITH_PREFIX = re.compile(r"(m|s|N|rad|W|J|V|A|Pa)(?![a-zA-Z])")


class Choice:
    """What one entry of the list plots."""

    def __init__(self, label: str, names: list[str], unit: str, minus: str = "", factor: float = 1.0):
        self.label, self.names, self.unit, self.minus, self.factor = label, names, unit, minus, factor


def _as_tiles(model: Machine, listed: list[Choice]) -> None:
    """A quantity that a tile shows has its unit here, too; so have others of that unit, where all tiles agree."""
    shown, units_of = model.shown.display, {q.name: q.unit for q in (*model.inputs, *model.outputs)}
    tiles = {t.channel: (t.unit, t.factor) for t in (*shown.figures, *shown.hands) if t.unit and not t.words}
    ways: dict[str, set[tuple[str, float]]] = {}
    for channel, way in tiles.items():
        ways.setdefault(units_of.get(channel, ""), set()).add(way)
    agreed = {unit: next(iter(found)) for unit, found in ways.items() if len(found) == 1 and unit != "1"}
    for choice in listed:
        choice.unit, choice.factor = tiles.get(choice.names[0]) or agreed.get(choice.unit, (choice.unit, choice.factor))


def choices(model: Machine, measured: Mapping[str, str] = _NOTHING_MEASURED) -> dict[str, Choice]:
    """By what the list shows: `group / name`, in the order of the description. `measured`: what sensors measured at the
    machine, with units; beside an output of that name where it is one."""
    listed: list[Choice] = [Choice(f"input / {q.name}", [q.name], q.unit) for q in model.inputs]
    families = model.shown.display.families
    ends = "|".join(re.escape(end) for _, members in families for end in members)
    ending = re.compile(f"^(.+)_({ends})$" if ends else "(?!)")
    together: dict[tuple[str, str], list[str]] = {}
    single, by_place = [], []
    for q in model.outputs:
        found = ending.match(q.name)
        if found is None:
            single.append(Choice(f"output / {q.name}", [q.name], q.unit))
        else:
            together.setdefault((found[1], q.unit), []).append(q.name)
            by_place.append(Choice(f"{found[2]} / {q.name}", [q.name], q.unit))
    listed += single
    for (stem, unit), names in together.items():
        for title, endings in families:
            members = [n for n in names if n.endswith(tuple(f"_{end}" for end in endings))]
            if len(members) > 1:
                listed.append(Choice(f"{title} / {stem}", members, unit))
    listed += sorted(by_place, key=lambda c: c.label.split(" / ")[0])
    outputs = {q.name for q in model.outputs}
    for name, unit in measured.items():
        both = [name, MEASURED_FIELD + name] if name in outputs else [MEASURED_FIELD + name]
        listed.append(Choice(f"measured / {name}", both, unit))
    _as_tiles(model, listed)
    listed += [Choice(f"timing / {label}", [a], unit, b, 1e-6) for label, (a, b, unit) in TIMING.items()]
    return {c.label: c for c in listed}


def curves(
    history: History, picked: list[Choice], whole: np.ndarray | None = None
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Of all the choices' channels, in order: of the last seconds, or of these steps, seconds from their first."""
    wanted = [(name, c.minus) for c in picked for name in c.names]
    factors = [c.factor for c in picked for _ in c.names]
    if whole is None:
        t, columns = history.curves(wanted)
    else:
        t, columns = curves_of(whole, wanted, _POINTS_OF_A_RECORD)
        t = t - t[0] if len(t) else t
    return t, [column * factor for column, factor in zip(columns, factors, strict=True)]


def power(most: float, now: int, unit: str) -> int:
    """The power of ten in which an axis is written, now `now`: that of a unit with a prefix."""
    if not _WITH_PREFIX.match(unit):
        return 0
    if not 0.0 < most < math.inf or 0.05 <= most * 10.0**-now < 1000.0:  # kept while it will do
        return now
    return min(max(3 * math.floor(math.log10(most) / 3), min(_PREFIXES)), 0)


def prefixed(unit: str, to: int) -> str:
    return "" if unit == "1" else _PREFIXES[to] + unit


def span(columns: list[np.ndarray], unit: str, always: bool = False) -> tuple[float, float] | None:
    """The ends of an axis where what is drawn spans too little, in the unit, or `always`; None: what is drawn says."""
    finite = np.concatenate([column[np.isfinite(column)] for column in columns] or [np.zeros(0)])
    least = _LEAST.get(unit, _USUAL_LEAST)
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 0.0)
    # relative to a large value, too: 3.7281 to 3.7284 reads 3.728 at every tick
    most = max(abs(low), abs(high), least)
    least = max(least, _READABLE * 10.0 ** power(most, 0, unit), _OF_ALL * most)
    if high - low >= least:
        step = 10.0 ** math.floor(math.log10(high - low))  # so coarse that the ends stay
        return (step * math.floor(low / step), step * math.ceil(high / step)) if always else None
    middle = least * round(0.5 * (low + high) / least)  # where it stays while the curve trembles
    return middle - least, middle + least


def units(picked: list[Choice]) -> list[str]:
    """An axis each."""
    return list(dict.fromkeys(c.unit for c in picked))


def layout(
    picked: list[Choice],
    powers: dict[str, int],
    spans: dict[str, tuple[float, float] | None] | None = None,
    whole: bool = False,
    dotted: bool = False,
) -> dict[str, Any]:
    """series, scales and axes of a chart: of the last seconds, or of a whole record. The axis of time is what the
    points span: one with a range of its own has no ticks where it was made in a tab that was not shown."""
    axes_of = units(picked)
    series: list[dict[str, Any]] = [{"label": "s"}]
    strokes: dict[str, list[str]] = {}
    for c in picked:
        for name in c.names:
            label = c.label.split(" / ")[1] if len(c.names) == 1 else name
            scale = f"y{axes_of.index(c.unit)}"
            colour = _COLOURS[(len(series) - 1) % len(_COLOURS)]
            strokes.setdefault(c.unit, []).append(colour)
            points = {"show": dotted, "size": 2.5, "width": 0, "fill": colour}
            series.append(
                {"label": label, "stroke": colour, "width": 0 if dotted else 1.5, "scale": scale, "points": points}
            )
    scales: dict[str, Any] = {"x": {"time": False}}
    axes: list[dict[str, Any]] = [
        {"label": "s of the record" if whole else "s before now", "labelSize": 18, "size": 28, "stroke": INK}
    ]
    for number, unit in enumerate(axes_of):
        ends_of = (spans or {}).get(unit)
        scales[f"y{number}"] = {"range": ends_of} if ends_of else {"auto": True}
        axis: dict[str, Any] = {"scale": f"y{number}", "label": prefixed(unit, powers.get(unit, 0))}
        axis |= {"labelSize": 18, "size": 52, "side": 3 if number == 0 else 1}
        # as its curve, where it is one
        axis["stroke"] = strokes[unit][0] if len(strokes[unit]) == 1 else INK
        if number:
            axis["grid"] = {"show": False}
        axes.append(axis)
    return {"series": tuple(series), "scales": scales, "axes": tuple(axes)}


class ViserChart:
    """A chart of viser's, in a folder. Where its axes change it is made again: one that is changed while its page is
    busy shows the second after now, and nothing else until it is closed."""

    def __init__(self, server: Any, place: Any, height: int, order: float, cursor: str):
        self._server, self._place, self._shape = server, place, dict[str, Any]()
        self._options = {
            "height": height,
            "order": order,
            "cursor": {"sync": {"key": cursor}},
            "padding": (8, 12, 0, 0),
        }
        self._chart: Any = None
        self._seen: set[int] = set()
        self._due: list[float] = []  # when its points are sent again, see `settle`

    def show(self, shape: dict[str, Any], data: tuple[np.ndarray, ...]) -> None:
        if shape == self._shape:
            self._chart.data = data
            return
        self.remove()
        self._shape, self._seen = shape, set()
        with self._place:
            self._chart = self._server.gui.add_uplot(data, **self._options, **shape)

    def settle(self, now: float) -> bool:
        """For a chart whose points stay: whether they were sent. A page first makes a chart of no width, which often
        has no ticks of time until the span of time changes: so it does, unseen, some times after a page has opened."""
        there, seen = set(self._server.get_clients()), self._seen
        self._seen = there
        if there - seen:
            self._due = [now + after for after in _SETTLED_S]
        if self._chart is None or not self._due or now < self._due[0]:
            return False
        del self._due[0]
        t, *columns = self._chart.data
        moved = t.copy()
        moved[-1] += _OF_ALL * (t[-1] - t[0]) * (1 if len(self._due) % 2 else -1)
        self._chart.data = (moved, *columns)
        return True

    def remove(self) -> None:
        if self._chart is not None:
            self._chart.remove()


class _Chart:
    def __init__(self, server: Any, place: Any, there: dict[str, Choice], pair: tuple[str, str], number: int):
        self._there, (first, second), order = there, pair, 3 * number
        names = tuple(there)
        gui = server.gui
        with place:
            self._one = gui.add_dropdown(
                "channel", names, initial_value=first if first in there else names[0], order=order
            )
            self._two = gui.add_dropdown(
                "and", (NOTHING, *names), initial_value=second if second in there else NOTHING, order=order + 1
            )
        self._changed = True
        self._one.on_update(self._change)
        self._two.on_update(self._change)
        self._powers: dict[str, int] = {}
        self._whole = False
        self._rendered = ViserChart(server, place, 250 if number < 2 else 170, order + 2, "tandem")
        shape = layout(self.picked, self._powers)
        count = len(shape["series"])
        self._rendered.show(shape, tuple(np.zeros(2) if i else np.array([-SECONDS, 0.0]) for i in range(count)))

    def _change(self, _: Any) -> None:
        self._changed = True

    def remove(self) -> None:
        for handle in (self._one, self._two, self._rendered):
            handle.remove()

    @property
    def picked(self) -> list[Choice]:
        return [self._there[h.value] for h in (self._one, self._two) if h.value in self._there]

    def show(self, history: History, whole: np.ndarray | None = None) -> None:
        if whole is not None and self._whole and not self._changed:
            self._rendered.settle(time.monotonic())
            return  # it does not change, and stays as it is zoomed
        picked = self.picked
        t, columns = curves(history, picked, whole)
        if len(t) < 2:
            t, columns = np.array([-SECONDS, 0.0]), [np.full(2, np.nan) for _ in columns]
        of = [c.unit for c in picked for _ in c.names]
        if self._changed or self._whole != (whole is not None):
            self._powers, self._changed = {}, True
        # uPlot joins what is on both sides of a point that is none, and finds no scale where there is one: the curve is
        # dotted then, on an axis with ends
        dotted = not all(np.isfinite(column).all() for column in columns)
        powers, spans = {}, {}
        for unit in units(picked):
            of_unit = [c for c, u in zip(columns, of, strict=True) if u == unit]
            size, least = np.abs(np.concatenate(of_unit)), _LEAST.get(unit, _USUAL_LEAST)
            most = float(np.max(size, initial=least, where=np.isfinite(size)))
            powers[unit] = power(most, self._powers.get(unit, 0), unit)
            ends = span(of_unit, unit, dotted)
            spans[unit] = None if ends is None else (ends[0] * 10.0 ** -powers[unit], ends[1] * 10.0 ** -powers[unit])
        self._changed, self._powers, self._whole = False, powers, whole is not None
        self._rendered.show(
            layout(picked, powers, spans, self._whole, dotted),
            (t, *(c * 10.0 ** -powers[u] for c, u in zip(columns, of, strict=True))),
        )


class Plots:
    """Up to six charts with one cursor, and a box that holds them still to look at them; of a record all of it, too."""

    def __init__(
        self,
        server: Any,
        model: Machine,
        record: np.ndarray | None = None,
        measured: Mapping[str, str] = _NOTHING_MEASURED,
    ):
        gui = server.gui
        self._server, self._there, self._record = server, choices(model, measured), record
        label = {c.names[0]: key for key, c in self._there.items() if len(c.names) == 1}
        usual = tuple((q.name, "") for q in (*model.inputs[:1], *model.outputs[:1]))
        named = [(label.get(a, ""), label.get(b, "")) for a, b in model.shown.display.plots or usual][:MOST_CHARTS]
        others = [key for key in label.values() if not any(key in pair for pair in named)]
        self._names = [*named, *((key, "") for key in [*others, *self._there][: MOST_CHARTS - len(named)])]
        self._hold = gui.add_checkbox("hold", False, hint="stop drawing to look, or to zoom by dragging")
        self._span = None
        if record is not None:
            self._span = gui.add_dropdown(
                "shown", (LAST, WHOLE), hint="drag over a part to zoom in, click twice for all"
            )
        count = len(named)
        many = tuple(str(n) for n in range(1, min(MOST_CHARTS, len(self._names)) + 1))
        self._count = gui.add_dropdown("charts", many, initial_value=str(count))
        self._place = gui.add_folder("charts with one cursor")
        self._charts: list[_Chart] = []
        self._make(count)

    def show(self, history: History) -> None:
        self._make(int(self._count.value))
        whole = self._record if self._span is not None and self._span.value == WHOLE else None
        if not self._hold.value:
            for chart in self._charts:
                chart.show(history, whole)

    def _make(self, count: int) -> None:
        """Only here, in the thread that draws them."""
        while len(self._charts) > count:
            self._charts.pop().remove()
        while len(self._charts) < count:
            number = len(self._charts)
            self._charts.append(_Chart(self._server, self._place, self._there, self._names[number], number))
