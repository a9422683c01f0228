"""The server of a page: bound to exactly the port that was asked for, and viser held behind its door.

viser offers no place for any of this, and binds the next port where one is taken, even another program's.
So the one call by which it opens its server is replaced while it is made: the socket is bound here, connections are
counted, requests go through the access check (page_access.py) and messages through the allow-list (messages.py). What
viser itself gets are requests for its page and messages written by us; see
docs/decisions/0029-the-page-is-held-from-outside.md.
"""

import asyncio
import contextlib
import errno
import html.parser
import io
import logging
import re
import socket
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from sync.config.config import View
from sync.config.extras import install_extra
from sync.errors import TandemError
from tandem.view.messages import MOST_BYTES, Rejected, checked
from tandem.view.page_access import PageAccess, Scripts

MOST_WAITING = 32  # connections without a session yet; one more, and the oldest of them is ended
_GREETING_S = 10.0  # for a request to be complete
_PORTS = range(8790, 8810)  # where none is asked for
_MOST_UNREAD = 64 << 20  # bytes that wait for one page; a scene is smaller
_BURST, _PER_S = 400, 200.0  # messages of one page; what is above waits at the sender
_MOST_REJECTED = 100  # messages of one page; then it is cut off
_PACKED = re.compile(rb'<script data-p="([^"]*)" data-ss="(\d+)" data-cs="(\d+)">(.*?)</script>', re.DOTALL)
_ALPHABET = re.compile(rb'const A=("(?:[^"\\]|\\.)*");')


class NoView(TandemError):
    """The page cannot be served."""

    code = 7


# ---- its port --------------------------------------------------------------------------------------------------------


def bound(view: View) -> socket.socket:
    """A socket at exactly `view.port` (0: any that is free; auto: the first of some that is free), or NoView."""
    for port in _PORTS if view.port == "auto" else (view.port,):
        try:
            return socket.create_server(
                (view.host, port), family=socket.AF_INET6 if ":" in view.host else socket.AF_INET, backlog=MOST_WAITING
            )
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise NoView(f"view.host = {view.host}: no page can be served there: {error.strerror}") from None
    if view.port == "auto":
        raise NoView(
            f"view.port: none of {_PORTS[0]} to {_PORTS[-1]} is free at {view.host}; set it to 0 for any other"
        )
    raise NoView(
        f"view.port = {view.port}: another program has it at {view.host}; end that, set another port, or 0 for any"
    )


# ---- its scripts -----------------------------------------------------------------------------------------------------


def scripts_of(client: bytes) -> Scripts:
    """The scripts that the client's page runs: the loader in it, and the packed one that the loader unpacks.

    They are the only ones that a browser is allowed to run there. In a client that is packed in another way these are
    the scripts that stand in the page, and what they load themselves.
    """
    packed = _unpacked(client)
    if packed is not None:
        return Scripts(packed, load_others=False)
    page = _Inline()
    page.feed(client.decode(errors="replace"))
    if not page.found or page.elsewhere:
        raise NoView("this version of viser has a client that is not known here; install viser 1.1")
    return Scripts(tuple(text.encode() for text in page.found), load_others=True)


