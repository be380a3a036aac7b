"""The boxes that an MP4 is made of (ISO/IEC 14496-12)."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import BinaryIO


@dataclass(frozen=True, slots=True)
class Box:
    """Offsets of one box: its header, its contents, and what follows it."""

    kind: bytes
    start: int
    contents: int
    end: int


def boxes(file: BinaryIO, first: int = 0, end: int | None = None) -> Iterator[Box]:
    """Those side by side from `first` to `end` (None: of the file). Stops at one that is cut off."""
    end = file.seek(0, os.SEEK_END) if end is None else end
    while first + 8 <= end:
        file.seek(first)
        size, kind, contents = int.from_bytes(file.read(4), "big"), file.read(4), first + 8
        if size == 1:  # it has no room for it there
            size, contents = int.from_bytes(file.read(8), "big"), first + 16
        if size < contents - first or first + size > end:
            return
        yield Box(kind, first, contents, first + size)
        first += size


def find(file: BinaryIO, *path: bytes) -> Box | None:
    """The first box of the kind `path[0]`, in it the first of `path[1]` and so on; None if there is none."""
    first, end, found = 0, None, None
    for kind in path:
        found = next((box for box in boxes(file, first, end) if box.kind == kind), None)
        if found is None:
            return None
        first, end = found.contents, found.end
    return found


def delays(file: BinaryIO) -> Iterator[int]:
    """How much later than it is decoded each picture of the first track is shown; none if all are at once."""
    table = find(file, b"moov", b"trak", b"mdia", b"minf", b"stbl", b"ctts")
    if table is None:
        return
    file.seek(table.contents + 4)  # behind version and flags
    entries = int.from_bytes(file.read(4), "big")
    room = max(0, table.end - table.contents - 8) // 8
    for count, delay in struct.iter_unpack(">Ii", file.read(8 * min(entries, room))):
        yield from repeat(delay, count)  # one by one: a damaged count must not fill the memory
