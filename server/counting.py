"""Counting in long texts, without holding up whatever else the process does."""

from __future__ import annotations

STEP = 2**18


def more_than(limit: int, characters: str, text: str) -> bool:
    """Whether the text has more than `limit` of these characters.

    Piece by piece: to count in one go through 60 MB of brackets keeps the interpreter for half a second.
    """
    found = 0
    for start in range(0, len(text), STEP):
        found += sum(map(text[start : start + STEP].count, characters))
        if found > limit:
            return True
    return False
