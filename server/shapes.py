"""How large a picture or film is that a fork of ours has written: said by the fork, read by the server."""

from __future__ import annotations

import re
from dataclasses import dataclass

_WORDS = re.compile(r"([1-9]\d{0,5}) ([1-9]\d{0,5}) (\d{1,6}\.\d{3})")


@dataclass(frozen=True, slots=True)
class Shape:
    """Width and height in pixels; of a film also how long it lasts, in seconds."""

    width: int
    height: int
    seconds: float = 0.0

    def __str__(self) -> str:
        return f"{self.width} {self.height} {self.seconds:.3f}"

    @classmethod
    def parse(cls, words: str) -> Shape:
        """What `str` gave. A fork has read what a client sent, so that nothing is taken on trust.

        Raises:
            OSError: it is something else.
        """
        found = _WORDS.fullmatch(words)
        if found is None:
            raise OSError("the decoder of references does not say how large its result is")
        width, height, seconds = found.groups()
        return cls(int(width), int(height), float(seconds))
