"""The streaming decoder of Wan's VAEs (z16 of Wan 2.1 and 2.2 A14B, z48 of Wan 2.2 5B).

A causal convolution looks at two earlier frames of its input and no more. Each keeps just those, zeros at the
start, so that after the first latent frame every step is the same function of (latents, caches) to
(frames, caches), whatever has been decoded before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom
from diffusers import AutoencoderKLWan

from pipelines.wan_vae import exact as exactly
from pipelines.wan_vae import fp8 as in_fp8
from pipelines.wan_vae.convs import Convs, lay_channels_last
from pipelines.wan_vae.fast import Caches, Step
from pipelines.wan_vae.memory import Plan, Tiling, plan
from pipelines.wan_vae.tiles import TiledSteps


class StreamingDecoder:
    """Decodes latents step by step with a VAE's own weights; holds no state between or during decodes."""

    def __init__(
        self,
        vae: AutoencoderKLWan,
        *,
        chunk: int | None = None,
        tile: Tiling = "auto",
        exact: bool = False,
        taper: bool | None = None,
        fp8: bool = False,
    ) -> None:
        """`chunk`: latent frames a step, at least 1; None: by the memory that is free, see `memory.plan`.

        `tile`: width and height, in pixels, of the tiles that a step is made in; "auto": in tiles only where
        the memory asks for it; None: never. Chunks and their values are the same but for rounding.
        `exact`: the same bits as `AutoencoderKLWan.decode` on the same device, in the same dtype. That takes
        diffusers' own operators on one whole latent frame a step. Without it results differ by rounding.
        `taper`: the last step ends with ever fewer frames, so that little is left to be done with them once
        the decode is over; not in tiles, nor where exact. None: on a CUDA device, where they come quickly.
        `fp8`: convolutions of residual blocks in e4m3, on a Hopper GPU and with a bfloat16 VAE: faster, with
        about 8 times bfloat16's error (simulated; docs/decisions/2026-11-29-fp8.md). Not with `exact`.
        """
        if chunk is not None and chunk < 1:
            raise ValueError(f"chunk is {chunk}; allowed: 1 and above")
        if exact and fp8:
            raise ValueError("fp8 is True; allowed with exact: False")
        self._vae = vae
        self._chunk = chunk
        self._tile = tile
        self._exact = exact
        self._taper = taper
        self._fp8 = fp8
        if not exact:
            lay_channels_last(vae.decoder)

    def decode(
        self, latents: torch.Tensor, tile_done: Callable[[float], None] | None = None
    ) -> Iterator[torch.Tensor]:
        """Yield the frames of `latents` in order, each stretch as soon as it is finished.

        `latents`: (1, z_dim, T, H, W), T ≥ 1, de-normalised as `AutoencoderKLWan.decode` takes them, in the
        VAE's dtype, on its device. Yields (3, t, H · scale, W · scale) in [-1, 1] in that dtype: one frame
        for the first latent frame, a step of its own, then four for each further one. Their steps grow from
        1 to `chunk` latent frames; what a step makes comes in stretches of at most `memory.Plan.stretch`, of
        which the last are shorter with `taper`, or in one where it is made in tiles.
        `tile_done`: called before each tile with how many frames are done, a step's tiles counted as parts of
        its frames; what it raises ends the decode.

        Memory grows with T by the latents alone and is freed with the iterator. Several may run side by side;
        but each plans, when it begins, with all the memory that is free then.

        Raises:
            ValueError: latents of another shape; with the first frames, fp8 on a device that cannot.
        """
        allowed = (1, self._vae.config.z_dim)
        if latents.ndim != 5 or tuple(latents.shape[:2]) != allowed or latents.shape[2] < 1:
            raise ValueError(
                f"latents are {tuple(latents.shape)}; allowed: {allowed} + (T ≥ 1, height, width)"
            )
        return self._stream(latents, tile_done or (lambda frames: None))

    @torch.inference_mode()
    def _stream(self, latents: torch.Tensor, tile_done: Callable[[float], None]) -> Iterator[torch.Tensor]:
        self._move_to_device()
        # Nothing here may hold on to what is yielded: the next step would have to fit beside it.
        if self._exact:
            yield from exactly.stream(self._vae, latents)
            return
        if self._fp8 and (why := in_fp8.missing(latents.device, latents.dtype)):
            raise ValueError(f"fp8 is True; {why}")
        sizes = plan(self._vae, latents, self._chunk, self._tile, fp8=self._fp8)
        for frames in self._steps(latents, sizes, tile_done):
            yield _picture(frames, self._vae.config.patch_size)

    def _steps(
        self, latents: torch.Tensor, sizes: Plan, tile_done: Callable[[float], None]
    ) -> Iterator[torch.Tensor]:
        conv = self._vae.post_quant_conv
        x = F.linear(latents[0].permute(1, 2, 3, 0).contiguous(), conv.weight.flatten(1), conv.bias)
        scales = in_fp8.input_scales(self._vae.decoder) if sizes.fp8 else None
        caches = Caches(Convs(x.device, x.dtype, scales))
        tiled = None if sizes.tile is None else TiledSteps(self._vae, caches, x, sizes.tile)
        taper = x.is_cuda if self._taper is None else self._taper
        for steps in _steps_of(x.shape[0], sizes.chunk):
            part, first, ending = x[steps], steps.start == 0, taper and steps.stop == x.shape[0]
            if tiled is None:
                step = Step(self._vae.decoder, caches, first=first, stretch=sizes.stretch, taper=ending)
                yield from step.run(part)
            else:
                done = partial(_tell, tile_done, *map(_frames, (steps.start, steps.stop)))
                yield tiled.run(part, first=first, stretch=sizes.stretch, tile_done=done)

    def _move_to_device(self) -> None:
        """Where the VAE is offloaded: what accelerate would do before `AutoencoderKLWan.decode`."""
        hook = getattr(self._vae, "_hf_hook", None)
        if hook is not None:
            hook.pre_forward(self._vae)


def _steps_of(latent_frames: int, chunk: int) -> Iterator[slice]:
    """The first alone, then steps that grow to `chunk`: the first frames leave early."""
    start, size = 0, 1
    while start < latent_frames:
        yield slice(start, min(start + size, latent_frames))
        start, size = start + size, 1 if start == 0 else min(chunk, 2 * size)


def _frames(latent_frames: int) -> int:
    return max(0, 4 * latent_frames - 3)


def _tell(tile_done: Callable[[float], None], before: int, after: int, share: float) -> None:
    tile_done(before + share * (after - before))


def _picture(frames: torch.Tensor, patch: int | None) -> torch.Tensor:
    """(T, H, W, channels · patch²) to (channels, T, H · patch, W · patch), clipped; the layout may be any."""
    frames = frames.clamp_(-1, 1)
    if patch is None:
        return frames.permute(3, 0, 1, 2)
    count, height, width, channels = frames.shape
    channels //= patch * patch
    split = frames.view(count, height, width, channels, patch, patch)
    return split.permute(3, 0, 1, 5, 2, 4).reshape(channels, count, height * patch, width * patch)
