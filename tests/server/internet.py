"""A small internet for tests: names, public addresses, and behind all of them one real server."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from server.errors import BadUrl
from server.remote import RemoteFiles
from server.sections import UrlSettings
from server.spool import Spool
from tests.server.pictures import SPOOLS

Page = bytes | Callable[[asyncio.StreamWriter], Awaitable[None]]

HERE, THERE = "8.8.8.8", "2606:4700:4700::1111"
"""Addresses that are public; nothing is ever sent to them."""


def ok(body: bytes, *headers: str) -> bytes:
    """An answer of known length."""
    head = "\r\n".join(("HTTP/1.1 200 OK", f"Content-Length: {len(body)}", *headers))
    return head.encode() + b"\r\n\r\n" + body


def redirect(location: str, status: int = 302) -> bytes:
    return f"HTTP/1.1 {status} Elsewhere\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode()


class Internet:
    """What resolves to what, what answers what; and what was asked, dialled and sent."""

    def __init__(self) -> None:
        self.names: dict[str, list[str] | Callable[[], list[str]]] = {}
        self.pages: dict[str, Page] = {}
        """By path, or by host and path."""
        self.down: set[str] = set()
        """Addresses that take no connection."""
        self.asked: list[str] = []
        self.dialled: list[tuple[str, int]] = []
        self.requests: list[str] = []

    def getaddrinfo(self, host: str, port: int, *_: Any, **__: Any) -> list[Any]:
        """In place of the system's resolver."""
        self.asked.append(host)
        known = self.names.get(host, [])
        addresses = known() if callable(known) else known
        if not addresses:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        families = [socket.AF_INET6 if ":" in address else socket.AF_INET for address in addresses]
        return [
            (family, socket.SOCK_STREAM, 0, "", (address, port))
            for family, address in zip(families, addresses, strict=True)
        ]

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request, one answer, and the connection is closed."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.requests.append(head)
        path, host = head.split()[1], next(line for line in head.split("\r\n") if line.startswith("Host: "))
        page = self.pages.get(host.removeprefix("Host: ") + path) or self.pages[path]
        try:
            if isinstance(page, bytes):
                writer.write(page)
                await writer.drain()
            else:
                await page(writer)
        except ConnectionError:  # the other side had enough
            pass
        finally:
            writer.close()


@asynccontextmanager
async def connected(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Internet]:
    """An internet in place of the real one, as far as this process is concerned."""
    internet = Internet()
    server = await asyncio.start_server(internet.answer, "127.0.0.1", 0)
    real, port = anyio.connect_tcp, server.sockets[0].getsockname()[1]

    async def connect_tcp(remote_host: str, remote_port: int, **_: Any) -> Any:
        internet.dialled.append((remote_host, remote_port))
        if remote_host in internet.down:
            raise ConnectionRefusedError
        return await real("127.0.0.1", port)

    async with server:
        with monkeypatch.context() as patch:
            patch.setattr(socket, "getaddrinfo", internet.getaddrinfo)
            patch.setattr(anyio, "connect_tcp", connect_tcp)
            yield internet


async def fetch(url: str, **settings: Any) -> bytes:
    """What the URL gives, by a server with these settings."""
    remote = RemoteFiles(UrlSettings(**{"enabled": True, **settings}))
    with Spool(SPOOLS) as spool:
        return (await remote.fetch(url, "input_reference", spool)).read()


async def refused(url: str, **settings: Any) -> str:
    """Why nothing is fetched."""
    with pytest.raises(BadUrl) as caught:
        await fetch(url, **settings)
    assert caught.value.param == "input_reference"
    return caught.value.message
