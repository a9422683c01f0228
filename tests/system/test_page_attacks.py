"""Attacks on the page, in a real browser: from another web site, and by a file that somebody else made.

The pages run in this process, at any free port; the other site is a server of its own at `localhost`, which for a
browser is another site than 127.0.0.1.
"""

import http.server
import re
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from sync.config.config import View
from tandem.mechanism.run import prepare
from tandem.multibody.description.mechanism_file import read_mechanism
from tandem.view.listen import close_page, open_page
from tandem.view.mechanism_page import MechanismData, MechanismPage
from tandem.view.process import Page
from tandem.view.rig import Rig, with_hands
from tests.system.browser import answer, browser, lacking, visit, window
from tests.system.conftest import PATIENCE_S, ROOT, until
from tests.tandem.view.pages import TOKEN, page_of, port_of

pytestmark = pytest.mark.skipif(bool(lacking()), reason=lacking() or "there is one")


class Site:
    """Somebody else's web site: what is asked of it, and a page that frames another."""

    def __init__(self) -> None:
        site = self
        self.asked: list[str] = []
        self.cookies: list[str] = []
        self.framed = ""

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.asked.append(self.path)
                site.cookies.append(self.headers.get("Cookie", ""))
                body = site.framed.encode() if self.path == "/" else b"\x00" * 64
                self.send_response(200)
                self.send_header("Access-Control-Allow-Origin", "*")
                self.send_header("Content-Type", "text/html" if self.path == "/" else "application/octet-stream")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None: ...

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as opened:
        yield opened


@pytest.fixture
def tab(chromium: Any) -> Iterator[Any]:
    context = window(chromium, PATIENCE_S, False)
    yield context.new_page()
    context.close()


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with page_of() as made:
        yield made


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    yield made
    made.close()


def opened(tab: Any, port: int) -> str:
    """The page, by its token; its address from then on."""
    visit(tab, f"http://127.0.0.1:{port}/?token={TOKEN}", re.compile("^tandem: "))
    found: str = tab.url.partition("?")[0]
    assert TOKEN not in tab.url
    return found


def test_a_scene_of_another_site_is_not_loaded(tab: Any, page: Page, site: Site) -> None:
    """The library's client takes `playbackPath` from its address, and runs what it finds there as its own."""
    evil = f"playbackPath=http://localhost:{site.port}/scene.viser"
    own = opened(tab, port_of(page))
    for address in (f"http://127.0.0.1:{port_of(page)}/?{evil}", f"{own}?{evil}", f"{own}?token={TOKEN}&{evil}"):
        assert answer(tab, address).status == 400
        assert "<script" not in tab.content()
    # and if it were: script of the page itself cannot reach another site
    opened(tab, port_of(page))
    reach = "url => fetch(url).then(() => 'reached', () => 'refused')"
    assert tab.evaluate(reach, f"http://localhost:{site.port}/scene.viser") == "refused"
    assert site.asked == []


def test_a_site_cannot_frame_the_page_nor_open_its_socket(tab: Any, page: Page, site: Site) -> None:
    port = port_of(page)
    own = opened(tab, port)
    until(lambda: len(page.door.pages) == 1, lambda: f"{len(page.door.pages)} pages")  # those of other tests are closed
    site.framed = f'<iframe src="{own}"></iframe><iframe src="http://127.0.0.1:{port}/?token={TOKEN}"></iframe>'
    refused = page.door.refused
    other = tab.context.new_page()
    answer(other, f"http://localhost:{site.port}/")
    until(lambda: page.door.refused >= refused + 2, "the frames are not refused")
    assert all("tandem:" not in frame.content() for frame in other.frames[1:])
    connect = """url => new Promise(done => {
        const socket = new WebSocket(url, ["viser-v1.1.1"]);
        socket.onopen = () => done("open"); socket.onerror = () => done("refused");
    })"""
    assert other.evaluate(connect, own.replace("http", "ws").rstrip("/")) == "refused"
    until(lambda: len(page.door.pages) == 1, lambda: f"{len(page.door.pages)} pages")


def test_other_servers_of_this_host_are_not_sent_the_session(tab: Any, page: Page, site: Site) -> None:
    """A cookie has no port: the browser sends it to every server at 127.0.0.1 that is asked for its path."""
    opened(tab, port_of(page))
    answer(tab, f"http://127.0.0.1:{site.port}/")
    assert site.asked and not any(site.cookies)


def test_script_and_eval_of_others_do_not_run_in_the_page(tab: Any, page: Page) -> None:
    opened(tab, port_of(page))
    tried = """() => {
        window.ran = [];
        const script = document.createElement("script");
        script.textContent = "window.ran.push('inline')";
        document.head.appendChild(script);
        const image = document.createElement("div");
        image.innerHTML = "<img src=x onerror=\\"window.ran.push('handler')\\">";
        document.body.appendChild(image);
        const link = document.createElement("a");
        link.href = "javascript:window.ran.push('link')";
        link.click();
        return new Promise(done => setTimeout(() => done(window.ran), 0));
    }"""
    tab.evaluate(tried)
    tab.wait_for_function("() => [...document.images].some(i => i.complete)")
    assert tab.evaluate("window.ran") == []


EVIL = (
    '<img src=x onerror="window.pwned=1"><iframe srcdoc="<script>parent.pwned=3</script>"></iframe>'
    "![x](/etc/passwd) **bold** <b>tag</b>"
)


@pytest.mark.drill
def test_the_title_of_a_mechanism_is_text(tab: Any) -> None:
    described = read_mechanism(ROOT / "configs" / "mechanisms" / "four_bar.toml")
    with_hands(described.mechanism)
    _, state = prepare(described)
    server, door, address = open_page(View(port=0), EVIL, TOKEN)
    try:
        workshop = MechanismPage(server, MechanismData(EVIL, Rig(state)))
        workshop.update_text()
        visit(tab, address, EVIL)
        tab.get_by_text(re.compile("iterations")).first.wait_for()
        assert tab.evaluate("window.pwned") is None
        assert tab.locator("iframe").count() == 0
        assert tab.evaluate("[...document.images].filter(i => !i.src.startsWith('data:image/svg')).length") == 0
        assert door.rejected == 0
    finally:
        close_page(server)
