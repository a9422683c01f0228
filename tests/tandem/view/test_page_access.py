"""The door of the page: wrong Host, foreign Origin, a foreign query, a frame and a missing token or session are refused
and counted, and every answer forbids what a page of ours does not need."""

import base64
import contextlib
import gzip
import hashlib
import http.client
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import viser
from websockets.datastructures import Headers
from websockets.exceptions import InvalidStatus

from sim_service.contract.display import Tile
from sync.config.config import View
from tandem.view import page_access as doors
from tandem.view.history import Pace
from tandem.view.instruments import RED, dash
from tandem.view.listen import MOST_WAITING, NoView, bound, scripts_of
from tandem.view.page_access import PageAccess, Scripts, policy
from tandem.view.process import Page
from tests.stranger import as_stranger, needs_root
from tests.sync.actors import PATIENCE_S
from tests.system.conftest import until
from tests.tandem.view.pages import TOKEN, get, logged_in, page_of, port_of, session, web_socket

PLACE = "abcdefghijklmnopqrstuv"


class Asked:
    def __init__(self, path: str = f"/?token={TOKEN}", **headers: str):
        self.path, self.headers = path, Headers([(name.replace("_", "-"), value) for name, value in headers.items()])


def local() -> PageAccess:
    return PageAccess("127.0.0.1", TOKEN, 8790)


def cookie_of(door: PageAccess, place: str = PLACE) -> str:
    return f"tandem_8790={door._session(place)}"


@pytest.mark.parametrize("host", ["127.0.0.1:8790", "localhost:8790", "127.0.0.1", "[::1]:8790"])
def test_the_loopback_has_these_names(host: str) -> None:
    assert local().refusal(Asked(Host=host)) is None


@pytest.mark.parametrize(
    "host",
    [
        "evil.example:8790", "192.168.0.7:8790", "", "[", "127.0.0.1.evil.example", "127.0.0.1:8790; script-src *",
        "127.0.0.1:8790 evil", "a@127.0.0.1",
    ],
)  # fmt: skip
def test_other_hosts_are_refused(host: str) -> None:
    assert local().refusal(Asked(Host=host)) is not None


def test_a_page_for_a_network_is_asked_for_by_number_or_from_this_machine() -> None:
    door = PageAccess("0.0.0.0", TOKEN)
    assert door.refusal(Asked(Host="192.168.0.7:8790")) is None
    assert door.refusal(Asked(Host="localhost:8790")) is None
    assert door.refusal(Asked(Host="rebound.example:8790")) is not None


@pytest.mark.parametrize(
    "origin, refused",
    [("http://127.0.0.1:8790", False), ("http://127.0.0.1:8791", True), ("http://evil.example", True), ("null", True)],
)
def test_a_web_socket_comes_from_this_very_page(origin: str, refused: bool) -> None:
    door = local()
    asked = Asked(f"/{PLACE}", Host="127.0.0.1:8790", Upgrade="WebSocket", Origin=origin, Cookie=cookie_of(door))
    assert (door.refusal(asked) is not None) == refused


def test_a_web_socket_without_an_origin_is_refused() -> None:
    door = local()
    asked = Asked(f"/{PLACE}", Host="127.0.0.1:8790", Upgrade="websocket", Cookie=cookie_of(door))
    assert door.refusal(asked) is not None


def test_a_header_that_is_there_twice_is_refused() -> None:
    asked = Asked(Host="127.0.0.1:8790")
    asked.headers["Host"] = "evil.example"
    assert local().refusal(asked) is not None


@pytest.mark.parametrize(
    "path, status",
    [
        ("/", 403),
        (f"/?token={TOKEN}", None),
        (f"/?token={TOKEN}x", 403),
        ("/?token=", 403),
        ("/?token=%FF", 403),
        (f"/?token={TOKEN}&token={TOKEN}", 400),
        (f"/?token={TOKEN}&playbackPath=http://evil.example/x.viser", 400),
        ("/?playbackPath=http://evil.example/x.viser", 400),
        ("/?websocket=ws://evil.example", 400),
        (f"/index.html?token={TOKEN}", 404),
        ("/../../etc/passwd", 403),
    ],
)
def test_the_address_has_the_token_and_nothing_else(path: str, status: int | None) -> None:
    refused = local().refusal(Asked(path, Host="127.0.0.1"))
    assert (refused[0].value if refused else None) == status


