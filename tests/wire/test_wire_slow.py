"""Clients that are slow, many, or no HTTP at all, byte by byte over real sockets."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.responses import PlainTextResponse

from server import http
from tests.wire.clock import Clock, stopped
from tests.wire.instant import listening, make_app

PATIENCE = 0.4
MOST = 6
JSON_HEAD = b"POST /v1/videos HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
END_S = 60
"""Far beyond what anything here takes: a test that would wait for it has failed."""


class Watched(http.BoundedProtocol):
    """A connection of the server under test, which says what it has seen."""

    opened: asyncio.AbstractEventLoop
    count = 0
    """Connections that are there now."""
    taken = 0
    """Bytes that came, of all connections."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        Watched.opened, Watched.count = self.loop, Watched.count + 1
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        Watched.count -= 1

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        Watched.taken += len(data)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Clock]]:
    """A server of little patience and few connections, and its clock, which stands still."""
    settings = {"read_timeout_s": PATIENCE, "max_connections": MOST}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(http, "BoundedProtocol", Watched)
        with listening(make_app(tmp_path_factory.mktemp("slow"), server=settings)) as address:
            assert alive(address)
            with stopped(Watched.opened) as clock:
                yield address, clock


@pytest.fixture
def url(server: tuple[str, Clock]) -> str:
    """Where nobody is connected."""
    until(lambda: Watched.count == 0)
    return server[0]


@pytest.fixture
def clock(server: tuple[str, Clock]) -> Clock:
    return server[1]


def until(condition: Callable[[], bool]) -> None:
    """Wait for what the server's thread does."""
    end = time.monotonic() + END_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


def alive(url: str) -> bool:
    return httpx.get(f"{url}/live", timeout=END_S).status_code == 200


@contextmanager
def connected(url: str) -> Iterator[socket.socket]:
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=END_S) as opened:
        yield opened


def send(connection: socket.socket, data: bytes) -> None:
    """Return when the server has it all."""
    before = Watched.taken
    connection.sendall(data)
    until(lambda: Watched.taken == before + len(data))


def everything(connection: socket.socket) -> bytes:
    """All that comes until the server closes."""
    found = b""
    try:
        while piece := connection.recv(65_536):
            found += piece
    except ConnectionResetError:  # it closed on what it did not read
        pass
    return found


def given_up(connection: socket.socket, clock: Clock) -> bytes:
    """All that comes until the server closes, as time passes and nothing is sent."""
    with ThreadPoolExecutor(1) as thread:
        found = thread.submit(everything, connection)
        while not found.done():
            clock.let_pass(PATIENCE / 2)
        return found.result()


def refusal(answer: bytes) -> tuple[int, dict[str, Any]]:
    """Status and error of an answer in the envelope, the only one on its connection."""
    assert answer.count(b"HTTP/1.1 ") == 1, answer
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"content-type: application/json" in head.lower()
    assert b"x-request-id: req_" in head.lower()
    return int(head.split()[1]), json.loads(body)["error"]


def drip(connection: socket.socket, data: bytes, clock: Clock) -> None:
    """Byte after byte, until the server has had enough."""
    try:
        for byte in data:
            connection.send(bytes([byte]))
            clock.let_pass(PATIENCE / 10)
    except OSError:
        return
    raise AssertionError("the server took all of it")


def test_a_connection_without_a_request_is_closed(url: str, clock: Clock) -> None:
    """Without a word: nothing was asked."""
    with connected(url) as connection:
        assert given_up(connection, clock) == b""


