"""MiniMax-H3 as a pipeline: requests in, sound and chunks of frames out."""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterator
from fractions import Fraction
from typing import Any

import torch
from diffusers.modular_pipelines.minimax_h3.modular_pipeline import MINIMAX_H3_MAX_ASPECT_RATIO

from pipelines.base import (
    Chunk,
    Control,
    DecodeConfig,
    GenerationParams,
    Grid,
    ModelConfig,
    ModelDefaults,
    ModelInfo,
    Reference,
    ReferenceLimits,
    Sound,
    SoundFormat,
)
from pipelines.device_memory import enough_memory_for
from pipelines.errors import BadOutput, InvalidParams, LoadFailed, loading
from pipelines.fit import cover, trim
from pipelines.latents import load_fixed
from pipelines.minimax_h3.blocks import CONDITION, SETUP, SOUND, Run
from pipelines.minimax_h3.conditioning import condition
from pipelines.minimax_h3.decode import frames as decoded_frames
from pipelines.minimax_h3.loading import load
from pipelines.minimax_h3.processor import PLACES, SEES_FILMS
from pipelines.minimax_h3.references import read, shortest_film
from pipelines.minimax_h3.warm import decode_once
from pipelines.reference_work import ReferenceWork
from pipelines.warming import room_for, warming

logger = logging.getLogger(__name__)

WITHOUT_FILMS = "model takes no films: torchvision is not installed"
"""An event of the log."""

_DISTILLED = "is distilled: its guidance is part of its weights"
UNUSED = {
    "guidance_scale": _DISTILLED,
    "guidance_scale_2": _DISTILLED,
    "boundary_ratio": "has no experts to change between",
    "negative_prompt": _DISTILLED,
    "max_sequence_length": "reads a prompt of any length as it is",
}
"""Fields of a request without a meaning here."""


def load_minimax_h3(config: ModelConfig, device: str) -> MiniMaxH3:
    """Load a diffusers folder or hub repository of MiniMax-H3 onto `device`.

    Raises:
        LoadFailed: missing or broken files, a checkpoint of another family, or settings that it can't meet.
    """
    for name, why in _unused_settings(config):
        raise LoadFailed(f"model {config.id}: {name} is not allowed; the model {why}")
    with loading(config.id, config.path):
        pipe, tasks = load(config, torch.device(device))
    if "ref2va" in tasks and not SEES_FILMS:
        logger.warning(WITHOUT_FILMS, extra={"model": config.id})
    return MiniMaxH3(pipe, tasks, config, torch.device(device))


def _unused_settings(config: ModelConfig) -> Iterator[tuple[str, str]]:
    """Settings that are given and have no meaning here, and why."""
    yield from ((name, why) for name, why in UNUSED.items() if getattr(config, name) is not None)
    usual = DecodeConfig(kernels=config.decode.kernels)
    for name in DecodeConfig.__dataclass_fields__:
        if getattr(config.decode, name) != getattr(usual, name):
            yield f"decode.{name}", "is decoded clip by clip, exactly as diffusers does it"


class MiniMaxH3:
    """A loaded checkpoint; see `pipelines.base.Pipeline`."""

    def __init__(self, pipe: Any, tasks: tuple[str, ...], config: ModelConfig, device: torch.device) -> None:
        self._pipe = pipe
        self._device = device
        self.info = _info(pipe, tasks, config)
        if device.type == "cuda" and config.offload == "none":  # or the VAE would come and go for it
            self._warm(tasks[0], config)

    @torch.inference_mode()
    def _warm(self, task: str, config: ModelConfig) -> None:
        grid = self.info.grid
        sides = grid.side(config.width), grid.side(config.height)
        with warming(config.id, self._device), room_for(config.id, config.width, config.height):
            decode_once(self._pipe, task, *sides, grid.frames(config.num_frames), self._device)

    @torch.inference_mode()
    def generate(self, params: GenerationParams, control: Control) -> Generator[Chunk | Sound]:
        """See `pipelines.base.Pipeline.generate`."""
        with enough_memory_for(params):
            yield from self._generate(params, control)

    def _generate(self, params: GenerationParams, control: Control) -> Iterator[Chunk | Sound]:
        self._pipe.scheduler.set_shift(params.flow_shift)
        fixed = self._fixed_latents(params)
        run = Run(self._pipe, _task(params), self._inputs(params, control))
        frames = self.info.grid.frames(params.num_frames)
        condition(run, self._pipe, params.references, frames, control)
        for output in range(params.num_outputs):
            way = run.branch(**({} if fixed is None else {"latents": next(fixed)}))
            self._denoise(way, params, control, output)
            yield from self._decode(way, params, control, output)

    def _inputs(self, params: GenerationParams, control: Control) -> dict[str, Any]:
        _check_prompt(params.prompt)
        grid = self.info.grid
        width, height = grid.side(params.width), grid.side(params.height)
        frames = grid.frames(params.num_frames)
        given: dict[str, Any] = {
            "prompt": params.prompt,
            "width": width,
            "height": height,
            "num_frames": frames,
            # diffusers counts the end of the schedule as a step.
            "num_inference_steps": params.num_inference_steps + 1,
            "generator": torch.Generator("cpu").manual_seed(params.seed),
        }
        # At the grid's size already, so that the blocks neither stretch nor crop them.
        for name, path in (("image", params.image), ("last_image", params.last_image)):
            if path is not None:
                given[name] = cover(path, width, height)
        if params.references:
            given["references"] = list(self._read(params.references, frames, control))
        return given

    def _read(self, references: tuple[Reference, ...], frames: int, control: Control) -> Iterator[Any]:
        fps, rate = self._pipe.fps, self._pipe.audio_sampling_rate
        for each in references:
            control.progress("prompt", 0, 1)
            yield read(each, fps, rate, frames)

    def _fixed_latents(self, params: GenerationParams) -> Iterator[torch.Tensor] | None:
        if params.latents is None:
            return None
        grid, pipe = self.info.grid, self._pipe
        clips = (grid.frames(params.num_frames) - grid.offset) // grid.temporal
        scale = pipe.vae_spatial_compression_ratio
        sides = grid.side(params.height) // scale, grid.side(params.width) // scale
        length = clips * pipe.vae_latents_per_chunk + pipe.vae.token_overlap
        return load_fixed(params.latents, params.num_outputs, (pipe.vae_latent_channels, length, *sides))

    def _denoise(self, run: Run, params: GenerationParams, control: Control, output: int) -> None:
        def step_done(done: int, steps: int) -> None:
            control.progress("denoise", output * steps + done, params.num_outputs * steps)

        def after_layout(run: Run) -> None:
            if params.last_image is not None:
                run.end_earlier(run.get("num_frames") - params.num_frames)

        run.denoise(step_done, after_layout)
        if not run.finite():
            raise BadOutput("the denoised latents hold NaN or infinity")

    def _decode(
        self, run: Run, params: GenerationParams, control: Control, output: int
    ) -> Iterator[Chunk | Sound]:
        total, done = params.num_outputs * params.num_frames, output * params.num_frames
        control.progress("decode", done, total)
        run.run(SOUND)
        yield Sound(run.get("audio")[0], run.get("sampling_rate"), output)
        made = decoded_frames(self._pipe, run.get("latents"))
        for frames in trim(made, params.num_frames, params.width, params.height):
            yield Chunk(frames, output)
            done += frames.shape[1]
            control.progress("decode", done, total)


