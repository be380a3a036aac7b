"""Calls of the official Python client, sync and async alike."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Iterable
from itertools import islice
from typing import Any, TypeVar

import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from openai.types import Video

QUICK: dict[str, object] = {"num_frames": 5, "num_inference_steps": 2, "size": "64x32", "seed": 7}
PROMPT = "a red circle"

Api = OpenAI | AsyncOpenAI
Result = TypeVar("Result")

DEPRECATED = pytest.mark.filterwarnings("ignore:The Sora API is scheduled:DeprecationWarning")
"""The client says so of the hosted service; it means nothing here."""


async def settled(result: Result | Awaitable[Result]) -> Result:
    """What a call of either client comes to."""
    return await result if inspect.isawaitable(result) else result


async def gathered(pages: Any, most: int = 1000) -> list[Any]:
    """The first items, page after page as the client fetches them."""
    if isinstance(pages, Iterable):
        return list(islice(pages, most))
    items: list[Any] = []
    async for item in pages:
        items.append(item)
        if len(items) == most:
            break
    return items


async def create(api: Api, **extra: object) -> Video:
    return await settled(api.videos.create(model="sora-2", prompt=PROMPT, extra_body=QUICK | extra))


async def made(api: Api, model: str = "sora-2", *, picture: Any = openai.omit, **extra: object) -> Video:
    body = QUICK | extra
    video = await settled(
        api.videos.create_and_poll(
            model=model, prompt=PROMPT, input_reference=picture, extra_body=body, poll_interval_ms=50
        )
    )
    assert video.status == "completed", video.error
    return video


async def content(api: Api, video: Video) -> bytes:
    return (await settled(api.videos.download_content(video.id))).content


def extras(video: Video) -> dict[str, Any]:
    assert video.model_extra is not None
    return video.model_extra
