"""A file as an answer: whole or in parts, and not at all where the client has it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from secrets import token_hex

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from server.conditions import Validators
from server.errors import FileMissing
from server.ranges import parse_ranges

CHUNK_BYTES = 256 * 1024
CACHING = "private, no-cache"
"""A browser may keep it, and asks each time whether it is still there: a deleted video is gone everywhere."""

Piece = bytes | range
"""Bytes of an answer: given, or the offsets of the file where they lie."""


@dataclass(frozen=True, slots=True)
class Download:
    """A finished file, which never changes under its name, and how it is called outside."""

    path: Path
    tag: str
    """Its own among all files of this server, also over restarts; the size is added to it."""
    modified: int
    """Unix seconds."""
    media_type: str
    filename: str


async def send(download: Download, request: Request, headers: Mapping[str, str]) -> Response:
    """The answer to a request for a file, which is open from here on: a deletion does not cut it short.

    Raises:
        FileMissing: it is not there (any more).
        RangeNotSatisfiable: what the client asks for lies beyond it.
    """
    file = await to_thread.run_sync(_open, download.path)
    try:
        response = _answer(file, download, request, headers)
    except BaseException:
        file.close()
        raise
    if not isinstance(response, FileResponse):
        file.close()
    return response


class FileResponse(StreamingResponse):
    """Sends pieces of an open file, and closes it however the answer ends."""

    def __init__(
        self, file: FileIO, pieces: Sequence[Piece], status: int, headers: Mapping[str, str]
    ) -> None:
        super().__init__(_chunks(file, pieces), status, headers)
        self._file = file

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._file:
            await super().__call__(scope, receive, send)


def _answer(file: FileIO, download: Download, request: Request, headers: Mapping[str, str]) -> Response:
    size = os.fstat(file.fileno()).st_size
    validators = Validators(f"{download.tag}-{size}", download.modified)
    common = {**headers, **validators.headers, "Cache-Control": CACHING}
    asks = request.method in ("GET", "HEAD")  # an answer to POST depends on no condition
    if asks and validators.unchanged(request.headers):
        return Response(status_code=304, headers=common)
    wanted = request.headers.get("range") if asks and validators.allow_range(request.headers) else None
    pieces, own = _pieces(parse_ranges(wanted, size), size, download.media_type)
    told = {
        **common,
        "Content-Type": download.media_type,
        "Content-Disposition": f'attachment; filename="{download.filename}"',
        "Accept-Ranges": "bytes",
        **own,
        "Content-Length": str(sum(map(len, pieces))),
    }
    status = 206 if own else 200
    if request.method == "HEAD":
        return Response(status_code=status, headers=told)
    return FileResponse(file, pieces, status, told)


def _pieces(parts: list[range], size: int, media_type: str) -> tuple[Sequence[Piece], dict[str, str]]:
    """What the body consists of, and the headers that say so where it is not the whole file."""
    match parts:
        case []:
            return [range(size)], {}
        case [part]:
            return [part], {"Content-Range": _content_range(part, size)}
        case _:
            return _multipart(parts, size, media_type)


def _multipart(parts: list[range], size: int, media_type: str) -> tuple[Sequence[Piece], dict[str, str]]:
    boundary = token_hex(16)
    pieces: list[Piece] = []
    for part in parts:
        head = f"\r\n--{boundary}\r\nContent-Type: {media_type}\r\n"
        pieces += [f"{head}Content-Range: {_content_range(part, size)}\r\n\r\n".encode(), part]
    pieces.append(f"\r\n--{boundary}--\r\n".encode())
    return pieces, {"Content-Type": f"multipart/byteranges; boundary={boundary}"}


def _content_range(part: range, size: int) -> str:
    return f"bytes {part.start}-{part.stop - 1}/{size}"


def _open(path: Path) -> FileIO:
    try:
        return path.open("rb", buffering=0)
    except FileNotFoundError:
        raise FileMissing(f"the file of video {path.parent.name} is not there any more") from None


async def _chunks(file: FileIO, pieces: Sequence[Piece]) -> AsyncIterator[bytes]:
    for piece in pieces:
        if isinstance(piece, bytes):
            yield piece
            continue
        for offset in piece[::CHUNK_BYTES]:
            length = min(CHUNK_BYTES, piece.stop - offset)
            yield await to_thread.run_sync(os.pread, file.fileno(), length, offset)