@pytest.mark.parametrize(
    "path, status",
    [
        (f"/{PLACE}/", None),
        (f"/{PLACE}", None),
        (f"/{PLACE}/?websocket=ws://127.0.0.1:8790/{PLACE}", None),  # what the client itself makes of its address
        (f"/{PLACE}/?websocket=ws://evil.example/{PLACE}", 400),
        (f"/{PLACE}/?playbackPath=http://evil.example/x.viser", 400),
        (f"/{PLACE}/?websocket=ws://127.0.0.1:8790/{PLACE}&playbackPath=//evil.example", 400),
        (f"/{PLACE}/?initialCameraFov=1", 400),
        (f"/{PLACE[:-1]}x/", 403),
        (f"/{PLACE}/other", 403),
    ],
)
def test_a_session_is_for_its_own_place_without_a_query(path: str, status: int | None) -> None:
    door = local()
    refused = door.refusal(Asked(path, Host="127.0.0.1:8790", Cookie=f"other=1; {cookie_of(door)}"))
    assert (refused[0].value if refused else None) == status


@pytest.mark.parametrize("cookie", ["", "tandem_8790=", f"tandem_8790={TOKEN}", f"tandem_view={TOKEN}"])
def test_the_token_is_not_a_session(cookie: str) -> None:
    assert local().refusal(Asked(f"/{PLACE}/", Host="127.0.0.1", Cookie=cookie)) is not None


def test_a_session_of_another_port_or_another_run_opens_nothing() -> None:
    door = local()
    for other in (f"tandem_8791={door._session(PLACE)}", cookie_of(PageAccess("127.0.0.1", TOKEN[::-1], 8790))):
        assert door.refusal(Asked(f"/{PLACE}/", Host="127.0.0.1", Cookie=other)) is not None


def test_a_view_that_is_started_again_knows_the_sessions_of_the_one_before() -> None:
    asked = Asked(f"/{PLACE}/", Host="127.0.0.1", Cookie=cookie_of(local()))
    assert local().refusal(asked) is None


@pytest.mark.parametrize("destination", ["iframe", "frame", "embed", "object", "fencedframe", "script", "worker"])
def test_it_is_no_part_of_another_page(destination: str) -> None:
    refused = local().refusal(Asked(Host="127.0.0.1", Sec_Fetch_Dest=destination))
    assert refused is not None and refused[0].value == 403
    assert local().refusal(Asked(Host="127.0.0.1", Sec_Fetch_Dest="document")) is None


def test_pages_are_capped_in_all_and_of_one_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doors, "MOST_PAGES", 3)
    monkeypatch.setattr(doors, "MOST_PAGES_OF_ONE", 2)
    door = local()
    asked = Asked(f"/{PLACE}", Host="127.0.0.1", Upgrade="websocket", Origin="http://127.0.0.1", Cookie=cookie_of(door))
    door.pages = {1: "10.0.0.1"}
    assert door.refusal(asked, "10.0.0.1") is None
    door.pages = {1: "10.0.0.1", 2: "10.0.0.1"}
    assert door.refusal(asked, "10.0.0.1") is not None
    assert door.refusal(asked, "10.0.0.2") is None
    door.pages = {1: "10.0.0.1", 2: "10.0.0.1", 3: "10.0.0.2"}
    assert door.refusal(asked, "10.0.0.3") is not None


# ---- a real server ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shared() -> Iterator[Page]:
    with page_of() as made:
        yield made


@pytest.fixture
def page(shared: Page) -> Page:
    shared.door.refused = 0
    return shared


def refused_socket(port: int, path: str, **options: Any) -> int:
    with pytest.raises(InvalidStatus) as refused:
        web_socket(port, path, **options)
    return int(refused.value.response.status_code)


