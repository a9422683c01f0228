"""Who may come in: whoever has the token, or sits at this machine; and no page of somebody else.

viser serves everyone who reaches its port. In front of it every request is looked at: its Host must be the address that
was configured (a name that somebody rebinds to the loopback is not), a web socket's Origin must be this very page (the
other sites a browser has open may not drive), and where there is a token it must come with the first request, as
`?token=…`; from then on a cookie carries it. So many pages at once are served and no more, and a page that sends a
message longer than any of ours is cut off. Who does not pass is counted.
"""

import hmac
import http
import ipaddress
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

_COOKIE = "tandem_view"
MOST_PAGES = 32
MOST_BYTES = 1024 * 1024  # of a message: a page tells where its camera is, and what was moved or pressed


class Door:
    def __init__(self, host: str, token: str):
        self._host, self._token = host, token
        self.refused = 0
        self.open = 0  # web sockets
        self.stands = False  # a server has been made behind it

    def _known_host(self, header: str) -> bool:
        name, ours = urlsplit(f"//{header}").hostname or "", ipaddress.ip_address(self._host)
        if name == "localhost":  # what browsers never ask anybody for
            return ours.is_loopback or ours.is_unspecified
        try:
            asked = ipaddress.ip_address(name)
        except ValueError:
            return False
        return ours.is_unspecified or asked == ours or (asked.is_loopback and ours.is_loopback)

    def _has_token(self, request: Any) -> tuple[bool, bool]:
        """(whether it has the token, whether it came in the address)."""
        if not self._token:
            return True, False
        given = parse_qs(urlsplit(request.path).query).get("token", [""])[0]
        if hmac.compare_digest(given.encode(), self._token.encode()):
            return True, True
        for part in request.headers.get("Cookie", "").split(";"):
            name, _, value = part.strip().partition("=")
            if name == _COOKIE and hmac.compare_digest(value.encode(), self._token.encode()):
                return True, False
        return False, False

    def refusal(self, request: Any) -> str | None:
        """Why this request may not pass; None if it may."""
        try:
            host = request.headers.get("Host", "")
            if not self._known_host(host):
                return "wrong Host"
            if request.headers.get("Upgrade"):
                origin = urlsplit(request.headers.get("Origin", ""))
                if origin.netloc != host:
                    return "another site"
            if not self._has_token(request)[0]:
                return "the address lacks its token"
            if request.headers.get("Upgrade") and self.open >= MOST_PAGES:
                return "too many pages are open"
        except (ValueError, LookupError):  # no address; a header that is there twice
            return "not understood"
        return None

    def look(self, request: Any, serve: Any, connection: Any) -> Any:
        """viser's own answer to a request, or a refusal; a token in the address becomes a cookie."""
        from websockets.datastructures import Headers
        from websockets.http11 import Response

        why = self.refusal(request)
        if why is not None:
            self.refused += 1
            text = f"tandem view: {why}\n".encode()
            headers = Headers([("Content-Type", "text/plain"), ("Content-Length", str(len(text)))])
            return Response(http.HTTPStatus.FORBIDDEN.value, "Forbidden", headers, text)
        answer = serve(connection, request)
        if answer is not None and self._has_token(request)[1]:
            answer.headers["Set-Cookie"] = f"{_COOKIE}={self._token}; HttpOnly; SameSite=Strict; Path=/"
        return answer

    @contextmanager
    def kept(self) -> Iterator[None]:
        """A viser server that is made within looks at every request through this door."""
        import websockets.asyncio.server as servers

        serve = servers.serve

        def guarded(page: Any, *arguments: Any, **options: Any) -> Any:
            own = options.pop("process_request")
            self.stands = True

            async def counted(connection: Any) -> None:
                self.open += 1
                try:
                    await page(connection)
                finally:
                    self.open -= 1

            return serve(
                counted, *arguments, **{**options, "max_size": MOST_BYTES},
                process_request=lambda connection, request: self.look(request, own, connection),
            )  # fmt: skip

        servers.serve = guarded  # viser offers no other place for it
        try:
            yield
        finally:
            servers.serve = serve
