"""What a request can meet, and the one table that turns it into an answer.

ApiError
├── BadRequest               the body as a whole cannot be read
│   └── BadField             one field of it; carries the name that the client used
│       ├── MissingField
│       ├── UnknownField
│       ├── DuplicateField   sent twice, or beside another spelling of itself
│       ├── InvalidImage     a reference picture that cannot be used
│       ├── InvalidMedia     a reference sound or film that cannot be used
│       ├── BadUrl           a URL that is not allowed, or without a file behind it
│       └── FieldTooLarge    a text or a file with more bytes than the operator allows
├── Unauthorized             no API key, or one that is not known
├── NotFound                 no such video, file or variant
│   ├── ModelNotFound
│   ├── VideoNotReady        the video is still being made
│   ├── VideoFailed          there will never be a file
│   ├── VideoExpired         the file was kept for its time
│   └── FileMissing          the video was completed, and its file is gone
├── IllegalMove              the job is in a state that does not allow this
├── IdempotencyKeyReused     the key belongs to another request
├── RequestTimeout           the request did not arrive in time
├── RangeNotSatisfiable      bytes that the file does not have; carries its size
├── BodyTooLarge             more bytes than the operator allows
├── UnsupportedMediaType     neither JSON nor a multipart form
├── NotSupported             a route of OpenAI's that has no meaning here
├── PreviewFailed            a picture of a video cannot be made
├── JobFailed                a request that waits for its video learns that the job failed
│   └── JobNotStored         and that it did so because its file could not be written
└── RetryLater               carries the seconds to wait
    ├── QueueFull
    ├── KeyBusy
    ├── TooManyConnections
    ├── NotReady             no worker can take work, or the server is stopping
    ├── StoreUnavailable     the job database cannot be reached
    └── StorageUnavailable   a disk or the database is full, read-only or failing
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from math import ceil
from types import MappingProxyType
from typing import Any, cast

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import DBAPIError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Match
from starlette.types import Scope

from server import request_id
from server.echo import clean, shown
from server.storage import is_storage_error

MAX_MESSAGE = 2000
MAX_RETRY_AFTER_S = 60
"""Longer waits are not obeyed by the official clients."""
STORAGE_RETRY_S = 10

CODE = "error_code"
"""Name of an answer's code in the state of its request."""

_PHRASES = {status.value: status.phrase for status in HTTPStatus}
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")

_logger = logging.getLogger(__name__)


class ApiError(Exception):
    """Base of all that a request is refused for. `code` overrides the code of the table's row."""

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code


class BadRequest(ApiError):
    """The body cannot be read as a request."""


class BadField(BadRequest):
    """A field with a value that is not allowed; `problem` says the value and what is allowed."""

    def __init__(self, param: str, problem: str, code: str | None = None) -> None:
        super().__init__(f"{clean(param)}: {problem}", param=param, code=code)
        self.problem = problem

    def rename(self, param: str) -> None:
        """Name the field as the client did."""
        self.param = param
        self.message = f"{clean(param)}: {self.problem}"


class MissingField(BadField):
    """A field that this request needs."""


class UnknownField(BadField):
    """A field that no request has."""


class DuplicateField(BadField):
    """A field that was given more than once, by whatever spelling."""


class InvalidImage(BadField):
    """A reference picture that cannot be decoded or is too large."""


class InvalidMedia(BadField):
    """A reference sound or film that cannot be decoded or is too long or too large."""


class BadUrl(BadField):
    """A URL that is not allowed, or that no file can be fetched from."""


class FieldTooLarge(BadField):
    """A text or a file that has more bytes than allowed."""


class Unauthorized(ApiError):
    """No API key, or one that is not known."""


class NotFound(ApiError):
    """There is no such thing (any more)."""


class ModelNotFound(NotFound):
    """A model that this server does not serve."""


class VideoNotReady(NotFound):
    """The file of a video that is not finished."""


class VideoFailed(NotFound):
    """The file of a video that failed."""


class VideoExpired(NotFound):
    """The file of a completed video was kept for its time, and is gone."""


class FileMissing(NotFound):
    """The file of a completed video was removed, or is being deleted."""


class RangeNotSatisfiable(ApiError):
    """No byte of the file lies in `Range`; `size` is what it has."""

    def __init__(self, message: str, size: int) -> None:
        super().__init__(message)
        self.size = size


class IllegalMove(ApiError):
    """A job is in a state that does not allow what was asked."""


class IdempotencyKeyReused(ApiError):
    """The `Idempotency-Key` of this request came with another one before."""


class RequestTimeout(ApiError):
    """The request did not arrive in time."""


class BodyTooLarge(ApiError):
    """The body has more bytes than allowed."""