@pytest.mark.parametrize(
    "head", [b"G", JSON_HEAD, b"GET /live HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 1000]
)
def test_half_a_head_is_given_up(url: str, clock: Clock, head: bytes) -> None:
    """It has its time, and then a 408."""
    with connected(url) as connection:
        send(connection, head)
        status, error = refusal(given_up(connection, clock))
    assert (status, error["code"]) == (408, "request_timeout")


def test_the_time_is_of_the_whole_head(url: str, clock: Clock) -> None:
    """However many bytes keep coming."""
    with connected(url) as connection:
        drip(connection, b"GET /live HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 5000, clock)


@pytest.mark.parametrize(
    "more", [b"Content-Length: 9\r\n\r\n{", b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n"]
)
def test_half_a_body_is_given_up(url: str, clock: Clock, more: bytes) -> None:
    """Announced or in chunks; the connection ends as well."""
    with connected(url) as connection:
        send(connection, JSON_HEAD + more)
        status, error = refusal(given_up(connection, clock))
    assert (status, error["code"], error["param"]) == (408, "request_timeout", None)
    assert "bytes of the body" in error["message"]


def test_the_time_is_of_the_whole_body(url: str, clock: Clock) -> None:
    """However many bytes keep coming."""
    with connected(url) as connection:
        send(connection, JSON_HEAD + b"Content-Length: 100000\r\n\r\n")
        drip(connection, b" " * 5000, clock)
        assert refusal(everything(connection))[0] == 408


def test_a_large_body_has_more_time(url: str, clock: Clock) -> None:
    """What keeps a decent pace is read to its end, though it takes longer than a short one may."""
    body, step = json.dumps({"prompt": "x", "user": "y" * 160_000}).encode(), 20_000
    with connected(url) as connection:
        began = clock.read()
        send(connection, JSON_HEAD + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body))
        for start in range(0, len(body), step):
            clock.let_pass(PATIENCE / 4)
            send(connection, body[start : start + step])
        assert clock.read() - began > PATIENCE
        assert everything(connection).startswith(b"HTTP/1.1 200 ")


def test_a_body_that_nobody_reads_does_not_keep_the_connection(url: str, clock: Clock) -> None:
    """The answer comes at once, and the rest of the body has its time."""
    with connected(url) as connection:
        send(connection, b"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n")
        assert connection.recv(65_536).startswith(b"HTTP/1.1 404 ")
        drip(connection, b" " * 5000, clock)


def test_connections_are_kept_between_requests(url: str, clock: Clock) -> None:
    """A client that asks again in time is not cut off; one that does not is."""
    request = b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with connected(url) as connection:
        for _ in range(5):
            connection.sendall(request)
            answer = b""
            while not answer.endswith(b'{"status":"ok"}'):
                answer += (piece := connection.recv(65_536))
                assert piece, answer
            assert answer.startswith(b"HTTP/1.1 200 ")
            clock.let_pass(PATIENCE / 4)
        assert given_up(connection, clock) == b""


def test_too_many_connections(url: str) -> None:
    """One more is told to come back; those that are open are served, and when one goes another may come."""
    with ExitStack() as stack:
        first, *_ = [stack.enter_context(connected(url)) for _ in range(MOST)]
        with connected(url) as refused:
            answer = everything(refused)
        status, error = refusal(answer)
        assert (status, error["code"]) == (503, "too_many_connections")
        assert b"retry-after: 1" in answer.lower()
        first.sendall(b"GET /live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert everything(first).startswith(b"HTTP/1.1 200 ")
    until(lambda: alive(url))


BODY = b'{"prompt": "x"}'
SECOND = b"GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.parametrize(
    "sent",
    [
        b"hello\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",  # TLS
        b"GET / HTTP/1.1\r\n\r\n",  # no host
        b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: y\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX : y\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: a\0b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 400_000 + b"\r\n\r\n",
        JSON_HEAD + b"Content-Length: 15\r\nContent-Length: 3\r\n\r\n" + BODY + SECOND,
        JSON_HEAD + b"Content-Length: -1\r\n\r\n" + BODY + SECOND,
        JSON_HEAD + b"Content-Length: +15\r\n\r\n" + BODY + SECOND,
        JSON_HEAD + b"Content-Length: 0x0f\r\n\r\n" + BODY + SECOND,
        JSON_HEAD + b"Content-Length: 15, 3\r\n\r\n" + BODY + SECOND,
        JSON_HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" + SECOND,
        JSON_HEAD + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + SECOND,
        JSON_HEAD + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" + SECOND,
        JSON_HEAD + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + SECOND,
        JSON_HEAD + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffffffff\r\n" + BODY + SECOND,
        JSON_HEAD + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n" + BODY + SECOND,
        JSON_HEAD + b"Transfer-Encoding: chunked\r\n\r\n0x0f\r\n" + BODY + b"\r\n0\r\n\r\n" + SECOND,
        JSON_HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n" + BODY + b"\r\n0\r\n\r\n" + SECOND,
    ],
    ids=lambda sent: repr(sent[-60:])[:40],
)
def test_what_is_no_http_is_refused_whole(url: str, sent: bytes) -> None:
    """One answer in the envelope, and the connection ends: what follows is not taken for a request."""
    with connected(url) as connection:
        connection.sendall(sent)
        status, error = refusal(everything(connection))
    assert (status, error["code"]) == (400, "invalid_http")
    assert alive(url)


def test_a_length_beside_chunks_is_refused(url: str) -> None:
    """By either of them, what follows would be another request: it is not taken for one."""
    body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
    head = JSON_HEAD + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"
    with connected(url) as connection:
        connection.sendall(head + body + SECOND)
        status, error = refusal(everything(connection))
    assert (status, error["code"]) == (400, "invalid_http")


def test_a_body_of_crumbs_is_refused(url: str) -> None:
    """A chunk costs as much work as a packet does, and thousands of them are read at once."""
    head = JSON_HEAD + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    with connected(url) as connection:
        connection.sendall(head + b"1\r\n \r\n" * 20_000 + b"0\r\n\r\n")
        status, error = refusal(everything(connection))
    assert (status, error["code"]) == (400, "invalid_http")
    with connected(url) as connection:
        text = json.dumps({"prompt": "x", "user": "y" * 200_000}).encode()
        chunks = [text[start : start + 100] for start in range(0, len(text), 100)]
        connection.sendall(head + b"".join(b"%x\r\n%s\r\n" % (len(each), each) for each in [*chunks, b""]))
        assert everything(connection).startswith(b"HTTP/1.1 200 ")


class NoRoom(http.BoundedProtocol):
    """A connection of a system that takes next to nothing of an answer."""

    lost = threading.Event()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.lost.set()


@pytest.mark.parametrize("last", [b"close", b"keep-alive"])
@pytest.mark.parametrize("size", [60_000, 600_000], ids=["waits to be closed", "is being sent"])
def test_who_takes_nothing_of_an_answer_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, last: bytes
) -> None:
    """Whether the application still sends it, or only the last of it waits for the client."""
    monkeypatch.setattr(http, "STALL_S", PATIENCE)
    monkeypatch.setattr(http, "BoundedProtocol", NoRoom)
    NoRoom.lost.clear()
    app = make_app(tmp_path, server={"read_timeout_s": PATIENCE})
    app.add_api_route("/large", lambda: PlainTextResponse("x" * size))
    with listening(app) as address, socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        host, port = address.removeprefix("http://").split(":")
        connection.connect((host, int(port)))
        connection.sendall(b"GET /large HTTP/1.1\r\nHost: localhost\r\nConnection: %s\r\n\r\n" % last)
        assert NoRoom.lost.wait(END_S), "it is still connected"
