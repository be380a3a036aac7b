"""The same frames give the same file, whatever the memory held before and how many cores there are."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
import torch

from encoding.frames import YUV420P, pack
from encoding.mp4 import VideoWriter
from tests.encoding.clips import describe, encode, noise, smooth


def textured(frames: int, height: int, width: int) -> torch.Tensor:
    """Content that made x264 give many different files before it was told not to."""
    return 0.7 * smooth(frames, height, width) + 0.3 * noise(frames, height, width)


def litter(round_: int) -> None:
    """Leave other values in the memory that is allocated next."""
    sizes = torch.randint(1, 400_000, (20,), generator=torch.Generator().manual_seed(round_))
    for size in sizes.tolist():
        torch.full((size,), round_ % 251, dtype=torch.uint8)


def digest(path: Path, clip: torch.Tensor, planes: torch.Tensor, codec: str | None = None) -> str:
    """The hash of a file made without a session's thread, to be quick."""
    with path.open("w+b") as file:
        writer = VideoWriter(describe(path, clip, codec=codec), file)
        for frame in planes:
            writer.add(frame)
        for _ in writer.drain():
            pass
        writer.close()
        writer.abandon()
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("suffix", [".mp4", ".webm"])
def test_an_odd_size_gives_one_file_in_200_encodes(tmp_path: Path, suffix: str) -> None:
    """100×60 does not fill its last blocks; what lies beyond the picture must not reach the bytes."""
    clip = textured(18, 60, 100)
    planes = pack(clip, YUV420P)[:-1].view(18, -1)
    found = set()
    for round_ in range(200):
        litter(round_)
        found.add(digest(tmp_path / f"clip{suffix}", clip, planes))
    assert len(found) == 1


@pytest.mark.parametrize(("width", "height"), [(100, 60), (34, 50), (64, 64)])
@pytest.mark.parametrize("codec", ["libx265", "libsvtav1"])
def test_hevc_and_av1_give_one_file_in_20_encodes(
    tmp_path: Path, codec: str, width: int, height: int
) -> None:
    """Also at a size at which x265's `cutree` breaks the heap, and at a single block."""
    clip = textured(12, height, width)
    planes = pack(clip, YUV420P)[:-1].view(12, -1)
    found = set()
    for round_ in range(20):
        litter(round_)
        found.add(digest(tmp_path / "clip.mp4", clip, planes, codec))
    assert len(found) == 1


@pytest.mark.parametrize(
    ("suffix", "codec"),
    [(".mp4", None), (".mp4", "libx265"), (".mp4", "libsvtav1"), (".webm", None)],
)
def test_the_number_of_cores_does_not_show(tmp_path: Path, suffix: str, codec: str | None) -> None:
    """A process that may use one core writes the same file."""
    clip = textured(6, 144, 256)
    spec = describe(tmp_path / f"clip{suffix}", clip, codec=codec)
    everywhere = encode(spec, clip).path.read_bytes()
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        confined = encode(spec, clip).path.read_bytes()
    finally:
        os.sched_setaffinity(0, cores)
    assert confined == everywhere
