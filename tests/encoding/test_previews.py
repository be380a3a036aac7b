"""Thumbnails and spritesheets of finished files, opened and measured by Pillow."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest
import torch
from PIL import Image

from encoding.errors import BadFrames
from encoding.preview_child import make_preview
from encoding.previews import PREVIEWS
from tests.encoding.clips import describe, encode

FORMATS = ["mp4", "webm", "pt", "safetensors"]
Colour = tuple[int, int, int]


def colour_of(frame: int) -> Colour:
    """A colour of each frame's own, far from its neighbours'."""
    return (frame * 67 % 181 + 37, frame * 101 % 181 + 37, frame * 139 % 181 + 37)


def coloured(frames: int, width: int, height: int) -> torch.Tensor:
    """Frames of one colour each, the lower right quarter black."""
    levels = torch.tensor([colour_of(frame) for frame in range(frames)]).T[:, :, None, None]
    clip = (levels / 127.5 - 1).expand(3, frames, height, width).clone()
    clip[:, :, height // 2 :, width // 2 :] = -1
    return clip


def film(folder: Path, suffix: str, frames: int, width: int, height: int) -> Path:
    clip = coloured(frames, width, height)
    return encode(describe(folder / f"film.{suffix}", clip, Fraction(16)), clip).path


def preview(name: str, source: Path, frames: int) -> Image.Image:
    """The picture, which is of the kind that its row promises."""
    row = PREVIEWS[name]
    target = source.with_name(f"preview{row.suffix}")
    make_preview(row, source.suffix[1:], frames, source, target)
    with Image.open(target) as picture:
        picture.load()
        assert Image.MIME[picture.format or ""] == row.media_type
        assert picture.mode == "RGB"
        return picture.copy()


def assert_shows(picture: Image.Image, left: int, top: int, width: int, height: int, colour: Colour) -> None:
    """A frame of `coloured` lies there: its colour in three quarters, black in the lower right one."""

    def near(x: float, y: float, wanted: Colour) -> bool:
        pixel = picture.getpixel((left + int(width * x), top + int(height * y)))
        assert isinstance(pixel, tuple)
        return all(abs(found - level) <= 12 for found, level in zip(pixel, wanted, strict=True))

    assert near(0.25, 0.25, colour)
    assert near(0.75, 0.25, colour)
    assert near(0.25, 0.75, colour)
    assert near(0.75, 0.75, (0, 0, 0))


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_thumbnail_is_the_frame_in_the_middle(tmp_path: Path, suffix: str) -> None:
    """Of nine frames the fifth, in its own size where that is small enough."""
    picture = preview("thumbnail", film(tmp_path, suffix, 9, 96, 64), 9)
    assert picture.size == (96, 64)
    assert_shows(picture, 0, 0, 96, 64, colour_of(4))


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_spritesheet_shows_the_frames_in_order(tmp_path: Path, suffix: str) -> None:
    """Of 50 frames every second one, in five rows of five tiles."""
    sheet = preview("spritesheet", film(tmp_path, suffix, 50, 64, 48), 50)
    assert sheet.size == (5 * 64, 5 * 48)
    for tile in range(25):
        left, top = tile % 5 * 64, tile // 5 * 48
        assert_shows(sheet, left, top, 64, 48, colour_of(2 * tile))


@pytest.mark.parametrize(
    ("frames", "columns", "rows"), [(1, 1, 1), (2, 2, 1), (5, 5, 1), (7, 5, 2), (24, 5, 5), (25, 5, 5)]
)
def test_a_short_video_has_a_tile_for_each_frame(
    tmp_path: Path, frames: int, columns: int, rows: int
) -> None:
    """No frame twice; what is left of the last row is black."""
    sheet = preview("spritesheet", film(tmp_path, "safetensors", frames, 40, 32), frames)
    assert sheet.size == (columns * 40, rows * 32)
    for tile in range(frames):
        assert_shows(sheet, tile % 5 * 40, tile // 5 * 32, 40, 32, colour_of(tile))
    if frames < columns * rows:
        pixel = sheet.getpixel((sheet.width - 20, sheet.height - 20))
        assert isinstance(pixel, tuple)
        assert max(pixel) <= 12


@pytest.mark.parametrize("frames", [26, 33, 81, 161])
def test_tiles_are_spread_over_the_whole_video(frames: int) -> None:
    """25 different frames from the first on, never further apart than one frame more than elsewhere."""
    chosen = PREVIEWS["spritesheet"].grid(frames).frames
    steps = {later - earlier for earlier, later in zip(chosen, (*chosen[1:], frames), strict=True)}
    assert (len(chosen), chosen[0]) == (25, 0)
    assert max(steps) - min(steps) <= 1
    assert min(steps) >= 1


@pytest.mark.parametrize(
    ("width", "height", "thumbnail", "tile"),
    [
        (1024, 512, (512, 256), (160, 80)),
        (360, 720, (256, 512), (80, 160)),
        (640, 640, (512, 512), (160, 160)),
        (1024, 2, (512, 1), (160, 1)),
    ],
)
def test_large_videos_are_shrunk_in_their_own_shape(
    tmp_path: Path, width: int, height: int, thumbnail: tuple[int, int], tile: tuple[int, int]
) -> None:
    """The longer side has at most 512 pixels in a thumbnail and 160 in a tile."""
    source = film(tmp_path, "pt", 2, width, height)
    assert preview("thumbnail", source, 2).size == thumbnail
    assert preview("spritesheet", source, 2).size == (2 * tile[0], tile[1])


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("name", list(PREVIEWS))
def test_a_video_of_one_frame(tmp_path: Path, suffix: str, name: str) -> None:
    """It is its own thumbnail and its own spritesheet."""
    picture = preview(name, film(tmp_path, suffix, 1, 64, 48), 1)
    assert picture.size == (64, 48)
    assert_shows(picture, 0, 0, 64, 48, colour_of(0))


def test_a_video_that_ends_too_early(tmp_path: Path) -> None:
    """Named with the frame that is not there; nothing is written."""
    source = film(tmp_path, "mp4", 5, 64, 48)
    with pytest.raises(BadFrames, match=r"film\.mp4: has no frame 5"):
        make_preview(PREVIEWS["spritesheet"], "mp4", 9, source, tmp_path / "sheet.jpg")
    assert not (tmp_path / "sheet.jpg").exists()


def child(name: str, source: Path, target: Path) -> tuple[int, str]:
    """Exit status and standard output of the process that the server starts."""
    arguments = (name, source.suffix[1:], "9", str(source), str(target), "20")
    command = [sys.executable, "-m", "encoding.preview_child", *arguments]
    ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    return ended.returncode, ended.stdout


@pytest.mark.parametrize("suffix", FORMATS)
def test_the_process_makes_the_same_picture(tmp_path: Path, suffix: str) -> None:
    """Within its bounds of memory and time; status 0 and no word."""
    source = film(tmp_path, suffix, 9, 96, 64)
    assert child("thumbnail", source, tmp_path / "child.webp") == (0, "")
    with Image.open(tmp_path / "child.webp") as made:
        assert made.tobytes() == preview("thumbnail", source, 9).tobytes()


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_damaged_file_ends_the_process_with_a_reason(tmp_path: Path, suffix: str) -> None:
    """Status 1, and the kind of error on standard output."""
    source = tmp_path / f"film.{suffix}"
    source.write_bytes(b"\0" * 4096)
    status, output = child("thumbnail", source, tmp_path / "child.webp")
    assert status == 1
    assert "Error" in output
    assert not (tmp_path / "child.webp").exists()
