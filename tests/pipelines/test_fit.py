from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from pipelines.base import Grid
from pipelines.fit import cover, trim


@pytest.mark.parametrize(
    ("wanted", "made"), [(1, 1), (2, 5), (5, 5), (6, 9), (16, 17), (17, 17), (80, 81), (82, 85)]
)
def test_frames_grow_to_the_next_grid_point(wanted: int, made: int) -> None:
    """Wan makes 4k + 1 frames: the smallest such count that is enough."""
    assert Grid(temporal=4, spatial=16).frames(wanted) == made


@pytest.mark.parametrize(
    ("wanted", "made"), [(1, 124), (124, 124), (125, 141), (141, 141), (240, 243), (345, 345)]
)
def test_frames_of_another_grid(wanted: int, made: int) -> None:
    """MiniMax-H3 makes 17k + 5 frames, five seconds of 24 at the least."""
    assert Grid(temporal=17, spatial=32, offset=5, least_frames=120).frames(wanted) == made


@pytest.mark.parametrize(("wanted", "made"), [(2, 16), (16, 16), (18, 32), (60, 64), (100, 112), (832, 832)])
def test_sides_grow_to_the_next_grid_point(wanted: int, made: int) -> None:
    """Sides are a multiple of the grid's: the smallest that is enough."""
    assert Grid(temporal=4, spatial=16).side(wanted) == made


def test_trim_cuts_the_last_frames_and_keeps_the_centre() -> None:
    """Of 1 + 4 + 4 frames of 8x16, seven frames of 4x10 from the middle remain."""
    video = torch.arange(3 * 9 * 8 * 16).reshape(3, 9, 8, 16).float()
    chunks = torch.tensor_split(video, (1, 5), dim=1)
    kept = torch.cat(list(trim(chunks, 7, width=10, height=4)), dim=1)
    assert torch.equal(kept, video[:, :7, 2:6, 3:13])


def test_trim_asks_for_no_chunk_that_it_does_not_need() -> None:
    """A chunk beyond the last wanted frame is never decoded."""

    def chunks() -> Iterator[torch.Tensor]:
        yield torch.zeros(3, 4, 4, 4)
        raise AssertionError("asked for one chunk too many")

    assert [chunk.shape[1] for chunk in trim(chunks(), 4, width=4, height=4)] == [4]


def test_cover_scales_and_crops_without_stretching(tmp_path: Path) -> None:
    """A circle in a square picture is still a circle, centred, in a wide one."""
    picture = Image.new("RGB", (200, 200))
    disc = Image.new("L", (100, 100))
    for x in range(100):
        for y in range(100):
            if (x - 49.5) ** 2 + (y - 49.5) ** 2 <= 25**2:
                disc.putpixel((x, y), 255)
    picture.paste((255, 255, 255), (50, 50), disc)
    picture.save(tmp_path / "disc.png")
    covered = cover(tmp_path / "disc.png", 160, 80)
    white = np.asarray(covered.convert("L")) > 127
    rows, columns = np.flatnonzero(white.any(axis=1)), np.flatnonzero(white.any(axis=0))
    (top, bottom), (left, right) = ((line[0], line[-1] + 1) for line in (rows, columns))
    assert covered.size == (160, 80)
    assert abs((right - left) - 40) <= 1  # 50 pixels scaled by 160 / 200
    assert abs((bottom - top) - 40) <= 1
    assert (left + right) / 2 == pytest.approx(80, abs=1)
    assert (top + bottom) / 2 == pytest.approx(40, abs=1)
