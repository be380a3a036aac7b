"""What shows a finished video in one picture. Imports neither torch nor av."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

THUMBNAIL_SIDE = 512
"""The longer side of a thumbnail, in pixels; a smaller video is not enlarged."""
TILE_SIDE = 160
"""The longer side of a tile of a spritesheet, in pixels; a smaller video is not enlarged."""
SHEET_COLUMNS = 5
SHEET_ROWS = 5


@dataclass(frozen=True, slots=True)
class Grid:
    """Tiles of one size, row by row from the upper left; what they leave of the last row is black."""

    columns: int
    rows: int
    frames: tuple[int, ...]
    """The number of the frame in each tile, counted from 0."""


@dataclass(frozen=True, slots=True)
class Preview:
    """How one kind of preview is made and served."""

    name: str
    suffix: str
    media_type: str
    pillow_format: str
    quality: int
    side: int
    """Bound of the longer side of each frame in it, in pixels."""
    grid: Callable[[int], Grid]
    """Its tiles, by the number of frames of the video."""


def middle(num_frames: int) -> Grid:
    """One tile: the frame in the middle, since the first one is often a fade or the picture given."""
    return Grid(1, 1, ((num_frames - 1) // 2,))


def evenly(num_frames: int) -> Grid:
    """Up to 25 tiles, of which tile k of n shows the frame at k/n of the video's length."""
    tiles = min(num_frames, SHEET_COLUMNS * SHEET_ROWS)
    columns = min(tiles, SHEET_COLUMNS)
    return Grid(columns, -(-tiles // columns), tuple(tile * num_frames // tiles for tile in range(tiles)))


PREVIEWS: Mapping[str, Preview] = MappingProxyType(
    {
        row.name: row
        for row in (
            Preview("thumbnail", ".webp", "image/webp", "WEBP", 80, THUMBNAIL_SIDE, middle),
            Preview("spritesheet", ".jpg", "image/jpeg", "JPEG", 85, TILE_SIDE, evenly),
        )
    }
)
