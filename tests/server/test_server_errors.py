from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import httpx
import pytest
from fastapi import FastAPI, Query
from starlette.exceptions import HTTPException

from server import error_answers
from server.echo import clean, shown
from server.error_answers import error_body
from server.errors import (
    ERROR_TABLE,
    ApiError,
    BadField,
    BodyTooLarge,
    IdempotencyKeyReused,
    IllegalMove,
    InvalidImage,
    JobFailed,
    JobNotStored,
    ModelNotFound,
    NotFound,
    NotReady,
    NotSupported,
    QueueFull,
    RetryLater,
    StorageUnavailable,
    UnsupportedMediaType,
    VideoFailed,
    VideoNotReady,
    row_of,
)
from server.request_id import RequestIdMiddleware
from server.spool import Spool, Upload
from server.values import Number
from tests.server.logged import lines

NASTY = "a\ud83d\0\r\n\x1b[31m\u202e" + "x" * 10_000


def subclasses(kind: type[ApiError]) -> Iterator[type[ApiError]]:
    for child in kind.__subclasses__():
        yield child
        yield from subclasses(child)


def make_app(error: Exception) -> FastAPI:
    app = FastAPI()
    error_answers.install(app)
    app.add_middleware(RequestIdMiddleware)

    async def fail() -> None:
        raise error

    async def listing(limit: Annotated[int, Query(ge=1, le=100)], name: str | None = None) -> dict[str, int]:
        return {"limit": limit}

    app.add_api_route("/fail", fail, methods=["GET"])
    app.add_api_route("/list", listing, methods=["GET"])
    return app


async def get(
    path: str,
    error: Exception | None = None,
    *,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
) -> httpx.Response:
    app = make_app(error or RuntimeError("never raised"))
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://door") as client:
        return await client.request(method, path, headers=headers)


def envelope(response: httpx.Response) -> dict[str, Any]:
    body = response.json()
    assert list(body) == ["error"]
    assert list(body["error"]) == ["message", "type", "param", "code"]
    detail: dict[str, Any] = body["error"]
    return detail


def test_every_error_has_a_row() -> None:
    """By itself or by an ancestor, each class that can be raised has a status, a type and a code."""
    for kind in subclasses(ApiError):
        if kind is not RetryLater:  # only ever raised as one of its kinds
            assert 400 <= row_of(kind).status < 600
    assert set(ERROR_TABLE) <= set(subclasses(ApiError))


ANSWERS: list[tuple[ApiError, int, str, dict[str, str]]] = [
    (BadField("size", "no"), 400, "invalid_value", {}),
    (BadField("size", "no", code="special"), 400, "special", {}),
    (InvalidImage("image", "no"), 400, "invalid_image", {}),
    (NotFound("no"), 404, "not_found", {}),
    (ModelNotFound("no", param="model"), 404, "model_not_found", {}),
    (VideoNotReady("no"), 404, "video_not_ready", {}),
    (VideoFailed("no"), 404, "video_failed", {}),
    (IllegalMove("no"), 409, "illegal_move", {"x-should-retry": "false"}),
    (IdempotencyKeyReused("no"), 409, "idempotency_key_reused", {"x-should-retry": "false"}),
    (BodyTooLarge("no"), 413, "body_too_large", {}),
    (UnsupportedMediaType("no"), 415, "unsupported_media_type", {}),
    (QueueFull("no", 5), 429, "queue_full", {"retry-after": "5"}),
    (QueueFull("no", 0.2), 429, "queue_full", {"retry-after": "1"}),
    (QueueFull("no", 600), 429, "queue_full", {"retry-after": "60"}),
    (NotSupported("no"), 501, "not_supported", {"x-should-retry": "false"}),
    (NotReady("no", 2.5), 503, "not_ready", {"retry-after": "3"}),
    (StorageUnavailable(), 507, "storage_failed", {"retry-after": "10"}),
    (JobNotStored("no", "storage_failed"), 507, "storage_failed", {"x-should-retry": "false"}),
    (JobFailed("no", "out_of_memory"), 500, "out_of_memory", {"x-should-retry": "false"}),
]


@pytest.mark.parametrize(
    ("error", "status", "code", "headers"), ANSWERS, ids=lambda value: type(value).__name__
)
async def test_an_error_is_answered_by_its_row(
    error: ApiError, status: int, code: str, headers: dict[str, str]
) -> None:
    """Status, code, the headers that clients' retries depend on, and the field's name."""
    response = await get("/fail", error)
    detail = envelope(response)
    assert response.status_code == status
    assert (detail["code"], detail["param"]) == (code, error.param)
    assert headers.items() <= dict(response.headers).items()
    assert response.headers["content-type"] == "application/json"


