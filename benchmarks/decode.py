"""From latents to a closed MP4: our streaming decoder and sink beside diffusers' decode, in one run.

    python -m benchmarks.decode [--vae z16] [--size 832x480] [--frames 81] [--repeat 5] [--json FILE]

VAEs have the real architectures (`tiny`: the shipped checkpoint) and random weights, so frames are noise, the
worst case of the encoder. The variants take turns, and medians are printed with their ratio to diffusers'.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import torch
from diffusers import AutoencoderKLWan

import pipelines.tiny_wan
from benchmarks.architectures import Z48
from encoding.base import OutputSpec
from encoding.formats import FORMATS, open_sink
from encoding.options import resolve
from pipelines.wan_vae import StreamingDecoder


@dataclass
class Case:
    """One VAE, one latent, and where the files go."""

    vae: Any
    latents: torch.Tensor
    decoder: StreamingDecoder
    spec: OutputSpec


@torch.inference_mode()
def diffusers_decode(case: Case) -> None:
    case.vae.decode(case.latents)


@torch.inference_mode()
def our_decode(case: Case) -> None:
    for _ in case.decoder.decode(case.latents):
        pass


@torch.inference_mode()
def diffusers_then_mp4(case: Case) -> None:
    with open_sink(case.spec) as sink:
        sink.write(case.vae.decode(case.latents).sample[0])
    sink.close()


@torch.inference_mode()
def our_decode_to_mp4(case: Case) -> None:
    with open_sink(case.spec) as sink:
        for frames in case.decoder.decode(case.latents):
            sink.write(frames)
    sink.close()


VARIANTS: dict[str, Callable[[Case], None]] = {
    "diffusers decode": diffusers_decode,
    "diffusers decode, then our MP4": diffusers_then_mp4,
    "our decode": our_decode,
    "our decode to MP4": our_decode_to_mp4,
}


def main() -> None:
    """Run the benchmark."""
    options = _options()
    with tempfile.TemporaryDirectory() as folder:
        case = make_case(options, Path(folder))
        print(
            f"{case.latents.device}, {options.vae}, {options.size}, {options.frames} frames, {options.dtype}"
        )
        figures = measure(case, options.repeat)
    base = figures["diffusers decode"]["seconds"]
    for name, row in figures.items():
        peak = f"{row['peak_mib']:8.0f} MiB over weights" if row["peak_mib"] else ""
        print(f"{name:32} {row['seconds']:8.3f} s  {row['seconds'] / base:6.3f} of diffusers decode {peak}")
    if options.json is not None:
        options.json.write_text(json.dumps({"options": vars(options) | {"json": None}, "figures": figures}))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--vae", choices=["tiny", "z16", "z48"], default="tiny")
    parser.add_argument("--size", default="160x96")
    parser.add_argument("--frames", type=int, default=33)
    parser.add_argument("--chunk", type=int, default=1, help="latent frames per step")
    parser.add_argument("--dtype", default="bfloat16" if torch.cuda.is_available() else "float32")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def make_case(options: argparse.Namespace, folder: Path) -> Case:
    """The VAE on the best device, and a latent for the size and length asked for."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    vae = make_vae(options.vae).to(device, getattr(torch, options.dtype)).eval().requires_grad_(False)
    width, height = map(int, options.size.split("x"))
    scale = vae.config.scale_factor_spatial
    shape = (1, vae.config.z_dim, (options.frames - 1) // 4 + 1, height // scale, width // scale)
    latents = torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(device, vae.dtype)
    codec = FORMATS["mp4"].codec
    assert codec is not None
    spec = OutputSpec(
        path=folder / "video.mp4",
        format="mp4",
        width=width,
        height=height,
        num_frames=options.frames,
        fps=Fraction(16),
        codec_options=resolve(codec, None, present=False),
    )
    return Case(vae, latents, StreamingDecoder(vae, chunk=options.chunk), spec)


def make_vae(name: str) -> Any:
    """A VAE by its short name, with random weights."""
    torch.manual_seed(0)
    if name == "tiny":
        folder = Path(pipelines.tiny_wan.__file__).parent / "t2v"
        return AutoencoderKLWan.from_pretrained(folder, subfolder="vae")
    return AutoencoderKLWan(**(Z48 if name == "z48" else {}))


def measure(case: Case, repeat: int) -> dict[str, dict[str, float]]:
    """Median seconds and peak memory of each variant; one warm-up, then all of them in turn."""
    seconds: dict[str, list[float]] = {name: [] for name in VARIANTS}
    peaks: dict[str, float] = dict.fromkeys(VARIANTS, 0.0)
    for round_number in range(repeat + 1):
        for name, variant in VARIANTS.items():
            taken, peaks[name] = _timed(variant, case)
            if round_number > 0:
                seconds[name].append(taken)
    return {name: {"seconds": statistics.median(seconds[name]), "peak_mib": peaks[name]} for name in VARIANTS}


def _timed(variant: Callable[[Case], None], case: Case) -> tuple[float, float]:
    cuda = case.latents.is_cuda
    weights = torch.cuda.memory_allocated() if cuda else 0
    if cuda:
        torch.cuda.reset_peak_memory_stats()
        torch.cuda.synchronize()
    started = time.perf_counter()
    variant(case)
    if cuda:
        torch.cuda.synchronize()
    taken = time.perf_counter() - started
    peak = (torch.cuda.max_memory_allocated() - weights) / 2**20 if cuda else 0.0
    return taken, peak


if __name__ == "__main__":
    main()
