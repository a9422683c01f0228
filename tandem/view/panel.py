"""The panel of a page: instruments, plots, tuning, controls.

A banner above all of it when something is not right; below it the tabs `controls`, `plots` and `tune`, and whatever tab
the scene asks for. Figures are replaced some times a second, plots a little less often, nothing while no page is open.
"""

import tomllib
from pathlib import Path
from typing import Any

import numpy as np

from sim_service.contract.machine import Reshape
from sim_service.look_ahead.record import HELD
from sync.clock import now_ns
from tandem.reports.html.markup import show
from tandem.view import instruments, predicted
from tandem.view.commander import Commander
from tandem.view.controls import Controls, ForkLine, HandControls, OnFork
from tandem.view.curves import Curves
from tandem.view.data_source import DataSource, Frame
from tandem.view.history import History
from tandem.view.plots import Plots
from tandem.view.sounds import Sounds
from tandem.view.tuning import Tuning

_FIGURES_NS = 125_000_000
_PLOTS_NS = 250_000_000
_OLD_NS = 500_000_000  # of a prediction that still warns
_WIDTH_PX = 430
_BEAT_NS = 2_000_000_000  # shorter than `instruments.LOST_S`


def _beat(now: int) -> int:
    return now // _BEAT_NS


def manoeuvre_seconds(files: dict[str, bytes]) -> float:
    """How long the course of the run's source takes; without end where it has none."""
    try:
        return float(tomllib.loads(files["manoeuvre.toml"].decode())["seconds"])
    except (LookupError, ValueError, TypeError):
        return np.inf


