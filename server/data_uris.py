"""`data:` URIs: files that are written as text."""

from __future__ import annotations

import base64
import binascii
from urllib.parse import unquote_to_bytes

from server.counting import more_than
from server.echo import shown

SCHEME = "data:"
MAX_ESCAPES = 200_000
"""Each costs the memory of an object until all are read: a fifth of a second, and a few megabytes."""


class BadDataUri(ValueError):
    """A text that is not the URI that it claims to be; the message says why."""


def is_data_uri(text: str) -> bool:
    """Whether it claims to be one."""
    return text[: len(SCHEME)].lower() == SCHEME


def read_data_uri(uri: str) -> bytes:
    """The bytes of `data:[type][;base64],…`; the type is not believed, the bytes are judged later.

    Raises:
        BadDataUri: no comma, too many `%`, or not base64 where it says so.
    """
    head, comma, payload = uri.partition(",")
    if not comma:
        raise BadDataUri(f"{shown(uri)} is not a data: URI; it must have a comma before the data")
    if more_than(MAX_ESCAPES, "%", payload):
        raise BadDataUri(f"the data: URI has more than {MAX_ESCAPES:,} escapes; write it as ;base64")
    raw = unquote_to_bytes(payload)
    return _from_base64(raw) if head.rstrip().lower().endswith(";base64") else raw


def _from_base64(raw: bytes) -> bytes:
    """Either alphabet, line breaks and missing padding allowed."""
    plain = raw.translate(bytes.maketrans(b"-_", b"+/"), b" \t\r\n")
    try:
        return base64.b64decode(plain + b"=" * (-len(plain) % 4), validate=True)
    except binascii.Error as error:
        raise BadDataUri(f"the data: URI is not base64: {error}") from None
