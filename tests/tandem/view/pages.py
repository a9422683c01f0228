"""A page of a drive that nobody drives, at any free port; and clients of it."""

import http.client
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sim_service.registry import load_machine
from sync.config.config import View, load
from tandem.view.data_source import LiveData
from tandem.view.process import Page
from tests.sim_service.conftest import DRIVE
from tests.sync.actors import PATIENCE_S

TOKEN = "abcdefghijklmnop0123"


@contextmanager
def page_of(*overrides: str, **options: Any) -> Iterator[Page]:
    """Of a single-track car whose wheel and pedals are on the page, if `overrides` say so."""
    config = load(DRIVE, ["name=nobody_drives", "sim.machine=vehicles/buggy_single_track.toml", *overrides])
    feed = LiveData(config, *load_machine(DRIVE.parent / config.sim.machine))
    made = Page(View(port=0), feed, token=TOKEN, **options)
    try:
        yield made
    finally:
        made.close()
        feed.close()


def port_of(page: Page) -> int:
    return int(page.server.get_port())


def get(port: int, path: str = "/", **headers: str) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    try:
        connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


def session(port: int, token: str = TOKEN) -> tuple[str, str]:
    """(path, cookie) that the token gives."""
    status, headers, body = get(port, f"/?token={token}")
    assert status == 200, body
    found = re.search(rb"url=(/[A-Za-z0-9_-]+)/", body)
    assert found
    return found[1].decode(), headers["Set-Cookie"].partition(";")[0]


def web_socket(port: int, path: str, origin: str = "", **headers: str) -> Any:
    import viser
    from websockets.sync.client import connect

    return connect(
        f"ws://127.0.0.1:{port}{path}", origin=origin or f"http://127.0.0.1:{port}",
        subprotocols=[f"viser-v{viser.__version__}"], additional_headers=headers, proxy=None, compression=None,
        max_size=None, open_timeout=PATIENCE_S, ping_interval=None,
    )  # fmt: skip


def logged_in(port: int) -> Any:
    path, cookie = session(port)
    return web_socket(port, path, Cookie=cookie)
