"""Decodes untrusted sound and film, each in a fork of its own that may be killed at any time.

Run as a program, by `server.forking`. What a file is, is told by its bytes. Formats that open other files or
addresses (playlists, FFmpeg's concat scripts, SDP) are not among those that are taken, and no protocol is.
"""

from __future__ import annotations

import io
import os
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from typing import IO, cast

import av
from av.audio.stream import AudioStream
from av.container import InputContainer, OutputContainer
from av.error import FFmpegError
from av.stream import Disposition
from av.video.reformatter import Colorspace
from av.video.stream import VideoStream
from PIL import Image

from server.forked import Refused, Source, Target, check_shape, serve
from server.media_bounds import AUDIO_CODECS, VIDEO_CODECS, check_codec, check_length, too_long
from server.media_track import LEAST_S, Heard, Track
from server.shapes import Shape

FORMATS = "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,wav,mp3,flac,ogg,aac"
"""FFmpeg's names of the containers that are taken."""
NAMES = "MP4, MOV, WebM, Matroska, WAV, MP3, FLAC, Ogg or AAC"
RATE = Fraction(25)
"""Frames a second of a film that does not say its rate."""
HIGH = 720
"""Rows from which on a film that does not say its colours is taken for BT.709."""
UNSPECIFIED = 2
"""FFmpeg's number of the colour space that is not told."""

_TURNS = {1: Image.Transpose.ROTATE_90, 2: Image.Transpose.ROTATE_180, 3: Image.Transpose.ROTATE_270}
"""By quarters of a turn, counterclockwise; Pillow's too are."""


def write_media(source: Source, target: Target, arguments: Mapping[str, float]) -> str | None:
    """Sound → WAV, or film → Matroska, by `arguments["film"]`: see `write_audio` and `write_film`."""
    # FFmpeg starts a thread, with its memory, for each processor that it sees.
    os.sched_setaffinity(0, {random.choice(list(os.sched_getaffinity(0)))})  # noqa: S311 - any will do
    try:
        with _opened(source, int(arguments["max_streams"])) as container:
            if arguments["film"]:
                return str(write_film(container, target, arguments))
            write_audio(container, target, arguments)
            return None
    except FFmpegError:
        raise Refused("is damaged") from None


def write_audio(container: InputContainer, target: Target, arguments: Mapping[str, float]) -> None:
    """The first sound stream as 32-bit float WAV, mono or stereo, at its own rate; silence where it pauses.

    Raises:
        Refused: there is none, or none that `Track` takes, or it is shorter than `LEAST_S`, or, with
            `audible`, silent.
        WriteFailed: there is no room for it.
    """
    stream = next(iter(container.streams.audio), None)
    if stream is None:
        raise Refused("has no sound")
    with _writing(target, "wav") as output:
        track = Track(output, stream, arguments["max_seconds"])
        heard = Heard(track)
        for number, frame in enumerate(_decoded(container, stream)):
            assert isinstance(frame, av.AudioFrame)
            if number == 0:
                heard.begin((frame.pts or 0) * (frame.time_base or Fraction(0)))
            heard.hear(frame)
        if track.samples == 0:
            raise Refused("has no sound in it")
        if track.samples < LEAST_S * track.rate:
            raise Refused(f"is shorter than {LEAST_S:g} s")
        if arguments.get("audible") and not track.audible:
            raise Refused("is silent")
        track.end()


def write_film(container: InputContainer, target: Target, arguments: Mapping[str, float]) -> Shape:
    """The first picture stream as lossless FFV1 in Matroska: upright RGB, square pixels, its own times; and,
    with `arguments["sound"]`, the first sound stream as `write_audio` would, from the first picture on. Its
    shape is that of what is written.

    Raises:
        Refused: there is none, or of a kind that is not taken, or it is longer or larger than `arguments`
            allow: `max_seconds`, `max_frames`, `max_pixels`, `max_aspect`; or shorter than `min_seconds`.
        WriteFailed: there is no room for it.
    """
    stream = next((each for each in container.streams.video if not _is_cover(each)), None)
    if stream is None:
        raise Refused("has no moving pictures")
    check_codec(stream, VIDEO_CODECS)
    _check_pixels(stream.width, stream.height, arguments["max_pixels"])
    check_length(stream, arguments["max_seconds"])
    sound = next(iter(container.streams.audio), None) if arguments.get("sound") else None
    with _writing(target, "matroska") as output:
        written: VideoStream | None = None
        track = None if sound is None else Track(output, sound, arguments["max_seconds"])
        heard = Heard(track)
        streams = [stream] if sound is None else [stream, sound]
        seen = _seen(_decoded(container, *streams), heard.hear)
        rate, ends = stream.average_rate or RATE, Fraction(0)
        for frame, start in _bounded(seen, rate, arguments):
            ends = (frame.pts or 0) * (frame.time_base or Fraction(0)) + 1 / rate
            upright = _upright(frame, stream)
            _check_pixels(upright.width, upright.height, arguments["max_pixels"])
            if written is None:
                check_shape(upright.width, upright.height, arguments)
                written = _add_ffv1(output, upright, stream)
                heard.begin(start)
            if (upright.width, upright.height) != (written.width, written.height):
                raise Refused("changes its size")
            output.mux(written.encode(upright))
        if written is None:
            raise Refused("has no frame in it")
        output.mux(written.encode(None))
        if track is not None:
            track.end()
    return Shape(written.width, written.height, float(ends))


