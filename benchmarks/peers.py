"""vllm-omni's decode paths and its chunked session, from an unpacked wheel, without vllm.

The wheel is not part of this project: `pip download --no-deps vllm-omni==0.30.0`, unpack it, name the folder.
What it imports of vllm are a logger and a handle on triton; small modules stand in for these.
"""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from diffusers.models.autoencoders.autoencoder_kl_wan import unpatchify

PEER_CODEC = {"preset": "ultrafast", "crf": "18"}
"""What vllm-omni encodes with, and what ours is compared at."""


@dataclass(frozen=True, slots=True)
class Peer:
    """The functions of one copy of vllm-omni."""

    decode: Callable[[Any, torch.Tensor], torch.Tensor]
    install: Callable[..., Any]
    session: Callable[..., Any]


def load_peer(folder: Path) -> Peer:
    """Import vllm-omni from the folder that its wheel was unpacked into."""
    _stand_in("vllm")
    _stand_in("vllm.logger", init_logger=logging.getLogger)
    triton = importlib.import_module("triton")
    _stand_in(
        "vllm.triton_utils",
        HAS_TRITON=True,
        triton=triton,
        tl=importlib.import_module("triton.language"),
        tldevice=importlib.import_module("triton.language.extra.libdevice"),
    )
    package = folder / "vllm_omni"
    for name in ("", ".diffusion", ".diffusion.distributed", ".diffusion.models", ".diffusion.utils"):
        module = _stand_in(f"vllm_omni{name}")
        module.__path__ = [str(package.joinpath(*name.split(".")))]
    autoencoders = _stand_in("vllm_omni.diffusion.distributed.autoencoders")
    autoencoders.__path__ = [str(package / "diffusion/distributed/autoencoders")]
    _stand_in("vllm_omni.diffusion.models.interface", supports_chunked_vae_decode=lambda _: True)
    fast = importlib.import_module("vllm_omni.diffusion.distributed.autoencoders.wan_vae_fastpath")
    video = importlib.import_module("vllm_omni.diffusion.utils.chunked_video")
    return Peer(fast.decode_frames, fast.install_wan_vae_fastpath, video.ChunkedVideoMP4Session)


def decode_in_chunks(vae: Any, latents: torch.Tensor, push: Callable[[torch.Tensor], None]) -> None:
    """One latent frame after another through a VAE's own decoder, as vllm-omni's chunked decode does."""
    vae.clear_cache()
    x = vae.post_quant_conv(latents)
    for index in range(x.shape[2]):
        vae._conv_idx = [0]
        frames = vae.decoder(
            x[:, :, index : index + 1],
            feat_cache=vae._feat_map,
            feat_idx=vae._conv_idx,
            first_chunk=index == 0,
        )
        if vae.config.patch_size is not None:
            frames = unpatchify(frames, patch_size=vae.config.patch_size)
        push(torch.clamp(frames, min=-1.0, max=1.0))
    vae.clear_cache()


def chunked_mp4(peer: Peer, vae: Any, latents: torch.Tensor, path: Path, fps: float) -> None:
    """From latents to a closed file by vllm-omni's session, with its own settings."""
    session = peer.session(value_range=(-1.0, 1.0), fps=fps, video_codec_options=dict(PEER_CODEC))
    try:
        decode_in_chunks(vae, latents, session.push)
        (video,) = session.finish()
    except BaseException:
        session.abort()
        raise
    path.write_bytes(video)


def _stand_in(name: str, **values: object) -> ModuleType:
    module = ModuleType(name)
    vars(module).update(values)
    sys.modules[name] = module
    return module
