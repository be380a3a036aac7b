"""Counts and times requests by the template of their path, so that no id of a client becomes a label."""

from __future__ import annotations

import logging
import time
from http import HTTPStatus

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server import logs
from server.error_answers import CODE
from server.metrics import Metrics

logger = logging.getLogger("reelserve.http")

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
        seconds = time.monotonic() - self._begun
        status = HTTPStatus.INTERNAL_SERVER_ERROR if self._status is None else self._status
        method = self._scope["method"] if self._scope["method"] in METHODS else OTHER
        where = (method, route_of(self._scope))
        metrics.http_seconds.labels(*where).observe(seconds)
        metrics.http_requests.labels(*where, f"{status:d}").inc()
        metrics.http_received.labels(*where).inc(self._received)
        metrics.http_sent.labels(*where).inc(self._sent)
        told: logs.Fields = {"method": where[0], "route": where[1], "status": int(status)}
        told["seconds"] = round(seconds, 4)
        if status < HTTPStatus.BAD_REQUEST:
            logger.debug("request answered", extra=told)
            return
        told["code"] = self._scope["state"].get(CODE, BUG if self._status is None else OTHER)
        metrics.refusals.labels(f"{status:d}", told["code"]).inc()
        logger.info("request refused", extra=told)


def route_of(scope: Scope) -> str:
    """The template of the request's path, such as `/v1/videos/{video_id}`."""
    return getattr(scope.get("route"), "path", OTHER)
