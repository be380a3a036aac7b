"""Says what is on a clip by looking at its pixels: background, and of each shape colour, kind and motion.

It knows the names of the colours and nothing else of how clips are drawn.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from training.world import COLOURS

_NEAR = 110.0
"""Largest distance of a pixel from its colour in RGB, 0 to 255 each: beyond it is an edge, or nothing."""
_LEAST_AREA = 0.008
"""Of the picture; what is smaller in most frames is an edge or a speck."""
_MOVES = 0.05
"""Way over the clip from which something moves, in shorter sides of the picture."""
_GROWS = 1.15
"""Ratio of last and first radius from which something grows."""
_DRIFTS = 0.12
"""Way up to which something grows in its place; what goes farther moves, while its outline may waver."""
_DIAGONAL = 0.41
"""Least ratio of the smaller to the larger way of what goes diagonally: the tangent of 22.5°."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One shape. `way` is (x, y) from the first to the last frame in shorter sides, y downwards; `growth` the
    ratio of last and first radius; `start` (x, y) in the first frame in pixels."""

    colour: str
    shape: str
    motion: str
    way: tuple[float, float]
    growth: float
    start: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Verdict:
    """A clip; the larger shapes come first."""

    background: str
    things: tuple[Seen, ...]


def judge(frames: torch.Tensor) -> Verdict:
    """What `frames` show: uint8 (T, H, W, 3), RGB, at least two of them."""
    names, near = _named(frames.float())
    border = torch.cat([names[:, 0].flatten(), names[:, -1].flatten(), names[:, :, 0].flatten()])
    background = int(border.bincount().argmax())
    masks = {
        index: (names == index) & near
        for index in range(len(COLOURS))
        if index != background and _present((names == index) & near)
    }
    largest = sorted(masks, key=lambda index: -int(masks[index].sum()))
    colours = list(COLOURS)
    things = tuple(_seen(colours[index], masks[index]) for index in largest)
    return Verdict(colours[background], things)


def _named(frames: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The nearest colour of each pixel (T, H, W), as a number, and whether it is near enough."""
    palette = torch.tensor(list(COLOURS.values()), dtype=torch.float32)
    # The square of a distance, in parts: what a pixel has for all colours is added after the minimum.
    least, names = (palette.square().sum(dim=1) - 2 * frames @ palette.T).min(dim=-1)
    return names, least + frames.square().sum(dim=-1) < _NEAR**2


def _present(mask: torch.Tensor) -> bool:
    """Whether a colour covers enough of most frames, with an inside: an edge is nowhere three pixels wide."""
    inside = -torch.nn.functional.max_pool2d(-mask.float().unsqueeze(1), 3, 1, 1)
    return bool((inside.mean(dim=(1, 2, 3)).median() > _LEAST_AREA / 2).item()) and bool(
        (mask.float().mean(dim=(1, 2)).median() > _LEAST_AREA).item()
    )


def _seen(colour: str, mask: torch.Tensor) -> Seen:
    shown = [frame for frame in mask if frame.sum() >= 9]
    first, last = _centre(shown[0]), _centre(shown[-1])
    short = min(mask.shape[1:])
    way = (last[0] - first[0]) / short, (last[1] - first[1]) / short
    growth = float(shown[-1].sum() / shown[0].sum()) ** 0.5
    kinds = [_shape(frame) for frame in shown]
    shape = max(set(kinds), key=kinds.count)
    return Seen(colour, shape, _motion(way, growth), way, growth, first)


def _centre(mask: torch.Tensor) -> tuple[float, float]:
    ys, xs = mask.nonzero(as_tuple=True)
    return float(xs.float().mean()), float(ys.float().mean())


def _motion(way: tuple[float, float], growth: float) -> str:
    farthest = max(map(abs, way))
    if farthest < _DRIFTS and not 1 / _GROWS <= growth <= _GROWS:
        return "growing" if growth > 1 else "shrinking"
    if farthest < _MOVES:
        return "still"
    sideways, upright = ("left" if way[0] < 0 else "right"), ("up" if way[1] < 0 else "down")
    small, large = sorted(map(abs, way))
    if small > _DIAGONAL * large:
        return f"{upright} {sideways}"
    return sideways if abs(way[0]) == large else upright


def _shape(mask: torch.Tensor) -> str:
    """By how much of its upright box a shape fills, and how high up it is widest."""
    ys, xs = mask.nonzero(as_tuple=True)
    height, width = int(ys.max() - ys.min()) + 1, int(xs.max() - xs.min()) + 1
    filled = len(ys) / (height * width)
    if filled > 0.89:
        return "square"
    if filled > 0.66:
        return "circle"
    rows = mask.sum(dim=1)[int(ys.min()) : int(ys.max()) + 1]
    widest = float(rows.argmax()) / max(1, height - 1)
    return "triangle" if widest > 0.7 else "star"
