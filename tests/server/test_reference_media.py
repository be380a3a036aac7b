"""Sounds and films as users really upload them, and what becomes of them."""

from __future__ import annotations

import io
import wave
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from tests.server.films import BLUE, RED, TONE, film, sound, store, tone_of, turned_film, wav
from tests.server.pictures import near


async def _sound(data: bytes, target: Path, **limits: float) -> tuple[int, np.ndarray]:
    """Rate, and samples (channels, n), of what is stored."""
    await store("audio", data, target, **limits)
    with av.open(target) as container:
        (stream,) = container.streams
        assert isinstance(stream, av.AudioStream)
        assert (container.format.name, stream.codec_context.codec.name) == ("wav", "pcm_f32le")
        channels = stream.codec_context.channels
        flat = np.concatenate([frame.to_ndarray()[0] for frame in container.decode(stream)])
        return stream.codec_context.sample_rate, flat.reshape(-1, channels).T


async def _film(data: bytes, target: Path, **limits: float) -> tuple[list[Fraction], list[np.ndarray]]:
    """Times in seconds, and frames (H, W, 3), of what is stored."""
    await store("video", data, target, **limits)
    with av.open(target) as container:
        (stream,) = container.streams
        assert isinstance(stream, av.VideoStream)
        assert (container.format.name, stream.codec_context.codec.name) == ("matroska,webm", "ffv1")
        frames = list(container.decode(stream))
        times = [Fraction(frame.pts or 0) * (frame.time_base or 0) for frame in frames]
        return times, [frame.to_ndarray(format="rgb24") for frame in frames]


@pytest.mark.parametrize(
    ("make", "rate", "channels"),
    [
        (lambda: sound("wav", "pcm_s16le", rate=16_000, layout="mono"), 16_000, 1),
        (lambda: sound("wav", "pcm_f32le", rate=44_100), 44_100, 2),
        (lambda: sound("wav", "pcm_s24le", layout="5.1"), 48_000, 2),
        (lambda: sound("mp3", "libmp3lame", rate=44_100), 44_100, 2),
        (lambda: sound("flac", "flac", layout="mono"), 48_000, 1),
        (lambda: sound("ogg", "libopus"), 48_000, 2),
        (lambda: sound("adts", "aac"), 48_000, 2),
        (lambda: sound("ipod", "aac"), 48_000, 2),
        (lambda: sound("webm", "libopus", layout="mono"), 48_000, 1),
        (lambda: film(audio="aac"), 48_000, 2),
    ],
    ids=["wav", "float", "surround", "mp3", "flac", "ogg", "aac", "m4a", "webm", "film"],
)
async def test_sounds_of_every_kind(
    make: Callable[[], bytes], rate: int, channels: int, target: Path
) -> None:
    """The same tone for as long, at its own rate, in one channel or two."""
    found, samples = await _sound(make(), target)
    assert found == rate
    assert samples.shape[0] == channels
    assert samples.shape[1] == pytest.approx(rate, rel=0.06)  # coders add silence
    middle = samples[0, rate // 4 : rate * 3 // 4]
    assert tone_of(middle, rate) == pytest.approx(TONE, abs=4)
    assert np.abs(middle).max() > 0.3


async def test_samples_are_exact(target: Path) -> None:
    """16 bits become floats without a change."""
    values = np.array([0, 1, -1, 12_345, 32_767, -32_768] * 4_000, np.int16)
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8_000)
        file.writeframes(values.tobytes())
    _, samples = await _sound(buffer.getvalue(), target)
    assert np.array_equal(samples[0] * 32_768, values)


async def test_titles_do_not_matter(target: Path) -> None:
    """Old programs wrote them in whatever their system's letters were."""
    data = wav(1)
    assert b"Lavf" in data
    _, samples = await _sound(data.replace(b"Lavf", b"L\xe4rm"), target)
    assert samples.shape == (2, 48_000)


@pytest.mark.parametrize(
    ("container", "codec"),
    [("mp4", "libx264"), ("mov", "libx264"), ("webm", "libvpx-vp9"), ("matroska", "mpeg4")],
)
async def test_films_of_every_kind(container: str, codec: str, target: Path) -> None:
    """Every frame at its time, with its colours."""
    times, frames = await _film(
        film(container, codec, audio="libopus" if container == "webm" else "aac"), target
    )
    assert times == [Fraction(number, 10) for number in range(10)]
    for number, frame in enumerate(frames):
        assert frame.shape == (48, 64, 3)
        level = 1 - number / 100
        for place, colour in ((8, RED), (56, BLUE)):
            wanted = tuple(round(part * level) for part in colour)
            assert near(tuple(int(part) for part in frame[24, place]), wanted, 12)


async def test_a_frame_rate_that_is_no_whole_number(target: Path) -> None:
    """Times are within what Matroska can say, a millisecond."""
    times, _ = await _film(film(rate=Fraction(24_000, 1_001)), target)
    assert [float(time) for time in times] == pytest.approx([n * 1_001 / 24_000 for n in range(10)], abs=1e-3)


