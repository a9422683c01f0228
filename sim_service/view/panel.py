"""The panel of a page: instruments, plots, tuning, controls."""

from typing import Any

from sim_service.view.feed import Feed, Frame


class Panel:
    def __init__(self, server: Any, feed: Feed):
        self._server, self._feed = server, feed

    def show(self, frame: Frame | None) -> None:
        """Called for every look, also while there is no frame."""

    def close(self) -> None: ...
