"""What the OpenAPI document cannot learn from signatures: the request, which routes read themselves from
either encoding, files as answers, and errors as they come out of the one table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from inspect import getdoc
from typing import Any

from fastapi import FastAPI

from encoding.formats import FORMATS
from encoding.previews import PREVIEWS
from server.answers import ErrorBody, VideoBytesResult, VideoPathResult, VideoUrlResult
from server.auth.middleware import OPEN_PATHS
from server.error_answers import error_body
from server.errors import (
    ApiError,
    BadField,
    BadRequest,
    BadUrl,
    BodyTooLarge,
    DuplicateField,
    FieldTooLarge,
    IdempotencyKeyReused,
    InvalidImage,
    InvalidMedia,
    MissingField,
    ModelNotFound,
    NotReady,
    QueueFull,
    RequestTimeout,
    RetryLater,
    StorageUnavailable,
    UnknownField,
    UnsupportedMediaType,
    row_of,
)
from server.idempotency import HEADER as IDEMPOTENCY_KEY
from server.schemas import VideoGenerationRequest

Responses = dict[int | str, dict[str, Any]]

UNREADABLE = (
    BadRequest,
    BadField,
    MissingField,
    UnknownField,
    DuplicateField,
    InvalidImage,
    InvalidMedia,
    BadUrl,
    FieldTooLarge,
)
REFUSED_AT_THE_DOOR = (
    *UNREADABLE,
    ModelNotFound,
    IdempotencyKeyReused,
    RequestTimeout,
    BodyTooLarge,
    UnsupportedMediaType,
    QueueFull,
    NotReady,
    StorageUnavailable,
)
"""What a route that takes a generation request may answer before there is a job."""

ANY_ERROR: Responses = {
    "default": {"model": ErrorBody, "description": "Any other error, in the same envelope."}
}
"""For every route; it also keeps FastAPI from announcing a 422, which this server never sends."""

_REQUEST_ID = {"$ref": "#/components/headers/X-Request-Id"}


def request_body() -> dict[str, Any]:
    """`openapi_extra` of a route that takes a generation request, as JSON or as a form."""
    schema = VideoGenerationRequest.model_json_schema()
    # Written out in place: FastAPI collects only the models that it reads itself.
    whole = _inlined(schema, schema.pop("$defs"))
    kinds = ("application/json", "multipart/form-data")
    body = {"required": True, "content": {kind: {"schema": whole} for kind in kinds}}
    meaning = "for 24 hours, the same key and request mean the same job; 1 to 255 printable ASCII characters"
    return {"requestBody": body} | header(IDEMPOTENCY_KEY, meaning, "order-1234")


def header(name: str, description: str, example: str) -> dict[str, Any]:
    """`openapi_extra` for a header that the route reads itself."""
    told = {"name": name, "in": "header", "required": False, "description": description}
    return {"parameters": [{**told, "schema": {"type": "string"}, "example": example}]}


def error_answers(*kinds: type[ApiError]) -> Responses:
    """`responses` of a route that these errors leave, one for each status, with an example of each code."""
    by_status: dict[int | str, list[type[ApiError]]] = {}
    for kind in kinds:
        by_status.setdefault(row_of(kind).status, []).append(kind)
    return {status: _error_answer(kinds) for status, kinds in by_status.items()}


def file_answer(*more_types: str) -> dict[str, Any]:
    """An answer that is a video file in whatever format the request asked for."""
    types = dict.fromkeys([*(kind.media_type for kind in FORMATS.values()), *more_types])
    content = {kind: {"schema": {"type": "string", "format": "binary"}} for kind in types}
    return {"description": "the file", "content": content}


def waiting_answer() -> Responses:
    """The file, or one of the JSON forms of `response_format`."""
    models = (VideoPathResult, VideoBytesResult, VideoUrlResult)
    answer = file_answer()
    answer["description"] = "the file, or JSON for `response_format` `video_path`, `b64_json` and `url`"
    answer["content"]["application/json"] = {"schema": {"anyOf": [_schema(model) for model in models]}}
    return {200: answer}


def content_answers() -> Responses:
    """A stored file, or a part of it."""
    pictures = [preview.media_type for preview in PREVIEWS.values()]
    part = file_answer(*pictures, "multipart/byteranges")
    part["description"] = "the part of the file that `Range` names, or the parts"
    whole = file_answer(*pictures, "application/json")
    whole["description"] = "the file, or with `Accept: application/json` the path, where it was asked for"
    return {200: whole, 206: part, 304: {"description": "the client has it: `If-None-Match` names it"}}


def install(app: FastAPI, *, keys: bool) -> None:
    """Let the document of `app` say what every answer carries, and, with `keys`, where the API key goes."""
    generate = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = generate()
            _complete(document)
            if keys:
                _secure(document)
        return generate()

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's documented way


def _complete(document: dict[str, Any]) -> None:
    described = {
        "description": "the id of the request: the client's own if it sent a sane one",
        "schema": {"type": "string"},
        "example": "req_0123456789abcdef0123456789abcdef",
    }
    document["components"].setdefault("headers", {})["X-Request-Id"] = described
    for response in _responses(document):
        response.setdefault("headers", {})["X-Request-Id"] = _REQUEST_ID
        for example in response.get("content", {}).get("application/json", {}).get("examples", {}).values():
            if "error" in example["value"]:  # FastAPI leaves nulls out of the examples too
                example["value"]["error"].setdefault("param", None)


def _secure(document: dict[str, Any]) -> None:
    """Every operation takes a key in either header, but those that need none."""
    document["components"]["securitySchemes"] = {
        "bearer": {"type": "http", "scheme": "bearer"},
        "api-key": {"type": "apiKey", "in": "header", "name": "api-key"},
    }
    document["security"] = [{"bearer": []}, {"api-key": []}]
    for path in OPEN_PATHS:
        for operation in document["paths"][path].values():
            operation["security"] = []


def _responses(document: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    for operations in document["paths"].values():
        for operation in operations.values():
            yield from operation["responses"].values()


def _error_answer(kinds: Iterable[type[ApiError]]) -> dict[str, Any]:
    rows = {row_of(kind).code: kind for kind in kinds}
    answer: dict[str, Any] = {
        "model": ErrorBody,
        "description": "; ".join(f"`{code}`: {_says(kind)}" for code, kind in rows.items()),
        "content": {"application/json": {"examples": {code: _example(kind) for code, kind in rows.items()}}},
    }
    if any(issubclass(kind, RetryLater) for kind in rows.values()):
        answer["headers"] = {"Retry-After": {"description": "seconds", "schema": {"type": "integer"}}}
    return answer


def _example(kind: type[ApiError]) -> dict[str, Any]:
    row = row_of(kind)
    return {
        "value": error_body(_says(kind), row.type, "size" if issubclass(kind, BadField) else None, row.code)
    }


def _says(kind: type[ApiError]) -> str:
    """The first words of a class's docstring."""
    return (getdoc(kind) or "").partition("\n")[0].partition(";")[0].rstrip(".")


def _schema(model: type[Any]) -> dict[str, Any]:
    schema: dict[str, Any] = model.model_json_schema()
    return schema


def _inlined(node: Any, definitions: dict[str, Any]) -> Any:
    if isinstance(node, list):
        return [_inlined(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _inlined(definitions[node["$ref"].rpartition("/")[2]], definitions)
    return {key: _inlined(value, definitions) for key, value in node.items()}
