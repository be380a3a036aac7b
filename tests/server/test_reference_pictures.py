from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PIL import Image, ImageCms

from server.errors import InvalidImage
from tests.server.pictures import (
    BLACK,
    BLUE,
    RED,
    UPRIGHT,
    chunk,
    encoded,
    levels,
    near,
    pixel,
    png,
    refusal,
    split,
    stored,
    turned,
    zeros,
)
from tests.server.profiles import CYAN, DARK, PAPER, dark_grey, inks, screen_colour, wide_gamut

GREEN, WHITE = (0, 255, 0), (255, 255, 255)


@pytest.mark.parametrize(
    "make",
    [
        lambda: encoded(split(), "PNG"),
        lambda: encoded(split(), "PNG", interlace=1),
        lambda: encoded(split(), "JPEG", quality=100, subsampling=0),
        lambda: encoded(split(), "JPEG", quality=100, progressive=True, subsampling=0),
        lambda: encoded(split(), "WEBP", lossless=True),
        lambda: encoded(split(), "AVIF", quality=100, subsampling="4:4:4"),
        lambda: encoded(split(), "GIF"),
        lambda: encoded(split().convert("P"), "PNG"),
        lambda: encoded(split().convert("RGBA"), "PNG"),
        lambda: encoded(split().convert("CMYK"), "JPEG", quality=100),
        lambda: encoded(split(), "MPO", save_all=True, append_images=[split()], quality=100, subsampling=0),
    ],
    ids=["png", "interlaced", "jpeg", "progressive", "webp", "avif", "gif", "palette", "rgba", "cmyk", "mpo"],
)
async def test_pictures_of_every_kind_keep_their_colours(make: Callable[[], bytes], target: Path) -> None:
    """Format and mode do not show in what is stored."""
    picture = await stored(make(), target)
    assert picture.size == (64, 32)
    assert near(pixel(picture, 8, 16), RED)
    assert near(pixel(picture, 56, 16), BLUE)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "AVIF"])
async def test_photographs_are_turned_upright(kind: str, target: Path) -> None:
    """Phones store the sensor's view and a note how to hold it."""
    picture = await stored(turned(kind, quality=95), target)
    assert picture.size == (32, 64)
    assert near(pixel(picture, 16, 8), RED, 60)
    assert near(pixel(picture, 16, 56), BLUE, 60)


@pytest.mark.parametrize(
    ("orientation", "corners"),
    [(1, "RGBW"), (2, "GRWB"), (3, "WBGR"), (4, "BWRG"), (5, "RBGW"), (6, "BRWG"), (7, "WGBR"), (8, "GWRB")],
)
async def test_every_way_to_hold_a_camera(orientation: int, corners: str, target: Path) -> None:
    """Four corners (left to right, above and below) as the standard wants each of its eight orientations."""
    stored_as = Image.new("RGB", (2, 2))
    for place, colour in (((0, 0), RED), ((1, 0), GREEN), ((0, 1), BLUE), ((1, 1), WHITE)):
        stored_as.putpixel(place, colour)
    exif = Image.Exif()
    exif[UPRIGHT] = orientation
    large = stored_as.resize((64, 32), Image.Resampling.NEAREST)
    picture = await stored(encoded(large, "PNG", exif=exif), target)
    assert picture.size == ((64, 32) if orientation < 5 else (32, 64))
    names: dict[tuple[int, ...], str] = {RED: "R", GREEN: "G", BLUE: "B", WHITE: "W"}
    right, low = picture.width - 1, picture.height - 1
    seen = [pixel(picture, x, y) for x, y in ((0, 0), (right, 0), (0, low), (right, low))]
    assert "".join(names[colour] for colour in seen) == corners


@pytest.mark.parametrize(
    "exif", [b"Exif\0\0MM\0*\xff\xff\xff\xffgarbage", b"Exif\0\0MM\0*\0\0\0\x08\xff\xff\x01\x12"]
)
async def test_a_damaged_note_does_not_cost_the_picture(exif: bytes, target: Path) -> None:
    """Broken metadata is common, and says nothing about the pixels."""
    assert (await stored(encoded(split(), "JPEG", exif=exif), target)).size == (64, 32)


