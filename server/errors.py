"""What a request can meet, and the one table of what is answered; `server.error_answers` does so.

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
├── PageRefused              a browser sends it for a page that may not use this server
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

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from server.echo import clean

STORAGE_RETRY_S = 10


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


class PageRefused(ApiError):
    """A browser sends it for a page that may not use this server."""


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


NO_RETRY = {"x-should-retry": "false"}  # the official clients retry 409 and every 5xx otherwise

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
        PageRefused: ErrorRow(403, "invalid_request_error", "page_refused"),
        NotFound: ErrorRow(404, "invalid_request_error", "not_found"),
        ModelNotFound: ErrorRow(404, "invalid_request_error", "model_not_found"),
        VideoNotReady: ErrorRow(404, "invalid_request_error", "video_not_ready"),
        VideoFailed: ErrorRow(404, "invalid_request_error", "video_failed"),
        VideoExpired: ErrorRow(404, "invalid_request_error", "video_expired"),
        FileMissing: ErrorRow(404, "invalid_request_error", "file_missing"),
        IllegalMove: ErrorRow(409, "invalid_request_error", "illegal_move", NO_RETRY),
        IdempotencyKeyReused: ErrorRow(409, "invalid_request_error", "idempotency_key_reused", NO_RETRY),
        RequestTimeout: ErrorRow(408, "invalid_request_error", "request_timeout"),
        BodyTooLarge: ErrorRow(413, "invalid_request_error", "body_too_large"),
        UnsupportedMediaType: ErrorRow(415, "invalid_request_error", "unsupported_media_type"),
        RangeNotSatisfiable: ErrorRow(416, "invalid_request_error", "range_not_satisfiable"),
        NotSupported: ErrorRow(501, "invalid_request_error", "not_supported", NO_RETRY),
        PreviewFailed: ErrorRow(500, "server_error", "preview_failed", NO_RETRY),
        JobFailed: ErrorRow(500, "server_error", "internal_error", NO_RETRY),
        JobNotStored: ErrorRow(507, "server_error", "storage_failed", NO_RETRY),
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
