"""Counting what clients send, so that none of it holds up whatever else the process does."""

from __future__ import annotations

STEP = 2**18
FREE_PIECES = 1024
PIECE_BYTES = 64
"""What the pieces of a body must have on average beyond the first `FREE_PIECES`: each costs the same work."""


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


def crumbled(pieces: int, size: int) -> bool:
    """Whether a body of `size` bytes comes in so many pieces that they hold up everybody else."""
    return pieces > FREE_PIECES + size // PIECE_BYTES
