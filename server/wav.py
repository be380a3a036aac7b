"""How long a sound is that `server.media_child` has written."""

from __future__ import annotations

import struct
from fractions import Fraction
from pathlib import Path
from typing import BinaryIO

UNTOLD = 0xFFFFFFFF
"""A size that the writer did not know yet."""


def seconds_of(path: Path) -> Fraction:
    """The length of a WAV file, from its header and its size.

    Raises:
        ValueError: it is none.
    """
    with path.open("rb") as file:
        bytes_per_second = 0
        file.seek(12)  # RIFF, its size, WAVE
        while True:
            name, size = _chunk(file)
            start = file.tell()
            if name == b"fmt ":
                (bytes_per_second,) = struct.unpack("<I", file.read(12)[8:])
            if name == b"data" and bytes_per_second:
                there = path.stat().st_size - start
                return Fraction(there if size == UNTOLD else min(size, there), bytes_per_second)
            file.seek(start + size + size % 2)


def _chunk(file: BinaryIO) -> tuple[bytes, int]:
    head = file.read(8)
    if len(head) < 8:
        raise ValueError("a WAV file has a format and data")
    name, size = struct.unpack("<4sI", head)
    return name, size
