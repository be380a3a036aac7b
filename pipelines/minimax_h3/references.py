"""Stored files of references → diffusers' references, at the model's own rates."""

from __future__ import annotations

from typing import Any

from diffusers.modular_pipelines.minimax_h3 import (
    MiniMaxH3AudioReference,
    MiniMaxH3ImageReference,
    MiniMaxH3VideoReference,
)
from PIL import Image

from pipelines.base import Reference
from pipelines.media import read_film, read_sound


def read(reference: Reference, fps: int, sample_rate: int, frames: int) -> Any:
    """Read one, of a length of at most `frames` frames at `fps` a second."""
    seconds = frames / fps
    if reference.kind == "image":
        with Image.open(reference.path) as picture:
            return MiniMaxH3ImageReference(picture.convert("RGB"))
    sound = read_sound(reference.path, sample_rate, seconds)
    if reference.kind == "audio":
        assert sound is not None  # the server has looked
        return MiniMaxH3AudioReference(sound, sample_rate)
    film = read_film(reference.path, fps, frames)
    return MiniMaxH3VideoReference(film, float(fps), sound, None if sound is None else sample_rate)


def shortest_film(fps: int, sample_fps: float, patch: int) -> float:
    """How long a film must last, in seconds, to be read at all: `patch` frames of it at `sample_fps`.

    That is diffusers' rule for frames at `fps`, and half a frame less, which are rounded to one.
    """
    frames = round((patch - 1) * fps / sample_fps) + 1
    return (frames - 0.5) / fps
