"""Other spellings of our addresses, taken as the one that the routes have."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

PREFIXES = (("/openai/v1/", "/v1/"), ("/videos/", "/v1/videos/"))
"""Where clients with another base URL look, and what they mean by it."""


class CanonicalPathMiddleware:
    """Rewrites paths: no trailing slash, our own prefix. Never a redirect, which would lose the body."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope = {**scope, "path": canonical(scope["path"])}
        await self._app(scope, receive, send)


def canonical(path: str) -> str:
    """`/openai/v1/videos/` → `/v1/videos`."""
    whole = path.rstrip("/") + "/"
    for theirs, ours in PREFIXES:
        if whole.startswith(theirs):
            whole = ours + whole.removeprefix(theirs)
    return whole.rstrip("/") or "/"
