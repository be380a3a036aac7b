"""A real receiver of webhooks: an HTTP server in a thread that does what a test tells it."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

SECRET = "whsec_" + base64.b64encode(b"0123456789abcdef01234567").decode()


@dataclass(frozen=True)
class Received:
    """One request as it came."""

    path: str
    headers: dict[str, str]
    body: str
    at: float

    @property
    def event(self) -> dict[str, Any]:
        event: dict[str, Any] = json.loads(self.body)
        return event

    @property
    def stamp(self) -> int:
        return int(self.headers["webhook-timestamp"])


class Receiver(ThreadingHTTPServer):
    """Keeps what comes. `status` is its answer, `first` those before; `delay_s` how long it takes for one.

    Until it is `up`, its port takes no connection, and is nobody else's.
    """

    daemon_threads = True
    status = 204
    delay_s = 0.0

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler, bind_and_activate=False)
        self.server_bind()
        self.received: list[Received] = []
        self.first: list[int] = []
        self.released = threading.Event()
        self._thread: threading.Thread | None = None

    def up(self) -> None:
        """Take connections from now on."""
        self.server_activate()
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def down(self) -> None:
        """Take none any more."""
        self.released.set()
        if self._thread is not None:
            self.shutdown()
            self._thread.join()

    @property
    def port(self) -> int:
        return self.server_address[1]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook?token=secret"

    def wait(self, count: int, seconds: float = 60) -> list[Received]:
        """What came, once it is at least `count` requests."""
        end = time.monotonic() + seconds
        while len(self.received) < count:
            assert time.monotonic() < end, f"{len(self.received)} of {count} requests in {seconds} s"
            time.sleep(0.01)
        return list(self.received)


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        receiver = cast(Receiver, self.server)
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        headers = {name.lower(): value for name, value in self.headers.items()}
        receiver.received.append(Received(self.path, headers, body, time.time()))
        receiver.released.wait(receiver.delay_s)
        try:
            self._answer(receiver.first.pop(0) if receiver.first else receiver.status)
        except OSError:  # the sender gave up meanwhile
            self.close_connection = True

    def _answer(self, status: int) -> None:
        self.send_response(status)
        if 300 <= status < 400:
            self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class calls it so
        """Tests need no access log."""


@contextmanager
def receiving(tls: ssl.SSLContext | None = None, *, up: bool = True) -> Iterator[Receiver]:
    """A receiver on a port of its own."""
    with Receiver() as receiver:
        if tls is not None:
            receiver.socket = tls.wrap_socket(receiver.socket, server_side=True)
        if up:
            receiver.up()
        try:
            yield receiver
        finally:
            receiver.down()
