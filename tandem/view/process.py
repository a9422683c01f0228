"""The process that shows a run: a look at the feed, some thirty times a second while somebody watches.

Frames that cannot be sent in time are left out. Without a page open it hardly looks. It has no real-time priority but a
low ordinary one, and other cores than the loop. (The idle class of the kernel would stop it for good on a busy machine,
and a process without rights cannot leave it again.)
"""

import contextlib
import importlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from sim_service.registry import configured, started
from sync.compile.jit import compiling
from sync.config.config import Config, View
from sync.files.regular import read_regular
from sync.files.token import new_token, page_token
from sync.process.realtime import off_the_loop
from sync.process.service import EVERY, Prepared, Reporter
from tandem.view.address import announced
from tandem.view.data_source import DataSource, Frame, LiveData, RecordData
from tandem.view.listen import close_page, open_page

_IDLE_S = 0.1  # between polls while no page is open
_MOST_FAULTS = 20  # reported, each once
_NICE = 10
_LAST_WORD_S = 0.1  # for the state in words to reach the pages before their connection ends

Say = Callable[[str], None]


class Page:
    """A server with a stage and a panel on a feed; of a record with a player, and with a second one beside it."""

    def __init__(
        self,
        view: View,
        feed: DataSource,
        other: RecordData | None = None,
        say: Say = lambda _: None,
        token: str = "",
        saves: Path | None = None,
    ):
        """`token` opens the page, a new one if none is given; tuned parameters are saved into the folder `saves`."""
        from tandem.view.panel import Panel
        from tandem.view.player import Player
        from tandem.view.push import Push, can_push
        from tandem.view.scene_view import SceneView

        self.server, self.door, self.address = open_page(view, feed.title, token or new_token())
        self._feed, self._other, self._period_s, self._say = feed, other, 1.0 / view.rate_hz, say
        # the player first: time stands above everything else of a record
        self.player = Player(self.server, feed, other) if isinstance(feed, RecordData) else None
        self.panel = Panel(self.server, feed, saves, door=self.door)
        self.push: Push | None = None
        with self.panel.tab("scene"):
            self.stage = SceneView(self.server, feed)
            if self.panel.commander is not None and can_push(feed.model):
                self.push = Push(self.server, feed.model, feed.params, self.stage.scene, self.panel.commander)
        self.ghost = SceneView(self.server, other, prefix="/other", ghost=True) if other is not None else None
        self.frames = 0
        self._faults: set[str] = set()

    def run(self, stop: threading.Event, report: Callable[[int], None] = lambda _: None) -> None:
        """Serve the page until it is stopped; `report` is called some times a second with a number."""
        due, reported, turn = time.monotonic(), 0.0, 0
        while not stop.is_set():
            watched = bool(self.server.get_clients()) or self.door.dash_is_read
            with self._forgiven(), self.server.atomic():
                if self.player is not None and watched:
                    self.player.advance(time.monotonic())
                frame = self._feed.poll()
                if frame is not None and watched:
                    self._show(frame)
                    self.frames += 1
                if self.push is not None and not watched:
                    self.push.leave()
                self.panel.show(frame)
            now = time.monotonic()
            if now - reported > 0.1:
                report(turn)
                reported, turn = now, turn + 1
            # a frame that came late shifts those after it: they never pile up
            due = max(due + self._period_s, now + 0.2 * self._period_s)
            stop.wait(max(due - now, _IDLE_S if not watched else 0.0))

    def _show(self, frame: Frame) -> None:
        if frame.state is not None:
            self.stage.show(frame)
            if self.push is not None:
                self.push.show(frame)
        there = self._other.poll() if self._other is not None else None
        if self.ghost is not None and there is not None and there.state is not None:
            self.ghost.show(there)
        if self.player is not None:
            self.player.show(frame, there)

    @contextlib.contextmanager
    def _forgiven(self) -> Iterator[None]:
        """What one frame makes go wrong does not end the page; it is reported once."""
        try:
            yield
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            if len(self._faults) < _MOST_FAULTS and text not in self._faults:
                self._faults.add(text)
                self._say(f"a frame is not shown as it should be: {text}")

    def close(self) -> None:
        self.panel.close()
        self.server.flush()
        time.sleep(_LAST_WORD_S)
        close_page(self.server)


def live_feed(config: Config, file: Path) -> LiveData:
    """The run of this name; whatever has to be imported or compiled for its page is.

    From here on this process and its threads have low priority and keep off the cores of the run: nothing of that waits
    for a page."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, _NICE)
    off_the_loop(config.realtime)
    with compiling(f"model-{Path(config.sim.machine).stem}"):
        sources = configured(config, file.parent)
        model, params = started(sources, config)
        surface = (
            ("tandem.multibody.ground.field",) if model.shown.scene is not None and model.shown.scene.ground else ()
        )
        for needed in (*surface, "viser", "tandem.view.panel", "tandem.view.scene_view"):
            with contextlib.suppress(ImportError):  # reported when the page is opened
                importlib.import_module(needed)
    return LiveData(config, model, params, {**sources.files, **_manoeuvre(config, file)})


def serve_live(
    config: Config, feed: LiveData, stop: threading.Event, reporter: Reporter, token: str, opened: bool = False
) -> dict[str, Any]:
    """The page of a run, until it is stopped."""
    page = Page(config.view, feed, say=reporter.say, token=token, saves=Path(config.view.saves))

    def report(turn: int) -> None:
        if turn % EVERY == 0:
            reporter.status(_figures(page))

    try:
        with announced(page.address, reporter.say, opened):
            page.run(stop, report)
        return _figures(page)
    finally:
        page.close()
        feed.close()


def prepare(config: Config, file: Path) -> Prepared:
    feed = live_feed(config, file)

    def run(config: Config, file: Path, stop: threading.Event, reporter: Reporter) -> dict[str, Any]:
        token = str(json.loads(reporter.begin_line)["token"]) if reporter.supervised else page_token()
        return serve_live(config, feed, stop, reporter, token)

    return Prepared(run)


def _manoeuvre(config: Config, file: Path) -> dict[str, bytes]:
    """The course that the source of the run follows, if it is a file here."""
    name = config.source.get("manoeuvre")
    try:
        return {"manoeuvre.toml": read_regular(file.parent / name)} if isinstance(name, str) else {}
    except (OSError, ValueError):
        return {}


def _figures(page: Page) -> dict[str, Any]:
    return {
        "address": page.address.partition("?")[0],  # a record is no place for a token
        "pages": len(page.server.get_clients()),
        "frames": page.frames,
        "refused": page.door.refused,
        "rejected": page.door.rejected,
    }
