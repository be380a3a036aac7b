"""What the official Python client sends in a request, and how it is told of a bad field; both majors."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path

import openai
import pytest
from openai.types import Video

from tests.clients.official import DEPRECATED, PROMPT, QUICK, Api, content, create, extras, made, settled
from tests.e2e.requests import png

pytestmark = DEPRECATED


async def test_the_signature_of_the_client(api: Api) -> None:
    """`seconds` and `size` as the client types them: what they say is made."""
    video = await settled(api.videos.create(prompt=PROMPT, seconds="4", size="64x32"))  # type: ignore[arg-type, call-overload, unused-ignore]
    assert (video.seconds, video.size, extras(video)["num_frames"]) == ("4", "64x32", 64)
    await settled(api.videos.delete(video.id))


async def test_zeros_reach_the_model(api: Api) -> None:
    """Python's `0`, `0.0` and `1e-07` are values, in a form too."""
    video = await create(
        api, seed=0, guidance_scale=0, guidance_scale_2=0.0, boundary_ratio=0, flow_shift=1e-07
    )
    used = extras(video)
    assert [used[name] for name in ("seed", "guidance_scale", "guidance_scale_2", "boundary_ratio")] == [
        0
    ] * 4


async def test_booleans_lists_and_objects(api: Api) -> None:
    """What the client spells `a[b][c]`, `k[]` and `k[][x]`, and what it sends as JSON text."""
    nested = {
        "people": [{"name": "a", "age": 1}, {"name": "b", "age": 2}],
        "tags": ["x", "y"],
        "deep": {"er": 0},
    }
    video = await made(
        api,
        stream=False,
        characters=[],
        metadata=nested,
        video_codec_options={"crf": 51, "preset": "veryfast"},
        extra_params={"guidance_scale": 0, "boundary_ratio": 0.5},
    )
    used = extras(video)
    assert (used["guidance_scale"], used["boundary_ratio"]) == (0, 0.5)
    as_text = {"video_codec_options": json.dumps({"crf": 51, "preset": "veryfast"})}
    same = await made(api, guidance_scale=0, boundary_ratio=0.5, **as_text)
    fine = await made(api, guidance_scale=0, boundary_ratio=0.5, video_codec_options={"crf": 1})
    coarse_bytes, same_bytes, fine_bytes = [await content(api, one) for one in (video, same, fine)]
    assert coarse_bytes == same_bytes
    assert len(fine_bytes) > len(coarse_bytes)


async def test_every_way_to_give_a_picture(api: Api, tmp_path: Path) -> None:
    """Bytes, an open file, a path, a named tuple and a URL in an object: the same video."""
    path = tmp_path / "first.png"
    path.write_bytes(png())
    uri = f"data:image/png;base64,{base64.b64encode(png()).decode()}"
    files = [png(), io.BytesIO(png()), path, ("a.png", png(), "image/png")]
    videos = [await made(api, "tiny-wan-ti2v", picture=file, output_format="pt") for file in files]
    videos.append(await made(api, "tiny-wan-ti2v", input_reference={"image_url": uri}, output_format="pt"))
    assert len({await content(api, video) for video in videos}) == 1


@pytest.mark.parametrize(
    ("extra", "param"),
    [
        ({"guidance_scale": 99}, "guidance_scale"),
        ({"size": "720p"}, "size"),
        ({"seed": [1, 2]}, "seed[]"),
        ({"seed": {"value": 1}}, "seed[value]"),
        ({"video_codec_options": {"preset": "warp"}}, "video_codec_options[preset]"),
        ({"extra_params": {"guidance_scale": 99}}, "extra_params[guidance_scale]"),
        ({"num_frames": True}, "num_frames"),
        ({"misspelt": 1}, "misspelt"),
    ],
)
async def test_a_bad_field_is_named(api: Api, extra: dict[str, object], param: str) -> None:
    """A BadRequestError with a code, and the field as the client spelt it."""
    with pytest.raises(openai.BadRequestError) as caught:
        await create(api, **extra)
    assert caught.value.param == param
    assert caught.value.code == ("unknown_parameter" if param == "misspelt" else "invalid_value")
    assert caught.value.type == "invalid_request_error"
    assert caught.value.request_id == caught.value.response.headers["x-request-id"]


async def test_an_unknown_model_is_not_found(api: Api) -> None:
    """With OpenAI's code, and the served ones in the message."""
    with pytest.raises(openai.NotFoundError) as caught:
        await settled(api.videos.create(model="sora-9", prompt=PROMPT))
    assert (caught.value.code, caught.value.param) == ("model_not_found", "model")
    assert "tiny-wan-t2v" in caught.value.message


async def test_a_raw_post_is_json(api: Api) -> None:
    """The client's generic `post` sends JSON; it means the same as its form."""
    body = QUICK | {"prompt": PROMPT, "guidance_scale_2": 0.0, "output_format": "pt"}
    posted = await settled(api.post("/videos", cast_to=Video, body=body))
    polled = await settled(api.videos.poll(posted.id, poll_interval_ms=50))
    as_form = await made(api, guidance_scale_2=0.0, output_format="pt")
    assert await content(api, polled) == await content(api, as_form)
