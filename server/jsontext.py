"""Strict JSON: one meaning, every digit kept, no way to make a small text into a large heap."""

from __future__ import annotations

import json
from collections import Counter
from typing import NoReturn

from server.counting import more_than
from server.echo import shown
from server.errors import DuplicateField
from server.values import Number, Value

MAX_VALUES = 100_000
"""Commas, braces and brackets in a text. A request has dozens, however large its pictures and prompts."""


class BadJson(ValueError):
    """A text that is not the JSON that is accepted; the message says why and where."""


def read_json(text: str) -> Value:
    """The value of a JSON text, numbers as `Number`.

    Raises:
        BadJson: a syntax error, NaN or Infinity, too many or too deeply nested values.
        DuplicateField: an object with the same key twice.
    """
    if more_than(MAX_VALUES, ",[{", text):
        raise BadJson(f"more than {MAX_VALUES:,} values")
    try:
        value: Value = json.loads(
            text,
            parse_float=Number,
            parse_int=Number,
            parse_constant=_refuse_constant,
            object_pairs_hook=_unique,
        )
    except json.JSONDecodeError as error:
        raise BadJson(f"{error.msg} at line {error.lineno} column {error.colno}") from None
    except RecursionError:
        raise BadJson("nested too deeply") from None
    return value


def read_json_object(body: bytes) -> dict[str, Value]:
    """The fields of a JSON body in UTF-8, with or without a byte order mark.

    Raises:
        BadJson, DuplicateField: as `read_json`; also for anything but an object.
    """
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadJson(f"byte {error.start} is not UTF-8") from None
    value = read_json(text)
    if not isinstance(value, dict):
        raise BadJson(f"the top level must be an object, not {shown(value)}")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise BadJson(f"{name} is not a JSON number")


def _unique(pairs: list[tuple[str, Value]]) -> dict[str, Value]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise DuplicateField(Counter(key for key, _ in pairs).most_common(1)[0][0], "is given twice")
    return fields
