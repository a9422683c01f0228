"""Time, for a record: where in it the page is, how fast it goes on, and how far a second record is from the first.

What a person does on the page arrives on threads of viser's. It goes through a queue to the one thread that shows
frames. Time stands still while no page is open.
"""

import math
import queue
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tandem.reports.html.markup import Markup, markup, paragraphs, show
from tandem.view import plots
from tandem.view.data_source import Frame, RecordData, instants_in

SPEEDS = ("0.1", "0.2", "0.5", "1", "2", "5", "10")
_HELD_S = 0.4  # while a hand moves the slider it is not moved from here, and time stands
_TEXT_S = 0.1  # between two changes of the texts
_PLOT_S = 0.5  # between two of the cursor in the plots
_POINTS = 600  # of a curve


def distance(one: Any, other: Any) -> float:
    """Between two steps' positions, in m; NaN where a model has none."""
    names = [n for n in ("x", "y", "z") if all(n in (s.dtype.names or ()) for s in (one, other))]
    return math.sqrt(sum((float(one[n]) - float(other[n])) ** 2 for n in names)) if names else math.nan


class Player:
    def __init__(self, server: Any, feed: RecordData, other: RecordData | None = None):
        self._feed, self._other = feed, other
        self._actions: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.playing, self.speed, self.again = True, 1.0, False
        self._time = 0.0  # finer than steps
        self._now: float | None = None
        self._held_until = self._wrote = self._plotted = -math.inf
        self._beside, how = instants_in(feed, other) if other is not None else (feed.instants, "")
        gui = server.gui
        with gui.add_folder("replay", order=-100):
            self._text = gui.add_html("")
            step_s = feed.config.step_ns * 1e-9
            self._longest = round(max(math.ceil(feed.seconds / step_s), 1) * step_s, 6)
            self._slider = gui.add_slider("time [s]", min=0.0, max=self._longest, step=step_s, initial_value=0.0)
            self._play = gui.add_button("pause", icon="player-pause")
            self._steps = gui.add_button_group("step", ("first", "-1", "+1", "last"))
            self._speed = gui.add_dropdown("speed", tuple(f"{s} x" for s in SPEEDS), initial_value="1 x")
            self._again = gui.add_checkbox("again", initial_value=False, hint="at the end, start again")
        self._slider.on_update(self._by_hand(self._seek))
        self._play.on_click(lambda _: self._actions.put(self.toggle))
        self._steps.on_click(self._by_hand(self._step))
        self._speed.on_update(self._by_hand(self._go_at))
        self._again.on_update(self._by_hand(self._repeat))
        self._box = None if feed.knows_states else _box(server)
        self._comparison = _Comparison(server, feed, other, self._beside, how) if other else None

    # ---- what a person does ----------------------------------------------------------------------------------------

    def _by_hand(self, what: Callable[[Any], None]) -> Callable[[Any], None]:
        def put(event: Any) -> None:
            if event.client is not None:  # the slider also moves by itself
                self._actions.put(partial(what, event.target.value))

        return put

    def _seek(self, seconds: float) -> None:
        self._time = min(max(float(seconds), 0.0), self._feed.seconds)
        self._feed.go_to(self._time)
        self._held_until = (self._now or 0.0) + _HELD_S
        self._wrote = -math.inf

    def toggle(self) -> None:
        if not self.playing and self._time >= self._feed.seconds:
            self._time = 0.0
        self._set_playing(not self.playing)

    def _set_playing(self, playing: bool) -> None:
        if playing != self.playing:
            self.playing = playing
            self._play.label = "pause" if playing else "play"
            self._play.icon = "player-pause" if playing else "player-play"

    def _step(self, which: str) -> None:
        ends = {"first": 0, "last": len(self._feed) - 1}
        self._feed.show(ends[which] if which in ends else self._feed.at + int(which))
        self._time = self._feed.time
        self._set_playing(False)
        self._wrote = -math.inf

    def _go_at(self, text: str) -> None:
        self.speed = float(text.removesuffix(" x"))

    def _repeat(self, again: bool) -> None:
        self.again = again

    # ---- what time does --------------------------------------------------------------------------------------------

    def advance(self, now: float) -> None:
        """Called before every frame, with a monotonic time in s."""
        since, self._now = now - self._now if self._now is not None else 0.0, now
        while not self._actions.empty():
            self._actions.get()()
        if self.playing and now >= self._held_until:
            self._time += min(since, 0.5) * self.speed  # no page was open, or this process did not run: no jump
            end = self._feed.seconds
            if self._time >= end:
                self._time = 0.0 if self.again and end > 0.0 else end
                self._set_playing(self.again)
            self._feed.go_to(self._time)
        if self._other is not None and len(self._feed):
            self._other.go_near(int(self._beside[self._feed.at]))

    def show(self, frame: Frame, other: Frame | None) -> None:
        now = self._now or 0.0
        if self._box is not None:
            _place(self._box, frame.step)
        if now - self._wrote >= _TEXT_S:
            self._wrote = now
            show(self._text, self._words(frame, other))
            if now >= self._held_until:
                self._slider.value = min(round(self._feed.time, 3), self._longest)
        if self._comparison is not None and now - self._plotted >= _PLOT_S:
            self._plotted = now
            self._comparison.draw(self._feed.time)

    def _words(self, frame: Frame, other: Frame | None) -> Markup:
        lines = [
            markup(
                "<b>{} s</b> of {} s, step {} ({} of {})", f"{self._feed.time:.3f}", f"{self._feed.seconds:.3f}",
                int(frame.step["step"]), self._feed.at + 1, len(self._feed),
            )
        ]  # fmt: skip
        if self._box is not None:
            lines.append(markup("only what was recorded: the states of the model could not be made again"))
        if other is not None and self._other is not None:
            apart = distance(frame.step, other.step)
            shown = "unknown" if math.isnan(apart) else f"{apart:.3f} m" if apart < 1e3 else f"{apart:.0f} m"
            lines.append(markup("distance to {}: <b>{}</b>", self._other.title, shown))
        return paragraphs(lines)


