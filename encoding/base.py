"""The contract between whoever has frames and a file format. Imports neither torch nor av."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from fractions import Fraction
from math import floor
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class AudioSpec:
    """The sound that an output is given."""

    sample_rate: int
    """Samples a second."""
    channels: int
    """1 or 2."""


@dataclass(frozen=True, slots=True)
class OutputSpec:
    """One file to be made: `num_frames` pictures of `width` × `height` pixels at `fps` frames per second."""

    path: Path
    """Where the finished file appears, whole, by a rename within its folder."""
    format: str
    """Key of `encoding.formats.FORMATS`."""
    width: int
    height: int
    num_frames: int
    fps: Fraction
    codec_options: Mapping[str, str] = field(default_factory=dict)
    """FFmpeg's options for the encoder, resolved by `encoding.options.resolve`; empty: the codec's own."""
    max_pending_bytes: int = 256 * 2**20
    """Frames that wait for the encoder, in bytes; a writer that is further ahead blocks."""
    codec: str | None = None
    """FFmpeg's name of the video encoder, one of the format's; None: the format's default."""
    audio: AudioSpec | None = None
    """The sound that will be written beside the pictures; None: the file is silent."""

    def samples(self, rate: int) -> int:
        """How many samples of a sound at `rate` last as long as the pictures."""
        return max(1, floor(self.num_frames * rate / self.fps))


@dataclass(frozen=True, slots=True)
class ChunkRecord:
    """When a chunk passed each point, in seconds of `time.monotonic`."""

    frames: int
    written: float
    """`Sink.write` was called."""
    taken: float
    """The encoder's thread had it: its pixels were in host memory, and all before them were encoded."""
    encoded: float
    """The encoder had taken the last of its frames."""


@dataclass(frozen=True, slots=True)
class Tail:
    """Seconds from when the encoder's thread had the last frames (they may have waited), in this order."""

    encode: float = 0.0
    """The encoder took them."""
    drain: float = 0.0
    """It gave what it had held back."""
    close: float = 0.0
    """The container was completed."""
    check: float = 0.0
    """The file was opened again and counted."""
    sync: float = 0.0
    """The disk, which had begun with it before the check, took the file."""
    commit: float = 0.0
    """The file was given its name, and the disk took that."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """A finished file that was opened again and counted."""

    path: Path
    format: str
    size_bytes: int
    width: int
    height: int
    num_frames: int
    fps: Fraction
    records: tuple[ChunkRecord, ...]
    blocked_seconds: float
    """How long the writer waited for the encoder in all."""
    tail_seconds: float
    """From `finish` to the finished file."""
    tail: Tail
    """The parts of that; what comes before `finish` if the frames have."""
    audio: AudioSpec | None = None
    """The sound as it was announced; in the file it is as long as the pictures. None: it is silent."""


class Sink(Protocol):
    """One output being written. Its `with` block ends in `finish`, or by an exception in `abort`."""

    result: Future[Artifact]
    """Done when the file is: with the artifact, or with an `EncodingError`. Cancelled by `abort`."""

    def write(self, frames: torch.Tensor) -> None:
        """Take a chunk: float (3, T, H, W), RGB in [-1, 1], any device; values beyond are clipped.

        Returns before the chunk is encoded, and blocks while more than `max_pending_bytes` wait.

        Raises:
            BadFrames: wrong shape, more frames than announced; NaN or infinity may surface at a later call.
            SinkClosed: after `finish`, `close` or `abort`.
            EncodingError: what the encoder raised for an earlier chunk.
        """

    def write_sound(self, samples: torch.Tensor, sample_rate: int) -> None:
        """Take the whole sound, once, at any time: float (channels, N), nominally in [-1, 1], any device.

        It starts with the first picture, and is cut or padded with silence to the length of the pictures;
        what is beyond it is not held. Returns before it is encoded, and may block as `write` does.

        Raises:
            BadSound: the output has no sound, or one already; other channels or another rate than announced.
                NaN or infinity may surface at a later call.
            SinkClosed, EncodingError: as `write`.
        """

    def finish(self) -> Future[Artifact]:
        """Hand the tail to the encoder and return at once; `result` tells the end. Idempotent."""

    def close(self) -> Artifact:
        """`finish`, and wait for the file.

        Raises:
            BadFrames: fewer frames were written than announced.
            BadSound: sound was announced, and none was written.
            EncodingError: what the encoder raised.
        """

    def abort(self) -> None:
        """Stop without encoding what waits, within 100 ms; no thread, container or part file is left.

        Idempotent. After the result is done it does nothing.
        """

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
