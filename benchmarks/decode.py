"""From latents to a closed MP4: our streaming decoder and sink beside diffusers' and vllm-omni's, in one run.

    python -m benchmarks.decode [--vae z16] [--size 832x480] [--frames 81] [--repeat 5] [--peer FOLDER]
                                [--json FILE] [--timeline FILE]

VAEs have the real architectures (`tiny`: the shipped checkpoint; `mid`: a third of z16's channels) and random
weights, so frames are noise, the encoder's worst case; `mixed` replaces them by gradients with a moving
texture once they are decoded. Variants take turns; medians are printed beside their ratio to diffusers'.
"""

from __future__ import annotations

import argparse
import copy
import json
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import torch
from diffusers import AutoencoderKLWan

import pipelines.tiny_wan
from benchmarks.architectures import Z48
from benchmarks.contents import contents
from benchmarks.peers import PEER_CODEC, Peer, chunked_mp4, load_peer
from benchmarks.timeline import Span, draw
from encoding.base import Artifact, OutputSpec
from encoding.formats import FORMATS, open_sink
from encoding.options import resolve
from pipelines.wan_vae import StreamingDecoder

_CLIP_FRAMES = 64
FPS = 16


@dataclass
class Case:
    """One VAE with the same weights for everyone, one latent, and where the files go."""

    vae: Any
    latents: torch.Tensor
    decoder: StreamingDecoder
    folder: Path
    frames: int
    clip: torch.Tensor
    """(3, 64, H, W): mixed content for frames to be replaced by, repeated for longer videos."""
    peer: Peer | None = None
    lossless: Any = None
    channels_last: Any = None
    notes: dict[str, float] = field(default_factory=dict)
    """What a variant measured besides its time."""

    def spec(self, options: dict[str, str]) -> OutputSpec:
        scale = self.vae.config.scale_factor_spatial
        height, width = (side * scale for side in self.latents.shape[3:])
        path = self.folder / "video.mp4"
        return OutputSpec(path, "mp4", width, height, self.frames, Fraction(FPS), options)


def defaults() -> dict[str, str]:
    """The service's codec options."""
    return dict(resolve(FORMATS["mp4"].codec, None, present=False))


def diffusers_decode(case: Case) -> None:
    case.vae.decode(case.latents)


def diffusers_then_mp4(case: Case) -> None:
    """The whole video, then every frame through swscale to the encoder."""
    spec = case.spec(PEER_CODEC)
    frames = case.vae.decode(case.latents).sample[0]
    levels = ((frames.float().clamp(-1, 1) + 1) * 127.5).round().to(torch.uint8)
    pixels = levels.permute(1, 2, 3, 0).contiguous().cpu().numpy()
    with av.open(str(spec.path), "w") as container:
        stream = container.add_stream("libx264", rate=FPS, options=dict(spec.codec_options))
        stream.width, stream.height, stream.pix_fmt = spec.width, spec.height, "yuv420p"
        for picture in pixels:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode(None))


def diffusers_then_export(case: Case) -> None:
    """As diffusers' users do it."""
    from diffusers.utils import export_to_video

    frames = case.vae.decode(case.latents).sample[0]
    pixels = ((frames.float() + 1) / 2).clamp(0, 1).permute(1, 2, 3, 0).cpu().numpy()
    export_to_video(list(pixels), str(case.folder / "export.mp4"), fps=FPS)


def peer_lossless(case: Case) -> None:
    assert case.peer is not None
    case.peer.decode(case.lossless, case.latents)


def peer_channels_last(case: Case) -> None:
    assert case.peer is not None
    case.peer.decode(case.channels_last, case.latents)


def peer_lossless_mp4(case: Case) -> None:
    assert case.peer is not None
    chunked_mp4(case.peer, case.lossless, case.latents, case.folder / "peer.mp4", FPS)


def peer_channels_last_mp4(case: Case) -> None:
    assert case.peer is not None
    chunked_mp4(case.peer, case.channels_last, case.latents, case.folder / "peer.mp4", FPS)


def our_decode(case: Case) -> None:
    for _ in case.decoder.decode(case.latents):
        pass


def our_mp4_peer_preset(case: Case) -> None:
    _to_mp4(case, PEER_CODEC)


def our_decode_replaced(case: Case) -> None:
    """What `mixed` adds to the decode itself."""
    for _ in _replaced(case):
        pass


def our_mp4(case: Case) -> None:
    _to_mp4(case, defaults())


def our_mp4_mixed(case: Case) -> None:
    _to_mp4(case, defaults(), mixed=True)


def our_mp4_live(case: Case, *, mixed: bool = False) -> None:
    """With a viewer: notes when the first fragment that plays was sent."""
    sent: list[float] = []
    began = time.monotonic()

    def look(data: bytes) -> None:
        if b"moof" in data[:64] and not sent:
            sent.append(time.monotonic() - began)

    with open_sink(case.spec(defaults()), look) as sink:
        for frames in _replaced(case) if mixed else case.decoder.decode(case.latents):
            sink.write(frames)
    sink.close()
    case.notes["first_fragment_seconds"] = sent[0]


def our_mp4_live_mixed(case: Case) -> None:
    our_mp4_live(case, mixed=True)


def _to_mp4(case: Case, options: dict[str, str], *, mixed: bool = False) -> Artifact:
    with open_sink(case.spec(options)) as sink:
        for frames in _replaced(case) if mixed else case.decoder.decode(case.latents):
            sink.write(frames)
    artifact = sink.close()
    case.notes["tail_seconds"] = artifact.tail_seconds
    case.notes["blocked_seconds"] = artifact.blocked_seconds
    case.notes["megabytes"] = artifact.size_bytes / 1e6
    return artifact


