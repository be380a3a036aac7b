"""The first picture of an MP4 is decoded while others are made; the finished file must have the very same."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import av
import pytest

from encoding.base import AudioSpec, Sink
from encoding.errors import EncodingError
from encoding.first import FirstPicture, first_picture, open_unseen
from encoding.mp4 import VideoWriter
from encoding.packets import Sample
from encoding.session import start
from tests.encoding.aborting import assert_abort_is_quick
from tests.encoding.clips import chunks, describe, smooth, sweep
from tests.encoding.held import HELD_S

CLIP = smooth(12, 48, 64)


class Seen(VideoWriter):
    """Tells what it saw early."""

    saw: FirstPicture | None = None

    def _look(self, first: Sample) -> FirstPicture:
        self.saw = super()._look(first)
        return self.saw


@pytest.mark.parametrize("sound_at", [None, 0, 12])
@pytest.mark.parametrize("codec", ["libx264", "libx265", "libsvtav1"])
def test_the_file_has_what_was_seen(tmp_path: Path, codec: str, sound_at: int | None) -> None:
    """The same bytes and the same configuration, whether sound comes early, late or never, with a viewer."""
    audio = AudioSpec(16_000, 1) if sound_at is not None else None
    spec = describe(tmp_path / "clip.mp4", CLIP, codec=codec, audio=audio)
    writers: list[Seen] = []

    def make(file: object) -> Seen:
        writers.append(Seen(spec, file, lambda _: None))  # type: ignore[arg-type]  # the session's own
        return writers[-1]

    with start(spec, make) as sink:
        for index, frames in enumerate(chunks(CLIP, 4)):
            if sound_at == 4 * index:
                sink.write_sound(sweep(16_000, 1, 0.5), 16_000)
            sink.write(frames)
        if sound_at == 12:
            sink.write_sound(sweep(16_000, 1, 0.5), 16_000)
    path, saw = sink.close().path, writers[-1].saw
    assert saw is not None
    assert (saw.width, saw.height) == (64, 48)
    assert saw.sample in path.read_bytes()
    assert saw.decoder[2] in path.read_bytes()
    with open_unseen(str(path), "mp4", 1 if audio is None else 2) as container:
        assert first_picture(container, spec, saw) is saw


@pytest.mark.parametrize(("frames", "early"), [(1, False), (4, False), (12, True)])
def test_nothing_is_seen_early_when_no_frame_is_to_come(tmp_path: Path, frames: int, *, early: bool) -> None:
    """At the end somebody waits for the file, and it is decoded as it stands there."""
    clip = CLIP[:, :frames]
    spec = describe(tmp_path / "clip.mp4", clip, options={"preset": "ultrafast"})
    writers: list[Seen] = []

    def make(file: object) -> Seen:
        writers.append(Seen(spec, file))  # type: ignore[arg-type]  # the session's own
        return writers[-1]

    with start(spec, make) as sink:
        for part in chunks(clip, 4):
            sink.write(part)
    assert sink.close().num_frames == frames
    assert (writers[-1].saw is not None) == early


def last_byte(data: bytes, saw: FirstPicture) -> bytes:
    """Of the first sample: one that a decoder hardly notices."""
    end = data.index(saw.sample) + len(saw.sample)
    return data[: end - 1] + bytes([data[end - 1] ^ 1]) + data[end:]


def configuration(data: bytes, saw: FirstPicture) -> bytes:
    """All but its version."""
    at, size = data.index(saw.decoder[2]), len(saw.decoder[2])
    return data[: at + 1] + bytes(size - 1) + data[at + size :]


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (last_byte, r"clip\.mp4: its first sample is not what was encoded \(.*, alike up to byte \d+\)"),
        (configuration, r"clip\.mp4: its first picture cannot be decoded"),
    ],
)
def test_a_file_that_changed_since_is_refused(
    tmp_path: Path, damage: Callable[[bytes, FirstPicture], bytes], named: str
) -> None:
    """By a byte of its first sample, or in its decoder's configuration; nothing is left."""

    class Damaged(Seen):
        def check(self, path: Path) -> None:
            assert self.saw is not None
            path.write_bytes(damage(path.read_bytes(), self.saw))
            super().check(path)

    spec = describe(tmp_path / "clip.mp4", CLIP)
    sink = start(spec, lambda file: Damaged(spec, file))
    for frames in chunks(CLIP, 4):
        sink.write(frames)
    with pytest.raises(EncodingError, match=named):
        sink.close()
    assert list(tmp_path.iterdir()) == []


def test_a_picture_that_cannot_be_decoded_fails_the_job_at_once(tmp_path: Path) -> None:
    """With the decoder's reason, while frames are still to come."""

    class Broken(VideoWriter):
        def _look(self, first: Sample) -> FirstPicture:
            return super()._look(replace(first, data=bytes(len(first.data))))

    spec = describe(tmp_path / "clip.mp4", CLIP)
    sink = start(spec, lambda file: Broken(spec, file))
    sink.write(CLIP[:, :8])
    error = sink.result.exception(60)
    assert isinstance(error, EncodingError)
    assert str(error).startswith("clip.mp4: its first picture cannot be decoded: Invalid data")
    assert isinstance(error.__cause__, av.FFmpegError)
    with pytest.raises(EncodingError, match="cannot be decoded"):
        sink.write(CLIP[:, 8:])
    assert list(tmp_path.iterdir()) == []


def test_abort_is_quick_while_the_first_picture_is_decoded(tmp_path: Path) -> None:
    """It does not wait for the decoder; the thread ends with it."""
    looks, may_go = threading.Event(), threading.Event()

    class Held(VideoWriter):
        def _look(self, first: Sample) -> FirstPicture:
            looks.set()
            may_go.wait(HELD_S)
            return super()._look(first)

    spec = describe(tmp_path / "clip.mp4", CLIP)

    def make_busy() -> Sink:
        looks.clear()
        sink = start(spec, lambda file: Held(spec, file))
        sink.write(CLIP[:, :8])
        assert looks.wait(60)
        return sink

    assert_abort_is_quick(tmp_path, make_busy)
    assert any(thread.name == "encode clip.mp4" for thread in threading.enumerate())
    may_go.set()
