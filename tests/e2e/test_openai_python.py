"""The official Python client, unchanged but for its base URL."""

from __future__ import annotations

import io
from collections.abc import Iterator

import openai
import pytest
from openai import OpenAI
from PIL import Image

from tests.e2e.requests import video_of
from tests.serving import Served

pytestmark = pytest.mark.filterwarnings(
    "ignore:The Sora API is scheduled:DeprecationWarning"  # of the hosted service, not of this one
)

EXTRA = {"num_frames": 5, "num_inference_steps": 2, "guidance_scale_2": 0.0, "boundary_ratio": 0.0}


@pytest.fixture
def api(served: Served) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0) as client:
        yield client


def create(api: OpenAI, **extra: object) -> openai.types.Video:
    return api.videos.create(
        model="sora-2", prompt="a red circle", extra_body=EXTRA | {"size": "64x32"} | extra
    )


def test_create_poll_and_download(api: OpenAI) -> None:
    """A video from create to its bytes; the client's own types take every answer."""
    video = api.videos.create_and_poll(
        model="sora-2", prompt="a red circle", extra_body=EXTRA | {"size": "64x32"}, poll_interval_ms=50
    )
    assert (video.status, video.progress, video.size, video.model) == (
        "completed",
        100,
        "64x32",
        "tiny-wan-t2v",
    )
    assert video.seconds == "0.3125"
    assert video.model_extra is not None
    assert (video.model_extra["guidance_scale_2"], video.model_extra["boundary_ratio"]) == (0.0, 0.0)
    content = api.videos.download_content(video.id).read()
    assert video_of(content)[:2] == ((64, 32), 5)


def test_list_retrieve_and_delete(api: OpenAI) -> None:
    """Its pages iterate over all jobs, and a deleted one is not found."""
    made = [create(api).id for _ in range(3)]
    listed = [video.id for video in api.videos.list(limit=2)]
    assert [video_id for video_id in listed if video_id in made] == made[::-1]
    assert api.videos.retrieve(made[0]).id == made[0]
    assert api.videos.delete(made[0]).deleted is True
    with pytest.raises(openai.NotFoundError):
        api.videos.retrieve(made[0])


def test_a_picture_as_the_client_sends_it(api: OpenAI) -> None:
    """An uploaded file, named `upload` and typed as bytes."""
    buffer = io.BytesIO()
    Image.new("RGB", (64, 32), "red").save(buffer, "PNG")
    video = api.videos.create_and_poll(
        model="tiny-wan-ti2v",
        prompt="a red circle",
        input_reference=buffer.getvalue(),
        extra_body={"num_frames": 5, "num_inference_steps": 2, "size": "64x32"},
        poll_interval_ms=50,
    )
    assert video.status == "completed"


def test_errors_are_the_clients_own(api: OpenAI) -> None:
    """A bad field is a BadRequestError with the field's name and a code."""
    with pytest.raises(openai.BadRequestError) as caught:
        create(api, guidance_scale=99)
    assert caught.value.param == "guidance_scale"
    assert caught.value.code == "invalid_value"
    with pytest.raises(openai.NotFoundError) as missing:
        api.videos.create(model="sora-9", prompt="a red circle")
    assert missing.value.code == "model_not_found"
