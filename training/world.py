"""The world of the tiny checkpoints: one or two plain shapes in named colours on a named background.

A scene is drawn by chance from a seed and says everything about a clip; `draw` makes the clip of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random

import torch

COLOURS = {
    "red": (220, 35, 40),
    "orange": (250, 140, 20),
    "yellow": (250, 225, 60),
    "green": (35, 160, 70),
    "blue": (40, 80, 220),
    "purple": (145, 50, 180),
    "white": (245, 245, 245),
    "black": (15, 15, 20),
}
"""sRGB, 0 to 255."""

SHAPES = ("circle", "square", "triangle", "star")

DIRECTIONS = {
    "left": (-1, 0),
    "right": (1, 0),
    "up": (0, -1),
    "down": (0, 1),
    "up left": (-1, -1),
    "up right": (1, -1),
    "down left": (-1, 1),
    "down right": (1, 1),
}
"""Signs of x and y, y downwards."""

MOTIONS = (*DIRECTIONS, "growing", "shrinking", "still")

STEPS = {"slow": 0.01, "normal": 0.02, "fast": 0.04}
"""Way from frame to frame, in shorter sides of the picture."""

GROWTHS = {"slow": 1.4, "normal": 1.8, "fast": 2.4}
"""Largest radius of a whole clip over its smallest."""

SPEEDS = tuple(STEPS)

_RADII = (0.16, 0.24)
_MIDDLE_RADII = (0.18, 0.26)
"""Of what grows or shrinks: halfway."""
_PLACES = 12
"""Places tried for the second shape; the one that keeps farthest away is taken."""
_SECOND = 0.2
"""Share of scenes with two shapes."""
_STAR_INNER = 0.45
"""Radius of a star's inner corners, in outer ones."""


@dataclass(frozen=True, slots=True)
class Canvas:
    """The size of a clip: pixels, and frames."""

    width: int
    height: int
    frames: int

    @property
    def short(self) -> int:
        """The shorter side."""
        return min(self.width, self.height)


@dataclass(frozen=True, slots=True)
class Thing:
    """One shape. `start` and `end`: (x, y, radius) in pixels, in the first and the last frame."""

    shape: str
    colour: str
    motion: str
    speed: str
    start: tuple[float, float, float]
    end: tuple[float, float, float]

    def at(self, time: float) -> tuple[float, float, float]:
        """Where it is and how large; `time` from 0, the first frame, to 1, the last."""
        x, y, radius = (a + (b - a) * time for a, b in zip(self.start, self.end, strict=True))
        return x, y, radius


@dataclass(frozen=True, slots=True)
class Scene:
    """One clip: what is on it, later things over earlier ones."""

    canvas: Canvas
    background: str
    things: tuple[Thing, ...]


def scene(seed: int, canvas: Canvas) -> Scene:
    """The scene of a seed: the same one everywhere."""
    chance = Random(seed)
    count = 2 if chance.random() < _SECOND else 1
    background, *colours = chance.sample(list(COLOURS), count + 1)
    things: list[Thing] = []
    for colour in colours:
        kind = (chance.choice(SHAPES), colour, chance.choice(MOTIONS), chance.choice(SPEEDS))
        places = [
            Thing(*kind, *_way(chance, kind[2], kind[3], canvas)) for _ in range(_PLACES if things else 1)
        ]
        things.append(max(places, key=lambda place: _distance(place, things)))
    return Scene(canvas, background, tuple(things))


def _way(
    chance: Random, motion: str, speed: str, canvas: Canvas
) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
    """Start and end of a thing that stays inside the picture; it goes less far where there is no room."""
    if motion in DIRECTIONS:
        radius = chance.uniform(*_RADII) * canvas.short
        x, dx, y, dy = _walk(chance, DIRECTIONS[motion], STEPS[speed], radius, canvas)
        return (x, y, radius), (x + dx, y + dy, radius)
    middle = chance.uniform(*_MIDDLE_RADII) * canvas.short
    growth = 1.0 if motion == "still" else math.sqrt(GROWTHS[speed])
    small, large = middle / growth, middle * growth
    x = chance.uniform(large, canvas.width - large)
    y = chance.uniform(large, canvas.height - large)
    first, last = (large, small) if motion == "shrinking" else (small, large)
    return (x, y, first), (x, y, last)


