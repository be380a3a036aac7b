"""A job's way to its end: as events, as polls, as places in the queue."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from tests.e2e.requests import SMALL, occupied
from tests.serving import finished

LONG = SMALL | {"num_inference_steps": 40}


def events_of(response: httpx.Response) -> Iterator[tuple[str, dict[str, Any]]]:
    """Names and data of a stream of server-sent events, read as a browser does."""
    name = "message"
    for line in response.iter_lines():
        field, _, value = line.partition(": ")
        if field == "event":
            name = value
        elif field == "data":
            yield name, json.loads(value)


def watched(client: httpx.Client, video_id: str) -> list[tuple[str, dict[str, Any]]]:
    with client.stream("GET", f"/v1/videos/{video_id}/events") as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        return list(events_of(response))


def test_events_tell_the_way_to_the_end(client: httpx.Client, tmp_path: Path) -> None:
    """Steps and chunks as they are done, progress that never falls, and the end as the last event."""
    # What follows closely is told as one event: the job waits at these moments until they have been told.
    moments = [("denoise", 1), ("denoise", 20), ("decode", 5)]
    stops = [f"fault:held={tmp_path}/{stage}{step}@{stage}:{step}" for stage, step in moments]
    with occupied(client) as release:
        asked = LONG | {"prompt": " + ".join(stops), "num_frames": 9}
        created = client.post("/v1/videos", json=asked).json()
        with client.stream("GET", f"/v1/videos/{created['id']}/events") as response:
            following = events_of(response)
            events = [next(following)]  # it is watched from its start
            release()
            for stage, step in moments:
                while (events[-1][1]["stage"], events[-1][1]["step"]) != (stage, step):
                    events.append(next(following))
                (tmp_path / f"{stage}{step}").touch()
            events += following
    assert [name for name, _ in events[:-1]] == ["progress"] * (len(events) - 1)
    assert events[-1][0] == "completed"
    assert events[-1][1]["progress"] == 100
    told = [event["progress"] for _, event in events]
    assert all(before <= after for before, after in itertools.pairwise(told))
    steps = [(event["step"], event["steps"]) for _, event in events if event["stage"] == "denoise"]
    assert {(1, 40), (20, 40)} <= set(steps)
    assert {count for _, count in steps} == {40}


def test_events_of_an_ended_job(client: httpx.Client) -> None:
    """One event, and the end."""
    created = client.post("/v1/videos", json=SMALL).json()
    finished(client, created["id"])
    assert [name for name, _ in watched(client, created["id"])] == ["completed"]


def test_events_of_a_cancelled_and_of_a_deleted_job(client: httpx.Client) -> None:
    """The last event says what became of it."""
    for action, last in (("cancel", "failed"), ("delete", "deleted")):
        with occupied(client):
            created = client.post("/v1/videos", json=LONG).json()
            with client.stream("GET", f"/v1/videos/{created['id']}/events") as response:
                events = events_of(response)
                next(events)
                url = f"/v1/videos/{created['id']}"
                done = client.post(f"{url}/cancel") if action == "cancel" else client.delete(url)
                assert done.status_code == 200
                assert list(events)[-1][0] in (last, "failed")


def test_events_of_no_job(client: httpx.Client) -> None:
    """An ordinary 404, before any event."""
    response = client.get("/v1/videos/video_none/events")
    assert (response.status_code, response.json()["error"]["code"]) == (404, "video_not_found")


def test_places_in_the_queue_and_when_to_ask_again(client: httpx.Client) -> None:
    """Behind a long job: 0, then 1; the header is plain digits until the job has ended, and gone then."""
    with occupied(client):
        waiting = [client.post("/v1/videos", json=LONG).json()["id"] for _ in range(2)]
        seen = [client.get(f"/v1/videos/{video_id}") for video_id in waiting]
        assert [response.json()["queue_position"] for response in seen] == [0, 1]
        assert all(response.headers["openai-poll-after-ms"].isdecimal() for response in seen)
        for video_id in waiting:
            client.delete(f"/v1/videos/{video_id}")
    done = client.post("/v1/videos", json=SMALL).json()["id"]
    finished(client, done)
    assert "openai-poll-after-ms" not in client.get(f"/v1/videos/{done}").headers
