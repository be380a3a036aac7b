"""Thousands of requests made from our own OpenAPI document, right ones and wrong ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, Phase, given, reject, settings
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode
from schemathesis.core.jsonschema.types import JsonValue
from schemathesis.core.result import Ok
from schemathesis.python.asgi import shutdown_lifespans
from schemathesis.schemas import APIOperation, BaseSchema
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from encoding.formats import FORMATS
from tests.wire.envelope import judge
from tests.wire.instant import make_app

CASES = 2_000
EACH = 170
"""Of each operation that takes anything; the others have one case."""
NEVER_DONE = {
    "POST /v1/videos/edits",  # 501: no model takes a video
    "POST /v1/videos/extensions",
    "POST /v1/videos/characters",
    "GET /v1/videos/characters/{character_id}",
    "POST /v1/videos/{video_id}/cancel",  # 409: the engine has always finished before
}
Operation = APIOperation[Any, Any, Any, Any]
PROMISES = (
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
)
REPEATABLE = settings(
    max_examples=EACH,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FastAPI]:
    # By any name: schemathesis has one of its own. None is refused because the ones before are not done yet.
    yield make_app(tmp_path_factory.mktemp("wire"), server={"allow_public": True}, queue={"max_jobs": 10_000})
    shutdown_lifespans()


@pytest.fixture
def schema(app: FastAPI) -> BaseSchema:
    return schemathesis.openapi.from_asgi("/openapi.json", app)


def test_no_request_is_a_server_error(schema: BaseSchema) -> None:
    """Every answer is in the envelope, and is what the document says that it is."""
    operations = [found.ok() for found in schema.get_all_operations() if isinstance(found, Ok)]
    statuses = Counter[tuple[str, int]]()
    for operation in operations:
        named = "{" in operation.path  # where no video is, each would only repeat the same requests
        videos = [_create(schema, name) for name in FORMATS for _ in range(3)] if named else []
        _try_out(operation, videos, statuses)
    assert statuses.total() >= CASES
    done = {label for label, status in statuses if status < 400}
    assert {operation.label for operation in operations} - done <= NEVER_DONE


def _create(schema: BaseSchema, format_name: str) -> str:
    """The id of a finished video."""
    body: dict[str, JsonValue] = {
        "prompt": "x",
        "output_format": format_name,
        "size": "32x32",
        "num_frames": 2,
    }
    answer = schema["/v1/videos/sync"]["POST"].Case(body=body, media_type="application/json").call()
    assert answer.status_code == 200, answer.text
    return str(answer.headers["x-video-id"][0])


@st.composite
def _drawable(draw: st.DrawFn, cases: st.SearchStrategy[Case[Any]]) -> Case[Any]:
    """`cases` without those that schemathesis draws and then cannot judge: wrong bodies that hold a file."""
    try:
        return draw(cases)
    except ValueError as error:
        if "Unsupported type: 'Binary'" in str(error):
            reject()
        raise


def _try_out(operation: Operation, videos: list[str], statuses: Counter[tuple[str, int]]) -> None:
    """Cases of one operation, most of them for a video that exists."""
    right, wrong = (_drawable(operation.as_strategy(generation_mode=mode)) for mode in GenerationMode)

    @REPEATABLE
    @given(case=st.one_of(right, wrong), known=st.sampled_from([None, *videos]))
    def check(case: Case[Any], known: str | None) -> None:
        if known is not None:
            case.path_parameters |= {
                name: value
                for name, value in (("video_id", known), ("model_id", "text"))
                if name in case.path_parameters
            }
        answer = case.call()
        statuses[operation.label, answer.status_code] += 1
        judge(_as_httpx(answer))
        case.validate_response(answer, checks=list(PROMISES))

    check()


def _as_httpx(answer: schemathesis.Response) -> httpx.Response:
    request = httpx.Request(str(answer.request.method), str(answer.request.url))
    headers = [(name, value) for name, values in answer.headers.items() for value in values]
    return httpx.Response(answer.status_code, headers=headers, content=answer.content, request=request)
