"""The scene of a page: bodies, wheels, road, forces, path, cameras."""

from typing import Any

from sim_service.view.feed import Feed, Frame


class Stage:
    def __init__(self, server: Any, feed: Feed):
        self._server, self._feed = server, feed

    def show(self, frame: Frame) -> None: ...
