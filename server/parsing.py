"""One meaning for both dialects: a JSON body or a multipart form becomes a `VideoGenerationRequest`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar
from urllib.parse import quote

from anyio import to_thread
from starlette.requests import Request

from server.body import ACCEPTED, body_type, read_body
from server.errors import BadField, BadRequest
from server.forms import read_form
from server.jsontext import BadJson, read_json_object
from server.meaning import Source, take_video, understand
from server.multipart import read_multipart
from server.schemas import VideoGenerationRequest
from server.settings import ServerSettings
from server.values import Fields

T = TypeVar("T")

INLINE_BYTES = 2**20
"""Larger bodies are read in a thread, so that the event loop goes on."""
MAX_IGNORED_HEADER = 1000


@dataclass(frozen=True, slots=True)
class ParsedRequest:
    """What a body means, and how its fields were called there."""

    request: VideoGenerationRequest
    ignored_fields: tuple[str, ...] = ()
    """Unknown fields, where the operator lets them pass."""
    names: Mapping[str, str] = field(default_factory=dict)
    """The client's name of each field that it gave."""

    @property
    def ignored_header(self) -> str:
        """`ignored_fields` as the value of the header `X-Ignored-Fields`."""
        return ", ".join(quote(name, errors="replace") for name in self.ignored_fields)[:MAX_IGNORED_HEADER]

    @contextmanager
    def as_sent(self) -> Iterator[None]:
        """Within the block, a `BadField` leaves with the client's name of the field."""
        try:
            yield
        except BadField as error:
            error.rename(self.names.get(str(error.param), str(error.param)))
            raise


async def parse_request(request: Request, settings: ServerSettings) -> ParsedRequest:
    """Read the body and give it its meaning.

    Raises:
        UnsupportedMediaType: neither JSON nor a multipart form.
        BodyTooLarge, FieldTooLarge: more than `max_body_bytes`, or text of more than `max_text_bytes`.
        BadRequest, BadField: what cannot be read, and which field is wrong.
    """
    return await _read(request, settings, partial(_understand, settings))


async def parse_edit(request: Request, settings: ServerSettings) -> tuple[ParsedRequest, Source]:
    """`parse_request` for the routes that start from a video, which is in the field `video`.

    Raises:
        MissingField: there is no video. What `parse_request` raises.
    """

    def parse(fields: Fields) -> tuple[ParsedRequest, Source]:
        source, others = take_video(fields)
        return _understand(settings, others), source

    return await _read(request, settings, parse)


async def _read(request: Request, settings: ServerSettings, parse: Callable[[Fields], T]) -> T:
    kind = body_type(request.headers)
    body = await read_body(request, settings.max_body_bytes)

    def work() -> T:
        return parse(_read_json(body) if kind.kind == "json" else _read_form(body, kind.boundary, settings))

    return work() if len(body) <= INLINE_BYTES else await to_thread.run_sync(work)


def _understand(settings: ServerSettings, fields: Fields) -> ParsedRequest:
    meaning = understand(fields, refuse_unknown=settings.unknown_fields == "refuse")
    return ParsedRequest(meaning.request, meaning.unknown, meaning.names)


def _read_form(body: bytes, boundary: bytes, settings: ServerSettings) -> Fields:
    return read_form(read_multipart(body, boundary, settings))


def _read_json(body: bytes) -> Fields:
    if not body:
        raise BadRequest(f"the body is empty; {ACCEPTED}")
    try:
        return Fields(read_json_object(body))
    except BadJson as error:
        hint = "; this looks like a multipart form: name it in Content-Type" if body.startswith(b"--") else ""
        raise BadRequest(f"the body is not valid JSON: {error}{hint}") from None
