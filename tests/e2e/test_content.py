"""The finished file, in each of the forms that a client can ask for."""

from __future__ import annotations

import base64
from pathlib import Path

import httpx
import pytest
import torch

from tests.e2e.requests import ENDLESS, SMALL, make, tensor_of, video_of
from tests.serving import Served, finished


def test_the_path_of_a_file(client: httpx.Client, served: Served) -> None:
    """`video_path` answers with two keys, and the file is there, whole."""
    answer = make(client, response_format="video_path").json()
    assert set(answer) == {"video_id", "video_path"}
    path = Path(answer["video_path"])
    assert path.is_relative_to(served.artifacts)
    assert video_of(path.read_bytes())[1] == 5
    asked = client.get(f"/v1/videos/{answer['video_id']}/content", headers={"Accept": "application/json"})
    assert asked.json() == answer


def test_base64_and_url(client: httpx.Client) -> None:
    """The same bytes in JSON, and behind the URL."""
    encoded = make(client, response_format="b64_json").json()
    linked = make(client, response_format="url").json()
    assert set(encoded) == {"video_id", "video_bytes"}
    assert base64.b64decode(encoded["video_bytes"]) == client.get(linked["url"]).content


@pytest.mark.parametrize(
    ("output_format", "media_type"),
    [("auto", "video/mp4"), ("webm", "video/webm"), ("raw", "application/octet-stream")],
)
def test_every_format_has_its_media_type(client: httpx.Client, output_format: str, media_type: str) -> None:
    """Names that other servers use mean one of our formats."""
    assert make(client, output_format=output_format).headers["content-type"] == media_type


def test_a_safetensors_file_holds_the_frames(client: httpx.Client, tmp_path: Path) -> None:
    """The same frames as the `.pt`."""
    from safetensors.torch import load

    stored = load(make(client, output_format="safetensors").content)["frames"]
    assert torch.equal(stored, tensor_of(make(client, output_format="pt").content)["frames"])


def test_several_videos_of_one_request(client: httpx.Client) -> None:
    """Each by its index, all different, the first one that of a single request."""
    created = client.post("/v1/videos", json=SMALL | {"n": 2}).json()
    assert finished(client, created["id"])["status"] == "completed"
    url = f"/v1/videos/{created['id']}/content"
    first, second = (client.get(url, params={"index": index}) for index in (0, 1))
    assert first.content == client.get(url).content == make(client).content
    assert second.status_code == 200
    assert second.content != first.content
    assert client.get(url, params={"index": 2}).json()["error"]["param"] == "index"


def test_parts_of_a_file(client: httpx.Client) -> None:
    """Ranges, a stable ETag, a head without a body, and a name to save it by."""
    created = client.post("/v1/videos", json=SMALL).json()
    finished(client, created["id"])
    url = f"/v1/videos/{created['id']}/content"
    whole = client.get(url)
    part = client.get(url, headers={"Range": "bytes=0-1"})
    assert (part.status_code, part.content) == (206, whole.content[:2])
    assert part.headers["content-range"] == f"bytes 0-1/{len(whole.content)}"
    assert part.headers["etag"] == whole.headers["etag"]
    assert client.get(url, headers={"Range": f"bytes={len(whole.content)}-"}).status_code == 416
    head = client.head(url)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == str(len(whole.content))
    assert f'filename="{created["id"]}.mp4"' in whole.headers["content-disposition"]


def test_a_file_that_is_not_there_yet(client: httpx.Client) -> None:
    """404 with a code of its own until the video is completed, and after it failed."""
    created = client.post("/v1/videos", json=ENDLESS).json()
    url = f"/v1/videos/{created['id']}"
    early = client.get(f"{url}/content")
    assert (early.status_code, early.json()["error"]["code"]) == (404, "video_not_ready")
    cancelled = client.post(f"{url}/cancel").json()
    assert (cancelled["status"], cancelled["error"]["code"]) == ("failed", "cancelled")
    failed = client.get(f"{url}/content")
    assert (failed.status_code, failed.json()["error"]["code"]) == (404, "video_failed")
    assert client.get(url).status_code == 200
    again = client.post(f"{url}/cancel")
    assert (again.status_code, again.headers["x-should-retry"]) == (409, "false")


def test_a_deleted_video_is_gone(client: httpx.Client, served: Served) -> None:
    """Record and files, when the answer comes."""
    created = client.post("/v1/videos", json=SMALL).json()
    finished(client, created["id"])
    assert (served.artifacts / created["id"]).exists()
    deleted = client.delete(f"/v1/videos/{created['id']}")
    assert deleted.json() == {"id": created["id"], "object": "video.deleted", "deleted": True}
    assert not (served.artifacts / created["id"]).exists()
    assert client.get(f"/v1/videos/{created['id']}").status_code == 404
    assert client.delete(f"/v1/videos/{created['id']}").status_code == 404
