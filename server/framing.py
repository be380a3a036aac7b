"""Where a request ends: what two programs could read differently is not read at all."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from server.error_answers import refuse
from server.errors import BadRequest


class OneLengthMiddleware:
    """Answers 400 to a request with a length and chunks, and ends its connection (RFC 9112, section 6.1).

    A proxy that goes by the length would take for another request what is the rest of this one.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        names = {name for name, _ in scope["headers"]} if scope["type"] == "http" else set()
        if {b"content-length", b"transfer-encoding"} <= names:
            problem = "the request has both Content-Length and Transfer-Encoding"
            response = refuse(scope, BadRequest(problem, code="invalid_http"))
            response.headers["connection"] = "close"
            await response(scope, receive, send)
            return
        await self._app(scope, receive, send)