async def test_transparent_parts_are_black(target: Path) -> None:
    """Wholly clear pixels do not show their hidden colour; half clear ones are half as bright."""
    clear = split()
    clear.putalpha(0)
    assert (await stored(encoded(clear, "PNG"), target)).getcolors() == [(64 * 32, BLACK)]
    half = Image.new("RGBA", (8, 8), (200, 100, 50, 128))
    assert near(pixel(await stored(encoded(half, "WEBP", lossless=True), target), 4, 4), (100, 50, 25), 1)
    palette = split().convert("P")
    red = palette.getpixel((0, 0))
    assert near(pixel(await stored(encoded(palette, "PNG", transparency=red), target), 8, 8), BLACK)
    grey = Image.new("LA", (8, 8), (200, 128))
    assert near(pixel(await stored(encoded(grey, "PNG"), target), 4, 4), (100, 100, 100), 1)


@pytest.mark.parametrize(
    ("data", "row"),
    [
        (png((4, 1), 16, 0, levels(0, 0x8000, 0xFF00, 0xFFFF)), [0, 128, 254, 255]),
        (png((4, 1), 16, 0, levels(0, 257, 0x8000, 0xFFFF), chunk(b"tRNS", b"\x80\0")), [0, 1, 0, 255]),
        (png((2, 1), 16, 4, levels(0xFFFF, 0xFFFF, 0xFFFF, 0x8000)), [255, 128]),
        (png((8, 1), 1, 0, zlib.compress(b"\0\xf0")), [255] * 4 + [0] * 4),
        (
            png((4, 1), 8, 0, zlib.compress(bytes([0, 0, 128, 255, 255])), chunk(b"tRNS", b"\0\xff")),
            [0, 128, 0, 0],
        ),
    ],
    ids=["grey", "grey with a clear level", "grey with alpha", "one bit", "8 bits with a clear level"],
)
async def test_grey_levels_are_scaled(data: bytes, row: list[int], target: Path) -> None:
    """16 bits are not clipped to white, and one bit is black and white."""
    picture = await stored(data, target)
    assert [pixel(picture, x, 0) for x in range(len(row))] == [(level,) * 3 for level in row]


async def test_16_bit_colours_are_scaled(target: Path) -> None:
    """Also three channels of them."""
    picture = await stored(png((1, 1), 16, 2, levels(0xFFFF, 0x8000, 0)), target)
    assert near(pixel(picture, 0, 0), (255, 128, 0), 1)


async def test_the_first_frame_of_an_animation(target: Path) -> None:
    """Whatever follows."""
    second = Image.new("RGB", (64, 32), (0, 255, 0))
    for kind in ("GIF", "PNG", "WEBP"):
        data = encoded(split(), kind, save_all=True, append_images=[second], duration=100, quality=100)
        assert near(pixel(await stored(data, target), 8, 16), RED, 12)


def a_profile() -> bytes:
    """A profile that is not sRGB: white at 5000 K."""
    return ImageCms.ImageCmsProfile(ImageCms.createProfile("LAB", 5000)).tobytes()


def _with_profile(profile: bytes) -> bytes:
    return encoded(Image.new("RGB", (8, 8), (120, 180, 90)), "PNG", icc_profile=profile)


async def test_colours_are_converted_by_their_profile(target: Path) -> None:
    """A wide-gamut photograph looks as it did; a profile that does not fit is ignored."""
    wide = _with_profile(wide_gamut())
    straight = pixel(await stored(encoded(Image.new("RGB", (8, 8), (120, 180, 90)), "PNG"), target), 4, 4)
    converted = pixel(await stored(wide, target), 4, 4)
    assert straight == (120, 180, 90)
    # Greens lie further out in the wide gamut: the same numbers mean a stronger colour.
    assert converted[1] > 180
    assert converted[0] < 120
    assert pixel(await stored(_with_profile(a_profile()), target), 4, 4) == straight
    assert pixel(await stored(_with_profile(b"no profile at all"), target), 4, 4) == straight


async def test_a_profile_holds_for_palettes_and_greys(target: Path) -> None:
    """A palette's colours are its picture's; a grey level of a steep curve is darker on a screen."""
    wide = _with_profile(wide_gamut())
    with Image.open(io.BytesIO(wide)) as opened:
        palette = encoded(opened.quantize(4), "PNG", icc_profile=wide_gamut())
    converted = pixel(await stored(wide, target), 4, 4)
    assert near(pixel(await stored(palette, target), 4, 4), converted, 2)
    grey = encoded(Image.new("L", (8, 8), 128), "PNG", icc_profile=dark_grey())
    level = round(255 * (1.055 * (128 / 255) ** (4 / 2.4) - 0.055))
    assert near(pixel(await stored(grey, target), 4, 4), (level,) * 3, 2)


