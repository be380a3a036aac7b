"""The tiny model of the official reference, as ours, and sounds and pictures for it."""

from __future__ import annotations

import struct
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import av
import torch
from diffusers import UniPCMultistepScheduler
from PIL import Image

from pipelines.base import ModelConfig, ModelLimits
from pipelines.wan_s2v.names import transformer_weights
from pipelines.wan_s2v.official import load_vae, transformer_config
from pipelines.wan_s2v.speech import WanS2V
from pipelines.wan_s2v.transformer import WanS2VTransformer3DModel
from tests.pipelines.wan_s2v import drawn_weights as drawn
from tests.pipelines.wan_s2v.official_names import official_like, official_shapes


@cache
def transformer(motion_frames: int = 73) -> Any:
    """Ours, with the weights that the official one was given."""
    config = transformer_config(drawn.TRANSFORMER, text_dim=20, motion_frames=motion_frames)
    model: Any = WanS2VTransformer3DModel(**config).eval().requires_grad_(False)
    layers = model.config.audio_inject_layers
    official = drawn.weights(official_like(model.state_dict(), layers))
    model.load_state_dict(transformer_weights(official, layers))
    return model


def vae_weights() -> dict[str, torch.Tensor]:
    """The official VAE's, narrow: every width of the published one is a multiple of 96, but for what goes in
    and out (3) and the latents (16, 32)."""
    like = {
        name: torch.empty(
            [size // 96 * drawn.VAE_DIM if size % 96 == 0 else size for size in shape], device="meta"
        )
        for name, shape in official_shapes("vae").items()
    }
    return drawn.weights(like)


@cache
def vae() -> Any:
    """diffusers', with the weights that the official one was given."""
    return load_vae(vae_weights(), torch.float32)


class Parts:
    """The components of a pipeline that the loop uses; its words are drawn by their text."""

    def __init__(self) -> None:
        self.transformer = transformer(drawn.MOTION)
        self.vae = vae()
        self.scheduler = UniPCMultistepScheduler(prediction_type="flow_prediction", use_flow_sigmas=True)
        self.config = type("Config", (), {"clip_frames": drawn.CLIP})

    def set_progress_bar_config(self, **_: object) -> None:
        pass

    def maybe_free_model_hooks(self) -> None:
        pass

    def encode_prompt(
        self, prompt: str, negative_prompt: str, **_: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return padded(drawn.noise(prompt, 7, 20)), padded(drawn.noise(negative_prompt, 7, 20))


def padded(embedded: torch.Tensor) -> torch.Tensor:
    """A text (L, D) as the official code gives it to the blocks: zeros after its end."""
    whole = torch.zeros(1, drawn.TEXT_LENGTH, embedded.shape[1])
    whole[0, : len(embedded)] = embedded
    return whole


def speech() -> WanS2V:
    """Ours over `Parts`."""
    config = ModelConfig(
        id="drawn",
        kind="wan-s2v",
        path="",
        dtype="float32",
        width=drawn.SIDES[0],
        height=drawn.SIDES[1],
        num_frames=drawn.CLIP,
        fps=Fraction(16),
        num_inference_steps=drawn.STEPS,
        guidance_scale=drawn.GUIDANCE,
        flow_shift=drawn.SHIFT,
        limits=ModelLimits(max_pixels=10**6, max_num_frames=100),
    )
    return WanS2V(Parts(), config, torch.device("cpu"))


def wav(path: Path, samples: torch.Tensor, rate: int = 48_000) -> Path:
    """Write (channels, N) as the door does: WAV of 32-bit floats."""
    channels = samples.shape[0]
    data = samples.t().contiguous().float().numpy().tobytes()
    head = struct.pack("<HHIIHH", 3, channels, rate, 4 * channels * rate, 4 * channels, 32)
    chunks = b"fmt " + struct.pack("<I", len(head)) + head + b"data" + struct.pack("<I", len(data)) + data
    path.write_bytes(b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE" + chunks)
    return path


def ffv1(path: Path, frames: torch.Tensor, fps: int) -> Path:
    """Write (T, H, W, 3) uint8 as the door does: FFV1 in Matroska."""
    with av.open(str(path), "w", format="matroska") as output:
        stream = output.add_stream("ffv1", rate=fps)
        stream.height, stream.width = frames.shape[1:3]
        stream.pix_fmt = "bgr0"
        for picture in frames.numpy():
            output.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        output.mux(stream.encode(None))
    return path


def png(path: Path, pixels: torch.Tensor) -> Path:
    """Write (H, W, 3) uint8."""
    Image.fromarray(pixels.numpy()).save(path)
    return path
