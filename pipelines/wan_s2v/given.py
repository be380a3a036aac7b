"""What a request gives the model: its sound, its picture, its poses."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import chain, islice, repeat
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from pipelines.errors import InvalidParams
from pipelines.fit import covering, to_pixels
from pipelines.media import film_frames, read_sound
from pipelines.wan_s2v.clips import ClipPlan
from pipelines.wan_s2v.features import HEARD_RATE, listen

SOUND_RATE = 48_000
"""Samples a second of the sound that is given back."""
SOUND_CHANNELS = 2


def sound_of(path: Path, seconds: float) -> torch.Tensor:
    """The first `seconds` of a sound, (2, N) at `SOUND_RATE`.

    Raises:
        InvalidParams: it has no samples.
    """
    return _read(path, SOUND_RATE, seconds).expand(SOUND_CHANNELS, -1)


def heard(pipe: Any, path: Path, seconds: float) -> torch.Tensor:
    """The features of the first `seconds` of a sound: see `features.listen`.

    Raises:
        InvalidParams: it has no samples.
    """
    _to_device(pipe.audio_encoder)
    sound = _read(path, HEARD_RATE, seconds).mean(dim=0)
    return listen(pipe.audio_extractor, pipe.audio_encoder, sound)


def _read(path: Path, rate: int, seconds: float) -> torch.Tensor:
    sound = read_sound(path, rate, seconds)
    if sound is None or sound.shape[1] == 0:
        raise InvalidParams("audio", f"{path.name} is not allowed: it holds no sound")
    return sound


def poses(film: Path, plan: ClipPlan, fps: Fraction, size: tuple[int, int]) -> Iterator[torch.Tensor]:
    """Each clip's poses, with their first frame once more before them: (1, 3, 1 + clip, H, W) in [-1, 1].

    The film shows its first frame before its start, and is black after its end. `size`: width and height of
    the generated picture.
    """
    black = torch.full((3, 1, size[1], size[0]), -1.0)
    shown = (to_pixels(covering(Image.fromarray(frame), *size)) for frame in film_frames(film, fps))
    first = next(shown, black)
    frames = chain(repeat(first, plan.lead + 1), shown, repeat(black))
    for _ in range(plan.count):
        clip = list(islice(frames, plan.clip))
        yield torch.cat([clip[0], *clip], dim=1).unsqueeze(0)


def _to_device(module: Any) -> None:
    """Where it is offloaded: what accelerate does before `forward`, when its device is asked for."""
    hook = getattr(module, "_hf_hook", None)
    if hook is not None:
        hook.pre_forward(module)
