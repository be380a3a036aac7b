"""Sound and film of references, as the server stores them, at the rate that a model needs.

The only place of this package that opens containers, and only those that the server has written itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import repeat
from math import floor
from pathlib import Path
from typing import Any, TypeAlias

import av
import numpy as np
import torch
from PIL import Image

_MILLISECOND = Fraction(1, 1000)
_PICTURES_A_CALL = 8
"""About a third of a second of work, at 1080 rows."""

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


def film_size(path: Path) -> tuple[int, int]:
    """Width and height of a film in pixels."""
    with av.open(str(path)) as container:
        context = container.streams.video[0].codec_context
        return context.width, context.height


def read_film(
    path: Path, rate: int, frames: int, size: tuple[int, int], tell: Callable[[], object]
) -> Frames:
    """The first `frames` frames of a film, (T, H, W, 3), at `rate` frames a second; fewer if it is short.

    Each is scaled to `size`, width and height in pixels, as it is read: by LANCZOS, as diffusers does it.
    `tell` is called before every eighth picture that is read; what it raises ends the reading.
    """
    film = np.empty((frames, size[1], size[0], 3), np.uint8)
    shown = 0
    for number, (picture, until) in enumerate(_with_ends(path, Fraction(rate))):
        if number % _PICTURES_A_CALL == 0:
            tell()
        if until > shown:  # or it is dropped
            film[shown:until] = _scaled(picture, size)
            shown = min(until, frames)
        if shown == frames:
            break
    return film[:shown]


def _scaled(picture: av.VideoFrame, size: tuple[int, int]) -> Frames:
    pixels = picture.to_ndarray(format="rgb24")
    if (picture.width, picture.height) == size:
        return pixels
    return np.asarray(Image.fromarray(pixels).resize(size, Image.Resampling.LANCZOS))


def film_frames(path: Path, rate: Fraction) -> Iterator[Frames]:
    """The frames of a film, (H, W, 3), at `rate` frames a second, read as they are asked for.

    Each frame is held until the time of the next one, to the nearest frame of the new rate.
    """
    shown = 0
    for picture, until in _with_ends(path, rate):
        if until > shown:  # or it is dropped
            yield from repeat(picture.to_ndarray(format="rgb24"), until - shown)
            shown = until


def _with_ends(path: Path, rate: Fraction) -> Iterator[tuple[av.VideoFrame, int]]:
    """The pictures of a film, each with the number of the first frame at `rate` that shows it no more."""
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        own = stream.average_rate
        last: av.VideoFrame | None = None
        end = Fraction(0)
        for frame in container.decode(stream):
            start = _start(frame, own)
            if last is not None:
                yield last, _nearest(start * rate)
            last, end = frame, start + 1 / (own or rate)
        if last is not None:
            yield last, max(_nearest(end * rate), 1)


def _start(frame: av.VideoFrame, rate: Fraction | None) -> Fraction:
    """When a frame is shown first, in seconds, in a film of `rate` frames a second on the average.

    Matroska keeps milliseconds. A time that is so near to that of a frame of a constant rate means that one:
    else halves would be rounded now up, now down.
    """
    assert frame.pts is not None  # the server has given each of them one
    assert frame.time_base is not None
    time = frame.pts * frame.time_base
    if rate is None:
        return time
    constant = round(time * rate) / rate
    return constant if abs(constant - time) <= _MILLISECOND else time


def _nearest(value: Fraction) -> int:
    """The nearest whole number; of a half, the next one."""
    return floor(value + Fraction(1, 2))
