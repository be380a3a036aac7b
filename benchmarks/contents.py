"""Clips to encode: what random weights decode to is noise, which says little about real videos."""

from __future__ import annotations

import torch


def contents(height: int, width: int, frames: int) -> dict[str, torch.Tensor]:
    """Clips (3, T, H, W) in [-1, 1]: moving gradients; these with a textured third; uniform noise."""
    noise = torch.Generator().manual_seed(0)
    time_axis = torch.arange(frames)[:, None, None] / 12
    down = torch.linspace(-3, 3, height)[None, :, None]
    across = torch.linspace(-5, 5, width)[None, None, :]
    smooth = 0.9 * torch.stack(
        [
            torch.sin(across + time_axis) * torch.cos(down),
            torch.cos(down * 1.3 - time_axis) + 0 * across,
            torch.sin((across + down) / 2 + 2 * time_axis),
        ]
    )
    # A grey texture of three-pixel grains that moves: colour noise would measure what 4:2:0 leaves out.
    texture = torch.randn((1, 1, height, 2 * width), generator=noise)
    texture = torch.nn.functional.avg_pool2d(texture, 3, stride=1, padding=1)[0]
    rows, columns = slice(height // 4, 3 * height // 4), slice(width // 4, 7 * width // 12)
    mixed = smooth + 0.01 * torch.randn((1, frames, height, width), generator=noise)
    for frame in range(frames):
        moved = texture[:, rows, 3 * frame : 3 * frame + columns.stop - columns.start]
        mixed[:, frame, rows, columns] += 0.6 * moved
    return {
        "smooth": smooth.clamp(-1, 1),
        "mixed": mixed.clamp(-1, 1),
        "noise": torch.rand((3, frames, height, width), generator=noise) * 2 - 1,
    }
