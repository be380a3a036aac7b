"""A real run with `log.format: json`: every line is an object, and a job's lines are found by its id."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx

from tests.e2e.requests import SMALL
from tests.serving import LIGHT, Served, finished, start

SECRET = "a circle that nobody may read about"  # noqa: S105 - a prompt


def lines(server: Served) -> list[dict[str, Any]]:
    return [json.loads(line) for line in server.log.read_text().splitlines()]


def test_every_line_is_json_and_a_job_is_found_by_its_id(tmp_path: Path) -> None:
    """From the server and from its worker, uvicorn's own included; nothing says what was asked for."""
    server = start(tmp_path / "data", "--log.format", "json", **LIGHT)
    with server.client() as client:
        asked = SMALL | {"prompt": SECRET}
        made = client.post("/v1/videos", json=asked, headers={"x-request-id": "order-7"}).json()
        video = finished(client, made["id"])
        client.get(f"/v1/videos/{made['id']}/content").raise_for_status()
        refused: httpx.Response = client.post("/v1/videos", json=asked | {"size": SECRET})
        client.delete(f"/v1/videos/{made['id']}").raise_for_status()
    assert server.stop() == 0
    said = lines(server)
    for line in said:
        assert {"time", "level", "logger", "pid", "message"} <= set(line), line
        assert line["level"] in ("info", "warning"), line
    ours = [line for line in said if line.get("job_id") == made["id"]]
    events = [(line["logger"], line["message"]) for line in ours]
    assert events[0] == ("reelserve.jobs", "job queued")
    assert events[3:] == [("reelserve.jobs", "job completed"), ("reelserve.jobs", "job deleted")]
    # One process does not wait for the other to say these.
    started = {("reelserve.jobs", "job started"), ("reelserve.worker", "job has left the device")}
    assert set(events[1:3]) == started
    assert len({line["pid"] for line in ours}) == 2
    assert ours[0]["request_id"] == "order-7"
    assert ours[3]["timings"].keys() == video["timings"].keys()  # type: ignore[attr-defined]
    assert {line["model"] for line in ours[:4]} == {made["model"]}
    assert any(line["logger"] == "uvicorn.error" for line in said)
    assert refused.status_code == 400
    assert SECRET not in server.log.read_text()
    assert str(tmp_path) not in server.log.read_text()
