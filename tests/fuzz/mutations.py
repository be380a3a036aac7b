"""Damage, as networks, bad programs and bad people do it: the same seed does the same."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence
from functools import cache
from random import Random

from PIL import Image

from tests.server.pictures import encoded, split, turned
from tests.server.profiles import inks, wide_gamut

PNG_HEAD = b"\x89PNG\r\n\x1a\n"
EXTREMES = (0, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)


@cache
def good_pictures() -> tuple[bytes, ...]:
    """Small pictures of every format that is taken, with what they can have beside their pixels."""
    colours, frames = split(), [split(), Image.new("RGB", (64, 32), (9, 99, 9))]
    grey16 = Image.new("I;16", (20, 10), 40_000)
    clear = colours.copy()
    clear.putalpha(99)
    return (
        encoded(colours, "PNG"),
        encoded(clear, "PNG"),
        encoded(grey16, "PNG"),
        encoded(colours.convert("P"), "PNG", transparency=1),
        encoded(colours, "PNG", icc_profile=wide_gamut()),
        encoded(colours, "PNG", save_all=True, append_images=frames),
        turned("PNG"),
        encoded(colours, "JPEG", quality=90),
        encoded(colours, "JPEG", progressive=True, icc_profile=wide_gamut()),
        encoded(colours.convert("CMYK"), "JPEG", icc_profile=inks()),
        turned("JPEG"),
        encoded(colours, "MPO", save_all=True, append_images=frames),
        encoded(colours, "WEBP"),
        encoded(clear, "WEBP", lossless=True),
        encoded(colours, "WEBP", save_all=True, append_images=frames, duration=100),
        turned("WEBP"),
        encoded(colours, "GIF"),
        encoded(colours, "GIF", save_all=True, append_images=frames, duration=100),
        encoded(colours, "AVIF"),
        turned("AVIF"),
    )


def _flip(data: bytearray, draw: Random) -> None:
    for _ in range(draw.choice((1, 1, 2, 8, 64))):
        data[draw.randrange(len(data))] = draw.randrange(256)


def _number(data: bytearray, draw: Random) -> None:
    """A length, a size or an offset with a value that nobody thought of."""
    kind = draw.choice((">B", ">H", "<H", ">I", "<I"))
    size = struct.calcsize(kind)
    place = draw.randrange(max(1, len(data) - size))
    value = draw.choice(EXTREMES) % 256**size
    data[place : place + size] = struct.pack(kind, value)


def _cut(data: bytearray, draw: Random) -> None:
    del data[draw.randrange(len(data)) :]


def _remove(data: bytearray, draw: Random) -> None:
    start = draw.randrange(len(data))
    del data[start : start + draw.choice((1, 4, 100))]


def _repeat(data: bytearray, draw: Random) -> None:
    start, length = draw.randrange(len(data)), draw.choice((1, 4, 100, 1000))
    data[start:start] = data[start : start + length] * draw.choice((1, 2, 50))


def _insert(data: bytearray, draw: Random) -> None:
    place = draw.randrange(len(data))
    data[place:place] = draw.randbytes(draw.choice((1, 3, 200)))


def _swap(data: bytearray, draw: Random) -> None:
    """Two pieces of it in each other's place."""
    a, b, c = sorted(draw.randrange(len(data) + 1) for _ in range(3))
    data[a:c] = data[b:c] + data[a:b]


DAMAGES: Sequence[Callable[[bytearray, Random], None]] = (
    *(_flip, _flip, _number, _number),
    *(_cut, _remove, _repeat, _insert, _swap),
)


def damaged(data: bytes, draw: Random) -> bytes:
    """`data` with one to three damages."""
    changed = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 3))):
        if changed:
            draw.choice(DAMAGES)(changed, draw)
    return bytes(changed)


def damaged_picture(draw: Random) -> bytes:
    """A picture that is wrong somewhere; a PNG often in what its checksums would have told."""
    good = draw.choice(good_pictures())
    if draw.random() < 0.1:
        other = draw.choice(good_pictures())
        return good[: draw.randrange(len(good))] + other[draw.randrange(len(other)) :]
    if good.startswith(PNG_HEAD) and draw.random() < 0.7:
        return _within_chunks(good, draw)
    return damaged(good, draw)


def _within_chunks(png: bytes, draw: Random) -> bytes:
    chunks = []
    place = len(PNG_HEAD)
    while place < len(png):
        (length,) = struct.unpack_from(">I", png, place)
        chunks.append((png[place + 4 : place + 8], png[place + 8 : place + 8 + length]))
        place += 12 + length
    chosen = draw.randrange(len(chunks))
    kind, data = chunks[chosen]
    chunks[chosen] = (kind, _deep(kind, data, draw) if data else draw.randbytes(3))
    if draw.random() < 0.2:
        draw.shuffle(chunks)
    if draw.random() < 0.2:
        chunks.append(draw.choice(chunks))
    return PNG_HEAD + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )


def _deep(kind: bytes, data: bytes, draw: Random) -> bytes:
    """Below the compression, where there is one."""
    if kind == b"IDAT" and draw.random() < 0.7:
        try:
            return zlib.compress(damaged(zlib.decompress(data), draw))
        except zlib.error:
            return data
    return damaged(data, draw)