def test_strangers_are_refused_and_counted(page: Page) -> None:
    port = port_of(page)
    path, cookie = session(port)
    assert get(port)[0] == 403
    assert get(port, f"/?token={TOKEN}", Host="evil.example")[0] == 403
    assert get(port, f"{path}/")[0] == 403
    assert refused_socket(port, path, origin="http://evil.example", Cookie=cookie) == 403
    assert refused_socket(port, path) == 403
    assert page.door.refused == 5


def test_a_request_that_is_none_is_counted_and_writes_nothing(page: Page, capfd: pytest.CaptureFixture[str]) -> None:
    for data in (b"\x16\x03\x01 of another protocol\r\n\r\n", b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 300 + b"\r\n"):
        before = page.door.refused
        with socket.create_connection(("127.0.0.1", port_of(page)), timeout=PATIENCE_S) as other:
            other.sendall(data)
            with contextlib.suppress(ConnectionResetError):
                while other.recv(1 << 16):
                    pass
        until(lambda: page.door.refused > before, "it is not counted")  # noqa: B023
    assert capfd.readouterr().err == ""


@needs_root
def test_another_user_of_this_machine_is_refused(page: Page) -> None:
    """Who reaches the loopback port, and knows neither the token nor a session."""
    port = port_of(page)
    found = as_stranger(lambda: [get(port, path)[0] for path in ("/", "/?token=", f"/{PLACE}/")])
    assert found == [403, 403, 403]

    def socket_of_a_stranger() -> int:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
        upgrade = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
        key = {"Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==", "Origin": f"http://127.0.0.1:{port}"}
        connection.request("GET", "/", headers=upgrade | key)
        return connection.getresponse().status

    assert as_stranger(socket_of_a_stranger) == 403


def test_the_token_gives_a_session_that_opens_page_and_socket(page: Page) -> None:
    port = port_of(page)
    status, headers, body = get(port, f"/?token={TOKEN}")
    cookie = headers["Set-Cookie"]
    assert status == 200 and TOKEN not in cookie and TOKEN.encode() not in body
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie and cookie.startswith(f"tandem_{port}=")
    # a cookie has no port: one for "/" would be sent to every server on this host
    found = re.search(r"Path=(/[A-Za-z0-9_-]{22})$", cookie)
    assert found
    assert get(port, f"{found[1]}/", Cookie=cookie.partition(";")[0])[0] == 200
    with logged_in(port) as opened:
        assert opened.response.status_code == 101
    assert page.door.refused == 0


def test_every_answer_is_closed_off(page: Page) -> None:
    port = port_of(page)
    path, cookie = session(port)
    answers = [
        get(port), get(port, f"/?token={TOKEN}"), get(port, f"{path}/", Cookie=cookie), get(port, "/?playbackPath=x"),
        get(port, f"/nothing?token={TOKEN}"), get(port, Host="evil.example"),
    ]  # fmt: skip
    assert [status for status, _, _ in answers] == [403, 200, 200, 400, 404, 403]
    for _, headers, _ in answers:
        policy = dict(part.strip().split(" ", 1) for part in headers["Content-Security-Policy"].split(";"))
        assert (
            policy["frame-ancestors"] == policy["object-src"] == policy["base-uri"] == policy["default-src"] == "'none'"
        )
        assert "'unsafe-eval'" not in policy["script-src"] and "'unsafe-inline'" not in policy["script-src"]
        allowed = set(policy["connect-src"].split()) - {"'self'", "data:", "blob:"}
        assert allowed <= {f"ws://127.0.0.1:{port}"}
        assert headers["X-Frame-Options"] == "DENY"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"


PACKED = b"<script data-p="  # as viser from 1.1.1 on packs its client; the scripts of another may load what they like


def test_the_scripts_that_may_run_are_those_of_the_page(page: Page) -> None:
    port = port_of(page)
    path, cookie = session(port)
    _, headers, body = get(port, f"{path}/", Cookie=cookie)
    inline = re.findall(rb"<script[^>]*>(.*?)</script>", body, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(inline[0]).digest()).decode()
    assert len(inline) == 1 and f"'sha256-{digest}'" in headers["Content-Security-Policy"]
    assert headers["Content-Security-Policy"].count("sha256-") == (2 if PACKED in body else 1)


