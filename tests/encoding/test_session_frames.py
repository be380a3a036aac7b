"""The rules of a sink: what it takes."""

from __future__ import annotations

from concurrent.futures import wait
from pathlib import Path

import pytest
import torch

from encoding.errors import BadFrames
from encoding.formats import open_sink
from tests.encoding.clips import FILM, SUFFIXES, chunks, describe, encode, smooth
from tests.encoding.held import HeldWriter, open_held
from tests.encoding.judge import assert_plays


@pytest.mark.parametrize(
    ("shape", "named"),
    [
        ((3, 2, 32, 46), r"\(3, 2, 32, 46\).*\(3, T ≥ 1, 32, 48\)"),
        ((3, 2, 48, 32), r"\(3, 2, 48, 32\)"),
        ((4, 2, 32, 48), r"\(4, 2, 32, 48\)"),
        ((3, 0, 32, 48), r"\(3, 0, 32, 48\)"),
        ((3, 32, 48), r"\(3, 32, 48\)"),
        ((1, 3, 2, 32, 48), r"\(1, 3, 2, 32, 48\)"),
        ((3, 5, 32, 48), r"5 written, num_frames is 4"),
    ],
)
def test_frames_that_do_not_fit_are_refused(tmp_path: Path, shape: tuple[int, ...], named: str) -> None:
    """A wrong shape or too many frames: the message has what came and what is expected; nothing is taken."""
    clip = smooth(4, 32, 48)
    with open_sink(describe(tmp_path / "clip.mp4", clip)) as sink:
        with pytest.raises(BadFrames, match=named):
            sink.write(torch.zeros(shape))
        sink.write(clip)
    assert_plays(sink.close().path, (48, 32), 4, FILM)


def test_integers_are_not_frames(tmp_path: Path) -> None:
    """Levels from 0 to 255 would be taken for white."""
    clip = smooth(4, 32, 48)
    sink = open_sink(describe(tmp_path / "clip.mp4", clip))
    with pytest.raises(BadFrames, match=r"torch\.uint8.*floating-point"):
        sink.write(torch.zeros((3, 4, 32, 48), dtype=torch.uint8))
    sink.abort()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_too_few_frames_are_a_failure(tmp_path: Path, suffix: str) -> None:
    """The result says how many came; there is no file."""
    clip = smooth(9, 32, 48)
    with open_sink(describe(tmp_path / f"clip{suffix}", clip)) as sink:
        sink.write(clip[:, :7])
    with pytest.raises(BadFrames, match="7 written, num_frames is 9"):
        sink.result.result(60)
    with pytest.raises(BadFrames):
        sink.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("value", [float("nan"), float("-inf")])
def test_values_that_are_no_numbers_are_a_failure(tmp_path: Path, suffix: str, value: float) -> None:
    """NaN never becomes a black video: later calls and the result say so, and there is no file."""
    clip = smooth(9, 32, 48)
    clip[2, 4, 31, 47] = value
    sink = open_sink(describe(tmp_path / f"clip{suffix}", clip))
    sink.write(clip[:, :6])
    wait([sink.result], timeout=60)
    with pytest.raises(BadFrames, match="NaN or infinity"):
        sink.write(clip[:, 6:])
    with pytest.raises(BadFrames, match="NaN or infinity"):
        sink.finish()
    with pytest.raises(BadFrames, match="NaN or infinity"):
        sink.close()
    assert isinstance(sink.result.exception(60), BadFrames)
    assert list(tmp_path.iterdir()) == []


def test_frames_may_be_overwritten_after_the_write(tmp_path: Path, writers: list[HeldWriter]) -> None:
    """The producer's buffer is its own again as soon as `write` returns."""
    clip = smooth(8, 32, 48)
    buffer = torch.empty_like(clip[:, :4])
    with open_held(describe(tmp_path / "reused.mp4", clip), writers) as sink:
        for frames in chunks(clip, 4):
            buffer.copy_(frames)
            sink.write(buffer)
        buffer.fill_(float("nan"))
        writers[-1].may_go.set()
    with open_held(describe(tmp_path / "fresh.mp4", clip), writers) as fresh:
        writers[-1].may_go.set()
        fresh.write(clip)
    assert sink.close().path.read_bytes() == fresh.close().path.read_bytes()


def test_frames_from_autograd_and_inference_are_taken_alike(tmp_path: Path) -> None:
    """A tensor that requires gradients or was made in inference mode is only pixels here."""
    clip = smooth(6, 32, 48)
    with torch.inference_mode():
        made_there = clip + 0
    with open_sink(describe(tmp_path / "a.mp4", clip)) as sink:
        sink.write(clip[:, :2].clone().requires_grad_())
        sink.write(made_there[:, 2:4])
        with torch.inference_mode():
            sink.write(made_there[:, 4:])
    plain = encode(describe(tmp_path / "b.mp4", clip), clip).path.read_bytes()
    assert sink.close().path.read_bytes() == plain
