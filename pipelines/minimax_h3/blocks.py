"""diffusers' blocks of one task, run one by one, so that a job can be followed and stopped between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from diffusers.modular_pipelines import PipelineState

SETUP = "before_encode"
CONDITION = "text_encoder"
ENCODE = "vae_encoder"
LAYOUT = "denoise.prepare_layout"
LOOP = "denoise.denoise"
SOUND = "decode.audio"

UNITS_A_FRAME = 5 / 3
"""Rotary time that a frame takes, in diffusers' layout."""


class Run:
    """A request's way through the blocks. `pipe` is the pipeline, `task` one of its workflows."""

    def __init__(self, pipe: Any, task: str, inputs: Mapping[str, Any]) -> None:
        self._pipe = pipe
        self._blocks = pipe.blocks.get_workflow(task).sub_blocks
        self._state = PipelineState(dict(inputs))

    def branch(self, **inputs: Any) -> Run:
        """Another way on from here; what either does from now on is its own."""
        other = object.__new__(Run)
        other._pipe, other._blocks = self._pipe, self._blocks
        mapping = {kind: list(names) for kind, names in self._state.kwargs_mapping.items()}
        other._state = PipelineState(self._state.values | inputs, mapping)
        return other

    def get(self, name: str) -> Any:
        """What a block has left under this name."""
        return self._state.get(name)

    def has(self, name: str) -> bool:
        """Whether the task has this block."""
        return name in self._blocks

    def drop(self, name: str) -> None:
        """Let go of what no later block needs."""
        self._state.values.pop(name)

    def run(self, name: str) -> None:
        """Run this block, if the task has it."""
        if name in self._blocks:
            self._blocks[name](self._pipe, self._state)

    def denoise(self, step_done: Callable[[int, int], None], after_layout: Callable[[Run], None]) -> None:
        """Run all blocks that denoise; `step_done(done, steps)` hears of the start and of each step."""
        for name in self._blocks:
            if name == LOOP:
                self._loop(step_done)
            elif name.startswith("denoise."):
                self.run(name)
                if name == LAYOUT:
                    after_layout(self)

    def _loop(self, step_done: Callable[[int, int], None]) -> None:
        """The walk of the loop block, which takes no cancel between its steps."""
        loop = self._blocks[LOOP]
        block_state = loop.get_block_state(self._state)
        steps = len(block_state.timesteps)
        step_done(0, steps)
        for index, time in enumerate(block_state.timesteps):
            for block in loop.sub_blocks.values():
                block(self._pipe, block_state, i=index, t=time)
            step_done(index + 1, steps)
        loop.set_block_state(self._state, block_state)

    def end_earlier(self, frames: int) -> None:
        """Put the last picture `frames` frames before the end that is generated: the rest will be cut off."""
        conditions = self.get("num_condition_video_rows")
        size = self.get("latent_height") * self.get("latent_width")
        rows = self.get("video_indices")[conditions - size // _area(self._pipe.patch_size) : conditions]
        positions = self.get("position_ids").clone()
        positions[rows, 0] -= frames * UNITS_A_FRAME
        self._state.set("position_ids", positions)

    def finite(self) -> bool:
        """Whether what was denoised are numbers."""
        return all(bool(torch.isfinite(self.get(name)).all()) for name in ("latents", "audio_latents"))


def _area(patch: tuple[int, int, int]) -> int:
    return patch[1] * patch[2]
