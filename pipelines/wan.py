"""Wan 2.1 and 2.2 (T2V, I2V, TI2V; A14B with two experts, 5B with one) over diffusers' components."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from functools import partial
from typing import Any

import torch
from diffusers import DiffusionPipeline

from pipelines.base import (
    Chunk,
    Control,
    GenerationParams,
    Grid,
    ModelConfig,
    ModelInfo,
    ReferenceUse,
    Task,
)
from pipelines.device_memory import enough_memory_for
from pipelines.errors import BadOutput, LoadFailed
from pipelines.fit import trim
from pipelines.latents import draw, load_fixed
from pipelines.wan_condition import Condition, NoCondition, concatenated, denormalized, first_frame
from pipelines.wan_defaults import ONE_EXPERT, boundary_of, defaults_of
from pipelines.wan_denoise import Embeddings, Expert, Experts, denoise, scheduler_for
from pipelines.wan_parts import decoder_of, embed, load_parts
from pipelines.wan_warm import WARM_VIDEO, warm

NEGATIVE_PROMPT = (
    "色调艳丽，过曝，静态，细节模糊不清，字幕，风格，作品，画作，画面，静止，整体发灰，最差质量，低质量，"
    "JPEG压缩残留，丑陋的，残缺的，多余的手指，画得不好的手部，画得不好的脸部，畸形的，毁容的，形态畸形的肢体，"
    "手指融合，静止不动的画面，杂乱的背景，三条腿，背景人很多，倒着走"
)
"""The official text of Wan 2.2's `sample_neg_prompt`."""

_IMAGE_USE: dict[Task, ReferenceUse] = {"t2v": "none", "i2v": "required", "ti2v": "optional"}


def load_wan(config: ModelConfig, device: str) -> Wan:
    """Load a diffusers folder or hub repository of the Wan family onto `device`.

    Raises:
        LoadFailed: missing or broken files, or a checkpoint of another family.
    """
    pipe = load_parts(config, torch.device(device), _read)
    return Wan(pipe, config, torch.device(device))


def _read(path: str, dtype: torch.dtype) -> Any:
    return DiffusionPipeline.from_pretrained(path, dtype=dtype, use_safetensors=True)


def _task(pipe: Any, config: ModelConfig) -> Task:
    names: dict[str, Task] = {"WanPipeline": "t2v", "WanImageToVideoPipeline": "i2v"}
    name = type(pipe).__name__
    if name not in names:
        raise LoadFailed(
            f"model {config.id}: {config.path} holds a {name}; kind wan serves {', '.join(names)}"
        )
    return "ti2v" if pipe.config.expand_timesteps else names[name]


