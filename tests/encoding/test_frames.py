"""Float frames become the bytes that players and tensors expect."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from encoding.frames import RGB24, YUV420P, Packing, pack, yuv420_planes
from tests.encoding.clips import flat, noise, smooth

Doubles = npt.NDArray[np.float64]


def bt709(clip: torch.Tensor) -> list[Doubles]:
    """Y, Cb, Cr of a clip by ITU-R BT.709 in float64: (T, H, W) each, neither subsampled nor rounded."""
    red, green, blue = (clip.double().clamp(-1, 1).numpy() + 1) / 2
    luma = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    return [16 + 219 * luma, 128 + 224 * (blue - luma) / 1.8556, 128 + 224 * (red - luma) / 1.5748]


def left_sited(plane: Doubles) -> Doubles:
    """Chroma at half size, pixel by pixel: mean of two rows, 1-2-1 around each even column."""
    count, height, width = plane.shape
    half = np.empty((count, height // 2, width // 2))
    for row in range(height // 2):
        pair = (plane[:, 2 * row] + plane[:, 2 * row + 1]) / 2
        for column in range(width // 2):
            left = pair[:, max(0, 2 * column - 1)]
            half[:, row, column] = (left + 2 * pair[:, 2 * column] + pair[:, 2 * column + 1]) / 4
    return half


def assert_rounded(found: npt.NDArray[np.uint8], exact: Doubles) -> None:
    """Every level is the nearest one, but for values that float32 cannot tell from a tie."""
    clear = np.abs(exact - np.floor(exact) - 0.5) > 1e-4
    assert clear.mean() > 0.99
    np.testing.assert_array_equal(found[clear], np.round(exact)[clear])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_yuv_is_bt709_limited_range(dtype: torch.dtype) -> None:
    """All three planes agree with the standard's formulas, for each input dtype."""
    clip = noise(3, 10, 14).to(dtype)
    rows = pack(clip, YUV420P)[:-1].view(3, -1)
    planes = [yuv420_planes(row, 14, 10) for row in rows]
    luma, blue, red = bt709(clip)
    assert_rounded(np.stack([frame[0].numpy() for frame in planes]), luma)
    assert_rounded(np.stack([frame[1].numpy() for frame in planes]), left_sited(blue))
    assert_rounded(np.stack([frame[2].numpy() for frame in planes]), left_sited(red))


@pytest.mark.parametrize(
    ("colour", "levels"),
    [
        ((1, -1, -1), (63, 102, 240)),
        ((-1, 1, -1), (173, 42, 26)),
        ((-1, -1, 1), (32, 240, 118)),
        ((1, 1, 1), (235, 128, 128)),
        ((-1, -1, -1), (16, 128, 128)),
        ((0, 0, 0), (126, 128, 128)),
    ],
)
def test_primaries_have_the_levels_of_bt709(
    colour: tuple[float, float, float], levels: tuple[int, int, int]
) -> None:
    """Red is luma 63 (81 would be BT.601); white, black and grey carry no colour."""
    row = pack(flat(colour, 1, 4, 6), YUV420P)[:-1]
    for plane, level in zip(yuv420_planes(row, 6, 4), levels, strict=True):
        assert set(plane.flatten().tolist()) == {level}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_rgb_is_rounded_in_float32(dtype: torch.dtype) -> None:
    """(x + 1) · 127.5 to the nearest level, also where the input's own dtype could not hold the product."""
    clip = noise(2, 6, 10).to(dtype)
    found = pack(clip, RGB24)[:-1].view(2, 6, 10, 3).numpy()
    assert_rounded(found, np.moveaxis((clip.double().numpy() + 1) * 127.5, 0, -1))


@pytest.mark.parametrize("packing", [RGB24, YUV420P], ids=lambda packing: str(packing.name))
def test_values_beyond_the_range_are_clipped(packing: Packing) -> None:
    """No overshoot wraps around into a speckle: it looks like the end of the range."""
    clip = 3 * noise(2, 8, 8)
    assert clip.abs().max() > 2
    assert torch.equal(pack(clip, packing), pack(clip.clamp(-1, 1), packing))


@pytest.mark.parametrize("packing", [RGB24, YUV420P], ids=lambda packing: str(packing.name))
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_value_that_is_no_number_is_flagged(packing: Packing, value: float) -> None:
    """The last byte is 1 for finite frames, 0 if there is a single other value."""
    clip = smooth(3, 4, 6)
    assert int(pack(clip, packing)[-1]) == 1
    clip[1, 2, 3, 5] = value
    assert int(pack(clip, packing)[-1]) == 0


@settings(max_examples=40, deadline=None)
@given(cuts=st.sets(st.integers(1, 11)), half_height=st.integers(1, 9), half_width=st.integers(1, 9))
def test_any_split_gives_the_same_bytes(cuts: set[int], half_height: int, half_width: int) -> None:
    """Chunks packed one by one are the clip packed at once."""
    clip = 1.2 * noise(12, 2 * half_height, 2 * half_width)
    edges = [0, *sorted(cuts), 12]
    for packing in (RGB24, YUV420P):
        parts = [pack(clip[:, a:b], packing)[:-1] for a, b in pairwise(edges)]
        assert torch.equal(torch.cat(parts), pack(clip, packing)[:-1])


def test_a_long_chunk_is_converted_in_groups_without_a_trace() -> None:
    """A chunk far larger than the converter's own step gives the bytes of its frames one by one."""
    clip = noise(9, 512, 832)
    single = [pack(clip[:, index : index + 1], YUV420P)[:-1] for index in range(9)]
    assert torch.equal(pack(clip, YUV420P)[:-1], torch.cat(single))


def test_strided_frames_are_read_as_they_lie() -> None:
    """A crop, a transposed layout and a broadcast clip need no copy by the caller."""
    clip = noise(2, 12, 16)
    crop = clip[:, :, 2:10, 4:14]
    channels_last = clip.permute(1, 2, 3, 0).contiguous().permute(3, 0, 1, 2)
    assert torch.equal(pack(crop, YUV420P), pack(crop.contiguous(), YUV420P))
    assert torch.equal(pack(channels_last, YUV420P), pack(clip, YUV420P))
