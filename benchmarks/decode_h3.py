"""From H3's latents to a closed MP4 with sound: clip by clip beside the whole decode and one write.

    python -m benchmarks.decode_h3 [--model real] [--size 1344x768] [--frames 124] [--repeat 5] [--json FILE]

`real`: the released architectures of both VAEs; `tiny`: the shipped checkpoint. Weights are random, so frames
are noise, the encoder's worst case. Variants take turns, and each time is printed at once; in the end medians
of the time, and of the most memory of the device over the weights.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from diffusers import AutoencoderKLMiniMaxH3, AutoencoderKLMiniMaxH3Audio, MiniMaxH3Blocks
from diffusers.modular_pipelines import PipelineState

import pipelines.tiny_h3
from benchmarks.architectures import write
from benchmarks.figures import device_name, take_turns
from encoding.base import AudioSpec, OutputSpec
from encoding.formats import FORMATS, open_sink
from encoding.options import resolve
from pipelines.dummy import build_empty
from pipelines.minimax_h3.blocks import SOUND
from pipelines.minimax_h3.decode import frames as clip_by_clip
from pipelines.minimax_h3.loading import known_warnings

FPS = 24
LATENTS_A_SECOND = 40


@dataclass(frozen=True, slots=True)
class Case:
    """A pipeline with both VAEs, what it decodes, and where the file goes."""

    pipe: Any
    latents: torch.Tensor
    audio_latents: torch.Tensor
    spec: OutputSpec

    def sound(self) -> torch.Tensor:
        """(2, N), by diffusers' own block."""
        state = PipelineState({"audio_latents": self.audio_latents})
        self.pipe.blocks.get_workflow("t2va").sub_blocks[SOUND](self.pipe, state)
        sound: torch.Tensor = state.get("audio")[0]
        return sound

    def whole(self) -> torch.Tensor:
        """All frames (3, T, H, W) in [-1, 1], decoded by one call."""
        vae, pipe = self.pipe.vae, self.pipe
        mean, std = (_channels(values, self.latents) for values in _normal(vae.config))
        shift, scale = (_channels(values, self.latents) for values in (pipe.pixel_mean, pipe.pixel_std))
        decoded: torch.Tensor = vae.decode(self.latents * std + mean, return_dict=False)[0]
        return (decoded.float() * scale + shift).clamp(0, 1)[0] * 2 - 1


def _normal(config: Any) -> tuple[Any, Any]:
    return config.latents_mean, config.latents_std


def _channels(values: Any, like: torch.Tensor) -> torch.Tensor:
    return torch.tensor(values, device=like.device).view(1, -1, 1, 1, 1)


def whole_decode(case: Case) -> None:
    case.whole()


def clips(case: Case) -> None:
    for _ in clip_by_clip(case.pipe, case.latents):
        pass


def sound_alone(case: Case) -> None:
    case.sound()


def whole_then_mp4(case: Case) -> None:
    """Every frame, then every frame to the encoder."""
    sound, frames = case.sound(), case.whole()
    with open_sink(case.spec) as sink:
        sink.write_sound(sound, case.pipe.audio_sampling_rate)
        sink.write(frames)
    sink.result.result()


def clips_to_mp4(case: Case) -> None:
    """As the worker does it."""
    with open_sink(case.spec) as sink:
        sink.write_sound(case.sound(), case.pipe.audio_sampling_rate)
        for frames in clip_by_clip(case.pipe, case.latents):
            sink.write(frames)
    sink.result.result()


VARIANTS: Mapping[str, Callable[[Case], None]] = MappingProxyType(
    {
        "whole decode": whole_decode,
        "clip by clip": clips,
        "sound": sound_alone,
        "whole decode, then MP4 with sound": whole_then_mp4,
        "clip by clip to MP4 with sound": clips_to_mp4,
    }
)


def make_case(options: argparse.Namespace, folder: Path) -> Case:
    """The VAEs with random weights on the first GPU, or on the processor, and noise to decode."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dtype = getattr(torch, options.dtype)
    source = _architecture(options.model, folder)
    pipe = MiniMaxH3Blocks().init_pipeline()
    with known_warnings():
        for name, cls in (("vae", AutoencoderKLMiniMaxH3), ("audio_vae", AutoencoderKLMiniMaxH3Audio)):
            pipe.register_components(**{name: build_empty(source / name, cls, dtype, device)})
    width, height = map(int, options.size.split("x"))
    scale, clips = pipe.vae_spatial_compression_ratio, (options.frames - 5) // 17
    if options.frames != clips * 17 + 5 or width % 32 or height % 32:
        raise SystemExit("--frames must be 17n + 5, and both sides of --size multiples of 32")
    noise = torch.Generator().manual_seed(0)
    length = clips * pipe.vae_latents_per_chunk + pipe.vae.token_overlap
    shape = (1, pipe.vae_latent_channels, length, height // scale, width // scale)
    sound = (2, pipe.audio_latent_channels, round(options.frames / FPS * LATENTS_A_SECOND))
    codec = resolve(FORMATS["mp4"].codec, None, present=False)
    audio = AudioSpec(pipe.audio_sampling_rate, 2)
    path = folder / "video.mp4"
    spec = OutputSpec(path, "mp4", width, height, options.frames, Fraction(FPS), codec, audio=audio)
    return Case(
        pipe,
        torch.randn(shape, generator=noise).to(device),
        torch.randn(sound, generator=noise).to(device),
        spec,
    )


def _architecture(model: str, folder: Path) -> Path:
    if model == "tiny":
        return Path(pipelines.tiny_h3.__file__).parent / "checkpoint"
    (folder / "architecture").mkdir()
    return write("minimax-h3", folder / "architecture")


def _timed(case: Case, variant: Callable[[Case], None]) -> dict[str, float]:
    on_gpu = case.latents.is_cuda
    before = 0
    if on_gpu:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
    began = time.perf_counter()
    variant(case)
    if on_gpu:
        torch.cuda.synchronize()
    seconds = time.perf_counter() - began
    gib = (torch.cuda.max_memory_allocated() - before) / 2**30 if on_gpu else 0.0
    return {"seconds": seconds, "gib": gib}


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", choices=["tiny", "real"], default="tiny")
    parser.add_argument("--size", default="160x96")
    parser.add_argument("--frames", type=int, default=124)
    parser.add_argument("--dtype", default="bfloat16" if torch.cuda.is_available() else "float32")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
        case = make_case(options, Path(folder))
        device = device_name(on_gpu=case.latents.is_cuda)
        print(
            f"{device}, torch {torch.__version__}: {options.model}, {options.size}, {options.frames} frames"
        )
        runs = {name: partial(_timed, case, variant) for name, variant in VARIANTS.items()}
        figures = take_turns(runs, options.repeat, options, device)
    for name, row in figures.items():
        print(f"{name:36} {row['seconds']:8.3f} s  {row['gib']:6.2f} GiB over the weights")


if __name__ == "__main__":
    main()
