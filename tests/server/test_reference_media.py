"""Sounds and films as users really upload them, and what becomes of them."""

from __future__ import annotations

import io
import os
import wave
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from server.errors import BadField, FieldTooLarge, InvalidMedia
from server.reference_schemas import ImageReference
from server.references import References
from server.sections import ImageSettings, MediaSettings
from server.spool import Spool
from tests.server.films import BLUE, RED, TONE, film, sound, tone_of, turned_film
from tests.server.pictures import SPOOLS, encoded, near, split


async def _store(kind: str, data: bytes, target: Path, *, heard: float = 0, **limits: float) -> None:
    settings = MediaSettings.model_validate({"timeout_s": 30, **limits})
    references = References(ImageSettings(), settings, SPOOLS)
    try:
        with Spool(SPOOLS) as spool:
            if kind == "audio":
                await references.store_audio(spool.add(data), "audio_reference", target)
            else:
                await references.store_video(spool.add(data), "video_reference", target, sound=bool(heard))
    finally:
        await references.close()


async def _refusal(kind: str, data: bytes, target: Path, **limits: float) -> BadField:
    """The error, after which nothing is left on disk."""
    with pytest.raises(BadField) as caught:
        await _store(kind, data, target, **limits)
    assert caught.value.param == f"{kind}_reference"
    assert list(target.parent.iterdir()) == []
    return caught.value


async def _sound(data: bytes, target: Path, **limits: float) -> tuple[int, np.ndarray]:
    """Rate, and samples (channels, n), of what is stored."""
    await _store("audio", data, target, **limits)
    with av.open(target) as container:
        (stream,) = container.streams
        assert isinstance(stream, av.AudioStream)
        assert (container.format.name, stream.codec_context.codec.name) == ("wav", "pcm_f32le")
        channels = stream.codec_context.channels
        flat = np.concatenate([frame.to_ndarray()[0] for frame in container.decode(stream)])
        return stream.codec_context.sample_rate, flat.reshape(-1, channels).T


async def _film(data: bytes, target: Path, **limits: float) -> tuple[list[Fraction], list[np.ndarray]]:
    """Times in seconds, and frames (H, W, 3), of what is stored."""
    await _store("video", data, target, **limits)
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
    data = _wav(1)
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
        await _store("video", made, target, heard=1)
        with av.open(target) as container:
            pieces = [frame.to_ndarray() for frame in container.decode(audio=0)]
        channels = 1 if layout == "mono" else 2
        wave = np.concatenate([np.zeros((1, 0)), *pieces], axis=1).reshape(-1, channels)[:, -1]
        assert len(wave) == pytest.approx(lasts * 48_000, abs=1)
        if begins is not None:
            assert np.argmax(np.abs(wave) > 0.01) == pytest.approx(begins * 48_000, abs=50)
            assert tone_of(wave[-20_000:], 48_000) == pytest.approx(TONE, abs=4)


async def test_a_films_sound_that_pauses_goes_on_in_its_time(target: Path) -> None:
    """There is silence meanwhile, and no more than that."""
    await _store("video", film("matroska", audio="pcm_s16le", sound_late=0.2, pause=0.5), target, heard=1)
    with av.open(target) as container:
        wave = np.concatenate([frame.to_ndarray() for frame in container.decode(audio=0)], axis=1)[0, ::2]
    assert len(wave) == pytest.approx(1.7 * 48_000, abs=100)
    begins, stops, goes_on = (round(place * 48_000) for place in (0.2, 0.73, 1.22))
    assert np.abs(wave[: begins - 100]).max() == np.abs(wave[stops:goes_on][:20_000]).max() == 0
    assert tone_of(wave[goes_on + 1000 :], 48_000) == pytest.approx(TONE, abs=4)
    begins_in_the_pause = film("matroska", audio="pcm_s16le", late=0.6, pause=0.3)
    await _store("video", begins_in_the_pause, target, heard=1)
    with av.open(target) as container:
        wave = np.concatenate([frame.to_ndarray() for frame in container.decode(audio=0)], axis=1)[0, ::2]
    assert len(wave) == pytest.approx(0.7 * 48_000, abs=100)
    assert np.argmax(np.abs(wave) > 0.01) == pytest.approx(0.22 * 48_000, abs=1100)


NO_MEDIA: dict[str, bytes] = {
    "empty": b"",
    "text": b"no film at all",
    "picture": encoded(split(), "JPEG"),
    "animation": encoded(split(), "GIF", save_all=True, append_images=[split(), split()]),
    "avi": film("avi", "mpeg4"),
    "transport stream": film("mpegts", "libx264"),
    "cut": film()[:900],
    "noise": os.urandom(100_000),
    "dash": b'<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static"></MPD>',
    "sdp": b"v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=x\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n"
    b"m=video 5004 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\n",
}


@pytest.mark.parametrize("kind", ["audio", "video"])
@pytest.mark.parametrize("name", sorted(NO_MEDIA))
async def test_what_is_no_media_is_refused(name: str, kind: str, target: Path) -> None:
    """Told by its bytes; the answer says what is taken."""
    error = await _refusal(kind, NO_MEDIA[name], target)
    assert isinstance(error, InvalidMedia)
    assert "it must be MP4, MOV, WebM" in error.message


