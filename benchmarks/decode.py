"""From latents to a closed MP4: our streaming decoder and sink beside diffusers' and vllm-omni's, in one run.

    python -m benchmarks.decode [--vae z16] [--size 832x480] [--frames 81] [--repeat 5] [--peer FOLDER]
                                [--ours] [--only NAME …] [--chunk N] [--tile 512x512] [--fp8]
                                [--json FILE] [--timeline FILE]

VAEs have the real architectures (`tiny`: the shipped checkpoint; `mid`: a third of z16's channels) and random
weights, so frames are noise, the encoder's worst case; `mixed` replaces them by gradients with a moving
texture once they are decoded. Variants take turns, every second round backwards, and each time is printed at
once; in the end medians, with their ratio to the first one and to our decode (for mixed content: with the
frames replaced). `tail_ms` is what followed once the last frames were in host memory, `encode_ms` to
`commit_ms` its parts from when the encoder turned to them: by what is left of it the encoder was behind.
"""

from __future__ import annotations

import argparse
import copy
import resource
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from diffusers import AutoencoderKLWan

import pipelines.tiny_wan
from benchmarks.architectures import Z48
from benchmarks.contents import contents
from benchmarks.decode_variants import CLIP_FRAMES, Case, defaults, replaced, variants
from benchmarks.figures import chosen, device_name, take_turns
from benchmarks.peers import load_peer
from benchmarks.timeline import Span, draw
from encoding.formats import open_sink
from pipelines.wan_vae import StreamingDecoder
from pipelines.wan_vae.memory import Tiling


def main() -> None:
    """Run the benchmark."""
    options = _options()
    with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
        case = make_case(options, Path(folder))
        device = device_name(on_gpu=case.latents.is_cuda)
        print(f"{device}, torch {torch.__version__}: {options.vae}, {options.size}, {options.frames} frames")
        runs = {
            name: partial(_timed, variant, case)
            for name, variant in chosen(variants(case), options.only).items()
        }
        # Both ways: what ran before leaves a card warmer or cooler, by up to a hundredth of the time.
        figures = take_turns(runs, options.repeat, options, device, both_orders=True)
        if options.timeline is not None:
            options.timeline.write_text(timeline(case, f"{options.frames} frames {options.size}, {device}"))
    _print(figures)


def _print(figures: dict[str, dict[str, float]]) -> None:
    base = next(iter(figures.values()))["seconds"]
    for name, row in figures.items():
        notes = {key: value for key, value in row.items() if key not in ("seconds", "fastest")}
        told = ", ".join(f"{key} {value:.3g}" for key, value in notes.items())
        ratios = f"{row['seconds'] / base:6.3f}"
        if alone := figures.get(_alone(name)):
            ratios += f"  over our decode {row['seconds'] / alone['seconds']:6.3f}"
        print(f"{name:50} {row['seconds']:8.3f} s {ratios}  {told}")


def _alone(name: str) -> str:
    """The variant that only decodes, and gives the same frames."""
    return "our decode, frames replaced by mixed content" if "mixed content" in name else "our decode"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--vae", choices=["tiny", "mid", "z16", "z48"], default="tiny")
    parser.add_argument("--size", default="160x96")
    parser.add_argument("--frames", type=int, default=33)
    parser.add_argument("--chunk", type=int, help="latent frames per step; default: by the free memory")
    parser.add_argument("--tile", type=_tile, default="auto", help="auto, none, or WxH in pixels")
    parser.add_argument("--fp8", action="store_true", help="our decoder's convolutions in e4m3")
    parser.add_argument("--dtype", default="bfloat16" if torch.cuda.is_available() else "float32")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--ours", action="store_true", help="measure nothing else")
    only = "these variants alone, or all with such a text in their names"
    parser.add_argument("--only", nargs="+", metavar="NAME", help=only)
    parser.add_argument("--peer", type=Path, help="folder that vllm-omni's wheel was unpacked into")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--timeline", type=Path, help="draw the last variant's chunks as SVG")
    return parser.parse_args()


