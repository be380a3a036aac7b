"""A file that is not what was to be made is found before it gets its name."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import av
import pytest

from encoding.check import check_video_file
from encoding.errors import EncodingError
from tests.encoding.clips import describe, encode, smooth

CLIP = smooth(12, 32, 48)
FILM = Fraction(24)
"""A frame lasts 512 units of the file's clock."""


def table(data: bytes, kind: bytes) -> int:
    """Where the entries of one of the index's tables begin, behind version, flags and their number."""
    return data.index(kind) + 12


def written_over(data: bytes, at: int, *numbers: int) -> bytes:
    new = struct.pack(f">{len(numbers)}I", *numbers)
    return data[:at] + new + data[at + len(new) :]


def without_a_type(data: bytes) -> bytes:
    return data.replace(b"ftyp", b"free", 1)


def cut_off(data: bytes) -> bytes:
    return data[:-10]


def without_an_index(data: bytes) -> bytes:
    return data.replace(b"moov", b"free", 1)


def with_a_shorter_sample(data: bytes) -> bytes:
    at = table(data, b"stsz") + 4 + 4 * 5  # behind the size of all, the sixth
    (size,) = struct.unpack_from(">I", data, at)
    return written_over(data, at, size - 1)


def with_moved_samples(data: bytes) -> bytes:
    at = table(data, b"stco")
    (place,) = struct.unpack_from(">I", data, at)
    return written_over(data, at, place + 4)


def with_slower_pictures(data: bytes) -> bytes:
    return written_over(data, table(data, b"stts") + 4, 600)


def with_a_late_picture(data: bytes) -> bytes:
    at = table(data, b"ctts") + 4 + 8  # of the second run of equal delays
    (delay,) = struct.unpack_from(">I", data, at)
    return written_over(data, at, delay + 7 * 512)


def with_a_delay_too_few(data: bytes) -> bytes:
    at = table(data, b"ctts")
    (count,) = struct.unpack_from(">I", data, at - 4)
    return written_over(data, at - 4, count - 1)


def with_endless_delays(data: bytes) -> bytes:
    return written_over(data, table(data, b"ctts"), 2**32 - 1)


def with_its_index_behind(data: bytes) -> bytes:
    at = data.index(b"moov") - 4
    (size,) = struct.unpack_from(">I", data, at)
    return data.replace(b"moov", b"free", 1) + data[at : at + size]


def with_an_empty_picture(data: bytes) -> bytes:
    at = table(data, b"stco")
    (place,) = struct.unpack_from(">I", data, at)
    return data[:place] + bytes(200) + data[place + 200 :]


DAMAGES: list[Callable[[bytes], bytes]] = [
    cut_off,
    without_a_type,
    without_an_index,
    with_a_shorter_sample,
    with_moved_samples,
    with_slower_pictures,
    with_a_late_picture,
    with_a_delay_too_few,
    with_endless_delays,
    with_its_index_behind,
    with_an_empty_picture,
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_found(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    """Missing bytes, no index, one that a player must look for, and one that does not fit the pictures."""
    spec = describe(tmp_path / "clip.mp4", CLIP, FILM)
    path = encode(spec, CLIP).path
    check_video_file(path, spec)
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    assert path.read_bytes() != whole
    with pytest.raises((EncodingError, av.FFmpegError)):
        check_video_file(path, spec)


@pytest.mark.parametrize("suffix", [".mp4", ".webm"])
@pytest.mark.parametrize("other", [{"num_frames": 13}, {"width": 64}, {"height": 16}])
def test_another_video_is_found(tmp_path: Path, suffix: str, other: dict[str, int]) -> None:
    """A whole file that is not what was to be made; the message has both."""
    spec = describe(tmp_path / f"clip{suffix}", CLIP, FILM)
    path = encode(spec, CLIP).path
    with pytest.raises(EncodingError, match=r"clip\.\w+: .*\(48, 32, 12, 12\), .* expected"):
        check_video_file(path, replace(spec, **other))  # type: ignore[arg-type]  # mypy sees all its fields


def test_another_rate_is_found(tmp_path: Path) -> None:
    """The message says which picture is where."""
    spec = describe(tmp_path / "clip.mp4", CLIP, FILM)
    path = encode(spec, CLIP).path
    with pytest.raises(EncodingError, match=r"picture 1 is shown at 0\.041667 s, 0\.033333 s expected"):
        check_video_file(path, replace(spec, fps=Fraction(30)))
