"""Nobody passes without a key, where there are keys."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from server import logs
from server.auth.keys import ApiKeys
from server.error_answers import refuse
from server.errors import Unauthorized

OPEN_PATHS = frozenset({"/live", "/health"})
"""What a supervisor asks, which has no key."""
PAGE_PATHS = frozenset({"/", "/static/playground.css", "/static/playground.js"})
"""The page: a browser sends no key when it loads one. It holds no data; what it asks for needs the key."""


class ApiKeyMiddleware:
    """Puts the owner of each request into `scope["state"]["owner"]`, or answers 401 before its body is read.

    Knows no routes: a path that nobody thought of is closed. Sees canonical paths.
    """

    def __init__(self, app: ASGIApp, keys: ApiKeys) -> None:
        self._app = app
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in OPEN_PATHS | PAGE_PATHS:
            try:
                owner = self._keys.owner(Headers(scope=scope))
            except Unauthorized as error:
                await refuse(scope, error)(scope, receive, send)
                return
            scope.setdefault("state", {})["owner"] = owner
            logs.bind(key=owner)
        await self._app(scope, receive, send)


def owner_of(request: Request) -> str:
    """Whose request it is: the name of its key, or empty where there are no keys."""
    owner: str = request.state.owner
    return owner


async def _owner_of(request: Request) -> str:  # FastAPI calls others in a thread
    return owner_of(request)


OwnerDep = Annotated[str, Depends(_owner_of)]
