"""Parts of a file: whatever `Range` says, the answer is a file or the envelope."""

from __future__ import annotations

import httpx
import pytest

from tests.wire.envelope import judge
from tests.wire.instant import clip


@pytest.mark.parametrize(
    "wanted",
    [
        "bytes=0-1",
        "bytes=5-",
        "bytes=-3",
        "bytes=999999-",
        "bytes=999999-9999999",
        "bytes=1-0",
        "bytes=-0",
        "bytes=",
        "bytes",
        "bytes=a-b",
        "bytes=0-1,3-4",
        "bytes=0-0,0-0,0-0,0-0,0-0",
        "items=0-1",
        "bytes=" + ",".join(["0-1"] * 2000),
        "bytes=0-" + "9" * 4000,
        "bytes=" + "9" * 4000 + "-",
        "bytes=--1",
        "",
    ],
    ids=lambda wanted: wanted[:20],
)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_ranges(client: httpx.Client, method: str, wanted: str) -> None:
    """A part, the whole file, or an error in the envelope: never a page of another kind."""
    made = client.post("/v1/videos/sync", json={"prompt": "x"}).headers["x-video-id"]
    answer = judge(client.request(method, f"/v1/videos/{made}/content", headers={"range": wanted}))
    assert answer.status_code in (200, 206, 400, 416)
    if answer.status_code == 416:
        assert answer.headers["content-range"] == f"bytes */{len(clip('mp4'))}"