def _check_prompt(prompt: str) -> None:
    """Raise InvalidParams for words that the conditioner would take for pictures."""
    for place, why in PLACES.items():
        if place in prompt:
            raise InvalidParams("prompt", f"prompt: {place} is not allowed; it {why}")


def _task(params: GenerationParams) -> str:
    """diffusers' workflow for what is given."""
    if params.references:
        return "ref2va"
    return "t2va" if params.image is None and params.last_image is None else "fl2va"


def _info(pipe: Any, tasks: tuple[str, ...], config: ModelConfig) -> ModelInfo:
    fps = Fraction(pipe.fps)
    grid = Grid(
        temporal=pipe.vae_frames_per_chunk,
        spatial=pipe.canvas_multiple,
        offset=pipe.vae_latents_per_chunk,
        least_frames=int(pipe.min_duration * pipe.fps),
        fps=fps,
    )
    _check(pipe, config, grid)
    keyframes, from_text = "fl2va" in tasks, tasks != ("ref2va",)
    return ModelInfo(
        id=config.id,
        aliases=config.aliases,
        description=config.description,
        kind=config.kind,
        task="omni",
        image="optional" if keyframes else "none",
        last_image=keyframes,
        last_image_alone=keyframes,
        grid=grid,
        defaults=_defaults(pipe, config, fps),
        limits=config.limits,
        sound=SoundFormat(pipe.audio_sampling_rate, pipe.audio_channels),
        unused=UNUSED,
        reserved=PLACES,
        references=_reference_limits(pipe, required=not from_text) if "ref2va" in tasks else None,
    )


def _check(pipe: Any, config: ModelConfig, grid: Grid) -> None:
    if config.fps != grid.fps:
        raise LoadFailed(f"model {config.id}: fps: {config.fps} is not allowed; the model makes {grid.fps}")
    longest = int(pipe.max_duration * pipe.fps)
    while grid.frames(longest) > pipe.max_duration * pipe.fps:
        longest -= 1
    if config.limits.max_num_frames > longest:
        raise LoadFailed(
            f"model {config.id}: limits.max_num_frames: {config.limits.max_num_frames} is not allowed; "
            f"the model makes at most {longest}"
        )


def _reference_limits(pipe: Any, *, required: bool) -> ReferenceLimits:
    setup, reader = (pipe.blocks.get_workflow("ref2va").sub_blocks[name] for name in (SETUP, CONDITION))
    return ReferenceLimits(
        images=setup.max_images,
        videos=setup.max_videos if SEES_FILMS else 0,
        audios=setup.max_audios,
        total=setup.max_references,
        required=required,
        max_aspect=MINIMAX_H3_MAX_ASPECT_RATIO,
        work=ReferenceWork(
            picture_side=pipe.config.reference_image_short_edge,
            picture_frames=pipe.vae_frames_per_chunk / pipe.vae_latents_per_chunk,  # it is one latent frame
            film_side=pipe.config.canvas_short_edge,
            film_pixels=pipe.config.canvas_max_pixels,
        ),
        no_videos="" if SEES_FILMS else "this server lacks torchvision, which they need",
        min_video_s=_shortest_film(pipe, reader) if SEES_FILMS else None,
    )


def _shortest_film(pipe: Any, reader: Any) -> float:
    return shortest_film(
        pipe.fps, reader.video_sample_fps, pipe.processor.video_processor.temporal_patch_size
    )


def _defaults(pipe: Any, config: ModelConfig, fps: Fraction) -> ModelDefaults:
    shift = pipe.scheduler.config.shift
    return ModelDefaults(
        width=config.width,
        height=config.height,
        num_frames=config.num_frames,
        fps=fps,
        num_inference_steps=config.num_inference_steps,
        guidance_scale=None,
        guidance_scale_2=None,
        boundary_ratio=None,
        flow_shift=shift if config.flow_shift is None else config.flow_shift,
        negative_prompt="",
        max_sequence_length=None,
    )
