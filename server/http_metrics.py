"""Counts and times requests by the template of their path, so that no id of a client becomes a label."""

from __future__ import annotations

import time
from http import HTTPStatus

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.errors import CODE
from server.metrics import Metrics

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
OTHER = "other"
"""A method or a path that no route has: clients can make up any number of them."""
BUG = "internal_error"
"""Code of the answer that is given outside of here when a handler raised what nobody expects."""


class HttpMetricsMiddleware:
    """Outside of whatever may refuse a request, and inside of what gives paths their canonical form."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        seen = _Seen(scope, receive, send)
        try:
            await self._app(scope, seen.receive, seen.send)
        finally:
            seen.note(self._metrics)


class _Seen:
    """What passes of one request."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope.setdefault("state", {})
        self._scope = scope
        self._receive = receive
        self._send = send
        self._begun = time.monotonic()
        self._status: int | None = None
        self._received = self._sent = 0

    async def receive(self) -> Message:
        message = await self._receive()
        self._received += len(message.get("body", b""))
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
        await self._send(message)
        self._sent += len(message.get("body", b""))

    def note(self, metrics: Metrics) -> None:
        """Write it all down, once the answer is sent or given up."""
        method = self._scope["method"] if self._scope["method"] in METHODS else OTHER
        where = (method, route_of(self._scope))
        metrics.http_seconds.labels(*where).observe(time.monotonic() - self._begun)
        status = HTTPStatus.INTERNAL_SERVER_ERROR if self._status is None else self._status
        metrics.http_requests.labels(*where, f"{status:d}").inc()
        metrics.http_received.labels(*where).inc(self._received)
        metrics.http_sent.labels(*where).inc(self._sent)
        if status >= HTTPStatus.BAD_REQUEST:
            code = self._scope["state"].get(CODE, BUG if self._status is None else OTHER)
            metrics.refusals.labels(f"{status:d}", code).inc()


def route_of(scope: Scope) -> str:
    """The template of the request's path, such as `/v1/videos/{video_id}`."""
    return getattr(scope.get("route"), "path", OTHER)
