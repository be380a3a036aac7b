"""A client of a stream, in this process: httpx would show it what was sent only when all was."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.types import ASGIApp, Message

WAIT_S = 60


class Listener:
    """Asks once, and notes what comes as it comes."""

    def __init__(self, app: ASGIApp, path: str) -> None:
        self.text = ""
        self._more = asyncio.Event()
        self._asked = False
        self._task = asyncio.create_task(self._listen(app, path))

    async def hears(self, text: str, count: int = 1) -> None:
        """Return when that has come, so many times."""
        async with asyncio.timeout(WAIT_S):
            while self.text.count(text) < count:
                self._more.clear()
                await self._more.wait()

    async def end(self) -> str:
        """All that came, when the server has ended it."""
        async with asyncio.timeout(WAIT_S):
            await self._task
        return self.text

    async def leave(self) -> None:
        """Go away, as a client does whose connection breaks."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _listen(self, app: ASGIApp, path: str) -> None:
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": [(b"host", b"localhost")],
            "client": ("127.0.0.1", 1),
            "server": ("localhost", 80),
        }
        await app(scope, self._receive, self._take)

    async def _receive(self) -> Message:
        if self._asked:
            await asyncio.Event().wait()
        self._asked = True
        return {"type": "http.request", "body": b"", "more_body": False}

    async def _take(self, message: Message) -> None:
        self.text += message.get("body", b"").decode()
        self._more.set()


@asynccontextmanager
async def listening(app: ASGIApp, path: str) -> AsyncIterator[Listener]:
    """One that is gone after the block."""
    listener = Listener(app, path)
    try:
        yield listener
    finally:
        await listener.leave()
