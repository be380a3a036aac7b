"""What Wan is told about given pictures, next to the noise that it denoises."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from diffusers import AutoencoderKLWan

from pipelines.base import GenerationParams
from pipelines.fit import cover, to_pixels
from pipelines.wan_vae.encoder import Tell
from pipelines.wan_vae.encoder import encode as encode_video
from pipelines.wan_vae.memory import Tiling


@dataclass(frozen=True, slots=True)
class NoCondition:
    """Text alone; `expand` gives every token its own timestep, as the 5B model takes them."""

    expand: bool

    def inputs(self, latents: torch.Tensor, t: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The transformer's `hidden_states` (1, C, T, H, W) and `timestep` for `latents` at time `t`."""
        if not self.expand:
            return latents, t.expand(1)
        tokens = latents.shape[2] * (latents.shape[3] // 2) * (latents.shape[4] // 2)
        return latents, t.expand(1, tokens)

    def finish(self, latents: torch.Tensor) -> torch.Tensor:
        """The latents to decode, after the last step."""
        return latents


@dataclass(frozen=True, slots=True)
class Concatenated:
    """I2V: a mask and the encoded pictures as further channels (1, 4 + C, T, H, W)."""

    channels: torch.Tensor

    def inputs(self, latents: torch.Tensor, t: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """See `NoCondition.inputs`."""
        return torch.cat([latents, self.channels], dim=1), t.expand(1)

    def finish(self, latents: torch.Tensor) -> torch.Tensor:
        """See `NoCondition.finish`."""
        return latents


@dataclass(frozen=True, slots=True)
class FirstFrame:
    """TI2V: the encoded picture (1, C, 1, H, W) stands in for the first latent frame, at time 0."""

    picture: torch.Tensor

    def inputs(self, latents: torch.Tensor, t: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """See `NoCondition.inputs`."""
        frame = (latents.shape[3] // 2) * (latents.shape[4] // 2)
        times = t.expand(1, latents.shape[2] * frame).clone()
        times[:, :frame] = 0
        return self.finish(latents), times

    def finish(self, latents: torch.Tensor) -> torch.Tensor:
        """See `NoCondition.finish`."""
        return torch.cat([self.picture, latents[:, :, 1:]], dim=2)


Condition = NoCondition | Concatenated | FirstFrame


def concatenated(
    vae: AutoencoderKLWan,
    params: GenerationParams,
    frames: int,
    width: int,
    height: int,
    device: torch.device,
    tile: Tiling = "auto",
    tell: Tell | None = None,
) -> Concatenated:
    """Encode the first and the optional last picture of `params`, at the grid's size, for an I2V model.

    The last picture is held from the last frame asked for to the grid's end, so that trimming keeps it.
    """
    assert params.image is not None
    video = torch.zeros(1, 3, frames, height, width, dtype=vae.dtype, device=device)
    known = torch.zeros(frames, device=device)
    video[:, :, 0], known[0] = _pixels(params, "image", width, height, video), 1
    if params.last_image is not None:
        last = params.num_frames - 1
        video[:, :, last:] = _pixels(params, "last_image", width, height, video).unsqueeze(2)
        known[last:] = 1
    encoded = encode(vae, video, tile, tell)
    # The first latent frame holds one frame, each further one four: give the first one four places as well.
    places = torch.cat([known[:1].expand(3), known]).view(-1, 4).transpose(0, 1)
    mask = places[None, :, :, None, None].expand(1, 4, *encoded.shape[2:])
    return Concatenated(torch.cat([mask, encoded], dim=1))


def first_frame(
    vae: AutoencoderKLWan,
    params: GenerationParams,
    width: int,
    height: int,
    device: torch.device,
    tile: Tiling = "auto",
    tell: Tell | None = None,
) -> FirstFrame:
    """Encode the picture of `params`, at the grid's size, for a TI2V model."""
    like = torch.empty(0, dtype=vae.dtype, device=device)
    return FirstFrame(encode(vae, _pixels(params, "image", width, height, like).unsqueeze(2), tile, tell))


def encode(
    vae: AutoencoderKLWan, video: torch.Tensor, tile: Tiling = "auto", tell: Tell | None = None
) -> torch.Tensor:
    """Video (1, 3, T, H, W) in [-1, 1] → normalized latents, float32, same device. `tell`: the encoder's."""
    mode = encode_video(vae, video, tile, tell).float()
    mean, std = statistics(vae, mode)
    return (mode - mean) / std


def denormalized(vae: AutoencoderKLWan, latents: torch.Tensor) -> torch.Tensor:
    """Normalized latents → as the VAE decodes them, in its dtype."""
    mean, std = statistics(vae, latents)
    return (latents * std + mean).to(vae.dtype)


def statistics(vae: AutoencoderKLWan, like: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The latents' mean and standard deviation by channel, (1, C, 1, 1, 1), as `like` in dtype and device."""
    config: Any = vae.config
    mean, std = (
        torch.tensor(values).view(1, -1, 1, 1, 1).to(like)
        for values in (config.latents_mean, config.latents_std)
    )
    return mean, std


def _pixels(
    params: GenerationParams, field: str, width: int, height: int, like: torch.Tensor
) -> torch.Tensor:
    """The picture of a field as (1, 3, height, width) in [-1, 1], as `like` in dtype and device."""
    return to_pixels(cover(getattr(params, field), width, height))[None, :, 0].to(like)
