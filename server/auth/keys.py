"""The API keys of a server, and which of them a request carries."""

from __future__ import annotations

import hmac
from collections.abc import Iterator, Sequence

from starlette.datastructures import Headers

from server.auth.settings import KeySettings, digest_of
from server.errors import Unauthorized

WAYS = "send it as `Authorization: Bearer KEY` or as `api-key: KEY`"

_SCHEME = "bearer"


class ApiKeys:
    """Whose request is whose. Holds digests, never a key."""

    def __init__(self, settings: Sequence[KeySettings]) -> None:
        self._names = tuple((entry.digest, entry.name) for entry in settings)

    def __bool__(self) -> bool:
        """Whether there is any; without keys, whoever reaches the server may use it."""
        return bool(self._names)

    def owner(self, headers: Headers) -> str:
        """The name of the key that a request carries; empty where there are no keys.

        Raises:
            Unauthorized: no key, an unknown one, or two that differ.
        """
        if not self._names:
            return ""
        sent = set(_sent(headers))
        if not sent:
            raise Unauthorized(f"an API key is needed; {WAYS}", code="missing_api_key")
        if len(sent) > 1:
            raise Unauthorized("the headers of the request carry two different API keys")
        return self._find(digest_of(sent.pop()))

    def _find(self, digest: bytes) -> str:
        """Compares with every key, whichever fits, so that the time taken tells nothing."""
        name = None
        for known, its_name in self._names:
            if hmac.compare_digest(known, digest):
                name = its_name
        if name is None:
            raise Unauthorized(f"the API key is not known here; {WAYS}")
        return name


def _sent(headers: Headers) -> Iterator[str]:
    """Every key of the request.

    Raises:
        Unauthorized: an `Authorization` of another kind.
    """
    for value in headers.getlist("authorization"):
        scheme, _, key = value.strip().partition(" ")
        if scheme.lower() != _SCHEME or not key.strip():
            raise Unauthorized(f"`Authorization` has no API key; {WAYS}")
        yield key.strip()
    for value in headers.getlist("api-key"):
        if not value.strip():
            raise Unauthorized(f"`api-key` is empty; {WAYS}")
        yield value.strip()
