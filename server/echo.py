"""How a client's values appear in messages: short, printable, and never a reason to fail themselves."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from server.spool import Upload
from server.values import Number

MAX_SHOWN = 80
"""Characters of a value that a message repeats."""


def clean(text: str, limit: int = MAX_SHOWN) -> str:
    """`text` cut to `limit` characters, with control characters and lone surrogates as escapes."""
    cut = "".join(letter if letter.isprintable() else _escape(letter) for letter in text[:limit])
    return cut if len(text) <= limit else f"{cut}… ({len(text):,} characters)"


def shown(value: Any) -> str:
    """A value as a message shows it: text in quotes, numbers as sent, anything large by its kind."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, str):
        return clean(value) if isinstance(value, Number) else f'"{clean(value)}"'
    if isinstance(value, int):
        return str(value) if value.bit_length() <= 256 else f"an integer of {value.bit_length():,} bits"
    if isinstance(value, Upload):
        return f"a file of {value.size:,} bytes"
    if isinstance(value, Mapping):
        return "an object"
    return "a list" if isinstance(value, Sequence) else clean(str(value))


def _escape(letter: str) -> str:
    return letter.encode("unicode_escape").decode("ascii")
