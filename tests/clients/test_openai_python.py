"""The official Python client, unchanged but for its base URL: the same for both majors, sync and async."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import OpenAI
from openai.types import Video
from PIL import Image

from tests.clients.official import DEPRECATED, PROMPT, Api, content, create, extras, gathered, made, settled
from tests.clients.places import MAJOR_VARIABLE
from tests.e2e.requests import video_of

pytestmark = DEPRECATED


def test_the_major_is_the_one_meant() -> None:
    """Two majors run these tests; each really is what it is said to be."""
    assert openai.__version__.split(".")[0] == os.environ.get(MAJOR_VARIABLE, "3")


async def test_create_poll_and_download(api: Api) -> None:
    """From a prompt to a file that plays; the client's own types take every answer."""
    video = await made(api)
    assert (video.object, video.progress, video.size, video.model) == ("video", 100, "64x32", "tiny-wan-t2v")
    assert (video.seconds, video.error, video.remixed_from_video_id) == ("0.3125", None, None)
    assert isinstance(video.created_at, int)
    assert isinstance(video.completed_at, int)
    assert video_of(await content(api, video))[:2] == ((64, 32), 5)


async def test_pages_are_walked_in_order(api: Api) -> None:
    """Iteration asks for page after page; newest first, or oldest first."""
    videos = [(await create(api)).id for _ in range(5)]
    newest = await gathered(api.videos.list(limit=2), most=5)
    assert [video.id for video in newest] == videos[::-1]
    rest = await gathered(api.videos.list(limit=2, order="asc", after=videos[0]))
    assert [video.id for video in rest] == videos[1:]
    page = (
        await settled(api.videos.list(limit=1)) if isinstance(api, OpenAI) else await api.videos.list(limit=1)
    )
    assert (page.has_more, page.last_id, [video.id for video in page.data]) == (True, videos[4], [videos[4]])


async def test_retrieve_and_delete(api: Api) -> None:
    """A deleted video is not found, and its file neither."""
    video = await made(api)
    assert (await settled(api.videos.retrieve(video.id))).id == video.id
    deleted = await settled(api.videos.delete(video.id))
    assert (deleted.id, deleted.deleted, deleted.object) == (video.id, True, "video.deleted")
    for call in (api.videos.retrieve, api.videos.download_content, api.videos.delete):
        with pytest.raises(openai.NotFoundError) as caught:
            await settled(call(video.id))
        assert caught.value.code == "video_not_found"


async def test_a_failed_video_ends_the_polling(api: Api) -> None:
    """A cancelled video is `failed` with a code; the client's poll ends, and its file is not found."""
    video = await create(api, size="160x96", num_inference_steps=200, num_frames=161)
    with pytest.raises(openai.NotFoundError) as early:
        await content(api, video)
    assert early.value.code == "video_not_ready"
    await settled(api.post(f"/videos/{video.id}/cancel", cast_to=Video))
    polled = await settled(api.videos.poll(video.id, poll_interval_ms=50))
    assert polled.status == "failed"
    assert polled.error is not None
    assert polled.error.code == "cancelled"
    with pytest.raises(openai.NotFoundError) as late:
        await content(api, video)
    assert late.value.code == "video_failed"
    with pytest.raises(openai.ConflictError) as again:
        await settled(api.post(f"/videos/{video.id}/cancel", cast_to=Video))
    assert again.value.response.headers["x-should-retry"] == "false"


async def test_raw_answers_carry_their_headers(api: Api) -> None:
    """When to poll next, in digits, and the request's id, as the client reads them."""
    video = await create(api, size="160x96", num_inference_steps=200, num_frames=161)
    raw: Any = await settled(api.videos.with_raw_response.retrieve(video.id))
    await settled(api.videos.delete(video.id))
    assert raw.headers["openai-poll-after-ms"].isdigit()
    assert raw.request_id is not None
    assert raw.parse().id == video.id


async def test_a_download_in_pieces(api: Api, tmp_path: Path) -> None:
    """Streamed to a file, it is what the plain download gives."""
    video = await made(api)
    target = tmp_path / "video.mp4"
    if isinstance(api, OpenAI):
        with api.videos.with_streaming_response.download_content(video.id) as response:
            response.stream_to_file(target)
    else:
        async with api.videos.with_streaming_response.download_content(video.id) as answer:
            await answer.stream_to_file(target)
    assert target.read_bytes() == await content(api, video)


async def test_previews(api: Api) -> None:
    """The variants that the client names, as a WebP and a JPEG picture."""
    video = await made(api)
    for variant, kind in (("thumbnail", "WEBP"), ("spritesheet", "JPEG")):
        answer = await settled(api.videos.download_content(video.id, variant=variant))  # type: ignore[call-overload, arg-type, unused-ignore]
        assert Image.open(io.BytesIO(answer.content)).format == kind


async def test_a_remix(api: Api) -> None:
    """The source's parameters, a new prompt, and what else is given; a zero counts."""
    source = await made(api, guidance_scale=3.0)
    asked = api.videos.remix(source.id, prompt="a blue circle", extra_body={"guidance_scale_2": 0.0})
    video = await settled(api.videos.poll((await settled(asked)).id, poll_interval_ms=50))
    assert (video.status, video.remixed_from_video_id) == ("completed", source.id)
    assert (video.prompt, video.size, extras(video)["seed"]) == ("a blue circle", "64x32", 7)
    assert (extras(video)["guidance_scale"], extras(video)["guidance_scale_2"]) == (3.0, 0.0)
    with pytest.raises(openai.NotFoundError):
        await settled(api.videos.remix(f"video_{'0' * 32}", prompt=PROMPT))


async def test_what_no_model_can_do_yet(api: Api) -> None:
    """Edits, extensions and characters: 501 with a code, which the client does not try again."""
    source = await made(api)
    by_id: Any = {"video": {"id": source.id}}
    none: Any = openai.omit
    for call in (
        lambda: api.videos.edit(prompt=PROMPT, video=none, extra_body=by_id),
        lambda: api.videos.edit(prompt=PROMPT, video=b"\0\0\0\x18ftypmp42"),
        lambda: api.videos.extend(prompt=PROMPT, seconds="4", video=none, extra_body=by_id),
        lambda: api.videos.create_character(name="a", video=b"\0\0\0\x18ftypmp42"),
    ):
        with pytest.raises(openai.InternalServerError) as caught:
            await settled(call())
        assert (caught.value.status_code, caught.value.code) == (501, "not_supported")
        assert caught.value.response.headers["x-should-retry"] == "false"


async def test_models(api: Api) -> None:
    """The list, and one by its alias."""
    listed = await gathered(
        await settled(api.models.list()) if isinstance(api, OpenAI) else api.models.list()
    )
    assert [model.id for model in listed] == [
        "tiny-wan-t2v",
        "tiny-wan-i2v",
        "tiny-wan-ti2v",
        "tiny-minimax-h3",
        "tiny-wan-s2v",
    ]
    assert (await settled(api.models.retrieve("sora-2"))).id == "tiny-wan-t2v"
