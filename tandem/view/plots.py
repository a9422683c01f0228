"""Plots of the last seconds: any channel of a step by its name, two charts, up to two quantities each.

viser has no list of many choices; a choice that stands for the same quantity at several places makes up for the usual
case; the machine says which names those are. Two quantities of different units have an axis each.
"""

import math
import re
from typing import Any

import numpy as np

from sim_service.contract.machine import Machine
from tandem.view.history import SECONDS, History

NOTHING = "–"
_COLOURS = ("#1c7ed6", "#e8590c", "#2f9e44", "#ae3ec9", "#f08c00", "#0c8599", "#e03131", "#868e96")
# of a step itself, in a unit that suits a plot: a channel, another to take off it, the unit
TIMING = {
    "age at use": ("input_age_ns", "", "ms"),
    "step cost": ("pushed_ns", "taken_ns", "ms"),
    "lateness": ("started_ns", "t_ns", "ms"),
    "phase error": ("phase_error_ns", "", "ms"),
}


class Choice:
    """What one entry of the list plots."""

    def __init__(self, label: str, names: list[str], unit: str, minus: str = "", factor: float = 1.0):
        self.label, self.names, self.unit, self.minus, self.factor = label, names, unit, minus, factor


def choices(model: Machine) -> dict[str, Choice]:
    """By what the list shows: `group / name`, in the order of the description."""
    made: list[Choice] = [Choice(f"input / {q.name}", [q.name], q.unit) for q in model.inputs]
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
    made += single
    for (stem, unit), names in together.items():
        for title, endings in families:
            members = [n for n in names if n.endswith(tuple(f"_{end}" for end in endings))]
            if len(members) > 1:
                made.append(Choice(f"{title} / {stem}", members, unit))
    made += sorted(by_place, key=lambda c: c.label.split(" / ")[0])
    made += [Choice(f"timing / {label}", [a], unit, b, 1e-6) for label, (a, b, unit) in TIMING.items()]
    return {c.label: c for c in made}


def curves(history: History, picked: list[Choice]) -> tuple[np.ndarray, list[np.ndarray]]:
    """Of all the choices' channels, in order."""
    wanted = [(name, c.minus) for c in picked for name in c.names]
    factors = [c.factor for c in picked for _ in c.names]
    t, columns = history.curves(wanted)
    return t, [column * factor for column, factor in zip(columns, factors, strict=True)]


def power(most: float, now: int) -> int:
    """The power of ten in which an axis is written, now `now`: uPlot writes no more than three decimals."""
    if not 0.0 < most < math.inf or 0.02 <= most * 10.0**-now < 1000.0:  # kept while it will do
        return now
    return min(max(3 * math.floor(math.log10(most) / 3), -30), 0)


def units(picked: list[Choice]) -> list[str]:
    """An axis each."""
    return list(dict.fromkeys(c.unit for c in picked))


def layout(picked: list[Choice], powers: dict[str, int]) -> dict[str, Any]:
    """series, scales and axes of a chart."""
    axes_of = units(picked)
    series: list[dict[str, Any]] = [{"label": "s"}]
    for c in picked:
        for name in c.names:
            label = c.label.split(" / ")[1] if len(c.names) == 1 else name
            scale = f"y{axes_of.index(c.unit)}"
            colour = _COLOURS[(len(series) - 1) % len(_COLOURS)]
            series.append({"label": label, "stroke": colour, "width": 1.5, "scale": scale, "points": {"show": False}})
    scales: dict[str, Any] = {"x": {"time": False, "range": (-SECONDS, 0.0)}}
    axes: list[dict[str, Any]] = [{"label": "s before now", "labelSize": 18, "size": 28}]
    for number, unit in enumerate(axes_of):
        times = f"10^{powers[unit]} " if powers.get(unit) else ""
        scales[f"y{number}"] = {"auto": True}
        axis: dict[str, Any] = {"scale": f"y{number}", "label": times + ("" if unit == "1" else unit)}
        axis |= {"labelSize": 18, "size": 52, "side": 3 if number == 0 else 1}
        if number:
            axis["grid"] = {"show": False}
        axes.append(axis)
    return {"series": tuple(series), "scales": scales, "axes": tuple(axes)}


class _Chart:
    def __init__(self, gui: Any, there: dict[str, Choice], first: str, second: str, height: int):
        self._there = there
        names = tuple(there)
        self._one = gui.add_dropdown("channel", names, initial_value=first if first in there else names[0])
        self._two = gui.add_dropdown("and", (NOTHING, *names), initial_value=second if second in there else NOTHING)
        self._changed = True
        self._one.on_update(self._change)
        self._two.on_update(self._change)
        self._powers: dict[str, int] = {}
        shape = layout(self.picked, self._powers)
        count = len(shape["series"])
        self._chart = gui.add_uplot(
            tuple(np.zeros(2) if i else np.array([-SECONDS, 0.0]) for i in range(count)),
            height=height, padding=(8, 12, 0, 0), **shape,
        )  # fmt: skip

    def _change(self, _: Any) -> None:
        self._changed = True

    @property
    def picked(self) -> list[Choice]:
        return [self._there[h.value] for h in (self._one, self._two) if h.value in self._there]

    def show(self, history: History) -> None:
        picked = self.picked
        t, columns = curves(history, picked)
        if len(t) < 2:
            t, columns = np.array([-SECONDS, 0.0]), [np.full(2, np.nan) for _ in columns]
        of = [c.unit for c in picked for _ in c.names]
        if self._changed:
            self._powers = {}
        powers = {}
        for unit in units(picked):
            drawn = np.abs(np.concatenate([c for c, u in zip(columns, of, strict=True) if u == unit]))
            most = float(np.max(drawn, initial=0.0, where=np.isfinite(drawn)))
            powers[unit] = power(most, self._powers.get(unit, 0))
        if self._changed or powers != self._powers:
            self._changed, self._powers = False, powers
            for name, value in layout(picked, powers).items():
                setattr(self._chart, name, value)
        self._chart.data = (t, *(c * 10.0 ** -powers[u] for c, u in zip(columns, of, strict=True)))


class Plots:
    """Two charts, and a box that holds them still to look at them."""

    def __init__(self, gui: Any, model: Machine, height: int = 250):
        there = choices(model)
        label = {c.names[0]: key for key, c in there.items() if len(c.names) == 1}
        usual = tuple((q.name, "") for q in (*model.inputs[:1], *model.outputs[:1]))
        names = [(label.get(a, ""), label.get(b, "")) for a, b in model.shown.display.plots or usual]
        self._hold = gui.add_checkbox("hold", False, hint="stop drawing to look, or to zoom by dragging")
        self._charts = [_Chart(gui, there, first, second, height) for first, second in names]

    def show(self, history: History) -> None:
        if not self._hold.value:
            for chart in self._charts:
                chart.show(history)