def _box(server: Any) -> Any:
    """Where the machine was, as far as the outputs show."""
    return server.scene.add_box("/outputs", dimensions=(2.5, 1.5, 1.0), color=(120, 130, 140), opacity=0.8)


def _place(box: Any, step: Any) -> None:
    names = step.dtype.names or ()
    x, y, z, yaw = (float(step[n]) if n in names else 0.0 for n in ("x", "y", "z", "yaw"))
    if math.isfinite(x + y + z + yaw):
        box.position = (x, y, z + 0.5)
        box.wxyz = (math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2))


class _Comparison:
    """Two records over the same time: one channel of both, and the distance between the two machines."""

    def __init__(self, server: Any, one: RecordData, other: RecordData, beside: np.ndarray, how: str):
        n = len(one)
        self._which = np.unique(np.linspace(0, max(n - 1, 0), min(n, _POINTS)).astype(np.int64))
        instants = beside[self._which]
        after = np.clip(np.searchsorted(other.instants, instants), 1, max(len(other) - 1, 1))
        after = np.minimum(after, len(other) - 1)
        before = np.maximum(after - 1, 0)
        near = np.where(instants - other.instants[before] <= other.instants[after] - instants, before, after)
        # where the other one has ended or not begun, it stands
        self._a, self._b = one.recorded[self._which], other.recorded[near]
        self._seconds = (one.instants[self._which] - one.instants[0]) * 1e-9
        both = set(self._a.dtype.names or ()) & set(self._b.dtype.names or ())
        # by their channels, in the units of the tiles
        self._there = {
            c.names[0]: c for c in plots.choices(one.model).values()
            if len(c.names) == 1 and not c.minus and c.names[0] in both
        }  # fmt: skip
        self._apart = self._distances()
        self._cursor = -1.0
        shown = [tile.channel for tile in one.model.shown.display.figures]
        self._channel = next((c for c in (*shown, *self._there) if c in self._there), "")
        self._changed = True
        gui = server.gui
        with gui.add_folder("comparison", order=-99) as place:
            text = markup("{} and {}, {}{}", one.title, other.title, how, _furthest(self._seconds, self._apart))
            words = gui.add_html("")
            show(words, paragraphs([text]))
            self._choice = gui.add_dropdown(
                "compared channel",
                tuple(self._there) or ("",),
                initial_value=self._channel or None,
                order=words.order + 0.2,
            )
        self._distance = _Chart(server, place, ("distance",), words.order + 0.1)
        self._curves = _Chart(server, place, (one.title, other.title), words.order + 0.3)
        self._choice.on_update(lambda event: self._choose(event.target.value))

    def _choose(self, name: str) -> None:
        self._channel, self._changed = name, True

    def _distances(self) -> np.ndarray:
        a, b = self._a, self._b
        names = [n for n in ("x", "y", "z") if all(n in (s.dtype.names or ()) for s in (a, b))]
        found: np.ndarray = np.sqrt(sum(((a[n] - b[n]) ** 2 for n in names), np.zeros(len(a))))
        return found

    def draw(self, seconds: float) -> None:
        """The curves and where the page is in them; nothing while nothing changed."""
        now = time.monotonic()
        settled = [chart.settle(now) for chart in (self._distance, self._curves)]
        if any(settled) or (seconds == self._cursor and not self._changed):
            return
        self._cursor, self._changed = seconds, False
        self._distance.show(self._seconds, (self._apart,), "m", seconds)
        if (choice := self._there.get(self._channel)) is not None:
            both = tuple(steps[self._channel].astype(float) * choice.factor for steps in (self._a, self._b))
            self._curves.show(self._seconds, both, choice.unit, seconds)


