"""Access to the page over HTTP: the token opens a session, a session gets the page and its web socket.

The library that serves the page (viser) lets everyone in who reaches its port, and its client obeys what stands in the
address: it would load a scene, and run script, from anywhere. So every request is checked before it:

- Host is the address that was configured (not a name that an attacker rebinds to the loopback), a web socket's Origin
  is this very page, and the browser does not want it for a frame or as a part of another page (Sec-Fetch-Dest);
- the address has no query but ours: `/?token=…` once, and nothing afterwards;
- the token, compared in constant time, opens a session: a random path, and a cookie that a browser sends to this path
  only. A cookie knows no port: with `Path=/` every other server on this host would be sent it. The cookie is a MAC of
  its path under the token, so that a view that is restarted with the same token knows the sessions of the one before;
- every answer, also a refusal, forbids framing, foreign script, `eval` and foreign connections, and sends no referrer.
"""

import base64
import gzip
import hashlib
import hmac
import http
import ipaddress
import re
import secrets
import time
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from sync.files.token import new_token
from tandem.reports.html.markup import Markup, markup

MOST_PAGES = 32
MOST_PAGES_OF_ONE = 24  # address
DASH = "dash"  # the compact page, for a tablet in the car
_DASH_READ_NS = 5_000_000_000
# of the compact page: it asks for itself again, and says when there is no answer
_DASH_SCRIPT = markup("""
async function look() {{
    try {{
        const answer = await fetch(location.pathname, {{signal: AbortSignal.timeout(2000)}});
        if (!answer.ok) throw answer.status;
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        document.querySelector("main").replaceWith(page.querySelector("main"));
        document.querySelector("#lost").hidden = true;
    }} catch {{
        document.querySelector("#lost").hidden = false;
    }}
    setTimeout(look, 250);
}}
look();
""")
ICON = (
    "data:image/svg+xml;base64,"
    + base64.b64encode(
        b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" fill="#1c6fd1"/>'
        b'<g fill="none" stroke="#fff" stroke-width="2"><circle cx="5" cy="9" r="3"/><circle cx="11" cy="9" r="3"/></g>'
        b"</svg>"
    ).decode()
)
_TITLE = re.compile(rb"<title>[^<]*</title>")
_DESTINATIONS = {"", "document", "websocket", "empty"}  # Sec-Fetch-Dest
_HOST = re.compile(r"[A-Za-z0-9.-]{1,64}(:\d{1,5})?|\[[0-9A-Fa-f:.]{2,45}\](:\d{1,5})?")
_PLACE = re.compile(r"/([A-Za-z0-9_-]{22})/?")
_FIXED = {
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}

Refusal = tuple[http.HTTPStatus, str]
_FORBIDDEN, _BAD, _NOT_FOUND = http.HTTPStatus.FORBIDDEN, http.HTTPStatus.BAD_REQUEST, http.HTTPStatus.NOT_FOUND


class Scripts(NamedTuple):
    """Those that a page may run; and whether what these load themselves may run, too: where it is not known here."""

    texts: tuple[bytes, ...] = ()
    load_others: bool = False


def policy(scripts: Scripts, host: str = "") -> str:
    """Content-Security-Policy: these scripts and no others, inline or from elsewhere; connections to this page only."""
    hashes = "".join(f" 'sha256-{base64.b64encode(hashlib.sha256(s).digest()).decode()}'" for s in scripts.texts)
    hashes += " 'strict-dynamic'" * scripts.load_others
    socket = f" ws://{host}" if host else ""  # not all browsers count a web socket as 'self'
    return (
        f"default-src 'none'; script-src 'wasm-unsafe-eval'{hashes}; style-src 'unsafe-inline';"
        " img-src 'self' data: blob:; media-src data:; font-src 'self' data:; worker-src blob: data:;"
        f" connect-src 'self'{socket} data: blob:;"
        " frame-ancestors 'none'; base-uri 'none'; form-action 'none'; object-src 'none'"
    )


