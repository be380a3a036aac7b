"""Make one preview, in a process of its own that may be killed at any time.

    python -m encoding.preview_child PREVIEW FORMAT NUM_FRAMES SOURCE TARGET CPU_SECONDS

Writes TARGET, whole on the disk, and exits 0; or says on standard output what went wrong and exits 1, or
prints the `errno` of a disk that does not take TARGET and exits with `UNWRITTEN`.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import cast

from PIL import Image

from encoding.errors import reason
from encoding.formats import FORMATS
from encoding.previews import PREVIEWS, Grid, Preview

_PR_SET_PDEATHSIG = 1
MEMORY = 2 * 2**30
"""For the libraries and the decoder's pictures, in bytes; beside it the file, which torch maps."""

UNWRITTEN = 74
"""Exit status where TARGET cannot be written."""

Reader = Callable[[Path, Sequence[int]], Iterator[Image.Image]]


class Unwritten(Exception):
    """The disk does not take the picture; the message is the `errno`."""


def main(preview: str, format_name: str, num_frames: str, source: str, target: str, cpu_seconds: str) -> int:
    try:
        _bound(Path(source).stat().st_size, int(cpu_seconds))
        make_preview(PREVIEWS[preview], format_name, int(num_frames), Path(source), Path(target))
    except Unwritten as error:
        print(error)  # noqa: T201 - standard output is the answer
        return UNWRITTEN
    except Exception as error:  # noqa: BLE001 - decoders raise anything on damaged files
        print(f"{type(error).__name__}: {reason(error)}")  # noqa: T201 - as above
        return 1
    return 0


def make_preview(preview: Preview, format_name: str, num_frames: int, source: Path, target: Path) -> None:
    """Draw the preview of a file of `num_frames` frames in a format of `FORMATS` into `target`.

    Raises:
        Unwritten: the disk does not take it.
        Exception: whatever the reader of the format raises on a file that is damaged or too short.
    """
    grid = preview.grid(num_frames)
    stills = _reader(format_name)(source, grid.frames)
    picture = draw(grid, (_shrunk(still, preview.side) for still in stills))
    try:
        with target.open("wb") as file:
            picture.save(file, preview.pillow_format, quality=preview.quality)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise Unwritten(error.errno) from error


def draw(grid: Grid, tiles: Iterator[Image.Image]) -> Image.Image:
    """The tiles, all of one size, row by row."""
    first = next(tiles)
    width, height = first.size
    sheet = Image.new("RGB", (grid.columns * width, grid.rows * height))
    sheet.paste(first)
    for number, tile in enumerate(tiles, start=1):
        row, column = divmod(number, grid.columns)
        sheet.paste(tile, (column * width, row * height))
    return sheet


def _shrunk(still: Image.Image, side: int) -> Image.Image:
    still.thumbnail((side, side), Image.Resampling.LANCZOS)
    return still


def _reader(format_name: str) -> Reader:
    module, function = FORMATS[format_name].stills.split(":")
    return cast(Reader, getattr(import_module(module), function))


def _bound(file_bytes: int, cpu_seconds: int) -> None:
    # Killed when the parent ends, which is the only one to want the preview.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    # Not the address space: a build of torch for GPUs maps gigabytes of code that it never touches.
    memory = MEMORY + file_bytes
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