def _names(path: str) -> dict[str, bytes]:
    """Files that name another one."""
    return {
        "playlist": f"#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\nfile://{path}\n#EXT-X-ENDLIST\n".encode(),
        "plain playlist": f"#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\n{path}\n#EXT-X-ENDLIST\n".encode(),
        "concat script": f"ffconcat version 1.0\nfile '{path}'\n".encode(),
        "concat protocol": f"#EXTM3U\n#EXTINF:9,\nconcat:{path}|{path}\n".encode(),
    }


@pytest.mark.parametrize("name", sorted(_names("")))
async def test_a_file_that_names_another_one_opens_nothing(name: str, tmp_path: Path, target: Path) -> None:
    """Whoever opened the pipe that is named would wait for ever; the refusal comes at once."""
    pipe = tmp_path / "secret.ts"
    os.mkfifo(pipe)
    error = await _refusal("video", _names(str(pipe))[name], target)
    assert "of a kind that is not taken" in error.message


def test_such_files_are_dangerous(tmp_path: Path) -> None:
    """What the test above refuses does open the other file where nothing forbids it."""
    (tmp_path / "secret.mp4").write_bytes(film())
    script = tmp_path / "script.txt"
    script.write_bytes(_names(str(tmp_path / "secret.mp4"))["concat script"])
    with av.open(script, options={"safe": "0"}) as container:
        assert len(list(container.decode(video=0))) == 10


def _wav(seconds: float) -> bytes:
    return sound("wav", "pcm_s16le", seconds=seconds)


def _floats(value: float) -> bytes:
    """A tone as 32-bit floats with another value in its middle."""
    data = bytearray(sound("wav", "pcm_f32le", layout="mono"))
    data[100_000:100_004] = np.float32(value).tobytes()
    return bytes(data)


def _unknown() -> bytes:
    """Of a codec that nobody has a decoder for."""
    data = bytearray(_wav(1))
    data[20:22] = b"\x34\x12"
    return bytes(data)


def _changing(container: str, codec: str) -> bytes:
    """Two sounds in one file, as cutting tools leave them."""
    return sound(container, codec, rate=44_100) + sound(container, codec, rate=22_050)


@dataclass(frozen=True, slots=True)
class Over:
    """A file that is over a limit, and what the answer says."""

    kind: str
    make: Callable[[], bytes]
    says: str
    limits: dict[str, float] = field(default_factory=dict)


LIMITS = {
    "silent film": Over("audio", film, "has no sound"),
    "sound": Over("video", lambda: _wav(1), "has no moving pictures"),
    "long sound": Over("audio", lambda: _wav(3), "longer than 2 s", {"max_audio_s": 2}),
    "long stream": Over(
        "audio", lambda: sound("adts", "aac", seconds=3), "longer than 2 s", {"max_audio_s": 2}
    ),
    "long film": Over("video", lambda: film(frames=40), "longer than 2 s", {"max_video_s": 2}),
    "untold length": Over(
        "video", lambda: film("matroska", frames=40), "longer than 2 s", {"max_video_s": 2}
    ),
    "frames": Over("video", film, "more than 9 frames", {"max_video_frames": 9}),
    "pixels": Over("video", film, "64x48 pixels; at most 3,071", {"max_video_pixels": 64 * 48 - 1}),
    "streams": Over("video", lambda: film(audio="aac"), "has 2 streams; at most 1", {"max_streams": 1}),
    "old film": Over("video", lambda: film("matroska", "mpeg2video", rate=25), "encoded as mpeg2video"),
    "telephone": Over(
        "audio", lambda: sound("wav", "pcm_mulaw", rate=8_000, layout="mono"), "encoded as pcm_mulaw"
    ),
    "unknown codec": Over("audio", _unknown, "encoded as something unknown"),
    "no number": Over("audio", lambda: _floats(np.nan), "no finite numbers"),
    "infinity": Over("audio", lambda: _floats(-np.inf), "no finite numbers"),
    "beyond any loudness": Over("audio", lambda: _floats(3e38), "no finite numbers"),
    "a few samples": Over("audio", lambda: _wav(0.001), "shorter than 0.01 s"),
    "two rates": Over("audio", lambda: _changing("mp3", "libmp3lame"), "changes its rate"),
    "bytes": Over("audio", lambda: _wav(8), "too large when decoded", {"max_decoded_bytes": 2**20}),
}


@pytest.mark.parametrize("name", sorted(LIMITS))
async def test_limits(name: str, target: Path) -> None:
    """Each is the operator's, and the answer names it."""
    over = LIMITS[name]
    assert over.says in (await _refusal(over.kind, over.make(), target, **over.limits)).message


async def test_too_many_bytes(target: Path) -> None:
    """413, before anything is decoded."""
    error = await _refusal("audio", bytes(2_000), target, max_bytes=1_999)
    assert isinstance(error, FieldTooLarge)


async def test_a_broken_data_uri_has_the_code_of_its_kind(target: Path) -> None:
    """`invalid_media`, where a picture's would be `invalid_image`."""
    references = References(ImageSettings(), MediaSettings(), SPOOLS)
    broken = ImageReference(image_url="data:audio/wav;base64,???")
    with pytest.raises(InvalidMedia, match="not base64"):
        await references.store_audio(broken, "audio_reference", target)
    await references.close()
