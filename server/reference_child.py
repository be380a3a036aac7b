"""Decode one untrusted picture, in a process of its own that may be killed at any time.

    python reference_child.py MAX_PIXELS CPU_SECONDS TARGET < picture

Writes TARGET, an upright 8-bit RGB PNG, and exits 0; or prints what is wrong with the picture and exits with
`REFUSED`. Started by path and in isolated mode: it imports Pillow and nothing of the server.
"""

from __future__ import annotations

import resource
import sys
import zlib
from contextlib import suppress
from io import BytesIO

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

REFUSED = 65
"""Exit status of a picture that cannot be used; any other but 0 is our own failure."""

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
BASE_MEMORY = 512 * 2**20
BYTES_PER_PIXEL = 24
"""Pillow keeps four bytes a pixel, and up to six copies meet: decoded, upright, with alpha, background."""

FULL_SCALE_16 = [round(level / 257) for level in range(65536)]
"""16-bit levels as 8-bit ones; Pillow would clip them."""


class Refused(Exception):
    """A picture that cannot be used; the message goes to the client."""


def main(max_pixels: int, cpu_seconds: int, target: str) -> int:
    _bound(max_pixels, cpu_seconds)
    try:
        picture = read_picture(sys.stdin.buffer.read(), max_pixels)
    except Refused as error:
        return _refuse(str(error))
    except MemoryError:
        return _refuse("takes too much memory to decode")
    except Exception as error:  # noqa: BLE001 - decoders raise anything on damaged files
        return _refuse(f"is damaged: {str(error) or type(error).__name__}")
    # Run lengths only: flat pictures, the cheap bombs, stay small, and photographs take half the time.
    picture.save(target, "PNG", compress_level=1, compress_type=zlib.Z_RLE)
    return 0


def read_picture(data: bytes, max_pixels: int) -> Image.Image:
    """The first frame, upright, in RGB, transparent parts on black.

    Raises:
        Refused: no picture of a known format, or of more than `max_pixels`.
        Exception: whatever a decoder raises.
    """
    Image.MAX_IMAGE_PIXELS = None  # our own bound replaces Pillow's, which warns before it refuses
    AvifImagePlugin.DEFAULT_MAX_THREADS = 1  # each thread would take its arena out of our address space
    try:
        picture = Image.open(BytesIO(data), formats=FORMATS)
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


def _bound(max_pixels: int, cpu_seconds: int) -> None:
    memory = BASE_MEMORY + BYTES_PER_PIXEL * max_pixels
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))


def _refuse(why: str) -> int:
    print(why)  # noqa: T201 - standard output is the answer
    return REFUSED


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