async def test_a_subclass_is_answered_by_its_ancestors_row() -> None:
    """A class that the table does not name is still understood."""

    class Odd(BadField):
        """Not in the table."""

    assert (await get("/fail", Odd("size", "no"))).status_code == 400


async def test_whatever_is_echoed_the_answer_is_clean() -> None:
    """Half surrogates, NUL, escapes and endless text in message and name."""
    response = await get("/fail", BadField(NASTY, f"{shown(NASTY)} is not allowed"))
    detail = envelope(response)
    assert response.status_code == 400
    assert "\\ud83d\\x00\\r\\n\\x1b[31m\\u202e" in detail["message"]
    assert len(response.content) < 1000


async def test_a_bug_says_nothing_but_an_id(caplog: pytest.LogCaptureFixture) -> None:
    """An unexpected exception's message may hold anything: neither the answer nor our log line has it."""
    with caplog.at_level(logging.ERROR, logger="server.errors"):
        response = await get("/fail", RuntimeError("a secret prompt"))
    detail = envelope(response)
    assert response.status_code == 500
    assert response.headers["x-request-id"] in detail["message"]
    assert "secret" not in response.text
    (line,) = lines(caplog)
    assert f"unhandled error request_id={response.headers['x-request-id']} error=RuntimeError" in line
    assert "secret" not in line


async def test_a_bug_in_a_post_is_not_retried_by_clients() -> None:
    """It may have made its job before it failed; a GET can be repeated without harm."""
    app = make_app(RuntimeError("late"))
    app.add_api_route("/make", _fail_late, methods=["POST"])
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://door") as client:
        made = await client.post("/make")
    assert (made.status_code, made.headers["x-should-retry"]) == (500, "false")
    assert "x-should-retry" not in (await get("/fail", RuntimeError("late"))).headers


async def _fail_late() -> None:
    raise RuntimeError("after the job was made")


async def test_unknown_routes_and_methods() -> None:
    """404 and 405 from the router have the envelope too; 405 says what is allowed."""
    response = await get("/nowhere\ud83d".encode("utf-8", "replace").decode())
    assert (response.status_code, envelope(response)["code"]) == (404, "not_found")
    response = await get("/fail", method="POST")
    assert (response.status_code, envelope(response)["code"]) == (405, "method_not_allowed")
    assert response.headers["allow"] == "GET"


async def test_an_unheard_of_status_is_answered() -> None:
    """The handler does not depend on the status having a name."""
    response = await get("/fail", HTTPException(499, "odd"))
    assert (response.status_code, envelope(response)["message"]) == (499, "GET /fail: odd")


@pytest.mark.parametrize("query", ["limit=0", "limit=many", "limit=", "limit=NaN", "limit=" + "9" * 5000, ""])
async def test_query_parameters_are_named(query: str) -> None:
    """What FastAPI checks itself is answered like every other field."""
    response = await get(f"/list?{query}")
    assert response.status_code == 400
    assert envelope(response)["param"] == "limit"
    assert len(response.content) < 1000


async def test_a_sane_request_id_is_kept() -> None:
    """The client's own id comes back, on errors as on results."""
    for path in ("/list?limit=5", "/list?limit=0", "/fail", "/nowhere"):
        response = await get(path, headers={"x-request-id": "abc-1.2_3:4"})
        assert response.headers["x-request-id"] == "abc-1.2_3:4"


@pytest.mark.parametrize("given", [None, "", "a b", "x" * 129, "<script>", "a;b"])
async def test_another_request_id_is_made(given: str | None) -> None:
    """Without a sane one: `req_` and hexadecimal digits, each time others."""
    headers = {} if given is None else {"x-request-id": given}
    made = {(await get("/nowhere", headers=headers)).headers["x-request-id"] for _ in range(3)}
    assert len(made) == 3
    assert all(name.startswith("req_") and len(name) == 36 for name in made)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("832x", '"832x"'),
        (Number("1e5"), "1e5"),
        (None, "null"),
        (True, "true"),
        (0, "0"),
        (0.5, "0.5"),
        (1 << 16_609, "an integer of 16,610 bits"),
        (Upload(Spool(Path()), 0, 4), "a file of 4 bytes"),
        ([1], "a list"),
        ({"a": 1}, "an object"),
        ("x" * 100, '"' + "x" * 80 + '… (100 characters)"'),
    ],
    ids=lambda value: type(value).__name__,  # pytest would print the large number
)
def test_values_are_shown_short(value: Any, text: str) -> None:
    """Text in quotes, numbers as sent, anything large by its kind."""
    assert shown(value) == text


def test_clean_text_encodes() -> None:
    """Whatever goes in, UTF-8 comes out, in one line."""
    assert "\n" not in clean(NASTY)
    clean(NASTY).encode()
    error_body(NASTY, "t", NASTY, None)["error"]["message"].encode()
