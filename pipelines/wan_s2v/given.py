"""What a request gives the model: its sound, its picture, its poses."""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from pathlib import Path
from typing import Any

import torch

from pipelines.errors import InvalidParams
from pipelines.film import pictures_at
from pipelines.fit import covering, to_pixels
from pipelines.wan_condition import encode
from pipelines.wan_s2v.clips import ClipPlan
from pipelines.wan_s2v.features import HEARD_RATE, listen, thirded
from pipelines.wav import read_sound

SOUND_RATE = 3 * HEARD_RATE
"""Samples a second of the sound that is taken and given back."""
SOUND_CHANNELS = 2


def sound_of(path: Path, frames: int, fps: Fraction) -> torch.Tensor:
    """What `frames` frames last of the sound, (2, N) at `SOUND_RATE`.

    Raises:
        InvalidParams: another rate or number of channels, or no sound in it.
    """
    samples, rate = read_sound(path)
    if (rate, samples.shape[0]) != (SOUND_RATE, SOUND_CHANNELS):
        found = f"{samples.shape[0]} channels of {rate} samples a second"
        raise InvalidParams("audio", f"{found} are not allowed; {SOUND_CHANNELS} of {SOUND_RATE} are")
    if samples.shape[1] == 0:
        raise InvalidParams("audio", "a sound without samples is not allowed")
    return samples[:, : ceil(frames * SOUND_RATE / fps)]


def heard(pipe: Any, sound: torch.Tensor) -> torch.Tensor:
    """The features of `sound_of`'s sound: see `features.listen`."""
    _to_device(pipe.audio_encoder)
    return listen(pipe.audio_extractor, pipe.audio_encoder, thirded(sound).mean(dim=0))


def poses(vae: Any, film: Path, plan: ClipPlan, fps: Fraction, size: tuple[int, int]) -> list[torch.Tensor]:
    """The latents of each clip's poses, (1, C, t, H, W), float32, on the CPU; black after the film's end.

    `size`: width and height of the generated picture.
    """
    numbers = range(plan.first_frame(0), plan.first_frame(plan.count))
    pictures = pictures_at(film, (Fraction(n) / fps for n in numbers))
    made = []
    for _ in range(plan.count):
        shown = [next(pictures) for _ in range(plan.clip)]
        black = torch.full((3, 1, size[1], size[0]), -1.0)
        frames = [black if each is None else to_pixels(covering(each, *size)) for each in shown]
        video = torch.cat([frames[0], *frames], dim=1).unsqueeze(0).to(vae.device, vae.dtype)
        made.append(encode(vae, video)[:, :, 1:].cpu())
    return made


def _to_device(module: Any) -> None:
    """Where it is offloaded: what accelerate does before `forward`, when its device is asked for."""
    hook = getattr(module, "_hf_hook", None)
    if hook is not None:
        hook.pre_forward(module)
