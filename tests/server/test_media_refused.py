"""Sounds and films that are not taken, and what the answer says of them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import av
import numpy as np
import pytest

from server.errors import BadField, FieldTooLarge, InvalidMedia
from server.reference_schemas import ImageReference
from server.references import References
from server.sections import ImageSettings, MediaSettings
from tests.server.films import film, sound, store, wav
from tests.server.pictures import SPOOLS, encoded, split


async def _refusal(kind: str, data: bytes, target: Path, **limits: float) -> BadField:
    """The error, after which nothing is left on disk."""
    with pytest.raises(BadField) as caught:
        await store(kind, data, target, **limits)
    assert caught.value.param == f"{kind}_reference"
    assert list(target.parent.iterdir()) == []
    return caught.value


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


def _floats(value: float) -> bytes:
    """A tone as 32-bit floats with another value in its middle."""
    data = bytearray(sound("wav", "pcm_f32le", layout="mono"))
    data[100_000:100_004] = np.float32(value).tobytes()
    return bytes(data)


def _unknown() -> bytes:
    """Of a codec that nobody has a decoder for."""
    data = bytearray(wav(1))
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
    "sound": Over("video", lambda: wav(1), "has no moving pictures"),
    "long sound": Over("audio", lambda: wav(3), "longer than 2 s", {"max_audio_s": 2}),
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
    "a few samples": Over("audio", lambda: wav(0.001), "shorter than 0.01 s"),
    "two rates": Over("audio", lambda: _changing("mp3", "libmp3lame"), "changes its rate"),
    "bytes": Over("audio", lambda: wav(8), "too large when decoded", {"max_decoded_bytes": 2**20}),
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
