"""The request side of the server behind one small route, and three models to ask for."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from tempfile import gettempdir
from typing import Any
from uuid import uuid4

import httpx
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from pipelines.base import Grid, ModelDefaults, ModelInfo, ModelLimits, ReferenceUse, Task
from server import error_answers
from server.engine.base import Capabilities
from server.model_settings import LimitSettings, ModelSettings
from server.params import Resolved, resolve
from server.parsing import ParsedRequest, RequestReader
from server.request_id import RequestIdMiddleware
from server.settings import Settings
from server.spool import Upload

OFFICIAL = "worst quality, blurry"
File = tuple[str, bytes, str]
"""A form's file: name, bytes, content type."""
Part = tuple[str, str | File]


def model(
    name: str,
    task: Task,
    image: ReferenceUse,
    *,
    experts: int = 2,
    fps: int = 16,
    frames: int = 17,
    aliases: tuple[str, ...] = (),
) -> ModelInfo:
    """A model as a worker would report it; grid of 16 pixels and 4k + 1 frames, up to 230,400 pixels."""
    two = experts == 2
    return ModelInfo(
        id=name,
        aliases=aliases,
        kind="wan",
        task=task,
        image=image,
        last_image=image == "required",
        grid=Grid(temporal=4, spatial=16),
        defaults=ModelDefaults(
            width=160,
            height=96,
            num_frames=frames,
            fps=Fraction(fps),
            num_inference_steps=8,
            guidance_scale=4.0,
            guidance_scale_2=3.0 if two else None,
            boundary_ratio=0.875 if two else None,
            flow_shift=12.0,
            negative_prompt=OFFICIAL,
            max_sequence_length=64,
        ),
        unused={} if two else dict.fromkeys(("guidance_scale_2", "boundary_ratio"), "has one expert"),
        limits=ModelLimits(max_pixels=230_400, max_num_frames=161, max_pixel_frame_steps=10**9),
    )


CAPABILITIES = Capabilities(
    device="cpu",
    models=(
        model("text", "t2v", "none", aliases=("sora-2",)),
        model("picture", "i2v", "required"),
        model("both", "ti2v", "optional", experts=1, fps=24, frames=25),
    ),
    formats=("mp4", "webm", "pt", "safetensors"),
    sound_formats=("mp4", "webm", "pt", "safetensors"),
)