class Wan:
    """A loaded Wan checkpoint; see `pipelines.base.Pipeline`."""

    def __init__(self, pipe: Any, config: ModelConfig, device: torch.device) -> None:
        pipe.set_progress_bar_config(disable=True)
        self._pipe = pipe
        self._device = device
        self._decoder = decoder_of(pipe, config)
        self._tile = config.decode.tile
        self.info = _info(pipe, config)
        if device.type == "cuda":
            encoded = {"none": 0, "optional": 1, "required": WARM_VIDEO}[self.info.image]
            warm(pipe, self._decoder, self.info.grid, config, encoded)

    @torch.inference_mode()
    def generate(self, params: GenerationParams, control: Control) -> Generator[Chunk]:
        """See `pipelines.base.Pipeline.generate`."""
        try:
            with enough_memory_for(params):
                yield from self._generate(params, control)
        finally:
            self._pipe.maybe_free_model_hooks()

    def _generate(self, params: GenerationParams, control: Control) -> Iterator[Chunk]:
        width, height = self.info.grid.side(params.width), self.info.grid.side(params.height)
        noises = self._noises(params, width, height)
        experts = self._experts(params)
        control.progress("prompt", 0, 1)
        embeddings = embed(self._pipe, params, self._device, guided=experts.guided)
        control.progress("prompt", 1, 1)
        condition = self._condition(params, width, height, control)
        for output, noise in enumerate(noises):
            latents = self._denoise(params, noise, experts, embeddings, condition, control, output)
            for frames in self._decode(params, latents, control, output):
                yield Chunk(frames, output)

    def _noises(self, params: GenerationParams, width: int, height: int) -> Iterator[torch.Tensor]:
        grid, vae = self.info.grid, self._pipe.vae.config
        frames = (grid.frames(params.num_frames) - 1) // grid.temporal + 1
        scale = vae.scale_factor_spatial
        shape = (vae.z_dim, frames, height // scale, width // scale)
        if params.latents is None:
            return draw(params.seed, params.num_outputs, shape)
        return load_fixed(params.latents, params.num_outputs, shape)

    def _experts(self, params: GenerationParams) -> Experts:
        assert params.guidance_scale is not None
        high = Expert(self._pipe.transformer, params.guidance_scale)
        if boundary_of(self._pipe) is None:
            return Experts(high, None, 0)
        assert params.guidance_scale_2 is not None
        assert params.boundary_ratio is not None
        low = Expert(self._pipe.transformer_2, params.guidance_scale_2)
        return Experts(high, low, params.boundary_ratio * self._pipe.scheduler.config.num_train_timesteps)

    def _condition(self, params: GenerationParams, width: int, height: int, control: Control) -> Condition:
        if params.image is None:
            return NoCondition(expand=bool(self._pipe.config.expand_timesteps))
        control.progress("image", 0, 1)
        condition: Condition
        vae, device, tile = self._pipe.vae, self._device, self._tile
        tell = partial(control.progress, "image", 0, 1)
        if self.info.task == "ti2v":
            condition = first_frame(vae, params, width, height, device, tile, tell)
        else:
            frames = self.info.grid.frames(params.num_frames)
            condition = concatenated(vae, params, frames, width, height, device, tile, tell)
        control.progress("image", 1, 1)
        return condition

    def _denoise(
        self,
        params: GenerationParams,
        noise: torch.Tensor,
        experts: Experts,
        embeddings: Embeddings,
        condition: Condition,
        control: Control,
        output: int,
    ) -> torch.Tensor:
        scheduler = scheduler_for(params, self._pipe.scheduler, self._device)
        steps = len(scheduler.timesteps)

        def step_done(done: int, cost: float) -> None:
            whole = (output + cost) / params.num_outputs
            control.progress("denoise", output * steps + done, params.num_outputs * steps, whole)

        step_done(0, 0.0)
        latents = denoise(noise.to(self._device), experts, embeddings, condition, scheduler, step_done)
        if not bool(torch.isfinite(latents).all()):
            raise BadOutput("the denoised latents hold NaN or infinity")
        return latents

    def _decode(
        self, params: GenerationParams, latents: torch.Tensor, control: Control, output: int
    ) -> Iterator[torch.Tensor]:
        total, done = params.num_outputs * params.num_frames, output * params.num_frames
        control.progress("decode", done, total)

        def tile_done(frames: float) -> None:
            so_far = output * params.num_frames + min(frames, params.num_frames)
            control.progress("decode", done, total, so_far / total)

        decoded = self._decoder.decode(denormalized(self._pipe.vae, latents), tile_done)
        for frames in trim(decoded, params.num_frames, params.width, params.height):
            yield frames
            done += frames.shape[1]
            control.progress("decode", done, total)


def _info(pipe: Any, config: ModelConfig) -> ModelInfo:
    task = _task(pipe, config)
    patch = pipe.transformer.config.patch_size
    vae = pipe.vae.config
    return ModelInfo(
        id=config.id,
        aliases=config.aliases,
        description=config.description,
        kind=config.kind,
        task=task,
        image=_IMAGE_USE[task],
        last_image=task == "i2v",
        grid=Grid(temporal=vae.scale_factor_temporal, spatial=vae.scale_factor_spatial * patch[1]),
        defaults=defaults_of(pipe, config, NEGATIVE_PROMPT),
        limits=config.limits,
        unused=dict(ONE_EXPERT) if boundary_of(pipe) is None else {},
    )
