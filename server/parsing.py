"""One meaning for both dialects: a JSON body or a multipart form becomes a `VideoGenerationRequest`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from anyio import to_thread
from starlette.requests import Request

from server.body import ACCEPTED, PIECE, body_type, receive
from server.data_uris import BadDataUri, is_data_uri, read_data_uri
from server.errors import BadField, BadRequest
from server.forms import read_form
from server.jsontext import BadJson, read_json_object
from server.meaning import Source, take_video, understand
from server.multipart import FormReader
from server.reference_schemas import ORDERED, REFERENCES, Named, OrderedReference
from server.schemas import VideoGenerationRequest
from server.sections import ServerSettings
from server.spool import Spool, Upload
from server.values import Fields

T = TypeVar("T")

LARGE_BODIES = 1
"""Bodies of more than one piece that are given their meaning side by side: each takes several times its size
in memory, and none of them gets done sooner."""
MAX_IGNORED_HEADER = 1000


@dataclass(frozen=True, slots=True)
class ParsedRequest:
    """What a body means, and how its fields were called there."""

    request: VideoGenerationRequest
    spool: Spool
    """Where its files are; another one may be added."""
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


class RequestReader:
    """Reads bodies and gives them their meaning. One instance a server: it bounds the memory of that."""

    def __init__(self, settings: ServerSettings, folder: Path) -> None:
        """`folder` holds what is too large for memory, and exists when the first request comes."""
        self._settings = settings
        self._folder = folder
        self._large = asyncio.Semaphore(LARGE_BODIES)

    @asynccontextmanager
    async def read(self, request: Request) -> AsyncIterator[ParsedRequest]:
        """What a request asks for. Its files are there within the block.

        Raises:
            UnsupportedMediaType: neither JSON nor a multipart form.
            BodyTooLarge, FieldTooLarge: more bytes than the settings allow.
            BadRequest, BadField: what cannot be read, and which field is wrong.
            OSError: there is no room for the body.
        """
        with Spool(self._folder) as spool:
            yield await self._read(request, spool, partial(self._understand, spool))

    @asynccontextmanager
    async def read_edit(self, request: Request) -> AsyncIterator[tuple[ParsedRequest, Source]]:
        """`read` for the routes that start from a video, which is in the field `video`.

        Raises:
            MissingField: there is no video. What `read` raises.
        """

        def parse(fields: Fields) -> tuple[ParsedRequest, Source]:
            source, others = take_video(fields)
            return self._understand(spool, others), source

        with Spool(self._folder) as spool:
            yield await self._read(request, spool, parse)

    async def _read(self, request: Request, spool: Spool, parse: Callable[[Fields], T]) -> T:
        kind = body_type(request.headers)
        form = FormReader(kind.boundary, self._settings, spool) if kind.kind == "form" else None
        take = spool.write if form is None else form.feed
        limit, patience = self._settings.max_body_bytes, self._settings.read_timeout_s
        received = await receive(request, limit, take, patience)

        def work() -> T:
            return parse(_read_json(spool.since(0).read()) if form is None else read_form(form.parts()))

        if received < PIECE:
            return work()
        async with self._large:
            return await to_thread.run_sync(work)

    def _understand(self, spool: Spool, fields: Fields) -> ParsedRequest:
        meaning = understand(fields, refuse_unknown=self._settings.unknown_fields == "refuse")
        request = meaning.request.model_copy(update=dict(_moved(meaning.request, spool)))
        return ParsedRequest(request, spool, meaning.unknown, meaning.names)


def _moved(request: VideoGenerationRequest, spool: Spool) -> Iterator[tuple[str, object]]:
    """Files that came as long texts, as if they had come as files: the texts would stay in memory."""
    for name in REFERENCES:
        reference = getattr(request, name)
        if isinstance(reference, Named) and (file := _file_in(reference.url, spool)):
            yield name, file
    if request.references is not None:
        yield ORDERED, [_with_file(each, spool) for each in request.references]


def _with_file(reference: OrderedReference, spool: Spool) -> OrderedReference:
    value = getattr(reference, reference.key)
    file = _file_in(value, spool) if isinstance(value, str) else None
    return reference if file is None else reference.model_copy(update={reference.key: file})


def _file_in(uri: str | None, spool: Spool) -> Upload | None:
    """What a long `data:` URI holds; None for any other text."""
    if uri is not None and len(uri) >= PIECE and is_data_uri(uri):
        with suppress(BadDataUri):  # refused where short ones are
            return spool.add(read_data_uri(uri))
    return None


def _read_json(body: bytes) -> Fields:
    if not body:
        raise BadRequest(f"the body is empty; {ACCEPTED}")
    try:
        return Fields(read_json_object(body))
    except BadJson as error:
        hint = "; this looks like a multipart form: name it in Content-Type" if body.startswith(b"--") else ""
        raise BadRequest(f"the body is not valid JSON: {error}{hint}") from None
