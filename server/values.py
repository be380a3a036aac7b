"""A request's values as they were sent, before they mean anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias


class Number(str):
    """A number of a JSON text, kept as its characters so that no digit is lost."""

    __slots__ = ()


Value: TypeAlias = "str | Number | bytes | bool | list[Value] | dict[str, Value] | None"
"""Text, number, file, truth value, list, object or null. Forms know text, files and what brackets build."""


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of one body, each once, in the order in which they came."""

    values: Mapping[str, Value]
    bracketed: frozenset[str] = frozenset()
    """Those that a form spelt with brackets: `a[b]`, where JSON nests."""

    def name_of(self, field: str, key: str) -> str:
        """How the client would name `key` within the object `field`."""
        return f"{field}[{key}]" if field in self.bracketed else f"{field}.{key}"