def test_a_client_packed_in_another_way_may_run_what_stands_in_its_page_and_what_that_loads() -> None:
    client = (Path(viser.__file__).parent / "client" / "build" / "index.html").read_bytes()
    if PACKED not in client:
        pytest.skip("this version of viser packs its client in another way")
    known = scripts_of(client)
    assert len(known.texts) == 2 and not known.load_others and "'strict-dynamic'" not in policy(known)
    for other in (client.replace(b"const A=", b"const B="), re.sub(rb'data-ss="\d+"', b'data-ss="1"', client)):
        found = scripts_of(other)
        (loader,) = found.texts
        assert other.count(loader) == 1 and found.load_others
        digest = base64.b64encode(hashlib.sha256(loader).digest()).decode()
        assert f"'sha256-{digest}' 'strict-dynamic';" in policy(found)
    with pytest.raises(NoView, match="not known here"):
        scripts_of(b'<html><script src="https://example.org/own.js"></script></html>')


def test_connections_that_ask_for_nothing_make_room(page: Page) -> None:
    """Who opens connections without end does not keep the others out."""
    port = port_of(page)
    idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(2 * MOST_WAITING)]
    try:
        for one in idle[:MOST_WAITING]:
            one.settimeout(PATIENCE_S)
            with contextlib.suppress(ConnectionError):  # cut off
                assert one.recv(1) == b""
        assert get(port, f"/?token={TOKEN}")[0] == 200
    finally:
        for one in idle:
            one.close()


# ---- its port --------------------------------------------------------------------------------------------------------


def test_a_port_that_is_taken_is_an_error_and_never_another_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(NoView, match=f"view.port = {port}: another program has it"):
            bound(View(port=port))


def test_by_default_the_first_that_is_free_is_really_bound() -> None:
    with bound(View()) as one, bound(View()) as other:
        assert one.getsockname()[1] < other.getsockname()[1]


def test_an_address_of_another_machine_is_said() -> None:
    with pytest.raises(NoView, match=r"192\.0\.2\.1"):
        bound(View(host="192.0.2.1"))


def test_the_page_has_our_title_and_icon_packed_or_not() -> None:
    with page_of() as page:
        path, cookie = session(port_of(page))
        for packing in ("identity", "gzip"):
            status, headers, body = get(port_of(page), path + "/", Cookie=cookie, Accept_Encoding=packing)
            text = gzip.decompress(body) if headers["Content-Encoding"] == "gzip" else body
            assert status == 200 and int(headers["Content-Length"]) == len(body)
            assert b"<title>tandem: " in text and b"<title>Viser" not in text
            assert text.count(b'<link rel="icon" href="data:image/svg+xml') == 1


def test_the_compact_page_is_behind_the_same_door_and_runs_its_own_script_alone() -> None:
    with page_of() as page:
        port = port_of(page)
        status, headers, body = get(port, f"/?token={TOKEN}&layout=dash")
        found = re.search(rb"url=(/[A-Za-z0-9_-]+)/dash\"", body)
        assert status == 200 and found
        path, cookie = found[1].decode() + "/dash", headers["Set-Cookie"].partition(";")[0]
        assert get(port, path)[0] == 403
        status, headers, body = get(port, path, Cookie=cookie)
        assert status == 200 and b"waiting for the first step" in body
        (script,) = re.findall(rb"<script>(.*?)</script>", body, re.DOTALL)
        assert policy(Scripts((script,)), f"127.0.0.1:{port}") == headers["Content-Security-Policy"]
        assert page.door.dash_is_read
        assert get(port, path + "?layout=dash", Cookie=cookie)[0] == 400
        for wrong in ("layout=car", "layout=dash&layout=dash", "layout=dash&token=x", "other=dash"):
            assert get(port, f"/?token={TOKEN}&{wrong}")[0] == 400
    pace = Pace(200, 0, 191e3, 1e6, 1e5, 2e5, 1e4, 2e4, 3)
    text = dash((RED, "stale <input>"), (Tile("speed", "vx", "km/h", 3.6, 0), 10.0), pace, 3)
    assert ">191<" in text and ">36<" in text and "stale &lt;input&gt;" in text
