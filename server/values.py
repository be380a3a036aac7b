"""A request's values as they were sent, before they mean anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from server.spool import Upload


class Number(str):
    """A number of a JSON text, kept as its characters so that no digit is lost."""

    __slots__ = ()


Value: TypeAlias = "str | Number | Upload | bool | list[Value] | dict[str, Value] | None"
"""Text, number, file, truth value, list, object or null. Forms know text, files and what brackets build."""


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of one body, each once, in the order in which they came."""

    values: Mapping[str, Value]
    bracketed: Mapping[str, str] = field(default_factory=dict)
    """Those that a form spelt with brackets, where JSON nests, and their first spelling: `a` as `a[b]`."""


@dataclass(frozen=True, slots=True)
class Sent:
    """One field as the client sent it: `key` within its object, `name` from the top."""

    key: str
    name: str
    value: Value
    bracketed: str | None = None
    """Its first spelling with brackets, if it has any."""

    @property
    def spelling(self) -> str:
        """The name by which the client would know it again."""
        return self.name if self.bracketed is None else self.bracketed

    def name_of(self, key: str) -> str:
        """How the client would name `key` within this object."""
        return f"{self.name}.{key}" if self.bracketed is None else f"{self.name}[{key}]"

    def item(self, index: str, value: Value) -> Sent:
        """The element `index` of this list, by the number that the client gave it."""
        name = f"{self.name}[{index}]"
        return Sent(index, name, value, None if self.bracketed is None else name)

    def child(self, key: str, value: Value) -> Sent:
        """The field `key` of this object."""
        name = self.name_of(key)
        return Sent(key, name, value, None if self.bracketed is None else name)
