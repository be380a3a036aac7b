"""Rectified flow as Wan learns it: what a transformer is asked on the straight line from a clip to noise.

At noise level s, from 0 to 1, it gets (1 - s) · clip + s · noise and the time 1000 · s, and should say
noise - clip.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom

from training.latents import Batch

Task = Literal["t2v", "i2v", "ti2v"]

CHANNELS: dict[Task, tuple[int, int]] = {"t2v": (16, 16), "i2v": (36, 16), "ti2v": (48, 48)}
"""Channels in and out of a task's transformer."""

LAYOUTS: dict[Task, str] = {"t2v": "z16", "i2v": "z16", "ti2v": "z48"}


@dataclass(frozen=True, slots=True)
class Levels:
    """The noise levels of a run: `low` to `high`, spread as a sampler of this `shift` spreads its steps."""

    low: float = 0.0
    high: float = 1.0
    shift: float = 3.0

    def draw(self, count: int, generator: torch.Generator) -> torch.Tensor:
        """Levels (count,), float32, one in each of as many parts of the range: less chance, same spread."""
        start, end = (level / (self.shift + (1 - self.shift) * level) for level in (self.low, self.high))
        even = (torch.arange(count) + torch.rand(count, generator=generator)) / count
        even = start + (end - start) * even[torch.randperm(count, generator=generator)]
        return self.shift * even / (1 + (self.shift - 1) * even)


@dataclass(frozen=True, slots=True)
class Question:
    """What a transformer gets, and what it should answer where `counts`."""

    hidden_states: torch.Tensor
    timestep: torch.Tensor
    answer: torch.Tensor
    counts: torch.Tensor

    def loss(self, given: torch.Tensor) -> torch.Tensor:
        """Mean square of what is wrong with an answer."""
        wrong = F.mse_loss(given.float(), self.answer, reduction="none") * self.counts
        return wrong.mean() / self.counts.expand_as(wrong).mean()


def question(task: Task, batch: Batch, levels: torch.Tensor, generator: torch.Generator) -> Question:
    """Put noise on a batch, and beside it the pictures that the task starts from."""
    clip = batch.latents
    own = torch.Generator(clip.device).manual_seed(int(torch.randint(2**31, (), generator=generator)))
    noise = torch.randn(clip.shape, generator=own, device=clip.device)
    level = levels.to(clip.device).view(-1, 1, 1, 1, 1)
    noisy = torch.lerp(clip, noise, level)
    times = 1000 * levels.to(clip.device)
    everywhere = torch.ones(1, 1, 1, 1, 1, device=clip.device)
    if task == "t2v":
        return Question(noisy, times, noise - clip, everywhere)
    if task == "i2v":
        return Question(
            torch.cat([noisy, _pictures(batch, generator)], dim=1), times, noise - clip, everywhere
        )
    return _from_first(clip, noise, noisy, times, generator)


def _pictures(batch: Batch, generator: torch.Generator) -> torch.Tensor:
    """Mask (4 places for the frames of a latent one) and encoded pictures; half of the clips get a last."""
    assert batch.first is not None
    assert batch.both is not None
    clips, _, frames, height, width = batch.latents.shape
    last = (torch.rand(clips, generator=generator) < 0.5).to(batch.latents.device).view(-1, 1, 1, 1, 1)
    encoded = torch.where(last, batch.both, batch.first)
    mask = torch.zeros(clips, 4, frames, height, width, device=batch.latents.device)
    mask[:, :, 0] = 1
    mask[:, 3:, -1:] = last.float()
    return torch.cat([mask, encoded], dim=1)


def _from_first(
    clip: torch.Tensor,
    noise: torch.Tensor,
    noisy: torch.Tensor,
    times: torch.Tensor,
    generator: torch.Generator,
) -> Question:
    """Half of the clips get their first latent frame clean, at time 0, and are not asked about it."""
    clips, _, frames, height, width = clip.shape
    given = (torch.rand(clips, generator=generator) < 0.5).to(clip.device)
    first = torch.zeros(clips, 1, frames, 1, 1, dtype=torch.bool, device=clip.device)
    first[:, :, 0] = given.view(-1, 1, 1, 1)
    by_frame = torch.where(first.view(clips, frames), 0.0, times.view(-1, 1))
    timestep = by_frame.repeat_interleave((height // 2) * (width // 2), dim=1)
    return Question(torch.where(first, clip, noisy), timestep, noise - clip, (~first).float())
