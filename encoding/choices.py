"""What a codec option may be. Imports neither torch nor av."""

from __future__ import annotations

import re
from dataclasses import dataclass

_DECIMAL = re.compile(r"[0-9]{1,10}(\.[0-9]{1,6})?")


@dataclass(frozen=True, slots=True)
class Choice:
    """An option that is one of some words."""

    ffmpeg: str
    """FFmpeg's name of it."""
    words: tuple[str, ...]

    @property
    def allowed(self) -> str:
        return f"one of {', '.join(self.words)}"

    def read(self, value: object) -> str | None:
        """The value for FFmpeg; None if it is not allowed."""
        return value if isinstance(value, str) and value in self.words else None


@dataclass(frozen=True, slots=True)
class Number:
    """An option that is a number, also as decimal text, from `low` to `high`."""

    ffmpeg: str
    low: int
    high: int
    whole: bool = True
    unit: str = ""

    @property
    def allowed(self) -> str:
        return f"{'a whole number' if self.whole else 'a number'} from {self.low} to {self.high}{self.unit}"

    def read(self, value: object) -> str | None:
        """The value for FFmpeg; None if it is not allowed."""
        number = _number(value)
        if number is None or not self.low <= number <= self.high:
            return None
        if number == int(number):
            return str(int(number))
        return None if self.whole else str(number)


def _number(value: object) -> float | None:
    if isinstance(value, str):
        return float(value) if _DECIMAL.fullmatch(value) else None
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