class UnsupportedMediaType(ApiError):
    """The body is neither JSON nor a multipart form."""


class NotSupported(ApiError):
    """A route of OpenAI's that this server does not have."""


class PreviewFailed(ApiError):
    """The thumbnail or spritesheet of a video cannot be made."""


class JobFailed(ApiError):
    """The job behind a waiting request failed; `code` is the job's error code."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message, code=code)


class JobNotStored(JobFailed):
    """The job behind a waiting request failed because its file could not be written."""


class RetryLater(ApiError):
    """The same request may succeed after `retry_after_s` seconds."""

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class QueueFull(RetryLater):
    """As many jobs wait as the operator allows."""


class KeyBusy(RetryLater):
    """As many jobs of this API key are unfinished as the operator allows."""


class TooManyConnections(RetryLater):
    """As many connections are open as the operator allows."""


class NotReady(RetryLater):
    """No worker can take work."""


class StoreUnavailable(RetryLater):
    """The job database cannot be reached, or is too busy."""


class StorageUnavailable(RetryLater):
    """The server cannot store anything now: a disk or the database is full, read-only or failing."""

    def __init__(self) -> None:
        super().__init__("the server cannot store anything now; try again later", STORAGE_RETRY_S)


@dataclass(frozen=True, slots=True)
class ErrorRow:
    """How a class of errors is answered. `type` and `code` are OpenAI's words where it has one."""

    status: int
    type: str
    code: str
    headers: Mapping[str, str] = field(default_factory=dict)


_NO_RETRY = {"x-should-retry": "false"}  # the official clients retry 409 and every 5xx otherwise

ERROR_TABLE: Mapping[type[ApiError], ErrorRow] = MappingProxyType(
    {
        BadRequest: ErrorRow(400, "invalid_request_error", "invalid_body"),
        BadField: ErrorRow(400, "invalid_request_error", "invalid_value"),
        MissingField: ErrorRow(400, "invalid_request_error", "missing_required_parameter"),
        UnknownField: ErrorRow(400, "invalid_request_error", "unknown_parameter"),
        DuplicateField: ErrorRow(400, "invalid_request_error", "duplicate_parameter"),
        InvalidImage: ErrorRow(400, "invalid_request_error", "invalid_image"),
        InvalidMedia: ErrorRow(400, "invalid_request_error", "invalid_media"),
        BadUrl: ErrorRow(400, "invalid_request_error", "invalid_url"),
        FieldTooLarge: ErrorRow(413, "invalid_request_error", "field_too_large"),
        Unauthorized: ErrorRow(
            401, "invalid_request_error", "invalid_api_key", {"www-authenticate": 'Bearer realm="reelserve"'}
        ),
        NotFound: ErrorRow(404, "invalid_request_error", "not_found"),
        ModelNotFound: ErrorRow(404, "invalid_request_error", "model_not_found"),
        VideoNotReady: ErrorRow(404, "invalid_request_error", "video_not_ready"),
        VideoFailed: ErrorRow(404, "invalid_request_error", "video_failed"),
        VideoExpired: ErrorRow(404, "invalid_request_error", "video_expired"),
        FileMissing: ErrorRow(404, "invalid_request_error", "file_missing"),
        IllegalMove: ErrorRow(409, "invalid_request_error", "illegal_move", _NO_RETRY),
        IdempotencyKeyReused: ErrorRow(409, "invalid_request_error", "idempotency_key_reused", _NO_RETRY),
        RequestTimeout: ErrorRow(408, "invalid_request_error", "request_timeout"),
        BodyTooLarge: ErrorRow(413, "invalid_request_error", "body_too_large"),
        UnsupportedMediaType: ErrorRow(415, "invalid_request_error", "unsupported_media_type"),
        RangeNotSatisfiable: ErrorRow(416, "invalid_request_error", "range_not_satisfiable"),
        NotSupported: ErrorRow(501, "invalid_request_error", "not_supported", _NO_RETRY),
        PreviewFailed: ErrorRow(500, "server_error", "preview_failed", _NO_RETRY),
        JobFailed: ErrorRow(500, "server_error", "internal_error", _NO_RETRY),
        JobNotStored: ErrorRow(507, "server_error", "storage_failed", _NO_RETRY),
        QueueFull: ErrorRow(429, "rate_limit_error", "queue_full"),
        KeyBusy: ErrorRow(429, "rate_limit_error", "key_limit"),
        TooManyConnections: ErrorRow(503, "server_error", "too_many_connections"),
        NotReady: ErrorRow(503, "server_error", "not_ready"),
        StoreUnavailable: ErrorRow(503, "server_error", "store_unavailable"),
        StorageUnavailable: ErrorRow(507, "server_error", "storage_failed"),
    }
)


