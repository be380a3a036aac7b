"""The shipped checkpoint of MiniMax-H3, what is asked of it, and what diffusers makes of the same."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import torch

import pipelines.tiny_h3
from pipelines.base import Chunk, GenerationParams, ModelConfig, ModelLimits, Sound
from pipelines.minimax_h3.model import MiniMaxH3
from tests.pipelines.tiny_models import Recorder, params_for

CHECKPOINT = Path(pipelines.tiny_h3.__file__).parent / "checkpoint"
RATE = 32_000
TOLERANCE = 1e-4


def config(**changes: object) -> ModelConfig:
    base = ModelConfig(
        id="tiny-h3",
        kind="minimax-h3",
        path=str(CHECKPOINT),
        dtype="float32",
        width=64,
        height=32,
        num_frames=124,
        fps=Fraction(24),
        num_inference_steps=2,
        limits=ModelLimits(max_pixels=10**6, max_num_frames=345),
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def make(model: MiniMaxH3, **changes: object) -> tuple[torch.Tensor, torch.Tensor]:
    """Frames (3, T, H, W) and sound (2, N) of the first output."""
    parts = list(model.generate(params(model, **changes), Recorder()))
    frames = [part.frames for part in parts if isinstance(part, Chunk) and part.output == 0]
    (sound,) = (part.samples for part in parts if isinstance(part, Sound) and part.output == 0)
    return torch.cat(frames, dim=1), sound


def params(model: MiniMaxH3, **changes: object) -> GenerationParams:
    return params_for(model, **{"negative_prompt": "", **changes})


def theirs(model: MiniMaxH3, wanted: GenerationParams, **inputs: object) -> tuple[torch.Tensor, torch.Tensor]:
    """What diffusers' pipeline makes from the same seed, called as its users call it."""
    model._pipe.scheduler.set_shift(wanted.flow_shift)
    state = model._pipe(
        prompt=wanted.prompt,
        width=wanted.width,
        height=wanted.height,
        num_frames=wanted.num_frames,
        num_inference_steps=wanted.num_inference_steps + 1,
        generator=torch.Generator("cpu").manual_seed(wanted.seed),
        output_type="np",
        **inputs,
    )
    frames = torch.from_numpy(np.asarray(state.get("videos"))[0]).permute(3, 0, 1, 2) * 2 - 1
    return frames, state.get("audio")[0]


def assert_same(ours: tuple[torch.Tensor, torch.Tensor], others: tuple[torch.Tensor, torch.Tensor]) -> None:
    for one, other in zip(ours, others, strict=True):
        assert one.shape == other.shape
        assert torch.allclose(one, other, atol=TOLERANCE)


class Films:
    """What the blocks use of Qwen3-VL's processor of films, for machines without torchvision.

    It scales nothing: sides are multiples of two patches, as those of H3's canvas are.
    """

    temporal_patch_size, patch, merge = 2, 4, 2

    def __call__(self, videos: list[np.ndarray], **_: object) -> dict[str, torch.Tensor]:
        """Patches in the order in which they are merged, of values in [-1, 1]."""
        grids, values = zip(*(self._patches(video) for video in videos), strict=True)
        return {"pixel_values_videos": torch.cat(values), "video_grid_thw": torch.tensor(grids)}

    def _patches(self, video: np.ndarray) -> tuple[tuple[int, int, int], torch.Tensor]:
        pairs, patch, merge = self.temporal_patch_size, self.patch, self.merge
        frames = torch.from_numpy(video).float() / 127.5 - 1
        frames = torch.cat([frames, frames[-1:].expand(-len(frames) % pairs, -1, -1, -1)])
        grid = len(frames) // pairs, frames.shape[1] // patch, frames.shape[2] // patch
        split = (grid[0], pairs, grid[1] // merge, merge, patch, grid[2] // merge, merge, patch, 3)
        return grid, frames.reshape(split).permute(0, 2, 5, 3, 6, 8, 1, 4, 7).flatten(5).flatten(0, 4)


def write_sound(path: Path, seconds: float, rate: int) -> Path:
    """A WAV file as the server stores it: 32-bit floats, here one channel."""
    samples = np.sin(np.arange(int(seconds * rate)) / 20).astype(np.float32)[None]
    with av.open(str(path), "w", format="wav") as container:
        stream = container.add_stream("pcm_f32le", rate=rate, layout="mono")
        frame = av.AudioFrame.from_ndarray(samples, "flt", "mono")
        frame.sample_rate = rate
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path
