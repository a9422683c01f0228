"""The door of the page: wrong Host, foreign Origin and missing token are refused with 403 and counted."""

import http.client
from collections.abc import Iterator
from typing import Any

import pytest
from websockets.datastructures import Headers
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from sim_service.models import load_model
from sim_service.view.door import Door
from sim_service.view.feed import LiveFeed
from sim_service.view.service import NoView, Page
from sync.config import View, load
from tests.sim_service.conftest import DRIVE
from tests.sync.actors import PATIENCE_S

TOKEN = "abcdefghijklmnop0123"


class Asked:
    def __init__(self, path: str = "/", **headers: str):
        self.path, self.headers = path, Headers([(name.replace("_", "-"), value) for name, value in headers.items()])


@pytest.mark.parametrize("host", ["127.0.0.1:8790", "localhost:8790", "127.0.0.1", "[::1]:8790"])
def test_the_loopback_has_these_names(host: str) -> None:
    assert Door("127.0.0.1", "").refusal(Asked(Host=host)) is None


@pytest.mark.parametrize("host", ["evil.example:8790", "192.168.0.7:8790", "", "[", "127.0.0.1.evil.example"])
def test_other_hosts_are_refused(host: str) -> None:
    assert Door("127.0.0.1", "").refusal(Asked(Host=host)) is not None


def test_a_page_for_a_network_is_asked_for_by_number_or_from_this_machine() -> None:
    door = Door("0.0.0.0", TOKEN)
    assert door.refusal(Asked(f"/?token={TOKEN}", Host="192.168.0.7:8790")) is None
    assert door.refusal(Asked(f"/?token={TOKEN}", Host="localhost:8790")) is None
    assert door.refusal(Asked(f"/?token={TOKEN}", Host="rebound.example:8790")) is not None


@pytest.mark.parametrize(
    "origin, refused",
    [("http://127.0.0.1:8790", False), ("http://127.0.0.1:8791", True), ("http://evil.example", True), ("null", True)],
)
def test_a_web_socket_comes_from_this_very_page(origin: str, refused: bool) -> None:
    asked = Asked(Host="127.0.0.1:8790", Upgrade="WebSocket", Origin=origin)
    assert (Door("127.0.0.1", "").refusal(asked) is not None) == refused


def test_a_web_socket_without_an_origin_is_refused() -> None:
    assert Door("127.0.0.1", "").refusal(Asked(Host="127.0.0.1:8790", Upgrade="websocket")) is not None


def test_a_header_that_is_there_twice_is_refused() -> None:
    asked = Asked(Host="127.0.0.1:8790")
    asked.headers["Host"] = "evil.example"
    assert Door("127.0.0.1", "").refusal(asked) is not None


@pytest.mark.parametrize(
    "path, cookie, refused",
    [
        ("/", "", True),
        (f"/?token={TOKEN}", "", False),
        (f"/?token={TOKEN}x", "", True),
        ("/?token=", "", True),
        ("/", f"other=1; tandem_view={TOKEN}", False),
        ("/", "tandem_view=", True),
        ("/?token=%FF", "", True),
    ],
)
def test_a_token_comes_in_the_address_or_as_a_cookie(path: str, cookie: str, refused: bool) -> None:
    assert (Door("127.0.0.1", TOKEN).refusal(Asked(path, Host="127.0.0.1", Cookie=cookie)) is not None) == refused


# ---- a real server ---------------------------------------------------------------------------------------------------


@pytest.fixture
def page() -> Iterator[Page]:
    config = load(DRIVE, ["name=nobody_drives", "sim.vehicle=vehicles/buggy_single_track.toml"])
    feed = LiveFeed(config, *load_model(DRIVE.parent / config.sim.vehicle))
    made = Page(View(port=0, token=TOKEN), feed)
    yield made
    made.close()
    feed.close()


def _port(page: Page) -> int:
    return int(page.server.get_port())


def _get(page: Page, path: str = "/", **headers: str) -> tuple[int, dict[str, str]]:
    connection = http.client.HTTPConnection("127.0.0.1", _port(page), timeout=PATIENCE_S)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        answer.read()
        return answer.status, dict(answer.getheaders())
    finally:
        connection.close()


def _socket(page: Page, origin: str, **headers: str) -> Any:
    return connect(
        f"ws://127.0.0.1:{_port(page)}/", origin=origin, subprotocols=["viser-v1"], additional_headers=headers,
        proxy=None,
    )  # fmt: skip


def test_strangers_get_403_and_are_counted(page: Page) -> None:
    assert _get(page)[0] == 403
    assert _get(page, f"/?token={TOKEN}", Host="evil.example")[0] == 403
    cookie = {"Cookie": f"tandem_view={TOKEN}"}
    for origin, headers in (("http://evil.example", cookie), (f"http://127.0.0.1:{_port(page)}", {})):
        with pytest.raises(InvalidStatus) as refused:
            _socket(page, origin, **headers)
        assert refused.value.response.status_code == 403
    assert page.door.refused == 4


def test_who_has_the_token_gets_the_page_and_a_cookie_that_opens_the_socket(page: Page) -> None:
    status, headers = _get(page, f"/?token={TOKEN}")
    assert status == 200
    cookie = headers["Set-Cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie
    cookie = cookie.partition(";")[0]
    assert _get(page, "/", Cookie=cookie)[0] == 200
    with _socket(page, f"http://127.0.0.1:{_port(page)}", Cookie=cookie) as socket:
        assert socket.response.status_code == 101
    assert page.door.refused == 0


def test_an_address_of_another_machine_is_said(page: Page) -> None:
    with pytest.raises(NoView, match=r"192\.0\.2\.1"):
        Page(View(host="192.0.2.1", token=TOKEN), page._feed)
