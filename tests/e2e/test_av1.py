"""A server that makes its MP4 files with AV1: `encoding.mp4_codec` reaches the door, worker and viewer."""

from __future__ import annotations

import io
from collections.abc import Iterator

import httpx
import pytest
from PIL import Image

from tests.e2e.requests import SMALL, make
from tests.encoding.judge import Video, box_order, watch
from tests.serving import finished, start, to_be_left


@pytest.fixture(scope="module")
def av1(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    server = start(tmp_path_factory.mktemp("av1"), "--encoding.mp4_codec", "libsvtav1")
    for running in to_be_left(server):
        with running.client() as client:
            yield client
    assert "Svt[info]" not in server.log.read_text()


def _is_av1(video: Video) -> bool:
    seen = (video.codec_tag, video.size, len(video.times), video.colour)
    return seen == ("av01", (64, 32), 5, (1, 1, 1, 1))


def test_a_file_and_its_pictures(av1: httpx.Client) -> None:
    """An MP4 with its index in front, under MP4's own type; a remix of it with its options; a thumbnail."""
    made = av1.post("/v1/videos", json=SMALL | {"video_codec_options": {"preset": 12, "crf": 40}}).json()
    assert finished(av1, made["id"])["status"] == "completed"
    content = av1.get(f"/v1/videos/{made['id']}/content")
    assert content.headers["content-type"] == "video/mp4"
    assert box_order(content.content) == ["ftyp", "moov", "mdat"]
    assert _is_av1(watch(content.content))
    again = av1.post(f"/v1/videos/{made['id']}/remix", json={"prompt": SMALL["prompt"], "seed": 7}).json()
    assert finished(av1, again["id"])["status"] == "completed"
    assert av1.get(f"/v1/videos/{again['id']}/content").content == content.content
    thumbnail = av1.get(f"/v1/videos/{made['id']}/content", params={"variant": "thumbnail"})
    assert Image.open(io.BytesIO(thumbnail.content)).size == (64, 32)


def test_a_stream(av1: httpx.Client) -> None:
    """The fragmented stream is AV1 too."""
    assert _is_av1(watch(make(av1, stream=True).content))


def test_what_the_encoder_does_not_know(av1: httpx.Client) -> None:
    """H.264's words are refused before the job is queued, by the encoder's name."""
    refused = av1.post("/v1/videos", json=SMALL | {"video_codec_options": {"preset": "veryfast"}})
    assert refused.status_code == 400
    assert "libsvtav1, a whole number from 0 to 13" in refused.json()["error"]["message"]
