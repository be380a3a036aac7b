"""Decodes untrusted pictures, each in a fork of its own that may be killed at any time: see `server.forking`.

Run as a program. It imports Pillow and next to nothing of the server.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Mapping
from contextlib import suppress
from io import BytesIO
from typing import IO, cast

from PIL import (
    AvifImagePlugin,
    GifImagePlugin,
    Image,
    ImageCms,
    ImageOps,
    JpegImagePlugin,
    PngImagePlugin,
    UnidentifiedImageError,
    WebPImagePlugin,
)

from server.forked import Refused, Source, Target, check_shape, serve
from server.shapes import Shape

FORMATS = tuple(
    plugin.format
    for plugin in (
        PngImagePlugin.PngImageFile,
        JpegImagePlugin.JpegImageFile,
        WebPImagePlugin.WebPImageFile,
        GifImagePlugin.GifImageFile,
        AvifImagePlugin.AvifImageFile,
    )
)
FULL_SCALE_16 = [round(level / 257) for level in range(65536)]
"""16-bit levels as 8-bit ones; Pillow would clip them."""


Image.MAX_IMAGE_PIXELS = None  # our own bound replaces Pillow's, which warns before it refuses
PngImagePlugin.MAX_TEXT_CHUNK = 16 * 2**20  # printers' profiles have more than the one that Pillow takes
AvifImagePlugin.DEFAULT_MAX_THREADS = 1  # each thread would take its arena out of our address space


def write_picture(source: Source, target: Target, arguments: Mapping[str, float]) -> str:
    """Read a picture of at most `arguments["max_pixels"]`, write an upright 8-bit RGB PNG; says its `Shape`.

    Raises:
        Refused: no picture of a known format, or of more pixels, or longer than `max_aspect` allows.
        WriteFailed: there is no room for it.
        Exception: whatever a decoder raises.
    """
    picture = read_picture(source, int(arguments["max_pixels"]))
    check_shape(*picture.size, arguments)
    # Run lengths only: flat pictures, the cheap bombs, stay small, and photographs take half the time.
    picture.save(cast(IO[bytes], target), "PNG", compress_level=1, compress_type=zlib.Z_RLE)
    return str(Shape(*picture.size))


def read_picture(source: io.RawIOBase, max_pixels: int) -> Image.Image:
    """The first frame, upright, in RGB, transparent parts on black."""
    try:
        picture = Image.open(io.BufferedReader(source), formats=FORMATS)
    except UnidentifiedImageError:
        raise Refused(f"is not a picture; it must be one of {', '.join(FORMATS)}") from None
    width, height = picture.size
    if width * height > max_pixels:
        raise Refused(f"has {width}x{height} pixels; at most {max_pixels:,} are allowed")
    picture.load()
    return to_rgb(_upright(picture))


def to_rgb(picture: Image.Image) -> Image.Image:
    """8-bit sRGB of any mode that Pillow decodes to."""
    profile = picture.info.get("icc_profile")
    if picture.mode.startswith("I"):
        picture = _from_16_bit(picture)
    if picture.has_transparency_data:
        picture = _on_black(picture.convert("RGBA"))
    if picture.mode not in ("L", "RGB", "CMYK"):  # no profile is made for a palette
        picture = picture.convert("RGB")
    rgb = (profile and _by_profile(picture, profile)) or picture.convert("RGB")
    rgb.info = {}  # or the PNG would repeat a profile that no longer holds
    return rgb


def _upright(picture: Image.Image) -> Image.Image:
    with suppress(Exception):  # a damaged EXIF block says nothing about the picture
        return ImageOps.exif_transpose(picture)
    return picture


def _from_16_bit(picture: Image.Image) -> Image.Image:
    levels = picture.convert("I")
    grey = levels.point(FULL_SCALE_16, "L")
    clear = picture.info.get("transparency")
    if isinstance(clear, int):
        grey.putalpha(levels.point([0 if level == clear else 255 for level in range(65536)], "L"))
    return grey


def _on_black(picture: Image.Image) -> Image.Image:
    black = Image.new("RGB", picture.size)
    black.paste(picture, mask=picture.getchannel("A"))
    return black


def _by_profile(picture: Image.Image, profile: bytes) -> Image.Image | None:
    """The picture in sRGB, or None where its profile is sRGB already or does not fit it."""
    with suppress(ImageCms.PyCMSError, OSError):
        given = ImageCms.ImageCmsProfile(BytesIO(profile))
        if "sRGB" not in ImageCms.getProfileDescription(given):
            srgb = ImageCms.createProfile("sRGB")
            return ImageCms.profileToProfile(picture, given, srgb, outputMode="RGB")
    return None


if __name__ == "__main__":
    serve(write_picture)
