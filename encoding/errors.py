"""What can go wrong between frames and a file. Errors of av are translated here and nowhere else.

EncodingError
├── InvalidSpec        a size, count, rate or format that cannot be made; carries the field's name
├── InvalidOption      a codec option outside the allow-list; carries the option's name
├── EncoderMissing     this build of FFmpeg lacks the encoder
├── BadFrames          frames of the wrong shape or count, or not finite
├── BadSound           sound that was not announced or never came, of another form, or not finite
├── StorageFailed      the file system refused (full, read-only, gone)
└── SinkClosed         written to after close or abort
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType


class EncodingError(Exception):
    """Base of every error that encoding raises on purpose."""


class InvalidSpec(EncodingError):
    """An output that the format cannot hold; `field` is the name in `OutputSpec`."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class InvalidOption(EncodingError):
    """A codec option that is unknown or out of range; `option` is its name."""

    def __init__(self, option: str, message: str) -> None:
        super().__init__(message)
        self.option = option


class EncoderMissing(EncodingError):
    """The encoder that a format needs is not in this build of FFmpeg."""


class BadFrames(EncodingError):
    """Frames that contradict the output's shape or count, or contain NaN or infinity."""


class BadSound(EncodingError):
    """Sound that contradicts what was announced, or contains NaN or infinity; or none where some was."""


class StorageFailed(EncodingError):
    """The file could not be written: disk full, read-only or gone."""


class SinkClosed(EncodingError):
    """The sink was already closed or aborted."""


# By name, along the MRO: importing av's classes would bring av into processes that only catch ours.
_TRANSLATIONS: Mapping[str, type[EncodingError]] = MappingProxyType(
    {
        "UnknownCodecError": EncoderMissing,
        "EncoderNotFoundError": EncoderMissing,
        "OSError": StorageFailed,
    }
)


def translate(error: BaseException, doing: str) -> EncodingError:
    """The error of ours for one of av or the system, raised while `doing` (such as "writing a.mp4").

    One of ours is returned as it is; the caller chains the cause.
    """
    if isinstance(error, EncodingError):
        return error
    for kind in type(error).__mro__:
        if (ours := _TRANSLATIONS.get(kind.__name__)) is not None:
            return ours(f"{doing}: {reason(error)}")
    return EncodingError(f"{doing}: {type(error).__name__}: {reason(error)}")


def reason(error: BaseException) -> str:
    """Without the file that an error of the system or of FFmpeg names: clients may read it."""
    return str(getattr(error, "strerror", None) or error)
