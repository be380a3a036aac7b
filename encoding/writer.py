"""What a session feeds: one file format."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import torch

from encoding.frames import Packing


class Writer(Protocol):
    """Puts packed frames into a file. Made by whoever opens the sink, then called on the session's thread."""

    packing: Packing

    def add(self, frame: torch.Tensor) -> None:
        """Take one frame, uint8 (frame_bytes,) in host memory, valid only during the call."""

    def add_sound(self, samples: torch.Tensor) -> Iterator[None]:
        """Take the sound in short steps, float32 (channels, N), once, if the output has any."""

    def end_chunk(self) -> None:
        """The last frame of a chunk was added."""

    def drain(self) -> Iterator[None]:
        """After the last frame: write what is held back, in short steps."""

    def close(self) -> None:
        """Complete the file's contents."""

    def check(self, path: Path) -> None:
        """Open the file at `path` again and count its frames.

        Raises:
            EncodingError: it is not what was to be written.
        """

    def abandon(self) -> None:
        """Let go of everything held, complete or not. The file is closed already. Idempotent."""
