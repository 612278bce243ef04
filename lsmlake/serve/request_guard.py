"""What every HTTP request passes: the Host and Origin headers, the token, the size and the time of its body; and the headers of
every answer.

Without a token only this machine reaches the server, but so do the pages in its browsers. A page of another site cannot read
answers; it could send requests, or give its own name the address of this machine. Both are refused: a browser sends the name in
`Host` and the site in `Origin`.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lsmlake.errors import foreign
from lsmlake.serve.http_error import error_response
from lsmlake.serve.serve_settings import LOOPBACK, ServeSettings
from lsmlake.undo import pass_interruption

_log = logging.getLogger("lsmlake.serve")

OPEN_PATHS = ("/", "/health", "/iceberg/v1/oauth/tokens")
OPEN_FOLDER = "/page/"
"""What is served without a token: the page itself, which asks for one, and its files; whether the server is up; and the answer
that it issues no tokens."""
BODY_MAX = 8 << 20
"""Most bytes of a request. The largest are commits to tables."""
BODY_SECONDS = 30
"""The longest time in which a client sends its request."""
_HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


class RequestGuard:
    """The middleware around all routes."""

    def __init__(self, app: ASGIApp, settings: ServeSettings) -> None:
        self.app, self.settings = app, settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        answer = Answer(send)
        body = Body(receive)
        refused = self._refused(scope["path"], Headers(scope=scope))
        try:
            if refused is not None:
                await refused(scope, receive, answer)
            else:
                await self.app(scope, body, answer)
        except (BodyTooLarge, BodyTooSlow) as broken:
            if answer.begun:
                raise
            await broken.response()(scope, receive, answer)
        except Exception as broken:
            pass_interruption(broken)
            if answer.begun:
                raise
            _log.error("%s %s failed", scope["method"], scope["path"], exc_info=broken)
            await error_response(500, "InternalServerError", str(foreign(broken, "serve")))(scope, receive, answer)

    def _refused(self, path: str, headers: Headers) -> Response | None:
        """The answer to a request that no route sees; None: it goes on."""
        if not self.settings.tokens and _host(f"//{headers.get('host', '')}") not in LOOPBACK:
            return error_response(403, "ForbiddenException", "the header Host names another machine than this one")
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != headers.get("host"):
            return error_response(403, "ForbiddenException", "the request comes from a page of another site")
        is_open = not self.settings.tokens or path in OPEN_PATHS or path.startswith(OPEN_FOLDER)
        if not is_open and not bears_token(headers.get("authorization", ""), self.settings.tokens):
            about = "the request bears no token, or a wrong one; send the header Authorization: Bearer TOKEN"
            return error_response(401, "NotAuthorizedException", about, {"www-authenticate": "Bearer"})
        length = headers.get("content-length", "0")
        if not length.isdecimal() or len(length) > 18 or int(length) > BODY_MAX:
            return BodyTooLarge().response()
        return None


def _host(address: str) -> str | None:
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None


def bears_token(header: str, tokens: tuple[str, ...]) -> bool:
    """Whether a header `Authorization` has one of the tokens. Compares in constant time."""
    kind, _, given = header.partition(" ")
    matches = [hmac.compare_digest(given.strip().encode(), token.encode()) for token in tokens]
    return kind.lower() == "bearer" and any(matches)


class BodyTooLarge(Exception):
    """The request has more than `BODY_MAX` bytes."""

    def response(self) -> Response:
        return error_response(413, "PayloadTooLargeException", f"the request has more than {BODY_MAX:,} bytes")


class BodyTooSlow(Exception):
    """The client did not send its request within `BODY_SECONDS`."""

    def response(self) -> Response:
        return error_response(408, "RequestTimeoutException", f"the request did not come within {BODY_SECONDS} seconds")


class Body:
    """Receives the body of a request, whose size and time are limited. What comes after it has no limits."""

    def __init__(self, receive: Receive) -> None:
        self._receive, self._bytes, self._open = receive, 0, True
        self._end: float | None = None

    async def __call__(self) -> Message:
        if not self._open:
            return await self._receive()
        loop = asyncio.get_running_loop()
        self._end = self._end or loop.time() + BODY_SECONDS
        try:
            message = await asyncio.wait_for(self._receive(), self._end - loop.time())
        except asyncio.TimeoutError:
            raise BodyTooSlow from None
        self._bytes += len(message.get("body", b""))
        if self._bytes > BODY_MAX:
            raise BodyTooLarge
        self._open = message["type"] == "http.request" and message.get("more_body", False)
        return message


class Answer:
    """Sends an answer with the headers that every answer has. `begun`: whether it has begun."""

    def __init__(self, send: Send) -> None:
        self._send, self.begun = send, False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.begun = True
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        await self._send(message)
