"""What holds for every answer, whatever was asked."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import httpx

ROOT = Path(__file__).parents[2]
LEAKS = re.compile(
    r"Traceback|site-packages|object at 0x|\.py\b"  # the interpreter
    r"|\b(starlette|fastapi|pydantic|sqlalchemy|sqlite3|uvicorn)\b"  # what we are built of
    r"|\b[A-Z]\w*(Error|Exception|Warning)\b"  # a class of it
    rf"|{re.escape(str(ROOT))}|{re.escape(str(Path.home()))}/|/tmp/(pytest|wire)"  # where it lies
)
PLAIN_PAGES = ("/docs", "/openapi.json", "/metrics", "/")
"""Their texts are for people and other programs, and may well contain such words."""


def judge(response: httpx.Response) -> httpx.Response:
    """The response, if it is one that a client can rely on."""
    asked = (response.request.method, str(response.request.url)[:200], response.status_code)
    assert response.status_code < 500 or response.status_code in (501, 503), (asked, response.text[:500])
    assert response.headers["x-request-id"], asked
    if response.status_code == 405:
        assert response.headers["allow"], asked
    if response.request.method == "HEAD":
        assert response.content == b"", asked
    elif response.status_code >= 400:
        error_of(response)
    if response.headers.get("content-type") == "application/json" and response.url.path not in PLAIN_PAGES:
        found = {match.group() for match in LEAKS.finditer(response.text)}
        # An answer may repeat what it was asked for, such as an id that looks like a class.
        assert all(leak in unquote(str(response.request.url)) for leak in found), (asked, found)
    return response


def error_of(response: httpx.Response) -> dict[str, Any]:
    """The error of the envelope, which has exactly these four keys, in a body that is not long."""
    assert response.headers["content-type"] == "application/json", response.text[:300]
    body = json.loads(response.content)
    assert set(body) == {"error"}, body
    error: dict[str, Any] = body["error"]
    assert set(error) == {"message", "type", "param", "code"}, error
    assert all(error[key] for key in ("message", "type", "code")), error
    assert error["param"] is None or isinstance(error["param"], str), error
    assert len(response.content) < 4000, len(response.content)
    return error
