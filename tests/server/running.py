"""A whole server in this process over a scripted engine: real routes, database and files."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI

from server.app import create_app, running
from server.jobs import JobStatus
from server.services import Services
from tests.databases import url_for
from tests.server.door import CAPABILITIES, make_settings
from tests.server.scripted import ScriptedEngine

WAIT_S = 60


class Server:
    """One run of the server; another one on the same folder is a restart."""

    def __init__(self, app: FastAPI, engine: ScriptedEngine, client: httpx.AsyncClient) -> None:
        self.app = app
        self.services: Services = app.state.services
        self.engine = engine
        self.client = client

    async def post(self, path: str = "/v1/videos", **fields: Any) -> httpx.Response:
        """A small request as JSON; `headers` are its headers."""
        headers = fields.pop("headers", {})
        return await self.client.post(path, json={"prompt": "a red circle"} | fields, headers=headers)

    def change_model(self, **changes: Any) -> None:
        """Its first model, `text`, says these things of itself instead."""
        first, *others = CAPABILITIES.models
        self.engine.capabilities = replace(CAPABILITIES, models=(replace(first, **changes), *others))

    async def begun(self, count: int = 1) -> str:
        """The id of job number `count` on the engine, once it runs."""
        async with asyncio.timeout(WAIT_S):
            while len(self.engine.begun) < count:
                await asyncio.sleep(0.005)
        return self.engine.begun[count - 1]

    async def runs(self, count: int = 1) -> str:
        """The id of job number `count`, once the database knows that it runs."""
        job_id = await self.begun(count)
        async with asyncio.timeout(WAIT_S):
            while (await self.services.store.get(job_id)).status is not JobStatus.IN_PROGRESS:
                await asyncio.sleep(0.005)
        return job_id

    async def waited_for(self, count: int) -> None:
        """Return once `count` requests wait for the one job that is unfinished."""
        job_id = await self.begun()
        async with asyncio.timeout(WAIT_S):
            while (live := self.services.dispatcher.roster.live(job_id)) is None or live.waiters != count:
                await asyncio.sleep(0.005)

    async def finish(self, count: int = 1) -> str:
        """Finish job number `count`; returns its id once the job says so."""
        job_id = await self.begun(count)
        live = self.services.dispatcher.roster.live(job_id)
        self.engine.finish(job_id)
        if live is not None:
            await live.ended.wait()
        return job_id

    async def count(self) -> int:
        """How many jobs there are."""
        jobs, more = await self.services.store.page("", limit=100)
        assert not more
        return len(jobs)


@asynccontextmanager
async def serving(
    data: Path, engine: ScriptedEngine | None = None, /, **sections: Any
) -> AsyncIterator[Server]:
    """A server with its files below `data`; `sections` of the settings as the YAML would have them."""
    engine = engine or ScriptedEngine()
    engine.capabilities = CAPABILITIES
    sections = {"data_dir": data, "store": {"url": url_for(data)}, **sections}
    app = create_app(make_settings(**sections), engine)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with (
        running(app.state.services),
        httpx.AsyncClient(transport=transport, base_url="http://localhost") as client,
    ):
        yield Server(app, engine, client)