def _tile(text: str) -> Tiling:
    if text in ("auto", "none"):
        return "auto" if text == "auto" else None
    width, height = map(int, text.split("x"))
    return width, height


def make_case(options: argparse.Namespace, folder: Path) -> Case:
    """The VAE on the best device, and a latent for the size and length asked for."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    vae = make_vae(options.vae).to(device, getattr(torch, options.dtype)).eval().requires_grad_(False)
    width, height = map(int, options.size.split("x"))
    scale = vae.config.scale_factor_spatial
    shape = (1, vae.config.z_dim, (options.frames - 1) // 4 + 1, height // scale, width // scale)
    latents = torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(device, vae.dtype)
    weights = copy.deepcopy(vae)
    ours, even = (
        StreamingDecoder(weights, chunk=options.chunk, tile=options.tile, taper=taper, fp8=options.fp8)
        for taper in (None, False)
    )
    clip = contents(height, width, CLIP_FRAMES)["mixed"].to(device, vae.dtype)
    case = Case(vae, latents, ours, even, folder, options.frames, clip, others=not options.ours)
    case.tiled = isinstance(options.tile, tuple)
    if options.peer is not None:
        case.peer = load_peer(options.peer)
        case.lossless, case.channels_last = copy.deepcopy(vae), copy.deepcopy(vae)
        case.peer.install(case.lossless, level="lossless")
        case.peer.install(case.channels_last, level="channels_last")
    return case


def make_vae(name: str) -> Any:
    """A VAE by its short name, with random weights."""
    torch.manual_seed(0)
    if name == "tiny":
        folder = Path(pipelines.tiny_wan.__file__).parent / "t2v"
        return AutoencoderKLWan.from_pretrained(folder, subfolder="vae")
    return AutoencoderKLWan(**{"z48": Z48, "mid": {"base_dim": 32}}.get(name, {}))


def _timed(variant: Callable[[Case], None], case: Case) -> dict[str, float]:
    cuda = case.latents.is_cuda
    case.notes.clear()
    for path in case.folder.glob("*.mp4"):  # or replacing it would be measured too
        path.unlink()
    weights = torch.cuda.memory_allocated() if cuda else 0
    if cuda:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        torch.cuda.synchronize()
    processor, started = _processor_seconds(), time.perf_counter()
    variant(case)
    if cuda:
        torch.cuda.synchronize()
    figures = {"seconds": time.perf_counter() - started, "cpu": _processor_seconds() - processor}
    if cuda:
        figures["peak_mib"] = (torch.cuda.max_memory_allocated() - weights) / 2**20
    return figures | case.notes


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def timeline(case: Case, title: str) -> str:
    """Our decode to MP4 of mixed content once more, as a picture of its chunks."""
    decoded: list[Any] = []
    began = _now(case)
    start = time.monotonic()
    with open_sink(case.spec(defaults())) as sink:
        for frames in replaced(case):
            decoded.append(_now(case))
            sink.write(frames)
    records = sink.close().records
    ends = [_seconds(case, began, mark) for mark in decoded]
    # The clocks of the device and of the host are set to each other by one moment only.
    takes = [max(record.taken - start, end) for record, end in zip(records, ends, strict=True)]
    encodes = [record.encoded - start for record in records]
    lanes = [
        ("decode", [Span(*pair) for pair in zip([0.0, *ends], ends, strict=False)]),
        ("copy, wait", [Span(*pair) for pair in zip(ends, takes, strict=True)]),
        ("encode", [Span(*pair) for pair in zip(takes, encodes, strict=True)]),
    ]
    return draw(f"{title}: decode, copy and wait for the encoder, and encode of each chunk", lanes)


def _now(case: Case) -> Any:
    """This moment of the device's work, or of the host's."""
    if not case.latents.is_cuda:
        return time.monotonic()
    event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]  # torch's
    event.record()
    return event


def _seconds(case: Case, began: Any, ended: Any) -> float:
    seconds: float = began.elapsed_time(ended) / 1000 if case.latents.is_cuda else ended - began
    return seconds


if __name__ == "__main__":
    main()
