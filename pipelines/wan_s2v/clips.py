"""A long video as clips, each going on from the frames before it."""

from __future__ import annotations

from dataclasses import dataclass

import torch

DROPPED = 3
"""Frames that a first clip without motion loses: with the reference picture's latent before it, its own first
latent frame is decoded to four frames, of which only the last is good."""
STARTED = 6
"""Frames before the first clip that show the reference picture, where the video starts from it."""
_TEMPORAL = 4
"""Frames of a latent frame, but for the first."""


@dataclass(frozen=True, slots=True)
class ClipPlan:
    """How many clips a video takes, and what they hold, in frames.

    `from_picture`: it starts from the reference picture.
    """

    clip: int
    """Frames of a clip, a multiple of 4."""
    motion: int
    """Frames before a clip that it goes on from: 4 k + 1."""
    frames: int
    """Frames of the video."""
    from_picture: bool = False

    @property
    def lead(self) -> int:
        """Frames of the first clip that the video does not show."""
        return 0 if self.from_picture else DROPPED

    @property
    def count(self) -> int:
        return -(-(self.frames + self.lead) // self.clip)

    @property
    def latent_frames(self) -> int:
        """Of one clip."""
        return self.clip // _TEMPORAL

    def first_frame(self, clip: int) -> int:
        """The frame of the video that clip number `clip` begins with; below 0 what is not shown."""
        return clip * self.clip - self.lead

    def has_motion(self, clip: int) -> bool:
        """Whether a clip goes on from something."""
        return clip > 0 or self.from_picture

    def skipped(self, clip: int) -> int:
        """Frames to drop of what a clip decodes to, with the motion or the picture before it."""
        return self.motion if self.has_motion(clip) else 1 + DROPPED


class Motion:
    """The last frames of a video so far: (3, motion, H, W), grey before its start."""

    def __init__(self, plan: ClipPlan, picture: torch.Tensor) -> None:
        """`picture`: the reference, (3, 1, H, W)."""
        self._length = plan.motion
        self.frames = picture.new_zeros(3, plan.motion, *picture.shape[2:])
        if plan.from_picture:
            self.frames[:, -STARTED:] = picture

    def add(self, frames: torch.Tensor) -> None:
        """Go on with (3, T, H, W)."""
        self.frames = torch.cat([self.frames, frames], dim=1)[:, -self._length :]
