"""Stored files of references → diffusers' references, at the model's own rates."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from diffusers.modular_pipelines.minimax_h3 import (
    MiniMaxH3AudioReference,
    MiniMaxH3ImageReference,
    MiniMaxH3VideoReference,
)
from PIL import Image

from pipelines.base import Reference
from pipelines.media import film_size, read_film, read_sound


def read(reference: Reference, fps: int, sample_rate: int, frames: int) -> Any:
    """Read one, of a length of at most `frames` frames at `fps` a second.

    Of a film only its sound and its size, in one black frame: `fill` reads the others.
    """
    seconds = frames / fps
    if reference.kind == "image":
        with Image.open(reference.path) as picture:
            return MiniMaxH3ImageReference(picture.convert("RGB"))
    sound = read_sound(reference.path, sample_rate, seconds)
    if reference.kind == "audio":
        assert sound is not None  # the server has looked
        return MiniMaxH3AudioReference(sound, sample_rate)
    width, height = film_size(reference.path)
    frame = np.zeros((1, height, width, 3), np.uint8)
    return MiniMaxH3VideoReference(frame, float(fps), sound, None if sound is None else sample_rate)


def fill(
    normalized: Iterable[Any],
    references: Iterable[Reference],
    fps: int,
    frames: int,
    tell: Callable[[], object],
) -> None:
    """Read the first `frames` frames of films into what diffusers' setup has made of their `read`.

    Its black frame has the size then that the model sees, to which each frame is scaled as it is read. The
    setup itself would hold a film at its own size and scaled, and scale those of some sizes again that are
    scaled already. `tell`: see `read_film`.
    """
    for made, reference in zip(normalized, references, strict=True):
        if reference.kind == "video":
            height, width = made.frames.shape[1:3]
            made.frames = read_film(reference.path, fps, frames, (width, height), tell)


def let_go(normalized: Iterable[Any]) -> None:
    """Drop pictures and films that have been encoded: the later blocks read only what kind each is.

    And whether it has a sound, so that sounds, which are small, stay.
    """
    for made in normalized:
        if made.kind == "image":
            made.image = None
        elif made.kind == "video":
            made.frames = None


def shortest_film(fps: int, sample_fps: float, patch: int) -> float:
    """How long a film must last, in seconds, to be read at all: `patch` frames of it at `sample_fps`.

    That is diffusers' rule for frames at `fps`, and half a frame less, which are rounded to one.
    """
    frames = round((patch - 1) * fps / sample_fps) + 1
    return (frames - 0.5) / fps
