"""Saved bodies that broke other servers, and some too large to save: each is refused in few words."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
import yaml

from server.logs import TextFormatter
from tests.server.raw_forms import END, FORM, GOOD, part
from tests.wire.envelope import error_of, judge

HERE = Path(__file__).parent
ROUTES = ("/v1/videos", "/v1/videos/sync")
PROMPT = "lighthouse"
"""In every body that says anything; no log may repeat it."""
MIB = 2**20


@dataclass(frozen=True)
class Row:
    """A body, what it claims to be, and its answer."""

    file: str
    content_type: str
    status: int
    code: str | None
    param: str | None
    headers: Mapping[str, str] = field(default_factory=dict)


ROWS = [Row(**row) for row in yaml.safe_load((HERE / "corpus.yaml").read_text())]


def check(client: httpx.Client, caplog: pytest.LogCaptureFixture, row: Row, route: str, body: bytes) -> None:
    """The answer is the row's, and what was logged meanwhile is short and says nothing of the body."""
    with caplog.at_level(logging.INFO):
        headers = {"content-type": row.content_type, **row.headers}
        answer = judge(client.post(route, content=body, headers=headers))
    assert answer.status_code == row.status, answer.text[:300]
    if row.status >= 400:
        error = error_of(answer)
        assert (error["code"], error["param"]) == (row.code, row.param)
    for record in caplog.records:
        if record.name.partition(".")[0] not in ("httpx", "httpcore"):  # the client's own
            assert record.exc_info is None, record
            line = TextFormatter().format(record)
            assert len(line) < 400, record
            assert PROMPT not in line, record


def test_the_table_names_every_file() -> None:
    """No body is left out, and none is named that is not there."""
    assert sorted(row.file for row in ROWS) == sorted(
        path.name for path in (HERE / "corpus").iterdir() if not path.name.startswith(".")
    )


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.file)
def test_a_saved_body(client: httpx.Client, caplog: pytest.LogCaptureFixture, row: Row, route: str) -> None:
    """Status, code and the name of the field, as the table has them."""
    check(client, caplog, row, route, (HERE / "corpus" / row.file).read_bytes())


SMALL = b'{"prompt": "lighthouse", '
JSON = "application/json"
BODY, TOO_LARGE = "invalid_body", "body_too_large"
LARGE: list[tuple[Row, Callable[[], bytes]]] = [
    (
        Row("text of 17 MiB", FORM, 413, "field_too_large", "negative_prompt"),
        lambda: GOOD + part(b"negative_prompt", b"x" * 17 * MIB) + END,
    ),
    (
        Row("picture of 33 MiB", FORM, 413, "field_too_large", "image"),
        lambda: GOOD + part(b"model", b"picture") + part(b'image"; filename="a.png', b"x" * 33 * MIB) + END,
    ),
    (Row("JSON of 65 MiB", JSON, 413, TOO_LARGE, None), lambda: b'{"prompt": "' + b"x" * 65 * MIB),
    (Row("form of 65 MiB", FORM, 413, TOO_LARGE, None), lambda: GOOD + b"x" * 65 * MIB),
    (Row("20,000 parts", FORM, 400, BODY, None), lambda: part(b"prompt", b"lighthouse") * 20_000 + END),
    (Row("500,000 delimiters", FORM, 400, BODY, None), lambda: GOOD + b"\r\n--b" * 500_000 + END),
    (Row("nested a million deep", JSON, 400, BODY, None), lambda: SMALL + b'"metadata": ' + b"[" * 10**6),
    (
        Row("a million fields", JSON, 400, BODY, None),
        lambda: SMALL + b",".join(b'"%d":0' % i for i in range(10**6)) + b"}",
    ),
    (
        Row("a million digits", JSON, 400, "invalid_value", "seed"),
        lambda: SMALL + b'"seed": ' + b"9" * 10**6 + b"}",
    ),
    (
        Row("a long name", JSON, 400, "unknown_parameter", "n" * 80 + "… (1,000,000 characters)"),
        lambda: SMALL + b'"' + b"n" * 10**6 + b'": 1}',
    ),
]
"""Made when they are sent, so that a collection of tests does not hold them."""


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(("row", "make"), LARGE, ids=[row.file for row, _ in LARGE])
def test_a_body_too_large_to_save(
    client: httpx.Client,
    caplog: pytest.LogCaptureFixture,
    row: Row,
    make: Callable[[], bytes],
    route: str,
) -> None:
    """Refused like the small ones, by limits that the settings name."""
    check(client, caplog, row, route, make())


def test_what_was_refused_left_nothing(client: httpx.Client) -> None:
    """After all that, no job is there but those of the bodies that mean something, and the next one works."""
    good = sum(row.status == 200 for row in ROWS) * len(ROUTES)
    before = client.get("/v1/videos", params={"limit": 100}).raise_for_status().json()["data"]
    assert len(before) == good
    client.post("/v1/videos/sync", json={"prompt": "x"}).raise_for_status()
