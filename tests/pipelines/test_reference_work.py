"""What references are counted as, against the rows that diffusers makes of them for H3's transformer."""

from __future__ import annotations

import pytest
from diffusers.modular_pipelines.minimax_h3.modular_pipeline import (
    resolve_canvas_size,
    video_latent_num_frames,
)

from pipelines.reference_work import ReferenceWork

RELEASED = ReferenceWork(picture_side=2048, picture_frames=17 / 5, film_side=768, film_pixels=768 * 1344)
ROW = 32 * 32 * 17 / 5
"""Pixels × frames of a row: a patch of 32x32 pixels, in one of the five latent frames of 17."""


@pytest.mark.parametrize(
    ("size", "rows"), [((1920, 1080), 7296), ((512, 512), 4096), ((300, 1200), 16384)], ids=str
)
def test_a_picture_is_counted_as_its_rows(size: tuple[int, int], rows: int) -> None:
    """Read at a short side of 2048 pixels, both sides rounded to 32."""
    assert RELEASED.of_picture(*size) / ROW == pytest.approx(rows, rel=0.01)


@pytest.mark.parametrize("size", [(1920, 1080), (480, 640), (1000, 250)], ids=str)
@pytest.mark.parametrize("frames", [124, 345])
def test_a_film_is_counted_as_its_rows(size: tuple[int, int], frames: int) -> None:
    """At the canvas of its shape; that is rounded to 32, and two latent frames come on top."""
    height, width = resolve_canvas_size(*size, 32, 768, 768 * 1344)
    rows = (height // 32) * (width // 32) * video_latent_num_frames(frames, 17, 5)
    assert RELEASED.of_film(*size, frames) / ROW == pytest.approx(rows, rel=0.04)
