"""The output formats: one row each. Imports neither torch nor av."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import Literal, cast, get_args

from encoding.base import OutputSpec, Sink
from encoding.errors import InvalidSpec

Mp4Codec = Literal["libx264", "libx265", "libsvtav1", "h264_nvenc", "hevc_nvenc", "av1_nvenc"]
"""FFmpeg's names of the encoders that an MP4 can be made with, the default first."""

Live = Callable[[bytes], None]
"""Takes the bytes of a fragmented stream as they are made, on the encoder's thread."""


@dataclass(frozen=True, slots=True)
class Format:
    """How one format is made and served."""

    name: str
    suffix: str
    media_type: str
    codecs: tuple[str, ...]
    """FFmpeg's names of the video encoders that can make it, the default first; none: it holds raw frames."""
    audio_codec: str | None
    """FFmpeg's name of the encoder of its sound; None: it holds raw samples."""
    sink: str
    """`module:function` with the signature of `open_sink`."""
    stills: str
    """`module:function` that reads single frames of a finished file; see `encoding.stills`."""
    streamable: bool = False
    """Whether it can be sent while it is being made."""

    @property
    def codec(self) -> str | None:
        """The encoder that makes it by default; None for formats that hold raw frames."""
        return self.codecs[0] if self.codecs else None


_BYTES = "application/octet-stream"
_VIDEO = "encoding.stills:from_video"

FORMATS: Mapping[str, Format] = MappingProxyType(
    {
        row.name: row
        for row in (
            Format(
                "mp4",
                ".mp4",
                "video/mp4",
                get_args(Mp4Codec),
                "aac",
                "encoding.mp4:open_mp4",
                _VIDEO,
                streamable=True,
            ),
            Format(
                "webm", ".webm", "video/webm", ("libvpx-vp9",), "libopus", "encoding.mp4:open_webm", _VIDEO
            ),
            Format("pt", ".pt", _BYTES, (), None, "encoding.tensor:open_pt", "encoding.stills:from_pt"),
            Format(
                "safetensors",
                ".safetensors",
                _BYTES,
                (),
                None,
                "encoding.tensor:open_safetensors",
                "encoding.stills:from_safetensors",
            ),
        )
    }
)

ALIASES: Mapping[str, str] = MappingProxyType({"auto": "mp4", "raw": "pt"})
"""Other names that clients use for a format."""


def codec_of(spec: OutputSpec) -> str | None:
    """FFmpeg's name of the encoder that makes `spec`; None for raw frames.

    Raises:
        InvalidSpec: an unknown format, or a codec that is none of its own.
    """
    row = _row(spec)
    if spec.codec is None:
        return row.codec
    if spec.codec not in row.codecs:
        known = ", ".join(row.codecs) or "none"
        raise InvalidSpec("codec", f"codec: {spec.codec} makes no {row.name}, allowed are {known}")
    return spec.codec


def open_sink(spec: OutputSpec, live: Live | None = None) -> Sink:
    """Open the sink for `spec.format`. With `live`, a fragmented copy is passed on as it is made.

    Raises:
        InvalidSpec: an unknown format, or `live` for one that cannot be streamed.
        EncodingError: what the format or its encoder refuses, before any frame is taken.
    """
    row = _row(spec)
    if live is not None and not row.streamable:
        raise InvalidSpec("format", f"format: {spec.format} cannot be streamed, {_streamable()} can")
    module, function = row.sink.split(":")
    opener = cast(Callable[[OutputSpec, Live | None], Sink], getattr(import_module(module), function))
    return opener(spec, live)


def _row(spec: OutputSpec) -> Format:
    if (row := FORMATS.get(spec.format)) is None:
        raise InvalidSpec("format", f"format: {spec.format} is unknown, known are {', '.join(FORMATS)}")
    return row


def _streamable() -> str:
    return ", ".join(row.name for row in FORMATS.values() if row.streamable)