def make_settings(**sections: Mapping[str, object]) -> Settings:
    """Settings with one model that no test loads; `sections` as the YAML would have them."""
    served = ModelSettings(
        id="text",
        kind="wan",
        path="nowhere",
        width=160,
        height=96,
        num_frames=17,
        fps=Fraction(16),
        num_inference_steps=8,
        guidance_scale=4.0,
        limits=LimitSettings(max_pixels=230_400, max_num_frames=161),
    )
    return Settings.model_validate({"models": (served,), **sections})


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came back, and what the route made of the request if it was let in."""

    status: int
    body: Any
    headers: httpx.Headers
    parsed: ParsedRequest | None
    resolved: Resolved | None

    @property
    def error(self) -> dict[str, Any]:
        """The error of the envelope, which has exactly these four keys."""
        assert set(self.body) == {"error"}, self.body
        error: dict[str, Any] = self.body["error"]
        assert set(error) == {"message", "type", "param", "code"}
        return error

    @property
    def values(self) -> dict[str, Any]:
        """The fields that the request was understood to give."""
        assert self.parsed is not None, self.body
        return self.parsed.request.model_dump(exclude_unset=True)

    def file(self, field: str) -> bytes:
        """What a field holds that must be a file. There until the next request."""
        assert self.parsed is not None, self.body
        upload = getattr(self.parsed.request, field)
        assert isinstance(upload, Upload)
        return upload.read()

    @property
    def numbers(self) -> Resolved:
        """What would be made."""
        assert self.resolved is not None, self.body
        return self.resolved


class Door:
    """Sends requests to a real application in this process."""

    def __init__(self, settings: Settings, capabilities: Capabilities = CAPABILITIES) -> None:
        self._settings = settings
        self._capabilities = capabilities
        self._parsed: ParsedRequest | None = None
        self._resolved: Resolved | None = None
        self._open = AsyncExitStack()
        """Keeps the files of the last request, for the test to look at."""
        self._reader = RequestReader(settings.server, Path(gettempdir()))
        self._client = httpx.AsyncClient(
            transport=httpx.ASGITransport(self._make_app(), raise_app_exceptions=False),
            base_url="http://door",
        )

    def _make_app(self) -> FastAPI:
        app = FastAPI()
        error_answers.install(app)
        app.add_middleware(RequestIdMiddleware)
        app.add_api_route("/videos", self._receive, methods=["POST"])
        return app

    async def _receive(self, request: Request) -> Response:
        self._parsed = await self._open.enter_async_context(self._reader.read(request))
        headers = {"X-Ignored-Fields": self._parsed.ignored_header}
        with self._parsed.as_sent():
            self._resolved = resolve(self._parsed.request, self._capabilities, self._settings)
        return Response(b"{}", headers=headers, media_type="application/json")

    async def post(self, content: Any, content_type: str | None, **headers: str) -> Outcome:
        """Send raw content: bytes, or chunks without an announced length."""
        self._parsed = self._resolved = None
        await self._open.aclose()
        if content_type is not None:
            headers["content-type"] = content_type
        answer = await self._client.post("/videos", content=content, headers=headers)
        return Outcome(answer.status_code, answer.json(), answer.headers, self._parsed, self._resolved)

    async def json(self, fields: Mapping[str, Any] | str | bytes) -> Outcome:
        """Send an object, or a text as it is, as JSON."""
        content = fields if isinstance(fields, str | bytes) else json.dumps(fields)
        return await self.post(content, "application/json")

    async def form(self, parts: Iterable[Part]) -> Outcome:
        """Send a multipart form, each part as it is."""
        boundary = uuid4().hex
        content = b"".join(_encode(boundary, name, value) for name, value in parts)
        return await self.post(
            content + f"--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"
        )

    async def both(self, fields: Mapping[str, Any]) -> tuple[Outcome, Outcome]:
        """The same fields as JSON and as the form that the official clients would make of them."""
        return await self.json(fields), await self.form(as_form(fields))

    async def close(self) -> None:
        await self._open.aclose()
        await self._client.aclose()


def as_form(fields: Mapping[str, Any]) -> list[Part]:
    """Text parts: nested keys in brackets, truth values in lower case, nothing for null."""
    return [part for name, value in fields.items() for part in _flatten(name, value)]


def _flatten(name: str, value: Any) -> list[Part]:
    if isinstance(value, Mapping):
        return [part for key, inner in value.items() for part in _flatten(f"{name}[{key}]", inner)]
    if isinstance(value, list):
        return [part for inner in value for part in _flatten(f"{name}[]", inner)]
    text = value if isinstance(value, str) else json.dumps(value)
    return [(name, "" if value is None else text)]


def _encode(boundary: str, name: str, value: str | File) -> bytes:
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"'
    if isinstance(value, str):
        return f"{head}\r\n\r\n".encode() + value.encode("utf-8", "surrogatepass") + b"\r\n"
    filename, data, kind = value
    return f'{head}; filename="{filename}"\r\nContent-Type: {kind}\r\n\r\n'.encode() + data + b"\r\n"


async def ask(door: Door, **fields: Any) -> Outcome:
    """A prompt and `fields`, as JSON; what the form makes of them must be the same."""
    as_json, as_form = await door.both({"prompt": "x", **fields})
    assert as_json.status == as_form.status
    return as_json


async def refused(door: Door, **fields: Any) -> dict[str, Any]:
    """The error, which must be a 400."""
    outcome = await ask(door, **fields)
    assert outcome.status == 400, outcome.body
    return outcome.error
