"""Scenes are the same for a seed, stay inside the picture, and move as they say."""

from __future__ import annotations

import pytest
import torch

from training import world

SIZES = [world.Canvas(160, 96, 17), world.Canvas(96, 160, 33), world.Canvas(64, 64, 5)]


def test_a_seed_is_a_scene_and_a_scene_is_a_clip() -> None:
    canvas = SIZES[0]
    assert world.scene(7, canvas) == world.scene(7, canvas) != world.scene(8, canvas)
    clip = world.draw(world.scene(7, canvas))
    assert torch.equal(clip, world.draw(world.scene(7, canvas)))
    assert clip.shape == (3, 17, 96, 160)
    assert clip.dtype == torch.float32
    assert -1 <= clip.min() < clip.max() <= 1


@pytest.mark.parametrize("canvas", SIZES, ids=str)
def test_shapes_stay_inside_and_go_where_their_motion_says(canvas: world.Canvas) -> None:
    for seed in range(300):
        for thing in world.scene(seed, canvas).things:
            for x, y, radius in (thing.start, thing.end):
                assert radius - 0.01 <= x <= canvas.width - radius + 0.01
                assert radius - 0.01 <= y <= canvas.height - radius + 0.01
            way = [b - a for a, b in zip(thing.start, thing.end, strict=True)]
            signs = tuple((value > 0.01) - (value < -0.01) for value in way)
            growth = {"growing": 1, "shrinking": -1}.get(thing.motion, 0)
            assert signs == (*world.DIRECTIONS.get(thing.motion, (0, 0)), growth)


def test_everything_there_is_is_drawn() -> None:
    things = [thing for seed in range(400) for thing in world.scene(seed, SIZES[0]).things]
    assert {thing.shape for thing in things} == set(world.SHAPES)
    assert {thing.colour for thing in things} == set(world.COLOURS)
    assert {thing.motion for thing in things} == set(world.MOTIONS)
    assert {thing.speed for thing in things} == set(world.SPEEDS)
    counts = {len(world.scene(seed, SIZES[0]).things) for seed in range(50)}
    assert counts == {1, 2}


@pytest.mark.parametrize(
    ("shape", "area"), [("circle", 3.1416), ("square", 2.89), ("triangle", 1.299), ("star", 1.3225)]
)
def test_a_shape_covers_what_geometry_says(shape: str, area: float) -> None:
    """Areas of a circle, a square of side 1.7, an equilateral triangle and a star of radius 1 by hand."""
    canvas = world.Canvas(100, 100, 2)
    place = (50.0, 50.0, 30.0)
    thing = world.Thing(shape, "white", "still", "normal", place, place)
    clip = world.draw(
        world.Scene(canvas, "black", (thing,)), palette={"black": (0, 0, 0), "white": (255, 255, 255)}
    )
    assert float((clip[0, 0] + 1).sum() / 2) == pytest.approx(area * 30**2, rel=0.03)


def test_speeds_differ_by_the_way_they_go() -> None:
    ways: dict[str, list[float]] = {speed: [] for speed in world.SPEEDS}
    for seed in range(600):
        for thing in world.scene(seed, SIZES[0]).things:
            if thing.motion in ("left", "right"):
                ways[thing.speed].append(abs(thing.end[0] - thing.start[0]))
    assert max(ways["slow"]) < min(ways["normal"]) < max(ways["normal"]) < min(ways["fast"])