class PageAccess:
    def __init__(
        self, host: str, token: str = "", port: int = 0, scripts: Scripts | None = None, title: str = "tandem"
    ):
        self._title = title
        self._titled: dict[bytes, bytes] = {}  # the library's page, and ours
        self.dash = markup("waiting for the first step")  # what the compact page shows: by the panel
        self._dash_ns = -_DASH_READ_NS  # when it was asked for
        self._host, self._token, self._cookie, self._scripts = (
            host,
            token or new_token(),
            f"tandem_{port}",
            scripts or Scripts(),
        )
        self.refused = 0  # requests
        self.rejected = 0  # messages
        self.pages: dict[Any, str] = {}  # open web sockets, and whose

    @property
    def dash_is_read(self) -> bool:
        """Somebody looks at the compact page: it asks again every second."""
        return time.monotonic_ns() - self._dash_ns < _DASH_READ_NS

    # ---- the parts of a request

    def _known_host(self, header: str) -> bool:
        if not _HOST.fullmatch(header):
            return False
        name, ours = urlsplit(f"//{header}").hostname or "", ipaddress.ip_address(self._host)
        if name == "localhost":  # what browsers never look up
            return ours.is_loopback or ours.is_unspecified
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return ours.is_unspecified or address == ours or (address.is_loopback and ours.is_loopback)

    def _session(self, place: str) -> str:
        return hmac.new(self._token.encode(), b"session " + place.encode(), hashlib.sha256).hexdigest()

    def _has_session(self, place: str, request: Any) -> bool:
        ours = self._session(place).encode()
        cookies = (part.strip().partition("=") for part in request.headers.get("Cookie", "").split(";"))
        return any(n == self._cookie and hmac.compare_digest(v.encode(), ours) for n, _, v in cookies)

    def _has_token(self, query: str) -> bool:
        keys = parse_qs(query, keep_blank_values=True, strict_parsing=True, max_num_fields=2)
        if set(keys) - {"layout"} != {"token"} or keys.get("layout", [DASH]) != [DASH] or len(keys["token"]) != 1:
            raise ValueError("another key")
        return hmac.compare_digest(keys["token"][0].encode(), self._token.encode())

    # ---- whether it passes

    def refusal(self, request: Any, address: str = "") -> Refusal | None:
        """Why this request may not pass; None if it may."""
        try:
            host, upgrade = request.headers.get("Host", ""), request.headers.get("Upgrade")
            if not self._known_host(host):
                return _FORBIDDEN, "wrong Host"
            if request.headers.get("Sec-Fetch-Dest", "") not in _DESTINATIONS:
                return _FORBIDDEN, "not to be shown within another page"
            if upgrade and urlsplit(request.headers.get("Origin", "")).netloc != host:
                return _FORBIDDEN, "another site"
            return self._refused_place(request, host, upgrade) or (self._full(address) if upgrade else None)
        except (ValueError, LookupError):  # no address; a header that is there twice; a query that is not ours
            return _BAD, "not understood"

    def _refused_place(self, request: Any, host: str, upgrade: str | None) -> Refusal | None:
        path, _, query = request.path.partition("?")
        found = _PLACE.fullmatch(path.removesuffix(f"/{DASH}"))
        if found is not None:
            # the client writes where its socket is into its address, for when it is loaded again
            if query and (path.endswith(f"/{DASH}") or query != f"websocket=ws://{host}/{found[1]}"):
                return _BAD, "a query that is not ours"
            return (
                None if self._has_session(found[1], request) else (_FORBIDDEN, "no session: open the printed address")
            )
        if query and not self._has_token(query):
            return _FORBIDDEN, "wrong token"
        if not query:
            return _FORBIDDEN, "the address lacks its token: open the one that was printed"
        return (_NOT_FOUND, "not found") if path != "/" or upgrade else None

    def _full(self, address: str) -> Refusal | None:
        of_one = sum(1 for other in self.pages.values() if other == address)
        if len(self.pages) >= MOST_PAGES or of_one >= MOST_PAGES_OF_ONE:
            return http.HTTPStatus.SERVICE_UNAVAILABLE, "too many pages are open"
        return None

    # ---- what is answered

    def respond(self, request: Any, serve: Any, connection: Any) -> Any:
        """The library's own answer to a request that passes (None: a web socket), a session for one with the token, or
        a refusal."""
        address = str((getattr(connection, "remote_address", None) or ("",))[0])
        why = self.refusal(request, address)
        if why is not None:
            self.refused += 1
            return self._answer(why[0], f"tandem view: {why[1]}\n".encode(), "text/plain")
        if request.headers.get("Upgrade"):
            self.pages[connection] = address
            return None
        if request.path.endswith(f"/{DASH}"):
            self._dash_ns = time.monotonic_ns()
            return self._answer(http.HTTPStatus.OK, self._compact().encode(), "text/html; charset=utf-8")
        if not request.path.startswith("/?"):
            request.path = "/"  # all there is
            return self._ours(serve(connection, request))
        # not by a redirect: after a click in another page a browser would send no cookie of ours to where it leads
        place = secrets.token_urlsafe(16)
        text = markup(
            '<!doctype html><meta http-equiv="refresh" content="0;url=/{}/{}"><link rel="icon" href="{}">'
            "<title>{}</title>",
            place, DASH if f"layout={DASH}" in re.split("[?&]", request.path) else "", ICON, self._title,
        )  # fmt: skip
        answer = self._answer(http.HTTPStatus.OK, text.encode(), "text/html; charset=utf-8")
        answer.headers["Set-Cookie"] = (
            f"{self._cookie}={self._session(place)}; HttpOnly; SameSite=Strict; Path=/{place}"
        )
        return answer

    def _ours(self, answer: Any) -> Any:
        """The library's page under our title and icon; its scripts, which the policy knows by their hashes, as they
        are."""
        body, packed = getattr(answer, "body", b""), answer.headers.get("Content-Encoding") == "gzip"
        if body not in self._titled:
            text = gzip.decompress(body) if packed else body
            head = markup('<title>{}</title><link rel="icon" href="{}">', self._title, ICON).encode()
            text, found = _TITLE.subn(lambda _: head, text, count=1)
            self._titled = {body: (gzip.compress(text) if packed else text) if found else body}
        answer.body = self._titled[body]
        del answer.headers["Content-Length"]
        answer.headers["Content-Length"] = str(len(answer.body))
        return answer

    def _compact(self) -> Markup:
        """A browser that runs no script loads it again every second."""
        return markup(
            '<!doctype html><html lang="en"><meta name="viewport" content="width=device-width"><title>{}</title>'
            '<link rel="icon" href="{}"><noscript><meta http-equiv="refresh" content="1"></noscript>'
            '<body style="margin:0;background:#111;color:#fff;font-family:sans-serif;text-align:center">'
            '<div id="lost" hidden style="background:#c92a2a;font-size:6vmin;padding:2vmin">connection lost: this is'
            " what came last</div><main>{}</main><script>{}</script></body></html>",
            self._title, ICON, self.dash, _DASH_SCRIPT,
        )  # fmt: skip

    @staticmethod
    def _answer(status: http.HTTPStatus, body: bytes, kind: str) -> Any:
        from websockets.datastructures import Headers
        from websockets.http11 import Response

        headers = Headers([("Content-Type", kind), ("Content-Length", str(len(body)))])
        return Response(status.value, status.phrase, headers, body)

    def close_off(self, request: Any, answer: Any) -> None:
        """The headers of every answer."""
        hosts = request.headers.get_all("Host")
        host = hosts[0] if len(hosts) == 1 and self._known_host(hosts[0]) else ""
        path = request.path.partition("?")[0]
        scripts = Scripts((_DASH_SCRIPT.encode(),)) if path.endswith(f"/{DASH}") else self._scripts
        for name, value in {**_FIXED, "Content-Security-Policy": policy(scripts, host)}.items():
            if name in answer.headers:
                del answer.headers[name]
            answer.headers[name] = value
