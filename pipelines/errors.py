"""What can go wrong while a video is made, in the pipelines' own words.

PipelineError
├── InvalidParams    a parameter the model cannot serve; carries the field's name
├── LoadFailed       a checkpoint that cannot be loaded
├── OutOfMemory      the device has no room for this request
├── BadOutput        the model produced something that is not a picture (NaN, infinity)
└── Cancelled        the caller asked to stop
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class PipelineError(Exception):
    """Base of every error that a pipeline raises on purpose."""


class InvalidParams(PipelineError):
    """A parameter that the loaded model cannot serve.

    `field` is the name in `GenerationParams`; the message says its value and what is allowed.
    """

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class LoadFailed(PipelineError):
    """A checkpoint that is missing, incomplete or of another kind than configured."""


class OutOfMemory(PipelineError):
    """The device ran out of memory; the request may work at a smaller size or length."""


class BadOutput(PipelineError):
    """The model's numbers are not finite, so there is no picture to encode."""


class Cancelled(PipelineError):
    """The job was cancelled between two steps."""


@contextmanager
def loading(model: str, path: str) -> Iterator[None]:
    """A block in which libraries read the checkpoint at `path`.

    Raises:
        LoadFailed: with their words, for whatever they raise of a checkpoint that they can't read.
    """
    try:
        yield
    except (OSError, ValueError, KeyError, AttributeError, TypeError, RuntimeError, ImportError) as error:
        raise LoadFailed(f"model {model}: cannot load {path}: {error}") from error
