"""A file that is not what was to be made is found before it gets its name."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import av
import pytest

from encoding.base import AudioSpec
from encoding.check import check_video_file
from encoding.errors import EncodingError
from encoding.packets import AnyPacket, add_copy
from tests.encoding.clips import describe, encode, smooth, sweep

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


def with_something_behind(data: bytes) -> bytes:
    return data + bytes(100)


def with_half_a_box_behind(data: bytes) -> bytes:
    return data + struct.pack(">I4s", 100, b"free")


def with_an_end_of_its_own(data: bytes) -> bytes:
    """Players stop after the first tick."""
    return written_over(data, table(data, b"elst"), 1)


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
    with_something_behind,
    with_half_a_box_behind,
    with_an_end_of_its_own,
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


def retimed(path: Path, shift: Callable[[AnyPacket], int]) -> None:
    """Move every packet of a file by so many units of its clock."""
    old = path.rename(path.with_stem("old"))
    options = {"movflags": "faststart"} if path.suffix == ".mp4" else {}
    with av.open(str(old)) as source, av.open(str(path), "w", options=options) as copy:
        copies = {stream: add_copy(copy, stream) for stream in source.streams}
        for packet in source.demux():
            if packet.pts is not None and packet.dts is not None:
                by = shift(packet)
                packet.pts, packet.dts = packet.pts + by, packet.dts + by
                packet.stream = copies[packet.stream]
                copy.mux_one(packet)


@pytest.mark.parametrize("suffix", [".mp4", ".webm"])
def test_a_late_sound_is_found(tmp_path: Path, suffix: str) -> None:
    """As late as a picture lasts at the least rate, at which its end would not tell."""
    audio = AudioSpec(48_000, 1)
    spec = describe(tmp_path / f"clip{suffix}", CLIP[:, :2], Fraction(1), audio=audio)
    path = encode(spec, CLIP[:, :2], sound=sweep(48_000, 1, 2)).path
    retimed(path, lambda _: 0)
    check_video_file(path, spec)
    retimed(path, lambda packet: int(0.9 / packet.time_base) if packet.stream.type == "audio" else 0)
    with pytest.raises(EncodingError, match=r"there is no sound from 0\.000 to 0\.8\d\d s"):
        check_video_file(path, spec)


def test_slow_pictures_of_a_webm_are_found(tmp_path: Path) -> None:
    """Which has no index; the first picture is in its place."""
    spec = describe(tmp_path / "clip.webm", CLIP, FILM)
    path = encode(spec, CLIP).path
    retimed(path, lambda packet: (packet.pts or 0) // 20)
    with pytest.raises(EncodingError, match=r"picture 1 is shown at 0\.044000 s, 0\.041667 s expected"):
        check_video_file(path, spec)


def test_another_codec_is_found(tmp_path: Path) -> None:
    """The message has both."""
    spec = describe(tmp_path / "clip.mp4", CLIP, FILM)
    path = encode(spec, CLIP).path
    with pytest.raises(EncodingError, match=r"its pictures are h264, hevc expected"):
        check_video_file(path, replace(spec, codec="libx265"))
