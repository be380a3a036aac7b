"""Which of two kinds of answer a client likes better."""

from __future__ import annotations

import pytest

from server.accept import prefers


@pytest.mark.parametrize(
    "accept",
    [
        "application/json",
        "Application/JSON",
        "application/json; charset=utf-8",
        "application/json;q=0.1",
        "text/html, application/json",
        "application/json, */*;q=0.5",
        "video/mp4;q=0.5, application/json;q=0.6",
        "application/json, video/*;q=0.9",
    ],
)
def test_json_is_named_and_liked_better(accept: str) -> None:
    """Alone, or with a greater weight than the file's kind."""
    assert prefers(accept, "application/json", "video/mp4")


@pytest.mark.parametrize(
    "accept",
    [
        "",
        "*/*",
        "application/*",
        "application/json;q=0",
        "application/json;q=0.0, */*",
        "application/json, text/plain, */*",
        "application/json;q=0.9, */*",
        "application/json;q=0.5, video/mp4",
        "application/json;q=0.5, video/*",
        "application/json;q=many",
        "application/jsonp",
        "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
        "application/binary",
    ],
)
def test_the_file_is_the_answer_otherwise(accept: str) -> None:
    """No wildcard asks for JSON, and none of equal or lower weight."""
    assert not prefers(accept, "application/json", "video/mp4")
