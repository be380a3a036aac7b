"""Sound and film of references, as the server stores them, at the rate that a model needs.

The only place of this package that opens containers, and only those that the server has written itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import islice, repeat
from math import floor
from pathlib import Path
from typing import Any, TypeAlias

import av
import numpy as np
import torch

Frames: TypeAlias = np.ndarray[Any, Any]
"""uint8, RGB: (H, W, 3) or (T, H, W, 3)."""


def read_sound(path: Path, rate: int, seconds: float) -> torch.Tensor | None:
    """The first `seconds` of a file's sound at `rate` samples a second, float32 (C, N); None: it has none.

    One channel stays one; of more there are two. Sample `n` of a film's sound belongs to `n / rate` seconds
    of its pictures: the server has stored it so.
    """
    with av.open(str(path)) as container:
        stream = next(iter(container.streams.audio), None)
        if stream is None:
            return None
        layout = "mono" if stream.codec_context.channels == 1 else "stereo"
        resampler = av.AudioResampler("fltp", layout, rate)
        wanted, found, pieces = round(seconds * rate), 0, []
        for frame in container.decode(stream):
            for piece in resampler.resample(frame):
                pieces.append(piece.to_ndarray())
                found += piece.samples
            if found >= wanted:
                break
        else:
            pieces += [piece.to_ndarray() for piece in resampler.resample(None)]
    if not pieces:
        return None
    return torch.from_numpy(np.concatenate(pieces, axis=1)[:, :wanted].copy())


def read_film(path: Path, rate: int, frames: int) -> Frames:
    """The first `frames` frames of a film, (T, H, W, 3), at `rate` frames a second; fewer if it is short."""
    return np.stack(list(islice(film_frames(path, Fraction(rate)), frames)))


def film_frames(path: Path, rate: Fraction) -> Iterator[Frames]:
    """The frames of a film, (H, W, 3), at `rate` frames a second, read as they are asked for.

    Each frame is held until the time of the next one, to the nearest frame of the new rate.
    """
    shown = 0
    for picture, until in _with_ends(path, rate):
        yield from repeat(picture, max(until - shown, 0))
        shown = max(until, shown)


def _with_ends(path: Path, rate: Fraction) -> Iterator[tuple[Frames, int]]:
    """The pictures of a film, each with the number of the first frame at `rate` that shows it no more."""
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        last: av.VideoFrame | None = None
        for frame in container.decode(stream):
            assert frame.time is not None  # the server has given each of them one
            if last is not None:
                yield last.to_ndarray(format="rgb24"), floor(frame.time * float(rate) + 0.5)
            last = frame
        if last is not None and last.time is not None:
            long = 1 / float(stream.average_rate or rate)
            end = floor((last.time + long) * float(rate) + 0.5)
            yield last.to_ndarray(format="rgb24"), max(end, 1)
