"""Wan 2.2 S2V: a picture, a voice and a prompt become a talking video, clip by clip."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import torch

from pipelines.base import Chunk, Control, GenerationParams, ModelConfig, Sound
from pipelines.device_memory import enough_memory_for
from pipelines.errors import BadOutput, InvalidParams
from pipelines.fit import cover, to_pixels, trim
from pipelines.latents import draw, load_fixed
from pipelines.wan_condition import denormalized, encode
from pipelines.wan_denoise import Embeddings, scheduler_for
from pipelines.wan_parts import decoder_of, embed
from pipelines.wan_s2v.clips import ClipPlan, Motion
from pipelines.wan_s2v.denoise import Given, denoise_clip, official_sigmas
from pipelines.wan_s2v.features import align
from pipelines.wan_s2v.given import SOUND_RATE, heard, poses, sound_of
from pipelines.wan_s2v.info import info_of
from pipelines.wan_warm import WARM_VIDEO, warm


@dataclass(frozen=True, slots=True)
class _Job:
    """One request's plan, and what all of its clips and outputs share."""

    params: GenerationParams
    plan: ClipPlan
    fps: Fraction
    size: tuple[int, int]
    """Width and height on the grid."""
    embeddings: Embeddings
    features: torch.Tensor
    picture: torch.Tensor
    """(3, 1, H, W), as the VAE takes it."""
    reference: torch.Tensor
    """Its latents."""
    poses: list[torch.Tensor] | None
    """By clip."""
    control: Control


class _Shown:
    """How many frames of an output are given."""

    def __init__(self, params: GenerationParams, output: int, control: Control) -> None:
        self._done = output * params.num_frames
        self._total = params.num_outputs * params.num_frames
        self._control = control

    def add(self, frames: int) -> None:
        self._done += frames
        self.tell()

    def tell(self, _: float = 0.0) -> None:
        """Say it again: whoever listens may cancel here."""
        self._control.progress("decode", self._done, self._total)