class _Inline(html.parser.HTMLParser):
    """The scripts that stand in a page, and whether it has others."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.elsewhere = False
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "script":
            self._inside = True
            self.found.append("")
            self.elsewhere |= any(name == "src" for name, _ in attrs)

    def handle_endtag(self, tag: str) -> None:
        self._inside = self._inside and tag != "script"

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.found[-1] += data


def _unpacked(client: bytes) -> tuple[bytes, bytes] | None:
    """The loader of viser 1.1 and what it unpacks; None of a client that is not made like that."""
    import json

    import zstandard

    found = _PACKED.search(client)
    alphabet = _ALPHABET.search(found[4]) if found else None
    if found is None or alphabet is None or client.count(b"<script") != 1:
        return None
    try:
        value = np.zeros(256, np.int64)
        value[np.frombuffer(json.loads(alphabet[1]).encode("ascii"), np.uint8)] = np.arange(88)
        text = value[np.frombuffer(found[1].replace(b"&amp;", b"&"), np.uint8)]
        whole = len(text) // 5
        words = text[: 5 * whole].reshape(-1, 5) @ (88 ** np.arange(4, -1, -1))
        rest = text[5 * whole :]
        tail = int(sum(int(v) * 88 ** (len(rest) - 1 - i) for i, v in enumerate(rest))) if len(rest) else 0
        packed = words.astype(">u4").tobytes() + tail.to_bytes(max(len(rest) - 1, 0), "big")
        unpacked = zstandard.ZstdDecompressor().decompressobj().decompress(packed)
    except (ValueError, OverflowError, zstandard.ZstdError):
        return None
    styles, code = int(found[2]), int(found[3])
    return (found[4], unpacked[styles:]) if len(unpacked) == styles + code else None


# ---- its connections -------------------------------------------------------------------------------------------------


class _Checked:
    """A web socket as viser sees it: what it receives has passed the allow-list."""

    def __init__(self, connection: Any, door: PageAccess, widgets: Any):
        self._connection, self._door, self._widgets = connection, door, widgets
        self._left, self._since, self._rejected = float(_BURST), asyncio.get_running_loop().time(), 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    async def recv(self) -> bytes:
        while True:
            data = await self._connection.recv()
            await self._pace()
            try:
                return checked(data, self._widgets)
            except Rejected:
                self._door.rejected += 1
                self._rejected += 1
                if self._rejected >= _MOST_REJECTED:
                    self._connection.transport.abort()  # without a word: the answer would wait behind its messages

    async def _pace(self) -> None:
        now = asyncio.get_running_loop().time()
        self._left = min(self._left + _PER_S * (now - self._since), float(_BURST)) - 1.0
        self._since = now
        if self._left < 0.0:
            await asyncio.sleep(-self._left / _PER_S)


def _connections(door: PageAccess, waiting: dict[Any, None]) -> type:
    """The class of connections: few may be without a session, and the oldest of these makes room."""
    from websockets.asyncio.server import ServerConnection

    class Connection(ServerConnection):  # type: ignore[misc]
        def connection_made(self, transport: Any) -> None:
            waiting[self] = None
            if len(waiting) > MOST_WAITING:
                oldest = next(iter(waiting))
                del waiting[oldest]
                door.refused += 1
                oldest.transport.abort()
            super().connection_made(transport)

        def data_received(self, data: bytes) -> None:
            # a ping is answered by the library: a client that asks and never reads would fill the memory with answers
            if self.transport.get_write_buffer_size() > _MOST_UNREAD:
                door.refused += 1
                self.transport.abort()
                return
            super().data_received(data)

        def connection_lost(self, error: Exception | None) -> None:
            waiting.pop(self, None)
            door.pages.pop(self, None)
            super().connection_lost(error)

    return Connection


def _logger(door: PageAccess) -> logging.Logger:
    """The logger of connections: a malformed request is counted, and writes no traceback on our terminal. One that ends
    before it has asked anything (a browser that connects ahead) is not even counted."""
    from websockets.exceptions import InvalidHandshake

    def worth_a_line(record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        malformed = isinstance(error, InvalidHandshake)  # what our own side raises is none
        door.refused += malformed and not isinstance(error.__cause__ if error else None, EOFError)
        return not malformed

    found = logging.Logger("tandem.page", logging.ERROR)
    found.addFilter(worth_a_line)
    found.addHandler(logging.lastResort or logging.StreamHandler())  # to whatever sys.stderr is then
    return found


class _Held:
    """The server behind its door, once it has been made."""

    def __init__(self, door: PageAccess, listening: socket.socket):
        self.door, self._listening = door, listening
        self.server: Any = None
        self.stands = False

    def widget(self, uuid: str) -> Any:
        """The widget with this id, of all pages or of one of them."""
        if self.server is None:
            return None
        scopes = (self.server.gui, *(client.gui for client in self.server.get_clients().values()))
        return next(
            (s._gui_input_handle_from_uuid[uuid] for s in scopes if uuid in s._gui_input_handle_from_uuid), None
        )

    @contextmanager
    def creating(self) -> Iterator[None]:
        """A viser server that is made within is held."""
        import websockets.asyncio.server as servers

        serve, door = servers.serve, self.door
        waiting: dict[Any, None] = {}

        def guarded(page: Any, host: str, port: int, **options: Any) -> Any:
            own = options.pop("process_request")
            self.stands = True

            def respond(connection: Any, request: Any) -> Any:
                answer = door.respond(request, own, connection)
                if answer is None:
                    waiting.pop(connection, None)
                return answer

            async def behind(connection: Any) -> None:
                await page(_Checked(connection, door, self.widget))

            return serve(
                behind, sock=self._listening, process_request=respond,
                process_response=lambda _, request, answer: door.close_off(request, answer),
                create_connection=_connections(door, waiting), open_timeout=_GREETING_S, server_header=None,
                logger=_logger(door),
                **{**options, "max_size": MOST_BYTES, "max_queue": 4},
            )  # fmt: skip

        servers.serve = guarded
        try:
            yield
        finally:
            servers.serve = serve


def _quiet() -> Any:
    """viser prints a greeting on standard output; ours is read by a supervisor."""
    return contextlib.redirect_stdout(io.StringIO())


def open_page(view: View, title: str, token: str) -> tuple[Any, PageAccess, str]:
    """(a server behind its door, the door, its address)."""
    try:
        import viser
    except ImportError:
        raise NoView(
            f"the page needs viser (the extra `page`): {install_extra('page')}, or set view.enabled = false"
        ) from None
    client = Path(viser.__file__).parent / "client" / "build" / "index.html"
    scripts = scripts_of(client.read_bytes())
    listening = bound(view)
    port = listening.getsockname()[1]
    held = _Held(PageAccess(view.host, token, port, scripts, f"tandem: {title}"), listening)
    # a page that closes while a frame is made: nothing that a person could do about it
    warnings.filterwarnings("ignore", "Queued a .* on a closed connection")
    with held.creating(), _quiet():
        server = viser.ViserServer(host=view.host, port=port, label=f"tandem: {title}", verbose=False)
    if not held.stands or server.get_port() != port or not hasattr(server.gui, "_gui_input_handle_from_uuid"):
        close_page(server)
        raise NoView("this version of viser cannot be held behind a door; install viser 1.1")
    held.server = server
    server.gui.configure_theme(dark_mode=True, show_logo=False, show_share_button=False, control_width="large")
    shown = f"[{view.host}]" if ":" in view.host else view.host
    return server, held.door, f"http://{shown}:{port}/?token={token}"


def close_page(server: Any) -> None:
    with _quiet():
        server.stop()
