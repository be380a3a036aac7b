"""Pages in browsers near the server: they reach what their owners cannot, and no API key keeps them out."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from server.auth.middleware import OPEN_PATHS
from server.echo import shown
from server.error_answers import refuse
from server.errors import PageRefused
from server.sections import ServerSettings

READS = frozenset({"GET", "HEAD", "OPTIONS"})
"""A browser keeps the answers from pages of other origins, and nothing is changed by them."""


class BrowserMiddleware:
    """For servers without keys: answers 403 to what a browser sends for a page that is not ours.

    It says itself for which page it sends (`Sec-Fetch-Site`, `Origin`). A page whose own name was made to
    mean this machine (DNS rebinding) is of the same origin; but its name is in `Host`.
    """

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self._app = app
        self._settings = settings
        self._names = {"localhost", settings.host.lower(), *settings.hosts}
        # Without keys and `allow_public`, it listens on loopback only.
        self._any_name = settings.allow_public and not settings.hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                self._check(scope, Headers(scope=scope))
            except PageRefused as error:
                await refuse(scope, error)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _check(self, scope: Scope, headers: Headers) -> None:
        host = headers.get("host", "")
        if not (self._any_name or scope["path"] in OPEN_PATHS or self._is_ours(host)):
            raise PageRefused(
                f"Host: {shown(host)} is no name of this server: without API keys it goes by addresses, "
                "localhost, server.host and server.hosts",
                code="unknown_host",
            )
        if scope["method"] not in READS and self._is_foreign(headers, host):
            raise PageRefused(
                f"a page of {shown(headers.get('origin', 'another site'))} may not use this server; "
                "server.cors_origins names those that may"
            )

    def _is_ours(self, host: str) -> bool:
        """An address means no other machine, whoever resolves it."""
        try:
            name = (urlsplit(f"//{host}").hostname or "localhost").removesuffix(".")
            if name in self._names or name.endswith(".localhost"):
                return True
            ip_address(name)
        except ValueError:
            return False
        return True

    def _is_foreign(self, headers: Headers, host: str) -> bool:
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        if origin is not None and ({origin, "*"} & set(self._settings.cors_origins)):
            return False
        if site is not None:
            return site not in ("same-origin", "none")
        return origin is not None and origin.partition("://")[2] != host.lower()
