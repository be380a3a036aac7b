"""The page that a browser gets: a form for requests, and the videos made of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from fastapi import APIRouter
from fastapi.responses import FileResponse

from server.echo import shown
from server.errors import NotFound

FOLDER = Path(__file__).parent.parent / "static"
ASSETS = frozenset({"playground.css", "playground.js"})
HEADERS: Mapping[str, str] = MappingProxyType(
    {
        "Content-Security-Policy": "default-src 'self'; media-src 'self' blob:; object-src 'none'; "
        "frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
        "Referrer-Policy": "no-referrer",
        "X-Frame-Options": "DENY",
    }
)
"""The page runs its own script and no other, wherever a prompt that it shows came from."""

router = APIRouter(include_in_schema=False)


@router.get("/")
async def playground() -> FileResponse:
    """The page."""
    return FileResponse(FOLDER / "index.html", headers=dict(HEADERS))


@router.get("/static/{name}")
async def asset(name: str) -> FileResponse:
    """The page's style and script."""
    if name not in ASSETS:
        raise NotFound(f"there is no file {shown(name)}")
    return FileResponse(FOLDER / name, headers=dict(HEADERS))