def _seen(frames: Iterable[object], hear: Callable[[av.AudioFrame], None]) -> Iterator[av.VideoFrame]:
    """The pictures among the frames; `hear` gets the others."""
    for frame in frames:
        if isinstance(frame, av.AudioFrame):
            hear(frame)
        else:
            assert isinstance(frame, av.VideoFrame)
            yield frame


def _bounded(
    frames: Iterable[av.VideoFrame], rate: Fraction, arguments: Mapping[str, float]
) -> Iterator[tuple[av.VideoFrame, Fraction]]:
    """The frames, their times from 0 on, each with the time in seconds that the first one had. The last
    one is shown for a frame at `rate` a second."""
    first, lasts = cast("int | None", None), Fraction(0)
    for number, frame in enumerate(frames):
        _check_pixels(frame.width, frame.height, arguments["max_pixels"])
        if number >= arguments["max_frames"]:
            raise Refused(f"has more than {int(arguments['max_frames']):,} frames")
        if frame.pts is None or frame.time_base is None:
            raise Refused("has a frame without a time")
        first = frame.pts if first is None else first
        frame.pts -= first
        if frame.pts * frame.time_base > arguments["max_seconds"]:
            raise too_long(arguments["max_seconds"])
        lasts = frame.pts * frame.time_base + 1 / rate
        yield frame, first * frame.time_base
    if lasts < arguments.get("min_seconds", 0):
        raise Refused(f"lasts {float(lasts):.3g} s; it must last at least {arguments['min_seconds']:.3g} s")


def _add_ffv1(output: OutputContainer, like: av.VideoFrame, source: VideoStream) -> VideoStream:
    stream = output.add_stream("ffv1", rate=source.average_rate or RATE)
    stream.width, stream.height, stream.pix_fmt = like.width, like.height, "bgr0"
    stream.thread_count = 1
    assert like.time_base is not None  # checked when it was decoded
    stream.codec_context.time_base = like.time_base
    return stream


@contextmanager
def _opened(source: Source, max_streams: int) -> Iterator[InputContainer]:
    options = {"format_whitelist": FORMATS, "protocol_whitelist": "none"}
    options["codec_whitelist"] = ",".join(sorted(AUDIO_CODECS | VIDEO_CODECS))
    try:
        file = cast(IO[bytes], io.BufferedReader(source))
        container = av.open(file, "r", options=options, metadata_errors="ignore")
    except FFmpegError:
        raise Refused(f"is damaged, or of a kind that is not taken; it must be {NAMES}") from None
    with container:
        if len(container.streams) > max_streams:
            raise Refused(f"has {len(container.streams)} streams; at most {max_streams} are allowed")
        yield container


@contextmanager
def _writing(target: Target, container: str) -> Iterator[OutputContainer]:
    with av.open(cast(IO[bytes], target), "w", format=container) as output:
        yield output


def _decoded(container: InputContainer, *streams: AudioStream | VideoStream) -> Iterator[object]:
    for stream in streams:
        stream.codec_context.thread_count = 1
    yield from container.decode(*streams)


def _check_pixels(width: int, height: int, most: float) -> None:
    if not 0 < width * height <= most:
        raise Refused(f"has {width}x{height} pixels; at most {int(most):,} are allowed")


def _is_cover(stream: VideoStream) -> bool:
    """The picture that music players show."""
    return Disposition.attached_pic in stream.disposition


def _upright(frame: av.VideoFrame, stream: VideoStream) -> av.VideoFrame:
    """As it is to be seen: turned as the file says, with square pixels, in RGB of 8 bits."""
    width = round(frame.width * (stream.sample_aspect_ratio or Fraction(1)))
    space = frame.colorspace
    if space == UNSPECIFIED:  # as players take it
        space = Colorspace.ITU709 if frame.height >= HIGH else Colorspace.ITU601
    turns = round(frame.rotation / 90) % 4
    kind = "rgb24" if turns else "bgr0"
    seen = frame.reformat(width, frame.height, kind, src_colorspace=space, threads=1)
    if turns:
        picture: Image.Image = seen.to_image()  # type: ignore[no-untyped-call]
        turned: av.VideoFrame = av.VideoFrame.from_image(  # type: ignore[no-untyped-call]
            picture.transpose(_TURNS[turns])
        )
        seen = turned.reformat(format="bgr0", threads=1)
    seen.pts, seen.time_base = frame.pts, frame.time_base
    return seen


if __name__ == "__main__":
    serve(write_media)
