"""Errors as answers: OpenAI's envelope, for whatever leaves a route."""

from __future__ import annotations

import logging
from http import HTTPStatus
from math import ceil
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
from server.errors import (
    NO_RETRY,
    ApiError,
    BadField,
    MissingField,
    RangeNotSatisfiable,
    RetryLater,
    StorageUnavailable,
    row_of,
)
from server.storage import is_storage_error

MAX_MESSAGE = 2000
MAX_RETRY_AFTER_S = 60
"""Longer waits are not obeyed by the official clients."""

CODE = "error_code"
"""Name of an answer's code in the state of its request."""

_PHRASES = {status.value: status.phrase for status in HTTPStatus}
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")

_logger = logging.getLogger(__name__)


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
    no_retry = NO_RETRY if request.method == "POST" else {}
    return JSONResponse(body, 500, {request_id.HEADER: known_as, **no_retry})
