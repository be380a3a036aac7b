"""The streaming decoder of Wan's VAEs (z16 of Wan 2.1 and 2.2 A14B, z48 of Wan 2.2 5B).

A causal convolution looks at two earlier frames of its input and no more. Each keeps just those, zeros at the
start, so that after the first latent frame every step is the same function of (latents, caches) to
(frames, caches), whatever has been decoded before.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom
from diffusers import AutoencoderKLWan

from pipelines.wan_vae import exact as exactly
from pipelines.wan_vae.convs import Convs, lay_channels_last
from pipelines.wan_vae.fast import Caches, Step
from pipelines.wan_vae.memory import Plan, plan


class StreamingDecoder:
    """Decodes latents step by step with a VAE's own weights; holds no state between or during decodes."""

    def __init__(self, vae: AutoencoderKLWan, *, chunk: int | None = None, exact: bool = False) -> None:
        """`chunk`: latent frames a step, at least 1; None: by the memory that is free, see `memory.plan`.

        `exact`: the same bits as `AutoencoderKLWan.decode` on the same device, in the same dtype. That takes
        diffusers' own operators on one latent frame a step. Without it results differ by rounding.
        """
        if chunk is not None and chunk < 1:
            raise ValueError(f"chunk is {chunk}; allowed: 1 and above")
        self._vae = vae
        self._chunk = chunk
        self._exact = exact
        if not exact:
            lay_channels_last(vae.decoder)

    def decode(self, latents: torch.Tensor) -> Iterator[torch.Tensor]:
        """Yield the frames of `latents` in order, each stretch as soon as it is finished.

        `latents`: (1, z_dim, T, H, W), T ≥ 1, de-normalised as `AutoencoderKLWan.decode` takes them, in the
        VAE's dtype, on its device. Yields (3, t, H · scale, W · scale) in [-1, 1] in that dtype: one frame
        for the first latent frame, a step of its own, then four for each further one. Their steps grow from
        1 to `chunk` latent frames; what a step makes comes in stretches of at most `memory.Plan.stretch`.

        Memory grows with T by the latents alone and is freed with the iterator. Several may run side by side.

        Raises:
            ValueError: latents of another shape.
        """
        allowed = (1, self._vae.config.z_dim)
        if latents.ndim != 5 or tuple(latents.shape[:2]) != allowed or latents.shape[2] < 1:
            raise ValueError(
                f"latents are {tuple(latents.shape)}; allowed: {allowed} + (T ≥ 1, height, width)"
            )
        return self._stream(latents)

    @torch.inference_mode()
    def _stream(self, latents: torch.Tensor) -> Iterator[torch.Tensor]:
        self._move_to_device()
        # Nothing here may hold on to what is yielded: the next step would have to fit beside it.
        if self._exact:
            yield from exactly.stream(self._vae, latents)
            return
        for frames in self._steps(latents, plan(self._vae, latents, self._chunk)):
            yield _picture(frames, self._vae.config.patch_size)

    def _steps(self, latents: torch.Tensor, sizes: Plan) -> Iterator[torch.Tensor]:
        conv = self._vae.post_quant_conv
        x = F.linear(latents[0].permute(1, 2, 3, 0).contiguous(), conv.weight.flatten(1), conv.bias)
        caches = Caches(Convs(x.device, x.dtype))
        decoder = self._vae.decoder
        yield from Step(decoder, caches, first=True, stretch=sizes.stretch).run(x[:1])
        start, size = 1, 1
        while start < x.shape[0]:
            step = Step(decoder, caches, first=False, stretch=sizes.stretch)
            yield from step.run(x[start : start + size])
            start, size = start + size, min(sizes.chunk, 2 * size)  # the first frames leave early

    def _move_to_device(self) -> None:
        """Where the VAE is offloaded: what accelerate would do before `AutoencoderKLWan.decode`."""
        hook = getattr(self._vae, "_hf_hook", None)
        if hook is not None:
            hook.pre_forward(self._vae)


def _picture(frames: torch.Tensor, patch: int | None) -> torch.Tensor:
    """(T, H, W, channels · patch²) to (channels, T, H · patch, W · patch), clipped; the layout may be any."""
    frames = frames.clamp_(-1, 1)
    if patch is None:
        return frames.permute(3, 0, 1, 2)
    count, height, width, channels = frames.shape
    channels //= patch * patch
    split = frames.view(count, height, width, channels, patch, patch)
    return split.permute(3, 0, 1, 5, 2, 4).reshape(channels, count, height * patch, width * patch)
