"""Files that requests name by URL: fetched from public addresses only, within bounds."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cached_property
from importlib.metadata import version
from ipaddress import ip_address
from typing import TypeGuard

import httpx

from server.addresses import SCHEMES, AddressRefused, check_address
from server.counting import crumbled
from server.echo import shown
from server.errors import BadUrl, FieldTooLarge
from server.outbound import CheckedTransport
from server.sections import UrlSettings
from server.spool import Spool, Upload

PARALLEL = 16
"""Fetches side by side; more wait, within their own time."""
CONNECT_S = 5.0
"""For one address, so that the next one of a host has a chance."""
REDIRECTS = (301, 302, 303, 307, 308)

_UNREACHABLE = "cannot be fetched: its host is not reachable, or not allowed"
"""One answer for both: nobody learns which hosts there are in the operator's network."""
_ODD = re.compile(r"[\x00-\x20\\\x7f]")
_NAME = re.compile(r"([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"([0-9]+|0x[0-9a-f]*)")
_HEADERS = {
    "user-agent": f"reelserve/{version('reelserve')}",
    "accept": "*/*",
    "accept-encoding": "identity",  # what came compressed could grow without bounds
}


class RemoteFiles:
    """Fetches for one server. Sends no cookies and no credentials, and asks no proxy."""

    def __init__(self, settings: UrlSettings) -> None:
        self._settings = settings
        self._places = asyncio.Semaphore(PARALLEL)

    @cached_property
    def _transport(self) -> CheckedTransport:
        """Made when it is first needed: it reads the trusted certificates. Keeps no connection."""
        return CheckedTransport()

    async def fetch(self, url: str, field: str, spool: Spool) -> Upload:
        """Append the file behind an http(s) URL to the spool. `field` is the name that errors carry.

        Raises:
            BadUrl: URLs are not enabled, this one is not allowed, or there is no file to be had from it.
            FieldTooLarge: more than `urls.max_bytes`.
        """
        if not self._settings.enabled:
            raise BadUrl(field, "URLs are not enabled on this server; send a file or a data: URI")
        try:
            async with asyncio.timeout(self._settings.timeout_s), self._places:
                return await self._follow(allowed(url, self._settings), field, spool)
        except TimeoutError:
            limit = f"{self._settings.timeout_s:g} s"
            raise BadUrl(field, f"cannot be fetched: it is not there whole within {limit}") from None
        except UrlRefused as refusal:
            raise BadUrl(field, str(refusal)) from None
        except (AddressRefused, httpx.ConnectError, httpx.ConnectTimeout):
            raise BadUrl(field, _UNREACHABLE) from None
        except httpx.HTTPError:
            raise BadUrl(field, "cannot be fetched: the connection failed before the end") from None

    async def _follow(self, url: httpx.URL, field: str, spool: Spool) -> Upload:
        for _ in range(self._settings.max_redirects + 1):
            async with self._open(url) as response:
                if response.status_code not in REDIRECTS:
                    return await self._take(response, field, spool)
                url = self._next(url, response)
        raise UrlRefused(f"cannot be fetched: more than {self._settings.max_redirects} redirects")

    @asynccontextmanager
    async def _open(self, url: httpx.URL) -> AsyncIterator[httpx.Response]:
        """By the transport itself: a client would add what it finds in the environment, and keep cookies."""
        timeout = httpx.Timeout(None, connect=CONNECT_S)  # the whole has its bound, which has its own words
        request = httpx.Request("GET", url, headers=_HEADERS, extensions={"timeout": timeout.as_dict()})
        response = await self._transport.handle_async_request(request)
        try:
            yield response
        finally:
            await response.aclose()

    def _next(self, url: httpx.URL, response: httpx.Response) -> httpx.URL:
        """Where a redirect leads, if a request may go there."""
        try:
            target = allowed(str(url.join(response.headers.get("location", ""))), self._settings)
        except (UrlRefused, httpx.InvalidURL, ValueError):
            raise UrlRefused("cannot be fetched: it redirects to a place that is not allowed") from None
        if url.scheme == "https" and target.scheme == "http":
            raise UrlRefused("cannot be fetched: it redirects from https to http")
        return target

    async def _take(self, response: httpx.Response, field: str, spool: Spool) -> Upload:
        if response.status_code != httpx.codes.OK:
            raise UrlRefused(f"cannot be fetched: the answer is {response.status_code}, not 200")
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            raise UrlRefused("cannot be fetched: the answer is compressed, though that was not asked for")
        limit, start = self._settings.max_bytes, spool.size
        if _length(response) > limit:
            raise _too_large(field, limit)
        pieces = 0
        async for piece in response.aiter_raw():
            pieces += 1
            if crumbled(pieces, spool.size - start):
                raise UrlRefused("cannot be fetched: it comes in a great many small pieces")
            if spool.size - start + len(piece) > limit:
                raise _too_large(field, limit)
            spool.write(piece)
        return spool.since(start)


def is_remote(url: str | None) -> TypeGuard[str]:
    """Whether this is a URL to be fetched, allowed or not."""
    return url is not None and url[:100].partition(":")[0].lower() in SCHEMES


class UrlRefused(ValueError):
    """A URL that is not fetched, or not further; the message says why, and nothing of our network."""


def allowed(text: str, settings: UrlSettings) -> httpx.URL:
    """The URL to ask for, as far as can be told without resolving its host.

    Raises:
        UrlRefused: the message shows the URL, but no password in it.
    """
    url = _parse(text)
    if url.scheme not in SCHEMES:
        raise UrlRefused(f"{shown(text)} is not allowed; it must start with http:// or https://")
    if url.userinfo:
        raise UrlRefused("a URL with a user name or a password is not allowed")
    host = url.raw_host.decode("ascii").lower().removesuffix(".")
    _check_host(host, text)
    port = {"http": 80, "https": 443}[url.scheme] if url.port is None else url.port
    if port not in settings.ports:
        ports = ", ".join(map(str, settings.ports))
        raise UrlRefused(f"port {port} is not allowed; this server asks ports {ports}")
    if settings.hosts and not any(_covers(pattern, host) for pattern in settings.hosts):
        raise UrlRefused(f"{shown(host)} is not one of the hosts that this server fetches from")
    return url.copy_with(host=host, fragment=None)


def _parse(text: str) -> httpx.URL:
    if odd := _ODD.search(text):
        raise UrlRefused(f"{shown(text)} is not a URL: {shown(odd[0])} is not allowed in one")
    try:
        return httpx.URL(text)
    except (httpx.InvalidURL, ValueError):
        raise UrlRefused(f"{shown(text)} is not a URL") from None


def _check_host(host: str, text: str) -> None:
    """A DNS name, or an address in its usual form: other forms are read differently by different programs."""
    try:
        check_address(ip_address(host))
    except AddressRefused as refusal:
        raise UrlRefused(f"{shown(text)} is not allowed: {refusal}") from None
    except ValueError:
        if _NAME.fullmatch(host) is None or _NUMBER.fullmatch(host.rpartition(".")[2]) is not None:
            raise UrlRefused(f"{shown(text)} is not allowed: it names no host") from None


def _covers(pattern: str, host: str) -> bool:
    """`*.example.com` covers every host below it, any other pattern only itself."""
    return host.endswith(pattern[1:]) if pattern.startswith("*.") else host == pattern


def _length(response: httpx.Response) -> int:
    """What the answer says of itself; the bytes are counted all the same."""
    announced = response.headers.get("content-length", "")
    return int(announced) if announced.isascii() and announced.isdigit() and len(announced) < 20 else 0


def _too_large(field: str, limit: int) -> FieldTooLarge:
    return FieldTooLarge(field, f"a file behind a URL is limited to {limit:,} bytes")
