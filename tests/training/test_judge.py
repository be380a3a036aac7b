"""The judge of clips: right on scenes that are known, and on pictures that another program painted."""

from __future__ import annotations

import pytest
import torch
from PIL import Image, ImageDraw

from training import world
from training.judge import judge

SMALL = world.Canvas(128, 80, 9)


def as_bytes(clip: torch.Tensor) -> torch.Tensor:
    """(3, T, H, W) in [-1, 1] → uint8 (T, H, W, 3)."""
    return ((clip + 1) * 127.5).round().to(torch.uint8).permute(1, 2, 3, 0)


def painted(shape: str, steps: list[tuple[int, int, int]]) -> torch.Tensor:
    """A blue shape on yellow by Pillow, once for each (x, y, radius)."""
    frames = []
    for x, y, r in steps:
        image = Image.new("RGB", (120, 80), (255, 255, 0))
        paint = ImageDraw.Draw(image)
        if shape == "circle":
            paint.ellipse((x - r, y - r, x + r, y + r), fill=(0, 0, 255))
        elif shape == "square":
            paint.rectangle((x - r, y - r, x + r, y + r), fill=(0, 0, 255))
        else:
            paint.polygon([(x, y - r), (x + r, y + r), (x - r, y + r)], fill=(0, 0, 255))
        frames.append(torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8).view(80, 120, 3))
    return torch.stack(frames)


@pytest.mark.parametrize("shape", ["circle", "square", "triangle"])
@pytest.mark.parametrize(
    ("steps", "motion"),
    [
        ([(30, 40, 12), (50, 40, 12), (70, 40, 12)], "right"),
        ([(60, 60, 12), (60, 40, 12), (60, 20, 12)], "up"),
        ([(80, 20, 12), (60, 40, 12), (40, 60, 12)], "down left"),
        ([(60, 40, 10), (60, 40, 14), (60, 40, 20)], "growing"),
        ([(60, 40, 12), (60, 40, 12), (60, 40, 12)], "still"),
        ([(60, 40, 20), (57, 43, 14), (60, 40, 10)], "shrinking"),
        ([(30, 40, 10), (50, 40, 14), (70, 40, 13)], "right"),
    ],
)
def test_what_another_program_painted_is_seen(
    shape: str, steps: list[tuple[int, int, int]], motion: str
) -> None:
    verdict = judge(painted(shape, steps))
    assert verdict.background == "yellow"
    assert [(thing.colour, thing.shape, thing.motion) for thing in verdict.things] == [
        ("blue", shape, motion)
    ]


def test_scenes_with_one_shape_are_seen_as_they_were_drawn() -> None:
    wrong = []
    scenes = [scene for seed in range(80) if len((scene := world.scene(seed, SMALL)).things) == 1]
    for scene in scenes:
        verdict, thing = judge(as_bytes(world.draw(scene))), scene.things[0]
        seen = [(one.colour, one.shape, one.motion) for one in verdict.things]
        if verdict.background != scene.background or seen != [(thing.colour, thing.shape, thing.motion)]:
            wrong.append((thing, seen))
    assert len(scenes) > 55
    assert not wrong


def test_two_shapes_are_told_apart() -> None:
    scenes = [scene for seed in range(100) if len((scene := world.scene(seed, SMALL)).things) == 2]
    right = 0
    for scene in scenes:
        seen = {(one.colour, one.motion) for one in judge(as_bytes(world.draw(scene))).things}
        right += seen == {(one.colour, one.motion) for one in scene.things}
    assert right >= 0.9 * len(scenes) > 10  # some pass over each other


def test_noise_shows_no_shape() -> None:
    noise = torch.randint(
        0, 256, (5, 48, 64, 3), generator=torch.Generator().manual_seed(1), dtype=torch.uint8
    )
    assert judge(noise).things == ()
