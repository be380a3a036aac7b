"""What every answer carries: `X-Request-Id`, the client's own if it is sane, and that types are meant."""

from __future__ import annotations

import re
from uuid import uuid4

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server import logs

HEADER = "x-request-id"

_SANE = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}", re.ASCII)


class RequestIdMiddleware:
    """Give each request an id, in `scope["state"]["request_id"]` and in the answer's headers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = ensure(scope)
        # Not only within a block: a bug's trace is logged outside of it. A request has a task of its own.
        logs.bind(request_id=request_id)

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers[HEADER] = request_id
                headers["x-content-type-options"] = "nosniff"  # a browser runs nothing that is not a script
            await send(message)

        await self._app(scope, receive, send_with_id)


def ensure(scope: Scope) -> str:
    """The id of the request with this scope, chosen at the first call."""
    state: dict[str, str] = scope.setdefault("state", {})
    if "request_id" not in state:
        state["request_id"] = _given(scope) or fresh()
    return state["request_id"]


def fresh() -> str:
    """An id that nobody else has."""
    return f"req_{uuid4().hex}"


def _given(scope: Scope) -> str | None:
    sent = Headers(scope=scope).getlist(HEADER)
    return sent[0] if len(sent) == 1 and _SANE.fullmatch(sent[0]) else None
