"""Headers that make an answer depend on what the client has already (RFC 9110, section 13)."""

from __future__ import annotations

from email.utils import formatdate, parsedate_to_datetime

from starlette.datastructures import Headers


class Validators:
    """What tells one state of a file from another: a strong entity tag, and a time in unix seconds."""

    def __init__(self, tag: str, modified: int) -> None:
        self.etag = f'"{tag}"'
        self.modified = modified

    @property
    def headers(self) -> dict[str, str]:
        return {"ETag": self.etag, "Last-Modified": formatdate(self.modified, usegmt=True)}

    def unchanged(self, request: Headers) -> bool:
        """Whether the client has this state, so that 304 will do."""
        if "if-none-match" in request:
            tags = [tag.strip().removeprefix("W/") for tag in request["if-none-match"].split(",")]
            return "*" in tags or self.etag in tags
        return "if-modified-since" in request and self._is_current(request["if-modified-since"])

    def allow_range(self, request: Headers) -> bool:
        """Whether `If-Range`, where there is one, names this state: only then a part of it is of use."""
        named = request.get("if-range")
        return named is None or named in self.headers.values()

    def _is_current(self, date: str) -> bool:
        try:
            return parsedate_to_datetime(date).timestamp() >= self.modified
        except (ValueError, OverflowError):  # not a date: as if it were not there
            return False
