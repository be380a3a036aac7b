"""What can go wrong between frames and a file. Errors of av are translated here and nowhere else.

EncodingError
├── InvalidOption      a codec option outside the allow-list; carries the option's name
├── EncoderMissing     this build of FFmpeg lacks the encoder
├── BadFrames          frames of the wrong shape or count, or not finite
├── StorageFailed      the file system refused (full, read-only, gone)
└── SinkClosed         written to after close or abort
"""


class EncodingError(Exception):
    """Base of every error that encoding raises on purpose."""


class InvalidOption(EncodingError):
    """A codec option that is unknown or out of range; `option` is its name."""

    def __init__(self, option: str, message: str) -> None:
        super().__init__(message)
        self.option = option


class EncoderMissing(EncodingError):
    """The encoder that a format needs is not in this build of FFmpeg."""


class BadFrames(EncodingError):
    """Frames that contradict the output's shape or count, or contain NaN or infinity."""


class StorageFailed(EncodingError):
    """The file could not be written: disk full, read-only or gone."""


class SinkClosed(EncodingError):
    """The sink was already closed or aborted."""
