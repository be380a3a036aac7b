"""A multipart body as its parts: names, text and files, judged by nothing but their headers."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from python_multipart import MultipartParser
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header

from server.errors import BadField, BadRequest, FieldTooLarge
from server.settings import ServerSettings

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks

_MEDIA = (b"image/", b"video/", b"audio/")
_PLAIN = (b"binary", b"8bit", b"7bit")
_QUOTED = re.compile(rb'"(?:[^"\\]|\\.)*"')
_EXTENDED_FILENAME = re.compile(rb";\s*filename\*\s*=", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a form. `content` is text, or a file's bytes."""

    name: str
    content: str | bytes


@dataclass(slots=True)
class _Collector:
    """The parser's callbacks: raw headers and bytes in, parts out."""

    limits: ServerSettings
    parts: list[Part] = field(default_factory=list)
    begun: int = 0
    complete: bool = False
    _header: bytearray = field(default_factory=bytearray)
    _value: bytearray = field(default_factory=bytearray)
    _headers: dict[bytes, bytes] = field(default_factory=dict)
    _data: bytearray = field(default_factory=bytearray)

    def on_part_begin(self) -> None:
        self.begun += 1
        if self.begun > self.limits.max_form_parts:
            raise _too_many(self.limits)
        self._headers, self._data = {}, bytearray()

    def on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def on_header_end(self) -> None:
        self._headers[bytes(self._header.lower())] = bytes(self._value)
        self._header.clear()
        self._value.clear()

    def on_part_data(self, data: bytes, start: int, end: int) -> None:
        self._data += data[start:end]

    def on_part_end(self) -> None:
        part = _part(self._headers, self._data, self.limits.max_text_bytes)
        if part is not None:
            self.parts.append(part)

    def on_end(self) -> None:
        self.complete = True

    def callbacks(self) -> MultipartCallbacks:
        """As the parser takes them."""
        return {
            "on_part_begin": self.on_part_begin,
            "on_part_data": self.on_part_data,
            "on_part_end": self.on_part_end,
            "on_header_field": self.on_header_field,
            "on_header_value": self.on_header_value,
            "on_header_end": self.on_header_end,
            "on_end": self.on_end,
        }


def read_multipart(body: bytes, boundary: bytes, limits: ServerSettings) -> list[Part]:
    """The parts of a whole form, in order. A browser's empty file input is left out.

    Raises:
        BadRequest: malformed, cut off, or more than `max_form_parts` parts.
        BadField: a part that is not UTF-8 where it is text, or encoded.
        FieldTooLarge: a text part of more than `max_text_bytes`.
    """
    # Each near miss of a delimiter costs the parser as much as a part does.
    if body.count(b"\r\n--" + boundary) > limits.max_form_parts + 1:
        raise _too_many(limits)
    collector = _Collector(limits)
    try:
        parser = MultipartParser(boundary, collector.callbacks())
        parser.write(body)
    except FormParserError as error:
        raise BadRequest(f"the multipart form is malformed: {error}") from None
    if not collector.complete:
        raise BadRequest("the multipart form is cut off: its closing boundary is missing")
    return collector.parts


def _part(headers: dict[bytes, bytes], data: bytearray, max_text_bytes: int) -> Part | None:
    options = _disposition(headers.get(b"content-disposition", b""))
    name = _name(options)
    if headers.get(b"content-transfer-encoding", b"binary").strip().lower() not in _PLAIN:
        raise BadField(name, "Content-Transfer-Encoding is not supported; send the bytes as they are")
    if _is_file(headers, options):
        return None if not data and not options.get(b"filename") else Part(name, bytes(data))
    if len(data) > max_text_bytes:
        raise FieldTooLarge(name, f"text is limited to {max_text_bytes:,} bytes")
    return Part(name, _text(name, data))


def _too_many(limits: ServerSettings) -> BadRequest:
    return BadRequest(f"the form has more than {limits.max_form_parts} parts")


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


def _text(name: str, data: bytearray) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise BadField(name, f"byte {error.start} is not UTF-8; a file needs a filename") from None