def _replaced(case: Case) -> Iterator[torch.Tensor]:
    """Frames of the clip, each as soon as one was decoded."""
    done = 0
    for frames in case.decoder.decode(case.latents):
        count = frames.shape[1]
        places = [(done + index) % _CLIP_FRAMES for index in range(count)]
        done += count
        yield torch.stack([case.clip[:, place] for place in places], dim=1)


def variants(case: Case) -> dict[str, Callable[[Case], None]]:
    """What is measured, by its name in the table."""
    peers: dict[str, Callable[[Case], None]] = {
        "vllm-omni lossless decode": peer_lossless,
        "vllm-omni channels_last decode": peer_channels_last,
        "vllm-omni lossless, chunked MP4, ultrafast": peer_lossless_mp4,
        "vllm-omni channels_last, chunked MP4, ultrafast": peer_channels_last_mp4,
    }
    return {
        "diffusers decode": diffusers_decode,
        "diffusers decode, then MP4, ultrafast": diffusers_then_mp4,
        **(peers if case.peer is not None else {}),
        **({} if case.latents.is_cuda else {"diffusers decode, then export_to_video": diffusers_then_export}),
        "our decode": our_decode,
        "our decode to MP4, ultrafast": our_mp4_peer_preset,
        "our decode to MP4": our_mp4,
        "our decode, frames replaced by mixed content": our_decode_replaced,
        "our decode to MP4, mixed content": our_mp4_mixed,
        "our decode to MP4 and a live stream": our_mp4_live,
        "our decode to MP4 and a live stream, mixed content": our_mp4_live_mixed,
    }


def main() -> None:
    """Run the benchmark."""
    options = _options()
    with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
        case = make_case(options, Path(folder))
        device = torch.cuda.get_device_name() if case.latents.is_cuda else "CPU"
        print(f"{device}, torch {torch.__version__}: {options.vae}, {options.size}, {options.frames} frames")
        figures = measure(case, options.repeat)
        if options.timeline is not None:
            options.timeline.write_text(timeline(case, f"{options.frames} frames {options.size}, {device}"))
    _print(figures)
    if options.json is not None:
        named = {name: str(value) for name, value in vars(options).items()}
        named |= {"device": device, "torch": torch.__version__}
        options.json.write_text(json.dumps({"options": named, "figures": figures}, indent=1))


def _print(figures: dict[str, dict[str, float]]) -> None:
    base, alone = figures["diffusers decode"]["seconds"], figures["our decode"]["seconds"]
    for name, row in figures.items():
        notes = {key: value for key, value in row.items() if key not in ("seconds", "fastest")}
        told = ", ".join(f"{key} {value:.3g}" for key, value in notes.items())
        ratios = f"{row['seconds'] / base:6.3f}  over our decode {row['seconds'] / alone:6.3f}"
        print(f"{name:50} {row['seconds']:8.3f} s {ratios}  {told}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--vae", choices=["tiny", "mid", "z16", "z48"], default="tiny")
    parser.add_argument("--size", default="160x96")
    parser.add_argument("--frames", type=int, default=33)
    parser.add_argument("--chunk", type=int, help="latent frames per step; default: by the free memory")
    parser.add_argument("--dtype", default="bfloat16" if torch.cuda.is_available() else "float32")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--peer", type=Path, help="folder that vllm-omni's wheel was unpacked into")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--timeline", type=Path, help="draw the last variant's chunks as SVG")
    return parser.parse_args()


def make_case(options: argparse.Namespace, folder: Path) -> Case:
    """The VAE on the best device, and a latent for the size and length asked for."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    vae = make_vae(options.vae).to(device, getattr(torch, options.dtype)).eval().requires_grad_(False)
    width, height = map(int, options.size.split("x"))
    scale = vae.config.scale_factor_spatial
    shape = (1, vae.config.z_dim, (options.frames - 1) // 4 + 1, height // scale, width // scale)
    latents = torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(device, vae.dtype)
    ours = StreamingDecoder(copy.deepcopy(vae), chunk=options.chunk)
    clip = contents(height, width, _CLIP_FRAMES)["mixed"].to(device, vae.dtype)
    case = Case(vae, latents, ours, folder, options.frames, clip)
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


def measure(case: Case, repeat: int) -> dict[str, dict[str, float]]:
    """Medians of each variant; one warm-up, then all of them in turn."""
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in variants(case)}
    for round_number in range(repeat + 1):
        for name, variant in variants(case).items():
            figures = _timed(variant, case)
            if round_number > 0:
                runs[name].append(figures)
    return {
        name: {
            **{key: statistics.median(run[key] for run in rows) for key in rows[0]},
            "fastest": min(run["seconds"] for run in rows),
        }
        for name, rows in runs.items()
    }


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
        for frames in _replaced(case):
            decoded.append(_now(case))
            sink.write(frames)
    records = sink.close().records
    ends = [_seconds(case, began, mark) for mark in decoded]
    copies = [max(record.copied - start, end) for record, end in zip(records, ends, strict=True)]
    encodes = [record.encoded - start for record in records]
    lanes = [
        ("decode", [Span(*pair) for pair in zip([0.0, *ends], ends, strict=False)]),
        ("copy", [Span(*pair) for pair in zip(ends, copies, strict=True)]),
        (
            "encode",
            [
                Span(max(copy, before), end)
                for copy, before, end in zip(copies, [0.0, *encodes], encodes, strict=False)
            ],
        ),
    ]
    return draw(f"{title}: decode, copy and encode of each chunk", lanes)


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
