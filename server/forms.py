"""Parts of a form as the object that JSON would have been: `a[b]` nests, `k[]` lists, `k[][x]` lists objects.

The official clients spell a list of objects in two orders: Python sends all of the first key, then all of
the next; Node sends element by element. A value goes to the first element that has no such key yet, which
reads both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from server.errors import BadField, DuplicateField
from server.multipart import Part
from server.values import Fields, Value

MAX_DEPTH = 8

_NAME = re.compile(r"([^\[\]]+)((?:\[[^\[\]]*\])+)")
_KEY = re.compile(r"\[([^\[\]]*)\]")

Node = dict[str, Value] | list[Value]


def read_form(parts: Iterable[Part]) -> Fields:
    """The fields of a form.

    Raises:
        DuplicateField: a name that is given twice.
        BadField: a name that makes a field both a value and an object, or nests too deeply.
    """
    fields: dict[str, Value] = {}
    bracketed: dict[str, str] = {}
    for part in parts:
        path = _path(part.name)
        if len(path) > 1:
            bracketed.setdefault(path[0], part.name)
        _put(fields, path, part)
    return Fields(fields, bracketed)


def _path(name: str) -> list[str]:
    """The keys that a name walks through; the empty key is "the next element"."""
    match = _NAME.fullmatch(name)
    if match is None:
        return [name]
    path = [match[1], *_KEY.findall(match[2])]
    if len(path) > MAX_DEPTH:
        raise BadField(name, f"nested more than {MAX_DEPTH} deep")
    return path


def _put(node: Node, path: list[str], part: Part) -> None:
    key, rest = path[0], path[1:]
    if isinstance(node, list):
        _put_in_list(node, path, part)
    elif not rest:
        if key in node:
            raise DuplicateField(part.name, "is given twice")
        node[key] = part.content
    else:
        _put(_child(node, key, rest[0], part), rest, part)


def _put_in_list(node: list[Value], path: list[str], part: Part) -> None:
    """Here `path[0]` is the empty key."""
    rest = path[1:]
    if not rest:
        node.append(part.content)
        return
    taker = next((item for item in node if _takes(item, rest)), None)
    if taker is None:
        taker = [] if rest[0] == "" else {}
        node.append(taker)
    assert isinstance(taker, dict | list)  # what `_takes` accepts
    _put(taker, rest, part)


def _child(node: dict[str, Value], key: str, next_key: str, part: Part) -> Node:
    child = node.setdefault(key, [] if next_key == "" else {})
    if not isinstance(child, list if next_key == "" else dict):
        raise BadField(part.name, f"contradicts another field of this form that is named {key}")
    return child


def _takes(item: Value, path: list[str]) -> bool:
    """Whether a value can be put at `path` below `item` without touching another."""
    if path[0] == "":
        return isinstance(item, list)
    if not isinstance(item, dict):
        return False
    if path[0] not in item:
        return True
    return len(path) > 1 and _takes(item[path[0]], path[1:])
