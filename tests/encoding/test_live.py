"""The fragmented stream plays while it is made, and is the file's own video."""

from __future__ import annotations

import logging
from fractions import Fraction
from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest

from encoding.formats import open_sink
from encoding.options import resolve
from tests.encoding.clips import FILM, describe, encode, noise, smooth
from tests.encoding.judge import assert_plays, box_order, boxes, colour_box, watch

REORDERING = [None, {"profile": "baseline"}, {"tune": "zerolatency"}, {"preset": "slow"}]


def test_the_header_comes_before_any_frame(tmp_path: Path) -> None:
    """`ftyp` and `moov` are sent when the sink opens, with the colours that a player needs."""
    sent: list[bytes] = []
    clip = smooth(3, 32, 48)
    sink = open_sink(describe(tmp_path / "clip.mp4", clip), sent.append)
    assert [box_order(data) for data in sent] == [["ftyp", "moov"]]
    assert colour_box(sent[0]) == (1, 1, 1, 0)
    sink.abort()


def test_each_piece_is_a_whole_fragment(tmp_path: Path) -> None:
    """Each call brings one `moof` with its `mdat`: at most one a chunk, and one for the tail."""
    sent: list[bytes] = []
    clip = noise(41, 48, 64)
    encode(describe(tmp_path / "clip.mp4", clip), clip, live=sent.append)
    assert all(box_order(data) == ["moof", "mdat"] for data in sent[1:])
    assert 5 < len(sent) <= 1 + 11 + 1


@pytest.mark.parametrize("given", REORDERING)
@pytest.mark.parametrize("frames", [1, 2, 3, 41])
def test_every_prefix_plays(tmp_path: Path, given: dict[str, object] | None, frames: int) -> None:
    """What was sent up to any fragment is a video from time 0 without a gap; all of it is the whole."""
    sent: list[bytes] = []
    clip = smooth(frames, 48, 64)
    options = resolve("libx264", given, present=given is not None)
    encode(describe(tmp_path / "clip.mp4", clip, options=options), clip, live=sent.append)
    prefixes = list(accumulate(sent))[1:]
    shown = [len(watch(prefix).times) for prefix in prefixes]
    assert shown == sorted(set(shown))
    for prefix, count in zip(prefixes, shown, strict=True):
        assert_plays(prefix, (64, 48), count, FILM)
    assert shown[-1] == frames


@pytest.mark.parametrize("rate", [Fraction(1), Fraction(24000, 1001), Fraction(120)], ids=str)
def test_the_stream_shows_the_files_frames(tmp_path: Path, rate: Fraction) -> None:
    """Same pictures, same times, same coded bytes."""
    sent: list[bytes] = []
    clip = noise(30, 48, 64)
    path = encode(describe(tmp_path / "clip.mp4", clip, rate), clip, live=sent.append).path
    streamed = assert_plays(b"".join(sent), (64, 48), 30, rate)
    filed = assert_plays(path, (64, 48), 30, rate)
    np.testing.assert_array_equal(streamed.planes, filed.planes)
    assert pictures(b"".join(sent)) == pictures(path.read_bytes())


def pictures(data: bytes) -> bytes:
    """The contents of all `mdat` boxes in a row."""
    return b"".join(box[8:] for kind, box in boxes(data) if kind == "mdat")


def test_a_stream_does_not_change_the_file(tmp_path: Path) -> None:
    """The file is the same byte for byte with and without a viewer."""
    clip = noise(13, 48, 64)
    alone = encode(describe(tmp_path / "alone.mp4", clip), clip).path.read_bytes()
    watched = encode(describe(tmp_path / "watched.mp4", clip), clip, live=lambda _: None).path.read_bytes()
    assert watched == alone


@pytest.mark.parametrize("fails_at", [0, 1, 3])
def test_a_viewer_that_fails_loses_only_the_stream(
    tmp_path: Path, fails_at: int, caplog: pytest.LogCaptureFixture
) -> None:
    """The callback is called no more after it raised, the file is whole, and one line says so."""
    calls: list[bytes] = []

    def viewer(data: bytes) -> None:
        calls.append(data)
        if len(calls) > fails_at:
            raise ConnectionResetError("gone")

    clip = noise(41, 48, 64)
    with caplog.at_level(logging.WARNING, "encoding"):
        artifact = encode(describe(tmp_path / "clip.mp4", clip), clip, live=viewer)
    assert_plays(artifact.path, (64, 48), 41, FILM)
    assert len(calls) == fails_at + 1
    assert [record.levelname for record in caplog.records] == ["WARNING"]
