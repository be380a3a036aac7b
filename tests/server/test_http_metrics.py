from __future__ import annotations

from pathlib import Path

import pytest

from server.http_metrics import OTHER
from tests.server.logged import writing
from tests.server.running import serving
from tests.server.scraped import scrape

VIDEO = "/v1/videos/{video_id}"


async def test_a_request_is_counted_by_its_template(tmp_path: Path) -> None:
    """With its duration and the bytes of its answer; in whatever spelling the path came."""
    async with serving(tmp_path) as server:
        video_id = (await server.post()).json()["id"]
        before = await scrape(server.client)
        answers = [await server.client.get(f"{prefix}/{video_id}") for prefix in ("/v1/videos", "/videos")]
        now = await scrape(server.client)
    where = {"method": "GET", "route": VIDEO}
    assert now.since(before, "reelserve_http_requests_total", **where, status="200") == 2
    assert now.since(before, "reelserve_http_request_seconds_count", **where) == 2
    assert 0 < now.since(before, "reelserve_http_request_seconds_sum", **where) < 60
    sent = now.since(before, "reelserve_http_sent_bytes_total", **where)
    assert sent == sum(len(answer.content) for answer in answers)


async def test_bytes_of_bodies_and_of_downloads(tmp_path: Path) -> None:
    """What came in by the route that creates, and what went out by that of content."""
    async with serving(tmp_path) as server:
        made = await server.post()
        video_id = await server.finish()
        content = (await server.client.get(f"/v1/videos/{video_id}/content")).content
        now = await scrape(server.client)
    received = {"method": "POST", "route": "/v1/videos"}
    assert now.value("reelserve_http_received_bytes_total", **received) == len(made.request.content)
    sent = {"method": "GET", "route": f"{VIDEO}/content"}
    assert now.value("reelserve_http_sent_bytes_total", **sent) == len(content) == len(b"video")


async def test_no_client_makes_a_label(tmp_path: Path) -> None:
    """Paths and methods that nobody serves are one value, and ids are none."""
    async with serving(tmp_path) as server:
        video_id = (await server.post()).json()["id"]
        await server.client.get(f"/v1/videos/{video_id}")
        await server.client.get("/a/secret/path")
        await server.client.request("BREW", "/v1/videos")
        now = await scrape(server.client)
    values = now.label_values()
    assert not any("secret" in value or "BREW" in value or video_id in value for value in values)
    where = {"method": "GET", "route": OTHER, "status": "404"}
    assert now.value("reelserve_http_requests_total", **where) == 1


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/v1/videos/video_none", "404", "video_not_found"),
        ("/nothing", "404", "not_found"),
        ("/v1/videos?limit=0", "400", "invalid_value"),
        ("/v1/videos/characters/one", "501", "not_supported"),
    ],
)
async def test_refusals_are_counted_by_code(tmp_path: Path, path: str, status: str, code: str) -> None:
    """By the status and the code that the client was given."""
    async with serving(tmp_path) as server:
        answer = await server.client.get(path)
        now = await scrape(server.client)
    assert (str(answer.status_code), answer.json()["error"]["code"]) == (status, code)
    assert now.value("reelserve_refusals_total", status=status, code=code) == 1


async def test_a_refusal_is_a_line_that_its_request_id_finds(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """With the template of the path; what went well is no news."""
    async with serving(tmp_path) as server:
        with writing(caplog):
            answer = await server.client.get("/v1/videos/a-secret-id")
            await server.client.get("/live")
    (line,) = [line for line in caplog.text.splitlines() if " reelserve.http: " in line]
    assert f"request refused request_id={answer.headers['x-request-id']}" in line
    assert 'route="/v1/videos/{video_id}"' in line or "route=/v1/videos/{video_id}" in line
    assert "code=video_not_found" in line
    assert "status=404" in line
    assert "secret" not in line


async def test_a_bug_is_counted_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is answered outside of what counts."""

    async def broken(*_: object) -> None:
        raise RuntimeError("a bug")

    async with serving(tmp_path) as server:
        monkeypatch.setattr(server.services.store, "get", broken)
        assert (await server.client.get("/v1/videos/video_1")).status_code == 500
        now = await scrape(server.client)
    assert now.value("reelserve_refusals_total", status="500", code="internal_error") == 1
    where = {"method": "GET", "route": VIDEO, "status": "500"}
    assert now.value("reelserve_http_requests_total", **where) == 1


async def test_the_process_is_seen(tmp_path: Path) -> None:
    """Its memory and open files, as Prometheus' own collector reads them, and what was built."""
    async with serving(tmp_path) as server:
        now = await scrape(server.client)
    assert now.value("process_resident_memory_bytes") > 2**20
    assert now.value("process_open_fds") > 3
    (build,) = now.families["reelserve_build_info"].samples
    assert set(build.labels) == {"version", "python"}


async def test_a_request_without_a_key_is_counted(tmp_path: Path) -> None:
    """It never reaches a route, so it has none."""
    key = "k" * 40
    async with serving(tmp_path, auth={"keys": [{"name": "one", "key": key}]}) as server:
        answer = await server.client.get("/v1/videos")
        assert answer.status_code == 401
        server.client.headers["authorization"] = f"Bearer {key}"
        now = await scrape(server.client)
    assert now.value("reelserve_http_requests_total", method="GET", route=OTHER, status="401") == 1
    code = answer.json()["error"]["code"]
    assert now.value("reelserve_refusals_total", status="401", code=code) == 1