@pytest.mark.parametrize(
    ("ink", "colour"), [((255, 0, 0, 0), CYAN), ((0, 0, 255, 0), DARK), ((0, 0, 0, 0), PAPER)]
)
async def test_print_colours_are_converted_by_their_profile(
    ink: tuple[int, ...], colour: tuple[float, float, float], target: Path
) -> None:
    """CMYK as print shops send it, inverted as Adobe writes it: a real ink is not the screen's cyan."""
    page = encoded(Image.new("CMYK", (8, 8), ink), "JPEG", quality=100, icc_profile=inks())
    assert b"Adobe" in page
    assert near(pixel(await stored(page, target), 4, 4), screen_colour(colour), 6)


BAD: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is not a picture"),
    "text": (b"not an image", "PNG, JPEG, WEBP, GIF, AVIF"),
    "html": (b"<html><img src=x></html>", "is not a picture"),
    "svg": (b'<svg xmlns="http://www.w3.org/2000/svg"/>', "is not a picture"),
    "cut png": (encoded(split(), "PNG")[:60], "damaged"),
    "cut jpeg": (encoded(split(), "JPEG")[:500], "damaged"),
    "cut webp": (encoded(split(), "WEBP", lossless=True)[:-9], "damaged"),
    "cut avif": (encoded(split(), "AVIF")[:-9], "damaged"),
    "cut gif": (encoded(split(640, 320), "GIF")[:1_000], "damaged"),
    "only a header": (b"\x89PNG\r\n\x1a\n", "is not a picture"),
    "broken deflate": (png((8, 8), 8, 2, b"garbage"), "damaged"),
    "no pixels": (png((0, 0), 8, 0, zlib.compress(b"")), "is not a picture"),
    "bmp": (encoded(split(), "BMP"), "is not a picture"),
    "tiff": (encoded(split(), "TIFF"), "is not a picture"),
    "heic": (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(100), "is not a picture"),
    "icon": (encoded(split(), "ICO"), "is not a picture"),
    "jpeg 2000": (encoded(split(), "JPEG2000"), "is not a picture"),
    "ppm": (encoded(split(), "PPM"), "is not a picture"),
    "pdf": (encoded(split(), "PDF"), "is not a picture"),
    "postscript": (encoded(split(), "EPS"), "is not a picture"),
    "photoshop": (b"8BPS\0\x01" + bytes(6) + struct.pack(">HIIHH", 3, 8, 8, 8, 3), "is not a picture"),
    "a film": (b"\0\0\0\x20ftypisom\0\0\x02\0isomiso2avc1mp41" + bytes(100), "is not a picture"),
    "profile bomb": (
        png((1, 1), 8, 0, zeros(1, 1), chunk(b"iCCP", b"x\0\0" + zlib.compress(bytes(50_000_000)))),
        "damaged",
    ),
}


@pytest.mark.parametrize("kind", [b"zTXt", b"iCCP"])
async def test_a_large_note_does_not_cost_the_picture(kind: bytes, target: Path) -> None:
    """Large beyond what Pillow takes by itself; bombs are larger."""
    note = chunk(kind, b"x\0\0" + zlib.compress(bytes(5_000_000)))
    assert (await stored(png((1, 1), 8, 0, zeros(1, 1), note), target)).size == (1, 1)


@pytest.mark.parametrize("name", sorted(BAD))
async def test_what_is_no_picture_is_refused(name: str, target: Path) -> None:
    """With the code that clients know, and the formats that are taken; formats with a past are not."""
    data, piece = BAD[name]
    error = await refusal(data, target)
    assert isinstance(error, InvalidImage)
    assert piece in error.message


def _bombs() -> Iterator[tuple[str, bytes]]:
    """Without what would unpack: whoever tried to would call them damaged."""
    yield "png", png((30_000, 30_000), 1, 0, b"garbage")
    yield (
        "gif",
        b"GIF89a"
        + struct.pack("<HHBBB", 30_000, 30_000, 0x80, 0, 0)
        + bytes(6)
        + (b"," + struct.pack("<HHHHB", 0, 0, 30_000, 30_000, 0) + b"\x02\x02\x4c\x01\0;"),
    )
    jpeg = encoded(split(), "JPEG")
    frame = jpeg.index(b"\xff\xc0")
    yield "jpeg", jpeg[: frame + 5] + struct.pack(">HH", 30_000, 30_000) + jpeg[frame + 9 :]


@pytest.mark.parametrize(
    ("kind", "data"), list(_bombs()), ids=lambda value: value if isinstance(value, str) else ""
)
async def test_a_bomb_is_refused_from_its_header(kind: str, data: bytes, target: Path) -> None:
    """900 million pixels are never unpacked; the answer says how many are allowed."""
    error = await refusal(data, target)
    assert isinstance(error, InvalidImage)
    assert "30000x30000" in error.message
    assert "64,000,000" in error.message
