"""The HTTP server around the application: uvicorn, with bounds on slow clients and on their number."""

from __future__ import annotations

import asyncio
import logging
import resource
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from server import request_id
from server.counting import crumbled
from server.error_answers import answer
from server.errors import ApiError, BadRequest, RequestTimeout, TooManyConnections
from server.sections import ServerSettings

STALL_S = 120.0
"""How long a client may take nothing of an answer that is being sent to it."""
LINGER_S = 2.0
"""How long a client that was refused may go on sending before the connection is closed."""
HEAD_BYTES = 64 * 1024
"""Largest head of a request."""
OTHER_FILES = 512
"""Descriptors for all that is no connection."""

logger = logging.getLogger("reelserve.http")


class _Timer:
    """Calls back once, `seconds` after its start, unless it is stopped."""

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float, call: Callable[[], None]) -> None:
        self._loop, self._seconds, self._call = loop, seconds, call
        self._handle: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin, if it does not run."""
        if self._handle is None:
            self._handle = self._loop.call_later(self._seconds, self._call)

    def stop(self) -> None:
        """Do not call."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None


class _Connection(h11.Connection):
    """Takes no body for HTTP that comes in a great many small chunks: all that are there are read at once."""

    _chunks = _bytes = 0

    def next_event(self) -> Any:
        """The next event, as h11 has it."""
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._chunks = self._bytes = 0
        if isinstance(event, h11.Data):
            self._chunks += event.chunk_start
            self._bytes += len(event.data)
            if crumbled(self._chunks, self._bytes):
                raise h11.RemoteProtocolError("too many small chunks")
        return event


class BoundedProtocol(H11Protocol):
    """A connection that ends when its client leaves it open without need.

    Between two answers it has `read_timeout_s` for the whole head of a request, and for what is left of a
    body that nobody read. While an answer is made, the application has its own bounds.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        settings: ServerSettings,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.conn = _Connection(h11.SERVER, HEAD_BYTES)
        self._settings = settings
        self._refused = False
        self._patience = _Timer(self.loop, settings.read_timeout_s, self._give_up)
        self._stall = _Timer(self.loop, STALL_S, self._abort)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Refuse it at once if there are too many."""
        super().connection_made(transport)
        most = self._settings.max_connections
        if len(self.connections) > most:
            self._refuse(TooManyConnections(f"more than {most} connections are open", retry_after_s=1))
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        super().connection_lost(exc)
        self._patience.stop()
        self._stall.stop()

    def data_received(self, data: bytes) -> None:
        """Bytes of a request."""
        if not self._refused:
            super().data_received(data)
            self._watch()

    def on_response_complete(self) -> None:
        """From here on, the client has to send something."""
        super().on_response_complete()
        self._watch()

    def pause_writing(self) -> None:
        """The client does not take the answer as fast as it is made."""
        super().pause_writing()
        self._stall.start()

    def resume_writing(self) -> None:
        """It has taken some."""
        super().resume_writing()
        self._stall.stop()
        self._watch()

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP gets an answer in the envelope, like everything else; never within another one."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            if self.cycle.response_started:
                self.transport.close()
                return
        self._refuse(BadRequest("the request is not valid HTTP", code="invalid_http"))

    def _watch(self) -> None:
        """Run out of patience unless an answer is being made."""
        if self._refused or (self.cycle is not None and not self.cycle.response_complete):
            self._patience.stop()
        elif not self.transport.is_closing():
            self._patience.start()
        if self.transport.is_closing() and self in self.connections:  # when all is sent, if ever
            self._stall.start()

    def _give_up(self) -> None:
        if self.cycle is None and self.conn.trailing_data[0]:
            seconds = f"{self._settings.read_timeout_s:g}"
            self._refuse(RequestTimeout(f"the head of the request was not there within {seconds} s"))
        else:  # nothing was asked, or it has been answered
            self._close()

    def _close(self) -> None:
        self.transport.close()
        self._watch()

    def _abort(self) -> None:
        self.transport.abort()

    def _refuse(self, error: ApiError) -> None:
        """Answer without a request, and close. By hand: h11 knows no answer in a state that is broken."""
        response = answer(error)
        response.headers[request_id.HEADER] = request_id.fresh()
        response.headers["connection"] = "close"
        lines = [b"HTTP/1.1 %d Refused" % response.status_code]
        lines += [b"%s: %s" % header for header in response.raw_headers]
        self.transport.write(b"\r\n".join((*lines, b"", bytes(response.body))))
        self._refused = True
        # Closed on bytes that were not read, the system would take the answer back.
        self.transport.write_eof()
        self.loop.call_later(LINGER_S, self._close)


def http_config(app: ASGIApp, settings: ServerSettings, **more: Any) -> uvicorn.Config:
    """How the application is served; `more` goes to uvicorn."""
    protocol = cast(Any, partial(BoundedProtocol, settings=settings))  # called like the class itself
    return uvicorn.Config(app, http=protocol, ws="none", log_config=None, access_log=False, **more)


def allow_connections(most: int) -> None:
    """Ask the system for as many descriptors as that takes; where it has fewer, the log says so."""
    wanted = most + OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        granted = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (granted, hard))
        if granted < wanted:
            logger.warning("fewer open files are allowed than connections need", extra={"count": granted})