async def test_a_film_is_turned_upright(target: Path) -> None:
    """Red was on the left, and is above."""
    _, frames = await _film(turned_film(), target)
    assert frames[0].shape == (64, 48, 3)
    assert near(tuple(int(part) for part in frames[0][8, 24]), RED, 12)
    assert near(tuple(int(part) for part in frames[0][56, 24]), BLUE, 12)


async def test_pixels_become_square(target: Path) -> None:
    """Circles stay round."""
    _, frames = await _film(film(aspect=Fraction(2)), target)
    assert frames[0].shape == (48, 128, 3)


async def test_colours_of_large_films_are_those_of_television(target: Path) -> None:
    """Without a note, 720 rows and more are BT.709; converted as BT.601 red would be another one."""
    yuv = av.VideoFrame.from_ndarray(np.full((720, 1280, 3), RED, np.uint8), "rgb24")
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="mp4") as output:
        stream = output.add_stream("libx264", rate=10, options={"crf": "1", "preset": "ultrafast"})
        stream.width, stream.height, stream.pix_fmt = 1280, 720, "yuv420p"
        output.mux(stream.encode(yuv.reformat(format="yuv420p", dst_colorspace="ITU709")))
        output.mux(stream.encode(None))
    _, frames = await _film(buffer.getvalue(), target)
    assert near(tuple(int(part) for part in frames[0][300, 600]), RED, 6)


@pytest.mark.parametrize(
    ("late", "sound_late", "begins", "lasts"),
    [(0, 0.3, 0.3, 1.3), (0.5, 0.25, 0, 0.75), (2, 0, None, 0), (0.2, 0.2, 0, 1)],
    ids=["later", "earlier", "over before", "together"],
)
async def test_a_films_sound_begins_with_its_pictures(
    late: float, sound_late: float, begins: float | None, lasts: float, target: Path
) -> None:
    """After silence, or without what is heard before anything is seen: a sample's place is its time."""
    for layout in ("mono", "stereo"):
        made = film("matroska", audio="pcm_s16le", late=late, sound_late=sound_late, layout=layout)
        await store("video", made, target, heard=1)
        with av.open(target) as container:
            pieces = [frame.to_ndarray() for frame in container.decode(audio=0)]
        channels = 1 if layout == "mono" else 2
        wave = np.concatenate([np.zeros((1, 0)), *pieces], axis=1).reshape(-1, channels)[:, -1]
        assert len(wave) == pytest.approx(lasts * 48_000, abs=1)
        if begins is not None:
            assert np.argmax(np.abs(wave) > 0.01) == pytest.approx(begins * 48_000, abs=50)
            assert tone_of(wave[-20_000:], 48_000) == pytest.approx(TONE, abs=4)


async def test_a_sound_that_pauses_is_as_long_as_it_is_heard(target: Path) -> None:
    """From its own beginning, whenever that is; what a voice does not say takes its time too."""
    rate, wave = await _sound(film("matroska", audio="pcm_s16le", sound_late=0.2, pause=0.5), target)
    assert wave.shape[1] == pytest.approx(1.5 * rate, abs=100)
    loud = np.abs(wave[0]) > 0.01
    assert np.argmax(loud) < 100
    silent = wave[0, round(0.54 * rate) : round(1.0 * rate)]
    assert np.abs(silent).max() == 0
    assert tone_of(wave[0, round(1.05 * rate) :], rate) == pytest.approx(TONE, abs=4)


async def test_a_films_sound_that_pauses_goes_on_in_its_time(target: Path) -> None:
    """There is silence meanwhile, and no more than that."""
    await store("video", film("matroska", audio="pcm_s16le", sound_late=0.2, pause=0.5), target, heard=1)
    with av.open(target) as container:
        wave = np.concatenate([frame.to_ndarray() for frame in container.decode(audio=0)], axis=1)[0, ::2]
    assert len(wave) == pytest.approx(1.7 * 48_000, abs=100)
    begins, stops, goes_on = (round(place * 48_000) for place in (0.2, 0.73, 1.22))
    assert np.abs(wave[: begins - 100]).max() == np.abs(wave[stops:goes_on][:20_000]).max() == 0
    assert tone_of(wave[goes_on + 1000 :], 48_000) == pytest.approx(TONE, abs=4)
    begins_in_the_pause = film("matroska", audio="pcm_s16le", late=0.6, pause=0.3)
    await store("video", begins_in_the_pause, target, heard=1)
    with av.open(target) as container:
        wave = np.concatenate([frame.to_ndarray() for frame in container.decode(audio=0)], axis=1)[0, ::2]
    assert len(wave) == pytest.approx(0.7 * 48_000, abs=100)
    assert np.argmax(np.abs(wave) > 0.01) == pytest.approx(0.22 * 48_000, abs=1100)
