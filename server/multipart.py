"""A multipart body as its parts: names, text and files, judged by nothing but their headers."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from python_multipart import MultipartParser
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header

from server.errors import BadField, BadRequest, FieldTooLarge
from server.sections import ServerSettings
from server.spool import Spool, Upload

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks

# It warns of each malformed form, which is the client's business: it gets the answer, and no line of the log.
logging.getLogger("python_multipart").setLevel(logging.ERROR)

_MEDIA = (b"image/", b"video/", b"audio/")
_PLAIN = (b"binary", b"8bit", b"7bit")
_QUOTED = re.compile(rb'"(?:[^"\\]|\\.)*"')
_EXTENDED_FILENAME = re.compile(rb";\s*filename\*\s*=", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a form: text or a file."""

    name: str
    content: str | Upload


@dataclass(slots=True)
class _Piece:
    """A part as it arrives. Its bytes are what the spool holds from `start` on."""

    start: int
    name: str = ""
    is_file: bool = False
    filename: bytes = b""
    max_bytes: int = 0
    upload: Upload | None = None


class FormReader:
    """Reads a form as it arrives; what its parts hold goes to the spool."""

    def __init__(self, boundary: bytes, limits: ServerSettings, spool: Spool) -> None:
        """
        Raises:
            BadRequest: a boundary that is too long.
        """
        self._limits = limits
        self._spool = spool
        self._pieces: list[_Piece] = []
        self._complete = False
        self._field, self._value = bytearray(), bytearray()
        self._headers: dict[bytes, bytes] = {}
        self._delimiter, self._delimiters, self._tail = b"\r\n--" + boundary, 0, b""
        with _malformed():
            self._parser = MultipartParser(boundary, self._callbacks())

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the body.

        Raises:
            BadRequest: malformed, or more than `max_form_parts` parts.
            BadField: a part without a usable header.
            FieldTooLarge: a text of more than `max_text_bytes`, or a file of more than `max_file_bytes`.
            OSError: the spool cannot be written.
        """
        self._count_delimiters(data)
        with _malformed():
            self._parser.write(data)

    def parts(self) -> list[Part]:
        """The parts of the whole form, in order. A browser's empty file input is left out.

        Raises:
            BadRequest: the form is cut off.
            BadField: a text that is not UTF-8.
        """
        if not self._complete:
            raise BadRequest("the multipart form is cut off: its closing boundary is missing")
        return [part for piece in self._pieces if (part := _part(piece)) is not None]

    def _count_delimiters(self, data: bytes) -> None:
        # Each near miss of a delimiter costs the parser as much as a part does.
        seen = self._tail + data
        self._delimiters += seen.count(self._delimiter)
        self._tail = seen[len(seen) - len(self._delimiter) + 1 :]
        if self._delimiters > self._limits.max_form_parts + 1:
            raise self._too_many()

    def _callbacks(self) -> MultipartCallbacks:
        return {
            "on_part_begin": self._on_part_begin,
            "on_header_field": self._on_header_field,
            "on_header_value": self._on_header_value,
            "on_header_end": self._on_header_end,
            "on_headers_finished": self._on_headers_finished,
            "on_part_data": self._on_part_data,
            "on_part_end": self._on_part_end,
            "on_end": self._on_end,
        }

    def _on_part_begin(self) -> None:
        if len(self._pieces) == self._limits.max_form_parts:
            raise self._too_many()
        self._pieces.append(_Piece(self._spool.size))
        self._headers = {}

    def _on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._field += data[start:end]

    def _on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _on_header_end(self) -> None:
        self._headers[bytes(self._field.lower())] = bytes(self._value)
        self._field.clear()
        self._value.clear()

    def _on_headers_finished(self) -> None:
        piece, options = self._pieces[-1], _disposition(self._headers.get(b"content-disposition", b""))
        piece.name = _name(options)
        if self._headers.get(b"content-transfer-encoding", b"binary").strip().lower() not in _PLAIN:
            problem = "Content-Transfer-Encoding is not supported; send the bytes as they are"
            raise BadField(piece.name, problem)
        piece.is_file = _is_file(self._headers, options)
        piece.filename = options.get(b"filename", b"")
        piece.max_bytes = self._limits.max_file_bytes if piece.is_file else self._limits.max_text_bytes

    def _on_part_data(self, data: bytes, start: int, end: int) -> None:
        piece = self._pieces[-1]
        if self._spool.size - piece.start + end - start > piece.max_bytes:
            kind = "a file" if piece.is_file else "text"
            raise FieldTooLarge(piece.name, f"{kind} is limited to {piece.max_bytes:,} bytes")
        self._spool.write(memoryview(data)[start:end])

    def _on_part_end(self) -> None:
        piece = self._pieces[-1]
        piece.upload = self._spool.since(piece.start)

    def _on_end(self) -> None:
        self._complete = True

    def _too_many(self) -> BadRequest:
        return BadRequest(f"the form has more than {self._limits.max_form_parts} parts")


@contextmanager
def _malformed() -> Iterator[None]:
    try:
        yield
    except FormParserError as error:
        raise BadRequest(f"the multipart form is malformed: {error}") from None


def _part(piece: _Piece) -> Part | None:
    assert piece.upload is not None  # the form is complete, and so are its parts
    if piece.is_file:
        return Part(piece.name, piece.upload) if piece.upload.size or piece.filename else None
    return Part(piece.name, _text(piece.name, piece.upload.read()))


def _disposition(header: bytes) -> dict[bytes, bytes]:
    """The options of a Content-Disposition, among them `filename*`, which the library leaves out."""
    _, options = parse_options_header(header.decode("latin-1"))
    if _EXTENDED_FILENAME.search(_QUOTED.sub(b"", header)) is not None:
        options.setdefault(b"filename", b"upload")
    return options


def _name(options: dict[bytes, bytes]) -> str:
    try:
        return options[b"name"].decode()
    except KeyError:
        raise BadRequest("a part of the form has no name in its Content-Disposition") from None
    except UnicodeDecodeError:
        raise BadRequest("a part of the form has a name that is not UTF-8") from None


def _is_file(headers: dict[bytes, bytes], options: dict[bytes, bytes]) -> bool:
    """A part with a file name; some clients leave it out but say that they send a picture."""
    return b"filename" in options or headers.get(b"content-type", b"").lower().startswith(_MEDIA)


def _text(name: str, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise BadField(name, f"byte {error.start} is not UTF-8; a file needs a filename") from None
