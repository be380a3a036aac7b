"""What is taken of untrusted sound and film, whichever it is: codecs and lengths."""

from __future__ import annotations

from av.audio.stream import AudioStream
from av.video.stream import VideoStream

from server.forked import Refused

AUDIO_CODECS = frozenset(
    {"aac", "mp3", "mp3float", "opus", "libopus", "vorbis", "libvorbis", "flac", "alac"}
    | {"pcm_u8", "pcm_s16le", "pcm_s16be", "pcm_s24le", "pcm_s24be", "pcm_s32le", "pcm_f32le", "pcm_f64le"}
)
VIDEO_CODECS = frozenset(
    {"h264", "hevc", "vp8", "vp9", "libvpx", "libvpx-vp9", "av1", "libdav1d", "mpeg4"} | {"mjpeg", "ffv1"}
)


def check_codec(stream: AudioStream | VideoStream, taken: frozenset[str]) -> None:
    """
    Raises:
        Refused: the stream's is not among those `taken`.
    """
    context: object = stream.codec_context  # None where FFmpeg knows no decoder
    name = "something unknown" if context is None else stream.codec_context.codec.name
    if name not in taken:
        raise Refused(f"is encoded as {name}, which is not taken")


def check_length(stream: AudioStream | VideoStream, most: float) -> None:
    """Seconds, by what the file says of itself; they are counted all the same.

    Raises:
        Refused: the stream lasts longer.
    """
    lasts = 0 if stream.duration is None else float(stream.duration * (stream.time_base or 0))
    if lasts > most:
        raise Refused(f"lasts {lasts:.6g} s and is longer than {most:g} s")


def too_long(most: float) -> Refused:
    """What refuses a stream of more seconds."""
    return Refused(f"is longer than {most:g} s")