class WanS2V:
    """A loaded speech-to-video checkpoint; see `pipelines.base.Pipeline`."""

    def __init__(self, pipe: Any, config: ModelConfig, device: torch.device) -> None:
        pipe.set_progress_bar_config(disable=True)
        self._pipe = pipe
        self._device = device
        self._decoder = decoder_of(pipe, config)
        self._tile = config.decode.tile
        self.info = info_of(pipe, config)
        if device.type == "cuda":
            warm(pipe, self._decoder, self.info.grid, config, WARM_VIDEO)

    @torch.inference_mode()
    def generate(self, params: GenerationParams, control: Control) -> Generator[Chunk | Sound]:
        """See `pipelines.base.Pipeline.generate`.

        A clip's chunks are given before the next one is denoised, which goes on from their last frames.
        """
        try:
            with enough_memory_for(params):
                yield from self._generate(params, control)
        finally:
            self._pipe.maybe_free_model_hooks()

    def _generate(self, params: GenerationParams, control: Control) -> Iterator[Chunk | Sound]:
        if params.image is None or params.audio is None:
            missing = "image" if params.image is None else "audio"
            raise InvalidParams(
                missing, f"None is not allowed; {self.info.id} starts from a picture and a sound"
            )
        fps = self.info.defaults.fps if params.fps is None else params.fps
        sound = sound_of(params.audio, float(params.num_frames / fps))
        noises = self._noises(params)
        job = self._prepared(params, fps, control)
        for output in range(params.num_outputs):
            yield Sound(sound, SOUND_RATE, output)
            shown = _Shown(params, output, control)
            clips = self._clips(job, noises[output], output, shown)
            for frames in trim(clips, params.num_frames, params.width, params.height):
                yield Chunk(frames, output)
                shown.add(frames.shape[1])

    def _plan(self, params: GenerationParams) -> ClipPlan:
        motion = self._pipe.transformer.config.motion_frames
        clip = self._pipe.config.clip_frames
        return ClipPlan(clip, motion, params.num_frames, params.init_first_frame)

    def _size(self, params: GenerationParams) -> tuple[int, int]:
        side = self.info.grid.side
        return side(params.width), side(params.height)

    def _noises(self, params: GenerationParams) -> list[Callable[[int], torch.Tensor]]:
        """By output: the noise (1, C, t, H, W) of a clip, by its number.

        Clip `r` is drawn with the seed plus `r`, as the official code does; a file holds all clips in a row.
        """
        plan, vae = self._plan(params), self._pipe.vae.config
        width, height = (side // vae.scale_factor_spatial for side in self._size(params))
        count, frames = params.num_outputs, plan.latent_frames
        if params.latents is None:
            shape = (vae.z_dim, frames, height, width)
            return [_drawn(params.seed, output, shape) for output in range(count)]
        whole = load_fixed(params.latents, count, (vae.z_dim, plan.count * frames, height, width))
        return [_sliced(noise, frames) for noise in whole]

    def _prepared(self, params: GenerationParams, fps: Fraction, control: Control) -> _Job:
        pipe, size, plan = self._pipe, self._size(params), self._plan(params)
        control.progress("prompt", 0, 1)
        embeddings = self._embed(params)
        control.progress("prompt", 1, 1)
        control.progress("image", 0, 1)
        assert params.audio is not None  # checked before, as the picture is
        assert params.image is not None
        videos = 1 if params.video is None else 1 + plan.count

        def encoding(video: int, share: float) -> None:
            control.progress("image", video, videos, (video + share) / videos)

        features = heard(pipe, params.audio, float(params.num_frames / fps))
        picture = to_pixels(cover(params.image, *size)).to(self._device, pipe.vae.dtype)
        job = _Job(
            params=params,
            plan=plan,
            fps=fps,
            size=size,
            embeddings=embeddings,
            features=features,
            picture=picture,
            reference=encode(pipe.vae, picture.unsqueeze(0), self._tile, partial(encoding, 0)),
            poses=None if params.video is None else self._poses(params.video, plan, fps, size, encoding),
            control=control,
        )
        control.progress("image", 1, 1)
        return job

    def _poses(
        self,
        film: Path,
        plan: ClipPlan,
        fps: Fraction,
        size: tuple[int, int],
        encoding: Callable[[int, float], None],
    ) -> list[torch.Tensor]:
        """Of each clip. `encoding` is told the clip's number, from 1 on, and how much of it is done."""
        vae, made = self._pipe.vae, []
        for clip, video in enumerate(poses(film, plan, fps, size), 1):
            latents = encode(vae, video.to(self._device, vae.dtype), self._tile, partial(encoding, clip))
            # Of the frame that stands before each clip nothing is kept; on the CPU, as there may be many.
            made.append(latents[:, :, 1:].cpu())
        return made

    def _embed(self, params: GenerationParams) -> Embeddings:
        assert params.guidance_scale is not None
        return embed(self._pipe, params, self._device, guided=params.guidance_scale > 1)

    def _clips(
        self, job: _Job, noise: Callable[[int], torch.Tensor], output: int, shown: _Shown
    ) -> Iterator[torch.Tensor]:
        """All frames of one output that are shown, and more, in stretches (3, T, H, W) on the grid."""
        plan, motion = job.plan, Motion(job.plan, job.picture)
        for clip in range(plan.count):
            before = None
            if plan.has_motion(clip):
                tell = shown.tell if clip else lambda _: job.control.progress("image", 1, 1)
                before = encode(self._pipe.vae, motion.frames.unsqueeze(0), self._tile, tell)
            latents = self._denoised(job, noise(clip), before, clip, output)
            given = job.reference if before is None else before
            for frames in self._decoded(torch.cat([given, latents], dim=2), plan.skipped(clip), shown):
                yield frames
                if clip + 1 < plan.count:
                    motion.add(frames)

    def _denoised(
        self, job: _Job, noise: torch.Tensor, before: torch.Tensor | None, clip: int, output: int
    ) -> torch.Tensor:
        params, plan = job.params, job.plan
        given = Given(
            audio=align(job.features, job.fps, plan.first_frame(clip), plan.clip),
            reference_latents=job.reference,
            motion_latents=before,
            pose_latents=None if job.poses is None else job.poses[clip].to(self._device),
        )
        scheduler = scheduler_for(
            params, self._pipe.scheduler, self._device, official_sigmas(params.num_inference_steps)
        )
        steps = len(scheduler.timesteps)
        first, total = (output * plan.count + clip) * steps, params.num_outputs * plan.count * steps

        def step_done(step: int) -> None:
            job.control.progress("denoise", first + step, total)

        step_done(0)
        assert params.guidance_scale is not None
        latents = denoise_clip(
            noise.to(self._device),
            self._pipe.transformer,
            params.guidance_scale,
            job.embeddings,
            given,
            scheduler,
            step_done,
        )
        if not bool(torch.isfinite(latents).all()):
            raise BadOutput(f"the denoised latents of clip {clip} hold NaN or infinity")
        return latents

    def _decoded(self, latents: torch.Tensor, skipped: int, shown: _Shown) -> Iterator[torch.Tensor]:
        """The frames of normalized latents without the first `skipped`; a cancel is heard among those too."""
        for frames in self._decoder.decode(denormalized(self._pipe.vae, latents), shown.tell):
            shown.tell()
            kept = frames[:, skipped:]
            skipped = max(skipped - frames.shape[1], 0)
            if kept.shape[1]:
                yield kept


def _drawn(seed: int, output: int, shape: tuple[int, ...]) -> Callable[[int], torch.Tensor]:
    return lambda clip: list(draw(seed + clip, output + 1, shape))[output]


def _sliced(noise: torch.Tensor, frames: int) -> Callable[[int], torch.Tensor]:
    return lambda clip: noise[:, :, clip * frames : (clip + 1) * frames]