def row_of(kind: type[ApiError]) -> ErrorRow:
    """The row of an error class: its own, or that of its nearest ancestor."""
    return next(ERROR_TABLE[base] for base in kind.__mro__ if base in ERROR_TABLE)


def error_body(message: str, type: str, param: str | None, code: str | None) -> dict[str, Any]:  # noqa: A002
    """OpenAI's envelope, safe to encode whatever the message and the name contain."""
    name = None if param is None else clean(param)
    return {"error": {"message": clean(message, MAX_MESSAGE), "type": type, "param": name, "code": code}}


def answer(error: ApiError) -> JSONResponse:
    """The response for an error, headers included."""
    row = row_of(type(error))
    body = error_body(error.message, row.type, error.param, error.code or row.code)
    headers = dict(row.headers)
    if isinstance(error, RangeNotSatisfiable):
        headers["content-range"] = f"bytes */{error.size}"
    if isinstance(error, RetryLater):
        headers["retry-after"] = str(min(max(ceil(error.retry_after_s), 1), MAX_RETRY_AFTER_S))
    return JSONResponse(body, row.status, headers)


def note_code(scope: Scope, code: str) -> None:
    """Leave the code of an answer in the state of its request, where the metrics look for it."""
    scope.setdefault("state", {})[CODE] = code


def refuse(scope: Scope, error: ApiError) -> JSONResponse:
    """`answer` to the request with this scope, its code noted."""
    note_code(scope, error.code or row_of(type(error)).code)
    return answer(error)


def install(app: FastAPI) -> None:
    """Answer every exception that leaves a route of `app` with the envelope."""
    app.add_exception_handler(ApiError, _answer_api_error)
    app.add_exception_handler(RequestValidationError, _answer_validation_error)
    app.add_exception_handler(HTTPException, _answer_http_exception)
    for foreign in (OSError, DBAPIError):
        app.add_exception_handler(foreign, _answer_foreign)
    app.add_exception_handler(Exception, _answer_bug)


async def _answer_api_error(request: Request, error: Exception) -> JSONResponse:
    return refuse(request.scope, cast(ApiError, error))


async def _answer_foreign(request: Request, error: Exception) -> JSONResponse:
    """What the system or the database says, wherever it comes from: storage refuses, or it is a bug."""
    if not is_storage_error(error):
        raise error
    told = {"request_id": request_id.ensure(request.scope), "error": type(error.__cause__ or error).__name__}
    _logger.error("storage refused", extra=told)
    return refuse(request.scope, StorageUnavailable())


async def _answer_validation_error(request: Request, error: Exception) -> JSONResponse:
    """Query and path parameters, the only ones that FastAPI checks itself."""
    problem = cast(RequestValidationError, error).errors()[0]
    name = str(problem["loc"][-1])
    if problem["type"] == "missing":
        return refuse(request.scope, MissingField(name, "is required"))
    wrong = f"{shown(problem['input'])} is not allowed: {problem['msg']}"
    return refuse(request.scope, BadField(name, wrong))


async def _answer_http_exception(request: Request, error: Exception) -> JSONResponse:
    """What the router raises: 404 for an unknown route, 405 with `Allow`."""
    raised = cast(HTTPException, error)
    kind = "invalid_request_error" if raised.status_code < 500 else "server_error"
    message = f"{request.method} {clean(request.scope['path'])}: {raised.detail}"
    code = _PHRASES.get(raised.status_code, "error").lower().replace(" ", "_")
    note_code(request.scope, code)
    headers = {"allow": _allowed(request)} if raised.status_code == 405 else raised.headers
    return JSONResponse(error_body(message, kind, None, code), raised.status_code, headers)


def _allowed(request: Request) -> str:
    """Every method of the path; the router names only those of the first route that it comes to."""
    routes, scope = request.app.router.routes, request.scope
    return ", ".join(
        method
        for method in _METHODS
        if any(route.matches({**scope, "method": method})[0] is Match.FULL for route in routes)
    )


async def _answer_bug(request: Request, error: Exception) -> JSONResponse:
    """Nothing about the bug reaches the client; the trace is logged by the server that re-raises it."""
    known_as = request_id.ensure(request.scope)
    _logger.error("unhandled error", extra={"request_id": known_as, "error": type(error).__name__})
    body = error_body(f"internal error; the request id is {known_as}", "server_error", None, "internal_error")
    # A POST may have made its job before it failed; sent again by the client itself, it would make another.
    no_retry = _NO_RETRY if request.method == "POST" else {}
    return JSONResponse(body, 500, {request_id.HEADER: known_as, **no_retry})
