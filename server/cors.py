"""Which pages of other web origins may use the server: none, unless the operator names some."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware

METHODS = ("GET", "HEAD", "POST", "DELETE")
TOLD = (
    "accept-ranges",
    "content-disposition",
    "content-range",
    "etag",
    "idempotent-replayed",
    "openai-poll-after-ms",
    "retry-after",
    "server-timing",
    "www-authenticate",
    "x-ignored-fields",
    "x-request-id",
    "x-should-retry",
    "x-spritesheet-columns",
    "x-spritesheet-rows",
    "x-spritesheet-tiles",
    "x-video-id",
)
"""Headers of answers that such a page may read, beside those that each may."""


def install(app: FastAPI, origins: Sequence[str]) -> None:
    """Answer the questions of browsers that show pages of these origins. Cookies play no part."""
    if origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=METHODS,
            allow_headers=["*"],
            expose_headers=TOLD,
            allow_credentials=False,
        )
