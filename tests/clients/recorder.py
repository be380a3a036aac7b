"""A door in front of a server that lets every request through and keeps what was sent."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpx
import uvicorn
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

_OF_THE_CONNECTION = ("connection", "content-length", "host", "keep-alive", "transfer-encoding")
_ANSWER_SECONDS = 240


@dataclass(frozen=True, slots=True)
class Recorded:
    """A request as its client sent it. The names of its headers are in lower case."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(slots=True)
class Door:
    """An ASGI application that passes requests on to the server at `upstream`."""

    upstream: str
    requests: list[Recorded] = field(default_factory=list)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        recorded = await _recorded(request)
        self.requests.append(recorded)
        response = await self._answer(recorded)
        await response(scope, receive, send)

    async def _answer(self, request: Recorded) -> Response:
        async with httpx.AsyncClient(base_url=self.upstream, timeout=_ANSWER_SECONDS) as client:
            answer = await client.request(
                request.method, request.target, headers=_passed_on(request.headers), content=request.body
            )
        return Response(answer.content, answer.status_code, _passed_on(answer.headers))


async def _recorded(request: Request) -> Recorded:
    query = f"?{request.url.query}" if request.url.query else ""
    body = await request.body()
    return Recorded(request.method, f"{request.url.path}{query}", dict(request.headers), body)


def _passed_on(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _OF_THE_CONNECTION}


@contextmanager
def recorded(upstream: str) -> Iterator[tuple[str, list[Recorded]]]:
    """The address of a door to `upstream`, and what has gone through it; closed at the end of the block."""
    door = Door(upstream)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(door, lifespan="off", log_level="error"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}", door.requests
        finally:
            server.should_exit = True
            thread.join()