def _walk(
    chance: Random, signs: tuple[int, int], step: float, radius: float, canvas: Canvas
) -> tuple[float, float, float, float]:
    """x, way in x, y, way in y: pixels."""
    rooms = canvas.width - 2 * radius, canvas.height - 2 * radius
    length = step * canvas.short * (canvas.frames - 1) / math.hypot(*signs)
    length = min([length, *(room for room, sign in zip(rooms, signs, strict=True) if sign)])
    found: list[float] = []
    for room, sign in zip(rooms, signs, strict=True):
        low = radius + (length if sign < 0 else 0)
        high = radius + room - (length if sign > 0 else 0)
        found += [chance.uniform(low, high), length * sign]
    x, dx, y, dy = found
    return x, dx, y, dy


def _distance(place: Thing, others: list[Thing]) -> float:
    """The least free space between `place` and any of `others` over the clip, in pixels."""
    times = [step / 8 for step in range(9)]
    pairs = [(place.at(time), other.at(time)) for time in times for other in others]
    return min((math.dist(a[:2], b[:2]) - a[2] - b[2] for a, b in pairs), default=0.0)


def draw(
    wanted: Scene, device: torch.device | str = "cpu", palette: dict[str, tuple[int, int, int]] = COLOURS
) -> torch.Tensor:
    """The clip of a scene: float32 (3, T, H, W), RGB in [-1, 1], edges smooth."""
    canvas = wanted.canvas
    clip = _rgb(palette[wanted.background], device).expand(3, canvas.frames, canvas.height, canvas.width)
    times = torch.linspace(0, 1, canvas.frames, device=device).view(-1, 1, 1)
    rows = torch.arange(canvas.height, device=device).view(1, -1, 1) + 0.5
    columns = torch.arange(canvas.width, device=device).view(1, 1, -1) + 0.5
    for thing in wanted.things:
        x, y, radius = (a + (b - a) * times for a, b in zip(thing.start, thing.end, strict=True))
        cover = (0.5 - _outside(thing.shape, columns - x, rows - y, radius)).clamp(0, 1)
        clip = torch.lerp(clip, _rgb(palette[thing.colour], device), cover)
    return clip.contiguous()


def _rgb(colour: tuple[int, int, int], device: torch.device | str) -> torch.Tensor:
    return (torch.tensor(colour, dtype=torch.float32, device=device) / 127.5 - 1).view(3, 1, 1, 1)


def _outside(shape: str, x: torch.Tensor, y: torch.Tensor, radius: torch.Tensor) -> torch.Tensor:
    """Distance of points to the outline in pixels, negative inside, good near it; y downwards."""
    if shape == "circle":
        return torch.hypot(x, y) - radius
    if shape == "square":
        return torch.maximum(x.abs(), y.abs()) - 0.85 * radius
    if shape == "triangle":
        # Three sides, each at half the radius from the centre; one corner points up.
        side = math.sqrt(3) / 2
        return torch.maximum(y, side * x.abs() - y / 2) - radius / 2
    assert shape == "star", shape
    return _star(x, y, radius)


def _star(x: torch.Tensor, y: torch.Tensor, radius: torch.Tensor) -> torch.Tensor:
    """Five rays, one up: points are turned and mirrored into half a ray, which has one straight side."""
    ray = 2 * math.pi / 5
    angle = torch.atan2(x, -y)
    angle = (angle - ray * torch.round(angle / ray)).abs()
    length = torch.hypot(x, y)
    along, across = length * torch.cos(angle), length * torch.sin(angle)
    inner_along, inner_across = _STAR_INNER * math.cos(ray / 2), _STAR_INNER * math.sin(ray / 2)
    side = math.hypot(1 - inner_along, inner_across)
    return ((along - radius) * inner_across + across * (1 - inner_along)) / side
