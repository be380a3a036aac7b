"""What can be asked for, as a page. It loads nothing from elsewhere: `/openapi.json` is for viewers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from server.routes.playground import HEADERS

router = APIRouter(include_in_schema=False)

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>reelserve: API</title>
<link rel="stylesheet" href="static/playground.css">
</head>
<body>
<h1>API of reelserve {version}</h1>
<p>All of it, with fields, bounds, examples and errors, is in <a href="openapi.json">openapi.json</a>,
which any viewer of OpenAPI documents shows.</p>
<dl>
{rows}
</dl>
</body>
</html>
"""


@router.get("/docs")
async def docs(request: Request) -> HTMLResponse:
    """Every route with what it does."""
    document = request.app.openapi()
    version = escape(document["info"]["version"])
    return HTMLResponse(_PAGE.format(version=version, rows="\n".join(_rows(document))), headers=dict(HEADERS))


def _rows(document: Mapping[str, Any]) -> Iterator[str]:
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            what = escape(operation.get("description", operation["summary"]))
            yield f"<dt><code>{method.upper()} {escape(path)}</code></dt><dd>{what}</dd>"
