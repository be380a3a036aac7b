"""Parts that a device has been given to make before its caller turns to something else."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from pipelines.base import Chunk, Sound

_CHUNKS = 2


def asked_ahead(parts: Iterator[Chunk | Sound], num_frames: int) -> Iterator[Chunk | Sound]:
    """The parts of one output, once a device with a queue of its own has been given two chunks to make.

    To open an encoder takes as long as a GPU needs for the first frame of a decode: with that one alone to
    make it would wait. Nothing is asked for beyond the `num_frames` frames of the output, behind which the
    next one would be generated; and of a CPU, which has made a chunk when it gives it, the first one only.
    """
    first: list[Chunk | Sound] = []
    chunks = frames = 0
    for part in parts:
        first.append(part)
        if isinstance(part, Chunk):
            chunks, frames = chunks + 1, frames + part.frames.shape[1]
            if chunks == _CHUNKS or frames >= num_frames or part.frames.device.type == "cpu":
                break
    return chain(first, parts)