class Panel:
    def __init__(
        self, server: Any, feed: DataSource, saves: Path | None = None, on_fork: OnFork | None = None, door: Any = None
    ):
        """Parameters are saved into the folder `saves`, if there is one; `on_fork` is called with the points of a path
        ahead, and with None when it is to vanish."""
        self._server, self._feed, self._door = server, feed, door  # of the compact page, if there is one
        gui = server.gui
        gui.main_panel.dock_right()
        gui.main_panel.set_width(_WIDTH_PX)
        gui.set_panel_label(f"tandem: {feed.title}")
        self._history = History(feed.config.sim.step_ms * 1e-3)
        self.commander = Commander(feed.config) if feed.live else None
        self._by_hand: HandControls | None = None
        self._controls: Controls | None = None
        self._tuning: Tuning | None = None
        self._daq_seen = False
        self._figures_due = self._plots_due = 0
        self._newest_ns: int | None = None
        self._manoeuvre_s = manoeuvre_seconds(feed.files)
        self._hands, self._figures = instruments.tiles(feed.model)

        self._banner = gui.add_html("")
        self._tabs = gui.add_tab_group()
        with self._tabs.add_tab("controls"):
            self._dials = gui.add_html("")
            if feed.live and feed.config.source.get("kind") == "page":
                with gui.add_folder("by hand"):
                    self._by_hand = HandControls(gui, feed.config, self._watched, self._hands)
            self._curves = Curves(gui, feed.model.shown.display.curves)
            self._sounds = Sounds(gui, feed.model, feed.params)
            if self.commander is not None:
                with gui.add_folder("simulation"):
                    self._controls = Controls(gui, feed, self.commander, on_fork or ForkLine(server))
            self._books = gui.add_html("")
        with self._tabs.add_tab("plots"):
            record = None if feed.live else getattr(feed, "recorded", None)
            self._plots = Plots(server, feed.model, record, feed.measured)
        if self.commander is not None:
            starts = {p.name: float(v) for p, v in zip(feed.model.parameters, feed.params, strict=False)}
            with self._tabs.add_tab("tune"):
                # as the simulator decides it (sim_service/service.py)
                shaping = feed.model.of(Reshape) is not None and not feed.config.look_ahead.enabled
                self._tuning = Tuning(gui, feed.model, starts, feed.config.name, self.commander, saves, shaping)

    def tab(self, name: str) -> Any:
        """Another tab, to be filled by the caller: `with panel.tab("scene"): ...`"""
        return self._tabs.add_tab(name)

    def _watched(self) -> bool:
        return bool(self._server.get_clients()) or self._dash_is_read

    @property
    def _dash_is_read(self) -> bool:
        return self._door is not None and bool(self._door.dash_is_read)

    def show(self, frame: Frame | None) -> None:
        """Called for every look, also while there is no frame."""
        if not self._watched():
            return
        try:
            self._update(frame, now_ns())
        except Exception as error:  # whatever a ring of another program holds, the page stays
            show(self._banner, instruments.banner((instruments.RED, f"cannot be shown: {error}"), beat=_beat(now_ns())))

    def _update(self, frame: Frame | None, now: int) -> None:
        if frame is not None:
            self._newest_ns = int(frame.step["pushed_ns"])
        if now >= self._figures_due:
            self._figures_due = now + _FIGURES_NS
            steps = self._feed.steps()
            self._history.add(steps)
            self._sounds.show(steps)
            self._show_figures(frame, now)
            if self.commander is not None and frame is not None:
                self.commander.seen(int(frame.step["commands"]))
            if self._controls is not None:
                self._controls.show(frame, self._history)
            if self._tuning is not None:
                self._tuning.show()
        if now >= self._plots_due:
            self._plots_due = now + _PLOTS_NS
            self._plots.show(self._history)
            self._curves.show(self._history)

    def _show_figures(self, frame: Frame | None, now: int) -> None:
        pace = self._history.pace()
        trouble = instruments.trouble(self._health(now, pace)) if self._feed.live else None
        there = () if frame is None else frame.step.dtype.names or ()

        def value(channel: str) -> float:
            return float(frame.step[channel]) if frame is not None and channel in there else np.nan

        quiet = "a record"
        if self._feed.live:
            shown = "".join(instruments.figure(t, value(t.channel)) for t in self._figures[:1])
            quiet = instruments.at_its_end(value("time"), self._manoeuvre_s, shown)
        show(self._banner, instruments.banner(trouble, quiet, _beat(now)))
        if self._dash_is_read:
            first = next(((tile, value(tile.channel)) for tile in self._figures), None)
            state = trouble or (instruments.GREEN, quiet)
            self._door.dash = instruments.dash(state, first, pace, self._history.missed())
        if frame is None:
            return
        show(
            self._dials,
            instruments.dials(self._hands, self._figures, value, self._feed.config.inputs),
        )
        pushed = getattr(self._feed, "blocks_pushed", lambda: None)()
        waiting = None if pushed is None else max(pushed - 1 - int(frame.step["input_seq"]), 0)
        show(
            self._books,
            instruments.books(frame.step, pace, self._history.balance(), self._history.seconds, waiting),
        )

    def _health(self, now: int, pace: Any) -> instruments.Health:
        alive = self._feed.alive()
        self._daq_seen = self._daq_seen or alive["daq"]
        answer = (self.commander.answer if self.commander is not None else None) or {}
        return instruments.Health(
            rows=tuple(self._feed.config.inputs),
            silent_s=None if self._newest_ns is None else (now - self._newest_ns) * 1e-9,
            step_s=self._feed.config.sim.step_ms * 1e-3,
            sim=alive["sim"],
            daq=alive["daq"] or not self._daq_seen,  # of another host there is no ring here, only the age
            pace=pace,
            paused=bool(answer.get("paused", False)),
            slow=float(answer.get("slow", 1.0)),
            warning=self._warning(now),
        )

    def _warning(self, now: int) -> str:
        config = self._feed.config.look_ahead
        held = self._feed.predicted().get(HELD) if config.enabled else None
        old = held is None or now - int(held["pushed_ns"]) > _OLD_NS
        return "" if old else predicted.in_words(held, config.horizon_s)

    def close(self) -> None:
        show(self._banner, instruments.banner(None, "ended: this is the last step"))
        if self._by_hand is not None:
            self._by_hand.close()
        if self.commander is not None:
            self.commander.close()
