"""The bytes of a request and what they claim to be."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Literal

from anyio import to_thread
from python_multipart.multipart import parse_options_header
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request

from server.echo import shown
from server.errors import BadRequest, BodyTooLarge, RequestTimeout, UnsupportedMediaType

ACCEPTED = "send application/json or multipart/form-data"
PIECE = 2**18
"""Bytes of a large body that are taken at a time."""

RATE = 2**15
"""Bytes of a body that a client must send in a second, once `read_timeout_s` is over."""

_JSON = re.compile(r"application/([\w.-]+\+)?json|text/json", re.ASCII)
_UTF8 = ("", "utf-8", "utf8", "us-ascii", "ascii")


@dataclass(frozen=True, slots=True)
class BodyType:
    """What `Content-Type` says. `boundary` separates the parts of a form."""

    kind: Literal["json", "form"]
    boundary: bytes = b""


def body_type(headers: Headers) -> BodyType:
    """How the body has to be read.

    Raises:
        UnsupportedMediaType: neither JSON nor a multipart form, not UTF-8, or compressed.
        BadRequest: a form without a boundary.
    """
    if headers.get("content-encoding", "identity").strip().lower() != "identity":
        coding = shown(headers["content-encoding"])
        raise UnsupportedMediaType(f"Content-Encoding: {coding} is not supported; send the body uncompressed")
    given = headers.get("content-type", "")
    name, options = parse_options_header(given)
    if _JSON.fullmatch(name.decode("latin-1")) is not None:
        _refuse_charset(options)
        return BodyType("json")
    if name != b"multipart/form-data":
        raise UnsupportedMediaType(f"Content-Type: {shown(given)} is not supported; {ACCEPTED}")
    _refuse_charset(options)
    if not options.get(b"boundary"):
        raise BadRequest("Content-Type: multipart/form-data needs a boundary")
    return BodyType("form", options[b"boundary"])


async def receive(
    request: Request, max_bytes: int, take: Callable[[bytes], None], timeout_s: float = math.inf
) -> int:
    """Hand the body to `take` in pieces; returns how many bytes there were, at most `max_bytes`.

    Whether or not its length was announced. A body of less than `PIECE` bytes is one piece, taken at once; of
    a larger one each piece is taken in a thread, so that the event loop goes on.

    Raises:
        BodyTooLarge: as soon as it is known.
        BadRequest: the client went away before the end.
        RequestTimeout: it was waited for longer than `timeout_s`, and a second for each `RATE` bytes.
    """
    announced = request.headers.get("content-length", "")
    if announced.isascii() and announced.isdigit() and _exceeds(announced, max_bytes):
        raise _too_large(max_bytes)
    received, piece = 0, bytearray()
    try:
        async for chunk in _patiently(request.stream(), timeout_s):
            received += len(chunk)
            if received > max_bytes:
                raise _too_large(max_bytes)
            piece += chunk
            if len(piece) >= PIECE:
                await to_thread.run_sync(take, bytes(piece))
                piece = bytearray()
    except ClientDisconnect:
        raise BadRequest("the connection was closed before the body was complete") from None
    if received < PIECE:
        take(bytes(piece))
    else:
        await to_thread.run_sync(take, bytes(piece))
    return received


async def _patiently(chunks: AsyncIterator[bytes], timeout_s: float) -> AsyncIterator[bytes]:
    """The chunks, unless they come too slowly. What is done with them takes no time from the client."""
    loop = asyncio.get_running_loop()
    received, waited = 0, 0.0
    while True:
        began, left = loop.time(), timeout_s + received / RATE - waited
        try:
            async with asyncio.timeout(left if left < math.inf else None):
                chunk = await anext(chunks, None)
        except TimeoutError:
            raise RequestTimeout(
                f"only {received:,} bytes of the body came in {waited + left:.0f} s"
            ) from None
        if chunk is None:
            return
        received, waited = received + len(chunk), waited + loop.time() - began
        yield chunk


def _exceeds(digits: str, bound: int) -> bool:
    return len(digits) > 20 or int(digits) > bound


def _too_large(max_bytes: int) -> BodyTooLarge:
    return BodyTooLarge(f"the body is larger than this server's limit of {max_bytes:,} bytes")


def _refuse_charset(options: dict[bytes, bytes]) -> None:
    charset = options.get(b"charset", b"").decode("latin-1")
    if charset.lower() not in _UTF8:
        raise UnsupportedMediaType(f"charset: {shown(charset)} is not supported; send UTF-8")
