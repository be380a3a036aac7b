"""Pictures as users really upload them, and what becomes of them."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path
from tempfile import gettempdir

import pytest
from PIL import Image

from server.errors import BadField
from server.reference_schemas import ImageReference
from server.references import References
from server.sections import ImageSettings, MediaSettings
from server.spool import Spool

RED, BLUE, BLACK = (255, 0, 0), (0, 0, 255), (0, 0, 0)
SPOOLS = Path(gettempdir())
UPRIGHT = 0x0112
"""The EXIF tag of the orientation."""


def split(width: int = 64, height: int = 32) -> Image.Image:
    """Left half red, right half blue: a lost rotation is visible."""
    picture = Image.new("RGB", (width, height), BLUE)
    picture.paste(RED, (0, 0, width // 2, height))
    return picture


def encoded(picture: Image.Image, kind: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, kind, **options)
    return buffer.getvalue()


def turned(kind: str, **options: object) -> bytes:
    """Lying on its side, with the note to turn it upright: then it is 32 x 64, red above."""
    exif = Image.Exif()
    exif[UPRIGHT] = 6
    return encoded(split(), kind, exif=exif, **options)


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(size: tuple[int, int], depth: int, colour: int, data: bytes, *extra: bytes) -> bytes:
    """A PNG by hand; `data` is compressed rows, each after a zero byte."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", *size, depth, colour, 0, 0, 0))
    return b"".join([b"\x89PNG\r\n\x1a\n", header, *extra, chunk(b"IDAT", data), chunk(b"IEND", b"")])


def levels(*values: int) -> bytes:
    """One row of 16-bit samples."""
    return zlib.compress(b"\0" + struct.pack(f">{len(values)}H", *values))


def zeros(width_bytes: int, rows: int) -> bytes:
    packer = zlib.compressobj(9)
    row = bytes(1 + width_bytes)
    return b"".join(packer.compress(row) for _ in range(rows)) + packer.flush()


Given = bytes | ImageReference
"""A file's bytes, or a reference."""


async def store(given: Given, target: Path, settings: ImageSettings, field: str = "input_reference") -> None:
    """Have it stored by references of its own."""
    with Spool(SPOOLS) as spool:
        reference = spool.add(given) if isinstance(given, bytes) else given
        references = References(settings, MediaSettings(), SPOOLS)
        try:
            await references.store_image(reference, field, target)
        finally:
            await references.close()


async def stored(given: Given, target: Path, **limits: float) -> Image.Image:
    """What lies at `target` afterwards, and nothing beside it."""
    settings = ImageSettings.model_validate({"timeout_s": 120, **limits})
    await store(given, target, settings)
    assert [path.name for path in target.parent.iterdir()] == [target.name]
    with Image.open(target) as picture:
        assert (picture.format, picture.mode, picture.info) == ("PNG", "RGB", {})
        picture.load()
        return picture.copy()


async def refusal(given: Given, target: Path, **limits: float) -> BadField:
    """The error, after which nothing is left on disk."""
    settings = ImageSettings.model_validate({"timeout_s": 120, **limits})
    with pytest.raises(BadField) as caught:
        await store(given, target, settings)
    assert caught.value.param == "input_reference"
    assert list(target.parent.iterdir()) == []
    return caught.value


def near(left: object, right: tuple[int, ...], within: int = 6) -> bool:
    assert isinstance(left, tuple)
    return all(abs(a - b) <= within for a, b in zip(left, right, strict=True))


def pixel(picture: Image.Image, x: int, y: int) -> tuple[int, ...]:
    value = picture.getpixel((x, y))
    assert isinstance(value, tuple)
    return tuple(int(level) for level in value)