class _Chart:
    """Curves of one unit over the whole of a record, and a line where the page is in it."""

    def __init__(self, server: Any, place: Any, labels: tuple[str, ...], order: float):
        self._labels = labels
        self._rendered = plots.ViserChart(server, place, 190, order, "record")
        self.settle = self._rendered.settle

    def _layout(self, unit: str, power: int, ends: tuple[float, float] | None) -> dict[str, Any]:
        picked = [plots.Choice(f"compared / {label}", [label], unit) for label in self._labels]
        shape = plots.layout(picked, {unit: power}, {unit: ends}, whole=True)
        now = {"label": "now", "stroke": plots.INK, "width": 1, "scale": "y0", "points": {"show": False}}
        return {**shape, "series": (*shape["series"], now)}

    def show(self, seconds: np.ndarray, curves: tuple[np.ndarray, ...], unit: str, at: float) -> None:
        most = max((float(np.abs(c[np.isfinite(c)]).max(initial=0.0)) for c in curves), default=0.0)
        power = plots.power(most, 0, unit)
        found = plots.span([*curves], unit, always=True)
        ends = None if found is None else (found[0] * 10.0**-power, found[1] * 10.0**-power)
        data = _with_cursor(seconds, tuple(c * 10.0**-power for c in curves), at, ends)
        self._rendered.show(self._layout(unit, power, ends), data)


def _with_cursor(
    x: np.ndarray, curves: tuple[np.ndarray, ...], at: float, ends: tuple[float, float] | None = None
) -> tuple[np.ndarray, ...]:
    """The data of a plot, with a last curve that stands up at `at`. uPlot finds no scale where there is a NaN."""
    curves = tuple(np.nan_to_num(c.astype(np.float64), posinf=0.0, neginf=0.0) for c in curves)
    low, high = ends or (min(c.min() for c in curves), max(c.max() for c in curves))
    place = int(np.searchsorted(x, at))
    # the curves go on through the three points of the line
    through = [np.insert(c, place, [np.interp(at, x, c)] * 3) for c in curves]
    line = np.insert(np.full(len(x), low), place, [low, high, low])
    return (np.insert(x, place, [at] * 3), *through, line)


def _furthest(seconds: np.ndarray, apart: np.ndarray) -> str:
    if not np.isfinite(apart).any():
        return ""
    most = int(np.nanargmax(apart))
    return f"; furthest apart: {apart[most]:.3f} m, at {seconds[most]:.2f} s"
