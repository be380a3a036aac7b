"""What `benchmarks.decode` measures: our streaming decoder and sink, diffusers' and vllm-omni's."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import av
import torch

from benchmarks.peers import PEER_CODEC, Peer, chunked_mp4
from encoding.base import Artifact, OutputSpec
from encoding.formats import FORMATS, Live, open_sink
from encoding.options import resolve
from pipelines.ahead import asked_ahead
from pipelines.base import Chunk
from pipelines.wan_vae import StreamingDecoder

CLIP_FRAMES = 64
FPS = 16


@dataclass
class Case:
    """One VAE with the same weights for everyone, one latent, and where the files go."""

    vae: Any
    latents: torch.Tensor
    decoder: StreamingDecoder
    even: StreamingDecoder
    """Ours, but for its last frames, which come as many at once as all."""
    folder: Path
    frames: int
    clip: torch.Tensor
    """(3, 64, H, W): mixed content for frames to be replaced by, repeated for longer videos."""
    others: bool = True
    """Whether diffusers and the peer are measured too."""
    tiled: bool = False
    """Whether our decoder works in tiles of a given size."""
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


def diffusers_tiled_decode(case: Case) -> None:
    """In overlapping tiles of diffusers' default size, each over all frames before the next."""
    case.vae.enable_tiling()
    case.vae.decode(case.latents)
    case.vae.disable_tiling()


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
    for _ in replaced(case):
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

    _written(case, defaults(), mixed=mixed, live=look)
    case.notes["first_fragment_seconds"] = sent[0]


def our_mp4_live_mixed(case: Case) -> None:
    our_mp4_live(case, mixed=True)


def at_once(variant: Callable[[Case], None]) -> Callable[[Case], None]:
    """The same without the ever fewer frames that our decoder ends with."""
    return lambda case: variant(replace(case, decoder=case.even))


def _to_mp4(case: Case, options: dict[str, str], *, mixed: bool = False) -> None:
    artifact = _written(case, options, mixed=mixed)
    case.notes |= tail_notes(artifact)
    case.notes["blocked_seconds"] = artifact.blocked_seconds
    case.notes["megabytes"] = artifact.size_bytes / 1e6


def _written(case: Case, options: dict[str, str], *, mixed: bool, live: Live | None = None) -> Artifact:
    """As a worker does it."""
    frames, spec = replaced(case) if mixed else case.decoder.decode(case.latents), case.spec(options)
    ahead = asked_ahead(map(Chunk, frames), spec.num_frames)
    with open_sink(spec, live) as sink:
        for part in ahead:
            assert isinstance(part, Chunk), "there is no sound among them"
            sink.write(part.frames)
    if case.latents.is_cuda:  # the host is ahead of the device
        torch.cuda.synchronize()
    there = time.monotonic()
    artifact = sink.close()
    case.notes["tail_ms"] = 1e3 * (time.monotonic() - there)
    return artifact


def tail_notes(artifact: Artifact) -> dict[str, float]:
    """The parts of a video's tail in milliseconds, from the moment the encoder turned to its last frames."""
    return {f"{part}_ms": 1e3 * seconds for part, seconds in asdict(artifact.tail).items()}


def replaced(case: Case) -> Iterator[torch.Tensor]:
    """Frames of the clip, each as soon as one was decoded."""
    done = 0
    for frames in case.decoder.decode(case.latents):
        count = frames.shape[1]
        places = [(done + index) % CLIP_FRAMES for index in range(count)]
        done += count
        yield torch.stack([case.clip[:, place] for place in places], dim=1)


def _exports(case: Case) -> bool:
    """diffusers' own way to a file needs a library that this project does not."""
    return not case.latents.is_cuda and any(map(find_spec, ("imageio", "cv2")))


def variants(case: Case) -> dict[str, Callable[[Case], None]]:
    """What is measured, by its name in the table."""
    return {**_others(case), **_ours(case)} if case.others else _ours(case)


def _others(case: Case) -> dict[str, Callable[[Case], None]]:
    peers: dict[str, Callable[[Case], None]] = {
        "vllm-omni lossless decode": peer_lossless,
        "vllm-omni channels_last decode": peer_channels_last,
        "vllm-omni lossless, chunked MP4, ultrafast": peer_lossless_mp4,
        "vllm-omni channels_last, chunked MP4, ultrafast": peer_channels_last_mp4,
    }
    return {
        "diffusers decode": diffusers_decode,
        **({"diffusers decode in tiles": diffusers_tiled_decode} if case.tiled else {}),
        "diffusers decode, then MP4, ultrafast": diffusers_then_mp4,
        **(peers if case.peer is not None else {}),
        **({"diffusers decode, then export_to_video": diffusers_then_export} if _exports(case) else {}),
    }


def _ours(case: Case) -> dict[str, Callable[[Case], None]]:
    tapered: dict[str, Callable[[Case], None]] = {
        "our decode, last frames at once": at_once(our_decode),
        "our decode to MP4, ultrafast, last frames at once": at_once(our_mp4_peer_preset),
        "our decode to MP4, mixed content, last frames at once": at_once(our_mp4_mixed),
    }
    return {
        "our decode": our_decode,
        "our decode to MP4, ultrafast": our_mp4_peer_preset,
        "our decode to MP4": our_mp4,
        "our decode, frames replaced by mixed content": our_decode_replaced,
        "our decode to MP4, mixed content": our_mp4_mixed,
        "our decode to MP4 and a live stream": our_mp4_live,
        "our decode to MP4 and a live stream, mixed content": our_mp4_live_mixed,
        **(tapered if case.latents.is_cuda else {}),
    }
