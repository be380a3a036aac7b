"""What wav2vec2 hears in a sound, a column for each frame of the video."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom

HEARD_RATE = 16_000
"""Samples a second of the sound that wav2vec2 takes."""
_HEARD_FPS = 50
"""Columns a second that it makes."""
FEATURE_FPS = 30
"""Columns a second after interpolation, from which the video's frames pick theirs."""
_LEAST_SAMPLES = HEARD_RATE // 5
"""Shorter sounds are filled up with silence: its convolutions need some."""


@torch.inference_mode()
def listen(extractor: Any, model: Any, sound: torch.Tensor) -> torch.Tensor:
    """Mono sound (N,) at `HEARD_RATE` → every hidden state of wav2vec2, (layers, C, T) at `FEATURE_FPS`.

    `extractor` normalizes the sound as the checkpoint wants it. On the model's device, in its dtype.
    """
    sound = F.pad(sound, (0, max(_LEAST_SAMPLES - len(sound), 0)))
    values = extractor(sound.cpu().numpy(), sampling_rate=HEARD_RATE, return_tensors="pt").input_values
    states = model(values.to(model.device, model.dtype), output_hidden_states=True).hidden_states
    heard = torch.cat(states).transpose(1, 2)
    columns = int(heard.shape[2] / _HEARD_FPS * FEATURE_FPS)
    return F.interpolate(heard, size=columns, mode="linear", align_corners=True)


def align(features: torch.Tensor, fps: Fraction, first: int, count: int) -> torch.Tensor:
    """Of `listen`'s (layers, C, T) the columns of `count` frames from `first` on: (1, layers, C, count).

    Frame `n` is shown at `n / fps` seconds, and takes the column nearest to that; before the start the first
    column, after the end zeros. That is the official choice at any rate; of two as near, the even one.
    """
    total = features.shape[2]
    picked = [max(round(Fraction(n * FEATURE_FPS) / fps), 0) for n in range(first, first + count)]
    index = torch.tensor([min(place, total) for place in picked], device=features.device)
    return F.pad(features, (0, 1))[:, :, index].unsqueeze(0)
