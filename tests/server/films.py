"""Sounds and films as users send them, and how they are stored."""

from __future__ import annotations

import io
import struct
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from av.container import OutputContainer

from server.references import References
from server.sections import ImageSettings, MediaSettings
from server.spool import Spool
from tests.server.pictures import SPOOLS

RED, BLUE = (255, 0, 0), (0, 0, 255)
TONE = 440
IDENTITY = struct.pack(">9i", 0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000)


def sound(
    container: str, codec: str, *, rate: int = 48_000, layout: str = "stereo", seconds: float = 1
) -> bytes:
    """A tone of 440 Hz at half of full scale."""
    buffer = io.BytesIO()
    with av.open(buffer, "w", format=container) as output:
        stream = output.add_stream(codec, rate=rate, layout=layout)
        assert isinstance(stream, av.AudioStream)
        _sing(output, stream, seconds)
    return buffer.getvalue()


def wav(seconds: float) -> bytes:
    """The tone as 16-bit samples."""
    return sound("wav", "pcm_s16le", seconds=seconds)


def _sing(
    output: OutputContainer, stream: av.AudioStream, seconds: float, first: int = 0, pause: float = 0
) -> None:
    context, layout = stream.codec_context, stream.layout.name
    rate = context.sample_rate
    wave = np.sin(2 * np.pi * TONE * np.arange(round(seconds * rate)) / rate) * 0.5
    frame = av.AudioFrame.from_ndarray(
        np.tile(wave, (context.channels, 1)).astype(np.float32), "fltp", layout
    )
    frame.sample_rate = rate
    frame.pts, frame.time_base = first, Fraction(1, rate)
    resampler = av.AudioResampler(context.format, layout, rate, context.frame_size or 1024)
    for piece in [*resampler.resample(frame), *resampler.resample(None)]:
        if pause and piece.pts is not None and piece.pts >= first + rate * seconds / 2:
            piece.pts += round(pause * rate)
        output.mux(stream.encode(piece))
    output.mux(stream.encode(None))


def film(
    container: str = "mp4",
    codec: str = "libx264",
    *,
    frames: int = 10,
    size: tuple[int, int] = (64, 48),
    rate: Fraction | int = 10,
    audio: str | None = None,
    aspect: Fraction = Fraction(1),
    late: float = 0,
    sound_late: float = 0,
    pause: float = 0,
    layout: str = "stereo",
) -> bytes:
    """Left half red, right half blue, from frame to frame a little darker; a second of the tone with `audio`.

    Pictures and sound begin at `late` and `sound_late` seconds; the sound stops for `pause` seconds half way.
    """
    buffer = io.BytesIO()
    width, height = size
    with av.open(buffer, "w", format=container) as output:
        stream = output.add_stream(codec, rate=rate, options={"crf": "1"} if codec == "libx264" else {})
        assert isinstance(stream, av.VideoStream)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        stream.codec_context.sample_aspect_ratio = aspect
        heard = None if audio is None else output.add_stream(audio, rate=48_000, layout=layout)
        for number in range(frames):
            pixels = np.zeros((height, width, 3), np.uint8)
            pixels[:, : width // 2], pixels[:, width // 2 :] = RED, BLUE
            frame = av.VideoFrame.from_ndarray((pixels * (1 - number / 100)).astype(np.uint8), "rgb24")
            if late:
                frame.pts, frame.time_base = (
                    round((number / rate + late) * 90_000),
                    Fraction(1, 90_000),
                )
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
        if isinstance(heard, av.AudioStream):
            _sing(output, heard, 1, round(sound_late * 48_000), pause)
    return buffer.getvalue()


def turned_film() -> bytes:
    """As a phone held upright writes it: to be turned clockwise by a quarter."""
    data = film()
    turn = struct.pack(">9i", 0, 0x10000, 0, -0x10000, 0, 0, 48 << 16, 0, 0x40000000)
    place = data.index(IDENTITY, data.index(b"tkhd"))
    return data[:place] + turn + data[place + len(turn) :]


def tone_of(wave: np.ndarray, rate: int) -> float:
    """The strongest frequency in Hz."""
    spectrum = np.abs(np.fft.rfft(wave * np.hanning(len(wave))))
    return float(np.argmax(spectrum) * rate / len(wave))


async def store(kind: str, data: bytes, target: Path, *, heard: float = 0, **limits: float) -> None:
    """Have them stored by references of its own; `heard`: a film with its sound."""
    settings = MediaSettings.model_validate({"timeout_s": 120, **limits})
    references = References(ImageSettings(), settings, SPOOLS)
    try:
        with Spool(SPOOLS) as spool:
            if kind == "audio":
                await references.store_audio(spool.add(data), "audio_reference", target)
            else:
                await references.store_video(spool.add(data), "video_reference", target, sound=bool(heard))
    finally:
        await references.close()
