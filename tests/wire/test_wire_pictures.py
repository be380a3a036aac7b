"""Pictures of a video, over the wire."""

from __future__ import annotations

import io

import httpx
import pytest
from PIL import Image


@pytest.mark.parametrize(
    ("variant", "kind", "media_type"),
    [("thumbnail", "WEBP", "image/webp"), ("spritesheet", "JPEG", "image/jpeg")],
)
def test_the_variants_are_pictures(client: httpx.Client, variant: str, kind: str, media_type: str) -> None:
    """Each is of its own type, by its bytes as by its header, and not the video."""
    fields = {"prompt": "x", "size": "32x32", "num_frames": 2}
    made = client.post("/v1/videos/sync", json=fields).raise_for_status().headers["x-video-id"]
    answer = client.get(f"/v1/videos/{made}/content", params={"variant": variant}).raise_for_status()
    assert answer.headers["content-type"] == media_type
    with Image.open(io.BytesIO(answer.content)) as picture:
        assert picture.format == kind
