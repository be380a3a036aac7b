"""Range headers, with the answers that RFC 9110 gives for them."""

from __future__ import annotations

import pytest

from server.errors import RangeNotSatisfiable
from server.ranges import parse_ranges


@pytest.mark.parametrize(
    ("header", "parts"),
    [
        ("bytes=0-1", [(0, 2)]),
        ("bytes=0-0", [(0, 1)]),
        ("bytes=10-", [(10, 100)]),
        ("bytes=-10", [(90, 100)]),
        ("bytes=-500", [(0, 100)]),
        ("bytes=90-5000", [(90, 100)]),
        ("bytes=0-99999999999999999999999999", [(0, 100)]),
        ("Bytes = 0-1", [(0, 2)]),
        ("bytes=0-1,50-59", [(0, 2), (50, 60)]),
        ("bytes= 50-59 , , 0-1", [(50, 60), (0, 2)]),
        ("bytes=0-1,500-600", [(0, 2)]),
        ("bytes=0-9,5-14", [(0, 10), (5, 15)]),
    ],
)
def test_the_parts_that_are_asked_for(header: str, parts: list[tuple[int, int]]) -> None:
    """First and last byte are counted in; a missing first one counts from the end. The order is kept."""
    assert [(part.start, part.stop) for part in parse_ranges(header, 100)] == parts


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "bytes",
        "bytes=",
        "bytes=,",
        "bytes=-",
        "bytes=a-b",
        "bytes=5-1",
        "bytes=0-1,x",
        "bytes=+1-2",
        "bytes=\u0661-\u0662",
        "bytes=1.0-2",
        "lines=0-1",
        "bytes=" + "9" * 5000 + "-",
        "bytes=" + ",".join(["0-0"] * 33),
        "bytes=0-59,0-59",
    ],
)
def test_what_has_no_meaning_or_no_use_is_the_whole_file(header: str | None) -> None:
    """Unreadable, of another unit, too many, or more bytes than the file has."""
    assert parse_ranges(header, 100) == []


@pytest.mark.parametrize("header", ["bytes=100-", "bytes=100-200", "bytes=-0", "bytes=100-,200-"])
def test_bytes_beyond_the_file(header: str) -> None:
    """Refused with the file's size."""
    with pytest.raises(RangeNotSatisfiable) as caught:
        parse_ranges(header, 100)
    assert caught.value.size == 100
