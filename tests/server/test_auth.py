"""Who may use the server, and whose jobs are whose."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from tests.server.running import Server, serving

ALICE, ALICES_NEXT, BOB = "alice-0123456789abcdef", "alice-fedcba9876543210", "bob-0123456789abcdef"
KEYS = [
    {"name": "alice", "key": ALICE},
    {"name": "alice", "key": ALICES_NEXT},
    {"name": "bob", "key_sha256": hashlib.sha256(BOB.encode()).hexdigest()},
]


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with serving(tmp_path, auth={"keys": KEYS}) as running:
        yield running


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


@pytest.mark.parametrize(
    "headers",
    [
        [("authorization", f"Bearer {ALICE}")],
        [("authorization", f"bearer  {ALICE} ")],
        [("api-key", ALICE)],
        [("Api-Key", ALICES_NEXT)],
        [("authorization", f"Bearer {BOB}")],
        [("authorization", f"Bearer {ALICE}"), ("api-key", ALICE)],
        [("authorization", f"Bearer {ALICE}"), ("authorization", f"Bearer {ALICE}")],
    ],
)
async def test_a_key_opens(server: Server, headers: list[tuple[str, str]]) -> None:
    """In either header, or the same one in both."""
    assert (await server.client.get("/v1/videos", headers=headers)).status_code == 200


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ([], "missing_api_key"),
        ([("authorization", "Bearer")], "invalid_api_key"),
        ([("authorization", "")], "invalid_api_key"),
        ([("authorization", ALICE)], "invalid_api_key"),
        ([("authorization", f"Basic {ALICE}")], "invalid_api_key"),
        ([("authorization", f"Bearer {ALICE} {ALICE}")], "invalid_api_key"),
        ([("authorization", f"Bearer {ALICE[:-1]}")], "invalid_api_key"),
        ([("authorization", f"Bearer {ALICE.upper()}")], "invalid_api_key"),
        ([("authorization", f"Bearer {hashlib.sha256(BOB.encode()).hexdigest()}")], "invalid_api_key"),
        ([("authorization", "Bearer alice")], "invalid_api_key"),
        ([("api-key", "")], "invalid_api_key"),
        ([("api-key", "\xff" * 30)], "invalid_api_key"),
        ([("api-key", "x" * 10_000)], "invalid_api_key"),
        ([("authorization", f"Bearer {ALICE}"), ("api-key", BOB)], "invalid_api_key"),
        ([("authorization", f"Bearer {ALICE}"), ("api-key", ALICES_NEXT)], "invalid_api_key"),
        ([("api-key", ALICE), ("api-key", BOB)], "invalid_api_key"),
        ([("authorization", "Basic eDp5"), ("api-key", ALICE)], "invalid_api_key"),
        ([("x-api-key", ALICE)], "missing_api_key"),
        ([("cookie", f"api-key={ALICE}")], "missing_api_key"),
    ],
)
async def test_anything_else_is_refused(server: Server, headers: list[tuple[str, str]], code: str) -> None:
    """In the envelope, with what is needed; the key that was sent is not repeated."""
    encoded = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    answer = await server.client.get("/v1/videos", headers=encoded)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == 'Bearer realm="reelserve"'
    error = answer.json()["error"]
    assert (error["type"], error["param"], error["code"]) == ("invalid_request_error", None, code)
    assert ALICE not in answer.text
    assert (await server.client.get(f"/v1/videos?api-key={ALICE}", headers=encoded)).status_code == 401


async def test_the_body_is_not_read(server: Server) -> None:
    """Who has no key cannot make the server take bytes."""
    asked = []

    async def body() -> AsyncIterator[bytes]:
        asked.append(1)
        yield b"{"

    answer = await server.client.post("/v1/videos", content=body())
    assert (answer.status_code, asked) == (401, [])


@pytest.mark.parametrize("path", ["/live", "/health", "/live/", "/", "/static/playground.js"])
async def test_what_needs_no_key(server: Server, path: str) -> None:
    """A supervisor has none, and a browser sends none when it loads a page."""
    assert (await server.client.get(path)).status_code == 200


async def made(server: Server, key: str, count: int) -> str:
    """The id of a finished video of this key; it is job number `count`."""
    answer = (await server.post(headers=bearer(key))).raise_for_status()
    await server.finish(count)
    return str(answer.json()["id"])


CALLS = [
    ("GET", "/v1/videos/{id}", 200),
    ("GET", "/v1/videos/{id}/content", 200),
    ("HEAD", "/v1/videos/{id}/content", 200),
    ("GET", "/v1/videos/{id}/events", 200),
    ("GET", "/v1/videos?after={id}", 200),
    ("POST", "/v1/videos/{id}/cancel", 409),
    ("POST", "/v1/videos/{id}/remix", 200),
    ("POST", "/v1/videos/edits", 501),
    ("POST", "/v1/videos/extensions", 501),
    ("DELETE", "/v1/videos/{id}", 200),
]


async def test_each_name_sees_its_own_jobs_only(server: Server) -> None:
    """To others they do not exist: the answer is that for an id that nobody has."""
    mine, nobodys = await made(server, ALICE, 1), "video_" + "0" * 32

    async def call(key: str, method: str, path: str, video_id: str) -> httpx.Response:
        fields = {"prompt": "y"} | ({"video": {"id": video_id}} if "{id}" not in path else {})
        content = {"json": fields} if method == "POST" else {}
        return await server.client.request(method, path.format(id=video_id), headers=bearer(key), **content)  # type: ignore[arg-type]

    for method, path, _ in CALLS:
        answer = await call(BOB, method, path, mine)
        unknown = await call(BOB, method, path, nobodys)
        assert (answer.status_code, unknown.status_code) == (404, 404), path
        assert answer.text.replace(mine, nobodys) == unknown.text, path
    for method, path, status in CALLS:
        assert (await call(ALICE, method, path, mine)).status_code == status, path


async def test_lists_are_of_one_owner(server: Server) -> None:
    """Each page, by either of a name's keys; what is not the name's is not counted either."""
    ids = [await made(server, key, count + 1) for count, key in enumerate((ALICE, BOB, ALICES_NEXT))]

    async def listed(key: str, query: str = "") -> list[str]:
        answer = await server.client.get(f"/v1/videos?order=asc{query}", headers=bearer(key))
        assert not answer.json()["has_more"]
        return [video["id"] for video in answer.json()["data"]]

    assert await listed(ALICE) == await listed(ALICES_NEXT) == [ids[0], ids[2]]
    assert await listed(BOB, "&limit=1") == [ids[1]]
    assert await listed(ALICE, f"&after={ids[0]}") == [ids[2]]


async def test_an_idempotency_key_is_of_one_name(server: Server) -> None:
    """The same key of two names makes two jobs, whatever their bodies; for one name it means one."""
    answers = [
        await server.post(headers={"idempotency-key": "same"} | bearer(key), prompt=prompt)
        for key, prompt in ((ALICE, "a"), (BOB, "b"), (ALICES_NEXT, "a"))
    ]
    assert [answer.status_code for answer in answers] == [200, 200, 200]
    ids = [answer.json()["id"] for answer in answers]
    assert ids[0] == ids[2] != ids[1]


async def test_a_running_job_of_another_goes_on(server: Server) -> None:
    """A cancel and a delete by another name touch nothing."""
    await server.post(headers=bearer(ALICE))
    running = await server.begun()
    for method, path in (("POST", f"/v1/videos/{running}/cancel"), ("DELETE", f"/v1/videos/{running}")):
        assert (await server.client.request(method, path, headers=bearer(BOB))).status_code == 404
    assert server.engine.cancelled == []
    await server.finish()


async def test_turning_keys_off_opens_no_job(tmp_path: Path) -> None:
    """Jobs stay whose they are, and those of nobody are seen without keys only."""
    async with serving(tmp_path, auth={"keys": KEYS}) as server:
        alices = await made(server, ALICE, 1)
    async with serving(tmp_path) as server:
        assert (await server.client.get(f"/v1/videos/{alices}")).status_code == 404
        await server.post()
        nobodys = await server.finish()
    async with serving(tmp_path, auth={"keys": KEYS}) as server:
        assert (
            await server.client.get(f"/v1/videos/{alices}", headers=bearer(ALICES_NEXT))
        ).status_code == 200
        assert (await server.client.get(f"/v1/videos/{nobodys}", headers=bearer(ALICE))).status_code == 404


async def test_the_document_says_where_the_key_goes(server: Server, tmp_path: Path) -> None:
    """Only where there are keys."""
    document = (await server.client.get("/openapi.json", headers=bearer(ALICE))).json()
    assert document["security"] == [{"bearer": []}, {"api-key": []}]
    assert document["paths"]["/live"]["get"]["security"] == []
    async with serving(tmp_path / "open") as other:
        assert "security" not in (await other.client.get("/openapi.json")).json()


async def test_keys_are_nowhere_to_be_read(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    """Neither in the log of good and bad requests, nor in what the server holds."""
    caplog.set_level(logging.DEBUG)
    await made(server, ALICE, 1)
    await server.client.get("/v1/videos", headers=bearer("wrong-key-0123456789"))
    assert not any(key in caplog.text for key in (ALICE, "wrong-key-0123456789"))
    assert ALICE not in repr(server.services.settings)
    assert ALICE not in str(vars(server.services.api_keys))


async def test_an_idempotency_key_is_its_senders(server: Server) -> None:
    """Two names with one key and one request have two jobs; two API keys of one name have one."""
    same = {"Idempotency-Key": "order-1"}
    ids = [
        (await server.post(headers=same | bearer(key))).json()["id"] for key in (ALICE, BOB, ALICES_NEXT, BOB)
    ]
    assert (ids[0], ids[1]) == (ids[2], ids[3])
    assert ids[0] != ids[1]
