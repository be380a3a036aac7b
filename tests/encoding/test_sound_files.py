"""MP4 and WebM with sound: it starts with the picture, ends with it, and stands beside it in the file."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch

import encoding.packets
from encoding.base import AudioSpec, Sink
from encoding.check import check_video_file
from encoding.errors import EncodingError, StorageFailed
from encoding.formats import open_sink
from encoding.mp4 import VideoWriter
from encoding.options import resolve
from tests.encoding.aborting import assert_abort_is_quick
from tests.encoding.clips import FILM, describe, encode, noise, smooth, sweep
from tests.encoding.held import HELD_S
from tests.encoding.judge import assert_plays, box_order, boxes, watch
from tests.encoding.listen import distance, listen, packets, play

CLIP = smooth(33, 48, 64)
NTSC = Fraction(24000, 1001)
LONG = 33 / NTSC
"""What `CLIP` lasts, in seconds."""
FORMS = [(48_000, 2), (16_000, 1), (22_050, 2), (8_000, 1), (40_000, 2), (192_000, 1)]
"""Rates and channels; AAC takes neither 40 nor 192 kHz, and Opus only the first."""
AAC_RATES = {40_000: 44_100, 192_000: 96_000}


@pytest.mark.parametrize(("rate", "channels"), FORMS)
def test_an_mp4_is_heard_from_the_first_picture_on(tmp_path: Path, rate: int, channels: int) -> None:
    """AAC at the sound's own rate where it has that; priming is skipped, and the length is the pictures'."""
    sound = sweep(rate, channels, 1.2)
    spec = describe(tmp_path / "clip.mp4", CLIP, NTSC, audio=AudioSpec(rate, channels))
    artifact = encode(spec, CLIP, sound=sound)
    assert_plays(artifact.path, (64, 48), 33, NTSC)
    heard = listen(artifact.path)
    made = AAC_RATES.get(rate, rate)
    assert (heard.codec, heard.rate, heard.channels) == ("aac", made, channels)
    assert heard.start == 0
    assert heard.seconds is not None
    assert abs(heard.seconds - LONG) <= Fraction(1, made)
    # Players end with the track, this decoder with the packet.
    assert 0 <= heard.samples.shape[1] - int(LONG * made) < 1024
    if made == rate:
        assert distance(heard.samples, sound) < 0.01
    silence = heard.samples[:, int(1.25 * made) :]
    assert silence.shape[1] > 0.1 * made
    assert np.abs(silence).max() < 0.01


@pytest.mark.parametrize(("rate", "channels"), FORMS[:3])
def test_a_webm_is_heard_from_the_first_picture_on(tmp_path: Path, rate: int, channels: int) -> None:
    """Opus at 48 kHz, exactly as long as the pictures, with its pre-skip."""
    sound = sweep(rate, channels, 9)
    spec = describe(tmp_path / "clip.webm", CLIP, NTSC, audio=AudioSpec(rate, channels))
    path = encode(spec, CLIP, sound=sound).path
    assert len(watch(path).times) == 33
    heard = listen(path)
    assert (heard.codec, heard.rate, heard.channels) == ("opus", 48_000, channels)
    assert heard.samples.shape[1] == 66_066
    if rate == 48_000:
        assert distance(heard.samples, sound) < 0.01


@pytest.mark.ffmpeg
@pytest.mark.parametrize(
    ("suffix", "rate", "channels"), [(".mp4", 48_000, 2), (".mp4", 40_000, 1), (".webm", 22_050, 2)]
)
def test_another_decoder_hears_the_same(tmp_path: Path, suffix: str, rate: int, channels: int) -> None:
    """FFmpeg's program, at the rate that the sound had: a shift of two samples would be seen."""
    sound = sweep(rate, channels, 1.0)
    spec = describe(tmp_path / f"clip{suffix}", CLIP, NTSC, audio=AudioSpec(rate, channels))
    heard = play(encode(spec, CLIP, sound=sound).path, rate, channels)
    middle = slice(rate // 10, -rate // 10)  # resampling the ends makes ripples
    assert distance(heard[:, :rate][:, middle], sound[:, middle]) < 0.01


@pytest.mark.parametrize("rate", [Fraction(24000, 1001), Fraction(1), Fraction(120), Fraction(16)], ids=str)
@pytest.mark.parametrize("frames", [1, 5])
@pytest.mark.parametrize("seconds", [0.0, 7.0])
@pytest.mark.parametrize("suffix", [".mp4", ".webm"])
def test_the_sound_is_as_long_as_the_pictures(
    tmp_path: Path, rate: Fraction, frames: int, seconds: float, suffix: str
) -> None:
    """To a sample: cut where it is longer, silent where it is shorter, down to none at all."""
    clip = smooth(frames, 32, 48)
    spec = describe(tmp_path / f"clip{suffix}", clip, rate, audio=AudioSpec(24_000, 1))
    path = encode(spec, clip, sound=sweep(24_000, 1, seconds)).path
    heard, wanted = listen(path), frames / rate
    if suffix == ".webm":
        excess = heard.samples.shape[1] - int(wanted * 48_000)
        assert excess == 0 or (wanted < Fraction(1, 50) and 0 < excess < 48_000 / rate)  # of a single packet
    else:
        assert heard.seconds is not None
        assert abs(heard.seconds - wanted) <= Fraction(1, 24_000)
        assert_plays(path, (48, 32), frames, rate)


@pytest.mark.parametrize("suffix", [".mp4", ".webm"])
def test_when_the_sound_comes_does_not_show(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same bytes for sound before, among and after the pictures, which may have to wait on the disk."""
    sound = sweep(16_000, 1, 1.0)
    spec = describe(tmp_path / f"clip{suffix}", CLIP, NTSC, audio=AudioSpec(16_000, 1))
    first = encode(spec, CLIP, sound=sound, chunk=4).path.read_bytes()
    for at, chunk in ((5, 4), (16, 1), (33, 33)):
        assert encode(spec, CLIP, sound=sound, chunk=chunk, sound_at=at).path.read_bytes() == first
    monkeypatch.setattr(encoding.packets, "_IN_MEMORY", 100)
    assert encode(spec, CLIP, sound=sound, sound_at=33).path.read_bytes() == first
    assert list(tmp_path.iterdir()) == [spec.path]


@pytest.mark.parametrize("suffix", [".mp4", ".webm"])
@pytest.mark.parametrize("at", [0, 33])
def test_sound_stands_beside_its_pictures(tmp_path: Path, suffix: str, at: int) -> None:
    """A player that reads from the front never has to look further than a moment for the other stream."""
    spec = describe(tmp_path / f"clip{suffix}", CLIP, NTSC, audio=AudioSpec(48_000, 2))
    path = encode(spec, CLIP, sound=sweep(48_000, 2, 9), sound_at=at).path
    latest = {"video": Fraction(0), "audio": Fraction(0)}
    for kind, moment in packets(path):
        latest[kind] = moment
        assert abs(latest["video"] - latest["audio"]) < Fraction(3, 20)
    assert latest["audio"] > Fraction(13, 10)


@pytest.mark.parametrize("given", [{"gop": 1}, {"preset": "veryslow", "gop": 1000}])
def test_the_room_for_the_index_suffices(tmp_path: Path, given: dict[str, object]) -> None:
    """One picture a second: as many packets of sound for each as there can be, and the index is in front."""
    clip = smooth(12, 16, 16)
    options = resolve("libx264", given, present=True)
    spec = describe(tmp_path / "clip.mp4", clip, Fraction(1), options=options, audio=AudioSpec(96_000, 1))
    path = encode(spec, clip, sound=sweep(96_000, 1, 12), chunk=5).path
    assert box_order(path.read_bytes()) == ["ftyp", "moov", "mdat"]
    assert_plays(path, (16, 16), 12, Fraction(1))


@pytest.mark.parametrize("codec", ["libx265", "libsvtav1"])
@pytest.mark.parametrize("at", [0, 33])
def test_any_codec_has_sound_beside_it(tmp_path: Path, codec: str, at: int) -> None:
    """The pictures that waited are whole, and so is the sound."""
    sound = sweep(48_000, 1, 1.3)
    spec = describe(tmp_path / "clip.mp4", CLIP, NTSC, codec=codec, audio=AudioSpec(48_000, 1))
    path = encode(spec, CLIP, sound=sound, sound_at=at).path
    assert_plays(path, (64, 48), 33, NTSC, codec)
    assert distance(listen(path).samples, sound) < 0.01


def test_the_pictures_are_those_of_a_silent_file(tmp_path: Path) -> None:
    """Sound changes no coded picture."""
    silent = encode(describe(tmp_path / "silent.mp4", CLIP, NTSC), CLIP).path
    spec = describe(tmp_path / "clip.mp4", CLIP, NTSC, audio=AudioSpec(16_000, 1))
    heard = encode(spec, CLIP, sound=sweep(16_000, 1, 1), sound_at=20).path
    np.testing.assert_array_equal(watch(silent).planes, watch(heard).planes)


def test_sound_that_is_too_loud_is_cut(tmp_path: Path) -> None:
    """Whatever the numbers, a file comes of them."""
    spec = describe(tmp_path / "clip.mp4", CLIP, NTSC, audio=AudioSpec(16_000, 1))
    path = encode(spec, CLIP, sound=sweep(16_000, 1, 1) * 1e30).path
    assert 0.9 < np.abs(listen(path).samples).max() < 2


def test_a_file_without_its_sound_is_found(tmp_path: Path) -> None:
    """What was made is opened again: streams, channels and lengths must be what was announced."""
    audio = AudioSpec(16_000, 1)
    spec = describe(tmp_path / "clip.mp4", CLIP, NTSC, audio=audio)
    path = encode(spec, CLIP, sound=sweep(16_000, 1, 1)).path
    check_video_file(path, spec)
    silent = encode(describe(tmp_path / "silent.mp4", CLIP, NTSC), CLIP).path
    with pytest.raises(EncodingError, match=r"streams of \['video'\], \['video', 'audio'\] expected"):
        check_video_file(silent, spec)
    with pytest.raises(EncodingError, match="1 channels of sound, 2 expected"):
        check_video_file(path, replace(spec, audio=AudioSpec(16_000, 2)))
    with pytest.raises(EncodingError, match=r"the sound lasts 1\.376 s, and the pictures 1\.650 s"):
        check_video_file(path, replace(spec, fps=Fraction(20)))


@pytest.mark.parametrize("suffix", [".mp4", ".webm"])
def test_an_abort_while_a_long_sound_is_encoded(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pictures wait for half a minute of it; nothing waits for that, and no more of it is encoded."""
    clip = smooth(30, 16, 16)
    spec = describe(tmp_path / f"clip{suffix}", clip, Fraction(1), audio=AudioSpec(48_000, 2))
    sound, add_sound = sweep(48_000, 2, 30), VideoWriter.add_sound
    begun, may_go = threading.Event(), threading.Event()
    pieces: list[VideoWriter] = []

    def held(writer: VideoWriter, samples: torch.Tensor) -> Iterator[None]:
        for _ in add_sound(writer, samples):
            pieces.append(writer)
            begun.set()
            may_go.wait(HELD_S)
            yield

    monkeypatch.setattr(VideoWriter, "add_sound", held)
    threads: list[threading.Thread] = []

    def make_busy() -> Sink:
        begun.clear()
        sink = open_sink(spec)
        sink.write(clip)
        sink.write_sound(sound, 48_000)
        sink.finish()
        assert begun.wait(60)
        threads.extend(thread for thread in threading.enumerate() if thread.name.startswith("encode"))
        return sink

    assert_abort_is_quick(tmp_path, make_busy)
    may_go.set()
    for thread in threads:
        thread.join()
    assert threads
    assert len(pieces) == len(set(pieces))


def test_a_disk_that_takes_no_waiting_pictures_fails_the_sink(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that takes no file: with its reason, and without a file."""

    def full(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(encoding.packets.Spool, "add", full)
    sink = open_sink(describe(tmp_path / "clip.mp4", CLIP, NTSC, audio=AudioSpec(16_000, 1)))
    sink.write(CLIP)
    with pytest.raises(StorageFailed, match="No space left"):
        sink.result.result(60)
    sink.abort()
    assert list(tmp_path.iterdir()) == []


# Streams.


@pytest.mark.parametrize("frames", [1, 3, 33])
@pytest.mark.parametrize("given", [None, {"tune": "zerolatency"}])
def test_every_prefix_is_seen_and_heard(tmp_path: Path, frames: int, given: dict[str, object] | None) -> None:
    """Sound that was given first is in each fragment, at least as far as its pictures go."""
    sent: list[bytes] = []
    clip, sound = smooth(frames, 48, 64), sweep(48_000, 1, 9)
    options = resolve("libx264", given, present=given is not None)
    spec = describe(tmp_path / "clip.mp4", clip, FILM, options=options, audio=AudioSpec(48_000, 1))
    encode(spec, clip, live=sent.append, sound=sound)
    assert [kind for kind, _ in boxes(b"".join(sent[:1]))] == ["ftyp", "moov"]
    for end in range(2, len(sent) + 1):
        prefix = b"".join(sent[:end])
        video, heard = watch(prefix), listen(prefix)
        assert video.times == tuple(index / FILM for index in range(len(video.times)))
        assert heard.start == 0
        assert heard.samples.shape[1] >= int(len(video.times) / FILM * 48_000)
        assert distance(heard.samples[:, : int(frames / FILM * 48_000)], sound) < 0.01
    assert len(video.times) == frames
    assert heard.samples.shape[1] - int(frames / FILM * 48_000) < 1024


@pytest.mark.parametrize("at", [5, 33])
def test_late_sound_follows_in_the_stream(tmp_path: Path, at: int) -> None:
    """Pictures do not wait for it; it comes with the times at which it is heard, and all is a whole file."""
    sent: list[bytes] = []
    sound = sweep(48_000, 1, 1.3)
    spec = describe(tmp_path / "clip.mp4", CLIP, NTSC, audio=AudioSpec(48_000, 1))
    path = encode(spec, CLIP, live=sent.append, sound=sound, sound_at=at).path
    seen = watch(b"".join(sent[:2]))
    assert len(seen.times) > 0
    streamed, filed = listen(b"".join(sent)), listen(path)
    assert streamed.start == 0
    np.testing.assert_array_equal(streamed.samples, filed.samples)
    np.testing.assert_array_equal(watch(b"".join(sent)).planes, watch(path).planes)


def test_a_stream_of_noise_without_lookahead_ends_with_its_sound(tmp_path: Path) -> None:
    """All pictures are sent when the sound comes: it has a fragment for itself."""
    sent: list[bytes] = []
    clip, sound = noise(8, 48, 64), sweep(16_000, 1, 0.3)
    options = resolve("libx264", {"tune": "zerolatency"}, present=True)
    spec = describe(tmp_path / "clip.mp4", clip, FILM, options=options, audio=AudioSpec(16_000, 1))
    encode(spec, clip, live=sent.append, sound=sound, sound_at=8)
    assert len(watch(b"".join(sent[:-1])).times) == 8
    assert distance(listen(b"".join(sent)).samples, sound) < 0.01
