"""What a model says of itself decides what may be asked of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from fractions import Fraction

from pipelines.base import Grid
from tests.server.door import CAPABILITIES, Door, ask, make_settings, refused


@asynccontextmanager
async def door_to(**changes: object) -> AsyncIterator[Door]:
    """The first model of `door`, changed."""
    model = replace(CAPABILITIES.models[0], **changes)  # type: ignore[arg-type]
    door = Door(make_settings(), replace(CAPABILITIES, models=(model,)))
    try:
        yield door
    finally:
        await door.close()


async def test_a_model_with_one_rate_refuses_others() -> None:
    """Its own may be given; another is refused with both."""
    async with door_to(grid=Grid(temporal=17, spatial=32, offset=5, fps=Fraction(16))) as door:
        assert (await ask(door, fps=16)).numbers.fps == 16
        error = await refused(door, fps=24)
    assert error["param"] == "fps"
    assert error["message"].startswith("fps: 24 is not allowed")
    assert "16 frames a second" in error["message"]


async def test_words_that_mean_something_else_are_refused() -> None:
    """The word is said, and not the prompt."""
    async with door_to(reserved={"<|picture|>": "stands for a picture"}) as door:
        error = await refused(door, prompt="a secret <|picture|>")
        assert error["param"] == "prompt"
        told = 'prompt: "<|picture|>" is not allowed for text; there it stands for a picture'
        assert error["message"] == told
        assert (await ask(door, prompt="<|picture")).status == 200


async def test_a_field_without_a_meaning_is_refused() -> None:
    """The model says which, and why; an empty negative prompt is none, and so is what is not given."""
    async with door_to(unused={"guidance_scale": "is distilled", "negative_prompt": "is distilled"}) as door:
        for field, value in {"guidance_scale": 0, "negative_prompt": "blurry"}.items():
            error = await refused(door, **{field: value})
            assert error["param"] == field
            assert "text is distilled" in error["message"]
        assert (await ask(door, negative_prompt="")).status == 200
